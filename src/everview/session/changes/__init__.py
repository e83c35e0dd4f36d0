"""The write path: from `insert` to a step, and from a step to subscribers.

Read in this order:

    turns              how threads share a session; recovery after an interrupted call
    transactions       staging changes and running them as steps
    blocks             `with db.transaction()`, `with db.batch()`, and how they end when they are interrupted
    keys, keyed_changes, current_rows  tables with a key: unique inserts, upserts, deletes
    batch              the changes of one time
    subscriber, subscriptions    change notification
    constraints, defaults, fast_path    integrity; missing values; the fast path of most transactions
"""
