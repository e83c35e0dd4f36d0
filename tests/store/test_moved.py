"""One directory, two runtimes: sessions that are embedded at one step and on Spark at the next (tasks run in this
process, `tests.spark.inprocess`) say at every time what the oracle says, and lose nothing when they cannot move.
"""

from __future__ import annotations

import datetime as dt
import json
import random
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import everview as ev
from everview import col
from everview.expr.language import count, udf
from everview.kernels.trace.trace import NO_SINCE
from everview.language.relation import relation_of
from everview.recovery.directory import Directory
from everview.runtime.sharded import ShardedRuntime
from everview.spark.driver import compaction
from everview.spark.session import Committed
from tests.inside import inside
from tests.oracle import graphs, plans
from tests.oracle.harness import Run, Runtime, Scenario, Transaction, ViewPlan, effort, random_steps
from tests.oracle.reference import Divergent, TooBig
from tests.spark import inprocess_gang
from tests.spark.inprocess import session
from tests.store.disk import full_disk

pytestmark = pytest.mark.filterwarnings("error:.*computed again")


SMALL = -1
"""Embedded, with two threads and so little memory that state moves into files."""


GANG = -2
"""All steps in a gang of two tasks, on as many shards as there are."""


def connect(where: Any, shards: int | None) -> Any:
    """On so many shards; None: embedded."""
    if shards == GANG:
        return ev.connect(inprocess_gang.session(2), state=str(where), alone_rows=0)
    if shards == SMALL:
        return ev.connect(where, memory="1MB", threads=2)
    return ev.connect(where) if shards is None else ev.connect(session(), state=str(where), shards=shards)


class Moved(Run):
    """A run whose session changes its runtime between steps."""

    def __init__(self, scenario: Scenario, where: str) -> None:
        self.where = where
        self.fate = random.Random(scenario.seed + 1)
        super().__init__(scenario, Runtime("both", lambda: connect(where, self.fate.choice([None, 2]))))
        self.moved = self.cut = self.kept = self.resharded = 0

    def _step(self, step: Sequence[Transaction]) -> None:
        super()._step(step)
        if isinstance(inside(self.db).runtime, ShardedRuntime) and self.fate.random() < 0.3:
            self.db.reshard(self.fate.choice([1, 2, 3, 4, 7]))  # and the views go on as they are
            self.resharded += 1
        if self.fate.random() < 0.7:
            before = type(inside(self.db).runtime)
            self.db.close()
            self.db = connect(self.where, self.fate.choice([None, SMALL, GANG, 1, 2, 3]))
            self.moved += type(inside(self.db).runtime) is not before
            self._listen()

    def _listen(self) -> None:
        for watched in self._declare_again():
            computed = relation_of(watched.view).arrangement.trace.since > watched.since
            if computed:  # its history begins anew
                self.cut += 1
                watched.since, watched.heard = self.db.time, []
            else:
                self.kept += 1
            watched.view.subscribe(watched.hear, snapshot=computed)


def run(scenario: Scenario) -> Moved:
    with tempfile.TemporaryDirectory() as where:
        made = Moved(scenario, where)
        try:
            made.run()
        finally:
            made.db.close()
        return made


def check(specs: Sequence[plans.Spec], steps: Any, seed: int) -> None:
    views = [
        ViewPlan(f"v{i}", lambda tables, spec=spec: plans.build(spec, tables), i, None if i else 3)  # type: ignore[misc]
        for i, spec in enumerate(specs)
    ]
    try:
        run(Scenario(plans.TABLES, views, plans.valid(steps), seed))
    except (TooBig, Divergent):
        assume(False)


@effort(8)
@given(st.lists(plans.flat_plans, min_size=1, max_size=3), plans.steps, st.integers(0, 1000))
def test_plans_without_loops(specs: Any, steps: Any, seed: int) -> None:
    check(specs, steps, seed)


@pytest.mark.slow
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_plans_with_loops(depth: int) -> None:
    @effort({1: 40, 2: 25, 3: 20}[depth])
    @given(plans.with_loops(depth), plans.with_loops(1), plans.steps, st.integers(0, 1000))
    def looped(spec: Any, other: Any, steps: Any, seed: int) -> None:
        check([spec, other], steps, seed)

    looped()


def test_reach_and_components_keep_their_history(tmp_path: Path) -> None:
    """Nothing of them is computed anew, however often the directory moves. (Loops kept as trees are, by embedded
    sessions only: where they move, they begin anew.)
    """
    tables = {"edge": lambda s: (s.randrange(12), s.randrange(12)), "root": lambda s: (s.randrange(12),)}
    steps = random_steps(3, 10, tables, first=6, target=25)

    def reach(t: Mapping[str, Any]) -> ev.Collection:
        return graphs.reach(t["edge"], t["root"])

    views = [
        ViewPlan("reach", reach, plan="rounds"),
        ViewPlan("gone", lambda t: graphs.components(t["edge"], True), 0, 3, "rounds"),
        ViewPlan("components", lambda t: graphs.components(t["edge"], True), 2, None, "rounds"),
    ]
    made = run(Scenario({"edge": {"src": int, "dst": int}, "root": {"node": int}}, views, steps, 6))
    assert made.moved >= 3 and made.kept > made.moved and not made.cut


def everything(db: Any) -> Any:
    """Views that shards build otherwise (a triangle, a total over all, a cross join), strings, a function in Python."""
    e = db.table("edge", {"src": int, "dst": int, "kind": str}, key="src")
    a, b, c = (e.select(s=e.src % 5, d=e.dst % 5).distinct() for _ in range(3))
    two = a.join(b, a.d == b.s).select(x=a.s, y=a.d, z=b.d)
    db.view("triangles", two.join(c, (two.z == c.s) & (two.x == c.d)).select("x", "y", "z"), plan="wco")
    db.view("all", e.group_by().agg(n=count(), least=e.kind.min()))
    db.view("pairs", e.select(a=e.src % 3).distinct().join(e.select(b=e.kind).distinct(), how="cross"))
    db.view("kinds", e.group_by("kind").agg(n=count(), far=col.dst.max()), index_by="far")
    db.view("doubled", e.select(x=udf(lambda x: 2 * x, returns=int)(e.src), k=e.kind.upper()))
    return e


def test_programs_that_shards_build_otherwise(tmp_path: Path) -> None:
    draw = random.Random(1)
    with ev.connect() as memory:
        there = everything(memory)
        for shards in (None, 2, None, 3, 1, None, 2):
            with connect(tmp_path, shards) as db:
                assert type(inside(db).runtime.backing) is (Directory if shards is None else Committed)
                here = everything(db)
                for _ in range(3):
                    rows = [(draw.randrange(40), draw.randrange(40), draw.choice("abc")) for _ in range(9)]
                    for table in (here, there):
                        table.upsert(rows)
                far = here.rows()[0][1]
                assert sorted(db["kinds"].lookup(far)) == sorted(memory["kinds"].lookup(far))
                for name in (*memory.tables, *memory.views):
                    assert sorted(db[name].rows()) == sorted(memory[name].rows()), (shards, name)
                assert db.time == memory.time


def test_what_follows_the_clock(tmp_path: Path) -> None:
    """TTLs, windows and conditions on now() go on, on either side and from one to the other."""
    noon = dt.datetime(2026, 1, 31, 12)

    def once(db: Any) -> None:
        db.table("seen", {"who": str}, ttl=dt.timedelta(minutes=5))
        db.sql("CREATE TABLE event (ts timestamp, what text)")
        db.sql("CREATE VIEW recent AS SELECT what FROM event WHERE ts > now() - interval '3 minutes'")
        db.sql("CREATE VIEW last AS SELECT what FROM event [size 3 tuple]")

    with ev.connect() as memory:
        memory.advance(noon)
        once(memory)
        for i, shards in enumerate((None, 2, 2, None, 3, None, None, 1, 2, None)):
            now = noon + dt.timedelta(minutes=i)
            with connect(tmp_path, shards) as db:
                db.advance(now)
                memory.advance(now)
                if i == 0:
                    once(db)
                for each in (db, memory):
                    each["seen"].insert([(f"guest {i}",)])
                    each.sql(f"INSERT INTO event VALUES ('{now}', 'event {i}')")
                for name in (*memory.tables, *memory.views):
                    assert sorted(db[name].rows()) == sorted(memory[name].rows()), (i, name)


@pytest.mark.parametrize("first", [None, 2], ids=["to shards", "from shards"])
def test_a_full_disk_leaves_it_where_it_was(tmp_path: Path, first: int | None) -> None:
    second = 2 if first is None else None
    with connect(tmp_path, first) as db:
        t = db.table("t", {"k": int, "x": int})
        db.view("v", t.group_by("k").agg(s=t.x.sum()))
        t.insert({"k": list(range(3000)), "x": list(range(3000))})
    with full_disk(20_000), pytest.raises(ev.StoreError, match="E_DISK"):
        connect(tmp_path, second)
    for shards in (first, second):
        with connect(tmp_path, shards) as db:
            assert sorted(db["v"].rows()) == [(i, i) for i in range(3000)] and db.time == 1


def test_readers_must_open_again(tmp_path: Path) -> None:
    for shards, other in ((None, 2), (2, None)):
        with connect(tmp_path, shards) as db:
            if shards is None:
                db.table("t", {"x": int})
            db["t"].insert([(1,)])
        with ev.connect(tmp_path, read_only=True) as reader:
            rows = reader["t"].rows()
            with connect(tmp_path, other) as db:
                db["t"].insert([(2,)])
                with pytest.raises(ev.StoreError, match="E_STALE"):
                    reader.refresh()
            assert reader["t"].rows() == rows
            with ev.connect(tmp_path, read_only=True) as again:
                assert len(again["t"].rows()) == len(rows) + 1


def test_sources_and_sinks_go_on(tmp_path: Path) -> None:
    """Every file is read once and every change is written once, though runtimes change in between."""
    (tmp_path / "in").mkdir()
    for i, shards in enumerate((None, 2, None, 3)):
        (tmp_path / "in" / f"{i}.json").write_text("".join(json.dumps({"k": k % 3, "n": i}) + "\n" for k in range(9)))
        with connect(tmp_path / "state", shards) as db:
            t = db.source("t", ev.io.json(str(tmp_path / "in")), schema={"k": int, "n": int})
            v = db.view("v", t.group_by("k").agg(n=count(), s=t.n.sum()))
            v.write_to(ev.io.json(str(tmp_path / "out")))
            db.run(until="caught_up")
            assert sorted(v.rows()) == [(k, 3 * (i + 1), 3 * sum(range(i + 1))) for k in range(3)]
    changes: dict[tuple[int, int, int], int] = {}
    for path in (tmp_path / "out").glob("changes-*.json"):
        for line in path.read_text().splitlines():
            row = json.loads(line)
            key = (row["k"], row["n"], row["s"])
            changes[key] = changes.get(key, 0) + row["_diff"]
    assert {row for row, n in changes.items() if n} == {(k, 12, 18) for k in range(3)}
    assert set(changes.values()) <= {0, 1}


def test_a_dropped_view_is_no_obstacle(tmp_path: Path) -> None:
    for shards in (2, 2, None, 3, None):
        with connect(tmp_path, shards) as db:
            t = db.table("t", {"k": int, "x": int})
            t.insert([(1, 1)])
            gone = db.view("gone", t.group_by("k").agg(s=t.x.sum(), n=count()))
            kept = db.view("kept", gone.filter(gone.n > 0).select("k", "n"))
            gone.drop()
            assert kept.rows() == [(1, len(t.rows()))]


def test_merges_of_loops_on_shards_after_opening_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop that was installed late: times inside it have nothing to do with the time it was installed at."""
    monkeypatch.setattr(compaction, "MERGED_BATCHES", 2)

    def declare(db: Any) -> Any:
        e, r = db.table("edge", {"src": int, "dst": int}), db.table("root", {"node": int})
        return e, r, graphs.reach(e, r)

    with connect(tmp_path, 2) as db:
        e, r, reach = declare(db)
        r.insert([(0,)])
        for i in range(8):
            e.insert([(100 + i, 101 + i)])
        db.view("reach", reach)
    for start in range(0, 40, 10):
        with connect(tmp_path, 2) as db:
            e, r, _ = declare(db)
            operators = inside(db).runtime.dataflow.operators()
            in_loops = [o.trace.since for o in operators if o.trace and not o.scope.is_root]
            assert in_loops and set(in_loops) == {NO_SINCE}
            for i in range(start, start + 10):
                e.insert([(i, i + 1)])
                if i % 5 == 4:
                    e.delete([(0, 1)])
                    assert db["reach"].rows() == [(0,)]
                    e.insert([(0, 1)])
            assert sorted(db["reach"].rows()) == [(n,) for n in range(start + 11)]


@pytest.mark.parametrize("shards", [(None, None), (2, 2), (None, 2)], ids=["embedded", "on shards", "both"])
def test_functions_with_the_same_code_are_one(tmp_path: Path, shards: tuple[int | None, ...]) -> None:
    """Whoever reads the catalogue cannot tell them apart, so whoever writes it must not either."""
    for time, where in enumerate(shards):
        with connect(tmp_path, where) as db:
            t = db.table("t", {"x": int})
            for i in range(2):
                db.view(f"v{i}", t.select(y=udf(lambda x: 2 * x, returns=int)(t.x)))
            late = db.view(f"late{time}", t.select(y=udf(lambda x: 2 * x, returns=int)(t.x)).distinct())
            t.insert([(1,)])
            assert db["v1"].rows() == [(2,)] * (time + 1) and late.rows() == [(2,)]
            if where is None:
                db.checkpoint()
