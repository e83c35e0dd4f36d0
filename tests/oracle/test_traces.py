"""Traces against a log: after any sequence of inserts, merges, compactions, aborted steps and moves of what is kept,
reads at every time that is still allowed agree with a plain list of updates, and the batches stay few."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everview.dataflow.scopes import EPOCH_MASK
from everview.kernels import structures
from everview.kernels.build.native import DEBUG
from everview.kernels.guarded_calls import CELL_FAULTS, CELL_LIVE_BLOCKS
from everview.kernels.memory import cell
from everview.kernels.operators.arrange import (
    ARRANGE_BATCHER,
    ARRANGE_SCOPE,
    ARRANGE_STEP,
    ARRANGE_TRACE,
    ARRANGE_WORDS,
    arrange,
)
from everview.kernels.run.executor import ENDED_DONE, ENDED_PYTHON_NEEDED, EXECUTOR_WORDS, INSTRUCTION_CALL, abort, step
from everview.kernels.run.step import STEP_READY, STEP_TOUCHED, STEP_WAKES, STEP_WORDS
from everview.kernels.structures import serve
from everview.kernels.trace import read
from everview.kernels.trace.trace import NO_SINCE, TRACE_HISTORY, TRACE_HOLD, TRACE_SINCE
from tests.oracle.harness import effort

NEVER = 2**62
Update = tuple[tuple[int, ...], int, int]


class Machine:
    """One arrange operator with its trace and the smallest program that runs it, next to a log of all updates."""

    def __init__(self, cols: int = 2, merge_effort: int = 2, keep: int = -1) -> None:
        self.cols = cols
        self.keep = keep
        self.scope = structures.make_scope(0, 0, 0, 0, np.array([(1 << 63) - 1], dtype=np.int64))
        self.trace = structures.make_trace(cols, 1, keep, 0 if keep == -1 else NO_SINCE, merge_effort, 0)
        self.batcher = structures.make_batcher(cols + 2, self.scope)
        self.context = structures.make_block(ARRANGE_WORDS)
        self.blocks = [self.context]
        self.step = self._block([0] * STEP_WORDS)
        words = {
            ARRANGE_BATCHER: self.batcher,
            ARRANGE_TRACE: self.trace,
            ARRANGE_SCOPE: self.scope,
            ARRANGE_STEP: self.step,
        }
        for word, address in words.items():
            structures.poke(self.context, word, address)
        traces, scopes, boxes = self._block([self.trace]), self._block([self.scope]), self._block([self.batcher])
        listed = (np.array(words, dtype=np.int64) for words in ([0], [], [self.trace, 0]))
        structures.replace_wakes(self.step, 0, *listed)  # every instruction is called
        self.sessions = []
        for program in ([arrange], [arrange, serve]):
            code = self._block([word for op in program for word in (INSTRUCTION_CALL, op.address, self.context, 0)])
            fields = [code, len(program), 0, self.step, traces, 1, scopes, 1, boxes, 1, self._block([0]), 0, 0]
            fields += [self._block([0]), 1, 0, 0]
            fields += [0, 0, 0, 0, 0]  # operators are not timed, steps not noted
            assert len(fields) == EXECUTOR_WORDS
            self.sessions.append(self._block(fields))
        self.time = 0
        self.log: list[Update] = []

    def _block(self, words: list[int]) -> int:
        block = structures.make_filled(np.array(words, dtype=np.int64))
        self.blocks.append(block)
        return block

    def push(self, updates: list[Update]) -> None:
        words = [word for row, time, diff in updates for word in (*row, time, diff)]
        structures.push_rows(self.batcher, np.array(words, dtype=np.int64), len(updates))

    def commit(self, updates: list[Update], epochs: int = 1) -> None:
        self.push(updates)
        assert step(self.sessions[0], self.time, epochs, 0, b"") == ENDED_DONE
        self.time += epochs
        self.log += updates

    def abort(self, updates: list[Update]) -> None:
        """A step that gets as far as the trace and is then undone."""
        self.push(updates)
        answer = step(self.sessions[1], self.time, 1, 0, b"")
        assert answer in (ENDED_PYTHON_NEEDED, ENDED_DONE)
        if answer == ENDED_PYTHON_NEEDED:
            abort(self.sessions[1], 0)
        else:  # all updates cancelled
            self.time += 1

    @property
    def since(self) -> int:
        return int(structures.peek(self.trace, TRACE_SINCE))

    def updates(self, after: int, upto: int, keep_times: bool) -> Counter[Any]:
        batch = read.collect(self.trace, after, upto, int(keep_times))
        found = self._updates(batch, keep_times)
        read.release(batch)
        return found

    def of_key(self, key: tuple[int, ...], upto: int) -> Counter[Any]:
        block = structures.make_filled(np.array(key, dtype=np.int64))
        batch = read.collect_key(self.trace, block, len(key), upto)
        found = self._updates(batch, False)
        read.release(batch)
        structures.drop_block(block)
        return found

    def _updates(self, batch: int, keep_times: bool) -> Counter[Any]:
        n = structures.batch_rows(batch)
        columns = np.zeros((self.cols, n), dtype=np.int64)
        times, diffs = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
        if n:
            structures.batch_contents(batch, columns, times, diffs)
        rows = list(map(tuple, columns.T.tolist()))
        assert rows == sorted(rows), "batches are sorted"
        keys = list(zip(rows, times.tolist(), strict=True)) if keep_times else rows
        assert len(set(keys)) == len(keys) and 0 not in diffs, "batches are consolidated"
        return Counter(dict(zip(keys, diffs.tolist(), strict=True)))

    def check(self) -> None:
        for time in range(max(self.since, 0), self.time + 1):
            assert self.updates(NO_SINCE, time, False) == total(self.log, lambda t, time=time: t <= time)
            later = self.updates(time, self.time, True)
            assert later == exact([u for u in self.log if time < u[1]])
        for key in {row[0] for row, _, _ in self.log}:
            wanted = total([u for u in self.log if u[0][0] == key], lambda t: True)
            assert self.of_key((key,), self.time) == wanted
        self.check_size()

    def check_size(self) -> None:
        batches, updates, _ = structures.measure_trace(self.trace)
        assert batches <= 7 + int(updates).bit_length()
        assert not DEBUG or cell[CELL_FAULTS] == 0

    def close(self) -> None:
        structures.drop_trace(self.trace)
        structures.drop_batcher(self.batcher)
        structures.drop_scope(self.scope)
        self.blocks += [int(structures.peek(self.step, w)) for w in (STEP_READY, STEP_WAKES, STEP_TOUCHED)]
        for block in filter(None, self.blocks):
            structures.drop_block(block)


def total(log: list[Update], when: Any) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for row, time, diff in log:
        if when(time):
            found[row] += diff
    return Counter({row: n for row, n in found.items() if n})


def exact(log: list[Update]) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for row, time, diff in log:
        found[row, time] += diff
    return Counter({key: n for key, n in found.items() if n})


rows = st.tuples(st.integers(0, 3), st.integers(-2, 2))
changes = st.lists(st.tuples(rows, st.integers(1, 4), st.sampled_from([1, 1, 2, -1, -3])), max_size=8)
moves = st.one_of(
    st.tuples(st.just("commit"), changes, st.integers(1, 4)),
    st.tuples(st.just("commit"), changes, st.just(1)),
    st.tuples(st.just("abort"), changes),
    st.tuples(st.just("history"), st.integers(0, 6)),
    st.tuples(st.just("hold"), st.integers(0, 5)),
    st.tuples(st.just("release")),
    st.tuples(st.just("compact")),
)


@effort(300)
@given(script=st.lists(moves, max_size=25), merge_effort=st.sampled_from([0, 1, 4]))
def test_reads_agree_with_the_log(script: list, merge_effort: int) -> None:
    machine = Machine(merge_effort=merge_effort)
    for kind, *args in script:
        now = machine.time
        if kind == "commit":
            epochs = args[1]
            machine.commit([(row, now + 1 + e % epochs, n) for row, e, n in args[0]], epochs)
        elif kind == "abort":
            machine.abort([(row, now + 1, n) for row, _, n in args[0]])
        elif kind == "history":
            structures.poke(machine.trace, TRACE_HISTORY, args[0])
        elif kind == "hold":
            structures.poke(machine.trace, TRACE_HOLD, max(machine.since, now - args[0]))
        elif kind == "release":
            structures.poke(machine.trace, TRACE_HOLD, NEVER)
        else:
            structures.compact_trace(machine.trace)
        machine.check()
    machine.close()


def wide(n: int) -> int:
    """A number anywhere in 64 bits, like the ids of strings; differences of two do not fit into 64 bits."""
    return (n * 0x9E3779B97F4A7C15 + 2**63) % 2**64 - 2**63


@pytest.mark.parametrize(("seed", "merge_effort", "spread"), [(0, 1, int), (1, 1, wide), (2, 2, wide), (3, 16, int)])
def test_large_merges_in_pieces_25_steps_of_up_to_9000_updates(seed: int, merge_effort: int, spread: Any) -> None:
    """Merges that go on over many commits: reads, aborts and compaction while they are under way."""
    source = random.Random(seed)
    numbers = np.random.default_rng(seed)
    machine = Machine(merge_effort=merge_effort)
    structures.poke(machine.trace, TRACE_HISTORY, 3)
    now: Counter[Any] = Counter()
    older: dict[int, Counter[Any]] = {0: Counter()}
    for _ in range(25):
        size = source.choice([1, 10, 200, 3000, 9000])
        keys = numbers.integers(0, 150, size=(size, 2)).tolist()
        updates = [((spread(a), spread(b)), machine.time + 1, source.choice([1, 1, 2, -1])) for a, b in keys]
        if source.random() < 0.2:
            machine.abort(updates)  # type: ignore[arg-type]
            continue
        if source.random() < 0.3:
            updates = [(row, machine.time + 1, -n) for row, n in source.sample(sorted(now.items()), len(now) // 2)]
        machine.commit(updates)  # type: ignore[arg-type]
        machine.log.clear()
        for row, _, n in updates:
            now[row] += n
        now = Counter({row: n for row, n in now.items() if n})
        older[machine.time] = now.copy()
        for time in range(max(0, machine.since), machine.time + 1):
            assert machine.updates(NO_SINCE, time, False) == older[time]
        key = spread(source.randrange(150))
        assert machine.of_key((key,), machine.time) == Counter({r: n for r, n in now.items() if r[0] == key})
        machine.check_size()
        if source.random() < 0.05:
            structures.compact_trace(machine.trace)
            assert structures.measure_trace(machine.trace)[0] <= 1
    machine.close()


FEW_OF_MANY = {
    "small": (lambda a: a, lambda b: b),
    "below zero": (lambda a: a - 20, lambda b: -b),
    "at the ends": (lambda a: 2**63 - 41 + a, lambda b: b - 2**63),
    "halves alike": (lambda a: 2 * a, lambda b: 2 * b + 1),
    "second anywhere": (lambda a: a, wide),
    "second one value": (lambda a: a, lambda b: 7),
}


@pytest.mark.parametrize("shape", FEW_OF_MANY)
def test_keys_are_found_where_the_first_column_has_few_values(shape: str) -> None:
    """Large batches whose index goes by two columns: every key, one or two columns, present or not."""
    first, second = FEW_OF_MANY[shape]
    numbers = np.random.default_rng(3)
    machine = Machine()
    for size in (9000, 3000, 1500):
        a, b = numbers.integers(0, 40, size=size), numbers.integers(0, 400, size=size)
        rows = [(first(x), second(y)) for x, y in zip(a.tolist(), b.tolist(), strict=True) if x % 5]
        machine.commit([(row, machine.time + 1, 1) for row in rows])
    there = total(machine.log, lambda t: True)
    by_first: dict[int, Counter[Any]] = {first(x): Counter() for x in range(-1, 41) if -(2**63) <= first(x) < 2**63}
    for row, n in there.items():
        by_first[row[0]][row] = n
    for key, wanted in by_first.items():
        assert machine.of_key((key,), machine.time) == wanted
    for x in range(0, 41, 3):
        for y in range(-1, 402, 7):
            row = (first(x), second(y))
            if all(-(2**63) <= word < 2**63 for word in row):
                assert machine.of_key(row, machine.time) == Counter({row: there[row]} if row in there else {})
    machine.close()


@effort(100)
@given(script=st.lists(st.tuples(changes, st.integers(0, 2)), max_size=15))
def test_times_in_loops_lose_their_epoch_when_a_step_commits(script: list) -> None:
    """Inside loops a time is (round, epoch of the step); rounds stay apart for ever, epochs of old steps become 0."""
    machine = Machine(keep=~EPOCH_MASK)
    said: list[Update] = []
    for updates, shift in script:
        at = [(row, ((e + shift) << 12) | (1 + e % 3), n) for row, e, n in updates]
        machine.commit(at, 3)
        said += [(row, time & ~EPOCH_MASK, n) for row, time, n in at]
        assert machine.updates(NO_SINCE, NEVER, True) == exact(said)
        machine.check_size()
    machine.close()


@pytest.mark.parametrize("history", [0, 2])
@pytest.mark.parametrize("repeated", [(), (0,), (511,), (512,), (700, 701), (1023, 1024, 5999), (3, 2500, 5000)])
def test_merges_of_rows_that_are_there_once_widen_with_the_first_repeated_one(
    repeated: tuple[int, ...], history: int
) -> None:
    """Every second row is in the older batch, the others and some of its rows in the newer; pieces of 512 are merged,
    and a column of diffs is there only if a row is there twice.
    """
    machine = Machine(cols=3)
    structures.poke(machine.trace, TRACE_HISTORY, history)
    rows: list[tuple[int, ...]] = [(i // 100, i % 100, i * 7) for i in range(6000)]
    machine.commit([(row, 1, 1) for row in rows[0::2]])
    machine.commit([(row, 2, 1) for row in rows[1::2]] + [(rows[i - i % 2], 2, 1) for i in repeated])
    for _ in range(4):  # pieces of a merge that is under way
        machine.commit(
            [
                ((1, 1, 1), machine.time + 1, 1),
                ((1, 1, 1), machine.time + 1, -1),
                ((2, 2, machine.time), machine.time + 1, 1),
            ]
        )
    machine.check()
    structures.compact_trace(machine.trace)
    assert machine.updates(NO_SINCE, NEVER, False) == total(machine.log, lambda t: True)
    if not history:
        size = structures.measure_trace(machine.trace)[2]
        assert size > 8 * 4 * 6000 if repeated else size < 8 * 4 * 6000
    machine.close()


@pytest.mark.parametrize("rows", [1, 50])
def test_updates_that_cancel_leave_nothing_2000_epochs(rows: int) -> None:
    """A collection of constant size, changed at every time, takes constant space: (i, 0) and (i, 1) take turns."""
    machine = Machine()
    machine.commit([((i, 0), 1, 1) for i in range(rows)])
    for epoch in range(2_000):
        i, turn = epoch % rows, epoch // rows % 2
        machine.commit([((i, turn), machine.time + 1, -1), ((i, 1 - turn), machine.time + 1, 1)])
        assert structures.measure_trace(machine.trace)[1] <= 4 * rows + 256
    structures.compact_trace(machine.trace)
    assert structures.measure_trace(machine.trace)[1] == rows
    machine.close()


@pytest.mark.skipif(not DEBUG, reason="blocks are counted in the debug build only")
def test_closing_gives_all_memory_back() -> None:
    before = int(cell[CELL_LIVE_BLOCKS])
    test_updates_that_cancel_leave_nothing_2000_epochs(50)
    test_large_merges_in_pieces_25_steps_of_up_to_9000_updates(0, 2, int)
    assert int(cell[CELL_LIVE_BLOCKS]) == before


@given(
    st.lists(
        st.tuples(
            st.lists(st.tuples(st.tuples(st.integers(0, 30), st.integers(0, 2)), st.integers(-2, 2)), max_size=3),
            st.sampled_from([1, 1, 1, 2]),
            st.sampled_from([None, None, None, 0, 3, 20, NEVER]),
        ),
        min_size=30,
        max_size=120,
    ),
    st.sampled_from([0, 5, 1000]),
)
@effort(25)
def test_a_few_rows_merged_into_many_keep_their_times(script: list, history: int) -> None:
    """Small commits rewrite the last batch by copying what lies between their rows: with times that are told apart or
    not, with a reader that holds old ones, with rows that come again and cancel."""
    machine = Machine()
    structures.poke(machine.trace, TRACE_HISTORY, history)
    machine.commit([((node, side), 1, 1) for node in range(0, 31, 2) for side in range(3)])
    for updates, epochs, hold in script:
        first = machine.time + 1
        machine.commit([(row, first + i % epochs, diff) for i, (row, diff) in enumerate(updates) if diff], epochs)
        if hold is not None:
            since = max(machine.since, machine.time - hold)
            structures.poke(machine.trace, TRACE_HOLD, max(since, 0) if hold != NEVER else NEVER)
    machine.check()
    machine.close()
