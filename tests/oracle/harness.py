"""Runs a scenario on a session and compares everything the session says with the oracle, at every time.

A scenario is tables, views with the step before which each is installed (and after which it is dropped), and steps. A
step is one to five transactions; several are put into one `db.batch()`, so the engine computes them together and must
still be exact for each time apart.

    Scenario(tables={"edge": {"src": int, "dst": int}}, views=[ViewPlan("v", build)], steps=[[{"edge": {(1, 2): 1}}]])

What is checked, for every view: `rows()` and a `lookup` after each step; the contents at *every* time, from
`changes(since=...)`; `as_of(t)` at random times; subscriptions (one callback per complete time, in order, and their
sum is the contents).
"""

from __future__ import annotations

import math
import os
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, Phase, settings

from everview.kernels.build.native import DEBUG
from everview.language.collection import Collection
from everview.language.relation import relation_of
from tests.inside import inside
from tests.oracle.reference import Bag, Oracle, Row, added

THOROUGH = os.environ.get("EVERVIEW_PROFILE", "ci") == "thorough"

Change = Mapping[Row, int]
Transaction = Mapping[str, Change]
"""Per table, rows with how often they come (positive) or go."""


def effort(examples: int) -> settings:
    """How long Hypothesis tries; EVERVIEW_PROFILE=thorough: ten times longer, and with other examples every time. The
    bounds-checked build sees a third of the examples that the normal build sees.

    Shrinking a large plan can take minutes: EVERVIEW_NO_SHRINK=1 gives the first example that fails (see `shrink.py`).
    """
    return settings(
        max_examples=examples * 10 if THOROUGH else math.ceil(examples / 3) if DEBUG else examples,
        deadline=None,
        derandomize=not THOROUGH,
        database=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate] if "EVERVIEW_NO_SHRINK" in os.environ else [Phase.generate, Phase.shrink],
    )


@dataclass(frozen=True)
class Runtime:
    """A way to run Everview; `connect(**options)` opens a session. `share` of the usual number of random examples is
    enough where each takes seconds.
    """

    name: str
    connect: Callable[..., Any]
    share: float = 1.0
    later: bool = False
    """whether subscribers are told a moment later, perhaps of several times at once, as a server's clients are"""

    def effort(self, examples: int) -> settings:
        """`effort` for this runtime."""
        return effort(math.ceil(examples * self.share))


@dataclass(frozen=True)
class ViewPlan:
    """A view: how to make its collection of the tables, before which step it comes, after which it goes."""

    name: str
    build: Callable[[Mapping[str, Any]], Collection]
    at: int = 0
    until: int | None = None
    plan: str | None = None

    @property
    def options(self) -> dict[str, Any]:
        """What `db.view` is given besides."""
        return {} if self.plan is None else {"plan": self.plan}


@dataclass(frozen=True)
class Scenario:
    tables: Mapping[str, Mapping[str, Any]]
    views: Sequence[ViewPlan]
    steps: Sequence[Sequence[Transaction]]
    seed: int = 0


@dataclass
class Watched:
    """An installed view and all that was heard of it."""

    view: Any
    collection: Collection
    since: int
    heard: list[tuple[int, list[tuple[Row, int]]]] = field(default_factory=list)
    following: Any = None

    def hear(self, batch: Any) -> None:
        self.heard.append((batch.time, list(batch.rows())))


def run(scenario: Scenario, runtime: Runtime) -> Oracle:
    """Run it, check everything; the oracle knows all times afterwards."""
    return Run(scenario, runtime).run()


class Run:
    def __init__(self, scenario: Scenario, runtime: Runtime) -> None:
        self.scenario = scenario
        self.runtime = runtime
        self.db = runtime.connect()
        self.oracle = Oracle()
        self.random = random.Random(scenario.seed)
        self.tables = {name: self.db.table(name, schema) for name, schema in scenario.tables.items()}
        self.watched: dict[str, Watched] = {}

    def run(self) -> Oracle:
        with self.db:
            for number, step in enumerate(self.scenario.steps):
                self._install(number)
                self._step(step)
                self._check_now()
                self._drop(number)
            self._install(len(self.scenario.steps))
            self._check_now()
            self._check_history()
        return self.oracle

    # ------------------------------------------------------------------------------------- doing

    def _install(self, number: int) -> None:
        for plan in self.scenario.views:
            if plan.at == number:
                collection = plan.build(self.tables)
                watched = Watched(self.db.view(plan.name, collection, **plan.options), collection, self.db.time)
                watched.following = watched.view.subscribe(watched.hear)
                self.watched[plan.name] = watched
                self._check_rows(plan.name)

    def _declare_again(self) -> list[Watched]:
        """Declare everything in a session that was opened anew, as a program that is run again does; the views, which
        nobody listens to yet.
        """
        assert self.db.time == self.oracle.time
        self.tables = {name: self.db.table(name, schema) for name, schema in self.scenario.tables.items()}
        found = []
        for view in self.scenario.views:
            if view.name in self.watched:
                watched = self.watched[view.name]
                watched.view = self.db.view(view.name, view.build(self.tables), **view.options)
                found.append(watched)
        assert not inside(self.db).catalog.redeclarable
        assert set(self.db.views) == set(self.watched)
        return found

    def _drop(self, number: int) -> None:
        for plan in self.scenario.views:
            if plan.until == number and plan.name in self.watched:
                self._check_view_history(plan.name)
                self.watched.pop(plan.name).view.drop()

    def _step(self, step: Sequence[Transaction]) -> None:
        if len(step) == 1:
            self._transaction(step[0])
        else:
            with self.db.batch():
                for transaction in step:
                    self._transaction(transaction)
        assert self.db.time == self.oracle.time

    def _transaction(self, transaction: Transaction) -> None:
        with self.db.transaction():
            for name, change in transaction.items():
                new = [row for row, n in change.items() for _ in range(n)]
                gone = [row for row, n in change.items() for _ in range(-n)]
                if new:
                    self.tables[name].insert(new)
                if gone:
                    self.tables[name].delete(gone)
        self.oracle.commit({relation_of(self.tables[name]).node.id: change for name, change in transaction.items()})

    # ---------------------------------------------------------------------------------- checking

    def expected(self, name: str, time: int) -> Bag:
        return canonical(self.oracle.contents(relation_of(self.watched[name].collection).node, time))

    def _check_now(self) -> None:
        for name in self.watched:
            self._check_rows(name)

    def _check_rows(self, name: str) -> None:
        view, time = self.watched[name].view, self.oracle.time
        assert_same(as_bag(view.rows()), self.expected(name, time), f"{name}.rows() at time {time}")
        contents = self.oracle.contents(relation_of(self.watched[name].collection).node, time)
        keys = [row[0] for row in contents if isinstance(row[0], int | str)]
        if keys:
            key = self.random.choice(keys)
            wanted = canonical({row: n for row, n in contents.items() if row[0] == key})
            assert_same(as_bag(view.lookup(key)), wanted, f"{name}.lookup({key!r}) at time {time}")

    def _check_history(self) -> None:
        for name in self.watched:
            self._check_view_history(name)

    def _check_view_history(self, name: str) -> None:
        watched = self.watched[name]
        now = self.oracle.time
        start = self.expected(name, watched.since)
        by_time: dict[int, Bag] = {}
        for row, time, diff in watched.view.changes(since=watched.since):
            assert watched.since < time <= now, f"{name}: a change at time {time}"
            bag = by_time.setdefault(time, {})
            assert row not in bag and diff != 0, f"{name}.changes(): {row} at {time} is not consolidated"
            bag[row] = diff
        contents = start
        for time in range(watched.since + 1, now + 1):
            contents = canonical(added(contents, canonical(by_time.get(time, {}))))
            assert_same(contents, self.expected(name, time), f"{name}.changes() added up to time {time}")
        for time in self.random.sample(range(watched.since, now + 1), k=min(3, now + 1 - watched.since)):
            got = as_bag(watched.view.as_of(time).rows())
            assert_same(got, self.expected(name, time), f"{name}.as_of({time})")
        self._check_heard(name)

    def _check_heard(self, name: str) -> None:
        watched = self.watched[name]
        if self.runtime.later:
            watched.following.wait_for(self.oracle.time)
        times = [time for time, _ in watched.heard]
        assert times == sorted(set(times)), f"{name}: callbacks came at {times}"
        contents: Bag = {}
        batches = dict(watched.heard)
        for time in range(watched.since, self.oracle.time + 1):
            told = time in batches or time == self.oracle.time
            contents = canonical(added(contents, canonical(bag_of_changes(batches.pop(time, [])))))
            if self.runtime.later and not told:
                continue
            assert_same(contents, self.expected(name, time), f"{name}: callbacks added up to time {time}")
        assert not batches, f"{name}: callbacks at {sorted(batches)}"


# ---- bags


def bag_of_changes(changes: Sequence[tuple[Row, int]]) -> Bag:
    return added(*({row: n} for row, n in changes))


def as_bag(rows: Sequence[Row]) -> Bag:
    """Rows as a bag that can be compared."""
    return canonical(dict(Counter(rows)))


def canonical(bag: Mapping[Row, int]) -> Bag:
    """NaN does not equal itself, and 1 equals 1.0 and True: rows are compared with their values' types."""
    return {tuple(map(_plain, row)): n for row, n in bag.items()}


def _plain(v: Any) -> Any:
    if isinstance(v, float) and math.isnan(v):
        return "NaN"
    if isinstance(v, float | bool) or (isinstance(v, tuple) and len(v) == 2 and isinstance(v[0], str)):
        return v if isinstance(v, tuple) else (type(v).__name__, repr(v))
    return v


def assert_same(got: Mapping[Row, int], expected: Mapping[Row, int], what: str) -> None:
    """Equal bags, or the rows in which they differ."""
    if got != expected:
        missing = added(expected, {row: -n for row, n in got.items()})
        lines = [f"  {row}: {got.get(row, 0)} instead of {expected.get(row, 0)}" for row in list(missing)[:12]]
        raise AssertionError("\n".join([f"{what} is wrong in {len(missing)} rows:", *lines]))


# ---- random input


def random_steps(
    seed: int,
    steps: int,
    tables: Mapping[str, Callable[[random.Random], Row]],
    most: int = 4,
    first: int = 0,
    target: int = 20,
) -> list[list[Transaction]]:
    """Random valid inserts and deletes: `tables` maps names to makers of rows, tables hover around `target` rows.

    The first transaction inserts `first` rows in each table.
    """
    source = random.Random(seed)
    now: dict[str, Counter[Row]] = {name: Counter() for name in tables}
    result: list[list[Transaction]] = []
    for number in range(steps):
        step: list[Transaction] = []
        for _ in range(source.choice([1, 1, 2, 3, 5])):
            size = first if number == 0 and not step else source.randint(1, most)
            step.append({name: _random_change(source, now[name], make, size, target) for name, make in tables.items()})
        result.append(step)
    return result


def _random_change(
    source: random.Random, now: Counter[Row], make: Callable[[random.Random], Row], size: int, target: int
) -> Change:
    change: Counter[Row] = Counter()
    for _ in range(size):
        total = now.total()
        if total and source.random() < (0.5 if total < target else 0.7) * (total > target // 3):
            row = source.choice(sorted(now.elements(), key=repr))
            change[row] -= 1
            now[row] -= 1
        else:
            row = make(source)
            n = source.choice([1, 1, 1, 2])
            change[row] += n
            now[row] += n
    now += Counter()
    return {row: n for row, n in change.items() if n}
