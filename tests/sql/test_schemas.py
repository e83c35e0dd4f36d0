"""CREATE SCHEMA and names with schemas; subqueries that have one row because a key is given."""

from __future__ import annotations

from pathlib import Path

import pytest

import everview as ev


def test_tables_and_views_in_schemas_outlive_the_session(tmp_path: Path) -> None:
    with ev.connect(tmp_path / "db") as db:
        db.sql("CREATE SCHEMA shop; CREATE TABLE shop.t (a int PRIMARY KEY, b text); CREATE TABLE public.t (a int)")
        db.sql("CREATE VIEW shop.v AS SELECT t.a, upper(b) AS b FROM shop.t; CREATE SCHEMA IF NOT EXISTS shop")
        db.sql("INSERT INTO Shop.T VALUES (1, 'x'), (2, 'y'); UPDATE shop.t SET b = 'z' WHERE a = 2")
        db.sql("INSERT INTO t VALUES (7); DELETE FROM shop.t WHERE a = 1")
    with ev.connect(tmp_path / "db") as db:
        assert db.sql("SELECT * FROM shop.v").rows() == [(2, "Z")] == db["shop.v"].rows()
        assert db.sql("SELECT a FROM public.t").rows() == [(7,)] == db.sql("SELECT a FROM t").rows()
        assert db.sql("SELECT x.a, t.b FROM t AS x, shop.t").rows() == [(7, "z")]
        assert [r[0] for r in db.sql("DESCRIBE shop.t").rows()] == ["a", "b"]
        with pytest.raises(ev.PlanError, match=r"the schema shop holds shop\.t, shop\.v"):
            db.sql("DROP SCHEMA shop")
        db.sql("DROP SCHEMA shop CASCADE; DROP SCHEMA IF EXISTS shop")
        assert list(db.tables) == ["t"] and list(db.views) == []
        with pytest.raises(ev.PlanError, match="there is no schema shop"):
            db.sql("CREATE TABLE shop.t (a int)")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("SELECT * FROM nope.t", "there is no table or view nope.t"),
        ("CREATE TABLE nope.t (a int)", "there is no schema nope"),
        ("DROP SCHEMA nope", "there is no schema nope"),
        ("CREATE SCHEMA public", "there is a schema public"),
        ("INSERT INTO nope.t VALUES (1)", "there is no table nope.t"),
        ("WITH t AS (SELECT 2 AS a) SELECT * FROM s.t", "there is no table or view s.t"),
        ("SELECT * FROM a.b.t", "a is not supported here"),
    ],
)
def test_a_schema_that_is_not_there(text: str, says: str) -> None:
    db = ev.connect()
    db.sql("CREATE TABLE t (a int)")
    with pytest.raises(ev.PlanError, match=says):
        db.sql(text)


def test_a_key_gives_one_row() -> None:
    db = ev.connect()
    db.sql("CREATE TABLE c (id int, part int, name text, PRIMARY KEY (id, part)); CREATE TABLE o (id int, c int)")
    view = db.sql("CREATE VIEW v AS SELECT o.id, (SELECT name FROM c WHERE c.id = o.c AND c.part = 1) AS name FROM o")
    db.sql("INSERT INTO o VALUES (1, 5), (2, 6), (3, NULL); INSERT INTO c VALUES (5, 1, 'a'), (5, 2, 'b')")
    assert sorted(view.rows()) == [(1, "a"), (2, None), (3, None)]
    db.sql("UPDATE c SET name = 'z' WHERE part = 1; INSERT INTO c VALUES (6, 1, 'y')")
    assert sorted(view.rows()) == [(1, "z"), (2, "y"), (3, None)]
    for text in ("c.id = o.c", "c.id = o.c OR c.part = 1", "c.id > 1 AND c.part = 1"):  # no key: there are several
        with pytest.raises(ev.RowErrors, match="more than one row"):
            db.sql(f"SELECT (SELECT name FROM c WHERE {text}) FROM o")
    none = db.sql("SELECT (SELECT name FROM c WHERE c.id = c.part AND c.part = 1) FROM o")  # no key, and no row
    assert none.rows() == [(None,)] * 3
