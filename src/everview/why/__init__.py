"""Why a row is in a view, and why another is not.

In reading order:

    block         bags as columns, gathered when they are looked at
    access        rows of one moment, found by some of their columns in what is kept
    linear, groups, blocks, contents    any plan, read backwards
    loops, finals, kept    how rows came into loops, and what operators know of that
    steps         one step back, for each kind of node
    derivation    the answer: a tree of rows
    direct        one turn of a loop in one step
    told          the steps in people's own names
    labels        hashes of values, told as the values
    drawing       trees in terminals and notebooks
    witnesses     several explanations of one row
    other_worlds  whether there may be others in a smaller world
    absence       what a row lacks that is not there
    ask           from a view's row to its derivation
    equations, bdd, likelihood    all derivations at once, and how likely one of them is there
    probability   how likely, as it is told
    expression    expressions that views keep, over rows of tables; `expressions` reads them from a session
    worlds        from a view's row to what it is worth without some rows, or by chance
    direct, labels, same_meaning    straight down a loop; hashes as values; whether two sessions say the same
    expression, expressions    in which worlds a row is there; how that is told
"""
