"""Compiled code over raw int64 memory. Kernels see addresses and words, never plans or sessions.

Read in this order:

    memory, times                    words at addresses; a time of any loop depth as one word
    trace                            batches, how they are sorted, merged and searched, and traces of them
    run.scope                        a loop's agenda: which times still have work
    operators                        rows in transit (`stream`, `batcher`), arrange, join, `extend` (many inputs)
    reduce                           one output per key and time: history, interesting times, aggregates, corrections
    frontier, strong                 recursion over edges, and strong components, without rounds
    run.executor                     a whole step: operators and loops; `exchange` for shards
    expressions                      the VM that evaluates row expressions
    once                             programs, joins and groups over whole columns, for one-off queries
    threads                          helper threads, and their private output
    early_exit, guarded_calls, sums  how a kernel exits when memory runs out or a multiplicity overflows
    structures                       what the Python side creates, fills and reads
    build                            how kernels are declared, compiled, cached and loaded

**Records.** A record is a block of words; its fields are numbers with one prefix per record (`BATCH_ROWS`,
`TRACE_COUNT`, `JOIN_LEFT`), declared in the module of its concept as one tuple `= range(n)` that ends with `..._WORDS`,
its size. No name is declared twice in kernels: a mistaken import would be a silent memory error. A test checks all
three.
"""
