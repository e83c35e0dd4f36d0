"""Expressions over base rows, made inside a step: which rows of tables does a row of a view hang on?

Start with `nodes` (expressions as numbers: equal exactly when they say the same), then `operations` (what joins and
reductions do with them), `labels` (the order of the variables, kept along a depth-first walk) and `keeping` (what is
written of them, and what is forgotten).

Nothing else in kernels imports this folder. The machine for row expressions, reductions and the executor call what they
are given the address of, so an edit here compiles these files alone.
"""
