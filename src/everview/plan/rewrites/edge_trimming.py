"""Loops that trim edges to strong components: uses hashes as labels.

Labels, initially each node's own name, spread along the edges. An edge whose ends receive different least labels is on
no cycle and is removed; then the same against the edges; until none is removed (the differential dataflow paper's
example of nested loops). What remains is the edges inside strong components, whatever the order of the labels. But the
order determines the work: if names follow the graph (a crawl's, a file's), the least of them win far away and late.
Hashes have no such order, and small ones can spread before the others start. That is what `Graph.scc_edges` does, and
what this rewrite produces from

    one stage    edges whose ends receive the same labels forwards, and the same backwards
    two stages   edges whose ends receive the same labels one way; along those, the same the other way

Why this is the only fixed point: let V be the edges at the fixed point. Every edge inside a component stays, since its
ends are reached from the same nodes. Along V the labels c (forwards) and d (backwards) do not change: with two stages,
one shows that both stages keep the same edges. So c reaches everything that V connects, and d is reached by all of it.
Now c receives backwards no more than itself, so d <= c, and likewise c <= d. So c = d, and V is inside components.

The last step requires that both directions *take the same end of one order*: edges 1 -> 2 survive if least labels go
forwards and largest ones backwards. It also requires that c *has a label backwards*, and d forwards, so it matters
which nodes start: if all sources start forwards and all targets backwards, 1 -> 2 survives again. Such loops are not
rewritten.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field
from typing import Literal

from everview.expr.functions import conjuncts
from everview.expr.nodes import Call, ColumnRef, Expr
from everview.plan import nodes as plan
from everview.plan.check import free_variables
from everview.plan.loop_ways import Chain, NotMonotone, Reading, never_negative
from everview.plan.monotone import recognised
from everview.plan.rewrites.strong_components import bare, edges_inside, take
from everview.plan.rewrites.traversal import everywhere


def with_hashed_labels(node: plan.Node, arranged: Container[plan.Node] = ()) -> plan.Node:
    """The same rows, with loops that trim edges to strong components in a better order.

    >>> from everview.types import INT
    >>> edge = plan.Table(0, (INT, INT))
    >>> back = take(edge, 1, 0)
    >>> def trimmed(inside: plan.Node, edges: plan.Node) -> plan.Node:
    ...     start = plan.Threshold(take(edges, 1, 1), "distinct")
    ...     heard = take(plan.Join(plan.Variable(2, 0, (INT, INT)), inside, (0,), (0,)), 3, 1)
    ...     body = plan.Reduce(plan.Union((heard, start)), (0,), (plan.Aggregate("min", 1, INT),))
    ...     label = plan.LoopResult(plan.Loop(2, (start,), (body,)), 0)
    ...     tagged = plan.Join(plan.Join(edges, label, (0,), (0,)), label, (1,), (0,))
    ...     same = Call(INT, "eq", (ColumnRef(INT, 3), ColumnRef(INT, 5)))
    ...     return take(plan.Filter(tagged, same), 1, 0)
    >>> body = trimmed(trimmed(plan.Variable(1, 0, (INT, INT)), edge), back)
    >>> found = with_hashed_labels(plan.LoopResult(plan.Loop(1, (edge,), (body,)), 0))
    >>> found == edges_inside(edge)
    True
    """
    return everywhere(node, lambda n: _changed(n) if isinstance(n, plan.LoopResult) else n, arranged)


def _changed(result: plan.LoopResult) -> plan.Node:
    loop = result.loop
    if (
        loop.depth != 1
        or len(loop.bodies) != 1
        or len(result.types) != 2
        or not _as_usual(loop)
        or free_variables(result)
    ):
        return result
    start = loop.initials[0]
    if (
        start is None
        or free_variables(result)
        or not never_negative(start)
        or any(t.kind == "float" for t in result.types)
    ):
        return result
    try:
        edges = _Trimming(*bare(start, [0, 1])).edges_of(loop.bodies[0])
    except (_Other, NotMonotone):
        return result
    made = edges_inside(start if edges is None else edges)
    if made.types == result.types:
        return made
    return plan.Project(made, tuple(ColumnRef(t, c) for c, t in enumerate(result.types)))


def _as_usual(loop: plan.Loop) -> bool:
    return type(loop) is plan.Loop and loop.priority is None and loop.max_rounds is None and not loop.queued


class _Other(Exception):
    """Raised for a loop of another form."""


Direction = Literal[1, -1]
"""Along the edges, or against them."""

Starts = frozenset[tuple[str, Direction]]
"""Whose ends start: of all edges, or of those "inside"; sources (1) or targets (-1)."""


@dataclass(frozen=True)
class _Label:
    """Labels that spread along edges inside: those of the loop's variable, or what the first stage left of them."""

    along: Direction
    starts: Starts
    largest: bool
    first: _Stage | None


@dataclass
class _Stage:
    """Edges of a leaf, all edges (columns `ends` of it) or the loop's variable, whose ends receive the same labels.
    `turned`: rows have the target first.
    """

    leaf: plan.Node
    ends: list[int]
    whole: bool
    turned: bool
    labels: list[_Label] = field(default_factory=list)

    def directions(self, of_first: bool) -> set[Direction]:
        return {label.along for label in self.labels if (label.first is not None) == of_first}


class _Leaves(Reading):
    """Reads joins down to what is neither a join, a filter nor a projection, preserving multiplicities."""

    def reads(self, node: plan.Node) -> bool:
        return isinstance(node, plan.Join | plan.Filter | plan.Project)

    def edges(self, node: plan.Node, outputs: tuple[Expr, ...]) -> list[tuple[plan.Node, tuple[Expr, ...]]]:
        return [(node, outputs)]


class _Trimming:
    """Reads the body of a loop whose variable begins with edges: `columns` (source, target) of the rows `edges`."""

    def __init__(self, edges: plan.Node, columns: list[int]) -> None:
        self.edges = edges
        self.columns = columns

    def edges_of(self, body: plan.Node) -> plan.Node | None:
        """The edges that the body selects from; None: the loop's initial ones."""
        last = self.stage(body)
        if last.turned:
            raise _Other
        firsts = [label.first for label in last.labels if label.first is not None]
        if firsts:
            if len(firsts) > 1:
                raise _Other
            (first,) = firsts
            (one, *more), others = last.directions(True), first.directions(False)
            if more or others != {-one} or not last.directions(False) <= others:
                raise _Other
            if not last.whole and (first.whole or not last.directions(False)):
                raise _Other  # edges removed from the variable do not come back, so the stages may converge differently
            labels = [*last.labels, *first.labels]
        else:
            labels = last.labels
        self.check(labels)
        return take(last.leaf, *last.ends) if last.whole else None

    def check(self, labels: list[_Label]) -> None:
        """Check that labels go both ways, are the same end of one order, and where one way ends the other starts."""
        if {label.along for label in labels} != {1, -1} or len({label.largest for label in labels}) != 1:
            raise _Other
        for there in (label.starts for label in labels if label.along == 1):
            for back in (label.starts for label in labels if label.along == -1):
                alike = there == back and len(there) == 1
                if not alike and not (any(end == 1 for _, end in back) and any(end == -1 for _, end in there)):
                    raise _Other

    # ------------------------------------------------------------------------------------------ stages

    def stage(self, node: plan.Node) -> _Stage:
        """A node as one stage: joins of edges with labels of both ends."""
        chain = self.chain(node)
        spans = chain.spans()
        of_labels = [i for i, leaf in enumerate(chain.leaves) if isinstance(leaf, plan.LoopResult)]
        others = [i for i in range(len(chain.leaves)) if i not in of_labels]
        if len(others) != 1 or not of_labels or len(chain.outputs) != 2:
            raise _Other
        place = others[0]
        same = _classes(chain)
        leaf, span = chain.leaves[place], spans[place]
        outputs = [e.index if isinstance(e, ColumnRef) else -1 for e in chain.outputs]
        near, far = (next((c - span[0] for c in span if c == out or {c, out} <= same[c]), -1) for out in outputs)
        stage = self.selected(leaf, near, far)
        source, target = (span[0] + c for c in stage.ends)
        read: dict[plan.Node, list[range]] = {}
        for i in of_labels:
            read.setdefault(chain.leaves[i], []).append(spans[i])
        used: list[set[int]] = []
        for loop, places in read.items():
            label, at, value = self.label(loop)
            if len(places) != 2 or label in stage.labels:
                raise _Other
            for one, other in (places, places[::-1]):
                if {source, one[at]} <= same[source] and {target, other[at]} <= same[target]:
                    break
            else:
                raise _Other
            used.append({one[value], other[value]})
            stage.labels.append(label)
        ends = [{source}, {target}]
        for loop, places in read.items():
            at = self.label(loop)[1]
            for column in (p[at] for p in places):
                (ends[0] if column in same[source] else ends[1]).add(column)
        if {frozenset(c) for c in same.values() if len(c) > 1} != {frozenset(c) for c in (*ends, *used)}:
            raise _Other  # a further equality is required
        return stage

    def chain(self, node: plan.Node) -> Chain:
        (chain,) = _Leaves(0).chains(node)
        return chain

    def selected(self, leaf: plan.Node, near: int, far: int) -> _Stage:
        """A stage that selects from a leaf, and returns these two columns of it."""
        if near < 0 or far < 0 or near == far:
            raise _Other
        if isinstance(leaf, plan.Variable):
            return _Stage(leaf, [0, 1], False, (near, far) == (1, 0))
        if free_variables(leaf) or not never_negative(leaf):
            raise _Other
        turned = self.oriented(leaf, near, far) < 0
        return _Stage(leaf, [far, near] if turned else [near, far], True, turned)

    def oriented(self, node: plan.Node, near: int, far: int) -> Direction:
        """Whether two columns of edges are source and target (1), or target and source (-1)."""
        below, columns = bare(node, [near, far])
        if isinstance(below, plan.Variable):
            if below.depth != 1 or sorted(columns) != [0, 1]:
                raise _Other
            return 1 if columns == [0, 1] else -1
        if below != self.edges or sorted(columns) != sorted(self.columns) or len(set(columns)) != 2:
            raise _Other
        return 1 if columns == self.columns else -1

    # ------------------------------------------------------------------------------------------ labels

    def label(self, result: plan.Node) -> tuple[_Label, int, int]:
        """The labels that a loop spreads, and its columns of nodes and labels."""
        if not isinstance(result, plan.LoopResult) or result.loop.depth != 2 or not _as_usual(result.loop):
            raise _Other
        found = recognised(result, inside=True)
        if found.value is None or found.question or found.state is not None or found.lean or len(found.rules) != 1:
            raise _Other
        (rule,) = found.rules
        if rule.along != "same" or rule.most_in is not None or rule.most_out is not None:
            raise _Other
        inside = found.edges[rule.edges]
        first: _Stage | None = None
        below, columns = bare(inside, [rule.near, rule.far])
        if isinstance(below, plan.Variable):
            along = self.oriented(below, *columns)
        else:
            first = self.stage(take(inside, rule.near, rule.far))
            if any(label.first is not None for label in first.labels):
                raise _Other
            along = -1 if first.turned else 1
        starts = self.starts(found.start, [found.node, found.value], inside, (rule.near, rule.far), along)
        return _Label(along, starts, found.largest, first), found.node, found.value

    def starts(
        self, node: plan.Node, columns: list[int], inside: plan.Node, ends: tuple[int, int], along: Direction
    ) -> Starts:
        """Which ends of which edges start with their own names as labels."""
        found: set[tuple[str, Direction]] = set()
        kept, places = bare(inside, list(ends))
        todo = [(node, columns)]
        while todo:
            part, at = bare(*todo.pop())
            if isinstance(part, plan.Union):
                todo += [(each, at) for each in part.inputs]
            elif at[0] != at[1]:
                raise _Other
            elif part == kept and at[0] in places:
                end: Direction = 1 if at[0] == places[0] else -1
                found.add(("inside", 1 if end == along else -1))
            elif part == self.edges and at[0] in self.columns:
                found.add(("all", 1 if at[0] == self.columns[0] else -1))
            else:
                raise _Other
        return frozenset(found)


def _classes(chain: Chain) -> dict[int, set[int]]:
    """The columns that must equal each column; every condition must be such an equality."""
    pairs = list(chain.joined)
    for condition in (c for each in chain.conditions for c in conjuncts(each)):
        if not isinstance(condition, Call) or condition.op != "eq":
            raise _Other
        pairs.append((condition.args[0], condition.args[1]))
    same = {c: {c} for span in chain.spans() for c in span}
    for a, b in pairs:
        if not isinstance(a, ColumnRef) or not isinstance(b, ColumnRef) or a.type.kind != b.type.kind:
            raise _Other
        together = same[a.index] | same[b.index]
        for c in together:
            same[c] = together
    return same
