"""Rows whose values equal nothing, or everything: NULL as a key, NaN; and rows that more rows would take away."""

from __future__ import annotations

from math import nan
from typing import Any

import pytest

import everview as ev
from everview.session.local_shards import local_shards


@pytest.fixture(params=[ev.connect, lambda: local_shards(2)], ids=["embedded", "shards"])
def db(request: pytest.FixtureRequest) -> Any:
    with request.param() as session:
        yield session


def _staff(db: ev.Session) -> None:
    db.sql("CREATE TABLE emp (id int, name varchar, dept varchar, pay int)")
    db.sql("CREATE TABLE dept (name varchar, city varchar)")
    db.sql("INSERT INTO emp VALUES (1, 'ann', 'a', 3), (2, 'bob', 'b', 4), (3, 'cy', NULL, 5), (4, 'di', '', 6)")
    db.sql("INSERT INTO dept VALUES ('a', 'x'), ('b', 'y'), ('c', 'z'), (NULL, 'n'), ('', 'e')")


LATERAL = """
    CREATE VIEW best AS SELECT d.name, t.name AS top
    FROM dept d, LATERAL (SELECT name FROM emp e WHERE e.dept = d.name ORDER BY pay DESC LIMIT 1) t
"""


def test_a_subquery_is_asked_about_for_its_own_key(db: ev.Session) -> None:
    """Keys that may be NULL are compared as two columns: an employee of another department would be no way to it."""
    _staff(db)
    db.sql(LATERAL)
    view: Any = db["best"]
    told = view.why_not(("b", "eve"))
    assert [way.missing for way in told.ways] == [(("emp", (None, "eve", "b", None)),)]
    assert "emp(_, 'eve', 'b', _)" in str(told)
    with db.what_if(insert={"emp": [(9, "eve", "b", 9)]}):
        assert ("b", "eve") in view.rows()


@pytest.mark.parametrize("key", [None, "", "a"])
def test_keys_that_are_null_or_what_stands_for_it(db: ev.Session, key: str | None) -> None:
    """'' is what NULL is compared as, beside a column that says which of them it is."""
    _staff(db)
    db.sql("CREATE VIEW pairs AS SELECT e.id, d.city FROM emp e JOIN dept d ON e.dept IS NOT DISTINCT FROM d.name")
    view: Any = db["pairs"]
    found = {row: view.why(row).leaves() for row in view.rows()}
    names = {"n": None, "e": "", "x": "a"}
    for (_, city), leaves in found.items():
        if names.get(city, city) == key:
            assert {row[0] for table, row in leaves if table == "dept"} == {key}
            assert {row[2] for table, row in leaves if table == "emp"} == {key}
    assert len(found) == 4


def test_what_except_takes_away_is_no_way(db: ev.Session) -> None:
    db.sql("CREATE TABLE edge (src int, dst int)")
    db.sql("INSERT INTO edge VALUES (1, 2), (2, 3), (5, 6)")
    db.sql("CREATE VIEW ends AS SELECT dst FROM edge EXCEPT SELECT src FROM edge")
    view: Any = db["ends"]
    assert "stands in the way" in str(view.why_not((5,)))
    told = view.why_not((7,))
    assert told.missing() == [("edge", (None, 7))] and not told.ways[0].failed


def test_nan_is_a_row_like_any_other(db: ev.Session) -> None:
    """A NaN equals no other, so rows with one must not be told apart by their values."""
    t = db.table("t", {"x": int, "f": float})
    view = db.view("v", t.select("x").distinct())
    kept = db.view("kept", t.select("x").distinct(), provenance="bdd")
    t.insert([(1, nan), (2, 1.0), (2, nan)])
    gone = [(1, float("nan"))]
    assert not view.trust((1,), without={"t": gone})
    assert view.trust((2,), without={"t": [(2, float("nan"))]})
    assert view.why((1,)).leaves() == {("t", (1, nan))}
    expression = kept.provenance((1,))
    assert expression.without({"t": gone}).is_false
    assert expression.holds([("t", gone[0])])
    assert expression.probability({"t": {gone[0]: 0.5}}) == 0.5
    assert float(view.probability((1,), {"t": {gone[0]: 0.5}})) == 0.5


def test_a_recursion_is_called_by_the_view_that_it_is_in(db: ev.Session) -> None:
    db.sql("CREATE TABLE person (id int, boss int)")
    db.sql("INSERT INTO person VALUES (1, NULL), (2, 1), (3, 2)")
    db.sql(
        "CREATE VIEW chain AS WITH RECURSIVE c(id, top) AS (SELECT id, id FROM person WHERE boss IS NULL "
        "UNION SELECT p.id, c.top FROM person p JOIN c ON p.boss = c.id) SELECT * FROM c"
    )
    db.sql("CREATE VIEW sizes AS SELECT top, count(*) AS n FROM chain GROUP BY top")
    view: Any = db["sizes"]
    told = str(view.why((1, 3)))
    assert "chain's recursion(2, 1)" in told and "sizes's recursion" not in told
    assert "chain's recursion(2, 1)" in str(db.sql("EXPLAIN WHY SELECT * FROM chain WHERE id = 2"))
