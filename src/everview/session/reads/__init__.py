"""Reads: the contents of tables and views, now, in the past, and hypothetically.

Read in this order:

    snapshot           the contents of an arrangement at a time
    contents, subscribable    what tables and views have in common
    concurrent_reads   reads during a step
    keyed              look-ups by key, prepared once
    rendering          rows as text and HTML
    what_if            hypothetical changes
"""
