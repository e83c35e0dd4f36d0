"""Clock-dependent SQL: now(), windows on tables, times to live, watermarks.

Read in this order:

    timed                  conditions on now() that filter, windows on tables, times to live
    truths, clock_columns  conditions on now() as values of rows that stay
    watermarks             WATERMARK FOR, EMIT ON WINDOW CLOSE
"""
