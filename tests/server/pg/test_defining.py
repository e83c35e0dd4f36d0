"""CREATE, ALTER and DROP inside transactions: others see them at COMMIT, nobody after ROLLBACK."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import everview as ev
from tests.server.pg.conftest import Running, running


@pytest.fixture
def two(fresh: Running) -> Iterator[tuple[psycopg.Connection[Any], psycopg.Connection[Any]]]:
    """Somebody with a transaction, and somebody else."""
    with psycopg.connect(fresh.dsn) as one, psycopg.connect(fresh.dsn, autocommit=True) as other:
        yield one, other


def names(client: psycopg.Connection[Any]) -> list[str]:
    return [n for (n,) in client.execute("SELECT relname FROM pg_class WHERE relkind IN ('r', 'v') ORDER BY 1")]


CHANGES: dict[str, tuple[str, dict[str, Any]]] = {
    "create": ("CREATE TABLE n (x int); INSERT INTO n VALUES (1), (2); CREATE VIEW nv AS SELECT sum(x) AS s FROM n",
               {"n": [(1,), (2,)], "nv": [(3,)]}),
    "create as": ("CREATE TABLE n AS SELECT shop FROM sale", {"n": [("north",), ("south",)]}),
    "drop": ("DROP TABLE sale CASCADE", {"sale": None, "total": None}),
    "drop and create": ("DROP TABLE sale CASCADE; CREATE TABLE sale (x int); INSERT INTO sale VALUES (7)",
                        {"sale": [(7,)], "total": None}),
    "rename": ("ALTER TABLE sale RENAME TO sold", {"sale": None, "sold": 2, "total": 2}),
    "swap": ("CREATE VIEW tmp AS SELECT shop FROM sale; ALTER TABLE total RENAME TO old;"
             "ALTER TABLE tmp RENAME TO total; DROP VIEW old",
             {"total": [("north",), ("south",)], "old": None, "tmp": None}),
    "add column": ("ALTER TABLE sale ADD COLUMN more int DEFAULT 3; UPDATE sale SET more = 4 WHERE id = 1",
                   {"total": 2, "sale (more)": [(3,), (4,)]}),
    "replace": ("CREATE OR REPLACE VIEW total AS SELECT count(*) AS c FROM sale", {"total": [(2,)]}),
    "index": ("CREATE INDEX by_shop ON sale (shop)", {"sale": 2}),
    "comment": ("COMMENT ON TABLE sale IS 'sold'", {"sale": 2}),
    "serial": ("CREATE TABLE n (id serial PRIMARY KEY, x int UNIQUE); INSERT INTO n (x) VALUES (5); INSERT INTO n (x) "
               "VALUES (6)", {"n": [(1, 5), (2, 6)]}),
}  # fmt: skip


def check(client: psycopg.Connection[Any], wanted: dict[str, Any]) -> None:
    for name, rows in wanted.items():
        table, _, columns = name.partition(" ")
        if rows is None:
            assert table not in names(client)
            with pytest.raises(psycopg.errors.UndefinedTable), client.transaction():
                client.execute(f"SELECT * FROM {table}")
            continue
        found = sorted(client.execute(f"SELECT {columns.strip('()') or '*'} FROM {table}").fetchall())
        assert (len(found) if isinstance(rows, int) else found) == rows


@pytest.mark.parametrize("kind", CHANGES)
@pytest.mark.parametrize("end", ["commit", "rollback", "gone"])
def test_all_or_nothing(two: Any, fresh: Running, kind: str, end: str) -> None:
    one, other = two
    text, wanted = CHANGES[kind]
    before, rows = names(other), sorted(other.execute("SELECT * FROM total").fetchall())
    for statement in text.split(";"):
        one.execute(statement)
        assert names(other) == before
        assert sorted(other.execute("SELECT * FROM total").fetchall()) == rows
    check(one, wanted)
    if end == "commit":
        one.commit()
        check(other, wanted)
        if kind not in ("drop", "rename", "drop and create"):
            other.execute("INSERT INTO sale (id, shop) VALUES (3, 'east')")
    else:
        one.rollback() if end == "rollback" else one.close()
        assert names(other) == before
        other.execute("INSERT INTO sale (id, shop, amount) VALUES (3, 'east', 1)")
        assert len(other.execute("SELECT * FROM total").fetchall()) == 3
    assert fresh.do(lambda db: db.check()) == []


def test_savepoints(two: Any) -> None:
    one, other = two
    one.execute("CREATE TABLE n (x int)")
    one.execute("INSERT INTO n VALUES (1)")
    one.execute("SAVEPOINT a")
    one.execute("CREATE TABLE m (x int)")
    one.execute("INSERT INTO m VALUES (1)")
    one.execute("INSERT INTO n VALUES (2)")
    one.execute("ROLLBACK TO SAVEPOINT a")
    assert one.execute("SELECT x FROM n").fetchall() == [(1,)]
    with pytest.raises(psycopg.errors.UndefinedTable), one.transaction():
        one.execute("SELECT * FROM m")
    one.execute("INSERT INTO n VALUES (3)")
    one.commit()
    assert sorted(other.execute("SELECT x FROM n").fetchall()) == [(1,), (3,)]
    assert "m" not in names(other)


def test_numbers_go_on(two: Any) -> None:
    """Sequences are not part of what is taken back, and are not begun again either."""
    one, other = two
    other.execute("CREATE TABLE n (id serial PRIMARY KEY, x int)")
    other.execute("INSERT INTO n (x) VALUES (1), (2)")
    one.execute("DROP TABLE n")
    one.rollback()
    other.execute("INSERT INTO n (x) VALUES (3)")
    one.execute("CREATE TABLE m (x int)")
    one.execute("INSERT INTO n (x) VALUES (4)")
    one.execute("INSERT INTO n (x) VALUES (5)")
    one.commit()
    other.execute("INSERT INTO n (x) VALUES (6)")
    assert sorted(other.execute("SELECT id, x FROM n").fetchall()) == [(i, i) for i in range(1, 7)]
    one.execute("DROP TABLE n")
    one.execute("CREATE TABLE n (id serial PRIMARY KEY, x int)")
    one.execute("INSERT INTO n (x) VALUES (1)")
    one.commit()
    other.execute("INSERT INTO n (x) VALUES (2)")
    assert sorted(other.execute("SELECT id, x FROM n").fetchall()) == [(1, 1), (2, 2)]


def test_copy_and_parameters(two: Any) -> None:
    one, other = two
    one.execute("CREATE TABLE n (x int, y text)")
    with one.cursor().copy("COPY n FROM STDIN") as copy:
        copy.write_row((1, "a"))
        copy.write_row((2, "b"))
    assert one.execute("SELECT y FROM n WHERE x = %s", [2]).fetchall() == [("b",)]
    one.execute("UPDATE n SET y = %s WHERE x = %s", ["c", 1])
    one.commit()
    assert sorted(other.execute("SELECT * FROM n").fetchall()) == [(1, "c"), (2, "b")]


def test_a_failure_at_the_end_leaves_nothing(two: Any) -> None:
    one, other = two
    before = names(other)
    one.execute("CREATE TABLE n (x int)")
    one.execute("INSERT INTO sale (id, shop) VALUES (10, 'east')")
    other.execute("INSERT INTO sale (id, shop) VALUES (10, 'west')")
    with pytest.raises(psycopg.errors.SerializationFailure):
        one.commit()
    assert names(other) == before


def test_others_in_the_way(two: Any) -> None:
    one, other = two
    one.execute("CREATE TABLE n (x int)")
    one.execute("INSERT INTO sale (id, shop) VALUES (10, 'east')")
    other.execute("ALTER TABLE sale ADD COLUMN more int")
    with pytest.raises(psycopg.errors.SerializationFailure):
        one.commit()
    one.rollback()
    one.execute("CREATE TABLE n (x int)")
    other.execute("CREATE TABLE n (y int)")
    with pytest.raises(psycopg.Error, match=r"taken|already"):
        one.commit()


@pytest.mark.parametrize(
    "statement",
    ["CREATE ROLE r", "CREATE TYPE mood AS ENUM ('ok')", "CREATE FUNCTION f(a int) RETURNS int AS 'SELECT a'",
     "CREATE VIEW late AS SELECT id FROM sale WHERE at > now()", "ALTER ROLE r LOGIN"],
)  # fmt: skip
def test_what_cannot_be_taken_back_is_refused(two: Any, fresh: Running, statement: str) -> None:
    one, other = two
    before = names(other)
    with pytest.raises(psycopg.errors.ActiveSqlTransaction):
        one.execute(statement)
    one.rollback()
    assert names(other) == before
    assert fresh.do(lambda db: db.check()) == []


def test_altering_what_has_rows_of_the_transaction(two: Any) -> None:
    one, _ = two
    one.execute("INSERT INTO sale (id, shop) VALUES (10, 'east')")
    with pytest.raises(psycopg.errors.ObjectInUse):
        one.execute("ALTER TABLE sale ADD COLUMN more int")


def test_a_text_of_several_statements(fresh: Running) -> None:
    with psycopg.connect(fresh.dsn, autocommit=True) as client:
        with pytest.raises(psycopg.Error):
            client.execute("CREATE TABLE n (x int); INSERT INTO n VALUES (1); SELECT nothing FROM n")
        assert "n" not in names(client)
        client.execute("CREATE TABLE n (x int); INSERT INTO n VALUES (1); CREATE VIEW nv AS SELECT x FROM n")
        assert client.execute("SELECT * FROM nv").fetchall() == [(1,)]
        client.execute("BEGIN; CREATE TABLE m (x int); INSERT INTO m VALUES (1); COMMIT")
        assert client.execute("SELECT * FROM m").fetchall() == [(1,)]


def test_a_directory(tmp_path: Any) -> None:
    found = running(ev.connect(tmp_path / "db"))
    try:
        with psycopg.connect(found.dsn) as client:
            client.execute("CREATE TABLE n (x int)")
            client.execute("INSERT INTO n VALUES (1)")
            client.execute("CREATE VIEW nv AS SELECT x + 1 AS y FROM n")
            client.commit()
            client.execute("DROP VIEW nv")
            client.execute("ALTER TABLE n ADD COLUMN z int")
            client.execute("CREATE TABLE gone (x int)")
            client.rollback()
            client.execute("ALTER TABLE n RENAME TO m")
            client.execute("CREATE TABLE o (x int)")
            client.commit()
            client.execute("CREATE TABLE never (x int)")
            client.rollback()
    finally:
        found.stop()
    with ev.connect(tmp_path / "db") as db:
        assert (sorted(db.tables), sorted(db.views)) == (["m", "o"], ["nv"])
        assert (db["m"].rows(), db["nv"].rows()) == ([(1,)], [(2,)])
