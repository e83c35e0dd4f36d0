"""Smaller worlds: trust against deleting, probabilities against all worlds one by one."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import everview as ev
from everview import col
from everview.errors import PlanError
from everview.language.relation import relation_of
from everview.session.local_shards import local_shards
from everview.why import worlds
from tests.oracle import plans
from tests.oracle.harness import effort
from tests.oracle.reference import Divergent, Evaluation, TooBig
from tests.why.checker import contents_of

Row = tuple[Any, ...]
Contents = dict[int, dict[Row, int]]
Chances = dict[tuple[int, Row], float]


@pytest.fixture
def db() -> Iterator[ev.Session]:
    with ev.connect() as session:
        yield session


def all_worlds(node: Any, contents: Contents, chances: Chances) -> dict[Row, float]:
    """How likely each row is: the sum over all worlds in which it is there."""
    total: dict[Row, float] = {}
    for there in itertools.product((False, True), repeat=len(chances)):
        likely, world = 1.0, {table: dict(rows) for table, rows in contents.items()}
        for ((table, base), p), kept in zip(chances.items(), there, strict=True):
            likely *= p if kept else 1 - p
            if not kept:
                del world[table][base]
        for row, n in Evaluation(node, world).result.items():
            if n > 0:
                total[row] = total.get(row, 0.0) + likely
    return total


# views that people write

EDGES = [("a", "b"), ("b", "c"), ("a", "c"), ("c", "d"), ("d", "b"), ("b", "d"), ("d", "d")]


def reach(edge: Any, root: Any) -> Any:
    def step(found: Any) -> ev.Collection:
        return found.join(edge, found.node == edge.src).select(node=edge.dst).union_all(root).distinct()

    return root.iterate(step)


def views(db: Any) -> dict[str, Any]:
    edge, root = db.table("edge", {"src": str, "dst": str}), db.table("root", {"node": str})
    root.insert([("a",)])
    edge.insert(EDGES)
    far = edge.alias("far")
    hops = edge.join(far, edge.dst == far.src).select(src=edge.src, dst=far.dst)
    lonely = edge.join(root, edge.src == root.node, how="anti")
    rules = db.datalog("""
        path(X, Y) :- edge(X, Y).
        path(X, Z) :- path(X, Y), path(Y, Z).
        triangle(A, B, C) :- edge(A, B), edge(B, C), edge(A, C).
        steps(X, 0) :- root(X).
        steps(Y, N + 1) :- steps(X, N), edge(X, Y), N < 4.
        nearest(X, N) :- steps(X, M), N = min(M).
    """)
    db.sql(
        "CREATE MATERIALIZED VIEW exists_far AS SELECT DISTINCT src FROM edge e "
        "WHERE EXISTS (SELECT 1 FROM edge f WHERE f.src = e.dst)"
    )
    return {
        "trees": db.view("trees", reach(edge, root)),
        "rounds": db.view("rounds", reach(edge, root), plan="rounds"),
        "hops": db.view("hops", hops),
        "distinct_hops": db.view("distinct_hops", hops.distinct().select(src=col.src).distinct()),
        "either": db.view("either", edge.select(x=col.src).union_all(edge.select(x=col.dst)).distinct()),
        "filtered": db.view("filtered", edge.filter(col.src < col.dst)),
        "least": db.view("least", edge.group_by("src").agg(first=col.dst.min(), last=col.dst.max())),
        "lonely": db.view("lonely", lonely),
        "path": rules.path,
        "triangle": rules.triangle,
        "nearest": rules.nearest,
        "exists_far": db["exists_far"],
    }  # fmt: skip


NAMES = [
    "trees",
    "rounds",
    "hops",
    "distinct_hops",
    "either",
    "filtered",
    "least",
    "lonely",
    "path",
    "triangle",
    "nearest",
]


@pytest.mark.parametrize("connect", [ev.connect, lambda: local_shards(2)], ids=["embedded", "shards"])
def test_probabilities_are_those_of_all_worlds(connect: Any) -> None:
    with connect() as db:
        made = views(db)
        contents = contents_of(db)
        table = relation_of(db["edge"]).node.id
        chances = {(table, row): 0.1 + 0.1 * i for i, row in enumerate(EDGES)}
        given = {"edge": {row: p for (_, row), p in chances.items()}}
        for name, view in made.items():
            wanted = all_worlds(relation_of(view).node, contents, chances)
            for row in sorted(view.rows()):
                found = view.probability(row, given)
                assert found.exact and float(found) == pytest.approx(wanted[row], abs=1e-12), (name, row)


def test_rows_that_cannot_be_and_rows_that_must_be(db: ev.Session) -> None:
    made = views(db)
    assert float(made["trees"].probability(("d",), {"edge": 1})) == 1.0
    assert float(made["trees"].probability(("d",), {"edge": 0})) == 0.0
    assert float(made["trees"].probability(("nowhere",), {"edge": 0.5})) == 0.0
    assert float(made["trees"].probability(("a",), {"edge": 0.5})) == 1.0
    assert float(made["trees"].probability(("b",), {"root": 0.5, "edge": lambda e: 0.5 if e[1] == "b" else 1})) == 0.375


@pytest.mark.parametrize("seed", range(6))
def test_bounds_hold_where_diagrams_are_too_large(seed: int) -> None:
    rng = random.Random(seed)
    nodes = range(6)
    edges = sorted({(a, b) for a in nodes for b in nodes if a != b and rng.random() < 0.35})[:10]
    with ev.connect() as db:
        edge: Any = db.table("edge", {"src": int, "dst": int})
        root = db.table("root", {"node": int})
        root.insert([(edges[0][0],)])
        edge.insert(edges)
        view = db.view("reach", reach(edge, root))
        contents = contents_of(db)
        chances = {(relation_of(edge).node.id, row): rng.choice([0.2, 0.5, 0.9]) for row in edges}
        given = {"edge": {row: p for (_, row), p in chances.items()}}
        wanted = all_worlds(relation_of(view).node, contents, chances)
        for row in sorted(view.rows()):
            truth = wanted[row]
            for budget in (1, 4, 12, 40, 100_000):
                found = view.probability(row, given, nodes=budget)
                assert found.lower - 1e-12 <= truth <= found.upper + 1e-12
                assert found == view.probability(row, given, nodes=budget)
                if not found.exact:
                    assert "between" in str(found)
                    with pytest.raises(ev.InputError, match="E_BOUNDS"):
                        float(found)
            assert found.exact and found.lower == pytest.approx(truth, abs=1e-12)


def test_bounds_of_a_large_dense_graph_mean_something(db: ev.Session) -> None:
    """Whether two nodes of a dense graph are connected is out of reach of diagrams; most of it is still known."""
    edge, root = db.table("edge", {"src": int, "dst": int}), db.table("root", {"node": int})
    view = db.view("reach", reach(edge, root))
    root.insert([(0,)])
    edge.insert([(a, b) for a in range(14) for b in range(14) if a != b])
    found = view.probability((13,), {"edge": 0.5}, nodes=3_000)
    assert not found.exact and 0.9 < found.lower < found.upper <= 0.9999


def test_bounds_hold_where_not_all_rows_were_looked_at(db: ev.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    made = views(db)
    truth = float(made["trees"].probability(("d",), {"edge": 0.5}))
    for most in (0, 3, 10, 20, 40):
        monkeypatch.setattr(worlds, "MOST_ROWS", most)
        found = made["trees"].probability(("d",), {"edge": 0.5})
        assert found.lower <= truth <= found.upper
        assert not found.exact or most > 10
    monkeypatch.setattr(worlds, "MOST_ROWS", 1000)
    assert float(made["trees"].probability(("d",), {"edge": 0.5})) == truth


# plans at random


def uncertain(contents: Contents, most: int) -> Chances:
    rows = [(table, row) for table, bag in contents.items() for row in sorted(bag, key=repr)]
    return {leaf: (0.25, 0.5, 0.8)[i % 3] for i, leaf in enumerate(rows[:most])}


def prepared(db: Any, spec: plans.Spec, steps: Any) -> tuple[Any, Contents, list[Row]] | None:
    tables = {name: db.table(name, schema) for name, schema in plans.TABLES.items()}
    collection = plans.build(spec, tables)
    for transaction in (t for step in plans.valid(steps) for t in step):
        with db.transaction():
            for name, change in transaction.items():
                for row, n in change.items():
                    (tables[name].insert if n > 0 else tables[name].delete)([row] * abs(n))
    contents = contents_of(db)
    try:
        bag = Evaluation(relation_of(collection).node, contents).result
        view = db.view("v", collection)
    except (TooBig, Divergent, PlanError):
        return None
    if view.errors():
        return None
    return view, contents, sorted((r for r, n in bag.items() if n > 0), key=repr)


def label_of(db: Any, table: int) -> str:
    return next(name for name in plans.TABLES if relation_of(db[name]).node.id == table)


def check_probabilities(spec: plans.Spec, steps: Any) -> None:
    with ev.connect() as db:
        made = prepared(db, spec, steps)
        if made is None:
            return
        view, contents, rows = made
        chances = uncertain(contents, 5)
        given: dict[str, dict[Row, float]] = {}
        for (table, row), p in chances.items():
            given.setdefault(label_of(db, table), {})[row] = p
        try:
            found = {row: view.probability(row, given) for row in rows[:6]}
            wanted = all_worlds(relation_of(view).node, contents, chances)
        except PlanError as error:
            assert error.code == "E_MONOTONE"
            return
        except (TooBig, Divergent):
            return
        for row, p in found.items():
            assert p.exact and float(p) == pytest.approx(wanted[row], abs=1e-9)


def test_probabilities_of_random_plans() -> None:
    @given(plans.flat_plans, plans.steps)
    @effort(25)
    def run(spec: plans.Spec, steps: Any) -> None:
        check_probabilities(spec, steps)

    run()


def test_probabilities_of_random_loops() -> None:
    @given(plans.with_loops(1), plans.steps)
    @effort(12)
    def run(spec: plans.Spec, steps: Any) -> None:
        check_probabilities(spec, steps)

    run()


def test_trust_is_what_deleting_shows() -> None:
    """Of any plan, monotone or not."""

    @given(plans.flat_plans, plans.steps, st.randoms(use_true_random=False))
    @effort(25)
    def run(spec: plans.Spec, steps: Any, rng: random.Random) -> None:
        with ev.connect() as db:
            made = prepared(db, spec, steps)
            if made is None:
                return
            view, contents, rows = made
            gone = {table: [row for row in bag if rng.random() < 0.4] for table, bag in contents.items()}
            left = {t: {row: n for row, n in bag.items() if row not in gone[t]} for t, bag in contents.items()}
            evaluation = Evaluation(relation_of(view).node, left)
            if evaluation.errors:
                return
            before = db.stats()
            for row in rows[:4]:
                without = {label_of(db, table): some for table, some in gone.items()}
                assert view.trust(row, without=without) == (evaluation.result.get(row, 0) > 0)
            assert db.stats() == before

    run()


# forms and mistakes


def test_what_can_be_given_to_trust(db: ev.Session) -> None:
    made = views(db)
    trees = made["trees"]
    assert not trees.trust("d", without="edge")
    assert trees.trust("a", without=["edge"])
    assert not trees.trust("d", without={"root": ...})
    assert trees.trust("d", without={"edge": [("a", "b"), ("not", "there")]})
    assert not trees.trust("d", without={"edge": lambda row: row[1] == "d"})
    counted = db.view("counted", db["edge"].group_by("src").agg(n=ev.count()))
    assert not counted.trust(("b", 2), without={"edge": [("b", "d")]})
    assert counted.trust(("b", 2), without={"edge": [("a", "b")]})
    assert db.time == 2


@pytest.mark.parametrize(
    ("ask", "code"),
    [
        (lambda v: v["trees"].trust("d", without={"edges": ...}), "E_NAME"),
        (lambda v: v["trees"].trust("d", without={"hops": ...}), "E_NAME"),
        (lambda v: v["trees"].trust("d", without=7), "E_TYPE"),
        (lambda v: v["trees"].trust("d", without={"edge": 7}), "E_TYPE"),
        (lambda v: v["trees"].trust("z", without="edge"), "E_ABSENT"),
        (lambda v: v["trees"].probability("d", 0.5), "E_TYPE"),
        (lambda v: v["trees"].probability("d", {"edge": 1.5}), "E_RANGE"),
        (lambda v: v["trees"].probability("d", {"edge": {("z", "z"): 0.5}}), "E_ABSENT"),
        (lambda v: v["trees"].probability("d", {"edge": 0.5}, nodes=0), "E_TYPE"),
        (lambda v: v["trees"].probability("d", {"trees": 0.5}), "E_NAME"),
    ],
)
def test_mistakes_are_named(db: ev.Session, ask: Any, code: str) -> None:
    made = views(db)
    with pytest.raises(ev.InputError) as error:
        ask(made)
    assert error.value.code == code


def test_views_that_are_not_monotone_are_refused(db: ev.Session) -> None:
    edge = db.table("edge", {"src": str, "dst": str})
    edge.insert(EDGES)
    refused = {
        "counted": edge.group_by("src").agg(n=ev.count()),
        "first": edge.top(1, col.src),
        "some_least": edge.group_by("src").agg(low=col.dst.min()).select(low=col.low).distinct(),
        "stopped": edge.select(x=col.src).iterate(lambda x: x, max_rounds=2, at_limit="stop"),
    }
    for name, collection in refused.items():
        view = db.view(name, collection)
        with pytest.raises(PlanError) as error:
            view.probability(sorted(view.rows())[0], {"edge": 0.5})
        assert error.value.code == "E_MONOTONE", name
