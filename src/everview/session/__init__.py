"""Sessions: what people hold, and what it is made of.

Read in this order:

    connecting         `connect`, the way in
    session            the public face
    core               the parts, and how they know each other
    table, view        what has a name; `snapshot` is their contents at one time
    transactions       staging changes and running them as steps; `current_rows` is what a transaction sees
    by_key             changes by key: inserts that must be new, upserts, deletes
    subscriptions      what a step changed, for others
    definitions        making and dropping; `catalog` has the names, `entries` what was done, to do it again
    temporal           rows that come and go because a clock moves
    inspect            statistics and explanations
    doors              the way up to languages, pipelines, directories and Spark
"""
