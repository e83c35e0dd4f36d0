"""Changes: from `insert` to a step, and from a step to subscribers.

Read in this order:

    turns              how threads share a session, and what a call that is cut off leaves
    transactions       staging changes, and running them as steps
    keys, by_key, current_rows    tables with a key: inserts that must be new, upserts, deletes
    batch              what changed at one time
    subscriber, subscriptions    who is told
    constraints, defaults, short_way    what must hold; what nobody gives; most transactions
"""
