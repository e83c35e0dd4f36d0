"""Row processing: `stream` (expressions, on the way to the next operators), `batcher` and `consolidate` (buffering),
`arrange`, `join`, `extend` (delta joins and worst-case-optimal joins), `activate` (starting loops).
"""
