"""Reads: what tables and views contain, now, earlier, and if something were different.

Read in this order:

    snapshot           the contents of an arrangement at a time
    contents, followed what tables and views have in common
    guests             reads while a step runs
    shown              rows as text and HTML
    what_if            changes that are made, looked at and undone
"""
