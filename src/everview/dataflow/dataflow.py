"""The dataflow graph of a session: its operators in program order, and how a step runs on them.

`Dataflow` assembles the compiled program from the scopes' items, runs steps, serves operators that need Python, and
frees what no view needs any more. The graph changes only between steps. A newly installed part receives the history of
its inputs by *replay*: during the installing step, every existing operator with a new reader sends its accumulated
output again, to the new reader only.
"""

from __future__ import annotations

import sys
import threading
import time
from array import array
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from everview import cancellation
from everview.codes.interner import Interner
from everview.codes.values import encode_value
from everview.dataflow import callbacks, kernel_interrupts, shield, step_errors, traversal
from everview.dataflow.budgets import Budgets
from everview.dataflow.kernel_errors import from_kernels, located
from everview.dataflow.operators import Activate, Arrange, Arrangement, Operator
from everview.dataflow.program import Item, Program, wakes, written
from everview.dataflow.read_leases import Lender
from everview.dataflow.scopes import Scope
from everview.dataflow.step_notes import Ended, StepNotes
from everview.dataflow.streams import Sink
from everview.dataflow.thread_pool import ThreadPool
from everview.dataflow.timed_history import TimedHistory
from everview.dataflow.timing import Timing
from everview.errors import EverviewError, MemoryLimitError
from everview.expr.program_builder import KernelCall
from everview.kernels import structures
from everview.kernels.operators import stream as stream_k
from everview.kernels.run import executor as x
from everview.kernels.run import hypothetical
from everview.kernels.run import step as step_k
from everview.kernels.trace import image
from everview.types import DataType

if TYPE_CHECKING:
    from everview.dataflow.identity import Purpose
    from everview.dataflow.plan_swap import PlanSwap
    from everview.dataflow.provenance import Nodes


ANY_SIZE = 1 << 62
"""Words of a batch of unlimited size."""

NO_ROWS = b""
"""The rows of a step that has none of its own: its input is already in the batchers."""

SUPPOSED_WORDS = 512
"""Initial buffer size for suppositions, enough for most; larger ones take a second call."""


class Dataflow:
    """Operators, program and state of one session."""

    def __init__(
        self, interner: Interner, merge_effort: int = 4, *, sharded: bool = False, packs: bool = False
    ) -> None:
        self.interner = interner
        self.merge_effort = merge_effort
        self.packs = packs
        """whether operators may keep their output in another form than a trace, which nobody writes to files"""
        self.sharded = sharded
        """whether it is one of several shards: then rows are exchanged and the program has stops"""
        self.numbered: list[Operator | None] = []
        """every operator in order of creation, equal on all shards; None once dropped"""
        self.made = 0
        """number of operators ever created; unlike numbers, it never decreases"""
        self.purpose: Purpose | None = None
        """the part of a plan that operators are being created for"""
        self.time = 0
        self.serving = 0
        """the thread that is in a user function called by the current step; else 0"""
        self.step_block = structures.make_block(step_k.STEP_WORDS)
        self.threads: ThreadPool | None = None
        self.budgets = Budgets()
        self.root = Scope(None)
        self.tail: list[Operator] = []
        self.session = structures.make_block(x.EXECUTOR_WORDS)
        structures.poke(self.session, x.EXECUTOR_STEP, self.step_block)
        self.program: list[tuple[Item, int]] = []
        self._counted: list[Operator] = []
        """the operators whose traces the executor has, in its order"""
        self.timing: Timing | None = None
        """measures the time that operators take, while that is wanted"""
        self.notes: StepNotes | None = None
        """notes of steps, while there is a log"""
        self._outside = array("q")
        """the traces outside loops, by operator number"""
        self._room = array("q", bytes(8 * SUPPOSED_WORDS))
        """buffer for the output of small suppositions; slicing a NumPy array would be slow"""
        self._replays: list[tuple[Operator, Sink]] = []
        self._beginnings: list[tuple[Operator, np.ndarray]] = []
        self._new: list[Operator] = []
        self.swaps: list[PlanSwap] = []
        """plan changes in progress"""
        self._known = 0  # operators of finished installations
        self._stale = True
        self._target: int | None = None
        """the time after the current step; set while the executor is at the start of the program"""
        self.running = False
        """whether kernels of a step are running and can be stopped (`everview.dataflow.kernel_interrupts`)"""
        self.most_words = 0
        """memory limit of the process in words while they run; 0: no limit"""
        self.timed = False
        """whether the current call has a limit, so that user functions must not block it"""
        self.stopped = False
        """whether the current call was asked to stop"""
        self.lender: Lender | None = None
        """lets other threads read while a step computes, if there are any"""
        self.timed_history: TimedHistory | None = None
        """keeps history by duration, if configured"""
        self.provenance: Nodes | None = None
        """the table of provenance nodes, while a view needs it"""
        self._leaving: set[Operator] = set()
        self._ended: set[Scope] = set()

    def share_work(self, threads: int) -> None:
        """Let several threads share large operators from now on."""
        self.threads = ThreadPool(self.step_block, threads)

    # building

    def add(self, operator: Operator, *, at_end: bool = False) -> None:
        """Append an operator to its scope; `at_end`: after all loops, always."""
        (self.tail if at_end else operator.scope.items).append(operator)
        self._new.append(operator)
        self._stale = True

    def add_loop(self, scope: Scope) -> None:
        """Append a loop, whose body is complete, to its parent scope."""
        assert scope.parent is not None
        scope.parent.items.append(scope)
        self._stale = True

    def attach(self, producer: Operator, sink: Sink) -> None:
        """Attach a sink to an operator, with its history."""
        producer.output().attach(sink)
        if producer.old:
            self._replays.append((producer, sink))

    def begin_with(self, operator: Operator, rows: np.ndarray) -> None:
        """Give a new operator initial rows (codes)."""
        self._beginnings.append((operator, rows))

    def encode_literal(self, declared: DataType, value: Any) -> int:
        """The code of a constant, or the address of what an instruction calls."""
        if isinstance(value, KernelCall):
            from everview.dataflow.provenance import nodes_for  # which imports this

            return nodes_for(self).kernel(value)
        return encode_value(declared, value, self.interner)

    def operators(self) -> list[Operator]:
        """All operators in program order."""
        return [*traversal.operators_in(self.root), *self.tail]

    def scopes(self) -> list[Scope]:
        """All loops, outer ones first, then the root scope."""
        return [*traversal.loops_in(self.root), self.root]

    # the program

    def assemble(self) -> None:
        """Write the program and the lists of traces, scopes and batchers for the executor."""
        if not self._stale:
            return
        # at the start of an installing step, replayed rows may be waiting for any operator
        listening = [*self._new, *(point for swap in self.swaps for point in swap.points)]
        program = written(self.root, self.tail, {o for o in listening if o.outbox}, sharded=self.sharded)
        self.program, words, operators, _ = program
        traces = [o.trace.block for o in operators if o.trace is not None]
        batchers = [box for o in operators for box in (o.batcher, o.outbox) if box]
        scopes = [s.address for s in self.scopes()]
        forests = [o.forest for o in operators if o.forest]
        if self.timing is not None:
            self.timing.remove()
        self._list(x.EXECUTOR_PROGRAM, x.EXECUTOR_LENGTH, [*words, x.INSTRUCTION_STOP, 0, 0, 0], 4)
        structures.poke(self.session, x.EXECUTOR_LENGTH, len(self.program))  # the stop after the end is for `suppose`
        self.count_changes()
        self._counted = []  # until a block with a word for each exists: allocating it may fail
        self._list(x.EXECUTOR_COUNTS, x.EXECUTOR_NCOUNTS, [0] * len(traces))
        self._counted = [o for o in operators if o.trace is not None]
        self._list(x.EXECUTOR_TRACES, x.EXECUTOR_NTRACES, traces)
        self._list(x.EXECUTOR_BATCHERS, x.EXECUTOR_NBATCHERS, batchers)
        self._list(x.EXECUTOR_SCOPES, x.EXECUTOR_NSCOPES, scopes)
        self._list(x.EXECUTOR_FORESTS, x.EXECUTOR_NFORESTS, forests)
        self._list_wakes(program)
        outside = self.traces_of(o for o in operators if o.scope.is_root and o.trace and not o.trace.stateless)
        self._outside = array("q", outside.tobytes())
        self._stale = False
        if self.timing is not None:
            self.timing.install(self.program, self._counted)

    def _list_wakes(self, program: Program) -> None:
        lists = (np.array(words, dtype=np.int64) for words in wakes(program, sharded=self.sharded))
        structures.replace_wakes(self.step_block, 0 if self.sharded else len(self.program) + 1, *lists)

    def time_operators(self, on: bool) -> None:
        """Measure the time that operators take from now on, or stop. Between steps."""
        if on and self.timing is None:
            for operator in self.operators():
                operator.own_ns = operator.merge_ns = operator.python_ns = 0
            self.timing = Timing(self)
            if not self._stale:
                self.timing.install(self.program, self._counted)
        elif not on and self.timing is not None:
            self.timing.remove()
            self.timing = None

    def note_steps(self, ended: Ended | None) -> None:
        """Take notes of steps from now on, and report to `ended` those that do not note themselves; None: stop.
        Between steps.
        """
        if self.notes is not None:
            self.notes.remove()
        self.notes = None if ended is None else StepNotes(self, ended)

    def count_changes(self) -> None:
        """Update `Operator.changes` from the kernels' counts of what steps add to each trace."""
        counts = structures.peek(self.session, x.EXECUTOR_COUNTS)
        for place, operator in enumerate(self._counted):
            operator.changes += int(structures.peek(counts, place))
            structures.poke(counts, place, 0)

    def step_peak(self) -> int:
        """Peak memory growth during the last step in bytes, sampled between operators; small blocks are not counted."""
        began, most = structures.peek(self.session, x.EXECUTOR_BEGAN), structures.peek(self.session, x.EXECUTOR_PEAK)
        return 8 * max(0, int(most) - int(began))

    def _list(self, field: int, count: int, words: list[int], size: int = 1) -> None:
        structures.replace_list(self.session, field, np.array(words, dtype=np.int64), count, len(words) // size)

    # running

    def run(self, epochs: int, batcher: int = 0, rows: bytes = NO_ROWS) -> None:
        """Run and commit a step of `epochs` epochs after the current time. Its input is a few rows for one batcher, and
        whatever is in the others. After any exception call `ended`.
        """
        if self._stale:
            self.assemble()
        now = self.time + epochs
        structures.poke(self.session, x.EXECUTOR_PC, 0)
        self._target = now
        if self.lender is None and not self.most_words:  # as `_step` does; every single change takes this path
            self.running = True
            try:
                answer = x.step(self.session, self.time, epochs, batcher, rows)
                if answer != x.ENDED_DONE:
                    self.attend(answer)
            except BaseException as error:
                self._undo_failed(error)
                raise
            finally:
                self.running = False
                if kernel_interrupts.used:
                    kernel_interrupts.leave(self)
        else:
            self._step(self.time, epochs, batcher, rows, self.lender)
        self.time, self._target = now, None  # both at once: nothing is raised between two assignments
        if self.timed_history is not None:
            self.timed_history.passed(now)

    def ended(self) -> bool:
        """After an exception in or before `run`: return whether the step is complete; if not, undo it. Idempotent, so
        it may itself be interrupted.
        """
        if self._target is not None and self._committed():
            self.time, self._target = self._target, None
            return True
        self.abort()
        self._target = None
        return False

    def suppose(self, batcher: int = 0, rows: bytes = NO_ROWS) -> array[int] | np.ndarray:
        """Run a step of one epoch after the current time up to its commit, and undo it. Returns what it would have
        added to the traces outside loops, in the format of `everview.kernels.run.hypothetical`. A few rows go into one
        batcher; others are already in theirs. The state is always restored.
        """
        if self._stale:
            self.assemble()
        room = self._room
        undone = False
        self.running = True  # as `enter` does
        if self.most_words:
            kernel_interrupts.enter(self)
        try:
            answer = hypothetical.suppose(self.session, self.time, batcher, rows, self._outside, room)
            if answer == x.ENDED_DONE:
                undone = batcher != 0  # otherwise rows passed as columns must be discarded, too
                return room[: room[0]]
            if answer != hypothetical.ENDED_NO_ROOM:
                self._suppose_on(answer)
            large = np.empty(hypothetical.room_for(self._outside), dtype=np.int64)
            hypothetical.copy(self._outside, large)
            return large
        except BaseException as error:
            if found := located(error, self._operator_at(int(structures.peek(self.session, x.EXECUTOR_PC)))):
                raise found from None
            raise
        finally:
            if not undone:
                self.abort()
            self.running = False
            if kernel_interrupts.used:
                kernel_interrupts.leave(self)

    def _suppose_on(self, answer: int) -> None:
        """Continue a supposed step that needs Python or was not finished, up to the stop after its end."""
        end = len(self.program)
        try:
            structures.poke(self.session, x.EXECUTOR_LENGTH, end + 1)
            self.attend(answer)
            if structures.peek(self.step_block, step_k.STEP_FAULT):
                raise self.failure(x.ENDED_OVERFLOW, end)
            image.fold_step(self.session, self.time + 1)
        finally:
            structures.poke(self.session, x.EXECUTOR_LENGTH, end)

    def fresh(self, wanted: np.ndarray, epochs: int) -> np.ndarray:
        """What the current step, which has reached its end, adds to some traces. It can still be undone."""
        image.fold_step(self.session, self.time + epochs)
        packed = np.empty(image.packed_words(wanted, ANY_SIZE), dtype=np.int64)
        image.pack(wanted, ANY_SIZE, packed)
        return packed

    def traces_of(self, operators: Iterable[Operator]) -> np.ndarray:
        """The addresses of some operators' traces by number; 0 for all others."""
        traces = np.zeros(len(self.numbered), dtype=np.int64)
        for operator in operators:
            assert operator.trace is not None
            traces[operator.number] = operator.trace.block
        return traces

    def settle(self) -> None:
        """Clean up after any interruption: complete or undo the step, undo an installation, finish removals. Does
        nothing between steps.
        """
        self.ended()
        self.serving = 0
        self._stale = True
        for operator in self.operators():
            if operator.stream is not None:
                operator.stream.listed()
        self.forget_new()
        self.remove(set())
        self.assemble()

    def install(self) -> None:
        """Bring newly added operators up to date, in a step that adds no epoch."""
        self.enter()
        try:
            self.replay_for_new()
            structures.poke(self.session, x.EXECUTOR_PC, 0)
            if self.swaps:
                self._step_checked()
            else:
                self._step(self.time - 1, 1)
        except BaseException:
            self.abort()
            raise
        finally:
            self.leave()
        self.installed()

    def _step_checked(self) -> None:
        """Run the installing step up to its commit, which waits for the checks."""
        end = len(self.program)
        try:
            structures.poke(self.session, x.EXECUTOR_LENGTH, end + 1)
            with self.locating():
                self.attend(x.step(self.session, self.time - 1, 1, 0, NO_ROWS))
            if structures.peek(self.step_block, step_k.STEP_FAULT):
                raise self.failure(x.ENDED_OVERFLOW, end)
            self.check_swaps()
        finally:
            structures.poke(self.session, x.EXECUTOR_LENGTH, end)
        x.resume(self.session, end)

    def check_swaps(self) -> None:
        """At the end of the installing step: refuse a plan whose output differs from the one it replaces."""
        for swap in self.swaps:
            swap.check()

    def replay_for_new(self, *, first: bool = True) -> None:
        """Begin an installation: existing operators replay their output to the new ones, at the current time.

        `first`: whether this is the first or only shard, which has the constants.
        """
        self._stale = True
        self.assemble()
        structures.poke(self.step_block, step_k.STEP_BASE, self.time - 1)
        structures.poke(self.step_block, step_k.STEP_EPOCHS, 1)
        for producer, sink in self._replays:
            self._replay(producer, sink)
        for operator, rows in self._beginnings if first else ():
            words = np.ones((len(rows), operator.cols + 2), dtype=np.int64)
            words[:, : operator.cols], words[:, -2] = rows, self.time
            structures.push_rows(operator.batcher, words.ravel(), len(rows))
        for swap in self.swaps:
            swap.take_back(self.time)

    def installed(self) -> None:
        """Record that newly added operators are up to date."""
        for operator in self._new:
            operator.old = True
            operator.settled()
        self._new.clear()
        for swap in self.swaps:
            swap.finish()
        self.swaps.clear()
        self._known = len(self.numbered)
        self._replays.clear()
        self._beginnings.clear()
        self._stale = self._stale or self.sharded  # stops that only the installation needed

    def forget_new(self) -> None:
        """Remove everything created by a failed installation and free its operator numbers."""
        self._replays.clear()
        self._beginnings.clear()
        for swap in reversed(self.swaps):
            swap.undo()
        self.swaps.clear()
        self._leaving |= self.unfinished()
        self._new.clear()
        self.remove(set())
        del self.numbered[self._known :]

    def unfinished(self) -> set[Operator]:
        """The operators created by the current installation; some may not be in the program yet."""
        return {o for o in self.numbered[self._known :] if o is not None}

    def _replay(self, producer: Operator, sink: Sink) -> None:
        stream = structures.make_stream(producer.cols, max(sink.registers, 1), self.step_block)
        structures.poke(stream, stream_k.STREAM_SINKS, structures.make_filled(np.array([sink.address], dtype=np.int64)))
        structures.poke(stream, stream_k.STREAM_NSINKS, 1)
        try:
            producer.replay(stream)
        finally:
            structures.drop_stream(stream)

    def _step(
        self, base: int, epochs: int, batcher: int = 0, rows: bytes = NO_ROWS, lender: Lender | None = None
    ) -> None:
        """Run a step to its end. Wherever Python runs, an interrupt may be raised, even once the step is complete;
        `_committed` tells.
        """
        self.enter()
        try:
            if lender is None:
                answer = x.step(self.session, base, epochs, batcher, rows)
            else:
                answer = self._beside_guests(lender, base, epochs, batcher, rows)
            if answer != x.ENDED_DONE:
                self.attend(answer)
        except BaseException as error:
            self._undo_failed(error)
            raise
        finally:
            self.leave()

    def _undo_failed(self, error: BaseException) -> None:
        """After an exception: undo the step unless it is complete, and raise the error with the operator's name if the
        operator is to blame.
        """
        if not self._committed():
            at = int(structures.peek(self.session, x.EXECUTOR_PC))
            self.abort()
            if found := located(error, self._operator_at(at)):
                raise found from None

    def _beside_guests(self, lender: Lender, base: int, epochs: int, batcher: int, rows: bytes) -> int:
        """Run a step that others may read beside up to its commit, then commit it.

        It may be interrupted between any two of these lines, and must not look committed before it is: PC is set beyond
        both lengths that the program has here.
        """
        end = len(self.program)
        with lender.prepared(self.session):
            structures.poke(self.session, x.EXECUTOR_LENGTH, end + 1)
            try:
                self.attend(x.step(self.session, base, epochs, batcher, rows))
            finally:
                if structures.peek(self.session, x.EXECUTOR_PC) == end:
                    structures.poke(self.session, x.EXECUTOR_PC, end + 2)
                structures.poke(self.session, x.EXECUTOR_LENGTH, end)
        return int(x.resume(self.session, end))

    def enter(self) -> None:
        """Mark the start of a step's kernels."""
        self.running = True
        if self.most_words:
            kernel_interrupts.enter(self)

    def leave(self) -> None:
        """Mark their end; idempotent."""
        self.running = False
        if kernel_interrupts.used:
            kernel_interrupts.leave(self)

    @contextmanager
    def locating(self) -> Iterator[None]:
        """Add the running operator to errors raised inside."""
        try:
            yield
        except (EverviewError, MemoryError) as error:
            if found := located(error, self._operator_at(int(structures.peek(self.session, x.EXECUTOR_PC)))):
                raise found from None
            raise

    def _operator_at(self, pc: int) -> Operator | None:
        item = self.program[pc][0] if pc < len(self.program) else None
        return item if isinstance(item, Operator) else None

    def _committed(self) -> bool:
        """Whether the current step reached its end, which the executor commits before it returns."""
        at_end = structures.peek(self.session, x.EXECUTOR_PC) == structures.peek(self.session, x.EXECUTOR_LENGTH) > 0
        return bool(at_end and structures.peek(self.step_block, step_k.STEP_FAULT) == 0)

    def attend(self, answer: int) -> int:
        """Do what the executor cannot, until the step is done or at a stop; return its instruction."""
        while True:
            pc = int(structures.peek(self.session, x.EXECUTOR_PC))
            if answer in (x.ENDED_DONE, x.ENDED_STOPPED):
                return pc
            if answer == x.ENDED_PYTHON_NEEDED:
                self.serving = threading.get_ident()
                start = time.perf_counter_ns()
                try:
                    callbacks.serve(self, self.program[pc][0])
                finally:
                    self.serving = 0
                    if self.timing is not None and (served := self._operator_at(pc)) is not None:
                        served.python_ns += time.perf_counter_ns() - start
                pc += 1
                cancellation.poll()
            elif answer == x.ENDED_YIELD:
                shield.hear()
                cancellation.poll()
            else:
                raise self.failure(answer, pc)
            answer = x.resume(self.session, pc)

    def abort(self) -> None:
        """Undo the current step, including rows passed in for it, and end reads beside it."""
        if self.lender is not None:
            self.lender.close()
        x.abort(self.session, int(from_kernels(sys.exception())))
        for operator in self.root.items:
            if isinstance(operator, Arrange):
                operator.drop_preset()

    def failure(self, answer: int, pc: int) -> Exception:
        """The error at an instruction."""
        return step_errors.failure(self, answer, pc)

    def time_base(self) -> int:
        """The last epoch before the current step."""
        return int(structures.peek(self.step_block, step_k.STEP_BASE))

    def keep_history(self, arrangement: Arrangement, epochs: int) -> None:
        """Keep this many epochs distinguishable in an arrangement and in the errors it depends on: they are read
        together."""
        traces = [arrangement.trace]
        for operator in self.needed([arrangement.operator]):
            if operator.errors is not None and operator.errors.trace is not None:
                traces.append(operator.errors.trace)
        for trace in traces:
            trace.keep_history(epochs)
        if self.timed_history is not None and epochs:
            self.timed_history.keep(traces)

    # dropping

    def collect(self, roots: Iterable[Operator]) -> set[Operator]:
        """Free every operator that none of `roots` needs; return those that were freed."""
        live = self.needed(roots)
        gone = {
            o for o in self.operators() if o not in live and not (isinstance(o, Activate) and self._needed(o, live))
        }
        self.remove(gone)
        return gone

    def reuse_numbers(self) -> None:
        """Reuse the numbers of the last operators if they were freed. Otherwise, views created and dropped over a year
        would grow lists and arrays to the number of all operators ever created. Not on shards, where numbers are names
        in files; not during an installation, which is identified by its numbers.
        """
        if self._new or self.swaps or self._known != len(self.numbered):
            return
        while self.numbered and self.numbered[-1] is None:
            self.numbered.pop()
        self._known = len(self.numbered)

    @staticmethod
    def needed(roots: Iterable[Operator], *, errors: bool = True) -> set[Operator]:
        """The given operators and everything they depend on, including those that hold their errors."""
        return traversal.needed(roots, errors=errors)

    def new(self) -> list[Operator]:
        """The operators added by the current installation."""
        return list(self._new)

    def _needed(self, activate: Activate, live: set[Operator]) -> bool:
        return activate.inputs[0] in live and any(o in live for o in traversal.operators_in(activate.activated))

    def remove(self, gone: set[Operator]) -> None:
        """Free operators and remove them from the program and from others' streams, including those whose removal was
        interrupted before.
        """
        self._leaving |= gone
        gone = self._leaving
        if not gone and not self._ended:
            return

        def keep(items: list[Operator | Scope]) -> list[Operator | Scope]:
            kept: list[Operator | Scope] = []
            for item in items:
                if isinstance(item, Scope):
                    item.items = keep(item.items)
                    if item.items:
                        kept.append(item)
                    else:
                        self._ended.add(item)
                elif item not in gone:
                    kept.append(item)
            return kept

        self.root.items = keep(self.root.items)
        self.tail = [o for o in self.tail if o not in gone]
        for operator in self.operators():
            if operator.stream is not None:
                operator.stream.detach(gone)
        self._stale = True
        try:
            self.assemble()
        except MemoryLimitError:
            return  # only memory is lost: the next step assembles, and the next removal frees them
        for operator in list(gone):
            if operator.number < len(self.numbered) and self.numbered[operator.number] is operator:
                self.numbered[operator.number] = None
            operator.free()
            gone.discard(operator)
        for scope in list(self._ended):
            scope.free()
            self._ended.discard(scope)

    def close(self) -> None:
        """Free everything."""
        if self.threads is not None:
            self.threads.close()
        self.time_operators(False)
        self.note_steps(None)
        self.remove(set(self.operators()))
        lists = (x.EXECUTOR_PROGRAM, x.EXECUTOR_TRACES, x.EXECUTOR_BATCHERS, x.EXECUTOR_SCOPES, x.EXECUTOR_FORESTS)
        for field in (*lists, x.EXECUTOR_COUNTS):
            structures.drop_block(structures.peek(self.session, field))
        self.root.free()
        self.budgets.free()
        for field in (step_k.STEP_READY, step_k.STEP_WAKES, step_k.STEP_TOUCHED):
            structures.drop_block(structures.peek(self.step_block, field))
        structures.drop_block(self.session)
        structures.drop_block(self.step_block)
