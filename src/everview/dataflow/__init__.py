"""Dataflows: plans as operators that run, step by step.

In reading order:

    scopes        the outside and the loops, and their times
    streams       rows on their way, linear operators folded into them
    operators, extend    what keeps rows, and what reads them
    dataflow      all operators of a session, and how a step runs
    program, walks, faults, serving    what the executor runs; what needs what; what went wrong; calls of Python
    builder       plans to operators, with everything shared that can be
    linear, joins, reductions, loops    how each kind of plan node is built
    python_operators, windows    what the kernels ask Python to compute
    team          threads that share large pieces of work
    identity, saved, operator_matching    state as images, for directories, and what it is the state of
    merging       batches of a trace merged outside of it
    replica, superstep   the same dataflow on several shards, run together
    partitioning, commands, frugal    where rows are on shards; what builds a dataflow, as bytes; sending less
    frontier, provenance, swapping    recursion as trees; labels and nodes; another plan for a join that lives
    shield, pressing, failures, lending    interrupts that wait; stopping a kernel; reading beside a step
    lately, budgets, allocator, batch_arrays    history by duration; shared budgets; memory seen from outside
"""
