"""Sessions: the objects that users work with, and their parts.

Read in this order:

    connecting, opening    `connect`, the entry point
    session            the public interface
    core               the parts, and how they are connected
    table, view        named relations
    changes            from `insert` to a step, and to subscribers
    reads              snapshots, reads during a step, what-if queries
    names              definitions, and the catalog
    clock              rows that appear and disappear as time passes
    inspect, memory    statistics, EXPLAIN, memory accounting
    limits, budget     timeouts and memory limits of calls and graphs
    remote, local_shards    rows encoded elsewhere; shards in one process
    doors              the imports of languages, pipelines, directories and Spark
    relations, history, sql_settings  records behind tables and views; retention; time zone and schemas
    rights             access control
"""
