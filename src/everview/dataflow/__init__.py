"""Dataflows: plans compiled into operators, and how steps run on them.

In reading order:

    scopes        the root scope and loops, and their times
    streams       rows in transit, with linear operators fused into them
    operators, extend    operators that hold rows, and those that read them
    packed_trace  rows that exist only while somebody reads them
    dataflow      all operators of a session, and how a step runs
    program, traversal, callbacks    the executor's program; dependencies; callbacks into Python
    step_errors, kernel_errors    why a step failed, as errors
    builder       plans to operators, sharing whatever is possible
    linear, joins, reductions, loops    how each kind of plan node is built
    python_operators, windows    computations that kernels delegate to Python
    timing, step_notes, tick_clock    the time that operators and steps take
    thread_pool   helper threads for large operators
    identity, saved_state, operator_matching    state as images, for directories, and how it is identified
    batch_merge   merging the batches of a trace outside it
    replica, superstep   the same dataflow on several shards, run together
    partitioning, commands    placement of rows on shards; build commands as bytes
    pre_aggregation    reducing rows on their shard before they are sent
    frontier, provenance, plan_swap    recursion as trees; labels and nodes; replacing the plan of a live join
    shield, kernel_interrupts    deferred interrupts; stopping a running kernel
    read_leases   reads during a running step
    timed_history, budgets, allocator, batch_arrays    history by duration; shared budgets; allocator statistics
"""
