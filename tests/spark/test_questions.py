"""Every question on a real Spark: why, why not, what if, trust, probability, provenance; the same answers as in one
process, every step of an explanation checked, and nothing left behind.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

import everview as ev
from everview import col
from tests.oracle import plans
from tests.oracle.harness import effort
from tests.oracle.test_what_if import files
from tests.why.checker import check_why, contents_of, own_ancestors
from tests.why.test_random_plans import explain_all

pytestmark = pytest.mark.spark

RULES = """
    reach(X)     :- root(X).
    reach(Y)     :- reach(X), edge(X, Y, _).
    far(Y, N)    :- root(Y), N = 0.
    far(Y, M + 1) :- far(X, M), edge(X, Y, _), M < 4.
    near(X, N)   :- far(X, M), N = min(M).
    orphan(X)    :- edge(X, _, _), not reach(X).
    fanout(X, N) :- edge(X, Y, _), N = count(Y).
"""

QUERIES = {
    "joined": "SELECT e.src, f.dst FROM edge e LEFT JOIN edge f ON e.dst = f.src",
    "top": "SELECT src, dst, w FROM (SELECT *, row_number() OVER (PARTITION BY src ORDER BY w DESC) AS n FROM edge) q"
    " WHERE n <= 1",
    "running": "SELECT src, dst, sum(w) OVER (PARTITION BY src ORDER BY w) AS total FROM edge",
    "most": "SELECT src, max(w) AS w, count(*) AS n, sum(w) AS s FROM edge GROUP BY src HAVING count(*) > 1",
    "lonely": "SELECT DISTINCT dst FROM edge WHERE NOT EXISTS (SELECT 1 FROM edge f WHERE f.src = edge.dst)",
    "above": "SELECT src, w FROM edge WHERE w > (SELECT avg(w) FROM edge)",
}

ROWS = [("a", "b", 3), ("b", "c", 1), ("a", "c", 5), ("c", "b", 2), ("x", "y", 4), ("c", "d", 7)]


def half(w: int) -> int:
    return w // 2


def filled(db: Any) -> Any:
    edge, root = db.table("edge", {"src": str, "dst": str, "w": int}), db.table("root", {"node": str})
    db.datalog(RULES)
    for name, query in QUERIES.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    db.view("halved", edge.map(lambda src, dst, w: (src, half(w)), {"src": str, "half": int}))
    root.insert([("a",)])
    edge.insert(ROWS)
    edge.delete([("a", "c", 5)])
    return db


VIEWS = ("reach", "near", "orphan", "fanout", *QUERIES, "halved")


@pytest.fixture(scope="module")
def pair(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Any]]:
    """The same tables and views, on Spark and in this process."""
    folder = tmp_path_factory.mktemp("questions")
    with ev.connect(spark, state=str(folder), shards=2, history=5) as far, ev.connect(history=5) as near:
        yield filled(far), filled(near)


def test_why_of_every_kind_of_view(pair: tuple[Any, Any]) -> None:
    far, near = pair
    contents = contents_of(far)
    for name in VIEWS:
        rows = sorted(near[name].rows(), key=repr)
        assert rows == sorted(far[name].rows(), key=repr) and rows, name
        for row in (rows[0], rows[-1]):
            found = check_why(far[name], row, contents)
            assert not own_ancestors(found)
            assert found.leaves() == near[name].why(row).leaves(), (name, row)
    for row in near["reach"].rows():
        several = far["reach"].why(row, all=3)
        assert {frozenset(d.leaves()) for d in several} == {
            frozenset(d.leaves()) for d in near["reach"].why(row, all=3)
        }


def test_why_at_an_earlier_time(pair: tuple[Any, Any]) -> None:
    far, near = pair
    before = far.time - 1
    assert far["reach"].why(("c",), time=before).leaves() == near["reach"].why(("c",), time=before).leaves()
    text = f"EXPLAIN WHY SELECT * FROM most AS OF {before}"
    assert [str(r) for r in far.sql(text).rows()] == [str(r) for r in near.sql(text).rows()]
    assert far.sql("WHY reach ('c')").rows() == near.sql("WHY reach ('c')").rows()


def test_why_not(pair: tuple[Any, Any]) -> None:
    far, near = pair
    asked = [("reach", ("y",)), ("near", ("d", 1)), ("joined", ("a", "d")), ("most", ("b", None, None, None))]
    for name, row in asked:
        assert str(far[name].why_not(row)) == str(near[name].why_not(row)), name
        assert far[name].why_not(row).missing() == near[name].why_not(row).missing()


def test_what_if_leaves_nothing_behind(pair: tuple[Any, Any]) -> None:
    far, near = pair
    before, time = files(far), far.time
    told: list[Any] = []
    for db in (far, near):
        question = db.what_if(delete={"edge": [("b", "c", 1)]}, insert={"edge": [("x", "c", 9)]})
        with db.what_if() as w:
            db["edge"].delete([("c", "b", 2)])
            db["edge"].insert([("c", "b", 3)])
            inside_block = {name: sorted(db[name].rows(), key=repr) for name in VIEWS}
            asked = {name: sorted(w.changes(name), key=repr) for name in VIEWS}
        answers = {name: sorted(question.changes(name), key=repr) for name in VIEWS}
        told.append((answers, question.changed, asked, inside_block))
    assert told[0] == told[1]
    assert files(far) == before and far.time == time


def test_trust_and_probability(pair: tuple[Any, Any]) -> None:
    far, near = pair
    for db in (far, near):
        assert not db["reach"].trust("c", without={"edge": [("b", "c", 1)]})
        assert db["fanout"].trust(("x", 1), without="root")
        assert float(db["reach"].probability(("d",), {"edge": 0.5})) == 0.125
        with pytest.raises(ev.PlanError) as caught:
            db["orphan"].probability(("x",), {"edge": 0.5})
        assert caught.value.code == "E_MONOTONE"


def test_provenance_columns(pair: tuple[Any, Any]) -> None:
    said: list[dict[str, Any]] = []
    for db in pair:
        edge, root = db["edge"], db["root"]
        body = root.iterate(
            lambda f, edge=edge, root=root: (
                f.join(edge, f.node == edge.src).select(node=edge.dst).union_all(root).distinct()
            )
        )
        views = {kind: db.view(f"kept_{kind}", body, provenance=kind) for kind in ("lazy", "bdd")}
        edge.insert([("a", "c", 5)])
        edge.delete([("a", "b", 3)])
        said.append({kind: {row: str(e) for row, e in v.provenances().items()} for kind, v in views.items()})
        said[-1]["rows"] = {kind: sorted(v.rows()) for kind, v in views.items()}
        assert views["bdd"].why(("d",)).leaves() == {
            ("root", ("a",)),
            ("edge", ("a", "c", 5)),
            ("edge", ("c", "d", 7)),
        }
        assert float(views["bdd"].probability(("d",), {"edge": 0.5})) == 0.25
        edge.insert([("a", "b", 3)])
        edge.delete([("a", "c", 5)])
    assert said[0] == said[1]


def test_memory_is_accounted_for(pair: tuple[Any, Any]) -> None:
    far, _ = pair
    said = far.memory()
    assert said and str(said)


def test_random_plans(spark: Any, tmp_path: Path) -> None:
    number = iter(range(1000))

    @given(plans.flat_plans, plans.steps)
    @effort(3)
    def run(spec: plans.Spec, steps: Any) -> None:
        explain_all(spec, steps, lambda: ev.connect(spark, state=str(tmp_path / str(next(number))), shards=2))

    run()


def test_frugal_views_say_the_same(pair: tuple[Any, Any]) -> None:
    far, _ = pair
    edge, root = far["edge"], far["root"]
    lean = far.view(
        "lean",
        root.iterate(lambda f: f.join(edge, f.node == edge.src).select(node=edge.dst).union_all(root).distinct()),
        plan="frugal",
    )
    assert sorted(lean.rows()) == sorted(far["reach"].rows())
    check_why(lean, ("d",), contents_of(far))
    far.table("loose", {"x": int})
    far.view("single", far["loose"].filter(col.x > 0))
    assert far.what_if(insert={"loose": [(1,)]}).changed == ("loose", "single")
