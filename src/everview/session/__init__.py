"""Sessions: what people hold, and what it is made of.

Read in this order:

    connecting, opening    `connect`, the way in
    session            the public face
    core               the parts, and how they know each other
    table, view        what has a name
    changes            from `insert` to a step, and to subscribers
    reads              snapshots, reads while a step runs, what if
    names              definitions, and the catalog
    clock              rows that come and go because time passes
    inspect, memory    statistics, explanations, who holds how much memory
    limits, budget     how long a call may take, how much memory it may use
    remote, local_shards    rows encoded elsewhere; shards in one process
    doors              the way up to languages, pipelines, directories and Spark
    relations, history, spoken    what tables and views are made of; how far back; time zone and schemas
    rights             who may do what
"""
