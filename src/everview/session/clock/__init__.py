"""What follows the clock: rows that come and go because time passes.

Read in this order:

    clock              the clock, and what a transaction means for its followers
    follower           what every follower has
    lifetimes          times to live, windows
    filters            conditions on now()
    last_rows          the last rows, of each partition
    agenda             which followers have something to do
    flags              conditions on now() of rows that stay
    lookups            rows joined with what another table held when they arrived
    watermarks         event time, late rows, closed windows
    follower_entries   followers as entries of the catalog
"""
