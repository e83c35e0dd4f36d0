"""Clock-dependent SQL: now(), windows on tables, times to live, watermarks.

Read in this order:

    temporal_tables                     conditions on now() that filter, windows on tables, times to live
    temporal_conditions, clock_columns  conditions on now() as values of rows that stay
    watermarks                          WATERMARK FOR, EMIT ON WINDOW CLOSE
"""
