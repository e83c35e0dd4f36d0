"""The embedded runtime: the dataflow is in this process, and a step is one call of the compiled executor.

New operators get their state in one of three ways (`Fill`): computed from their inputs, restored from files afterwards,
or taken over from another dataflow (`everview.recovery.migration`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from everview.codes.interner import Interner
from everview.dataflow import kernel_interrupts
from everview.dataflow.allocator import one_heap
from everview.dataflow.builder import Builder
from everview.dataflow.dataflow import Dataflow
from everview.dataflow.extend import Extend
from everview.dataflow.operators import Arrange, Arrangement, Operator
from everview.dataflow.plan_swap import swap
from everview.dataflow.thread_pool import SPLIT, available_cores
from everview.dataflow.timed_history import TimedHistory
from everview.errors import EverviewError, MemoryLimitError
from everview.kernels import structures
from everview.language.relation import relation_of
from everview.plan import nodes as plan
from everview.plan.multiway import Choice
from everview.runtime.backing import Backing, InMemory, StepLog
from everview.runtime.base import COMMITTED, ChangeSet, Measure, StepOutcome, packer
from everview.runtime.captures import Captures, Supposed
from everview.runtime.spill import SpillFiles, refused
from everview.store.offsets import change_offsets

Built = TypeVar("Built")

BULK_ROWS = 256
"""Number of rows from which an insert is sorted directly into a batch."""


class Fill(Protocol):
    """How new operators get their state."""

    def settle(self, dataflow: Dataflow) -> None:
        """Bring newly built operators up to date."""

    def present(self, rows: Sequence[tuple[int, ...]]) -> Sequence[tuple[int, ...]]:
        """The rows that a new table receives of its initial ones."""


class Computed:
    """State is computed from the operators' inputs."""

    def settle(self, dataflow: Dataflow) -> None:
        dataflow.install()

    def present(self, rows: Sequence[tuple[int, ...]]) -> Sequence[tuple[int, ...]]:
        return rows


class Restored:
    """State is restored from files when everything is built."""

    def settle(self, dataflow: Dataflow) -> None:
        dataflow.installed()

    def present(self, rows: Sequence[tuple[int, ...]]) -> Sequence[tuple[int, ...]]:
        return ()


class EmbeddedRuntime:
    """A dataflow in this process, in memory."""

    def __init__(
        self,
        interner: Interner | None = None,
        *,
        merge_effort: int = 4,
        threads: int | None = 1,
        memory: int | None = None,
        folder: Path | None = None,
        packs: bool = False,
    ) -> None:
        self.interner = interner or Interner()
        self.offsets: dict[str, str] = {}
        self._merge_effort = merge_effort
        self._threads = threads
        self._packs = packs
        self.interner.threads = available_cores() if threads is None else threads
        if self.interner.threads > 1:
            one_heap()  # the threads that encode a column come and go: each would leave a heap behind
        self.spill = None if memory is None else SpillFiles(memory, folder)
        """moves state beyond the memory limit into files"""
        self.sound = memory is None
        self._fill: Fill = Computed()
        self.backing: Backing = InMemory()
        self.log: StepLog | None = None
        """the log of steps, if any"""
        self._under_way: tuple[list[ChangeSet], int] | None = None
        """the transactions of a step whose end was not recorded yet, and the time before it"""
        self._begin()

    def _begin(self) -> None:
        dataflow = Dataflow(self.interner, self._merge_effort, packs=self._packs)
        if self._threads is not None and self._threads > 1:
            dataflow.share_work(self._threads)
        self.dataflow, self.builder, self.captures = dataflow, Builder(dataflow), Captures()

    def _share(self, rows: Callable[[], int]) -> None:
        """By default, start one thread per core at the first large step."""
        if self._threads is None and rows() >= SPLIT:
            self._threads = available_cores()
            if self._threads > 1:
                self.dataflow.share_work(self._threads)

    def begin_again(self) -> None:
        """Free the dataflow and start an empty one."""
        before = self.dataflow
        self._begin()
        kept = before.timed_history
        self.dataflow.timed_history = None if kept is None else TimedHistory(kept.seconds)
        before.close()

    @contextmanager
    def filling(self, fill: Fill) -> Iterator[None]:
        """Use another way of filling state for what is built inside."""
        before, self._fill = self._fill, fill
        try:
            yield
        finally:
            self._fill = before

    # building

    def add_table(
        self, node: plan.Table, order: tuple[int, ...], name: str, history: int, rows: Sequence[tuple[int, ...]] = ()
    ) -> Arrangement:
        try:
            arrangement = self.builder.add_table(node, order, name)
            self.dataflow.keep_history(arrangement, history)
            present = self._fill.present(rows)
            if present:
                words = [w for row in present for w in (*(row[c] for c in order), self.dataflow.time, 1)]
                structures.push_rows(arrangement.operator.batcher, np.array(words, dtype=np.int64), len(present))
            self._fill.settle(self.dataflow)
        except BaseException:
            self.builder.forget_new()
            raise
        return arrangement

    def install(
        self, node: plan.Node, keys: tuple[int, ...], history: int = 0, choice: Choice | None = None
    ) -> Arrangement:
        arrangement = self._installed(lambda: self.builder.install(node, keys, choice))
        self.dataflow.keep_history(arrangement, history)
        self._tidy()
        return arrangement

    def swap(self, join: plan.Node, target: plan.Node) -> None:
        self._installed(lambda: swap(self.builder, join, target))
        self._tidy()

    def _installed(self, build: Callable[[], Built]) -> Built:
        """Build something and bring it up to date; on failure remove it."""
        while True:
            pressed = kernel_interrupts.count
            try:
                with self._within_memory():
                    self._share(self._table_rows)
                    built = build()
                    self._fill.settle(self.dataflow)
            except BaseException as error:
                self.builder.forget_new()
                if kernel_interrupts.disturbed(self.dataflow, error, pressed):
                    continue
                raise self._refused(error) from None
            return built

    def _table_rows(self) -> int:
        """The number of updates of the largest table."""
        return max((a.trace.measure()[1] for a in self.builder.tables.values()), default=0)

    def _within_memory(self) -> AbstractContextManager[None]:
        return nullcontext() if self.spill is None else self.spill.limited(self.dataflow)

    def _tidy(self) -> None:
        if self.dataflow.provenance is not None:
            self.dataflow.provenance.sweep_if_due()
        if self.spill is not None:
            self.spill.tidy(self.dataflow)

    def _refused(self, error: BaseException) -> BaseException:
        return error if self.spill is None else refused(error, self.spill.memory)

    def keep_only(self, roots: list[Operator]) -> None:
        self.builder.forget(self.dataflow.collect(roots))
        self.dataflow.reuse_numbers()
        self.captures.forget_freed()

    # steps

    def step(self, transactions: list[ChangeSet]) -> StepOutcome:
        before = self.dataflow.time
        self._under_way = transactions, before
        if self.log is not None:
            try:
                self.log.before(before, transactions)
            except BaseException as error:
                return self._aborted(error)
        if self.spill is not None:
            return self._step_within_memory(self.spill, transactions, before)
        return self._run_transactions(transactions, before)

    def _step_within_memory(self, files: SpillFiles, transactions: list[ChangeSet], before: int) -> StepOutcome:
        """Run a step; if it does not fit into memory, retry after moving everything possible into files."""
        try:
            with files.limited(self.dataflow):
                outcome = self._run_transactions(transactions, before, last=False)
                if isinstance(outcome.error, MemoryLimitError) and not outcome.committed:
                    files.make_room(self.dataflow)
                    outcome = self._run_transactions(transactions, before)
        except MemoryLimitError as error:
            outcome = self._aborted(error)
        if isinstance(outcome.error, MemoryLimitError) and not outcome.committed:
            return StepOutcome(False, refused(outcome.error, files.memory))
        files.tidy(self.dataflow)
        return outcome

    def _run_transactions(self, transactions: list[ChangeSet], before: int, *, last: bool = True) -> StepOutcome:
        """Pass the rows in and run. `last`: report a failure to the log, too; otherwise the step will be retried."""
        dataflow = self.dataflow
        while True:
            pressed = kernel_interrupts.count
            try:
                if len(transactions) == 1 and (few := _few(transactions[0], before + 1)) is not None:
                    batcher, words = few
                    dataflow.run(1, batcher, words)
                else:
                    self._run_columns(transactions, before)
            except BaseException as error:
                if dataflow.time != before or dataflow.ended():
                    return self._committed(transactions, error)  # complete, and only then interrupted
                if kernel_interrupts.disturbed(dataflow, error, pressed):
                    dataflow.abort()
                    continue
                if not last and isinstance(error, MemoryLimitError):
                    return StepOutcome(False, error)
                return self._aborted(error)
            if self.log is not None or self.captures.watched or dataflow.provenance is not None:
                return self._committed(transactions)
            if len(transactions) > 1 or transactions[0].offsets:
                return self._committed(transactions)
            self._under_way = None
            return COMMITTED  # the fast path: nothing of `_committed` applies

    def _run_columns(self, transactions: list[ChangeSet], before: int) -> None:
        """The same for rows in columns, of several tables, or of several transactions."""
        dataflow = self.dataflow
        if dataflow.notes is not None:
            dataflow.notes.begin()
        self._share(lambda: _most_rows(transactions))
        for offset, changes in enumerate(transactions, 1):
            _hand_over(changes, before + offset)
        dataflow.run(len(transactions))
        if dataflow.notes is not None:
            dataflow.notes.ended(transactions)

    def suppose(self, changes: ChangeSet, wanted: Callable[[], Collection[Operator]]) -> Supposed:
        """See the protocol. Everything outside loops is copied, which is cheaper than selecting."""
        dataflow = self.dataflow
        few = _few(changes, dataflow.time + 1)
        if few is not None:
            return Supposed(dataflow.suppose(*few))
        try:
            _hand_over(changes, dataflow.time + 1)
            return Supposed(dataflow.suppose())
        except BaseException:
            dataflow.abort()
            raise

    def _aborted(self, error: BaseException) -> StepOutcome:
        if self.dataflow.notes is not None and self._under_way is not None:
            self.dataflow.notes.ended(self._under_way[0], False, error)
        if self.log is not None:
            try:
                self.log.aborted()
            except BaseException as another:
                another.__cause__ = error
                return StepOutcome(False, another)
        self._under_way = None
        return StepOutcome(False, error)

    def _committed(self, transactions: list[ChangeSet], error: BaseException | None = None) -> StepOutcome:
        if error is not None and self.dataflow.notes is not None:
            self.dataflow.notes.ended(transactions, True, error)
        for changes in transactions:
            if changes.offsets:
                change_offsets(self.offsets, changes.offsets)
        if self.log is not None:
            try:
                self.log.committed(transactions)
            except BaseException as another:
                if not isinstance(another, EverviewError):  # the log is updated again when everything is settled
                    return StepOutcome(True, error or another, self.captures.take())
                error = error or another
        self._under_way = None
        if self.dataflow.provenance is not None:
            self.dataflow.provenance.sweep_if_due()
        if error is None and not self.captures.watched:
            return COMMITTED
        return StepOutcome(True, error, self.captures.take())

    def settle(self) -> StepOutcome:
        self.dataflow.settle()
        outcome = COMMITTED
        if self._under_way is not None:
            transactions, before = self._under_way
            if self.dataflow.time != before:  # it was complete, and then interrupted
                outcome = self._committed(transactions)
            elif self.log is not None:
                self.log.aborted()
            self._under_way = None
        if self.log is not None:
            self.log.settle()
        return outcome

    # reading

    def sync(self, *operators: Operator) -> None:
        """Traces are always complete here."""

    def dataflows(self) -> tuple[Sequence[Dataflow], Sequence[Dataflow]]:
        return [self.dataflow], ()

    def measure(self) -> Measure:
        return lambda o: o.measure()

    def changes(self) -> Callable[[Operator], int]:
        self.dataflow.count_changes()
        return lambda o: o.changes

    def where(self) -> str:
        return "in this process"

    def describe(self, joined: Extend) -> list[str]:
        return []

    def encode_remote(self, target: Any, rows: Any) -> None:
        return None

    def resharding(self, shards: int) -> None:
        return None

    def close(self) -> None:
        try:
            self.backing.close()
        finally:
            self.dataflow.close()

    def abandon(self) -> None:
        self.backing.abandon()
        self.dataflow.close()


def _most_rows(transactions: Sequence[ChangeSet]) -> int:
    """The number of rows of the largest change."""
    return max((len(r) if type(r) is list else r.shape[1] for c in transactions for _, r, _ in c), default=0)


def _few(changes: ChangeSet, time: int) -> tuple[int, bytes] | None:
    """The batcher and words of a transaction that changes a few rows of one table, as most do; None for others."""
    if not changes:
        return None
    only, rows, diff = changes[0]
    arrangement = relation_of(only).arrangement
    if arrangement.plain and type(rows) is list and len(rows) == 1:  # as most of those do
        row = rows[0]
        if len(changes) == 1:
            return arrangement.operator.batcher, packer(len(row) + 2)(*row, time, diff)
        other, rows, back = changes[1]
        if len(changes) == 2 and other is only and type(rows) is list and len(rows) == 1:  # a row is replaced
            return arrangement.operator.batcher, packer(2 * len(row) + 4)(*row, time, diff, *rows[0], time, back)
        rows = changes[0][1]
    words: list[int] = []
    for table, rows, diff in changes:
        if table is not only or type(rows) is not list:
            return None
        if arrangement.plain and len(rows) == 1:
            words += rows[0]
            words += (time, diff)
        else:
            _add_words(words, arrangement, rows, time, diff)
    return arrangement.operator.batcher, packer(len(words))(*words)


def _hand_over(changes: ChangeSet, time: int) -> None:
    """Put a transaction's rows into the tables' batchers; the few rows that are tuples are grouped by table."""
    few: dict[Arrangement, list[int]] = {}
    for table, rows, diff in changes:
        arrangement = relation_of(table).arrangement
        if type(rows) is list:
            _add_words(few.setdefault(arrangement, []), arrangement, rows, time, diff)
        else:
            _hand_over_columns(arrangement, rows, time, diff)
    for arrangement, words in few.items():
        rows = np.array(words, np.int64)
        structures.push_rows(arrangement.operator.batcher, rows, len(words) // (arrangement.cols + 2))


def _add_words(words: list[int], arrangement: Arrangement, rows: list[tuple[int, ...]], time: int, diff: int) -> None:
    """Rows in the batcher's format: columns in the index's order, time, diff."""
    if arrangement.plain:
        for row in rows:
            words += row
            words += (time, diff)
    else:
        order = arrangement.order
        for row in rows:
            words += [row[c] for c in order]
            words += (time, diff)


def _hand_over_columns(arrangement: Arrangement, rows: np.ndarray, time: int, diff: int) -> None:
    operator = arrangement.operator
    columns = np.ascontiguousarray(rows if arrangement.plain else rows[list(arrangement.order)])
    if diff == 1 and columns.shape[1] >= BULK_ROWS and isinstance(operator, Arrange) and not operator.has_preset():
        structures.preset_columns(operator.context, columns, time)
    else:
        structures.push_columns(operator.batcher, columns, time, diff)
