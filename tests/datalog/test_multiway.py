"""Joins of many inputs: binary, delta and worst-case-optimal plans say the same changes at every time.

Random natural joins of 2 to 6 inputs over a few small tables, so that self-joins, reversed copies, repeated variables,
unary inputs, cartesian parts and duplicates all occur; several tables change in one transaction and several
transactions in one step; outside loops, in a loop, and in a loop in a loop; in one dataflow and on shards.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any, Literal

import pytest

import everview as ev
from everview import col, lit
from everview.expr.functions import call
from everview.expr.nodes import Literal as Constant
from everview.language.collection import Collection
from everview.language.relation import relation_of
from everview.plan.nodes import Filter
from everview.session.local_shards import local_shards
from everview.types import INT

Way = tuple[Literal["binary", "delta", "wco", "best"], int]
"""A plan, and a number of shards (0: one dataflow)."""

ALONE: tuple[Way, ...] = (("binary", 0), ("delta", 0), ("wco", 0))
TABLES = {"r": 2, "s": 2, "t": 3, "u": 1}


def session(shards: int = 0) -> ev.Session:
    return with_tables(local_shards(shards=shards) if shards else ev.connect())


def with_tables(db: ev.Session) -> ev.Session:
    for name, width in TABLES.items():
        db.table(name, {f"c{i}": int for i in range(width)} | ({"maybe": int | None} if name == "s" else {}))
    return db


def natural_join(inputs: list[Collection], variables: list[list[str]]) -> Collection:
    """The join that binary plans are made of: one input after the other, equal names are equal values."""
    found: Collection | None = None
    for given, names in zip(inputs, variables, strict=True):
        own = given.alias("x")
        columns = [own[c] for c in own.schema()]
        for i, name in enumerate(names):
            if name in names[:i]:
                own = own.filter(columns[i] == columns[names.index(name)])
        fresh = {n: columns[names.index(n)] for n in dict.fromkeys(names)}
        one = own.select(**fresh)
        if found is None:
            found = one
        else:
            shared = [n for n in fresh if n in found.schema()]
            found = found.join(one, shared) if shared else found.join(one, how="cross")
    assert found is not None
    return found


class Shape:
    """A random join, to be built in several sessions."""

    def __init__(self, rng: random.Random) -> None:
        self.tables = [rng.choice(list(TABLES)) for _ in range(rng.randint(2, 6))]
        pool = "abcdef"[: rng.randint(2, max(2, len(self.tables)))]
        width = {"s": 3}
        self.variables = [[rng.choice(pool) for _ in range(width.get(t, TABLES[t]))] for t in self.tables]
        names = sorted({n for names in self.variables for n in names})
        self.outputs = rng.sample(names, rng.randint(1, min(3, len(names))))
        self.test = tuple(rng.choice(names) for _ in range(2)) if rng.random() < 0.4 else None
        self.operator = rng.choice(["<", "<=", "!=", ">"])

    def __repr__(self) -> str:
        atoms = ", ".join(f"{t}({', '.join(v)})" for t, v in zip(self.tables, self.variables, strict=True))
        return f"{self.outputs} of {atoms}, {self.test} {self.operator}"

    def collection(self, find: Callable[[int, str], Collection]) -> Collection:
        joined = natural_join([find(i, t) for i, t in enumerate(self.tables)], self.variables)
        if self.test is not None:
            a, b = (col[n] for n in self.test)
            joined = joined.filter({"<": a < b, "<=": a <= b, "!=": a != b, ">": a > b}[self.operator])
        return joined.select(**{f"o{i}": col[n] for i, n in enumerate(self.outputs)})


def changes(rng: random.Random, held: dict[str, Counter[Any]], most: int = 4) -> dict[str, tuple[list[Any], list[Any]]]:
    """Rows to insert and rows to delete, for each table."""
    found = {}
    for name, width in TABLES.items():
        maybe = [rng.choice([None, 0, 1, 2])] if name == "s" else []
        new = [(*(rng.randrange(3) for _ in range(width)), *maybe) for _ in range(rng.randrange(most))]
        gone = rng.sample(sorted(held[name].elements(), key=str), min(held[name].total(), rng.randrange(4)))
        held[name] += Counter(new)
        held[name] -= Counter(gone)
        found[name] = (new, gone)
    return found


def apply(db: ev.Session, batch: list[dict[str, tuple[list[Any], list[Any]]]]) -> None:
    with db.batch():
        for step in batch:
            with db.transaction():
                for name, (new, gone) in step.items():
                    table: Any = db[name]
                    table.insert(new)
                    table.delete(gone)


def agree(
    seed: int, build: Callable[[ev.Session, Shape], Collection], steps: int = 6, ways: tuple[Way, ...] = ALONE
) -> int:
    """Install the same view in every way, change, compare; gives how many changes were seen."""
    rng = random.Random(seed)
    shape = Shape(rng)
    held: dict[str, Counter[Any]] = {name: Counter() for name in TABLES}
    sessions = {way: session(way[1]) for way in ways}
    before = [changes(rng, held, most=12)]
    for db in sessions.values():
        apply(db, before)
    views = {way: db.view("v", build(db, shape), plan=way[0]) for way, db in sessions.items()}
    seen = 0
    for _ in range(steps):
        batch = [changes(rng, held) for _ in range(rng.randint(1, 3))]
        since = sessions[ways[0]].time
        for db in sessions.values():
            apply(db, batch)
        said = {w: Counter({(r, t): d for r, t, d in v.changes(since=since)}) for w, v in views.items()}
        seen += len(same(shape, said))
        same(shape, {way: Counter(v.rows()) for way, v in views.items()})
    late = {way: db.view("late", build(db, shape).filter(col.o0 >= 0), plan=way[0]) for way, db in sessions.items()}
    same(shape, {way: Counter(v.rows()) for way, v in late.items()})
    for db in sessions.values():
        db.close()
    return seen


def same(shape: Shape, found: dict[Way, Counter[Any]]) -> Counter[Any]:
    """What all ways say."""
    first, *others = found.items()
    for way, said in others:
        assert said == first[1], (way, first[0], shape)
    return first[1]


def outside(db: ev.Session, shape: Shape) -> Collection:
    return shape.collection(lambda i, name: db[name])


def in_loop(db: ev.Session, shape: Shape) -> Collection:
    """The loop's variable stands for the unary table and for the first input."""
    start = db["u"].select(o0=col.c0).distinct()

    def body(x: Collection) -> Collection:
        def find(i: int, name: str) -> Collection:
            if name == "u":
                return x
            if i == 0:
                return db[name].join(x, db[name].c0 == x.o0, how="semi")
            return db[name]

        return shape.collection(find).select(o0=col.o0).filter(col.o0.is_not_null()).union_all(start).distinct()

    first = start.iterate(body, max_rounds=40)
    return first


def in_nested_loop(db: ev.Session, shape: Shape) -> Collection:
    start = db["u"].select(o0=col.c0).distinct()

    def outer(y: Collection) -> Collection:
        def inner(x: Collection) -> Collection:
            def find(i: int, name: str) -> Collection:
                return x if name == "u" else y.select(c0=y.o0, c1=y.o0) if name == "r" and i else db[name]

            found = shape.collection(find).select(o0=col.o0).filter(col.o0.is_not_null())
            return found.union_all(y).distinct()

        return y.iterate(inner, max_rounds=40).union_all(start).distinct()

    return start.iterate(outer, max_rounds=40)


def seeds(start: int, count: int) -> range:
    return range(start, start + count)


@pytest.mark.parametrize("seed", seeds(0, 12))
def test_outside_loops(seed: int) -> None:
    assert sum(agree(100 * seed + k, outside) for k in range(5)) > 0


@pytest.mark.parametrize("seed", seeds(0, 6))
def test_in_a_loop(seed: int) -> None:
    assert sum(agree(7000 + 100 * seed + k, in_loop) for k in range(5)) > 0


@pytest.mark.parametrize("seed", seeds(0, 6))
def test_in_a_loop_in_a_loop(seed: int) -> None:
    assert sum(agree(9000 + 100 * seed + k, in_nested_loop) for k in range(5)) > 0


@pytest.mark.parametrize(("build", "start"), [(outside, 100), (in_loop, 7100), (in_nested_loop, 9100)])
@pytest.mark.parametrize("shards", [1, 2, 4, 7])
def test_on_shards(build: Callable[[ev.Session, Shape], Collection], start: int, shards: int) -> None:
    """Rows are in the cells of a grid, in copies, and every result is found once."""
    ways: tuple[Way, ...] = (("binary", 0), ("delta", shards), ("wco", shards))
    assert sum(agree(start + 10 * shards + k, build, ways=ways) for k in range(5)) > 0


@pytest.mark.slow
@pytest.mark.parametrize("build", [outside, in_loop, in_nested_loop])
def test_many_more(build: Callable[[ev.Session, Shape], Collection]) -> None:
    for seed in range(20000, 20300):
        agree(seed, build, steps=4)
    for seed in range(20300, 20400):
        shards = 1 + seed % 8
        agree(seed, build, steps=4, ways=(("binary", 0), ("delta", shards), ("wco", shards)))


def star(db: ev.Session, arms: int) -> Collection:
    """A centre and its arms: c.k joined with a0(k, v), a1(k, v), ..."""
    found = db["centre"].select(k=col.k)
    for i in range(arms):
        arm = db[f"a{i}"]
        found = found.join(arm, found.k == arm.k).select(
            k=found.k, **{f"v{j}": found[f"v{j}"] for j in range(i)}, **{f"v{i}": arm.v}
        )
    return found


def test_a_star_join_holds_nothing_but_its_base_indexes() -> None:
    sizes = {}
    for plan in ("binary", "delta"):
        db = ev.connect()
        db.table("centre", {"k": int}).insert([(k,) for k in range(50)])
        for i in range(6):
            db.table(f"a{i}", {"k": int, "v": int}).insert([(k, 2 * k + x) for k in range(50) for x in range(2)])
        base = sum(a["updates"] for a in db.stats()["arrangements"])
        view = db.view("v", star(db, 6).agg(n=ev.count()), plan=plan)
        assert view.rows() == [(50 * 2**6,)]
        sizes[plan] = sum(a["updates"] for a in db.stats()["arrangements"]) - base
    assert sizes["delta"] == 2  # the count, and its total
    assert sizes["binary"] >= 250


def test_explain_shows_the_plan() -> None:
    db = ev.connect()
    db.table("e", {"a": int, "b": int})
    triangle = "t(A, B, C) :- e(A, B), e(B, C), e(A, C)."
    assert "wco join of 3 inputs" in db.datalog(triangle).t.explain()
    other = ev.connect()
    other.table("e", {"a": int, "b": int})
    assert "binary, because you asked for it" in other.datalog(triangle, plan="binary").t.explain()
    with pytest.raises(ev.PlanError, match="did you mean 'wco'"):
        db.datalog("p(X) :- e(X, _).", plan="wc0")  # type: ignore[arg-type]


def test_keys_keep_a_cycle_binary() -> None:
    db = ev.connect()
    db.table("customer", {"id": int, "nation": int}, key="id")
    db.table("supplier", {"id": int, "nation": int}, key="id")
    db.table("item", {"customer": int, "supplier": int})
    rules = db.datalog("local(C, S, N) :- customer(C, N), item(C, S), supplier(S, N).")
    assert "join of 3 inputs: binary, because keys keep its cycle small" in rules.local.explain()


def test_a_literal_zero_columns_are_fine() -> None:
    db = ev.connect()
    e = db.table("e", {"a": int, "b": int})
    found = e.join(e.alias("f"), lit(True) == lit(True)).select(a=e.a)
    view = db.view("v", found, plan="wco")
    e.insert([(1, 2), (3, 4)])
    assert sorted(view.rows()) == [(1,), (1,), (3,), (3,)]


def test_facts_about_one_entity_are_joined_at_once_by_themselves() -> None:
    """Every attribute is arranged by entity already; three of them need no further index, and keep no further row."""
    db = ev.connect()
    for name in ("name", "age", "town"):
        db.attribute(name, int, semantics="one")
    db.transact([(e, a, e * k) for e in range(50) for k, a in enumerate(("name", "age", "town"))])
    rules = db.datalog("person(count()) :- name(E, _), age(E, _), town(E, _). all(E, A) :- name(E, _), age(E, A).")
    assert "delta join of 3 inputs" in rules.person.explain()
    assert "delta join" not in rules.all.explain()
    held = [a["updates"] for a in rules.person.stats()["arrangements"]]
    assert sorted(held)[-3:] == [50, 50, 50] and max(sorted(held)[:-3]) <= 1
    db.transact([("retract", 3, "age", 3)])
    assert rules.person.rows() == [(49,)]
    binary = db.datalog("other(sum(A)) :- name(E, _), age(E, A), town(E, _).", plan="binary")
    assert "delta join" not in binary.other.explain() and binary.other.rows() == [(49 * 50 // 2 - 3,)]


def test_what_is_kept_one_way_is_not_built_again_in_another() -> None:
    """A view that was made join by join stays so for its readers, though its indexes would allow more today."""
    db = ev.connect()
    for name in "rst":
        db.table(name, {"a": int, "b": int}).insert([(1, 2), (2, 3)])
    joined = natural_join([db[n] for n in "rst"], [["x", "y"], ["y", "z"], ["z", "w"]])
    first = db.view("first", joined, plan="binary")
    again = natural_join([db[n] for n in "tsr"], [["z", "w"], ["y", "z"], ["x", "y"]])
    db.view("indexes", again.filter(col.x < col.w), plan="delta")  # a condition that stays above the join
    reader = db.view("reader", first.select("x", "w"))
    assert "delta join" not in reader.explain()
    assert "delta join" in db.view("alone", again.filter(col.x <= col.w)).explain()


def test_negation_does_not_part_a_cyclic_body() -> None:
    """Four-cycles with one chord missing: the negated relation is one more input, and wedges are not kept."""
    db = ev.connect()
    edge = db.table("edge", {"a": int, "b": int})
    rules = db.datalog("hollow(A, B, C, D) :- edge(A, B), edge(B, C), not edge(A, C), edge(C, D), edge(D, A).")
    said = [line for line in rules.hollow.explain().split("\n") if line.startswith("join of")]
    assert said == [f"join of {n} inputs: wco, because it is cyclic" for n in (4, 5)]
    edge.insert([(0, i) for i in range(1, 40)] + [(i, 40) for i in range(1, 40)])
    held = [(a["name"], a["updates"]) for a in rules.hollow.stats()["arrangements"]]
    assert {updates for _, updates in held} == {0, 78}, held  # edges, and none of the pattern
    edge.insert([(40, 41), (41, 0)])
    assert len(rules.hollow.rows()) == 4 * 39
    edge.insert([(0, 40)])
    assert len(rules.hollow.rows()) == 3 * 39


@pytest.mark.parametrize("plan", ["binary", "delta", "wco"])
def test_a_condition_that_reads_no_column_is_tested(plan: Any) -> None:
    db = ev.connect()
    for name in "rst":
        db.table(name, {"a": int, "b": int}).insert([(1, 2), (2, 3), (3, 4)])
    joined = natural_join([db[n] for n in "rst"], [["x", "y"], ["y", "z"], ["z", "w"]])
    node = relation_of(joined).node
    never = Filter(node, call("lt", Constant(INT, 3), Constant(INT, 0)))
    always = Filter(node, call("lt", Constant(INT, 0), Constant(INT, 3)))
    for what, rows in ((never, 0), (always, 1)):
        view = db.view(f"v{rows}", joined._derive(what, relation_of(joined).columns), plan=plan)
        assert len(view.rows()) == rows
