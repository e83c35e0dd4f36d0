"""Explanations: why a row is in a view, and why another is not.

In reading order:

    column_blocks  bags as columns, gathered lazily
    access        look-ups in existing arrangements, as of one time
    linear, groups, bulk_reads, contents  any plan, evaluated backwards
    loops, fixed_points, loop_state  how rows entered loops, and what operators record of that
    steps         one step back, for each kind of node
    derivation    the result: a tree of rows
    loop_shortcuts  one round of a loop in one step
    rendering     the steps in terms of user-visible names
    labels        hashes shown as their values
    drawing       trees in terminals and notebooks
    witnesses     several explanations of one row
    other_worlds  whether a smaller world may have others
    absence       what an absent row lacks
    explanation   the entry point: from a view's row to its derivation
    equations, bdd, likelihood    all derivations at once, and their probability
    probability   probabilities as results
    expression    provenance expressions over rows of tables; `readable_expressions` reads them from a session
    worlds        whether a row holds without some rows, and its probability
    provenance_check    whether two sessions agree on where rows come from
"""
