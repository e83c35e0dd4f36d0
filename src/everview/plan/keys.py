"""What can be known about a plan's rows without computing them: which columns identify a row, what vanishes with a
loop's variable.

`starts_as_given` uses both to recognise loops like connected components,

    nodes.iterate(lambda x: min(neighbours of x, nodes))

whose first round from an empty variable says exactly `nodes`: such a loop may start empty, and then its variable is
nothing but last round's output, which needs no arrangement of its own.
"""

from __future__ import annotations

from everview.expr.nodes import ColumnRef
from everview.plan import nodes as plan

Keys = frozenset[frozenset[int]]
"""Sets of columns, each of which identifies a row; then no row occurs twice."""

NONE: Keys = frozenset()


def unique_columns(node: plan.Node) -> Keys:
    """Sets of columns that are known to identify a row.

    >>> from everview.types import INT
    >>> table = plan.Table(0, (INT, INT))
    >>> unique_columns(table), [sorted(k) for k in unique_columns(plan.Threshold(table, "distinct"))]
    (frozenset(), [[0, 1]])
    """
    if isinstance(node, plan.Table):
        return frozenset({frozenset(node.key)}) if node.key else NONE
    if isinstance(node, plan.Threshold):
        return frozenset({frozenset(range(len(node.types)))}) if node.kind == "distinct" else NONE
    if isinstance(node, (plan.Reduce,)):
        return frozenset({frozenset(range(len(node.keys)))})
    if isinstance(node, plan.Filter):
        return unique_columns(node.child)
    if isinstance(node, plan.Project):
        return _through(unique_columns(node.child), node)
    return NONE


def _through(keys: Keys, node: plan.Project) -> Keys:
    places: dict[int, list[int]] = {}
    for at, expr in enumerate(node.exprs):
        if isinstance(expr, ColumnRef):
            places.setdefault(expr.index, []).append(at)
    found: set[frozenset[int]] = set()
    for key in keys:
        if all(c in places for c in key):
            if len(key) == 1:
                (column,) = key
                found.update(frozenset({at}) for at in places[column])
            else:
                found.add(frozenset(places[c][0] for c in key))
    return frozenset(found)


def vanishes(node: plan.Node, depth: int) -> bool:
    """Whether the node is surely empty while the variables of the loop at `depth` are."""
    if isinstance(node, plan.Variable):
        return node.depth == depth
    if isinstance(node, plan.Union):
        return all(vanishes(i, depth) for i in node.inputs)
    if isinstance(node, plan.Join | plan.MultiJoin):
        return any(vanishes(c, depth) for c in node.children())
    if isinstance(node, (plan.LoopResult, plan.Table)):
        return False
    return all(vanishes(c, depth) for c in node.children())


def starts_as_given(loop: plan.Loop) -> bool:
    """Whether the loop's only variable may start empty: its first round then says exactly the initial rows."""
    if len(loop.bodies) != 1 or loop.max_rounds is not None or loop.initials[0] is None:
        return False
    body, initial = loop.bodies[0], loop.initials[0]
    if isinstance(body, plan.Threshold) and body.kind == "distinct":
        needed = frozenset(range(len(body.types)))
    elif isinstance(body, plan.Reduce) and len(body.aggregates) == 1 and body.aggregates[0].kind in ("min", "max"):
        if (*body.keys, body.aggregates[0].column) != tuple(range(len(initial.types))):
            return False
        needed = frozenset(range(len(body.keys)))
    else:
        return False
    union = body.child
    if not isinstance(union, plan.Union) or union.inputs.count(initial) != 1:
        return False
    others = [i for i in union.inputs if i != initial]
    unique = any(key <= needed for key in unique_columns(initial))
    return unique and all(vanishes(i, loop.depth) for i in others)
