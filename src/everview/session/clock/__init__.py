"""What follows the clock: rows that come and go because time passes.

Read in this order:

    temporal           the clock, and its followers: times to live, windows, conditions on now()
    agenda             which followers have something to do
    flags              conditions on now() of rows that stay
    lookups            rows joined with what another table held when they arrived
    watermarks         event time, late rows, closed windows
    follower_entries   followers as entries of the catalog
"""
