"""Strong components by search: which nodes reach each other, repaired where a change splits or merges components.

Start with `component` (the state, and how a step is undone), then `search` (a search from two ends), `deleted_edges`
(what deleted edges do), `tarjan` (the components of a set of vertices, or of everything), `new_edges` (what new edges
do), `component_labels` (the least label of a component), `components` (the operator).

Vertices are entries of a forest (`everview.kernels.frontier.forest`) and found as there; edges and sources are the
same shared arrangements, read as of an epoch.
"""
