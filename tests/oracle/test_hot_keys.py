"""Hot keys on shards: joins with a celebrity give the answers of an embedded session, under deletes and in loops, and
no shard holds or makes much more than its share."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import everview as ev
from everview.dataflow.builder import Builder
from everview.dataflow.operators import Arrangement
from everview.dataflow.partitioning import HASH_BY_FIRST, batches_by_first
from everview.plan import nodes as plan
from everview.plan.hot_keys import Hot
from everview.runtime import row_samples
from everview.runtime.row_samples import RowSamples
from everview.runtime.sharded import batcher_rows
from everview.session.local_shards import local_shards
from everview.session.names.plan_swaps import PlanSwaps
from tests.inside import inside
from tests.oracle import test_graphs as graphs
from tests.oracle import test_random_plans as plans
from tests.oracle.harness import Runtime
from tests.spark import inprocess, inprocess_gang

CELEBRITY = 7


@pytest.fixture(autouse=True)
def hot_from_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_samples, "LEAST_ROWS", 200)


def follows(seed: int, rows: int = 600) -> list[tuple[int, int]]:
    """Who follows whom; half of them the celebrity, who follows many, too."""
    draw = np.random.default_rng(seed)
    who, whom = draw.integers(0, 60, rows), draw.integers(0, 60, rows)
    whom[: rows // 2] = CELEBRITY
    who[: rows // 3] = CELEBRITY
    return [*map(tuple, np.stack([who, whom]).T.tolist())]


def declare(db: ev.Session, edges: list[tuple[int, int]]) -> ev.Table:
    """Tables first, because what is hot is seen when views are made."""
    f = db.table("follows", {"who": int, "whom": int})
    u = db.table("users", {"id": int, "age": int | None})
    f.insert(edges)
    u.insert([(i, i % 5 or None) for i in range(60)])
    g = f.alias("g")
    db.view("ages", f.join(u, f.whom == u.id).select(f.who, u.age))
    db.view("hops", f.join(g, f.whom == g.who).select(a=f.who, b=g.whom))
    db.view("mutual", f.join(g, (f.whom == g.who) & (f.who == g.whom)).select(f.who, f.whom))
    db.view("counts", db["hops"].group_by("b").agg(n=ev.count(), low=ev.col.a.min()))
    start = f.filter(f.who == 3).select(id=f.who).distinct()
    db.view("reached", start.iterate(lambda at: at.join(f, at.id == f.who).select(id=f.whom).union_all(at).distinct()))
    return f


@pytest.mark.parametrize("parts", [[1] * 6000, [4000, 1000, 700, 300], [6000], [1023, 2, 1, 4974]])
@pytest.mark.parametrize("drawn", [row_samples.DRAWN_ROWS, 2000])
def test_samples_are_of_all_rows_alike(parts: list[int], drawn: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However they come: no row is twice in a sample, and early rows are in it as often as late ones."""
    monkeypatch.setattr(row_samples, "DRAWN_ROWS", drawn)
    seen = RowSamples()
    total, samples = sum(parts), 40
    cuts = np.cumsum([0, *parts])
    for table in range(samples if len(parts) < 9 else 4):
        for low, high in itertools.pairwise(cuts.tolist()):
            seen.note(table, np.stack([np.arange(low, high), -np.arange(low, high)]))
    found = [sample.rows for sample in seen._samples.values()]
    assert all(len({*rows[0].tolist()}) == row_samples.SAMPLE_ROWS and (rows[0] == -rows[1]).all() for rows in found)
    share = np.histogram(np.concatenate([rows[0] for rows in found]), bins=6, range=(0, total))[0] / len(found)
    assert np.abs(share - row_samples.SAMPLE_ROWS / 6).max() < 45 * (6 / len(found)) ** 0.5


@pytest.mark.parametrize("shards", [1, 2, 5])
@pytest.mark.parametrize("shape", [(1, 1), (2, 7), (3, 1000)])
def test_rows_are_split_in_one_pass_as_by_their_positions(shape: tuple[int, int], shards: int) -> None:
    columns = np.random.default_rng(1).integers(-(2**63), 2**63 - 1, shape)
    found = batches_by_first(columns, 9, -2, shards)
    places = [*HASH_BY_FIRST.parts(columns, shards)]
    assert [shard for shard, _ in found] == [shard for shard, _ in places]
    for (_, rows), (_, here) in zip(found, places, strict=True):
        assert (rows == batcher_rows(columns[:, here], 9, -2)).all()


VIEWS = ("ages", "hops", "mutual", "counts", "reached")


def answers(db: ev.Session) -> dict[str, Any]:
    return {name: sorted(db[name].rows(), key=str) for name in VIEWS}


@pytest.mark.parametrize("shards", [2, 3, 5])
def test_joins_with_hot_keys_are_those_of_one_process(shards: int) -> None:
    edges = follows(shards)
    with ev.connect() as one, local_shards(shards) as db:
        tables = [declare(one, edges), declare(db, edges)]
        assert "split over shards" in db["ages"].explain() and "split over shards" in db["reached"].explain()
        assert answers(db) == answers(one)
        more = follows(shards + 10, 40)
        for delete, insert in ((edges[:50], more), (edges[250:320], []), (more[:30], edges[:50]), (edges[320:], [])):
            for table, session in zip(tables, (one, db), strict=True):
                with session.transaction():
                    table.delete(delete)
                    table.insert(insert)
            assert answers(db) == answers(one)
        for table, session in zip(tables, (one, db), strict=True):
            table.delete(table.rows())
            session["users"].delete([(CELEBRITY, 2)])
            table.insert(edges)
        assert answers(db) == answers(one)


def test_no_shard_holds_the_celebrity() -> None:
    """Of 10,000 rows of one key, four shards keep about a quarter each; without splitting, one kept all."""
    rows = [(i, CELEBRITY) for i in range(10_000)]
    with local_shards(4) as db:
        f, u = db.table("f", {"who": int, "whom": int}), db.table("u", {"id": int, "age": int})
        f.insert(rows)
        u.insert([(i, i) for i in range(100)])
        v = db.view("v", f.join(u, f.whom == u.id).select(f.who, u.age))
        assert len(v.rows()) == 10_000
        shards = inside(db).runtime.dataflows()[0]
        split = [
            [o.measure()[1] for o in d.operators() if o.kind == "arrange" and "split" in o.label and o.cols == 2]
            for d in shards
        ]
        held = [sum(s) for s in split]
        assert len(held) == 4 and sum(held) == 10_000 and max(held) < 3_000, held


def test_keys_that_are_not_hot_are_not_split() -> None:
    with local_shards(2) as db:
        f, u = db.table("f", {"who": int, "whom": int}), db.table("u", {"id": int, "age": int})
        f.insert([(i, i % 50) for i in range(2000)])
        u.insert([(i, i) for i in range(100)])
        assert "split over shards" not in db.view("v", f.join(u, f.whom == u.id).select(f.who, u.age)).explain()


def changed_alike(sessions: list[ev.Session], delete: list[tuple[int, int]], insert: list[tuple[int, int]]) -> None:
    for session in sessions:
        with session.transaction():
            session["follows"].delete(delete)
            session["follows"].insert(insert)


@pytest.mark.parametrize("make", [inprocess.session, inprocess_gang.session])
def test_hot_keys_are_split_after_opening_again_and_on_other_shards(tmp_path: Path, make: Any) -> None:
    """What is hot is remembered with the view: a new driver has seen no rows."""
    edges = follows(1)
    with ev.connect() as one:
        declare(one, edges)
        with ev.connect(make(2), state=str(tmp_path), shards=2) as db:
            declare(db, edges)
            assert answers(db) == answers(one)
        with ev.connect(make(2), state=str(tmp_path)) as db:
            assert any("split" in o.label for o in inside(db).runtime.dataflow.operators())
            assert answers(db) == answers(one)
            changed_alike([one, db], edges[:80], follows(5, 30))
            assert answers(db) == answers(one)
            db.reshard(3)
            assert answers(db) == answers(one)
            changed_alike([one, db], edges[80:200], edges[:80])
            assert answers(db) == answers(one)
        with ev.connect(str(tmp_path)) as db:  # one process again
            changed_alike([one, db], edges[200:260], edges[80:120])
            assert answers(db) == answers(one)


LATER = ("ages", "hops", "mutual")
"""Views whose joins are not in a loop, nor those of another view."""


@pytest.mark.parametrize("shards", [2, 3, 5])
def test_keys_that_become_hot_later_are_split(shards: int) -> None:
    """The views are there before any row; a subscriber hears of the rows and of nothing else."""
    edges = follows(shards)
    told: dict[tuple[Any, ...], int] = {}

    def tell(batch: Any) -> None:
        for row, diff in batch.rows():
            told[row] = told.get(row, 0) + diff

    with ev.connect() as one, local_shards(shards) as db:
        for session in (one, db):
            declare(session, [])
        db["hops"].subscribe(tell)
        assert not any("hot" in db[name].explain() for name in LATER)
        changed_alike([one, db], [], edges)
        changed_alike([one, db], edges[:1], edges[:1])  # the first step after what was seen
        assert all("become hot" in db[name].explain() for name in LATER)
        assert answers(db) == answers(one)
        more = follows(shards + 10, 40)
        for delete, insert in ((edges[:50], more), (edges[250:320], []), (more[:30], edges[:50]), (edges[320:], [])):
            changed_alike([one, db], delete, insert)
            assert answers(db) == answers(one)
        heard = [row for row, n in told.items() for _ in range(n)]
        assert min(told.values()) >= 0 and sorted(heard) == sorted(one["hops"].rows())


def test_a_second_celebrity_is_split_too() -> None:
    with local_shards(2) as db:
        f, u = db.table("f", {"who": int, "whom": int}), db.table("u", {"id": int, "age": int})
        u.insert([(i, i) for i in range(100)])
        f.insert([(i, 7) for i in range(300)])
        v = db.view("v", f.join(u, f.whom == u.id).select(f.who, u.age))
        assert "split over shards" in v.explain() and "become hot" not in v.explain()
        f.insert([(i, 8) for i in range(900)])
        f.insert([(0, 9)])
        assert "1 key has become hot" in v.explain()
        assert any("7, 8 split" in o.label for o in inside(db).runtime.dataflow.operators())
        assert len(v.rows()) == 1201
        f.delete([(i, 7) for i in range(300)])
        assert len(v.rows()) == 901


@pytest.mark.parametrize("make", [inprocess.session, inprocess_gang.session])
def test_what_became_hot_stays_split_after_opening_again(tmp_path: Path, make: Any) -> None:
    edges = follows(1)
    with ev.connect() as one:
        declare(one, [])
        with ev.connect(make(2), state=str(tmp_path), shards=2) as db:
            declare(db, [])
            changed_alike([one, db], [], edges)
            changed_alike([one, db], edges[:40], [])
            assert "become hot" in db["hops"].explain()
            assert answers(db) == answers(one)
        with ev.connect(make(2), state=str(tmp_path)) as db:
            assert any("split" in o.label for o in inside(db).runtime.dataflow.operators())
            changed_alike([one, db], edges[40:80], follows(5, 30))
            assert answers(db) == answers(one)
            db.reshard(3)
            changed_alike([one, db], edges[80:200], edges[:80])
            assert answers(db) == answers(one)
        with ev.connect(str(tmp_path)) as db:  # one process again
            changed_alike([one, db], edges[200:260], edges[80:120])
            assert answers(db) == answers(one)


REPLANNED: list[plan.Node] = []


@pytest.fixture(params=[2, 3])
def everything_becomes_hot(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Runtime:
    """Shards on which more and more values become hot: plans are swapped all the time."""
    asked = [0]

    def hot(self: row_samples.RowSamples, node: plan.Node, shards: int) -> Hot:
        asked[0] += 1
        tables = {one.id: one for one in node.walk() if isinstance(one, plan.Table)}
        codes = tuple((code, 1) for code in range(-2, asked[0] % 9 - 3))
        return tuple((t, c, codes) for t, table in sorted(tables.items()) for c in range(len(table.types)) if codes)

    REPLANNED.clear()
    replan = PlanSwaps.replan

    def noted(self: PlanSwaps, join: plan.Node, target: plan.Node, why: str) -> None:
        replan(self, join, target, why)
        REPLANNED.append(target)

    monkeypatch.setattr(PlanSwaps, "replan", noted)
    monkeypatch.setattr(row_samples.RowSamples, "hot", hot)
    monkeypatch.setattr(row_samples.RowSamples, "grown", True)
    monkeypatch.setattr(row_samples.RowSamples, "looked", lambda self: None)
    return Runtime("hot", lambda **options: local_shards(request.param, **options), share=0.5)


def test_random_plans_whose_keys_become_hot(everything_becomes_hot: Runtime) -> None:
    plans.test_plans_without_loops(everything_becomes_hot)
    assert len(REPLANNED) > 10


def test_random_loops_whose_keys_become_hot(everything_becomes_hot: Runtime) -> None:
    """Joins that a loop reads are left as they are."""
    plans.test_plans_with_loops(everything_becomes_hot, 1)


@pytest.fixture(params=[2, 5])
def everything_is_hot(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runtime]:
    """Shards on which some values of every table's columns are said to be hot, whatever the rows are."""

    def hot(self: row_samples.RowSamples, node: plan.Node, shards: int) -> Hot:
        tables = {one.id: one for one in node.walk() if isinstance(one, plan.Table)}
        codes = tuple((code, 1) for code in range(-1, 3))
        return tuple((t, c, codes) for t, table in sorted(tables.items()) for c in range(len(table.types)))

    made: list[Arrangement] = []

    def noted(self: Builder, *arguments: Any) -> Arrangement:
        made.append(arrange_hot(self, *arguments))
        return made[-1]

    arrange_hot = Builder.arrange_hot
    monkeypatch.setattr(Builder, "arrange_hot", noted)
    monkeypatch.setattr(row_samples.RowSamples, "hot", hot)
    yield Runtime("hot", lambda **options: local_shards(request.param, **options), share=0.05)
    assert made, "no join was one of hot keys"


def test_random_plans(everything_is_hot: Runtime) -> None:
    plans.test_plans_without_loops(everything_is_hot)


@pytest.mark.parametrize("depth", [1, 2])
def test_random_loops(everything_is_hot: Runtime, depth: int) -> None:
    plans.test_plans_with_loops(everything_is_hot, depth)


def test_graphs(everything_is_hot: Runtime) -> None:
    graphs.test_reach_12_nodes_25_edges_10_steps(everything_is_hot, 0)
    graphs.test_components_14_nodes_16_edges_10_steps(everything_is_hot, 0, prioritized=True)
    graphs.test_strong_components_8_nodes_14_edges_8_steps(everything_is_hot, 0)
