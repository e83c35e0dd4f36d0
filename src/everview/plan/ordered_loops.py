"""Evaluation order of loops that cannot be maintained as trees: small values first.

A loop inside another one, and every loop on shards, runs in rounds. If it keeps the least of values that edges
propagate (as decided by `everview.plan.monotone`), the order of the work does not change the result, but the amount of
work:

    labels that spread unchanged     *prioritised*: a label enters by its number of bits. Those that are likely to win
                                     have spread before the others start, and most nodes never receive a losing one
    sums along edges                 *queued*: eight queue positions for each doubling of the sum, so that a node waits
                                     for those that may still bring it nearer (Meyer and Sanders' delta-stepping)

The graph library requests this explicitly (`priority=`, `queued=True`); here it is inferred. Rows enter by priority
where they *start*. The starts are therefore collected into the loop's initial rows, wherever the body has them.

Only integers have such an order. A loop with an explicit priority, or a limit on rounds, is not changed.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

from everview.expr.nodes import ColumnRef
from everview.plan import nodes as plan
from everview.plan.check import free_variables
from everview.plan.loop_ways import NotMonotone, Reading
from everview.plan.monotone import LoopDecision, recognised_in_parts, selection_of
from everview.plan.priority_classes import bits, eighths
from everview.plan.rewrites.traversal import everywhere
from everview.plan.substitute import substituted


def small_first(
    node: plan.Node, arranged: Container[plan.Node] = (), *, sharded: bool = False
) -> tuple[plan.Node, list[LoopDecision]]:
    """The same rows, with inner loops (on shards, all loops) in a good order; and what was done.

    >>> from everview.types import INT
    >>> edge, inside = plan.Table(0, (INT, INT)), plan.Variable(1, 0, (INT, INT))
    >>> known = plan.Variable(2, 0, (INT, INT))
    >>> node, label = ColumnRef(INT, 0), ColumnRef(INT, 1)
    >>> start = plan.Threshold(plan.Project(edge, (label, label)), "distinct")
    >>> heard = plan.Project(plan.Join(known, inside, (0,), (0,)), (ColumnRef(INT, 3), label))
    >>> body = plan.Reduce(plan.Union((heard, start)), (0,), (plan.Aggregate("min", 1, INT),))
    >>> inner = plan.LoopResult(plan.Loop(2, (None,), (body,)), 0)
    >>> outer = plan.LoopResult(plan.Loop(1, (edge,), (inner,)), 0)
    >>> found, done = small_first(outer)
    >>> found.loop.bodies[0].loop.initials[0] == start, str(done[0])
    (True, 'loop: small values first, because labels spread in it unchanged, and the least of them is kept')
    """
    decisions: list[LoopDecision] = []

    def changed(one: plan.Node) -> plan.Node:
        if not isinstance(one, plan.LoopResult) or not (sharded or free_variables(one)):
            return one
        found = _ordered(one)
        if found is None:
            return one
        loop, decision = found
        if decision not in decisions:
            decisions.append(decision)
        return replace(one, loop=loop)

    return everywhere(node, changed, arranged), decisions


def _ordered(result: plan.LoopResult) -> tuple[plan.Loop, LoopDecision] | None:
    loop = result.loop
    if type(loop) is not plan.Loop or loop.priority is not None or loop.max_rounds is not None:
        return None
    try:
        found, _ = recognised_in_parts(result, inside=True)
    except NotMonotone:
        return None
    value = found.value
    if value is None or found.largest or found.state is not None or found.columns[value].kind != "int":
        return None
    own = ColumnRef(found.columns[value].optional(False), value)
    along = {rule.along for rule in found.rules}
    if along == {"same"}:
        started = _started(loop)
        why = "labels spread in it unchanged, and the least of them is kept"
        return replace(started, priority=bits(own)), LoopDecision("small values first", why)
    if along <= {"same", "add"}:
        started = _started(loop)
        why = "sums grow along its edges, and the least of them is kept"
        return replace(started, priority=eighths(own), queued=True), LoopDecision("a queue", why)
    return None


def _started(loop: plan.Loop) -> plan.Loop:
    """The loop with its starts as initial rows, which occur in its body as one collection."""
    selection = selection_of(loop.bodies[0])
    reading = Reading(loop.depth)
    parts = list(reading.parts(selection.union))
    starts = [p for p in parts if not reading.reads(p)]
    ways = [p for p in parts if reading.reads(p)]
    initial = loop.initials[0]
    in_order = selection.columns == tuple(range(len(selection.columns)))
    if initial is not None and in_order and starts == [initial]:
        return loop
    together = starts[0] if len(starts) == 1 else plan.Union(tuple(starts))
    if initial is not None and in_order and initial not in starts:  # it is passed on unchanged, so it stays
        together = plan.Union((together, initial)) if starts else initial
    if not in_order:
        return loop if initial is not None else _from(loop, together, selection.columns)
    body = substituted(loop.bodies[0], {selection.union: plan.Union((*ways, together))})
    return replace(loop, initials=(together,), bodies=(body,))


def _from(loop: plan.Loop, start: plan.Node, columns: tuple[int, ...]) -> plan.Loop:
    return replace(loop, initials=(plan.Project(start, tuple(ColumnRef(start.types[c], c) for c in columns)),))
