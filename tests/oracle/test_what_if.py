"""`what_if` against doing it: random plans, random changes; the same changes of every view, and nothing has happened.

Before a step is run, its first transaction is supposed. What that says must be what the step then does at its first
time, for every view and table; what is read inside must be what the oracle says of that time; and afterwards every
batch of every trace, and every byte of a directory, must be what it was.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import everview as ev
from everview.dataflow import saved_state
from tests.inside import inside
from tests.oracle import plans
from tests.oracle.harness import (
    Run,
    Runtime,
    Scenario,
    Transaction,
    as_bag,
    assert_same,
    bag_of_changes,
    canonical,
    effort,
)
from tests.oracle.reference import Divergent, Oracle, TooBig
from tests.oracle.test_random_plans import moments

LEAST = 4
"""Random examples, however long each takes."""


def dataflows(db: ev.Session) -> list[Any]:
    """Those that run; what is only read here (`sync`) may come later."""
    runtime = inside(db).runtime
    shards = getattr(getattr(runtime, "cluster", None), "_shards", ())
    return [shard.dataflow for shard in shards] or [runtime.dataflow]


def images(db: ev.Session) -> Any:
    """Every batch of every trace."""
    found = []
    for dataflow in dataflows(db):
        for operator in saved_state.live(dataflow):
            trace = saved_state.state_of(operator)
            if trace is not None:
                batches = [(i.rows, i.time, i.diff, i.body.tobytes()) for i in saved_state.images(trace)]
                found.append((operator.number, trace.since, batches))
    return found


def files(db: ev.Session) -> dict[str, str]:
    """Every file of the session's directory."""
    store = inside(db).runtime.backing.store
    if store is None:
        return {}
    paths = [p for p in Path(store.files.root).rglob("*") if p.is_file()]
    return {str(p): hashlib.sha256(p.read_bytes()).hexdigest() for p in paths}


class Supposing(Run):
    """Asks before it acts."""

    supposed = 0

    def _step(self, step: Sequence[Transaction]) -> None:
        now = self.db.time
        for name in self.watched:
            self.watched[name].view.rows()  # whatever has to be fetched to be read is here
        before = images(self.db), files(self.db), self._heard()
        told, inside_rows = self._suppose(step[0])
        assert (images(self.db), files(self.db), self._heard()) == before
        assert self.db.time == now
        self._check_now()
        super()._step(step)
        for name, watched in self.watched.items():
            did = [(row, diff) for row, time, diff in watched.view.changes(since=now) if time == now + 1]
            assert_same(bags(told[name]), bags(did), f"{name}: what_if at time {now}")
            assert_same(inside_rows[name], self.expected(name, now + 1), f"{name}.rows() in what_if at time {now}")
            type(self).supposed += bool(did)
        for name, table in self.tables.items():
            did = [(row, diff) for row, time, diff in table.changes(since=now) if time == now + 1]
            assert_same(bags(told[name]), bags(did), f"table {name}: what_if at time {now}")

    def _heard(self) -> Any:
        return {name: len(watched.heard) for name, watched in self.watched.items()}

    def _suppose(self, transaction: Transaction) -> Any:
        with self.db.what_if() as w:
            for name, change in transaction.items():
                new = [row for row, n in change.items() for _ in range(n)]
                gone = [row for row, n in change.items() for _ in range(-n)]
                if new:
                    self.tables[name].insert(new)
                    self.tables[name].rows()  # answers that are outdated by what comes
                if gone:
                    self.tables[name].delete(gone)
            rows = {name: as_bag(watched.view.rows()) for name, watched in self.watched.items()}
        return {name: w.changes(name) for name in (*self.watched, *self.tables)}, rows


def bags(changes: Sequence[tuple[Any, int]]) -> Any:
    assert all(diff for _, diff in changes)
    return canonical(bag_of_changes(changes))


def check(runtime: Runtime, specs: Sequence[plans.Spec], when: Sequence[tuple[int, int]], steps: Any) -> None:
    try:
        views = plans.views(specs, when, len(steps))
        found: Oracle = Supposing(Scenario(plans.TABLES, views, plans.valid(steps)), runtime).run()
        assert found.time
    except (TooBig, Divergent):
        assume(False)


def few(runtime: Runtime, examples: int) -> settings:
    """The oracle's own tests run many: these are steps, too. But not one alone: Hypothesis begins with an empty one."""
    wanted = runtime.effort(max(2, examples // (1 if runtime.name == "embedded" else 4)))
    return wanted if wanted.max_examples >= LEAST else effort(LEAST)


def test_plans_without_loops(runtime: Runtime) -> None:
    @few(runtime, 24)
    @given(specs=st.lists(plans.flat_plans, min_size=1, max_size=3), moments=moments, steps=plans.steps)
    def flat(specs: Any, moments: Any, steps: Any) -> None:
        check(runtime, specs, moments, steps)

    Supposing.supposed = 0
    flat()
    assert Supposing.supposed, "nothing would ever have changed"


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_plans_with_loops(runtime: Runtime, depth: int) -> None:
    @few(runtime, {1: 16, 2: 8, 3: 6}[depth])
    @given(spec=plans.with_loops(depth), other=plans.with_loops(1), moments=moments, steps=plans.steps)
    def looped(spec: Any, other: Any, moments: Any, steps: Any) -> None:
        check(runtime, [spec, other], moments, steps)

    looped()
