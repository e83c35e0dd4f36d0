"""What is said of steps: in names that people gave, or by what computes a column, never by numbers of ours."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import everview as ev
from everview.datalog import strata
from everview.plan.nodes import Node
from everview.plan.rewrites import rewritten_plan

VIEWS = [
    ("SELECT t.b, sum(c) AS total, count(*) AS n FROM t JOIN u ON t.b = u.b GROUP BY t.b HAVING count(*) > 1", ("y",)),
    ("SELECT a, b, rank() OVER (PARTITION BY b ORDER BY a DESC) AS place FROM t", (9, "x", 1)),
    ("SELECT x.a + y.a AS total FROM t x JOIN t y ON x.b = y.b WHERE x.a + y.a > 3 ORDER BY 1 LIMIT 3", (77,)),
    ("SELECT b, (SELECT max(c) FROM u WHERE u.b = t.b) AS most FROM t", ("x", 99)),
    ("SELECT DISTINCT m FROM (SELECT b, avg(a) AS m, min(a) AS low FROM t GROUP BY b) q WHERE low < 3", (9.0,)),
    ("SELECT count(DISTINCT b) AS n, max(a + 1) AS top FROM t", (0, 0)),
    ("SELECT b, a * 2 AS twice FROM t EXCEPT SELECT b, c FROM u", ("z", 1)),
    (
        "WITH RECURSIVE r(n, depth) AS (SELECT a, 0 FROM t UNION SELECT n + 1, depth + 1 FROM r WHERE depth < 3) "
        "SELECT n, max(depth) AS deep FROM r GROUP BY n",
        (50, 0),
    ),
]

NUMBERED = re.compile(r"\b[crC]\d+\b|\b\d+\.\d+ \(")
"""What `explain` makes up: c0, r3, variables as `1.0 (...)`."""


@pytest.mark.parametrize(("query", "absent"), VIEWS)
def test_steps_are_told_in_names(query: str, absent: tuple[Any, ...]) -> None:
    with ev.connect() as db:
        db.table("t", {"a": int, "b": str}).insert([(1, "x"), (2, "y"), (3, "x")])
        db.table("u", {"b": str, "c": int}).insert([("x", 10), ("y", 20)])
        db.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
        view: Any = db["v"]
        for row in view.rows():
            found = view.why(row)
            assert not NUMBERED.search(str(found)), str(found)
        absent += (None,) * (len(view.schema()) - len(absent))
        told = str(view.why_not(absent))
        assert not NUMBERED.search(told), told


def test_a_column_is_called_what_the_query_calls_it() -> None:
    with ev.connect() as db:
        db.table("t", {"a": int, "b": str}).insert([(1, "x"), (3, "x")])
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT b, sum(a) AS total FROM t GROUP BY b HAVING count(*) > 1")
        assert str(db["v"].why(("x", 4))).splitlines()[0] == "v('x', 4)  Reduce by b: total = sum(a), count()"


def test_rules_are_told_after_the_directory_was_opened_again(tmp_path: Path) -> None:
    """The program is not there any more, its views are: the texts of the rules are kept with them."""
    rules = "reach(X, Y) :- edge(X, Y).\nreach(X, Z) :- reach(X, Y), edge(Y, Z).\nfar(Z) :- reach(1, Z), Z > 2."
    with ev.connect(tmp_path) as db:
        edge = db.table("edge", {"src": int, "dst": int})
        program = db.register(rules)
        program.interest("reach")
        program.interest("far")
        edge.insert([(1, 2), (2, 3)])
        before = [str(db["reach"].why((1, 3))), str(db["far"].why((3,)))]
        assert "reach(X, Z) :- reach(X, Y), edge(Y, Z)." in before[0] and "far(Z)" in before[1], before
    for _ in range(2):  # from the log, then from a checkpoint
        with ev.connect(tmp_path) as db:
            assert [str(db["reach"].why((1, 3))), str(db["far"].why((3,)))] == before
            db.checkpoint()


def test_rules_are_worded_only_when_somebody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def counted(node: Node, *given: Any) -> Node:
        asked.append(node)
        return rewritten_plan(node, *given)

    monkeypatch.setattr(strata, "rewritten_plan", counted)
    db = ev.connect()
    edge = db.table("edge", {"src": int, "dst": int})
    rules = db.datalog("two(X, Z) :- edge(X, Y), edge(Y, Z).")
    edge.insert([(1, 2), (2, 3)])
    db.view("more", rules.two.filter(rules.two.x == 1))
    assert rules.two.rows() == [(1, 3)] and not asked
    assert "two(X, Z) :- edge(X, Y), edge(Y, Z)." in str(rules.two.why((1, 3))) and asked
