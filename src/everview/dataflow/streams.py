"""Streams and sinks, Python side: see `everview.kernels.operators.stream` for what they do.

The builder works with *flows*: branches, each of which reads the stream of one operator through a predicate,
expressions, a sign and a delay. Linear operators only change those, so a chain of them is fused into one program, which
runs where the rows arrive (`Sink`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from everview.dataflow.scopes import Scope, time_change
from everview.errors import PlanError
from everview.expr.lower import lower
from everview.expr.nodes import Call, Expr
from everview.kernels import structures
from everview.kernels.operators import stream as k
from everview.types import BOOL, DataType

if TYPE_CHECKING:
    from everview.dataflow.operators import Operator

EncodeLiteral = Callable[[DataType, Any], int]


@dataclass(frozen=True)
class Branch:
    """Rows of one operator's stream, linearly transformed: filtered, projected, negated, or delayed by a round.

    `scope` is where the rows are read: the producer's, or an enclosing one for a loop's result.
    """

    producer: Operator
    scope: Scope
    exprs: tuple[Expr, ...]
    predicate: Expr | None = None
    sign: int = 1
    """factor of each row's multiplicity"""
    delay: int = 0

    def project(self, exprs: tuple[Expr, ...]) -> Branch:
        mapping = dict(enumerate(self.exprs))
        moved = tuple(e.remap(mapping) for e in exprs)
        hash(moved)  # cached, see `filter`
        return replace(self, exprs=moved)

    def filter(self, predicate: Expr) -> Branch:
        condition = predicate.remap(dict(enumerate(self.exprs)))
        if self.predicate is not None:
            condition = Call(BOOL.optional(), "and", (self.predicate, condition))
        hash(condition)  # cached: computed step by step, this avoids deep recursion later
        return replace(self, predicate=condition)

    def negate(self) -> Branch:
        return replace(self, sign=-self.sign)

    @property
    def depth(self) -> int:
        """The call depth of its program."""
        return deepest(self.exprs, self.predicate)


def deepest(exprs: tuple[Expr, ...], predicate: Expr | None) -> int:
    """The call depth of an expression."""
    return max((e.depth for e in (*exprs, *([predicate] if predicate is not None else []))), default=0)


Flow = tuple[Branch, ...]
"""A collection in transit: the union of branches."""

MOST_OFTEN = 2**62
"""Maximum multiplicity factor of a branch."""


def united(flows: Iterable[Flow]) -> Flow:
    """All branches of some flows; equal ones are merged, adding their signs."""
    found: dict[tuple[object, ...], Branch] = {}
    for flow in flows:
        for branch in flow:
            alike = (branch.producer, branch.scope, branch.exprs, branch.predicate, branch.delay)
            first = found.get(alike)
            found[alike] = branch if first is None else replace(first, sign=first.sign + branch.sign)
    if any(abs(branch.sign) > MOST_OFTEN for branch in found.values()):
        raise PlanError(
            "E_OVERFLOW",
            "a union takes the same rows more than 2**62 times, which nobody can count",
            "take them fewer times, or make rows distinct in between",
        )
    return tuple(b for b in found.values() if b.sign) or tuple(found.values())  # a flow has at least one branch


def reordered(flow: Flow, order: tuple[int, ...]) -> Flow:
    """The flow with its columns in this order."""
    return tuple(replace(b, exprs=tuple(b.exprs[c] for c in order)) for b in flow)


@dataclass(frozen=True)
class Route:
    """What a sink does besides the branch's own program."""

    add: int = 0
    """added to every time: one round, for feedback in a loop"""
    priority: Expr | None = None
    """over the branch's columns: lifts the loop coordinate to (priority, 0)"""
    queued: bool = False
    """the loop is queued: its coordinates are divided by `queue_shift`"""
    rounds: int = -1
    """maximum number of rounds of the loop; -1: unlimited"""
    stop_at_limit: bool = False
    accumulators: tuple[tuple[int, int], ...] = ()
    """(kind, branch column or -1): diffs to write instead of one"""


class Sink:
    """One chain of linear operators from a stream into an operator's batcher."""

    def __init__(self, branch: Branch, target: Operator, encode: EncodeLiteral, route: Route) -> None:
        self.producer = branch.producer
        self.target = target
        self._blocks: list[int] = []
        wanted = branch.exprs
        if route.priority is not None:
            wanted = (*wanted, route.priority.remap(dict(enumerate(branch.exprs))))
        program = lower(wanted, branch.predicate, branch.producer.cols, encode)
        assert program is not None, "expressions that need Python get an operator of their own"
        self.registers = program.registers
        self.fails = program.error >= 0
        self.branch = branch if self.fails else None  # to find failed rows again
        values = program.outputs[: len(branch.exprs)]
        outputs = values[: len(values) - _accumulated(route)] if route.accumulators else values
        pre, keep, post = _time_changes(branch, target.scope)
        words = [0] * k.SINK_WORDS
        words[k.SINK_CODE] = self._block(program.code.ravel())
        words[k.SINK_INSTRUCTIONS] = len(program.code)
        words[k.SINK_KEEP_REG] = program.keep
        words[k.SINK_ERROR_REG] = program.error
        words[k.SINK_OUT_REGS] = self._block(outputs)
        words[k.SINK_NOUT] = len(outputs)
        words[k.SINK_SIGN] = branch.sign
        box, box_scope = target.receives(branch)
        words[k.SINK_BATCHER] = box
        words[k.SINK_SCOPE] = box_scope.address
        words[k.SINK_PRE], words[k.SINK_AND], words[k.SINK_POST] = pre, keep, post
        words[k.SINK_ADD] = route.add + branch.delay
        words[k.SINK_PRIORITY_REG] = -1 if route.priority is None else program.outputs[-1]
        words[k.SINK_LIMIT] = -1
        self._loop_words(words, target.scope, route)
        _, words[k.SINK_ERROR_AND], words[k.SINK_ERROR_POST] = time_change(branch.producer.scope, target.dataflow.root)
        words[k.SINK_ERROR_BATCHER] = target.error_batcher() if self.fails else 0
        if route.accumulators:
            flat = [w for kind, column in route.accumulators for w in (kind, -1 if column < 0 else values[column])]
            words[k.SINK_ACCUMULATORS] = self._block(flat)
            words[k.SINK_NACC] = len(route.accumulators)
        self.address = self._block(words)

    def _loop_words(self, words: list[int], scope: Scope, route: Route) -> None:
        if route.priority is None and route.rounds < 0:
            return
        words[k.SINK_FIELD] = scope.field
        shift = queue_shift(scope) if route.queued else priority_shift(scope)
        words[k.SINK_PRIORITY_SHIFT] = scope.unit.bit_length() - 1 + shift
        words[k.SINK_PRIORITY_MAX] = last_in_queue(scope) if route.queued else (1 << (scope.bits - shift)) - 2
        if route.rounds >= 0:
            words[k.SINK_LIMIT] = route.rounds * scope.unit
            words[k.SINK_LIMIT_STOPS] = int(route.stop_at_limit)

    def _block(self, values: Any) -> int:
        block: int = structures.make_filled(np.array(values, dtype=np.int64))
        self._blocks.append(block)
        return block

    def free(self) -> None:
        blocks, self._blocks = self._blocks, []
        for block in blocks:
            structures.drop_block(block)


def _time_changes(branch: Branch, target: Scope) -> tuple[int, int, int]:
    """Times leave the producer's loops to where the branch is read, then enter the target's."""
    pre, keep, post = time_change(branch.producer.scope, branch.scope)
    enter, keep_more, leave = time_change(branch.scope, target)
    if enter and post:  # out to the root and into another nest: epochs never become absolute
        return pre, keep & keep_more, 0
    return pre or enter, keep & keep_more, post or leave


def _accumulated(route: Route) -> int:
    """Trailing columns of a branch that only feed accumulators."""
    return len({column for _, column in route.accumulators if column >= 0})


def priority_shift(scope: Scope) -> int:
    """Bits of a loop's coordinate that count rounds if the upper ones are a priority."""
    return (scope.bits + 1) // 2


QUEUE_BITS = 10


def queue_shift(scope: Scope) -> int:
    """The same for a queued loop: few bits, because a divergent loop runs through all coordinates up to its limit. One
    priority's rounds may overflow into the next one's, which then begins early; this only costs work."""
    return min(QUEUE_BITS, scope.bits // 3)


def last_in_queue(scope: Scope) -> int:
    """The last priority of a queued loop; larger ones are treated as equal to it."""
    return (1 << queue_shift(scope)) - 1


class Stream:
    """The output of an operator, and its sinks."""

    def __init__(self, cols: int, step: int) -> None:
        self.cols = cols
        self.step = step
        self.registers = max(cols, 1)
        self.address = structures.make_stream(cols, self.registers, step)
        self.sinks: list[Sink] = []

    def attach(self, sink: Sink) -> None:
        """Attach a sink; on allocation failure nothing changes."""
        self._list([*self.sinks, sink])
        self.sinks.append(sink)

    def detach(self, gone: set[Operator]) -> None:
        """Remove (and free) the sinks into operators that are being dropped; needs no memory."""
        leaving = [s for s in self.sinks if s.target in gone]
        if leaving:
            self.sinks = [s for s in self.sinks if s.target not in gone]
            block = structures.peek(self.address, k.STREAM_SINKS)
            for i, sink in enumerate(self.sinks):
                structures.poke(block, i, sink.address)
            structures.poke(self.address, k.STREAM_NSINKS, len(self.sinks))
            for sink in leaving:
                sink.free()

    def drop(self, sink: Sink) -> None:
        """Detach a sink."""
        if sink in self.sinks:
            self._list([s for s in self.sinks if s is not sink])
            self.sinks.remove(sink)
            sink.free()

    def listed(self) -> None:
        """Rewrite the kernels' list of sinks, in case a change of it was interrupted."""
        self._list(self.sinks)

    def _list(self, sinks: list[Sink]) -> None:
        need = max([self.cols, 1, *(s.registers for s in sinks)])
        if need > self.registers:
            structures.widen_stream(self.address, need)
            self.registers = need
        addresses = np.array([s.address for s in sinks], dtype=np.int64)
        structures.replace_list(self.address, k.STREAM_SINKS, addresses, k.STREAM_NSINKS, len(sinks))

    def free(self) -> None:
        for sink in self.sinks:
            sink.free()
        address, self.address = self.address, 0
        if address:
            structures.drop_stream(address)
