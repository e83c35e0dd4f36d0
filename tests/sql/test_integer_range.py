"""Ints of SQL have 32 bits where rows are written and values are cast, as in PostgreSQL; in between they have 64."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import everview as ev
from everview.errors import EverviewError
from tests.sql.postgres import Postgres, PostgresError

SETUP = "CREATE TABLE n (id int PRIMARY KEY, i int, s smallint, b bigint)"
ROW = "INSERT INTO n VALUES (1, 2147483647, 32767, 9223372036854775807), (2, -2147483648, -32768, NULL)"

STATEMENTS = (
    "INSERT INTO n VALUES (3, 2147483648, 0, 0)",
    "INSERT INTO n VALUES (3, -2147483649, 0, 0)",
    "INSERT INTO n VALUES (3, 2147483647.4, 0, 0)",
    "INSERT INTO n VALUES (3, 2147483647.5, 0, 0)",
    "INSERT INTO n VALUES (3, '2147483648', 0, 0)",
    "INSERT INTO n VALUES (3, 0, 32768, 0)",
    "INSERT INTO n (id, i) VALUES (3000000000, 1)",
    "INSERT INTO n SELECT 3, b, 0, 0 FROM n WHERE id = 1",
    "INSERT INTO n SELECT 3, i, 0, 0 FROM n WHERE id = 1",
    "INSERT INTO n SELECT 3, 0, i, 0 FROM n WHERE id = 1",
    "UPDATE n SET i = b",
    "UPDATE n SET i = i - 1 WHERE id = 1",
    "UPDATE n SET s = i",
    "UPDATE n SET b = i",
    "INSERT INTO n VALUES (1, 0, 0, 0) ON CONFLICT (id) DO UPDATE SET i = n.b",
    "INSERT INTO n VALUES (1, 0, 0, 0) ON CONFLICT (id) DO UPDATE SET i = excluded.i",
    "MERGE INTO n USING (SELECT 1 AS id) AS m ON n.id = m.id WHEN MATCHED THEN UPDATE SET i = b",
    "MERGE INTO n USING (SELECT 9 AS id) AS m ON n.id = m.id WHEN NOT MATCHED THEN INSERT VALUES (9, 3000000000, 0, 0)",
    "ALTER TABLE n ALTER COLUMN b TYPE int",
    "ALTER TABLE n ALTER COLUMN s TYPE int",
    "ALTER TABLE n ADD COLUMN z int DEFAULT 7",
)

CASTS = (
    "b::int", "i::int", "(b / 4294967296)::int", "(b / 4294967297)::int", "s::int", "b::smallint", "i::smallint",
    "CAST(b::text AS int)", "CAST(i::text AS int)", "(i::float8)::int", "(i + 0.4)::int", "(b::numeric)::int",
    "to_jsonb(b)::int", "CASE WHEN id = 1 THEN i ELSE i::int END",
)  # fmt: skip


def outcome(run: Callable[..., object], *args: object) -> object:
    """What a statement gives: rows, or that it is out of range."""
    try:
        return run(*args)
    except PostgresError as error:
        assert "out of range" in str(error), error
        return "out of range"
    except EverviewError as error:
        assert "does not fit" in str(error) or "out of range" in str(error), error
        return "out of range"


@pytest.mark.parametrize("text", STATEMENTS)
def test_writes_are_as_in_postgres(postgres: Postgres, text: str) -> None:
    db = ev.connect()
    for each in (db.sql, postgres.run):
        each(f"{SETUP}; {ROW}")
    ours, theirs = outcome(db.sql, text), outcome(postgres.run, text)
    assert (ours == "out of range") == (theirs == "out of range")
    mine = sorted(db.sql("SELECT * FROM n").rows())
    assert [tuple(None if v is None else str(v) for v in row) for row in mine] == postgres.rows(
        "SELECT * FROM n ORDER BY id"
    )


@pytest.mark.parametrize("cast", CASTS)
def test_casts_are_as_in_postgres_one_off_and_in_views(postgres: Postgres, cast: str) -> None:
    db = ev.connect()
    for each in (db.sql, postgres.run):
        each(SETUP)
    view = db.sql(f"CREATE VIEW v AS SELECT id, {cast} AS x FROM n")
    for each in (db.sql, postgres.run):
        each(ROW)
    for condition in ("id = 1", "id = 2"):
        query = f"SELECT {cast} AS x FROM n WHERE {condition}"
        ours, theirs = outcome(lambda q=query: db.sql(q).rows()), outcome(postgres.rows, query)
        if isinstance(ours, list):
            ours = [tuple(None if v is None else str(v) for v in row) for row in ours]
        assert ours == theirs, query
    bad = outcome(postgres.rows, f"SELECT {cast} FROM n") == "out of range"
    assert (len(view.errors()) > 0) == bad
    db.sql("DELETE FROM n")
    assert view.rows() == [] and not view.errors()


@pytest.mark.parametrize("wrong", [2**31, -(2**31) - 1])
def test_rows_and_arrow_tables_of_python(wrong: int) -> None:
    db = ev.connect()
    db.sql("CREATE TABLE p (x int, y int NOT NULL)")
    table, many = db["p"], [(i, i) for i in range(3000)]
    frames = [
        [(wrong, 1)], [*many, (1, wrong)], {"x": [1, None], "y": np.array([1, wrong])},
        pa.table({"x": pa.array([1, wrong]), "y": pa.array([1, 2])}),
        pa.table({"x": pa.array([1, None]), "y": pa.array([wrong, 2])}),
    ]  # fmt: skip
    for frame in frames:
        with pytest.raises(EverviewError, match="does not fit int32") as caught:
            table.insert(frame)
        assert caught.value.code == "E_RANGE"
    assert len(table.rows()) == 0
    table.insert([(2**31 - 1, -(2**31)), (None, 0)])
    table.insert(pa.table({"x": pa.array([1, None]), "y": pa.array([3, 4])}))
    table.insert({"x": np.array([5]), "y": np.array([6])})
    assert len(table.rows()) == 5


def test_copy(tmp_path: Path) -> None:
    db = ev.connect()
    db.sql("CREATE TABLE p (x int)")
    (tmp_path / "good.csv").write_text("1\n2147483647\n")
    (tmp_path / "bad.csv").write_text("1\n2147483648\n")
    db.sql(f"COPY p FROM '{tmp_path / 'good.csv'}'")
    with pytest.raises(EverviewError, match="'2147483648' is not an int32"):
        db.sql(f"COPY p FROM '{tmp_path / 'bad.csv'}'")
    assert sorted(db.sql("SELECT x FROM p").rows()) == [(1,), (2147483647,)]


def test_arithmetic_and_views_have_64_bits(tmp_path: Path) -> None:
    """What differs from PostgreSQL: results in between are not narrowed."""
    with ev.connect(tmp_path / "d") as db:
        db.sql("CREATE TABLE p (x int)")
        view = db.sql("CREATE VIEW v AS SELECT x * 2 AS y, sum(x) OVER () AS z FROM p")
        db.sql("INSERT INTO p VALUES (2147483647)")
        assert view.rows() == [(4294967294, 2147483647)]
        assert db["p"].to_arrow().schema.field("x").type == pa.int32()
        doubled = db.view("doubled", db["p"].select(y=db["p"].x * 4))
        assert doubled.rows() == [(8589934588,)]
    with ev.connect(tmp_path / "d") as db:
        with pytest.raises(EverviewError, match="does not fit int32"):
            db.sql("INSERT INTO p VALUES (2147483648)")
        assert [row[1] for row in db.sql("DESCRIBE p").rows()] == ["int"]
        assert [row[1] for row in db.sql("DESCRIBE v").rows()] == ["bigint", "bigint"]
        db.table("p", {"x": "int?"})  # what a program says in Python fits a table that SQL made
        db.sql("ALTER TABLE p ALTER COLUMN x TYPE bigint; INSERT INTO p VALUES (2147483648)")
        assert len(db["v"].rows()) == 2


def test_a_table_of_python_keeps_64_bits() -> None:
    db = ev.connect()
    db.table("q", {"x": int})
    db.sql("INSERT INTO q VALUES (3000000000)")
    limited = db.table("r", {"x": "integer"})
    with pytest.raises(EverviewError, match="does not fit int32"):
        limited.insert([(3000000000,)])
    assert db["q"].rows() == [(3000000000,)]


@pytest.mark.parametrize("dialect", ["sqlite", "bigquery", "snowflake"])
def test_dialects_whose_ints_are_wide(dialect: str) -> None:
    db = ev.connect()
    db.sql(f"SET dialect = '{dialect}'; CREATE TABLE w (x INT); INSERT INTO w VALUES (3000000000)")
    assert [int(x) for (x,) in db.sql("SELECT CAST(x AS INT) AS x FROM w").rows()] == [3000000000]


@pytest.mark.parametrize("dialect", ["duckdb", "mysql", "spark"])
def test_dialects_whose_ints_have_32_bits(dialect: str) -> None:
    db = ev.connect()
    db.sql(f"SET dialect = '{dialect}'; CREATE TABLE w (x INT)")
    with pytest.raises(EverviewError, match="does not fit int32"):
        db.sql("INSERT INTO w VALUES (3000000000)")
