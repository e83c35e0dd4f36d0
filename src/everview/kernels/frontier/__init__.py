"""Monotone recursion without rounds: one value and one parent for each vertex, repaired where a change cuts a tree.

Start with `forest` (what is kept, and how a step is undone), then `offers` (what an edge says), `repair` (the parts of
an epoch), `trees` (the operator).
"""
