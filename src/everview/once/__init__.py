"""Questions that are asked once: a plan's rows now, computed over whole columns, with nothing kept.

A view arranges what it reads, because changes will come. A question that nobody keeps has no use for that: here tables
are read where they lie, in the batches of their arrangements, only in the columns that count; joins and groups use hash
tables that are forgotten at once. Values stay codes and expressions run on the same machine as in the dataflow, so the
meaning of types, NULLs and decimals is the same by construction. What is not known here (loops, windows, functions in
Python), and every row that fails, is left to the dataflow (`Elsewhere`), whose answer and errors count.

Read in this order:

    rows         rows as columns, some of them seen through row numbers; how often each row counts
    leaves       the committed batches of an arrangement as columns
    expressions  projections and conditions over columns
    joining      pairs of rows with equal keys
    grouping     groups, their aggregates, distinct rows
    ordering     the first rows in an order, and the order of answers
    early        LIMIT that does not read everything
    demand       which columns of each node are read
    answering    a whole plan
"""

from __future__ import annotations
