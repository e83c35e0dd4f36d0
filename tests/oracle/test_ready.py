"""Steps visit the operators for which something has come, and no others; nobody can tell but by the time it takes.

The random plans of this directory run this way too, against computing from scratch. Here: that idle operators are not
called; that sessions in which every operator is called in every step give the same rows, changes and histories; and
what is special: steps that fail, suppositions, bulk loads, new readers.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

import everview as ev
from everview.errors import CompactedError
from everview.expr.language import col, count, udf
from everview.kernels import structures
from everview.kernels.run import step as step_k
from tests.inside import inside
from tests.oracle import graphs


def wake_everything(db: ev.Session) -> None:
    """Let the next step call every operator."""
    step = inside(db).runtime.dataflow.step_block
    ready = structures.peek(step, step_k.STEP_READY)
    for word in range(structures.peek(step, step_k.STEP_READY_WORDS)):
        structures.poke(ready, word, -1)


def called(db: ev.Session, change: Any) -> set[str]:
    """What is called by a change."""
    dataflow = inside(db).runtime.dataflow
    dataflow.time_operators(True)
    try:
        change()
        dataflow.timing.collect()
        return {o.describe() for o in dataflow.operators() if o.own_ns}
    finally:
        dataflow.time_operators(False)


@pytest.fixture
def db() -> Iterator[ev.Session]:
    with ev.connect() as session:
        yield session


def test_only_what_a_change_reaches_is_called(db: ev.Session) -> None:
    one, other = db.table("one", {"a": int, "b": int}), db.table("other", {"a": int, "b": int})
    db.view("totals", one.group_by("a").agg(n=col.b.sum()))
    db.view("pairs", one.join(other, one.a == other.a).select(one.b, c=other.b))
    db.view("of_other", other.group_by("b").agg(n=count()))
    other.insert([(1, 1)])
    one.insert([(2, 2)])
    found = called(db, lambda: one.insert([(2, 3)]))
    assert {"arrange one"} <= found and any(name.startswith("join") for name in found)
    assert "arrange other" not in found and not any("count" in name for name in found), found


def test_rows_that_a_filter_drops_wake_nobody(db: ev.Session) -> None:
    t = db.table("t", {"a": int, "b": int})
    for i in range(50):
        db.view(f"v{i}", t.filter(t.a == i).group_by("b").agg(n=count()))
    t.insert([(3, 1)])
    assert len([name for name in called(db, lambda: t.insert([(7, 1)])) if name.startswith("reduce")]) == 1
    assert db["v7"].rows() == [(1, 1)] and db["v3"].rows() == [(1, 1)] and db["v8"].rows() == []


def test_a_loop_that_nothing_reaches_is_jumped_over(db: ev.Session) -> None:
    edge, root, other = (
        db.table("edge", {"src": int, "dst": int}),
        db.table("root", {"node": int}),
        db.table("x", {"a": int}),
    )
    reach = db.view("reach", graphs.reach(edge, root), plan="rounds")
    root.insert([(0,)])
    edge.insert([(0, 1), (1, 2)])
    assert called(db, lambda: other.insert([(1,)])) == {"arrange x"}
    edge.insert([(2, 3)])
    assert sorted(reach.rows()) == [(0,), (1,), (2,), (3,)]


class Twins:
    """Two sessions with the same tables and views; in one, every step calls every operator."""

    def __init__(self) -> None:
        self.sessions = [ev.connect(history=3), ev.connect(history=3)]
        for db in self.sessions:
            edge, root, t = (
                db.table("edge", {"src": int, "dst": int}),
                db.table("root", {"node": int}),
                db.table("t", {"a": int, "b": int}),
            )
            twice = udf(lambda x: 10 // (x + 1), returns=int)
            db.view("rounds", graphs.reach(edge, root), plan="rounds")
            db.view("trees", graphs.reach(edge, root))
            db.view("strong", graphs.strong_edges(edge.distinct()))
            db.view("least", t.group_by("a").agg(least=col.b.min(), n=count()))
            db.view("joined", t.join(edge, t.a == edge.src).select(t.b, edge.dst))
            db.view("python", t.select(a=t.a, b=twice(t.b)))
            db.view("unlike", t.select(t.a).distinct())
            db.view("three", t.join(edge, t.a == edge.src).join(root, root.node == edge.dst).select(t.b, root.node))

    def each(self) -> Iterator[ev.Session]:
        yield self.sessions[0]
        wake_everything(self.sessions[1])
        yield self.sessions[1]

    def same(self) -> None:
        found = [
            {name: (Counter(db[name].rows()), Counter(db[name].changes(db.time - 1))) for name in db.views}
            for db in self.sessions
        ]
        assert found[0] == found[1]
        readable = [
            [_at(db, name, back) for name in db.views for back in range(min(6, db.time))] for db in self.sessions
        ]
        assert readable[0] == readable[1]

    def close(self) -> None:
        for db in self.sessions:
            db.close()


def _at(db: ev.Session, name: str, back: int) -> Any:
    """The rows some steps ago; None if they are no longer known."""
    try:
        return Counter(db[name].as_of(db.time - back).rows())
    except CompactedError:
        return None


@pytest.mark.parametrize("seed", range(6))
def test_every_operator_called_or_only_some(seed: int) -> None:
    dice = random.Random(seed)
    twins = Twins()
    held: dict[str, list[tuple[int, ...]]] = {"edge": [], "root": [], "t": []}
    for _ in range(25):
        name = dice.choice(("edge", "edge", "root", "t", "t"))
        rows = held[name]
        kind = dice.choice(("insert", "insert", "delete", "fail", "suppose", "transaction"))
        new = [tuple(dice.randrange(6) for _ in range(1 if name == "root" else 2)) for _ in range(dice.randint(1, 4))]
        gone = [rows.pop(dice.randrange(len(rows)))] if rows and kind in ("delete", "transaction") else []
        for db in twins.each():
            if kind == "fail":
                with pytest.raises(ev.EverviewError):
                    db["t"].insert([*((a, b) for a, b in held["t"][:1]), (1, -1)])  # the function divides by zero
            elif kind == "suppose":
                with db.what_if():
                    db[name].insert(new)
            else:
                with db.transaction():
                    if kind != "delete":
                        db[name].insert(new)
                    db[name].delete(gone)
        rows += new if kind in ("insert", "transaction") else []
        twins.same()
    twins.close()


def test_a_bulk_load_and_new_readers(db: ev.Session) -> None:
    t, idle = db.table("t", {"a": int, "b": int}), db.table("idle", {"a": int})
    view = db.view("v", t.group_by("a").agg(n=count()))
    idle.insert([(1,), (2,)])
    t.insert({"a": [i % 10 for i in range(50_000)], "b": list(range(50_000))})
    assert sorted(view.rows()) == [(i, 5000) for i in range(10)]
    for _ in range(3):
        t.insert([(1, 0)])
    late = db.view("late", idle.join(t, idle.a == t.a).select(t.b))
    assert len(late.rows()) == 10_003
    idle.delete([(2,)])
    assert len(late.rows()) == 5003


def test_what_is_released_stays_readable_until_the_next_step() -> None:
    with ev.connect(history=0) as db:
        t, other = db.table("t", {"a": int}), db.table("other", {"a": int})
        t.insert([(1,)])
        view = db.view("v", t.filter(t.a > 0))
        time, held = db.time, view.as_of(db.time)
        t.insert([(2,)])
        assert held.rows() == [(1,)]
        del held
        assert view.as_of(time).rows() == [(1,)]
        other.insert([(1,)])
        with pytest.raises(CompactedError):
            view.as_of(time)


def test_many_idle_traces_are_not_committed(db: ev.Session) -> None:
    """What the commit touches is what was added to: the others' times lag behind, and are told as if they did not."""
    tables = [db.table(f"t{i}", {"a": int}) for i in range(5)]
    for i in range(10):
        tables[0].insert([(i,)])
    traces = [inside(db).runtime.builder.tables[i].trace for i in sorted(inside(db).runtime.builder.tables)][:5]
    assert len({trace.since for trace in traces}) == 1
    assert {trace.stored_since for trace in traces[1:]} == {0}
