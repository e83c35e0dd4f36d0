"""The least mutually reachable node, computed by strong components instead of all pairs.

    path(X, Y) :- edge(X, Y).      path(X, Z) :- path(X, Y), edge(Y, Z).
    part(X, min(Y)) :- path(X, Y), path(Y, X).

This defines strong components, but it enumerates all pairs of connected nodes: ten billion, in a component of a hundred
thousand. Mutually reachable nodes form one component, whose least node is the least for each of them. Components are
found by two nested loops, in the order of the number of edges (the differential dataflow paper's, as in `Graph.scc`):
labels spread along the edges; an edge whose ends receive different labels is on no cycle and is removed; then the same
against the edges; until none is removed.

It applies if rows of a recursion along one kind of edges E are joined with rows of the same recursion, each end with
the other end, and only the least or largest other end of each end is needed. The recursion starts from

    E itself                 nodes on cycles (also on one of length 1)
    (n, n) for n of N        those of N; alone, if they are on no cycle
    both                     nodes on cycles, and all of N
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from everview.expr.functions import call, conjuncts
from everview.expr.nodes import Call, ColumnRef, Expr, Literal
from everview.plan import nodes as plan
from everview.plan.check import free_variables
from everview.plan.frontier import Frontier
from everview.plan.loop_ways import NotMonotone, never_negative
from everview.plan.monotone import recognised
from everview.plan.priority_classes import bits, bits_of_hash
from everview.plan.rewrites.traversal import everywhere
from everview.types import INT


def with_strong_components(node: plan.Node, arranged: Container[plan.Node] = ()) -> plan.Node:
    """The same rows without all pairs of mutually reachable nodes.

    >>> edge, path = plan.Table(0, (INT, INT)), plan.Variable(1, 0, (INT, INT))
    >>> further = plan.Project(plan.Join(path, edge, (1,), (0,)), (ColumnRef(INT, 0), ColumnRef(INT, 3)))
    >>> body = plan.Threshold(plan.Union((edge, further)), "distinct")
    >>> paths = plan.LoopResult(plan.Loop(1, (None,), (body,)), 0)
    >>> least = plan.Reduce(plan.Join(paths, paths, (0, 1), (1, 0)), (0,), (plan.Aggregate("min", 1, INT),))
    >>> found = with_strong_components(least)
    >>> paths in found.walk(), found.types == least.types
    (False, True)
    """
    return everywhere(node, lambda n: _changed(n, arranged), arranged)


def _changed(node: plan.Node, arranged: Container[plan.Node]) -> plan.Node:
    if not isinstance(node, plan.Reduce) or len(node.keys) != 1 or len(node.aggregates) != 1:
        return node
    (aggregate,) = node.aggregates
    if aggregate.kind not in ("min", "max") or aggregate.column is None:
        return node
    join, columns = _chosen(node.child)
    if not isinstance(join, plan.Join) or free_variables(join):
        return node
    mutual = _mutual(join, arranged)
    if mutual is None:
        return node
    found, one, other = mutual
    ends = {columns[node.keys[0]], columns[aggregate.column]}
    if not any(columns[node.keys[0]] in end for end in (one, other)) or any(ends <= end for end in (one, other)):
        return node
    if not any(columns[aggregate.column] in end for end in (one, other)):
        return node
    starts = _starts(found)
    if starts is None:
        return node
    made = components(_edges(found), starts.nodes, on_cycles=starts.cycles, kind=aggregate.kind)
    return plan.Project(made, (ColumnRef(node.types[0], 0), ColumnRef(node.types[1], 1)))


def _chosen(node: plan.Node) -> tuple[plan.Node, list[int]]:
    """The input of projections that only select columns, and the selected columns; -1: something else."""
    columns = list(range(len(node.types)))
    while isinstance(node, plan.Project):
        places = [e.index if isinstance(e, ColumnRef) else -1 for e in node.exprs]
        columns = [places[c] if c >= 0 else -1 for c in columns]
        node = node.child
    return node, columns


def _mutual(join: plan.Join, arranged: Container[plan.Node]) -> tuple[Frontier, set[int], set[int]] | None:
    """A recursion joined with itself, each end with the other; and the join's columns for each end."""
    width = len(join.left.types)
    sides = [_chosen(side) for side in (join.left, join.right)]
    (left, first), (right, second) = sides
    if not isinstance(left, plan.LoopResult) or left != right or left in arranged or len(join.left_keys) != 2:
        return None
    try:
        found = recognised(left)
    except NotMonotone:
        return None
    plain = found.value is None and len(found.rules) == 1 and len(found.question) == 1 and not found.lean
    if not plain or found.state is not None or found.rules[0].most_in is not None:
        return None
    (start,), end = found.question, found.node
    pairs = {(first[a], second[b]) for a, b in zip(join.left_keys, join.right_keys, strict=True)}
    if pairs != {(start, end), (end, start)}:
        return None
    one = {i for i, c in enumerate(first) if c == start} | {width + i for i, c in enumerate(second) if c == end}
    other = {i for i, c in enumerate(first) if c == end} | {width + i for i, c in enumerate(second) if c == start}
    return found, one, other


@dataclass
class _Starts:
    nodes: list[plan.Node]
    cycles: bool


def _starts(found: Frontier) -> _Starts | None:
    """What a recursion starts from: its edges, and nodes that reach themselves; None if it is something else."""
    rule = found.rules[0]
    (start,) = found.question
    edges, columns = bare(found.edges[rule.edges], [rule.near, rule.far])
    starts = _Starts([], False)
    todo = [(found.start, [start, found.node])]
    while todo:
        part, ends = bare(*todo.pop())
        if isinstance(part, plan.Union):
            todo += [(each, ends) for each in part.inputs]
        elif part == edges and ends == columns:
            starts.cycles = True
        elif -1 not in ends and ends[0] == ends[1]:
            starts.nodes.append(plan.Project(part, (ColumnRef(part.types[ends[0]], ends[0]),)))
        else:
            return None
    return starts


def bare(node: plan.Node, columns: list[int]) -> tuple[plan.Node, list[int]]:
    """The set of rows below projections that select columns, and below `distinct`."""
    while True:
        if isinstance(node, plan.Project):
            places = [e.index if isinstance(e, ColumnRef) else -1 for e in node.exprs]
            if any(places[c] < 0 for c in columns):
                return node, columns
            columns, node = [places[c] for c in columns], node.child
        elif isinstance(node, plan.Threshold) and node.kind == "distinct" and never_negative(node.child):
            node = node.child
        elif isinstance(node, plan.Filter) and all(_is_known(c, columns) for c in conjuncts(node.predicate)):
            node = node.child  # NULL reaches nothing that reaches it
        else:
            return node, columns


def _is_known(condition: Expr, columns: list[int]) -> bool:
    """Whether a condition is only that one of the ends is not NULL."""
    tested = isinstance(condition, Call) and condition.op == "is_not_null" and condition.args[0]
    return isinstance(tested, ColumnRef) and tested.index in columns


def _edges(found: Frontier) -> plan.Node:
    rule = found.rules[0]
    return take(found.edges[rule.edges], rule.near, rule.far)


def take(node: plan.Node, *columns: int) -> plan.Node:
    """Select columns of a plan."""
    if columns == tuple(range(len(node.types))):
        return node
    return plan.Project(node, tuple(ColumnRef(node.types[c], c) for c in columns))


# -------------------------------------------------------------------------------------------- the loops


def components(edges: plan.Node, alone: list[plan.Node], *, on_cycles: bool, kind: plan.AggregateKind) -> plan.Node:
    """(node, least or largest node of its component) of nodes on cycles of edges (near, far), and of `alone`."""
    inside = edges_inside(edges)
    cycles = take(inside, 0)
    known = [*(_without_null(n) for n in alone), cycles]
    wanted = _nodes(known if on_cycles else known[:-1])
    if wanted.types[0].kind == "int":
        return _spread_names(wanted, inside, kind, alone=not on_cycles)
    label = _labels(_nodes(known), inside, depth=1)
    chosen = plan.Join(wanted, label, (0,), (0,))  # node, node, label
    name = plan.Reduce(take(chosen, 2, 0), (0,), (plan.Aggregate(kind, 1, wanted.types[0]),))
    return take(plan.Join(take(chosen, 0, 2), name, (1,), (0,)), 0, 3)


def _spread_names(wanted: plan.Node, inside: plan.Node, kind: plan.AggregateKind, alone: bool) -> plan.Node:
    """The same by names as labels, as in `Graph.scc`: a label that need not be looked up. `alone`: some nodes on cycles
    are not wanted; labels of the others reach them, too. The largest name has the least complement.
    """
    node = ColumnRef(wanted.types[0], 0)
    name = call("coalesce", node, Literal(INT, 0)) if node.type.nullable else node  # it never is NULL
    start = plan.Project(wanted, (node, name if kind == "min" else call("bnot", name)))
    label = _least(start, inside, 1, bits(ColumnRef(INT, 1)))
    if kind == "max":
        label = plan.Project(label, (node, call("bnot", ColumnRef(INT, 1))))
    return take(plan.Join(wanted, label, (0,), (0,)), 0, 2) if alone else label


def edges_inside(edges: plan.Node, rows: plan.Node | None = None, near: int = 0, far: int = 1) -> plan.Node:
    """The edges (near, far) inside strong components, with multiplicities. They may be columns of wider `rows`, which
    are then what is joined: their indexes are shared.
    """
    rows = edges if rows is None else rows
    inside = plan.Variable(1, 0, edges.types)
    body = _trimmed(_trimmed(inside, rows, near, far), rows, far, near)
    return plan.LoopResult(plan.Loop(1, (edges,), (body,)), 0)


def _trimmed(inside: plan.Node, rows: plan.Node, near: int, far: int) -> plan.Node:
    """The edges, read from `near` to `far`, whose ends receive the same label when labels spread along `inside`;
    reversed. The same plan as `Graph.scc_edges`.
    """
    label = _labels(_nodes([take(rows, far)]), inside, depth=2)
    tagged = plan.Join(plan.Join(rows, label, (near,), (0,)), label, (far,), (0,))  # rows, n, label, n, label
    width = len(rows.types)
    same = call("eq", ColumnRef(INT, width + 1), ColumnRef(INT, width + 3))
    return take(plan.Filter(tagged, same), far, near)


def _labels(nodes: plan.Node, edges: plan.Node, depth: int) -> plan.Node:
    """(node, label): the least hash of a node that reaches each along edges, small ones first."""
    of = ColumnRef(nodes.types[0], 0)
    return _least(plan.Project(nodes, (of, call("hash", of))), edges, depth, bits_of_hash(ColumnRef(INT, 1)))


def _least(start: plan.Node, edges: plan.Node, depth: int, priority: Expr) -> plan.Node:
    """(node, label): the least label of a node that reaches each along edges."""
    own = ColumnRef(INT, 1)
    heard = plan.Project(
        plan.Join(plan.Variable(depth, 0, start.types), edges, (0,), (0,)), (ColumnRef(edges.types[1], 3), own)
    )
    if heard.types != start.types:
        heard = plan.Project(heard, tuple(ColumnRef(t, i) for i, t in enumerate(start.types)))
    body = plan.Reduce(plan.Union((heard, start)), (0,), (plan.Aggregate("min", 1, INT),))
    return plan.LoopResult(plan.Loop(depth, (start,), (body,), priority=priority), 0)


def _nodes(parts: list[plan.Node]) -> plan.Node:
    together = parts[0] if len(parts) == 1 else plan.Union(tuple(parts))
    return plan.Threshold(together, "distinct")


def _without_null(node: plan.Node) -> plan.Node:
    (kind,) = node.types
    if not kind.nullable:
        return node
    known = plan.Filter(node, call("is_not_null", ColumnRef(kind, 0)))
    return plan.Project(known, (ColumnRef(kind, 0),))
