"""Plans that follow: forged to switch at every epoch they change no answer; left alone they switch when it pays."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given

import everview as ev
from everview import col
from everview.errors import EverviewError
from everview.language.relation import relation_of
from everview.optimiser.adaptive import Adaptive, Policy, Trial, Watched
from everview.optimiser.best_plans import observed_rows
from everview.optimiser.current_cost import PresentPlan
from everview.optimiser.model import Model
from everview.optimiser.problem import TOP, UNIT, power
from everview.plan import nodes as plan
from everview.session.local_shards import local_shards
from tests.inside import inside
from tests.optimiser.test_chosen import shop
from tests.optimiser.test_replanned import change, in_shards, said, views
from tests.oracle import plans
from tests.oracle.harness import Runtime
from tests.oracle.test_random_plans import check
from tests.sql import test_tpch as tpch


class Restless(Adaptive):
    """Wants another plan at every look."""

    def wanted(self, watched: Watched) -> tuple[plan.Node, str] | None:
        super().wanted(watched)
        rng = random.Random(self.switches)
        plans = [watched.living.at_once("delta"), watched.living.at_once("wco"), watched.node]
        present = self.core.runtime.builder.chosen.get(watched.node, watched.node)
        return rng.choice([p for p in plans if p != present]), "a test wants it"

    def look(self) -> None:
        super().look()
        for watched in self._watched.values():  # all of them, not only the first
            found = self.wanted(watched)
            if found is not None:
                self._begin(watched, *found)


def restless(db: ev.Session, trial: int = 0) -> Restless:
    made = Restless(inside(db), Policy(every=0, trial=trial))
    inside(db).attached["adaptive"] = made
    return made


@pytest.mark.parametrize("place", [shop, in_shards])
def test_a_switch_at_every_epoch(place: Callable[[], ev.Session]) -> None:
    with place() as db, shop() as twin:
        mine, others = views(db), views(twin)
        made = restless(db)
        for step in range(8):
            for each in (db, twin):
                change(each, step)
            for one, other in zip(mine, others, strict=True):
                assert Counter(one.rows()) == Counter(other.rows()), (step, one)
                assert said(one, 1) == said(other, 1)
        assert made.switches >= 16 and db.check() == []


def test_a_switch_at_every_epoch_in_a_directory(tmp_path: Path) -> None:
    with shop() as twin:
        others = views(twin)
        with shop(tmp_path) as db:
            views(db)
        for step in range(3):
            db = ev.connect(str(tmp_path))
            made = restless(db)
            for number in range(2):
                for each in (db, twin):
                    change(each, 10 * step + number)
            assert made.switches
            for other in others:
                assert Counter(db[relation_of(other).label].rows()) == Counter(other.rows())
            inside(db).abandon()  # as kill -9


CHAIN = """
CREATE TABLE r (a int NOT NULL, b int NOT NULL);
CREATE TABLE s (b int NOT NULL, c int NOT NULL);
CREATE TABLE t (c int NOT NULL, d int NOT NULL);
CREATE VIEW v AS SELECT r.a, t.d, count(*) AS n FROM r JOIN s ON r.b = s.b JOIN t ON s.c = t.c GROUP BY r.a, t.d
"""


def fill(db: ev.Session) -> None:
    """Joined as it is written, r and s have very many pairs; s and t have few."""
    with db.transaction():
        db["r"].insert([(i, i % 3) for i in range(300)])
        db["s"].insert([(i % 3, i) for i in range(300)])
        db["t"].insert([(i, i % 5) for i in range(0, 300, 60)])


def work(db: ev.Session, rng: random.Random, count: int) -> None:
    for _ in range(count):
        with db.transaction():
            db["s"].insert([(rng.randrange(3), rng.randrange(300))])


@pytest.mark.parametrize("trial", [0, 5])
def test_a_plan_that_pays_is_taken_and_stays(trial: int) -> None:
    with ev.connect() as db, ev.connect() as twin:
        for each in (db, twin):
            each.sql(CHAIN)
            fill(each)
        db.adapt(every=0, trial=trial, ahead=10, worse=100)
        for each in (db, twin):
            work(each, random.Random(1), 60)
        made: Any = inside(db).attached["adaptive"]
        assert made.switches == 1 and made.returns == 0
        assert "times cheaper by what was seen" in db["v"].explain()
        assert db.sql("SELECT view, plan FROM ev.plans").rows()[0][0] == "v"
        assert Counter(db["v"].rows()) == Counter(twin["v"].rows())
        db.adapt(False)
        assert "adaptive" not in inside(db).attached and "step" not in vars(inside(db).runtime)


def test_a_plan_that_does_not_pay_goes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with ev.connect() as db:
        db.sql(CHAIN)
        fill(db)
        db.adapt(every=0, trial=3, ahead=10)
        made: Any = inside(db).attached["adaptive"]
        monkeypatch.setattr(Trial, "measured", lambda trial: 1.0 if trial.before is None else 5.0)
        work(db, random.Random(1), 10)
        assert made.returns == 1 and made.switches == 2
        assert "the other took 5.00 times as long on trial" in db["v"].explain()
        assert inside(db).runtime.builder.chosen == {}
        (watched,) = made._watched.values()
        assert watched.patience > 0 and watched.wait == 16
        work(db, random.Random(2), 3)
        assert made.switches == 2  # it is left alone


class Clock:
    """Processor time as a test has it pass: `step` seconds for each transaction, `look` for each look. It goes on from
    what the process has taken, which a session may have read already.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, looks: list[float], look: float) -> None:
        self.now = time.thread_time()

        def looking(adaptive: Adaptive) -> None:
            looks.append(self.now)
            self.now += look

        monkeypatch.setattr("everview.optimiser.adaptive.time.thread_time", lambda: self.now)
        monkeypatch.setattr(Adaptive, "look", looking)

    def work(self, db: ev.Session, step: float, seconds: float) -> None:
        for i in range(round(seconds / step)):
            self.now += step
            db["r"].insert([(i, i)])


def test_a_look_is_due_when_steps_become_slower(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[float] = []
    with ev.connect() as db:
        db.sql(CHAIN)
        clock = Clock(monkeypatch, looks, look=0.0001)
        db.adapt(every=4)
        clock.work(db, 0.01, 18)
        assert 3 <= len(looks) <= 6
        clock.work(db, 0.01, 4 - (clock.now - looks[-1]) + 1.5)  # the last look was a while ago, and none is due yet
        seen = len(looks)
        clock.work(db, 0.04, 2)
        assert len(looks) == seen + 1
        clock.work(db, 0.04, 2)
        assert len(looks) == seen + 2  # once more, after twice the time: the data may only have begun to move
        clock.work(db, 0.04, 16)
        assert len(looks) <= seen + 7  # that is what steps take now


def test_looks_that_find_nothing_leave_time_for_slower_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[float] = []
    with ev.connect() as db:
        db.sql(CHAIN)
        clock = Clock(monkeypatch, looks, look=0.01)
        db.adapt(every=0.1)
        clock.work(db, 0.01, 20)
        seen = len(looks)
        clock.work(db, 0.04, 0.5)
        assert len(looks) >= seen + 3


def test_a_join_that_is_left_alone_is_looked_at_sooner_when_steps_become_slower(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[float] = []
    with ev.connect() as db:
        db.sql(CHAIN)
        fill(db)
        db.adapt(every=4)
        made = inside(db).attached["adaptive"]
        made.look()
        (watched,) = made._watched.values()
        watched.patience = 8
        clock = Clock(monkeypatch, looks, look=0.0001)
        clock.work(db, 0.01, 18)
        assert watched.patience == 8  # `look` itself counts it down, and here it only takes time
        clock.work(db, 0.04, 2)
        assert watched.patience == 4


def test_looks_take_their_share_of_the_time_in_the_long_run(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[float] = []
    with ev.connect() as db:
        db.sql(CHAIN)
        clock = Clock(monkeypatch, looks, look=0.01)
        db.adapt(every=0.1)
        clock.work(db, 0.01, 0.5)
        assert len(looks) >= 3  # some may follow each other
        clock.work(db, 0.01, 6)  # what they may take beyond their share, at first, is worked off
        seen = len(looks)
        clock.work(db, 0.01, 10)
        assert 8 <= len(looks) - seen <= 11  # half of the share: the rest is for steps that become slower


def test_plans_that_were_asked_for_stay() -> None:
    with ev.connect(adaptive=True) as db:
        db.sql(CHAIN.replace("CREATE VIEW", "SET plan = 'binary'; CREATE VIEW"))
        db.adapt(every=0, trial=0)
        fill(db)
        work(db, random.Random(1), 20)
        assert inside(db).runtime.builder.chosen == {}


def test_options_are_checked() -> None:
    with ev.connect() as db:
        with pytest.raises(EverviewError, match="did you mean 'margin'"):
            db.adapt(margn=2)
        with pytest.raises(EverviewError, match="E_RANGE"):
            db.adapt(margin=0.5)
        with pytest.raises(EverviewError, match="E_TYPE"):
            db.adapt(3)  # type: ignore[arg-type]


def test_the_log_and_adaptive_plans_get_on() -> None:
    with ev.connect() as db:
        db.sql(CHAIN)
        db.adapt(every=0)
        db.system.log()
        fill(db)
        assert len(db.sql("SELECT * FROM ev.steps").rows()) == 1
        db.system.log(False)
        assert "step" in vars(inside(db).runtime)
        db.adapt(False)
        fill(db)
        assert "step" not in vars(inside(db).runtime)


@pytest.mark.parametrize("connect", [ev.connect, lambda: local_shards(2)])
def test_rows_between_joins_are_seen_where_columns_may_be_null(connect: Callable[[], ev.Session]) -> None:
    """A join by columns that may be NULL arranges its input without them, and only the columns that are read."""
    with connect() as db:
        for name in "abcd":
            db.sql(f"CREATE TABLE {name} (x int, y int, z int)")
        db.sql("""CREATE VIEW v AS SELECT a.x, count(*) AS n FROM a JOIN b ON a.y = b.x JOIN c ON b.y = c.x
                  JOIN d ON c.y = d.x WHERE b.z > 0 GROUP BY a.x""")
        with db.transaction():
            for name in "abcd":
                db[name].insert([(i, i, i % 10) for i in range(100)])
        made = Adaptive(inside(db), Policy())
        made.look()
        (watched,) = made._watched.values()
        sizes = {r.name: power(r.rows) for r in watched.living.problem.relations}
        assert 85 <= sizes["b"] <= 95  # of 100 rows, 90 have z > 0; a third was the guess
        present = PresentPlan(watched.node, watched.living.join.tree.leaves)
        seen = present.seen(watched.living.problem, observed_rows(inside(db)))
        assert {mask.bit_count() for mask in seen} == {2, 3}
        made.close()


def test_what_a_condition_leaves_is_remembered_when_tables_grow() -> None:
    """The model has no estimate of its own for `a.x < b.y`; other errors may be gone when tables have other sizes."""
    with ev.connect() as db:
        for name in "abcd":
            db.sql(f"CREATE TABLE {name} (x int NOT NULL, y int NOT NULL)")
        db.sql("""CREATE VIEW v AS SELECT d.y, count(*) AS n FROM a JOIN b ON a.y = b.x AND a.x < b.y
                  JOIN c ON b.y = c.x JOIN d ON c.y = d.x GROUP BY d.y""")
        made = Adaptive(inside(db), Policy())
        made.look()
        (watched,) = made._watched.values()
        problem = watched.living.problem
        names = [relation.name for relation in problem.relations]
        ab, abc, cd = (sum(1 << names.index(name) for name in some) for some in ("ab", "abc", "cd"))
        now = {ab: -3000, abc: -4000, cd: 700}
        assert watched.seen(problem, now) == now
        grown = replace(problem, relations=tuple(replace(r, rows=r.rows + 2 * UNIT) for r in problem.relations))
        assert watched.seen(grown, {}) == {ab: -3000}
        made.close()


def test_changes_between_joins_are_estimated_as_one_for_each_row_that_a_transaction_changes() -> None:
    """Joined from the end, a chain keeps a number for each of 20 values, which a transaction changes once."""
    rng = random.Random(4)
    with ev.connect() as db:
        for name in "abcd":
            db.sql(f"CREATE TABLE {name} (x int NOT NULL, y int NOT NULL)")
        db.sql("""CREATE VIEW v AS SELECT a.x, count(*) AS n FROM d JOIN c ON c.y = d.x JOIN b ON b.y = c.x
                  JOIN a ON a.y = b.x GROUP BY a.x""")
        made = Adaptive(inside(db), Policy(trial=0, margin=1e9, every=0))
        for _ in range(12):
            with db.transaction():
                for name in "abcd":
                    db[name].insert([(rng.randrange(20), rng.randrange(20)) for _ in range(40)])
        (watched,) = made._watched.values()
        present = PresentPlan(watched.node, watched.living.join.tree.leaves)
        problem = made._problem(watched, present)
        seen = inside(db).statistics.rate_of
        between = {l: seen(node) for l, _, node, _ in present.joins if l.bit_count() > 1}
        assert {mask.bit_count() for mask in between} == {2, 3}
        for mask, rate in between.items():
            assert rate is not None
            assert 0.5 < Model(problem).flow(mask) / power(problem.steps) / rate < 2
            assert Model(replace(problem, steps=TOP)).flow(mask) / power(problem.steps) / rate > 5
        made.close()


@pytest.mark.parametrize("shards", [0, 2])
def test_statistics_count_what_steps_change(shards: int) -> None:
    with local_shards(shards) if shards else ev.connect() as db:
        t, u = db.table("t", {"k": int, "v": int}), db.table("u", {"k": int, "w": int})
        db.view("both", t.join(u, "k").select(v=col.v, w=col.w))
        db.view("few", t.filter(col.v < 10).distinct())
        with db.transaction():
            t.insert([(i % 4, i) for i in range(100)])
            u.insert([(i, i) for i in range(4)])

        def seen() -> dict[str, Any]:
            rows = db.sql("SELECT name, changes, rate, keys, fan_out, per_change FROM ev.statistics").rows()
            return {name: rest for name, *rest in rows}

        before = seen()
        assert before["arrange t"][0] == 100 and before["arrange u"][0] == 4
        assert before["arrange rows"][0] == 100  # both
        for i in range(10):
            t.insert([(0, 1000 + i)])
            u.insert([(1, 100 + i)])
        now = seen()
        assert now["arrange t"][0] == 110 and now["arrange u"][0] == 14
        assert now["arrange t"][1] == now["arrange u"][1] == 0.5
        assert now["arrange rows"][0] == 100 + 10 + 250
        with pytest.raises(EverviewError):
            t.delete([(7, 7)])
        assert seen()["arrange t"][0] == 110


def _restless_session(**options: Any) -> ev.Session:
    db = ev.connect(**options)
    restless(db)
    return db


def _restless_shards(**options: Any) -> ev.Session:
    db = local_shards(3, **options)
    restless(db)
    return db


@pytest.mark.slow
@pytest.mark.parametrize("connect", [_restless_session, _restless_shards])
def test_random_plans_whose_joins_switch_at_every_epoch(connect: Callable[..., ev.Session]) -> None:
    random_plans_that_switch(Runtime("restless", connect))


def random_plans_that_switch(runtime: Runtime) -> None:
    """Random plans in sessions that switch at every epoch, against the oracle."""

    @runtime.effort(15)
    @given(a=plans.flat_plans, b=plans.flat_plans, c=plans.flat_plans, steps=plans.steps)
    def flat(a: Any, b: Any, c: Any, steps: Any) -> None:
        check(runtime, [a, b, c], [(0, 6), (1, 6), (0, 6)], steps)

    flat()


PROGRAM = """
path(X, Z) :- r(X, Y), s(Y, Z), t(Z, W), W < 9.
wedge(X, W) :- r(X, Y), s(Y, Z), t(Z, W).
far(X, Y) :- path(X, Y).
far(X, Z) :- far(X, Y), path(Y, Z).
lonely(X) :- r(X, Y), not far(X, Y).
"""


def datalog_switches(db: ev.Session, seed: int, steps: int = 6) -> int:
    """Rules in a session whose joins switch at every epoch, beside a twin; how often they did."""
    with ev.connect() as twin:
        rng = random.Random(seed)
        rules = []
        for each in (db, twin):
            for name in "rst":
                each.table(name, {"a": int, "b": int})
            rules.append(each.datalog(PROGRAM))
        made = restless(db)
        for _ in range(steps):
            rows = {name: [(rng.randrange(12), rng.randrange(12)) for _ in range(4)] for name in "rst"}
            for each in (db, twin):
                with each.transaction():
                    for name, new in rows.items():
                        old = sorted(each[name].rows())
                        each[name].insert(new)
                        each[name].delete(old[:2])
            for name in ("path", "wedge", "far", "lonely"):
                one, other = (getattr(each, name) for each in rules)
                assert Counter(one.rows()) == Counter(other.rows()), name
        return made.switches


@pytest.mark.parametrize("connect", [ev.connect, lambda: local_shards(3)])
@pytest.mark.parametrize("seed", [3, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(10, 30))])
def test_datalog_whose_joins_switch_at_every_epoch(connect: Callable[[], ev.Session], seed: int) -> None:
    with connect() as db:
        assert datalog_switches(db, seed) > 5


def tpch_switches(db: ev.Session, data: dict[str, pa.Table], pieces: int = tpch.PARTS) -> int:
    """TPC-H, loaded in parts, then deleted from, in a session whose joins switch at every epoch; how often they did."""
    run = tpch.Run(data, db)
    made = restless(run.db)
    parts = {name: tpch._parts(table)[:pieces] for name, table in data.items()}
    for i in range(pieces):
        new = {name: each[i] for name, each in parts.items()}
        run.change(1, new)
        run.now = {name: pa.concat_tables([run.now[name], table]) for name, table in new.items()}
        assert run.differences() == {}
    gone = {name: parts[name][0] for name in ("orders", "lineitem", "customer", "supplier")}
    run.change(-1, gone)
    left = {name: pa.concat_tables(parts[name][1:]) if pieces > 1 else parts[name][0].slice(0, 0) for name in gone}
    run.now |= left
    assert run.differences() == {}
    return made.switches


@pytest.mark.slow
@pytest.mark.parametrize("connect", [ev.connect, lambda: local_shards(2)])
def test_tpch_whose_joins_switch_at_every_epoch(tmp_path: Path, connect: Callable[[], ev.Session]) -> None:
    with connect() as db:
        assert tpch_switches(db, tpch._generated(tmp_path)) > 20
