"""Batches and traces: sorted, immutable runs of updates, and the history of a collection as a short list of them.

Read `batch`, `radix`, `packed` and `sort` (rows become a batch), `merge` (two become one), `trace` (the list), then
`search` and `buckets` (finding keys), `read` (contents at a time), `image` (batches as bytes).
"""
