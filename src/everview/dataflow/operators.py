"""Operators of a dataflow, Python side: they own the kernels' blocks and record the readers and a description of each.

What an operator *does* is in `everview.kernels` under the same name. This module creates operators, connects them, lets
them replay past output to a new reader, and frees them.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import numpy as np

from everview.dataflow.partitioning import (
    ANYWHERE,
    HASH_BY_FIRST,
    SINGLE_SHARD,
    WHERE_MADE,
    HotKeys,
    HyperCube,
    Partitioning,
)
from everview.dataflow.scopes import EPOCH_MASK, Scope
from everview.dataflow.streams import Branch, Flow, Route, Sink, Stream
from everview.expr.nodes import ColumnRef, Expr
from everview.kernels import structures
from everview.kernels.operators import activate as activate_k
from everview.kernels.operators import arrange as arrange_k
from everview.kernels.operators import batcher as batcher_k
from everview.kernels.operators import join as join_k
from everview.kernels.reduce import context as reduction_k
from everview.kernels.reduce import python as reduce_python_k
from everview.kernels.reduce import reduce as reduce_k
from everview.kernels.trace import batch as batch_k
from everview.kernels.trace import constraints as guard_k
from everview.kernels.trace import deletions as deletions_k
from everview.kernels.trace import read as read_k
from everview.kernels.trace import trace as trace_k
from everview.kernels.trace.trace import NO_SINCE

if TYPE_CHECKING:
    from everview.dataflow.dataflow import Dataflow
    from everview.dataflow.identity import Purpose
    from everview.plan.nodes import Node

NEVER = 2**62

Instruction = tuple[int, int]
"""(address of the compiled operator, context)"""


class Trace:
    """A collection's history; owned by one operator, read by many."""

    def __init__(self, dataflow: Dataflow, scope: Scope, cols: int, diffs: int = 1, *, stateless: bool = False) -> None:
        self.cols = cols
        self.diffs = diffs
        self.scope = scope
        self._dataflow = dataflow
        keep = -1 if scope.is_root else ~EPOCH_MASK
        since = dataflow.time if scope.is_root else NO_SINCE
        self.block = structures.make_trace(cols, diffs, keep, since, dataflow.merge_effort, int(stateless))
        self.address = self.block
        """the same, for those who read rows: `PackedTrace` has some only when it is asked for them"""
        self.stateless = stateless
        self._holds: Counter[int] = Counter()
        self._released = (-1, NEVER)
        """the last time at which a hold was released, and what was held until then"""
        self.snapshots: WeakSet[Any] = WeakSet()
        """readers of held times"""
        self._sampled = (0, 0)
        self._samples: dict[int, list[int]] = {}

    @property
    def since(self) -> int:
        """Times before this one are indistinguishable (outside loops).

        Steps only move it in the traces that they add to; for the others it is computed here.
        """
        if self._dataflow.sharded or not self.scope.is_root:
            return self.stored_since
        return max(self.stored_since, min(self._dataflow.time - self.history, self.held))

    @property
    def held(self) -> int:
        """The oldest time that a reader keeps; NEVER if there is none."""
        held = min(self._holds, default=NEVER)
        if self._released[0] == self._dataflow.time:
            held = min(held, self._released[1])  # what is released stays readable until the next step
        return held

    @property
    def stored_since(self) -> int:
        """The time to which its batches may have been advanced."""
        return int(structures.peek(self.block, trace_k.TRACE_SINCE))

    @property
    def history(self) -> int:
        """The number of distinguishable epochs (outside loops)."""
        return int(structures.peek(self.block, trace_k.TRACE_HISTORY))

    def keep_history(self, epochs: int) -> None:
        """Keep at least this many epochs distinguishable from now on."""
        if epochs > self.history:
            structures.poke(self.block, trace_k.TRACE_HISTORY, epochs)

    def pass_on(self, time: int) -> None:
        """Advance the trace to a time whose step had nothing for it."""
        if self.scope.is_root:
            before = min(time - self.history, min(self._holds, default=NEVER))
            structures.poke(self.block, trace_k.TRACE_SINCE, max(self.stored_since, before))

    def hold(self, time: int) -> None:
        """Keep this time readable until it is released."""
        self._holds[time] += 1
        self._set_hold()

    def release(self, time: int) -> None:
        """Release a hold; the trace may have been freed already."""
        if not self.block:
            return
        self._released = self._dataflow.time, min(self._holds, default=NEVER)
        self._holds[time] -= 1
        if self._holds[time] <= 0:
            del self._holds[time]
        self._set_hold()

    def _set_hold(self) -> None:
        structures.poke(self.block, trace_k.TRACE_HOLD, min(self._holds, default=NEVER))

    def compact(self) -> None:
        """Merge all batches into one, between steps, consolidating indistinguishable times."""
        structures.poke(self.block, trace_k.TRACE_SINCE, self.since)
        structures.compact_trace(self.block)

    def measure(self) -> tuple[int, int, int]:
        """(batches, updates, bytes)."""
        batches, updates, size = structures.measure_trace(self.block)
        return batches, updates, size

    def sample(self, column: int, count: int) -> list[int]:
        """Codes of a column in some random rows of the largest batch, for estimates. Cached while that batch is the
        largest.
        """
        table = structures.peek(self.address, trace_k.TRACE_TABLE)
        batches = [structures.peek(table, b) for b in range(structures.peek(self.address, trace_k.TRACE_COUNT))]
        largest = max(batches, key=structures.batch_rows, default=0)
        rows = structures.batch_rows(largest) if largest else 0
        if not rows:
            return []
        if self._sampled != (largest, rows):
            self._sampled = largest, rows
            self._samples.clear()
        if column not in self._samples:
            self._samples[column] = self._sample(largest, rows, column, count)
        return self._samples[column]

    @staticmethod
    def _sample(batch: int, rows: int, column: int, count: int) -> list[int]:
        data, capacity = structures.peek(batch, batch_k.BATCH_DATA), structures.peek(batch, batch_k.BATCH_CAP)
        # not NumPy's: the first use of its random numbers and of `unique` imports for 19 ms, in the middle of a step
        places = random.Random(rows).sample(range(rows), count) if rows > count else range(rows)
        return [structures.peek(data, column * capacity + at) for at in places]

    def free(self) -> None:
        block, self.block, self.address = self.block, 0, 0
        if block:
            structures.drop_trace(block)


class Operator:
    """An operator with a batcher, a stream, or both, in a scope."""

    kind = "operator"
    context = 0
    """the block that kernels identify it by; 0: not created yet"""
    finds_errors = False
    """whether it collects errors of another operator rather than rows"""

    def __init__(self, dataflow: Dataflow, scope: Scope, cols: int, label: str = "") -> None:
        self.dataflow = dataflow
        self.scope = scope
        self.cols = cols
        self.label = label
        self.number = len(dataflow.numbered)
        self.purpose: Purpose | None = dataflow.purpose
        """The part of a plan that it was created for; with `heard`, what it computes (`everview.dataflow.identity`)."""
        self.heard: list[tuple[Branch, Route]] = []
        self.fed: tuple[Node, tuple[int, ...]] | None = None
        """The part of a plan whose rows it reads, and which of their columns, if that can be built otherwise."""
        self.inputs: list[Operator] = []
        self.batcher = 0
        self.trace: Trace | None = None
        self.stream: Stream | None = None
        self.errors: Arrange | None = None
        self.errors_of: Operator | None = None
        self.old = False  # part of a finished installation: a new reader needs a replay
        self.freed = False
        self.changes = 0
        """Rows that committed steps have added to its trace, as of `Dataflow.count_changes`."""
        self.own_ns: float = 0
        self.merge_ns: float = 0
        self.python_ns = 0
        """Time of its kernels, of merging its trace, and of its Python functions, as of `Timing.collect`."""
        self.partitioning: Partitioning | HyperCube | HotKeys = ANYWHERE
        """The placement of its rows on shards."""
        self.outbox = 0
        self.forest = 0
        """the context of an operator whose memory changes in place (`everview.kernels.frontier`); else 0"""
        self._blocks: list[int] = []
        dataflow.made += 1
        self.serial = dataflow.made
        """Its serial number among all operators ever created; another may have had its number."""
        dataflow.numbered.append(self)  # last: whatever is registered by number can be freed

    def instructions(self) -> list[Instruction]:
        """Its instructions in the program."""
        return []

    def reads(self) -> list[Operator]:
        """The operators whose traces it reads in place, so that it must be called when they change."""
        return self.inputs

    def block(self, values: Any) -> int:
        """Allocate a block of words that lives as long as the operator."""
        block: int = structures.make_filled(np.array(values, dtype=np.int64))
        self._blocks.append(block)
        return block

    def listen(self, flow: Flow, route: Route = Route()) -> None:  # noqa: B008
        """Receive a flow's rows in the batcher."""
        for branch in flow:
            self.heard.append((branch, route))
            sink = Sink(branch, self, self.dataflow.encode_literal, route)
            self.inputs.append(branch.producer)
            self.dataflow.attach(branch.producer, sink)

    def receives(self, branch: Branch) -> tuple[int, Scope]:
        """The batcher for a branch's rows and its scope: the outbox if they may belong to another shard."""
        if not self.dataflow.sharded or self.partitioning in (ANYWHERE, WHERE_MADE) or self._stays(branch):
            return self.batcher, self.scope
        if not self.outbox:
            self.outbox = structures.make_batcher(
                structures.peek(self.batcher, batcher_k.BATCHER_WIDTH), self.dataflow.root.address
            )
        return self.outbox, self.dataflow.root

    def _stays(self, branch: Branch) -> bool:
        """Whether the branch's rows are already on the right shard."""
        if self.partitioning != HASH_BY_FIRST:
            return self.partitioning == branch.producer.partitioning == SINGLE_SHARD
        first = branch.exprs[0]
        return branch.producer.partitioning == HASH_BY_FIRST and isinstance(first, ColumnRef) and first.index == 0

    def error_batcher(self) -> int:
        """The batcher for rows that could not be computed on their way here."""
        if self.errors is None:
            self.errors = Arrange(
                self.dataflow, self.dataflow.root, 1, label=f"errors of {self.label or self.kind}", at_end=True
            )
            self.errors.errors_of = self
        return self.errors.batcher

    def output(self) -> Stream:
        """The stream of its output, created on first use."""
        if self.stream is None:
            self.stream = Stream(self.cols, self.dataflow.step_block)
            self.set_stream(self.stream.address)
        return self.stream

    def set_stream(self, address: int) -> None:
        raise NotImplementedError

    def traces_were_replaced(self) -> None:
        """Called after batches of traces were replaced: state in memory derived from them must be rebuilt."""

    def read_in_place(self, read: bool) -> None:
        """Called when the program is written: whether other operators read its trace in place."""

    def settled(self) -> None:
        """Called once it has caught up with existing data, by computation or because its state was loaded."""

    def replay(self, stream: int) -> None:
        """Send all past output again, to a stream with the new reader as its only sink."""
        assert self.trace is not None and not self.trace.stateless, f"{self.kind} {self.label} cannot be replayed"
        structures.replay_trace(self.trace.address, stream, int(not self.scope.is_root))

    @property
    def replayable(self) -> bool:
        """Whether a later view can attach to it."""
        return self.trace is not None and not self.trace.stateless

    def measure(self) -> tuple[int, int, int]:
        """(batches, updates, bytes) of its state."""
        return (0, 0, 0) if self.trace is None else self.trace.measure()

    def new_batcher(self, width: int) -> None:
        self.batcher = structures.make_batcher(width, self.scope.address)

    def free(self) -> None:
        """Free everything, once. It is marked as free first: if interrupted, losing a few bytes is better than freeing
        them twice.
        """
        if self.freed:
            return
        self.freed = True
        self._free()

    def _free(self) -> None:
        if self.stream is not None:
            self.stream.free()
        if self.trace is not None:
            self.trace.free()
        for batcher in (self.batcher, self.outbox):
            if batcher:
                structures.drop_batcher(batcher)
        for block in self._blocks:
            structures.drop_block(block)

    def describe(self) -> str:
        return f"{self.kind} {self.label}".strip()


class Arrange(Operator):
    """Sorts, consolidates and indexes rows; without state it only consolidates (loop variables, Python functions)."""

    kind = "arrange"

    def __init__(
        self,
        dataflow: Dataflow,
        scope: Scope,
        cols: int,
        *,
        diffs: int = 1,
        stateless: bool = False,
        label: str = "",
        at_end: bool = False,
        partitioning: Partitioning | HyperCube | HotKeys = HASH_BY_FIRST,
    ) -> None:
        super().__init__(dataflow, scope, cols, label)
        self.partitioning = (
            ANYWHERE if at_end else SINGLE_SHARD if partitioning == HASH_BY_FIRST and cols == 0 else partitioning
        )
        self.trace = Trace(dataflow, scope, cols, diffs, stateless=stateless)
        self.new_batcher(cols + 1 + diffs)
        words = [0] * arrange_k.ARRANGE_WORDS
        words[arrange_k.ARRANGE_BATCHER] = self.batcher
        words[arrange_k.ARRANGE_TRACE] = self.trace.address
        words[arrange_k.ARRANGE_SCOPE] = scope.address
        words[arrange_k.ARRANGE_STEP] = dataflow.step_block
        self.context = self.block(words)
        self.checked = False
        self.guard_context = 0
        self.guards = ""
        """the constraint that rejects steps by their rows here, if any"""
        dataflow.add(self, at_end=at_end)

    def check_deletes(self) -> None:
        """Let a base table reject deletions of absent rows."""
        assert self.trace is not None
        words = [0] * deletions_k.CURSOR_WORDS
        words[deletions_k.CURSOR_TRACE] = self.trace.address
        words[deletions_k.CURSOR_STEP] = self.dataflow.step_block
        self.check_context = self.block(words)
        self.checked = True

    def refuse_above(self, most: int, name: str) -> None:
        """Reject steps after which a row occurs here more than `most` times, on behalf of a constraint."""
        assert self.trace is not None
        words = [0] * guard_k.GUARD_WORDS
        words[guard_k.GUARD_TRACE] = self.trace.address
        words[guard_k.GUARD_MOST] = most
        self.guard_context = self.block(words)
        self.guards = name

    def has_preset(self) -> bool:
        """Whether a bulk load of this step is pending."""
        return bool(structures.peek(self.context, arrange_k.ARRANGE_PRESET))

    def drop_preset(self) -> None:
        """Discard the bulk load of a step that did not run."""
        read_k.release_at(self.context, arrange_k.ARRANGE_PRESET)

    def instructions(self) -> list[Instruction]:
        found = [(arrange_k.arrange.address, self.context)]
        if self.checked:
            found.append((deletions_k.check.address, self.check_context))
        if self.guard_context:
            found.append((guard_k.at_most.address, self.guard_context))
        return found

    def reads(self) -> list[Operator]:
        """None: its rows arrive in the batcher."""
        return []

    def set_stream(self, address: int) -> None:
        structures.poke(self.context, arrange_k.ARRANGE_STREAM, address)


class PythonMap(Arrange):
    """Linear steps that need Python (user functions, string functions): consolidated rows go to the driver and come
    back.
    """

    kind = "python"

    def __init__(
        self, dataflow: Dataflow, scope: Scope, cols: int, out: int, run: Callable[..., Any], label: str = ""
    ) -> None:
        self.run = run
        super().__init__(dataflow, scope, cols, stateless=True, label=label)
        self.cols = out
        self.partitioning = ANYWHERE

    def instructions(self) -> list[Instruction]:
        return [(arrange_k.arrange.address, self.context), (structures.serve.address, self.context)]

    def set_stream(self, address: int) -> None:
        self.errors_to = self.error_batcher()  # the driver may find failing rows whenever it runs


class Join(Operator):
    """Joins rows with equal keys from two arrangements."""

    kind = "join"

    def __init__(
        self, dataflow: Dataflow, left: Arrangement, right: Arrangement, keys: int, scope: Scope, label: str = ""
    ) -> None:
        super().__init__(dataflow, scope, left.cols + right.cols - keys, label)
        self.left, self.right, self.keys = left, right, keys
        if isinstance(left.operator.partitioning, Partitioning):
            self.partitioning = left.operator.partitioning
        self.inputs = [left.operator, right.operator]
        words = [0] * join_k.JOIN_WORDS
        words[join_k.JOIN_LEFT] = left.trace.address
        words[join_k.JOIN_RIGHT] = right.trace.address
        words[join_k.JOIN_SCOPE] = scope.address
        words[join_k.JOIN_KEYS] = keys
        words[join_k.JOIN_LEFT_SUB] = int(left.operator.scope.is_root and not scope.is_root)
        words[join_k.JOIN_RIGHT_SUB] = int(right.operator.scope.is_root and not scope.is_root)
        words[join_k.JOIN_LEFT_ADD] = left.delay
        words[join_k.JOIN_RIGHT_ADD] = right.delay
        words[join_k.JOIN_STEP] = dataflow.step_block
        words[join_k.JOIN_FRESH] = int(scope.is_root and left.operator.old and right.operator.old)
        self.context = self.block(words)
        self.output()
        dataflow.add(self)

    def instructions(self) -> list[Instruction]:
        return [(join_k.join.address, self.context)]

    def set_stream(self, address: int) -> None:
        structures.poke(self.context, join_k.JOIN_STREAM, address)

    def settled(self) -> None:
        structures.poke(self.context, join_k.JOIN_FRESH, 0)

    @property
    def replayable(self) -> bool:
        return True

    def replay(self, stream: int) -> None:
        structures.replay_join(self.context, stream)


class Reduce(Operator):
    """One output per key: see `everview.kernels.reduce.reduce` for the kinds.

    Its output exists from the start; `bind` sets its input: a loop variable may read the output before the input is
    built.
    """

    kind = "reduce"

    def __init__(self, dataflow: Dataflow, scope: Scope, keys: int, cols: int, label: str = "") -> None:
        super().__init__(dataflow, scope, cols, label)
        self.keys = keys
        self.partitioning = HASH_BY_FIRST if keys else SINGLE_SHARD
        self.trace = Trace(dataflow, scope, cols)
        self.new_batcher(keys + 2)
        self.context = self.block([0] * reduction_k.REDUCE_WORDS)
        self.reduction = reduction_k.KIND_DISTINCT
        self.spec: tuple[int, ...] = ()
        self.run: Callable[..., Any] | None = None

    def bind(
        self,
        source: Arrangement,
        kind: int,
        spec: list[int] | None = None,
        run: Callable[..., Any] | None = None,
        watched: Reduce | None = None,
    ) -> None:
        """Set the input and the kind of reduction, and append the operator to the program. `watched`: the reduction of
        the same input, earlier in the program, whose faults it collects.
        """
        assert self.trace is not None
        self.source, self.reduction, self.run = source, kind, run
        self.finds_errors = kind == reduction_k.KIND_FAULTS
        self.spec = tuple(spec or ())
        self.partitioning = source.operator.partitioning
        self.inputs = [source.operator]
        words = {
            reduction_k.REDUCE_INPUT: source.trace.address,
            reduction_k.REDUCE_OUTPUT: self.trace.address,
            reduction_k.REDUCE_SCOPE: self.scope.address,
            reduction_k.REDUCE_KEYS: self.keys,
            reduction_k.REDUCE_KIND: kind,
            reduction_k.REDUCE_SPEC: self.block(spec or [0]),
            reduction_k.REDUCE_NSPEC: len(spec or []) // 3,
            reduction_k.REDUCE_TODO: self.batcher,
            reduction_k.REDUCE_STEP: self.dataflow.step_block,
            reduction_k.REDUCE_FRESH: int(source.operator.old),
            # in a loop a key may recur in a later round, for which the watched one says nothing
            reduction_k.REDUCE_WATCHED: watched.context if watched is not None and self.scope.is_root else 0,
        }
        for scratch in (reduction_k.REDUCE_FOUND, reduction_k.REDUCE_EPOCH_LIST):
            words[scratch] = structures.make_block(64)
            structures.poke(words[scratch], 0, 64)
        for field, word in words.items():
            structures.poke(self.context, field, word)
        self.dataflow.add(self)

    def instructions(self) -> list[Instruction]:
        found = [(reduce_k.reduce.address, self.context)]
        if self.reduction == reduction_k.KIND_PYTHON:
            found.append((reduce_python_k.reduce_answers.address, self.context))
        return found

    def set_stream(self, address: int) -> None:
        structures.poke(self.context, reduction_k.REDUCE_STREAM, address)

    def settled(self) -> None:
        structures.poke(self.context, reduction_k.REDUCE_FRESH, 0)

    def _free(self) -> None:
        if self.context:
            structures.drop_reduce(self.context)
        super()._free()


class Activate(Operator):
    """Starts a loop when an arrangement that its joins read in place has changed."""

    kind = "activate"

    def __init__(self, dataflow: Dataflow, source: Arrangement, scope: Scope, limit: int = -1) -> None:
        super().__init__(dataflow, source.operator.scope, 0)
        self.inputs = [source.operator]
        words = [0] * activate_k.ACTIVATE_WORDS
        words[activate_k.ACTIVATE_TRACE] = source.trace.address
        words[activate_k.ACTIVATE_FROM] = source.operator.scope.address
        words[activate_k.ACTIVATE_SCOPE] = scope.address
        words[activate_k.ACTIVATE_ADD] = source.delay
        words[activate_k.ACTIVATE_FIELD] = scope.field
        words[activate_k.ACTIVATE_LIMIT] = limit
        self.activated = scope
        self.context = self.block(words)
        dataflow.add(self)

    def instructions(self) -> list[Instruction]:
        return [(activate_k.activate.address, self.context)]


class Arrangement:
    """A trace with a column order: column i of the trace is the collection's column `order[i]`.

    `delay` is one round if it is last round's output read as a loop variable.
    """

    def __init__(self, operator: Operator, order: tuple[int, ...], delay: int = 0) -> None:
        assert operator.trace is not None
        self.operator = operator
        self.trace = operator.trace
        self.order = order
        self.delay = delay
        self.cols = self.trace.cols
        self.plain = order == tuple(range(len(order)))

    def serves(self, keys: tuple[int, ...], *, gather: bool = False) -> bool:
        """Whether its first columns are these keys, in this order, and (with several shards) its rows are together: all
        of them if `gather`, else those with equal keys.
        """
        partitioning = SINGLE_SHARD if gather else HASH_BY_FIRST
        if self.operator.dataflow.sharded and (gather or keys) and self.operator.partitioning != partitioning:
            return False
        return self.starts(keys)

    def starts(self, keys: tuple[int, ...]) -> bool:
        """Whether its first columns are these, in this order."""
        return self.order[: len(keys)] == keys


def columns(operator: Operator, types: tuple[Any, ...], order: tuple[int, ...], delay: int = 0) -> Flow:
    """The flow of an operator whose column i is the collection's column order[i]."""
    exprs: list[Expr] = [ColumnRef(types[c], order.index(c)) for c in range(len(types))]
    return (Branch(operator, operator.scope, tuple(exprs), delay=delay),)
