"""What follows the clock: now(), windows on tables, times to live, watermarks.

Read in this order:

    timed                  conditions on now() that filter, windows on tables, times to live
    truths, clock_columns  conditions on now() whose truth is needed for rows that stay
    watermarks             WATERMARK FOR, EMIT ON WINDOW CLOSE
"""
