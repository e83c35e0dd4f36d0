"""A subquery that fails is an error only while a row needs it, in views too."""

from __future__ import annotations

import pytest

import everview as ev
from everview.session.local_shards import local_shards


@pytest.fixture(params=[0, 2], ids=["embedded", "shards"])
def db(request: pytest.FixtureRequest) -> ev.Session:
    session = local_shards(shards=request.param) if request.param else ev.connect()
    session.sql("CREATE TABLE t (a int, b int); CREATE TABLE u (d int)")
    session.sql("INSERT INTO u VALUES (0), (4); INSERT INTO t VALUES (1, 7), (NULL, 8)")
    return session


QUERIES = {
    "where": "SELECT b FROM t WHERE a > 5 AND b <> (SELECT 1 / 0)",
    "from": "SELECT b FROM t WHERE a > 5 AND b <> (SELECT max(12 / d) FROM u)",
    "where inside": "SELECT b FROM t WHERE a > 5 AND b > (SELECT count(*) FROM u WHERE 12 / d > 1)",
    "derived inside": "SELECT b FROM t WHERE a > 5 AND b > (SELECT max(x) FROM (SELECT 12 / d AS x FROM u) q)",
    "case": "SELECT CASE WHEN a > 5 THEN (SELECT max(12 / d) FROM u) ELSE b END FROM t",
    "if not": "SELECT CASE WHEN a <= 5 OR a IS NULL THEN b ELSE (SELECT max(12 / d) FROM u) END FROM t",
    "coalesce": "SELECT coalesce(CASE WHEN a > 5 THEN NULL ELSE b END, (SELECT max(12 / d) FROM u)) FROM t",
    "or": "SELECT b FROM t WHERE coalesce(a, 0) <= 5 OR b IN (SELECT 36 / d FROM u)",
    "in": "SELECT b FROM t WHERE a > 5 AND b NOT IN (SELECT 12 / d FROM u)",
    "exists": "SELECT b FROM t WHERE a > 5 AND EXISTS (SELECT 1 FROM u WHERE 12 / d > 1)",
    "any": "SELECT b FROM t WHERE a > 5 AND b > ANY (SELECT 12 / d FROM u)",
    "correlated in a branch": "SELECT CASE WHEN a > 5 THEN (SELECT max(b / d) FROM u) ELSE b END FROM t",
}


@pytest.mark.parametrize("text", QUERIES.values(), ids=QUERIES)
def test_only_rows_that_need_it_fail(db: ev.Session, text: str) -> None:
    view = db.sql(f"CREATE VIEW q AS {text}")
    expected = sorted(view.rows())
    db.sql("INSERT INTO t VALUES (6, 9)")
    for ask in (view.rows, lambda: db.sql(text).rows()):
        with pytest.raises(ev.EverviewError, match="division by zero"):
            ask()
    db.sql("DELETE FROM t WHERE a = 6")
    assert sorted(view.rows()) == expected == sorted(db.sql(text).rows())
    if "SELECT 1 / 0" not in text:
        db.sql("DELETE FROM u WHERE d = 0; INSERT INTO t VALUES (6, 9)")
        assert sorted(view.rows()) == sorted(db.sql(text).rows())
        assert len(view.rows()) == len(expected) + 1


def test_what_is_needed_is_computed_for_all(db: ev.Session) -> None:
    db.sql("DELETE FROM u WHERE d = 0")
    view = db.sql("CREATE VIEW q AS SELECT b, CASE WHEN a > 5 THEN (SELECT max(12 / d) FROM u) END AS x FROM t")
    db.sql("INSERT INTO t VALUES (6, 9), (7, 10)")
    assert sorted(view.rows()) == [(7, None), (8, None), (9, 3.0), (10, 3.0)]
    db.sql("INSERT INTO u VALUES (2)")
    assert sorted(view.rows()) == [(7, None), (8, None), (9, 6.0), (10, 6.0)]
