"""Recursion over edges without differences of joins, in three forms.

*Trees*: one value and one parent for each vertex, repaired where a change cuts a tree. Start with `forest` (the state,
and how a step is undone) and `finding` (look-ups), then `offers` (what an edge offers), `repair` (the phases of an
epoch), `loading` (bulk construction), `trees` (the operator).

*Histories*: the rounds at which each vertex's value changed, in little memory. `history` (the state), `recall` (what
edges contribute, computed on demand), `rerun` (what a change re-evaluates), `dropped` and `budget` (what is not
stored), `histories` (the operator).

*Pairs*: distances between two nodes by two trees that meet. `balls` (trees with a radius), `meeting` (the best edge
between two), `asking` and `settling` (adding, removing and settling pairs), `sweeping` (garbage collection), `pairs`
(the operator).

All share `epochs` (the changes of a step) and `undoing` (its end). `guided` has no state: it searches for one path.
"""
