"""Recursion over edges without differences of joins, in three forms.

*Trees*: one value and one parent for each vertex, repaired where a change cuts a tree. Start with `forest` (what is
kept, and how a step is undone) and `finding` (how it is found), then `offers` (what an edge says), `repair` (the parts
of an epoch), `loading` (all of it at once), `trees` (the operator).

*Histories*: the rounds at which each vertex's value changed, in little memory. `history` (what is kept), `recall` (what
edges say, worked out when needed), `rerun` (what a change makes run again), `dropped` and `budget` (what is not kept),
`histories` (the operator).

*Pairs*: distances between two nodes by two trees that end where they meet. `balls` (trees with a radius), `meeting`
(the best edge between two), `asking` and `settling` (pairs come, go, and are made sure of), `sweeping` (what they leave
behind), `pairs` (the operator).

All have `epochs` (the changes of a step) and `undoing` (its end). `guided` keeps nothing: it searches for one path.
"""
