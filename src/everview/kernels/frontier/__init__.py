"""Recursion over edges without differences of joins, in two forms.

*Trees*: one value and one parent for each vertex, repaired where a change cuts a tree. Start with `forest` (what is
kept, and how a step is undone), then `offers` (what an edge says), `repair` (the parts of an epoch), `trees` (the
operator).

*Histories*: the rounds at which each vertex's value changed, in little memory. `history` (what is kept), `recall` (what
edges say, worked out when needed), `rerun` (what a change makes run again), `dropped` and `budget` (what is not kept),
`histories` (the operator).

Both have `epochs` (the changes of a step) and `undoing` (its end). `guided` keeps nothing: it searches for one path.
"""
