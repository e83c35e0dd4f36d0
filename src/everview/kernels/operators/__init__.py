"""What happens to rows: `stream` (expressions, on the way to the next operators), `batcher` and `consolidate` (where
they wait), `arrange`, `join`, `extend` (delta joins and worst-case-optimal joins), `activate` (a loop is told of a
change).
"""
