"""One-off queries: programs, joins and groups over whole columns, without state.

Columns are arrays of int64 codes, given by address, because a table's column is read in place from a trace's batch.
Nothing here allocates, so nothing can fail; the caller provides the output space.

    columns        expressions and conditions over columns, some of them seen through row numbers
    hash_join      pairs of rows with equal keys
    group_numbers  numbers for groups of equal rows; totals and extremes of groups
"""
