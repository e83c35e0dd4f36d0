"""What db.sql does besides queries: tables, views, changes, transactions, answers."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest

import everview as ev


@pytest.fixture
def db() -> ev.Session:
    session = ev.connect()
    session.sql(
        """
        CREATE TABLE item (id int PRIMARY KEY, name text NOT NULL, price decimal(8, 2), day date);
        CREATE TABLE log (id int, what text);
        INSERT INTO item VALUES (1, 'pear', 1.5, '2026-01-31'), (2, 'fig', NULL, NULL);
        """
    )
    return session


def test_create_table_gives_types_and_key(db: ev.Session) -> None:
    assert repr(db["item"]) == "Collection(id int, name str, price decimal(8, 2)?, day date?)"
    assert sorted(db["item"].rows()) == [(1, "pear", Decimal("1.50"), dt.date(2026, 1, 31)), (2, "fig", None, None)]


def test_create_view_gives_the_view(db: ev.Session) -> None:
    view = db.sql("CREATE MATERIALIZED VIEW cheap AS SELECT name FROM item WHERE price < 2")
    assert isinstance(view, ev.View)
    assert db["cheap"] is view
    assert view.rows() == [("pear",)]
    db.sql("UPDATE item SET price = 0.5 WHERE name = 'fig'")
    assert sorted(view.rows()) == [("fig",), ("pear",)]
    assert view.changes(since=db.time - 1) == [(("fig",), db.time, 1)]


def test_views_over_views_and_python_collections(db: ev.Session) -> None:
    db.sql("CREATE VIEW named AS SELECT id, name FROM item")
    top = db.sql("CREATE VIEW top (who) AS SELECT name FROM named WHERE id = (SELECT max(id) FROM named)")
    python = db.view("python", top.select(who=top.who.upper()))
    db.sql("INSERT INTO item (name, id) VALUES ('kiwi', 3)")
    assert (top.rows(), python.rows()) == ([("kiwi",)], [("KIWI",)])


def test_or_replace_and_if_not_exists(db: ev.Session) -> None:
    db.sql("CREATE VIEW w AS SELECT id FROM item")
    assert db.sql("CREATE OR REPLACE VIEW w AS SELECT name FROM item").rows() != []
    assert db["w"].schema().keys() == {"name"}
    db.sql("CREATE TABLE IF NOT EXISTS item (other int)")
    assert "id" in db["item"].schema()


def test_drop(db: ev.Session) -> None:
    db.sql("CREATE VIEW w AS SELECT id FROM item")
    with pytest.raises(ev.PlanError, match="E_IN_USE"):
        db.sql("DROP TABLE item")
    db.sql("DROP TABLE item CASCADE; DROP VIEW IF EXISTS w; DROP TABLE IF EXISTS nothing")
    assert (db.tables, db.views) == (("log",), ())


def test_insert_select_update_delete_truncate(db: ev.Session) -> None:
    db.sql("INSERT INTO log SELECT id, name FROM item; INSERT INTO log SELECT id, upper(what) FROM log")
    assert sorted(db["log"].rows()) == [(1, "PEAR"), (1, "pear"), (2, "FIG"), (2, "fig")]
    db.sql("UPDATE log SET id = id * 10, what = what || '!' WHERE id IN (SELECT id FROM item WHERE price IS NULL)")
    assert sorted(db["log"].rows()) == [(1, "PEAR"), (1, "pear"), (20, "FIG!"), (20, "fig!")]
    db.sql("DELETE FROM log WHERE id = 1")
    assert len(db["log"].rows()) == 2
    db.sql("TRUNCATE TABLE log")
    assert db["log"].rows() == []


def test_duplicates_are_changed_together(db: ev.Session) -> None:
    db.sql("INSERT INTO log VALUES (1, 'a'), (1, 'a'), (NULL, NULL); UPDATE log SET id = 2 WHERE what = 'a'")
    assert db.sql("SELECT id, what FROM log ORDER BY id NULLS LAST").rows() == [(2, "a"), (2, "a"), (None, None)]
    db.sql("DELETE FROM log WHERE id IS NULL OR id = 2")
    assert db["log"].rows() == []


def test_keys(db: ev.Session) -> None:
    with pytest.raises(ev.InputError, match="E_KEY") as caught:
        db.sql("INSERT INTO item VALUES (3, 'ok', 1, NULL), (1, 'again', 1, NULL)")
    assert "key 1" in caught.value.message
    assert len(db["item"].rows()) == 2
    db.sql("INSERT INTO item VALUES (1, 'again', 1, NULL), (3, 'new', 1, NULL) ON CONFLICT DO NOTHING")
    assert sorted(r[:2] for r in db["item"].rows()) == [(1, "pear"), (2, "fig"), (3, "new")]
    db.sql("UPDATE item SET id = id + 1")
    assert sorted(r[:2] for r in db["item"].rows()) == [(2, "pear"), (3, "fig"), (4, "new")]
    with pytest.raises(ev.InputError, match="E_KEY"):
        db.sql("UPDATE item SET id = 7")
    assert sorted(r[0] for r in db["item"].rows()) == [2, 3, 4]


def test_one_statement_is_one_time(db: ev.Session) -> None:
    before = db.time
    db.sql("SELECT count(*) FROM item; SELECT 1; EXPLAIN SELECT 1; CREATE VIEW w AS SELECT count(*) AS n FROM log")
    assert db.time == before
    db.sql("UPDATE item SET name = 'x' WHERE id = 1")
    assert db.time == before + 1


def test_transactions(db: ev.Session) -> None:
    before = db.time
    db.sql("BEGIN; INSERT INTO log VALUES (1, 'a'); INSERT INTO log VALUES (2, 'b'); COMMIT")
    assert (db.time, len(db["log"].rows())) == (before + 1, 2)
    db.sql("BEGIN; INSERT INTO log VALUES (3, 'c'); DELETE FROM item WHERE id = 1; ROLLBACK")
    assert (db.time, len(db["log"].rows()), len(db["item"].rows())) == (before + 1, 2, 2)


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_a_chained_transaction_is_followed_by_another(end: str) -> None:
    """The parser drops AND CHAIN of a ROLLBACK, so what followed was committed at once."""
    db = ev.connect()
    db.sql(f"CREATE TABLE t (a int); BEGIN; INSERT INTO t VALUES (1); {end} AND CHAIN; INSERT INTO t VALUES (2)")
    db.sql("ROLLBACK")
    assert db["t"].rows() == ([(1,)] if end == "COMMIT" else [])
    db.sql(f"BEGIN; {end} AND NO CHAIN")
    with pytest.raises(ev.EverviewError, match=r"line 2, column 3: no transaction is open"):
        db.sql("SELECT 1;\n  ROLLBACK")


def test_insert_or(db: ev.Session) -> None:
    """SQLite's words for what to do about an existing key."""
    db.sql("CREATE TABLE o (id int PRIMARY KEY, n int UNIQUE); INSERT INTO o VALUES (1, 1)")
    db.sql("INSERT OR IGNORE INTO o VALUES (1, 7), (2, 1), (3, 3)")
    assert sorted(db["o"].rows()) == [(1, 1), (3, 3)]
    db.sql("INSERT OR REPLACE INTO o VALUES (1, 8)")
    with pytest.raises(ev.EverviewError, match="key 3"):
        db.sql("INSERT OR ABORT INTO o VALUES (4, 4), (3, 9)")
    assert sorted(db["o"].rows()) == [(1, 8), (3, 3)]


def test_tables_are_not_made_inside_a_transaction(db: ev.Session) -> None:
    db.sql("BEGIN; INSERT INTO log VALUES (1, 'a')")
    with pytest.raises(ev.PlanError, match="E_TRANSACTION"):
        db.sql("CREATE TABLE x (a int)")
    db.sql("ROLLBACK")


def test_a_failed_statement_dooms_its_transaction(db: ev.Session) -> None:
    db.sql("BEGIN; INSERT INTO log VALUES (1, 'a')")
    with pytest.raises(ev.InputError, match="E_KEY"):
        db.sql("UPDATE item SET id = 7")
    for text in ("SELECT 1", "INSERT INTO log VALUES (2, 'b')", "SHOW TABLES", "EXPLAIN SELECT 1"):
        with pytest.raises(ev.PlanError, match="has failed before this"):
            db.sql(text)
    with pytest.raises(ev.PlanError, match="all of it is undone"):
        db.sql("COMMIT")
    assert sorted(r[0] for r in db["item"].rows()) == [1, 2]
    assert db["log"].rows() == []
    db.sql("BEGIN; INSERT INTO log VALUES (1, 'a')")
    with pytest.raises(ev.PlanError, match="E_SYNTAX"):
        db.sql("SELECT FROM WHERE")
    db.sql("ROLLBACK; INSERT INTO log VALUES (3, 'c')")
    assert db["log"].rows() == [(3, "c")]


def test_a_text_that_fails_leaves_no_transaction_that_it_has_begun(db: ev.Session) -> None:
    for bad in (
        "nonsense",
        "INSERT INTO log VALUES (1, 'a', 2)",
        "SELECT (",
        "BEGIN",
        "INSERT INTO item VALUES (1, 'x', 1)",
    ):
        with pytest.raises(ev.EverviewError):
            db.sql(f"BEGIN; INSERT INTO log VALUES (1, 'a'); {bad}; COMMIT")
        with pytest.raises(ev.PlanError, match="no transaction is open"):
            db.sql("ROLLBACK")
    assert db["log"].rows() == []
    db.sql("BEGIN")
    with pytest.raises(ev.EverviewError):
        db.sql("COMMIT; BEGIN; INSERT INTO log VALUES (1, 'a'); nonsense")
    db.sql("BEGIN; COMMIT")


def test_several_names_are_dropped_or_emptied_together_or_not_at_all(db: ev.Session) -> None:
    db.sql("INSERT INTO log VALUES (1, 'a')")
    db.sql("CREATE VIEW a AS SELECT * FROM log; CREATE VIEW b AS SELECT * FROM item")
    for text in ("TRUNCATE log, nope", "DROP VIEW a, nope", "DROP VIEW a, log", "TRUNCATE log, a"):
        with pytest.raises(ev.PlanError, match="E_TABLE"):
            db.sql(text)
    assert db["log"].rows() == db["a"].rows() == [(1, "a")]
    with pytest.raises(ev.EverviewError):
        db.sql("DROP TABLE log, item")
    assert db.tables == ("item", "log")
    before = db.time
    db.sql("TRUNCATE log, item")
    assert (db["log"].rows(), db["item"].rows(), db.time) == ([], [], before + 1)
    db.sql("DROP VIEW a, b, a")
    assert db.views == ()


def test_answers(db: ev.Session) -> None:
    answer = db.sql("SELECT name, price AS p, id FROM item ORDER BY price DESC NULLS LAST")
    assert answer.columns == ["name", "p", "id"]
    assert answer.rows() == list(answer) == [("pear", Decimal("1.50"), 1), ("fig", None, 2)]
    assert answer.to_arrow().column("name").to_pylist() == ["pear", "fig"]
    assert list(answer.to_pandas()["id"]) == [1, 2]
    assert str(answer) == "name     p  id\n----  ----  --\npear  1.50   1\nfig   NULL   2"
    assert db.views == ()


def test_answers_are_sorted_by_what_is_not_selected(db: ev.Session) -> None:
    db.sql("INSERT INTO log VALUES (2, 'x'), (NULL, 'n'), (1, 'y'), (3, 'w')")
    assert db.sql("SELECT what FROM log ORDER BY id DESC").rows() == [("n",), ("w",), ("x",), ("y",)]
    assert db.sql("SELECT what FROM log ORDER BY id LIMIT 2 OFFSET 1").rows() == [("x",), ("w",)]
    assert db.sql("SELECT what FROM log UNION ALL SELECT 'a' ORDER BY what DESC LIMIT 2").rows() == [("y",), ("x",)]


def test_show_and_explain(db: ev.Session) -> None:
    db.sql("CREATE VIEW w AS SELECT id FROM item WHERE id > 1; SELECT count(*) FROM item")
    assert db.sql("SHOW TABLES").rows() == [("item",), ("log",)]
    assert db.sql("show views").rows() == [("w",)]
    plan = "\n".join(row[0] for row in db.sql("EXPLAIN SELECT name FROM item WHERE id > 1").rows())
    assert plan.startswith("r0 := Table item (id int, name str, price decimal(8, 2)?, day date?)\nr1 := Filter[r0]")
    assert "arrangements:" in "\n".join(row[0] for row in db.sql("EXPLAIN w").rows())


def test_case_of_letters_does_not_count(db: ev.Session) -> None:
    db.sql("INSERT INTO LOG (WHAT, Id) VALUES ('x', 1); UPDATE Log SET What = 'y' WHERE ID = 1")
    db.sql('CREATE VIEW "W" AS SELECT ID FROM LOG')
    assert db["log"].rows() == [(1, "y")]
    assert db.sql("SELECT * FROM w").rows() == [(1,)]
    db.sql("DELETE FROM LOG; DROP VIEW w; DROP TABLE LOG")
    assert (db.tables, db.views) == (("item",), ())


def test_row_errors_heal(db: ev.Session) -> None:
    view = db.sql("CREATE VIEW w AS SELECT 10 / id AS q FROM log")
    db.sql("INSERT INTO log VALUES (0, 'zero'), (5, 'five')")
    with pytest.raises(ev.RowErrors, match="division by zero"):
        view.rows()
    with pytest.raises(ev.RowErrors, match="the query holds rows"):
        db.sql("SELECT 10 / id FROM log")
    db.sql("DELETE FROM log WHERE id = 0")
    assert view.rows() == [(2.0,)]


def test_nothing_is_left_of_a_refused_statement(db: ev.Session) -> None:
    for text in (
        "CREATE VIEW w AS SELECT nope FROM item",
        "SELECT kurtosis(id) FROM item",
        "INSERT INTO log SELECT 1, 'a', 2",
    ):
        with pytest.raises(ev.PlanError):
            db.sql(text)
    assert (db.views, len(db["log"].rows())) == ((), 0)


def test_aggregates_of_nothing_at_every_time() -> None:
    db = ev.connect()
    db.sql("CREATE TABLE t (x int)")
    view = db.sql("CREATE VIEW w AS SELECT count(*) AS n, sum(x) AS s FROM t")
    assert (view.rows(), db.time) == ([(0, None)], 0)
    with db.batch():
        db.sql("INSERT INTO t VALUES (1)")
        db.sql("INSERT INTO t VALUES (2)")
        db.sql("TRUNCATE t")
    assert [view.as_of(t).rows() for t in range(4)] == [[(0, None)], [(1, 1)], [(2, 3)], [(0, None)]]


def test_a_view_that_cannot_be_built_does_not_replace_another(db: ev.Session) -> None:
    db.sql("CREATE VIEW names AS SELECT name FROM item")
    endless = "WITH RECURSIVE (ERROR AT RECURSION LIMIT 9) r(n) AS (SELECT id FROM item UNION ALL SELECT n + 1 FROM r)"
    with pytest.raises(ev.LoopError):
        db.sql(f"CREATE OR REPLACE VIEW names AS {endless} SELECT n FROM r")
    db.sql("DELETE FROM item WHERE id = 1")
    assert db["names"].rows() == [("fig",)]


def test_describe(db: ev.Session) -> None:
    expected = [
        ("id", "int", "no", "yes"),
        ("name", "text", "no", "no"),
        ("price", "decimal(8, 2)", "yes", "no"),
        ("day", "date", "yes", "no"),
    ]
    assert db.sql("DESCRIBE item").rows() == db.sql("SHOW COLUMNS FROM Item").rows() == expected
    assert db.sql("DESCRIBE item").columns == ["column", "type", "null", "key"]
    assert db.sql("DESCRIBE SELECT id / 2.0 AS h, name FROM item").rows() == [
        ("h", "numeric", "no", "no"),
        ("name", "text", "no", "no"),
    ]
    for text in ("DESCRIBE nope", "SHOW COLUMNS FROM nope", "DESCRIBE SELECT nope FROM item"):
        with pytest.raises(ev.PlanError):
            db.sql(text)


def test_brackets_around_a_query_keep_its_order() -> None:
    db = ev.connect()
    db.sql("CREATE TABLE t (id int, s text); INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    assert db.sql("(SELECT s FROM t ORDER BY id DESC)").rows() == [("b",), ("a",)]
    assert db.sql("((SELECT s FROM t ORDER BY id DESC)) LIMIT 1").rows() == [("b",)]
    assert db.sql("(SELECT s, id FROM t ORDER BY id DESC) ORDER BY s").rows() == [("a", 1), ("b", 2)]
