"""Compiled code over raw int64 memory. Kernels know addresses and words, never plans or sessions.

Read in this order:

    memory, times       words at addresses; a time of any loop depth as one word
    trace               batches, how they are sorted, merged and searched, and traces of them
    run.scope           a loop's agenda: which times still have work
    operators           rows on their way (`stream`, `batcher`), arrange, join, joins of many inputs at once (`extend`)
    reduce              one output per key and time: history, interesting times, aggregates, corrections
    run.executor        a whole step: operators and loops; `exchange` for shards
    expressions         the machine that evaluates row expressions
    once                programs, joins and groups over whole columns, for questions that nobody keeps
    threads             a second thread, and what it writes to
    leaving, guarding, sums    how a kernel ends when there is no memory or a number has become too large
    make                what the Python side makes, fills and reads
    build               how kernels are declared, compiled, kept between processes and loaded

**Records.** A record is a block of words; its fields are numbers with one prefix per record (`BATCH_ROWS`,
`TRACE_COUNT`, `JOIN_LEFT`), declared in the file of the idea as one tuple `= range(n)` that ends with `..._WORDS`, its
size. No name is declared twice in kernels: a mistaken import would be a silent memory fault. A test checks all three.
"""
