"""Loops as dataflow: a scope, an operator for each variable, and feedback.

Inside a loop, times have a further coordinate, the round. A variable's value in round n + 1 is its body's output of
round n. In round 0 it is the initial rows, which are retracted a round later because the body has taken over. The body
is built like any plan, with the variables bound; parts that read no variable are built outside.

Rounds end at the fixed point. The limit is for loops that have none.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from everview.dataflow.operators import Activate, Arrange, Arrangement, Reduce, columns
from everview.dataflow.reductions import kinds
from everview.dataflow.scopes import Scope, deeper
from everview.dataflow.streams import Flow, Route, last_in_queue, queue_shift, reordered
from everview.expr.nodes import ColumnRef
from everview.plan import nodes as plan
from everview.plan.check import free_variables
from everview.plan.keys import starts_as_given

if TYPE_CHECKING:
    from everview.dataflow.builder import Builder
    from everview.dataflow.identity import Purpose

DEFAULT_ROUNDS = 1_000_000
"""Rounds after which a loop without max_rounds is considered divergent."""


_numbers = itertools.count()


class LoopBuild:
    """A loop under construction or built: its scope, and the operators of its variables."""

    def __init__(self, scope: Scope, purpose: Purpose) -> None:
        self.number = next(_numbers)
        """its permanent identifier: unlike its id, it is never reused"""
        self.scope = scope
        self.purpose = purpose
        self.variables: list[Arrangement] = []
        self.entered: dict[plan.Node, Flow] = {}
        """collections that enter the loop by priority"""


def variable(builder: Builder, node: plan.Variable) -> Flow:
    """The contents of a loop variable in the current round."""
    arrangement = builder.enclosing[node.depth].variables[node.index]
    return columns(arrangement.operator, node.types, arrangement.order, arrangement.delay)


def result(builder: Builder, node: plan.LoopResult) -> Flow:
    """The output of a loop's body in its last round: the sum of its differences over all rounds, so only times
    change."""
    key = builder.key(node.loop)
    if key in builder.loops and not _can_tell(builder, builder.loops[key], node):
        builder.retired_loops.append(builder.loops.pop(key))
    _loop(builder, node.loop)
    build = builder.loops[key]
    outside = build.scope.parent
    assert outside is not None
    with _inside(builder, build, node.loop.depth):
        flow = builder.flow(node.loop.bodies[node.index])
    return tuple(replace(b, scope=outside) if build.scope.contains(b.scope) else b for b in flow)


def _can_tell(builder: Builder, build: LoopBuild, node: plan.LoopResult) -> bool:
    """Whether a running loop can replay its result to a new reader: its output operator holds its rows, or they can be
    recomputed from variables that do.
    """
    with _inside(builder, build, node.loop.depth):
        found = builder.flows.get(builder.key(node.loop.bodies[node.index]))
    kept = all(v.operator.replayable or not v.operator.old for v in build.variables)
    return kept or (found is not None and builder.sharable(found))


@contextmanager
def _inside(builder: Builder, build: LoopBuild, depth: int) -> Iterator[None]:
    """Bind the loop's variables."""
    outer, builder.enclosing = builder.enclosing, {**builder.enclosing, depth: build}
    try:
        yield
    finally:
        builder.enclosing = outer


def _loop(builder: Builder, loop: plan.Loop) -> None:
    if builder.key(loop) in builder.loops:
        return
    with builder.making(loop):
        _build(builder, loop)


def _build(builder: Builder, loop: plan.Loop) -> None:
    key = builder.key(loop)
    parent = builder.dataflow.root
    for depth, _ in free_variables(loop):
        parent = deeper(parent, builder.enclosing[depth].scope)
    scope = Scope(parent, levels=_levels(loop) if parent.is_root else 0)
    build = LoopBuild(scope, builder.purpose(loop))
    initials = [None if i is None else builder.flow(i) for i in loop.initials]
    if loop.priority is not None and loop.initials[0] is not None and initials[0] is not None:
        build.entered[loop.initials[0]] = _enter(builder, initials[0], loop, scope)
    if starts_as_given(loop):
        initials = [None]
    with _inside(builder, build, loop.depth):
        for index, body in enumerate(loop.bodies):
            build.variables.append(_variable(builder, loop, index, body, scope, initials[index] is None))
        builder.loops[key] = build
        try:
            bodies = [builder.flow(body) for body in loop.bodies]
            _close(builder, loop, build, initials, bodies)
        except BaseException:
            builder.loops.pop(key, None)
            raise
    builder.dataflow.add_loop(scope)


def _enter(builder: Builder, initial: Flow, loop: plan.Loop, scope: Scope) -> Flow:
    """Rows that enter a prioritised loop: each at the coordinate (its priority, 0)."""
    assert loop.initials[0] is not None
    types = loop.initials[0].types
    operator = Arrange(builder.dataflow, scope, len(types), stateless=True, label="by priority")
    operator.listen(initial, Route(priority=loop.priority, queued=loop.queued))
    return columns(operator, types, tuple(range(len(types))))


def _variable(builder: Builder, loop: plan.Loop, index: int, body: plan.Node, scope: Scope, empty: bool) -> Arrangement:
    """The arrangement of a loop variable.

    A variable that starts empty and whose body is a reduction is that reduction's output, read a round later. Any other
    is an operator of its own: arranged for the first join that needs it, else only consolidated.
    """
    variable = plan.Variable(loop.depth, index, body.types)
    keys = _wanted_keys(loop.bodies, variable)
    order = plan.keys_first(keys or (), len(body.types))
    early_output = _early_output(builder, loop, body, scope, order, keys) if empty else None
    if early_output is not None:
        arrangement = early_output
    else:
        operator = Arrange(builder.dataflow, scope, len(order), stateless=keys is None, label=f"variable {index}")
        arrangement = Arrangement(operator, order)
    if keys is not None:
        builder.arrangements[builder.key(variable)] = [arrangement]
    return arrangement


def _early_output(
    builder: Builder,
    loop: plan.Loop,
    body: plan.Node,
    scope: Scope,
    order: tuple[int, ...],
    keys: tuple[int, ...] | None,
) -> Arrangement | None:
    """Create the output of the body's reduction before its input, for the variable to read."""
    reduces = isinstance(body, plan.Threshold) or (isinstance(body, plan.Reduce) and len(kinds(body)) == 1)
    if (
        not reduces
        or keys is None
        or loop.at_limit == "stop"
        or loop.queued
        or loop.depth not in {d for d, _ in free_variables(body)}
    ):
        return None
    if len(loop.bodies) > 1:  # another variable's join may run after this output's next delta replaced the last
        return None
    if isinstance(body, plan.Reduce):
        counts = body.aggregates[0].kind == "count_distinct"
        if counts or order != tuple(range(len(order))):
            return None
    count = len(body.keys) if isinstance(body, plan.Reduce) else len(order)
    operator = Reduce(builder.dataflow, scope, count, len(order))
    builder.early_outputs[builder.key(body)] = Arrangement(operator, order)
    return Arrangement(operator, order, delay=scope.unit)


def _close(
    builder: Builder, loop: plan.Loop, build: LoopBuild, initials: Sequence[Flow | None], bodies: Sequence[Flow]
) -> None:
    """Connect the variables to their initial rows and to the bodies' output of the previous round."""
    scope = build.scope
    rounds = loop.max_rounds
    stop = loop.at_limit == "stop" and rounds is not None
    most = (1 << scope.bits) - 2
    limit = most if loop.priority is not None and rounds is None else min(rounds or DEFAULT_ROUNDS, most)
    scope.limit = limit
    if loop.queued:  # this many rounds after the last priority has begun
        scope.limit = limit = min(DEFAULT_ROUNDS + (last_in_queue(scope) << queue_shift(scope)), most)
    round_again = Route(add=scope.unit, rounds=limit, stop_at_limit=stop)
    for variable, initial, body in zip(build.variables, initials, bodies, strict=True):
        if variable.delay:
            Activate(builder.dataflow, variable, scope, limit * scope.unit)
            continue
        order = variable.order
        operator = variable.operator
        if loop.queued and loop.priority is not None:
            wait = loop.priority.remap({c: ColumnRef(loop.bodies[0].types[c], i) for i, c in enumerate(order)})
            round_again = replace(round_again, priority=wait, queued=True)
        operator.listen(reordered(body, order), round_again)
        if initial is not None:
            # one round later the body has taken over from the initial rows
            first = reordered(next(iter(build.entered.values()), initial), order)
            operator.listen(first, Route(rounds=limit, stop_at_limit=stop, queued=loop.queued))
            operator.listen(tuple(b.negate() for b in first), round_again)


def _wanted_keys(bodies: Sequence[plan.Node], variable: plan.Variable) -> tuple[int, ...] | None:
    """Key columns of a join that reads the variable directly, if there is one."""
    for body in bodies:
        for node in body.walk():
            if isinstance(node, plan.MultiJoin) and variable in node.inputs:
                return tuple(range(len(variable.types)))
            if isinstance(node, plan.Join):
                for side, keys in ((node.left, node.left_keys), (node.right, node.right_keys)):
                    if side == variable:
                        return tuple(dict.fromkeys(keys))
    return None


def _levels(loop: plan.Loop) -> int:
    """The nesting depth from this loop inwards."""
    below = 0
    for body in loop.bodies:
        for node in body.walk():
            if isinstance(node, plan.Loop):
                below = max(below, _levels(node))
    return 1 + below
