"""Boolean expressions over base rows, created inside a step: which table rows does a row of a view depend on?

Start with `nodes` (expressions as numbers: equal exactly when they are equivalent), then `operations` (used by joins
and reductions), `labels` (the order of the variables, maintained along a depth-first walk) and `node_storage`
(persistence and garbage collection).

Nothing else in kernels imports this package. The expression VM, reductions and the executor call through addresses, so
an edit here recompiles these files alone.
"""
