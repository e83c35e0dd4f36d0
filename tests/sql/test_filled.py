"""CREATE TABLE ... AS query: rows of now, of the query's types; all of it or nothing."""

from __future__ import annotations

import pytest

import everview as ev


@pytest.fixture
def db() -> ev.Session:
    made = ev.connect()
    made.sql("CREATE TABLE t (x int, s text); INSERT INTO t VALUES (1, NULL), (2, 'b'), (2, 'b')")
    return made


def test_it_has_the_querys_columns_and_rows_and_does_not_follow_it(db: ev.Session) -> None:
    db.sql("CREATE TABLE u AS SELECT x * 2 AS y, s FROM t")
    db.sql("INSERT INTO t VALUES (9, 'later')")
    assert sorted(db["u"].rows(), key=repr) == [(2, None), (4, "b"), (4, "b")]
    assert [repr(t) for t in db["u"].schema().values()] == ["int?", "str?"]
    db.sql("INSERT INTO u VALUES (7, 'more')")
    assert db.sql("SELECT count(*) FROM u").rows() == [(4,)]


def test_a_query_in_brackets_without_rows(db: ev.Session) -> None:
    db.sql("CREATE TABLE u AS (SELECT x FROM t WHERE x > 5)")
    assert db["u"].rows() == []


def test_a_query_that_fails_leaves_no_table(db: ev.Session) -> None:
    with pytest.raises(ev.EverviewError):
        db.sql("CREATE TABLE u AS SELECT 1 / (x - 1) AS y FROM t")
    assert "u" not in db.tables


def test_views_can_read_it_and_a_directory_keeps_it(tmp_path: object) -> None:
    with ev.connect(str(tmp_path)) as db:
        db.sql("CREATE TABLE t (x int); INSERT INTO t VALUES (1), (2); CREATE TABLE u AS SELECT x + 1 AS y FROM t")
        db.sql("CREATE VIEW v AS SELECT sum(y) AS s FROM u")
    with ev.connect(str(tmp_path)) as db:
        assert db["v"].rows() == [(5,)]
        assert sorted(db["u"].rows()) == [(2,), (3,)]


def test_alter_table_renames_a_view_too(db: ev.Session) -> None:
    db.sql("CREATE VIEW v AS SELECT s, count(*) AS n FROM t GROUP BY s; ALTER TABLE v RENAME TO w")
    assert db.views == ("w",)
    with pytest.raises(ev.PlanError, match="there is no table w"):
        db.sql("ALTER TABLE w ADD COLUMN y int")
