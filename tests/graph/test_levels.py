"""Lean K-hop queries store levels only, and say what ordinary loops say: when read, when followed, whatever happens."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

import everview as ev
from everview import col, lit
from everview.graph import Graph
from everview.kernels import structures
from everview.kernels.frontier import history as history_k
from everview.kernels.frontier import levels as k
from tests.graph.test_trees import INTS, STRINGS, drawn, schemas
from tests.graph.twins import Tables, Twins, apply, kept_as, random_step, without_memory
from tests.inside import inside

HOPS = (0, 1, 3)


def within(db: ev.Session, t: Tables) -> Mapping[str, ev.Collection]:
    g = Graph(t["edge"], memory="lean")
    return {f"within_{hops}": g.within(hops, t["source"]) for hops in HOPS}


def level_operators(db: ev.Session) -> list[Any]:
    return [o for o in inside(db).runtime.dataflow.operators() if o.kind == "levels"]


def rows_held(db: ev.Session) -> int:
    """Rows in the traces of operators that keep levels."""
    return sum(o.measure()[1] for o in level_operators(db))


class Followed:
    """What a subscriber knows of a view."""

    def __init__(self, view: ev.View) -> None:
        self.rows: Counter[Any] = Counter()
        view.subscribe(self.take)

    def take(self, batch: ev.Batch) -> None:
        for row, n in batch.rows():
            self.rows[row] += n


def without_history() -> Twins:
    return Twins(schemas(int), within, ev.connect(history=0), ev.connect(history=0))


@pytest.mark.parametrize("nodes", [INTS, STRINGS], ids=["ints", "strings"])
@pytest.mark.parametrize("seed", range(2))
def test_every_time_is_that_of_ordinary_loops(seed: int, nodes: tuple[Any, ...]) -> None:
    """With a history: rows and changes at every epoch of steps with several."""
    dice = random.Random(seed)
    twins = Twins(schemas(type(nodes[0])), within)
    assert {form for view in twins.views[0].values() for form in kept_as(view)} == {"levels"}
    draw = drawn(dice, nodes[: 4 + 2 * seed], (1,))
    for number in range(40):
        target = 0 if number == 20 else 2 * len(nodes)
        twins.step(random_step(twins, dice, draw, target, most=12 if number % 10 == 0 else 4))
    twins.close()


@pytest.mark.parametrize("seed", range(4))
def test_nothing_but_levels_is_there_between_reads(seed: int) -> None:
    """Without a history: what subscribers are told, rows where somebody reads them, and none after the next change."""
    dice = random.Random(seed)
    twins = without_history()
    known = [{name: Followed(view) for name, view in views.items()} for views in twins.views]
    draw = drawn(dice, INTS[: 3 + seed], (1,))
    for number in range(60):
        step = random_step(twins, dice, draw, 0 if number == 30 else 12, most=12 if number % 10 == 0 else 3)
        for change in step:
            for name, rows in change.items():
                twins.held[name].update(rows)
                twins.held[name] = +twins.held[name]
        for db, tables in zip(twins.dbs, twins.tables, strict=True):
            with db.batch():
                for change in step:
                    with db.transaction():
                        apply(tables, change)
        assert rows_held(twins.dbs[0]) == 0
        for name, followed in known[0].items():
            assert +followed.rows == +known[1][name].rows
            if number % 3 == 0:
                assert sorted(twins.views[0][name].rows()) == sorted(twins.views[1][name].rows())
                assert +followed.rows == Counter(twins.views[0][name].rows())
    twins.close()


def chain(nodes: int, **how: Any) -> tuple[ev.Session, ev.Table, ev.Table, ev.View]:
    db = ev.connect(history=0)
    edge, source = db.table("edge", {"src": int, "dst": int}), db.table("source", {"node": int})
    near = db.view("near", Graph(edge, memory="lean", **how).within(3, source))
    edge.insert([(n, n + 1) for n in range(nodes)])
    return db, edge, source, near


def test_a_query_takes_half_a_byte_for_each_node() -> None:
    dice = random.Random(1)
    db = ev.connect(history=0)
    edge, source = db.table("edge", {"src": int, "dst": int}), db.table("source", {"node": int})
    near = db.view("near", Graph(edge, memory="lean").within(5, source))
    edge.insert([(dice.randrange(2000), dice.randrange(2000)) for _ in range(10_000)])
    source.insert([(0,)])
    before = db.stats()["bytes"]
    source.insert([(n,) for n in range(1, 401)])
    each = (db.stats()["bytes"] - before) / 400
    assert len(near) > 400 * 1000
    edge.insert([(0, 1)])
    assert each < 2000
    assert db.stats()["bytes"] - before < 400 * 2000


def test_who_holds_a_time_can_read_it() -> None:
    db, edge, source, near = chain(6)
    source.insert([(0,), (4,)])
    snapshot = near.as_of(db.time)
    before = sorted(snapshot.rows())
    edge.delete([(0, 1)])
    edge.insert([(4, 0)])
    assert (
        sorted(snapshot.rows())
        == before
        == [(0, 0, 0), (0, 1, 1), (0, 2, 2), (0, 3, 3), (4, 4, 0), (4, 5, 1), (4, 6, 2)]
    )
    assert (4, 0, 1) in near.rows() and (0, 1, 1) not in near.rows()
    del snapshot
    edge.insert([(5, 2)])
    edge.insert([(5, 3)])
    assert rows_held(db) == 0 and (4, 3, 2) in near.rows()


def test_later_views_read_it_in_place() -> None:
    """A join reads the trace in a step: from then on its rows stay, until the join is gone."""
    db, edge, source, near = chain(6)
    label = db.table("label", {"node": int, "text": str})
    source.insert([(0,), (2,)])
    label.insert([(2, "two"), (3, "three")])
    assert rows_held(db) == 0
    far = near.join(label, near.node == label.node).select(source=near.source, text=label.text, hops=near.hops)
    named = db.view("named", far)
    counted = db.view("counted", near.group_by("source").agg(n=ev.count()))
    for change in (lambda: edge.insert([(0, 3)]), lambda: edge.delete([(1, 2)]), lambda: source.insert([(1,)])):
        change()
        rows = near.rows()
        texts = {2: "two", 3: "three"}
        assert sorted(named.rows()) == sorted((s, texts[n], h) for s, n, h in rows if n in texts)
        assert sorted(counted.rows()) == sorted(Counter(s for s, _, _ in rows).items())
    named.drop()
    counted.drop()
    edge.insert([(3, 0)])
    assert rows_held(db) == 0
    assert sorted(near.rows()) == sorted(brute(edge, source, 3))


def brute(edge: ev.Table, source: ev.Table, most: int) -> set[tuple[int, int, int]]:
    """The rows from scratch."""
    ahead: dict[int, set[int]] = {}
    for row in edge.rows():
        ahead.setdefault(row[0], set()).add(row[1])
    found = set()
    for (start,) in set(source.rows()):
        seen, layer = {start: 0}, [start]
        for hops in range(1, most + 1):
            layer = [n for one in layer for n in ahead.get(one, ()) if n not in seen and not seen.update({n: hops})]
        found |= {(start, node, hops) for node, hops in seen.items()}
    return found


def test_queries_come_and_go_and_leave_nothing() -> None:
    dice = random.Random(3)
    db, edge, source, near = chain(60)
    edge.insert([(dice.randrange(60), dice.randrange(60)) for _ in range(60)])
    for n in range(60):
        source.insert([(n,)])
    (operator,) = level_operators(db)
    for n in dice.sample(range(60), 45):
        source.delete([(n,)])
        if n % 9 == 0:
            edge.insert([(n, (n * 7) % 60)])
            assert set(near.rows()) == brute(edge, source, 3)
    edge.insert([(1, 5)])
    assert structures.peek(operator.context, history_k.HISTORY_RECORDS_N) == 15
    assert set(near.rows()) == brute(edge, source, 3) and len({s for s, _, _ in near.rows()}) == 15
    assert structures.peek(operator.context, k.LEVELS_WIDTH) <= 6


def test_failing_allocations_change_nothing() -> None:
    db, edge, source, near = chain(8)
    tables = {"edge": edge, "source": source}
    source.insert([(n,) for n in range(20)])
    expected = sorted(near.rows())

    def do(change: dict[str, Counter[Any]]) -> None:
        with db.transaction():
            apply(tables, change)

    more = [(n, n + 1) for n in range(100, 160)] + [(0, 100)]
    change: dict[str, Counter[Any]] = {"edge": Counter(more), "source": Counter([(n,) for n in range(100, 140)])}
    without_memory(do, change, every=3)
    assert sorted(near.rows()) == expected == sorted(brute(edge, source, 3))


def test_a_refused_step_is_undone() -> None:
    db, edge, source, near = chain(6)
    source.insert([(0,), (3,)])
    before = sorted(near.rows())
    for _ in range(3):
        with pytest.raises(ev.errors.EverviewError), db.transaction():
            edge.insert([(0, 5), (5, 1)])
            edge.delete([(3, 4)])
            source.insert([(1,)])
            source.delete([(0,)])
            edge.delete([(77, 77)])
    assert sorted(near.rows()) == before
    edge.insert([(0, 4)])
    assert set(near.rows()) == brute(edge, source, 3)


def test_the_budget_counts_it_and_refuses_new_queries() -> None:
    db, edge, source, near = chain(3000)
    source.insert([(0,)])
    used = db.budget().used
    assert used > 0 and db.budget().questions == 1
    db.budget(used + 50_000)
    asked = 1
    with pytest.raises(ev.errors.EverviewError, match="E_BUDGET"):
        for asked in range(1, 3000):
            source.insert([(asked,)])
    assert asked > 10
    assert set(near.rows()) == brute(edge, source, 3)
    edge.insert([(0, 2000)])
    assert set(near.rows()) == brute(edge, source, 3)
    assert db.budget().used <= used + 50_000


def test_threads_read_beside_steps() -> None:
    _, edge, source, near = chain(400)
    source.insert([(n,) for n in range(0, 400, 7)])
    wrong: list[Any] = []
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            rows = near.rows()
            if len({(s, n) for s, n, _ in rows}) != len(rows) or not {s for s, n, h in rows if h == 0} >= {0, 7}:
                wrong.append(len(rows))

    readers = [threading.Thread(target=look) for _ in range(2)]
    for reader in readers:
        reader.start()
    for n in range(150):
        edge.insert([(n, (n * 31) % 400)])
        edge.delete([(n, (n * 31) % 400)])
    stop.set()
    for reader in readers:
        reader.join()
    assert not wrong and set(near.rows()) == brute(edge, source, 3)


def test_what_if_leaves_no_trace() -> None:
    db, edge, source, near = chain(6)
    source.insert([(0,)])
    with db.what_if() as supposed:
        edge.insert([(0, 5)])
        assert (0, 5, 1) in near.rows() and sorted(supposed.changes("near")) == [((0, 5, 1), 1), ((0, 6, 2), 1)]
    assert db.what_if(insert={"edge": [(2, 6)]}).changes("near") == [((0, 6, 3), 1)]
    assert (0, 5, 1) not in near.rows() and sorted(near.rows()) == sorted(brute(edge, source, 3))


def test_others_stay_histories() -> None:
    """More hops than four bits count, starts that are not 0, a budget of its own, a directory."""
    db = ev.connect()
    edge, source = db.table("edge", {"src": int, "dst": int}), db.table("source", {"node": int})
    g = Graph(edge, memory="lean")
    start = source.select(node=col.node, source=col.node, hops=lit(2))

    def step(x: ev.Collection) -> ev.Collection:
        further = g.hop(x.filter(x.hops < 5), source=x.source, hops=x.hops + 1)
        return further.union_all(start).group_by("node", "source").agg(hops=col.hops.min())

    forms = {
        "14": (g.within(14, source), "levels"),
        "15": (g.within(15, source), "histories"),
        "two": (g.iterate(start, step), "histories"),
        "budget": (Graph(edge, budget="1MB").within(3, source), "histories"),
    }
    for name, (made, form) in forms.items():
        assert kept_as(db.view(name, made)) == [form], name
    edge.insert([(n, n + 1) for n in range(20)])
    source.insert([(0,)])
    assert sorted(db["14"].rows()) == [(0, n, n) for n in range(15)]
    assert sorted(db["15"].rows()) == [(0, n, n) for n in range(16)]


def test_a_directory_keeps_rows(tmp_path: Any) -> None:
    for _ in range(2):
        with ev.connect(tmp_path / "db") as db:
            if "near" not in db:
                edge, source = db.table("edge", {"src": int, "dst": int}), db.table("source", {"node": int})
                db.view("near", Graph(edge, memory="lean").within(3, source))
                edge.insert([(n, n + 1) for n in range(9)])
                source.insert([(0,)])
            assert kept_as(db["near"]) == ["histories"]
            assert sorted(db["near"].rows()) == [(0, n, n) for n in range(4)]
