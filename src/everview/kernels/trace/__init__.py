"""Batches and traces: sorted, immutable runs of updates, and the history of a collection as a short list of them.

Read `batch`, `radix`, `row_packing`, `packed`, `wide_sort` and `sort` (rows become a batch), `merge` (two become one),
`trace` (the list), then `search`, `buckets` and `prefetch` (finding keys), `read` and `key_lookup` (contents at a time,
rows under a key), `deletions` (refused if there is nothing to delete), `image` (batches as bytes), `spill` (batches in
files).
"""
