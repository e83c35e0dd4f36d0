"""Loops as people write them say what the graph library says, and are kept in a way that is as fast.

The spellings are those of `benchmarks/plain.py`, which measures them.
"""

from __future__ import annotations

import importlib
import random
import sys
from pathlib import Path
from typing import Any

import pytest

import everview as ev
from everview.language.relation import relation_of
from everview.plan.rewrites import simplified
from everview.session.local_shards import local_shards
from everview.session.names.plan_preparation import by_another_plan
from tests.inside import inside

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
spellings = importlib.import_module("spellings")

SAID = {"scc edges": "rewrite trimming: ", "scc": "loop: components"}
"""What `explain` says of a question's loops, if not that they are trees."""

ALL = [(question, name) for question, ways in spellings.PLAIN.items() for name in ways]


def tables(db: ev.Session, question: str) -> tuple[ev.Table, ev.Table]:
    weights = {"weight": int} if question == "sssp" else {}
    return db.table("edge", {"src": int, "dst": int, **weights}), db.table("root", {"node": int})


@pytest.mark.parametrize(("question", "name"), ALL)
def test_plain_spellings(question: str, name: str) -> None:
    dice = random.Random(f"{question} {name}")
    with ev.connect() as ours, ev.connect() as theirs:
        sides = []
        for db, make in ((ours, spellings.PLAIN[question][name]), (theirs, spellings.LIBRARY[question])):
            edge, root = tables(db, question)
            sides.append((db, edge, root, make(db)))
        assert SAID.get(question, "loop: trees") in sides[0][3].explain()
        held: list[tuple[int, ...]] = []
        for step in range(12):
            row = (dice.randrange(9), dice.randrange(9), *((dice.randrange(1, 9),) if question == "sssp" else ()))
            gone = held.pop(dice.randrange(len(held))) if len(held) > 12 else None
            held.append(row)
            for db, edge, root, _ in sides:
                with db.transaction():
                    edge.insert([row] if step else [row, *((row[0], 3, *row[2:]),)])
                    if gone is not None:
                        edge.delete([gone])
                    if step == 0:
                        root.insert([(0,)])
            assert sorted(sides[0][3].rows()) == sorted(sides[1][3].rows()), (question, name, step)


@pytest.mark.parametrize("name", [name for name in spellings.PLAIN["wcc"] if ("wcc", name) not in spellings.INSTEAD])
def test_trees_are_given_their_starts_as_often_as_they_come(name: str) -> None:
    """Nothing makes them distinct first: it would keep the nodes twice more, and the least is selected anyway."""
    with ev.connect() as db:
        tables(db, "wcc")
        spellings.PLAIN["wcc"][name](db)
        operators = [operator.describe() for operator in inside(db).runtime.dataflow.operators()]
        assert any(each.startswith("trees ") for each in operators)
        assert "reduce distinct" not in operators


@pytest.mark.parametrize(
    ("question", "name"), [each for each in ALL if "scc" not in each[0] and each not in spellings.INSTEAD]
)
def test_the_answer_is_kept_once(question: str, name: str) -> None:
    """A view that only names or orders the columns of a loop reads the loop's own rows."""
    with ev.connect() as db:
        edge, root = tables(db, question)
        before = set(inside(db).runtime.dataflow.operators())
        view = spellings.PLAIN[question][name](db)
        root.insert([(0,)])
        edge.insert([(i, i + 1, *((1,) if question == "sssp" else ())) for i in range(100)])
        made = [o.describe() for o in inside(db).runtime.dataflow.operators() if o not in before]
        assert len(view.rows()) == 101
        assert "arrange rows" not in made, made


SWAPPED = """
CREATE VIEW far AS WITH RECURSIVE p(node, cost) AS (
    SELECT node, min(cost) FROM (
        SELECT node, 0 AS cost FROM root UNION ALL SELECT e.dst, p.cost + 1 FROM p JOIN edge e ON e.src = p.node) AS s
    GROUP BY node)
SELECT cost AS hops, node AS at FROM p
"""


def test_columns_of_a_loop_in_another_order_outlive_the_session(tmp_path: Path) -> None:
    heard: list[object] = []
    with ev.connect(str(tmp_path)) as db:
        edge, root = tables(db, "wcc")
        db.sql(SWAPPED)
        view = db["far"]
        assert isinstance(view, ev.View)
        view.subscribe(lambda batch: heard.extend(batch.rows()))
        root.insert([(0,)])
        edge.insert([(0, 1), (1, 2), (0, 3), (3, 2), (2, 4)])
        edge.delete([(0, 1)])
        assert sorted(view.rows()) == [(0, 0), (1, 3), (2, 2), (3, 4)]
        assert ((1, 1), -1) in heard
        above = db.view("above", view.filter(ev.col.hops > 1))
        assert sorted(above.rows()) == [(2, 2), (3, 4)]
        assert view.lookup((2,)) == [(2, 2)]
    with ev.connect(str(tmp_path)) as db:
        assert sorted(db["far"].rows()) == [(0, 0), (1, 3), (2, 2), (3, 4)]
        db["edge"].insert([(0, 4)])
        assert sorted(db["far"].rows()) == [(0, 0), (1, 3), (1, 4), (2, 2)]
        assert sorted(db["above"].rows()) == [(2, 2)]
        assert db.check() == []


@pytest.mark.parametrize("name", ["collections, over a union", "SQL, two rules", "rules"])
def test_on_shards_labels_spread_small_ones_first(name: str) -> None:
    """There are no trees on shards."""
    with local_shards(2) as db, ev.connect() as alone:
        views = []
        for each in (db, alone):
            edge, _ = tables(each, "wcc")
            views.append(spellings.PLAIN["wcc"][name](each))
            edge.insert([(1, 2), (3, 2), (7, 8)])
            edge.delete([(3, 2)])
        assert "loop: small values first" in views[0].explain()
        assert sorted(views[0].rows()) == sorted(views[1].rows())


@pytest.mark.parametrize("name", ["collections", "SQL", "rules"])
def test_on_shards_sums_wait_in_a_queue(name: str) -> None:
    with local_shards(2) as db:
        edge, root = tables(db, "sssp")
        view = spellings.PLAIN["sssp"][name](db)
        root.insert([(0,)])
        edge.insert([(0, 1, 5), (0, 2, 1), (2, 1, 2), (1, 3, 1)])
        assert "loop: a queue" in view.explain()
        assert sorted(view.rows()) == [(0, 0), (1, 3), (2, 1), (3, 4)]
        edge.delete([(2, 1, 2)])
        assert sorted(view.rows()) == [(0, 0), (1, 5), (2, 1), (3, 6)]


STARTS = {
    "edges": "SELECT a, b FROM e",
    "nodes": "SELECT x, x FROM n",
    "both": "SELECT x, x FROM n UNION SELECT a, b FROM e",
    "ends": "SELECT a, a FROM e UNION SELECT b, b FROM e",
}


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("of", ["min(x.b)", "max(y.a)"])
@pytest.mark.parametrize("kind", ["int?", "int", "str?"])
def test_nodes_that_reach_each_other_are_components(start: str, of: str, kind: str) -> None:
    dice = random.Random(start + of)
    with ev.connect() as db:
        e, n = db.table("e", {"a": kind, "b": kind}), db.table("n", {"x": kind})
        db.sql(f"""/*+ plan(verbatim) */ CREATE VIEW pairs AS
            WITH RECURSIVE p(a, b) AS ({STARTS[start]} UNION SELECT p.a, e.b FROM p JOIN e ON p.b = e.a)
            SELECT x.a, {of} AS b FROM p AS x JOIN p AS y ON x.a = y.b AND x.b = y.a GROUP BY x.a""")
        pairs = db["pairs"]
        assert isinstance(pairs, ev.View)
        node, done = simplified(relation_of(relation_of(pairs).source).node, (), ("strong",))
        assert done
        strong = db.view("strong", by_another_plan(relation_of(pairs).source, node))
        loops = [line for line in strong.explain().splitlines() if line.startswith("loop")]
        assert len(loops) == 1 and "loop: components" in loops[0]
        held: list[tuple[Any, ...]] = []
        values: list[Any] = [-(2**63), -1, 0, 1, 2, 2**63 - 1] if kind != "str?" else list("abcdef")
        if kind != "int":
            values.append(None)
        for _ in range(40):
            with db.transaction():
                for _ in range(dice.randint(1, 4)):
                    if len(held) > 9 and dice.random() < 0.6:
                        row = held.pop(dice.randrange(len(held)))
                        (e if len(row) == 2 else n).delete([row])
                    else:
                        row = tuple(dice.choice(values) for _ in range(dice.choice((1, 2, 2, 2))))
                        held.append(row)
                        (e if len(row) == 2 else n).insert([row])
            assert sorted(strong.rows(), key=repr) == sorted(pairs.rows(), key=repr), held


def test_how_many_reach_each_other_is_not_a_component() -> None:
    with ev.connect() as db:
        db.table("e", {"a": int, "b": int})
        view = db.sql("""CREATE VIEW v AS
            WITH RECURSIVE p(a, b) AS (SELECT a, b FROM e UNION SELECT p.a, e.b FROM p JOIN e ON p.b = e.a)
            SELECT x.a, count(*) AS n FROM p AS x JOIN p AS y ON x.a = y.b AND x.b = y.a GROUP BY x.a""")
        assert "rewrite strong" not in view.explain()


BOTH_WAYS = "UNION ALL SELECT e.b, p.v FROM p JOIN e ON p.x = e.a UNION ALL SELECT e.a, p.v FROM p JOIN e ON p.x = e.b"

WITH_NULL = {
    "own names": f"""WITH RECURSIVE p(x, v) AS (SELECT x, min(v) AS v FROM (
        SELECT a AS x, a AS v FROM e UNION ALL SELECT b, b FROM e {BOTH_WAYS}) AS q GROUP BY x) SELECT x, v FROM p""",
    "the largest": f"""WITH RECURSIVE p(x, v) AS (SELECT x, max(v) AS v FROM (
        SELECT a AS x, a AS v FROM e UNION ALL SELECT x, x FROM n {BOTH_WAYS}) AS q GROUP BY x) SELECT v, x FROM p""",
    "the least afterwards": """WITH RECURSIVE p(v, x) AS (SELECT DISTINCT a, a FROM e
        UNION SELECT p.v, e.b FROM p JOIN e ON p.x = e.a) SELECT x, min(v) AS v FROM p GROUP BY x""",
    "for each of another column": """WITH RECURSIVE p(k, x, v) AS (SELECT k, x, min(v) AS v FROM (
        SELECT m.x AS k, e.a AS x, e.a AS v FROM e CROSS JOIN n AS m
        UNION ALL SELECT p.k, e.b, p.v FROM p JOIN e ON p.x = e.a) AS q GROUP BY k, x) SELECT k, x, v FROM p""",
}
"""Loops whose starts have NULL as a value only where it is the node, too."""


@pytest.mark.parametrize("query", WITH_NULL)
def test_names_that_may_be_null_spread_in_trees(query: str) -> None:
    dice = random.Random(query)
    with ev.connect() as db, ev.connect() as twin:
        for each, hint in ((db, ""), (twin, "/*+ plan(verbatim) */ ")):
            each.sql("CREATE TABLE e (a int, b int); CREATE TABLE n (x int)")
            each.sql(f"{hint}CREATE VIEW v AS {WITH_NULL[query]}")
        assert "loop: trees" in db["v"].explain() and "loop: trees" not in twin["v"].explain()
        held: list[tuple[Any, ...]] = []
        unnamed = 0
        for _ in range(60):
            come: list[tuple[Any, ...]] = []
            gone: list[tuple[Any, ...]] = []
            for _ in range(dice.randint(1, 3)):
                if len(held) > dice.choice((2, 9)):
                    gone.append(held.pop(dice.randrange(len(held))))
                else:
                    width = dice.choice((1, 2, 2, 2))
                    come.append(tuple(dice.choice((1, 2, 3, 4, 5, None, None)) for _ in range(width)))
            held += come
            for each in (db, twin):
                with each.transaction():
                    for row in gone:
                        each["e" if len(row) == 2 else "n"].delete([row])
                    for row in come:
                        each["e" if len(row) == 2 else "n"].insert([row])
            rows = sorted(db["v"].rows(), key=repr)
            assert rows == sorted(twin["v"].rows(), key=repr), held
            unnamed += any(None in row for row in rows)
        assert unnamed > 10


STEPS = (
    "p.x, e.b, p.c + e.w FROM p JOIN e ON p.y = e.a",
    "e.a, p.y, p.c + e.w FROM p JOIN e ON p.x = e.b",
    "p.x, q.y, p.c + q.c FROM p JOIN p AS q ON p.y = q.x",
)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("end", ["y IN (1, 2, 3)", "x IN (1, 2)", "x = 3", "y = 4 AND x < 3", "x = 1 OR y = 2"])
def test_the_lengths_of_some_paths(step: str, end: str) -> None:
    dice = random.Random(step + end)
    query = f"""WITH RECURSIVE p(x, y, c) AS (SELECT x, y, min(c) AS c FROM (
        SELECT a AS x, b AS y, w AS c FROM e UNION ALL SELECT {step}) AS s GROUP BY x, y) SELECT * FROM p WHERE {end}"""
    with ev.connect() as db, ev.connect() as twin:
        for each, hint in ((db, ""), (twin, "/*+ plan(verbatim) */ ")):
            each.sql("CREATE TABLE e (a int, b int, w int NOT NULL)")
            each.sql(f"{hint}CREATE VIEW v AS {query}")
        assert "loop: trees" in db["v"].explain()
        held: list[tuple[Any, ...]] = []
        for _ in range(30):
            gone = [held.pop(dice.randrange(len(held))) for _ in range(dice.randint(0, 2)) if len(held) > 8]
            come = [(*(dice.choice((1, 2, 3, 4, 5, 6, None)) for _ in "ab"), dice.randint(0, 4)) for _ in range(2)]
            held += come
            for each in (db, twin):
                with each.transaction():
                    each["e"].insert(come)
                    each["e"].delete(gone)
            assert sorted(db["v"].rows(), key=repr) == sorted(twin["v"].rows(), key=repr), held


def test_null_that_may_spread_is_left_to_rounds() -> None:
    with ev.connect() as db:
        edge, start = db.table("e", {"a": int, "b": int}), db.table("s", {"x": int, "v": "int?"})
        view = db.sql("""CREATE VIEW v AS WITH RECURSIVE p(x, v) AS (SELECT x, min(v) AS v FROM (
            SELECT x, v FROM s UNION ALL SELECT e.b, p.v FROM p JOIN e ON p.x = e.a) AS q GROUP BY x)
            SELECT x, v FROM p""")
        assert "what it starts with may be NULL (declare it NOT NULL, or filter it)" in view.explain()
        edge.insert([(1, 2), (2, 3)])
        start.insert([(1, None)])
        assert sorted(view.rows()) == [(1, None), (2, None), (3, None)]
