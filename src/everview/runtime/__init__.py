"""Runtimes: where a session's dataflow runs. Every session *has* a runtime, all with the same small interface.

Read in this order:

    base        the protocol, and the input and outcome of a step
    step_hooks  hooks around every step
    captures    the changes of a step, for subscribers
    spill       state beyond the memory limit, in files
    embedded    the dataflow is in this process
    sharded     the dataflow is in shards; this process keeps a replica of it to read from
    backing, row_samples  storage behind a dataflow; row samples of the driver of shards
"""
