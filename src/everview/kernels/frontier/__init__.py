"""Recursion over edges without differences of joins, in four forms.

*Trees*: one value and one parent for each vertex, repaired where a change cuts a tree. Start with `forest` (the state,
and how a step is undone) and `vertex_lookup` (look-ups), then `offers` (what an edge offers), `repair` (the phases of
an epoch), `load_block`, `queue_walk` and `bulk_load` (bulk construction), `trees` (the operator).

*Histories*: the rounds at which each vertex's value changed, in little memory. `history` (the state),
`edge_contributions` (what edges contribute, computed on demand), `reevaluation` (what a change re-evaluates), `dropped`
and `budget` (what is not stored), `histories` (the operator).

*Pairs*: distances between two nodes by two trees that meet. `balls` (trees with a radius), `pair_distance` (the best
edge between two), `pair_changes` and `pair_settlement` (adding, removing and settling pairs), `ball_garbage` (garbage
collection), `pairs` (the operator).

*Levels*: how many edges each vertex is away, four bits each. `levels` (the state), `level_repair` (the phases of an
epoch), `level_rows` (the operator, and rows for readers).

All share `epochs` (the changes of a step) and `rollback` (its end). `landmark_search` has no state: it searches for one
path.
"""
