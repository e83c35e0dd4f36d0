"""Where a session's dataflow runs. A session *has* a runtime and asks it the same few things wherever that is.

Read in this order:

    base        the protocol, what goes into a step and what comes out of it
    attendance  who is called for every step beside it
    captures    the changes of a step, for those who subscribed to them
    spilling    state beyond the memory that is allowed lies in files
    embedded    the dataflow is in this process
    sharded     the dataflow is in shards; this process keeps a replica of it to read from
    backing, seen         what a dataflow is backed by; what the driver of shards has seen
"""
