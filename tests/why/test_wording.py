"""What is said of steps: in names that people gave, or by what computes a column, never by numbers of ours."""

from __future__ import annotations

import re
from typing import Any

import pytest

import everview as ev

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
