"""A view that lives gets another plan: its contents, history, subscribers and readers notice nothing.

The oracle is a twin: the same session, whose plans stay as they are written, and which is given the same changes.
"""

from __future__ import annotations

import os
import random
import signal
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import everview as ev
from everview import col
from everview.dataflow.plan_swap import PlanSwap
from everview.errors import EverviewError
from everview.language.collection import Collection
from everview.language.relation import relation_of
from everview.plan import nodes as plan
from everview.plan.substitute import substituted
from everview.session.local_shards import local_shards
from tests.datalog.test_multiway import Shape, apply, changes, natural_join, session
from tests.inside import inside
from tests.optimiser.test_chosen import QUERY, TABLES, joined, shop
from tests.store.durably import die

PLANS = ("delta", "binary", "wco", "written", "best", "binary")

AGGREGATES = f"""
CREATE VIEW totals AS SELECT zone, count(*) AS n, sum(p) AS s, max(id) AS m, count(DISTINCT p) AS d
FROM ({QUERY}) AS q GROUP BY zone;
CREATE VIEW few AS SELECT zone, n FROM totals WHERE n > 3;
CREATE VIEW first AS SELECT * FROM ({QUERY}) AS q ORDER BY p, id, zone LIMIT 5
"""


def views(db: ev.Session) -> list[ev.View]:
    rows = db.view("rows", joined(db), history=50)
    db.view("readers", rows.filter(col.p > 3).select(z=col.zone).distinct())
    db.sql(AGGREGATES)
    return [db[name] for name in ("rows", "readers", "totals", "few", "first")]


def change(db: ev.Session, seed: int) -> None:
    rng = random.Random(seed)
    with db.transaction():
        db["orders"].delete(rng.sample(sorted(db["orders"].rows()), 7))
        db["orders"].insert([(rng.randrange(500), rng.randrange(20), rng.randrange(20)) for _ in range(8)])
        db["nations"].insert([(rng.randrange(20), rng.randrange(20))])
        db["customers"].delete(sorted(db["customers"].rows())[:1])


def said(view: ev.View, since: int) -> list[Any]:
    return sorted(view.changes(since=since))


def in_shards() -> ev.Session:
    db = local_shards(3)
    with shop() as other, db.transaction():
        for name, columns in TABLES.items():
            db.table(name, dict.fromkeys(columns, int)).insert(other[name].rows())
    return db


@pytest.mark.parametrize("place", [shop, in_shards])
def test_a_plan_for_every_epoch(place: Callable[[], ev.Session]) -> None:
    with place() as db, shop() as twin:
        mine, others = views(db), views(twin)
        heard: list[list[Any]] = [[], []]
        mine[0].subscribe(lambda batch: heard[0].append((batch.time, sorted(batch.rows()))))
        others[0].subscribe(lambda batch: heard[1].append((batch.time, sorted(batch.rows()))))
        swaps = 0
        for step in range(len(PLANS) * 2):
            time = db.time
            swaps += sum(view.replan(PLANS[(step + i) % len(PLANS)]) for i, view in enumerate(mine))
            assert db.time == time
            for one, other in zip(mine, others, strict=True):
                assert Counter(one.rows()) == Counter(other.rows()), (step, one)
            for each in (db, twin):
                change(each, step)
            for one, other in zip(mine, others, strict=True):
                assert Counter(one.rows()) == Counter(other.rows()), (step, one)
                assert said(one, max(1, db.time - 40)) == said(other, max(1, db.time - 40))
        assert swaps > 20
        assert heard[0] == heard[1] and heard[0]
        assert Counter(mine[0].as_of(4).rows()) == Counter(others[0].as_of(4).rows())
        assert db.check() == []
        for view in mine:
            view.replan("written")
        assert inside(db).runtime.builder.chosen == {}
        if place is shop:
            assert db.stats()["operators"] == twin.stats()["operators"]  # nothing is left behind


def always_more(db: ev.Session, shape: Shape) -> Collection:
    """A random join and, because those of two inputs have no other plan, two more."""
    found = shape.collection(lambda i, t: db[t])
    with_more = [found, db["r"], db["u"]]
    names = [[f"n{i}" for i in range(len(found.schema()))], ["n0", "x"], ["x"]]
    return natural_join(with_more, names).select(o0=col.n0, o1=col.x)


FEW = [(3, 0), (5, 0), (102, 2)]
MANY = [*((seed, 0) for seed in range(12)), *((seed, 2) for seed in range(100, 106))]


def joins_replanned(db: ev.Session, seed: int, steps: int = 8) -> None:
    """A random join, what is on top of it and a loop, with another plan at every step, beside a twin."""
    rng = random.Random(seed)
    shape = Shape(rng)
    held: dict[str, Counter[Any]] = {name: Counter() for name in ("r", "s", "t", "u")}
    twin = session()
    first = [changes(rng, held, most=12)]
    for each in (db, twin):
        apply(each, first)
    mine, others = ([each.view("v", always_more(each, shape), plan="binary")] for each in (db, twin))
    for each, made in ((db, mine), (twin, others)):
        made.append(each.view("w", made[0].group_by("o0").agg(n=ev.count(), top=col.o1.max())))
        made.append(each.view("loop", _closure(made[0])))
    for step in range(steps):
        for view in mine:
            try:
                view.replan(PLANS[(step + rng.randrange(2)) % len(PLANS)])
            except EverviewError as error:  # the plan of a view on top may be built by way of this one
                assert "another view builds the join by way of this one" in str(error), shape
        batch = [changes(rng, held) for _ in range(rng.randint(1, 3))]
        for each in (db, twin):
            apply(each, batch)
        for one, other in zip(mine, others, strict=True):
            assert Counter(one.rows()) == Counter(other.rows()), (shape, step)
            assert said(one, 1) == said(other, 1), (shape, step)
    twin.close()


@pytest.mark.parametrize(
    ("seed", "shards"), [*FEW, *(pytest.param(*way, marks=pytest.mark.slow) for way in MANY if way not in FEW)]
)
def test_random_joins_that_change_their_plan_at_every_epoch(seed: int, shards: int) -> None:
    with session(shards) as db:
        joins_replanned(db, seed)


def _closure(pairs: Collection) -> Collection:
    start = pairs.select(a=col.o0, b=col.o1).distinct()

    def further(found: Any) -> Collection:
        again = start.select(c=col.a, d=col.b)
        more = found.join(again, found.b == again.c).select(a=found.a, b=again.d)
        return more.union_all(start).distinct()

    return start.iterate(further)


@pytest.mark.parametrize(
    "ending", ["close", *(pytest.param(e, marks=pytest.mark.slow) for e in ("die", "checkpoint and die"))]
)
def test_a_directory_has_the_plan_it_was_closed_with(tmp_path: Path, ending: str) -> None:
    with shop() as twin:
        others = views(twin)
        with shop(tmp_path) as db:
            views(db)
        for step, plan in enumerate(("delta", "best", "wco")):
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # nothing is computed again
                db = ev.connect(str(tmp_path))
            for other in others:
                assert Counter(db[relation_of(other).label].rows()) == Counter(other.rows()), (plan, other)
            assert said(db["rows"], 1) == said(others[0], 1)
            for name in ("rows", "totals"):
                db[name].replan(plan)
            chosen = dict(inside(db).runtime.builder.chosen)
            for each in (db, twin):
                change(each, step)
            assert db.check() == []
            if ending == "checkpoint and die":
                db.checkpoint()
            db.close() if ending == "close" else die(db)
            with ev.connect(str(tmp_path)) as db:
                assert inside(db).runtime.builder.chosen == chosen != {}


def test_what_is_left_of_plans_that_changed_often(tmp_path: Path) -> None:
    with shop(tmp_path) as db:
        view = db.view("rows", joined(db))
        for _ in range(30):
            view.replan("delta")
            view.replan("written")
        view.replan("wco")
        db.checkpoint()
        assert len(inside(db).catalog.entries) < 20
        db["customers"].drop(cascade=True)
        db.checkpoint()
    with ev.connect(str(tmp_path)) as db:
        assert not db.views and inside(db).runtime.builder.chosen == {}


STATIONS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {}


def _at(module: str, name: str) -> None:
    for when in ("before", "after"):

        def station(patch: pytest.MonkeyPatch, when: str = when) -> None:
            target = f"everview.{module}.{name}"
            owner, _, method = target.rpartition(".")
            from pydoc import locate

            real = getattr(locate(owner), method)

            def killing(*given: Any, **named: Any) -> Any:
                if when == "after":
                    real(*given, **named)
                os.kill(os.getpid(), signal.SIGKILL)

            patch.setattr(target, killing)

        STATIONS[f"{when} {name}"] = station


_at("dataflow.plan_swap", "PlanSwap.prepare")
_at("dataflow.plan_swap", "PlanSwap.take_back")
_at("dataflow.plan_swap", "PlanSwap.check")
_at("dataflow.plan_swap", "PlanSwap.finish")
_at("session.names.catalog", "Catalog.note")
_at("session.names.definitions", "Definitions.free_unused")


ALWAYS = ("after PlanSwap.take_back", "before Catalog.note", "after Catalog.note")


def as_before_or_after(db: ev.Session, expected: dict[str, Counter[Any]], changed: list[Any], after: bool) -> None:
    """What a session has that was killed in a swap: its rows and changes, one plan or the other, and it goes on."""
    with shop() as twin:
        others = views(twin)
        assert {relation_of(view).label: Counter(view.rows()) for view in (db[name] for name in db.views)} == expected
        assert said(db["rows"], 1) == changed
        assert len(inside(db).runtime.builder.chosen) == after
        for each in (db, twin):
            change(each, 7)
        for other in others:
            assert Counter(db[relation_of(other).label].rows()) == Counter(other.rows())
        assert db.check() == []


def killed_at(where: str, connect: Callable[[], ev.Session], patch: pytest.MonkeyPatch) -> None:
    """Another process that opens a session, and is killed in a swap of its."""
    child = os.fork()
    if not child:
        try:
            db = connect()
            STATIONS[where](patch)
            db["rows"].replan("delta")
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


EVERYWHERE = [s if s in ALWAYS else pytest.param(s, marks=pytest.mark.slow) for s in STATIONS]


@pytest.mark.parametrize("where", EVERYWHERE)
def test_killed_in_the_middle_of_a_swap(tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with shop(tmp_path) as db:
        expected = {relation_of(view).label: Counter(view.rows()) for view in views(db)}
        changed = said(db["rows"], 1)
    killed_at(where, lambda: ev.connect(str(tmp_path)), monkeypatch)
    with ev.connect(str(tmp_path)) as db:
        as_before_or_after(db, expected, changed, where == "after Catalog.note")


@pytest.mark.parametrize("place", [shop, in_shards])
def test_a_swap_that_fails_is_undone(place: Callable[[], ev.Session], monkeypatch: pytest.MonkeyPatch) -> None:
    with place() as db, shop() as twin:
        mine, others = views(db), views(twin)
        operators = db.stats()["operators"]

        def refuse(swap: PlanSwap) -> None:
            raise EverviewError("E_TEST", "no")

        with monkeypatch.context() as patched:
            patched.setattr(PlanSwap, "check", refuse)
            for view in mine[:3:2]:
                with pytest.raises(EverviewError, match="E_TEST"):
                    view.replan("delta")
        assert db.stats()["operators"] == operators and inside(db).runtime.builder.chosen == {}
        for step in range(3):
            for each in (db, twin):
                change(each, step)
            for one, other in zip(mine, others, strict=True):
                assert Counter(one.rows()) == Counter(other.rows())
            mine[step].replan("wco")
        assert db.check() == []


def test_a_plan_that_says_something_else_is_refused() -> None:
    with shop() as db:
        view = db.view("rows", joined(db))
        before = Counter(view.rows())
        core = inside(db)
        node = core.runtime.builder.built[relation_of(view).node]
        wrong = substituted(
            node, {relation_of(db["orders"]).node: plan.Threshold(relation_of(db["orders"]).node, "distinct")}
        )
        db["orders"].insert([db["orders"].rows()[0]])
        wanted = Counter(view.rows())
        assert wanted != before
        with pytest.raises(EverviewError, match="would hold other rows"):
            core.definitions.plans.replan(node, wrong, "a test")
        assert Counter(view.rows()) == wanted and core.runtime.builder.chosen == {}
        change(db, 3)
        assert db.check() == []


def test_rows_that_fail_stay_where_they_are() -> None:
    with shop() as db:
        o, c, n = (db[name] for name in ("orders", "customers", "nations"))
        pairs = o.join(c, o.cust == c.id).join(n, c.nation == n.id)
        view = db.view("rows", pairs.select(id=o.id, q=o.id // n.zone))
        n.insert([(nation, 0) for _, nation in c.rows()[:2]])
        with_zero = view.errors()
        assert with_zero
        for plan in ("delta", "binary", "wco", "written"):
            view.replan(plan)
            assert view.errors() == with_zero
        n.delete([row for row in n.rows() if row[1] == 0])
        assert not view.errors() and view.rows()


def test_in_sql() -> None:
    with shop() as db:
        view = db.sql(f"CREATE VIEW v AS {QUERY}")
        for plan, said in (("delta", "delta of orders"), ("'best'", "(orders join"), ("DEFAULT", "as it was written")):
            db.sql(f"ALTER VIEW v SET (plan = {plan})")
            assert f"plan since time 1: {said}" in view.explain().replace("((", "(")
        with pytest.raises(EverviewError, match="did you mean 'delta'"):
            db.sql("ALTER VIEW v SET (plan = dleta)")


def test_a_loop_that_takes_rows_as_they_come_keeps_its_join() -> None:
    with shop() as db:
        o, c, n = (db[name] for name in ("orders", "customers", "nations"))
        pairs = o.join(c, o.cust == c.id).join(n, c.nation == n.id).select(a=o.id, b=n.zone)
        view = db.view("loop", pairs.iterate(lambda x: x.select(a=x.a // 2, b=x.b).union_all(pairs).distinct()))
        before = Counter(view.rows())
        try:
            view.replan("delta")
        except EverviewError as refused:
            assert refused.code == "E_PLAN"
        assert Counter(view.rows()) == before
        db["nations"].insert([(3, 4)])
        assert db.check() == []
