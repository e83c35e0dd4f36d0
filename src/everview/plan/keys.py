"""Static properties of a plan's rows: which columns identify a row, and what vanishes with a loop's variable.

`starts_as_given` uses both to recognise loops like connected components,

    nodes.iterate(lambda x: min(neighbours of x, nodes))

whose first round from an empty variable yields exactly `nodes`: such a loop may start empty. Its variable is then just
last round's output, which needs no arrangement of its own.
"""

from __future__ import annotations

from collections.abc import Generator

from everview.expr.nodes import ColumnRef, Expr, Udf
from everview.plan import nodes as plan
from everview.plan.deep_recursion import drive, of_node
from everview.plan.frontier import Frontier, StrongLabels
from everview.plan.provenance import Disjunction, Labelled

Keys = frozenset[frozenset[int]]
"""Sets of columns, each of which identifies a row; then no row occurs twice."""

NONE: Keys = frozenset()

KEYS_LOOKED_AT = 4
"""Maximum number of keys of a join that are considered: all combinations of its sides' keys would be many."""


@of_node
def unique_columns(node: plan.Node) -> Generator[plan.Node, Keys, Keys]:
    """Sets of columns that are known to identify a row.

    >>> from everview.types import INT
    >>> table = plan.Table(0, (INT, INT))
    >>> unique_columns(table), [sorted(k) for k in unique_columns(plan.Threshold(table, "distinct"))]
    (frozenset(), [[0, 1]])

    Columns determined by others need not be compared:

    >>> twice = plan.Project(table, (ColumnRef(INT, 0), ColumnRef(INT, 0)))
    >>> sorted(sorted(k) for k in unique_columns(plan.Threshold(twice, "distinct")))
    [[0], [1]]
    """
    if isinstance(node, plan.Table):
        return frozenset({frozenset(node.key)}) if node.key else NONE
    if isinstance(node, plan.Constant):
        once = len(set(node.rows)) == len(node.rows)
        return frozenset({frozenset(range(len(node.types)))}) if once else NONE
    if isinstance(node, plan.Threshold):
        return _distinct(node, (yield node.child)) if node.kind == "distinct" else NONE
    if isinstance(node, (plan.Reduce,)):
        return frozenset({frozenset(range(len(node.keys)))})
    if isinstance(node, Frontier):
        return frozenset({frozenset({*node.question, node.node})})
    if isinstance(node, StrongLabels):
        return frozenset({frozenset({node.node})})
    if isinstance(node, Disjunction):
        return frozenset({frozenset(range(len(node.types) - 1))})
    if isinstance(node, Labelled):
        return frozenset({frozenset({len(node.types) - 1}), frozenset(range(len(node.types) - 1))})
    if isinstance(node, plan.Filter):
        return (yield node.child)
    if isinstance(node, plan.Join):
        return _of_pairs(node, (yield node.left), (yield node.right))
    if isinstance(node, plan.LoopResult):
        return (yield node.loop.bodies[node.index])
    if isinstance(node, plan.Project):
        return _through((yield node.child), node)
    return NONE


def _distinct(node: plan.Threshold, below: Keys) -> Keys:
    """Every row occurs once: all columns identify it, without those that others determine, dropped in either order."""
    given = determined(node.child)
    found = set(below)
    columns = range(len(node.types))
    for order in (columns, reversed(columns)):
        key = set(columns)
        for column in order:
            if any((other, column) in given for other in key - {column}):
                key.remove(column)
        found.add(frozenset(key))
    return frozenset(found)


def _of_pairs(join: plan.Join, left_keys: Keys, right_keys: Keys) -> Keys:
    """The keys of both sides, combined; a join column belongs to the other side, too."""
    width = len(join.left.types)
    same = {r: l for l, r in zip(join.left_keys, join.right_keys, strict=True)}
    right = [{same.get(c, c + width) for c in key} for key in right_keys]
    found = [frozenset({*a, *b}) for a in left_keys for b in right]
    return frozenset(sorted(found, key=sorted)[:KEYS_LOOKED_AT])


Determined = dict[tuple[int, int], Expr]


@of_node
def determined(node: plan.Node) -> Generator[plan.Node, Determined, Determined]:
    """Pairs of columns (i, j) such that j's value is a function of i's, the same in all rows, with that function.

    >>> from everview.types import INT
    >>> sorted(determined(plan.Project(plan.Table(0, (INT, INT)), (ColumnRef(INT, 1), ColumnRef(INT, 1)))))
    [(0, 1), (1, 0)]
    """
    if isinstance(node, plan.Filter | plan.Threshold):
        return (yield node.child)
    if isinstance(node, plan.Union):
        all_of_them = []
        for each in node.inputs:
            all_of_them.append((yield each))
        first, *others = all_of_them
        return {pair: f for pair, f in first.items() if all(other.get(pair) == f for other in others)}
    if not isinstance(node, plan.Project):
        return {}
    below = yield node.child
    found: Determined = {}
    for i, source in enumerate(node.exprs):
        for j, target in enumerate(node.exprs):
            if i == j or not isinstance(source, ColumnRef):
                continue
            if target.columns() == {source.index} and not any(isinstance(e, Udf) for e in target.walk()):
                found[i, j] = target.remap({source.index: ColumnRef(source.type, 0)})
            elif isinstance(target, ColumnRef) and (source.index, target.index) in below:
                found[i, j] = below[source.index, target.index]
    return found


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
    """Whether the node is certainly empty while the variables of the loop at `depth` are."""

    def step(current: plan.Node) -> Generator[plan.Node, bool, bool]:
        if isinstance(current, plan.Variable):
            return current.depth == depth
        if isinstance(current, (plan.LoopResult, plan.Table, plan.Constant)):
            return False
        joins = isinstance(current, plan.Join | plan.MultiJoin)
        for child in current.children():
            if (yield child) == joins:
                return joins
        return not joins

    known: dict[plan.Node, bool] = {}
    return drive(step, node, known)


def starts_as_given(loop: plan.Loop) -> bool:
    """Whether the loop's only variable may start empty, because its first round then yields exactly the initial
    rows."""
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
