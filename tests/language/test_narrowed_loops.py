"""Conditions that are tested where a loop starts: the same rows as if they were tested at its end, after every change.

The loops are random and may be anything: non-linear, with differences, reductions and several uses of the variable.
They are stopped after a few rounds, so that those which never settle are compared, too.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

import everview as ev
from everview import col
from everview.language.collection import Collection
from everview.language.relation import relation_of
from everview.plan.narrowed_loops import narrowed, unchanged
from everview.plan.nodes import Filter, LoopResult
from everview.session.local_shards import local_shards

WIDTH = 3
NAMES = [f"c{i}" for i in range(WIDTH)]


def shuffled(of: Collection, rng: random.Random, names: list[str]) -> Collection:
    """Three of a collection's columns: mostly each where it was, often one twice, or out of order."""
    picked = [n if rng.random() < 0.7 else rng.choice(names) for n in names[:WIDTH]]
    return of.select(**{new: getattr(of, old) for new, old in zip(NAMES, picked, strict=True)})


def piece(x: Collection, tables: list[Collection], rng: random.Random, depth: int) -> Collection:
    """A random collection of three columns."""
    if depth == 0:
        return x if rng.random() < 0.5 else rng.choice(tables)
    one, other = (piece(x, tables, rng, depth - 1) for _ in range(2))
    kind = rng.choice(("union", "join", "join", "filter", "distinct", "min", "top", "except", "shuffle"))
    if kind == "union":
        return one.union_all(other)
    if kind == "except":
        return one.distinct().except_(other.distinct())
    if kind == "join":
        other = other.rename(**{f"d{i}": f"c{i}" for i in range(WIDTH)})
        on = getattr(one, rng.choice(NAMES)) == getattr(other, f"d{rng.randrange(WIDTH)}")
        both = one.join(other, on)
        return shuffled(both, rng, [*NAMES, *(f"d{i}" for i in range(WIDTH))])
    if kind == "filter":
        return one.filter(getattr(one, rng.choice(NAMES)) != rng.randrange(4))
    if kind == "min":
        return one.group_by("c0", "c1").agg(c2=col.c2.min())
    if kind == "top":
        return one.group_by("c0", "c1").top(2, by="c2")
    return one.distinct() if kind == "distinct" else shuffled(one, rng, NAMES)


def random_loop(tables: list[Collection], seed: str) -> Collection:
    rng = random.Random(seed)
    start = piece(tables[0], tables, rng, 1)

    def body(x: Collection) -> Collection:
        return piece(x, tables, rng, 3).union_all(shuffled(x, rng, NAMES)).distinct()

    return start.distinct().iterate(body, max_rounds=4, at_limit="stop")


def condition(loop: Collection, rng: random.Random) -> Any:
    a, b = (getattr(loop, name) for name in rng.sample(NAMES, 2))
    return rng.choice((a == 1, a != 2, (a == 1) & (b > 0), (a > 0) | (b == 1), a == b))


def filled(db: ev.Session) -> list[Collection]:
    return [db.table(name, dict.fromkeys(NAMES, int)) for name in "rst"]


def changes(tables: list[Any], rng: random.Random) -> None:
    for table in tables:
        table.insert([tuple(rng.randrange(4) for _ in NAMES) for _ in range(4)])
        there = table.rows()
        table.delete(rng.sample(there, len(there) // 3))


def compared(seed: int, make: Any) -> bool:
    rng = random.Random(seed)
    with make() as db:
        tables = filled(db)
        changes(tables, rng)
        loop = random_loop(tables, f"loop {seed}")
        asked = loop.filter(condition(loop, rng))
        whole = db.view("whole", asked, plan="rounds")
        node = narrowed(relation_of(asked).node)
        kept = db.view("narrow", asked._derive(node, relation_of(asked).columns), plan="binary")
        for _ in range(4):
            assert Counter(kept.rows()) == Counter(whole.rows()), (seed, asked.explain())
            with db.transaction():
                changes(tables, rng)
        return node != relation_of(asked).node


def test_random_loops() -> None:
    found = sum(compared(seed, ev.connect) for seed in range(90))
    assert found > 15


def test_random_loops_in_shards() -> None:
    assert sum(compared(seed, lambda: local_shards(shards=3)) for seed in range(6)) > 0


@pytest.mark.slow
def test_many_random_loops() -> None:
    assert sum(compared(seed, ev.connect) for seed in range(1000, 1500)) > 80


def paths(db: ev.Session, condition: str) -> ev.View:
    return db.sql(f"""
        CREATE VIEW v AS WITH RECURSIVE path(a, b, hops) AS (
            SELECT src, dst, 1 FROM edge UNION SELECT p.a, e.dst, p.hops FROM path p JOIN edge e ON p.b = e.src
        ) SELECT a, b FROM path WHERE {condition}""")


def test_paths_from_one_node_are_all_that_is_computed() -> None:
    with ev.connect() as db:
        edge = db.table("edge", {"src": int, "dst": int})
        edge.insert([(i, i + 1) for i in range(60)])
        found = paths(db, "a = 57 AND b > 58")
        assert sorted(found.rows()) == [(57, 59), (57, 60)]
        assert db.stats()["bytes"] < 100_000  # all pairs are 1,830
        edge.insert([(57, 3)])
        assert len(found.rows()) == 2
        edge.delete([(57, 58)])
        assert sorted(found.rows()) == []
        assert str(found.why_not((57, 60)))
        edge.insert([(57, 59)])
        assert found.why((57, 60)).leaves() == {("edge", (57, 59)), ("edge", (59, 60))}


def test_what_changes_on_the_way_is_not_pushed() -> None:
    with ev.connect() as db:
        edge = db.table("edge", {"src": int, "dst": int})
        edge.insert([(1, 2), (2, 3)])
        assert sorted(paths(db, "b = 3").rows()) == [(1, 3), (2, 3)]
        (loop,) = (n.loop for n in relation_of(db["v"]).node.walk() if isinstance(n, LoopResult))
        assert unchanged(loop) == {0, 2}


def test_a_loop_that_is_kept_already_is_shared() -> None:
    with ev.connect() as db:
        edge = db.table("edge", {"src": int, "dst": int})
        start = edge.select("src", "dst")

        def body(p: Collection) -> Collection:
            return p.join(edge, p.dst == edge.src).select(src=p.src, dst=edge.dst).union_all(start).distinct()

        path = start.iterate(body)
        db.view("all", path)
        few = db.view("few", path.filter(col.src == 1))
        assert isinstance(relation_of(few).node, Filter)
        alone = path.filter(col.src == 1).union_all(path.filter(col.dst == 9))
        assert narrowed(relation_of(alone).node) == relation_of(alone).node


def test_a_directory_finds_narrowed_views_again(tmp_path: Any) -> None:
    with ev.connect(str(tmp_path)) as db:
        db.table("edge", {"src": int, "dst": int}).insert([(1, 2), (2, 3), (7, 8)])
        before = sorted(paths(db, "a = 1").rows())
    with ev.connect(str(tmp_path)) as db:
        assert sorted(db["v"].rows()) == before == [(1, 2), (1, 3)]
        assert db.check() == []
        db.table("edge", {"src": int, "dst": int})
        assert sorted(paths(db, "a = 1").rows()) == before  # declared again: the same view
        db["edge"].insert([(3, 4)])
        assert sorted(db["v"].rows()) == [(1, 2), (1, 3), (1, 4)]
