"""Questions that are asked once: programs, joins and groups over whole columns, nothing of which is kept.

Columns are arrays of int64 codes. They are given by their addresses, because a column of a table is read where it lies:
in a trace's batch. Nothing here allocates, so nothing can fail; the caller brings room for what is found.

    columns    expressions and conditions over columns, some of them seen through row numbers
    matching   pairs of rows with equal keys
    grouping   numbers for groups of equal rows; totals and extremes of groups
"""
