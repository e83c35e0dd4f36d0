"""Supersteps: one step run on all shards of a dataflow in lockstep.

Every shard runs the same program. At a barrier all wait: rows in outboxes are sent to their shards, and before a loop's
pass all agree on the earliest pending time and enter it, whether or not they have rows for it. All shards are therefore
always at the same instruction and loop time, and the result is that of a single dataflow.

Several shards may share a process; shards in other processes are reached through a `ShardChannel`, which exchanges
messages at every barrier. A failure anywhere (bad input, an exception in a user function) stops the step everywhere and
restores all shards.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence, Set
from typing import Protocol, TypeVar

import numpy as np

from everview import cancellation
from everview.codes.interner import Interner
from everview.codes.sharing import each
from everview.dataflow import saved_state, shield
from everview.dataflow.dataflow import NO_ROWS
from everview.dataflow.operators import Operator, PythonMap, Reduce
from everview.dataflow.partitioning import HASH_BY_FIRST, HotKeys, HyperCube
from everview.dataflow.program import Barrier
from everview.dataflow.provenance import Nodes
from everview.dataflow.replica import Added, Replica
from everview.kernels import structures
from everview.kernels.operators import batcher as batcher_k
from everview.kernels.provenance.node_storage import ROW_OF_NODE
from everview.kernels.run import exchange as k
from everview.kernels.run import executor as x
from everview.kernels.run.scope import SCOPE_OVERRUN
from everview.kernels.run.step import STEP_FAULT
from everview.kernels.trace import image
from everview.store.batches import Image

T = TypeVar("T")

Rows = np.ndarray
"""Rows as consecutive words: columns, time, diffs."""

Message = tuple[int, int, Rows]
"""(shard, operator number, rows)"""

Inputs = dict[int, list[tuple[int, Rows]]]
"""For each shard with input: (operator number of the table, rows)."""

INLINE_WORDS = 1 << 20
"""Images up to this many words are sent with a step's result; larger ones become files."""


class ShardChannel(Protocol):
    """Communication between shards in different processes."""

    def begin(self, interner: Interner) -> None:
        """Begin a step: strings created from here on are sent to the others with the next messages."""

    def exchange(self, messages: list[Message], agenda: int) -> tuple[list[Message], int]:
        """Send messages for remote shards and receive those for local ones; return the earliest agenda of all."""

    def fail(self, error: BaseException) -> None:
        """Notify the others that the step failed here."""


class NoOtherShards:
    """The channel of a process that has all shards."""

    def begin(self, interner: Interner) -> None:
        pass

    def exchange(self, messages: list[Message], agenda: int) -> tuple[list[Message], int]:
        return messages, agenda

    def fail(self, error: BaseException) -> None:
        pass


class Shard:
    """One shard's replica while a step runs on it."""

    def __init__(self, replica: Replica, number: int, shards: int) -> None:
        self.replica = replica
        self.dataflow = replica.dataflow
        self.number = number
        self.shards = shards
        self._pc = 0
        self._told: dict[int, set[int]] = {}
        """codes of the nodes already sent to other shards in this step"""
        self.rows_sent: Counter[int] = Counter()
        """rows sent to other shards, by the operator they were for"""
        self.words_sent = 0

    @property
    def needs_python(self) -> bool:
        """Whether any of its operators calls Python."""
        found = (o for o in self.dataflow.numbered if o is not None)
        return any(isinstance(o, PythonMap) or (isinstance(o, Reduce) and o.run is not None) for o in found)

    # one step

    def push(self, operator: int, rows: Rows) -> None:
        """Put local rows into an operator's batcher."""
        found = self.dataflow.numbered[operator]
        assert found is not None
        if isinstance(found, Nodes):
            found.take(rows)
            return
        k.deliver(found.batcher, _columns(found), rows)

    def begin(self, epochs: int) -> None:
        """Run a step up to its first barrier."""
        self._told.clear()
        self.dataflow.assemble()
        with self.dataflow.locating():
            self._pc = self.dataflow.attend(x.step(self.dataflow.session, self.dataflow.time, epochs, 0, NO_ROWS))

    def begin_install(self) -> None:
        """Run a step that brings new operators up to date, up to its first barrier."""
        self._told.clear()
        self.dataflow.replay_for_new(first=self.number == 0)
        with self.dataflow.locating():
            self._pc = self.dataflow.attend(x.step(self.dataflow.session, self.dataflow.time - 1, 1, 0, NO_ROWS))

    @property
    def stop(self) -> Barrier:
        """The barrier at which it waits."""
        item = self.dataflow.program[self._pc][0]
        assert isinstance(item, Barrier)
        return item

    def go(self) -> None:
        """Run to the next barrier."""
        with self.dataflow.locating():
            self._pc = self.dataflow.attend(x.resume(self.dataflow.session, self._pc + 1))

    def finish(
        self, epochs: int, large_words: int = INLINE_WORDS, keep: Callable[[int, Image], int] | None = None
    ) -> Added:
        """With all shards at the last barrier: commit, and return what the step added. `epochs` is 0 for an
        installation."""
        change = self.packed(epochs, large_words, keep)
        self.commit(epochs)
        return change

    def packed(
        self, epochs: int, large_words: int = INLINE_WORDS, keep: Callable[[int, Image], int] | None = None
    ) -> Added:
        """With all shards at the last barrier: what the step adds. It can still be undone.

        Large batches are passed to `keep`, if given, with their operator's number. It writes them to a file and returns
        the address of the mapped file, where they stay; or 0.
        """
        dataflow = self.dataflow
        image.fold_step(dataflow.session, dataflow.time + epochs)
        traces = self.replica.traces()
        packed = np.empty(image.packed_words(traces, large_words), dtype=np.int64)
        change = Added(packed)
        if image.pack(traces, large_words, packed):
            for number, trace in enumerate(traces.tolist()):
                if not trace or image.fresh_words(trace) <= large_words:
                    continue
                if keep is None:
                    change.large[number] = saved_state.fresh_words(trace)
                else:
                    fresh = saved_state.fresh_image(trace)
                    if address := keep(number, fresh):
                        image.lie_at(trace, address, saved_state.header(fresh))
        return change

    def commit(self, epochs: int) -> None:
        """Make the additions of the step permanent; needs no memory."""
        image.settle_step(self.dataflow.session)
        if self.dataflow.provenance is not None:
            self.dataflow.provenance.step_is_committed()
        self.dataflow.time += epochs
        if epochs == 0:
            self.dataflow.installed()

    def would_add(self, operators: Set[int], epochs: int) -> Added:
        """With all shards at the last barrier: what the step adds to some operators; then undo it."""
        try:
            with self.dataflow.locating():
                found = [o for o in self.dataflow.numbered if o is not None and o.number in operators]
                return Added(self.dataflow.fresh(self.dataflow.traces_of(found), epochs))
        finally:
            self.dataflow.abort()

    def abort(self, *, installing: bool) -> None:
        """Restore the state before the step."""
        self.dataflow.abort()
        if installing:
            self.replica.builder.forget_new()

    # at a barrier

    def check(self) -> None:
        """Refuse to continue if a loop has exceeded its limit, or if anything else prevents the commit."""
        if structures.peek(self.dataflow.step_block, STEP_FAULT):
            raise self.dataflow.failure(x.ENDED_OVERFLOW, self._pc)
        root = self.dataflow.root.address
        if structures.peek(root, SCOPE_OVERRUN):
            raise self.dataflow.failure(x.ENDED_ROUNDS, self._pc)

    def agenda(self) -> int:
        """The earliest time in its agenda or outboxes for the next loop."""
        scope = self.stop.scope
        if scope is None:
            return k.NO_TIME_LEFT
        found = k.pending(scope.address)
        for operator in self._boxes():
            if scope.contains(operator.scope):
                found = min(found, k.coming(operator.outbox, _columns(operator), scope.address))
        return int(found)

    def _boxes(self) -> list[Operator]:
        return [o for o in self.dataflow.numbered if o is not None and o.outbox and k.boxed(o.outbox)]

    def messages(self) -> list[Message]:
        """Empty the outboxes: rows by destination shard."""
        found = [(shard, o.number, rows) for o in self._boxes() for shard, rows in self._sent(o)]
        if self.dataflow.provenance is not None:
            found = [*self._nodes(found, self.dataflow.provenance), *found]
        for shard, number, rows in found:
            if shard != self.number:
                self.words_sent += len(rows)
                self.rows_sent[number] += len(rows) // self._width(number)
        return found

    def _width(self, number: int) -> int:
        """Words per row sent to an operator."""
        operator = self.dataflow.numbered[number]
        if operator is None or not operator.outbox:
            return ROW_OF_NODE
        return int(structures.peek(operator.outbox, batcher_k.BATCHER_WIDTH))

    def _nodes(self, messages: list[Message], nodes: Nodes) -> Iterator[Message]:
        """The nodes that other shards need for the expressions in their messages, and were not sent in this step."""
        for shard in {to for to, *_ in messages if to != self.number}:
            words = np.concatenate([rows for to, _, rows in messages if to == shard])
            rows = nodes.named_by(words)
            known = self._told.setdefault(shard, set())
            new = [i for i, code in enumerate(rows[:, 0].tolist()) if code not in known]
            if new:
                known.update(rows[new, 0].tolist())
                yield shard, nodes.number, rows[new].reshape(-1)

    def _sent(self, operator: Operator) -> Iterator[tuple[int, Rows]]:
        partitioning = operator.partitioning
        shards = self.shards if partitioning == HASH_BY_FIRST else 0
        counts = np.zeros(self.shards, dtype=np.int64)
        k.count_routes(operator.outbox, shards, counts)
        width = int(structures.peek(operator.outbox, batcher_k.BATCHER_WIDTH))
        ends = np.cumsum(counts) * width
        out = np.empty(int(ends[-1]), dtype=np.int64)
        starts = ends - counts * width
        k.route(operator.outbox, shards, starts.copy(), out)
        if isinstance(partitioning, (HyperCube, HotKeys)):
            rows = out.reshape(-1, width)
            for shard, places in partitioning.parts(rows.T[: _columns(operator)], self.shards):
                yield shard, rows[places].reshape(-1)
            return
        for shard in np.flatnonzero(counts).tolist():
            yield shard, out[starts[shard] : ends[shard]]

    def visit(self, time: int) -> None:
        """Let the next loop enter a time."""
        scope = self.stop.scope
        assert scope is not None
        k.schedule(scope.address, time)


def _columns(operator: Operator) -> int:
    """Columns of the rows in an operator's batcher."""
    assert operator.trace is not None
    return operator.trace.cols


SIDE_BY_SIDE = 1 << 16
"""Number of words of work from which shards of one process run in several threads: starting them costs 0.1 ms."""


def side_by_side(shards: Sequence[Shard], words: int, work: Callable[[Shard], T]) -> list[T]:
    """Run a function on each shard: in parallel if there is much work and none of them calls Python (whose functions
    and dictionary are not thread-safe).
    """
    if len(shards) < 2 or words < SIDE_BY_SIDE or any(shard.needs_python for shard in shards):
        return [work(shard) for shard in shards]
    found: dict[int, T] = {}
    each(len(shards), os.cpu_count() or 1, lambda number: found.update({number: work(shards[number])}))
    return [found[number] for number in range(len(shards))]


def words_in(inputs: Inputs) -> int:
    """The amount of work, in words."""
    return sum(len(rows) for parts in inputs.values() for _, rows in parts)


def run(shards: Sequence[Shard], channel: ShardChannel, inputs: Inputs, epochs: int) -> None:
    """Run a step (`epochs` 0: an installation) on the local shards up to the last barrier; on failure the state is
    restored. The inputs are consumed: their memory is needed for sorting.
    """

    def begin(shard: Shard) -> None:
        for operator, rows in _each(inputs.pop(shard.number, [])):
            shard.push(operator, rows)
        if epochs:
            shard.begin(epochs)
        else:
            shard.begin_install()

    for shard in shards:
        shard.dataflow.enter()
    try:
        side_by_side(shards, words_in(inputs), begin)
        _run_supersteps(shards, channel)
    except BaseException as error:
        _leave(shards)
        channel.fail(error)
        for shard in shards:
            shard.abort(installing=epochs == 0)
        raise
    finally:
        _leave(shards)


def _leave(shards: Sequence[Shard]) -> None:
    for shard in shards:
        shard.dataflow.leave()


def _each(parts: list[tuple[int, Rows]]) -> Iterator[tuple[int, Rows]]:
    """Iterate over a list, releasing each item before the next."""
    while parts:
        yield parts.pop(0)


def _run_supersteps(shards: Sequence[Shard], channel: ShardChannel) -> None:
    here = {shard.number: shard for shard in shards}
    while True:
        shield.hear()
        cancellation.poll()
        messages: list[Message] = []
        agenda = k.NO_TIME_LEFT
        for shard in shards:
            shard.check()
            agenda = min(agenda, shard.agenda())
            messages += shard.messages()
        messages, agenda = channel.exchange(messages, agenda)
        for to, operator, rows in messages:
            here[to].push(operator, rows)
        if shards[0].stop.last:
            for shard in shards:
                shard.dataflow.check_swaps()
            return
        if agenda != k.NO_TIME_LEFT:
            for shard in shards:
                shard.visit(agenda)
        side_by_side(shards, sum(len(rows) for *_, rows in messages), Shard.go)
