"""One-off queries: computes a plan's rows once over whole columns, without keeping state.

A view arranges what it reads, because changes will come. A one-off query has no use for that: it reads tables in place,
from the batches of their arrangements, and only the columns needed; joins and groups use temporary hash tables. Values
stay codes and expressions run on the same VM as in the dataflow, so the semantics of types, NULLs and decimals are the
same by construction. What is not supported here (loops, windows, Python functions), and every row that fails, is left
to the dataflow (`Elsewhere`), whose result and errors are authoritative.

Read in this order:

    rows         rows as columns, possibly indirect through row numbers; multiplicities
    leaves       the committed batches of an arrangement as columns
    expressions  projections and conditions over columns
    hash_joins   pairs of rows with equal keys
    row_groups   groups, their aggregates, distinct rows
    row_order    the first rows in an order, and the order of results
    early_limit  LIMIT that does not read everything
    demand       which columns of each node are read
    evaluation   a whole plan
"""

from __future__ import annotations
