"""The clock and its followers: rows that appear and disappear as time passes.

Read in this order:

    clock              the clock, and how it extends transactions
    follower           the base class of followers
    lifetimes          times to live, windows
    filters            conditions on now()
    last_rows          the last rows, of each partition
    agenda             which followers are due
    flags              conditions on now() of rows that stay
    lookups            rows joined with another table as it was on their arrival
    watermarks         event time, late rows, closed windows
    follower_entries   followers as entries of the catalog
"""
