"""Strong components as one node, instead of the nested loops that find them.

`StrongLabels` (`everview.plan.frontier`) gives every node of a graph the least label of the nodes that it reaches and
that reach it. It is derived when a view is built, from loops of two forms, whoever wrote them (`Graph.scc`, rules, SQL;
see `everview.plan.rewrites.edge_trimming` and `.strong_components`, which bring them into these forms):

    labels that spread along the edges inside strong components     the node itself
    the edges inside strong components                              the edges whose ends have the same label

The second is joined from the first, with hashes as labels: no two nodes have the same one.

It is never stored in a catalog. Loops stay where the operator cannot run: on shards, inside other loops, where rows may
have a negative multiplicity, and where another view maintains the same loop already.
"""

from __future__ import annotations

from collections.abc import Container

from everview.expr.functions import call, conjunction
from everview.expr.nodes import ColumnRef
from everview.plan import nodes as plan
from everview.plan.check import free_variables
from everview.plan.frontier import Frontier, StrongLabels
from everview.plan.loop_ways import NotMonotone, never_negative
from everview.plan.monotone import LoopDecision, recognised
from everview.plan.rewrites.strong_components import bare, edges_inside, take
from everview.plan.rewrites.traversal import everywhere
from everview.types import INT


def by_search(node: plan.Node, arranged: Container[plan.Node] = ()) -> tuple[plan.Node, list[LoopDecision]]:
    """The same rows with strong components maintained by searches, and the decision if there are any.

    >>> edge = plan.Table(0, (INT, INT))
    >>> found, why = by_search(edges_inside(edge))
    >>> StrongLabels in found.kinds, plan.Loop in found.kinds, str(why[0])[:50]
    (True, False, 'loop: components, because it keeps the least label')
    """
    if plan.LoopResult not in node.kinds:
        return node, []
    found = everywhere(node, _by_labels, arranged)
    found = everywhere(found, _by_edges, arranged)
    made = [n for n in found.walk() if isinstance(n, StrongLabels)]
    return found, [LoopDecision("components", f"it keeps {made[0].describe()}")] if made else []


def _by_labels(node: plan.Node) -> plan.Node:
    """Labels along edges inside components."""
    if not isinstance(node, plan.LoopResult) or not any(_inside(n) is not None for n in node.loop.walk()):
        return node
    try:
        found = recognised(node)
    except NotMonotone:
        return node
    if not _is_plain(found):
        return node
    (rule,) = found.rules
    inside, columns = bare(found.edges[rule.edges], [rule.near, rule.far])
    edges = _inside(inside)
    if edges is None or sorted(columns) != [0, 1] or found.value is None:
        return node
    return _labels(found.start, edges, found.node, found.value, node.types)


def _is_plain(found: Frontier) -> bool:
    """Whether a recursion passes one label on as it is, to everything it reaches, and the least is wanted."""
    if found.value is None or found.question or found.largest or found.lean or len(found.rules) != 1:
        return False
    (rule,) = found.rules
    return rule.along == "same" and rule.most_in is None and rule.most_out is None and rule.states is None


def _by_edges(node: plan.Node) -> plan.Node:
    """The edges inside components: those whose ends have the same label."""
    edges = _inside(node)
    if edges is None:
        return node
    ends = plan.Union((take(edges, 0), take(edges, 1)))
    of = ColumnRef(ends.types[0], 0)
    start = plan.Project(plan.Threshold(ends, "distinct"), (of, call("hash", of)))
    labels = _labels(start, edges, 0, 1, start.types)
    tagged = plan.Join(plan.Join(edges, labels, (0,), (0,)), labels, (1,), (0,))  # ends, node, label, node, label
    same = plan.Filter(tagged, call("eq", ColumnRef(INT, 3), ColumnRef(INT, 5)))
    return plan.Project(same, tuple(ColumnRef(t, c) for c, t in enumerate(node.types)))


def _inside(node: plan.Node) -> plan.Node | None:
    """The edges of a graph, if a node is those inside its strong components."""
    if not isinstance(node, plan.LoopResult) or node.loop.depth != 1 or len(node.loop.bodies) != 1:
        return None
    edges = node.loop.initials[0]
    if edges is None or len(edges.types) != 2 or free_variables(node):
        return None
    if node != edges_inside(edges) and not _over_rows(node, edges):
        return None
    if not never_negative(edges) or any(t.kind == "float" for t in edges.types):
        return None
    known = [call("is_not_null", ColumnRef(t, c)) for c, t in enumerate(edges.types) if t.nullable]
    return plan.Filter(edges, conjunction(known, "and")) if known else edges


def _over_rows(node: plan.Node, edges: plan.Node) -> bool:
    """Whether a node is the edges inside components, where edges are two columns of what is joined."""
    if not isinstance(edges, plan.Project) or not all(isinstance(e, ColumnRef) for e in edges.exprs):
        return False
    near, far = (e.index for e in edges.exprs)  # type: ignore[attr-defined]
    return near != far and node == edges_inside(edges, edges.child, near, far)


def _labels(start: plan.Node, edges: plan.Node, node: int, value: int, types: plan.Types) -> StrongLabels:
    """The node, over the rows that the edges' two columns are taken from: they are shared with other queries."""
    near, far = 0, 1
    while isinstance(edges, plan.Project) and all(isinstance(edges.exprs[c], ColumnRef) for c in (near, far)):
        near, far = (edges.exprs[c].index for c in (near, far))  # type: ignore[attr-defined]
        edges = edges.child
    return StrongLabels(start, edges, near, far, node, value, types)
