"""Files in FROM, and COPY from and to files."""

from __future__ import annotations

import datetime as dt
import os
import stat
import threading
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet
import pytest

import everview as ev
from everview.session.local_shards import local_shards
from tests.sql.postgres import Postgres


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fruit.csv").write_text('id,name,price\n1,pear,1.50\n2,fig,\n3,"a, b",2.25\n')
    (tmp_path / "fruit.json").write_text('{"id": 1, "name": "pear"}\n{"id": 4, "name": null}\n')
    pa.parquet.write_table(pa.table({"id": [1, 2, 2], "d": [dt.date(2026, 1, 31)] * 3}), tmp_path / "days.parquet")
    return tmp_path


@pytest.mark.parametrize("shards", [0, 2])
def test_files_in_from(here: Path, shards: int) -> None:
    with local_shards(shards=shards) if shards else ev.connect() as db:
        assert db.sql("SELECT * FROM 'fruit.csv' ORDER BY id").rows() == [
            (1, "pear", 1.5), (2, "fig", None), (3, "a, b", 2.25)
        ]  # fmt: skip
        assert db.sql("SELECT count(*), min(d) FROM 'days.parquet'").rows() == [(3, dt.date(2026, 1, 31))]
        db.sql("CREATE TABLE t (id int, n int); INSERT INTO t VALUES (2, 20), (4, 40)")
        joined = (
            "SELECT t.n, f.name, days.d FROM t LEFT JOIN 'fruit.json' f USING (id) LEFT JOIN 'days.parquet' USING (id)"
        )
        assert sorted(db.sql(joined).rows(), key=str) == [
            (20, None, dt.date(2026, 1, 31)), (20, None, dt.date(2026, 1, 31)), (40, None, None)
        ]  # fmt: skip
        assert db.sql("SELECT x.b FROM 'fruit.csv' AS x(a, b) WHERE a = 1").rows() == [("pear",)]
        assert db.sql("SELECT fruit.id FROM 'fruit.csv' WHERE fruit.price IS NULL").rows() == [(2,)]
        db.sql("INSERT INTO t SELECT id, 7 FROM 'fruit.csv' WHERE price > 2")
        db.sql("DELETE FROM t USING 'fruit.json' AS f WHERE f.id = t.id")
        assert sorted(db["t"].rows()) == [(2, 20), (3, 7)]
        with pytest.raises(ev.PlanError, match="no column nam"):
            db.sql("SELECT nam FROM 'fruit.csv'")


def test_a_file_is_read_when_it_is_asked_about(here: Path) -> None:
    db = ev.connect()
    before = db.sql("SELECT count(*) FROM 'fruit.csv'").rows()
    (here / "fruit.csv").write_text("id,name,price\n")
    assert (before, db.sql("SELECT count(*) FROM 'fruit.csv'").rows()) == ([(3,)], [(0,)])
    plan = "\n".join(line for (line,) in db.sql("EXPLAIN SELECT id FROM 'fruit.csv'"))
    assert "Table 'fruit.csv'" in plan


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        ("CREATE VIEW v AS SELECT * FROM 'fruit.csv'", "E_UNSUPPORTED", "CREATE SOURCE name FROM 'fruit.csv'"),
        ("SUBSCRIBE TO (SELECT * FROM 'fruit.csv')", "E_UNSUPPORTED", "CREATE SOURCE"),
        ("SELECT * FROM 'nope.csv'", "E_FILE", "nope.csv"),
        ("SELECT * FROM 'fruit'", "E_FORMAT", "fruit"),
        ("COPY t FORM 'fruit.csv'", "E_SYNTAX", "did you mean 'FROM'"),
        ("COPY tt FROM 'fruit.csv'", "E_TABLE", "did you mean 't'"),
        ("COPY t (idd) FROM 'fruit.csv'", "E_COLUMN", "did you mean 'id'"),
        ("COPY t FROM 'fruit.csv' (HEADR)", "E_OPTION", "did you mean 'HEADER'"),
        ("COPY t FROM 'fruit.csv' (FORMAT cvs)", "E_FORMAT", "did you mean 'csv'"),
        ("COPY t FROM 'fruit.csv' (HEADER maybe)", "E_OPTION", "true or false"),
        ("COPY t FROM 'fruit.csv' (HEADER, HEADER)", "E_OPTION", "twice"),
        ("COPY t FROM 'fruit.csv' (DELIMITER ';;')", "E_OPTION", "one sign"),
        ("COPY t FROM 'fruit.json' (HEADER)", "E_OPTION", "HEADER is for CSV files"),
        ("COPY t FROM STDIN", "E_UNSUPPORTED", "STDIN"),
        ("COPY t TO 'out'", "E_FORMAT", "FORMAT csv"),
        ("COPY (SELECT id FROM tt) TO 'out.csv'", "E_TABLE", "did you mean 't'"),
        ("COPY (SELECT 1) FROM 'fruit.csv'", "E_SYNTAX", "into a query"),
        ("COPY (DELETE FROM t) TO 'out.csv'", "E_", ""),
        ("COPY v FROM 'fruit.csv'", "E_TYPE", "is a view"),
        ("COPY t FROM 'fruit.csv' (HEADER) WHERE id > 1", "E_SYNTAX", "WHERE"),
        ("COPY t FROM 'fruit.csv'", "E_RECORD", "fields, not 2"),
        ("COPY k (name) FROM 'fruit.csv'", "E_NULL", "k.id"),
    ],
)  # fmt: skip
def test_what_is_refused(here: Path, text: str, code: str, says: str) -> None:
    db = ev.connect()
    db.sql("CREATE TABLE t (id int, name text); CREATE TABLE k (id int PRIMARY KEY, name text)")
    if "COPY v" in text:
        db.sql("CREATE VIEW v AS SELECT id FROM t")
    with pytest.raises(ev.EverviewError) as error:
        db.sql(text)
    assert error.value.code.startswith(code) and says in str(error.value), str(error.value)
    assert "line 1, column" in str(error.value)
    assert db["t"].rows() == [] and not (here / "out.csv").exists()


@pytest.mark.parametrize("text", ["SELECT * FROM 'fruit.csv'", "COPY t FROM 'fruit.csv'", "COPY t TO 'out.csv'"])
def test_files_can_be_switched_off(here: Path, text: str) -> None:
    with ev.connect(files=False) as db:
        db.sql("CREATE TABLE t (id int)")
        with pytest.raises(ev.EverviewError) as error:
            db.sql(text)
        assert error.value.code == "E_FORBIDDEN" and not (here / "out.csv").exists()


@pytest.mark.parametrize("shards", [0, 2])
def test_copy_into_a_table(here: Path, shards: int) -> None:
    with local_shards(shards=shards) if shards else ev.connect() as db:
        db.sql("CREATE TABLE t (id int PRIMARY KEY, name text, price decimal(9, 2))")
        view = db.sql("CREATE VIEW v AS SELECT count(*) AS n, sum(price) AS total FROM t")
        db.sql("COPY t FROM 'fruit.csv' WITH (HEADER true)")
        assert view.rows() == [(3, Decimal("3.75"))]
        with pytest.raises(ev.EverviewError, match="already has a row with key 1"):
            db.sql("COPY t FROM 'fruit.csv' CSV HEADER")
        assert view.rows() == [(3, Decimal("3.75"))]
        db.sql("DELETE FROM t; COPY t (id, name) FROM 'fruit.json'")
        assert sorted(db["t"].rows()) == [(1, "pear", None), (4, None, None)]
        (here / "other.txt").write_text("7;NA;0.5\n8;'x''y;z';NA\n")
        db.sql("COPY t (id, name, price) FROM 'other.txt' (FORMAT csv, DELIMITER ';', NULL 'NA', QUOTE '''')")
        assert sorted(db["t"].rows())[2:] == [(7, None, Decimal("0.50")), (8, "x'y;z", None)]


def test_copy_takes_fields_in_their_order_as_postgresql_does(here: Path) -> None:
    db = ev.connect()
    db.sql("CREATE TABLE t (a int, b text)")
    (here / "in.csv").write_text("b,a\n1,x\n")
    db.sql("COPY t FROM 'in.csv' (HEADER)")
    with pytest.raises(ev.EverviewError, match="b"):
        db.sql("COPY t FROM 'in.csv'")
    assert db["t"].rows() == [(1, "x")]


def test_a_bad_record_copies_nothing(here: Path) -> None:
    db = ev.connect()
    db.sql("CREATE TABLE t (a int)")
    (here / "in.csv").write_text("1\n2\nx\n")
    with pytest.raises(ev.EverviewError, match="E_RECORD"):
        db.sql("COPY t FROM 'in.csv'")
    assert db["t"].rows() == [] and db.time == 0
    db.sql("BEGIN; INSERT INTO t VALUES (9)")
    with pytest.raises(ev.EverviewError, match="E_RECORD"):
        db.sql("COPY t FROM 'in.csv'")
    db.sql("ROLLBACK")
    (here / "in.csv").write_text("1\n2\n")
    db.sql("BEGIN; INSERT INTO t VALUES (9); COPY t FROM 'in.csv'; COPY t TO 'out.csv'; ROLLBACK")
    assert db["t"].rows() == [] and (here / "out.csv").read_text().split() == ["1", "2", "9"]


@pytest.mark.parametrize("ending", ["csv", "json", "parquet", "arrow"])
def test_what_was_copied_can_be_copied_back(here: Path, ending: str) -> None:
    columns = (
        "id int, s text, b boolean, x double, m decimal(9, 2), n numeric(30, 4), d date, ts timestamp, tz timestamptz, "
        "tm time, i interval, u uuid, j jsonb, a int[], by bytea, e text"
    )
    db = ev.connect()
    db.sql(f"CREATE TABLE t ({columns}); CREATE TABLE back ({columns})")
    moment = dt.datetime(2026, 1, 31, 12, 0, 1, 500000)
    one = (
        1, 'a,"b\nc', True, 1.5, Decimal("2.25"), Decimal("12345678901234567890.5"), dt.date(2026, 1, 31), moment,
        moment.replace(tzinfo=dt.UTC), dt.time(12, 30), ev.Interval(1, 2, 3), UUID(int=7), {"k": [1, None]},
        [1, None, 3], b"\x00\xff", "",
    )  # fmt: skip
    two = (2, "", False, -0.0, *[None] * 12)
    three: tuple[object, ...] = (
        *[None] * 3,
        float("nan"),
        *[None] * 6,
        ev.Interval(0, 0, -5),
        None,
        "x",
        [],
        b"",
        "NULL",
    )
    db["t"].insert([one, two, three])
    db.sql(f"COPY t TO 'out/t.{ending}'; COPY back FROM 'out/t.{ending}'")
    assert sorted(map(repr, db["back"].rows())) == sorted(map(repr, db["t"].rows()))
    header = "(HEADER)" if ending == "csv" else ""
    db.sql(f"COPY (SELECT s, id FROM t WHERE id IS NOT NULL ORDER BY id DESC) TO 'some.{ending}' {header}")
    assert db.sql(f"SELECT s, id FROM 'some.{ending}' ORDER BY id").rows() == [('a,"b\nc', 1), ("", 2)]


def test_postgresql_reads_what_copy_writes(here: Path, postgres: Postgres) -> None:
    rows = "(1, 'a'), (2, NULL), (3, ''), (4, 'x;y'), (5, 'NA'), (6, 'it''s \"q\"')"
    db = ev.connect()
    for one in (db.sql, postgres.run):
        one(f"CREATE TABLE t (id int, s text); INSERT INTO t VALUES {rows}")
    for n, options in enumerate(
        ["CSV", "CSV HEADER", "(FORMAT csv, NULL 'NA', DELIMITER ';')", "(FORMAT csv, QUOTE '''')"]
    ):
        db.sql(f"COPY (SELECT * FROM t ORDER BY id) TO 'o{n}.csv' {options}")
        text = (here / f"o{n}.csv").read_text()
        postgres.run(f"CREATE TABLE o{n} (id int, s text);\nCOPY o{n} FROM STDIN WITH {options};\n{text}\\.\n")
        assert postgres.rows(f"SELECT * FROM o{n} ORDER BY 1") == postgres.rows("SELECT * FROM t ORDER BY 1"), options
        db.sql(f"CREATE TABLE o{n} (id int, s text); COPY o{n} FROM 'o{n}.csv' {options}")
        assert sorted(db[f"o{n}"].rows()) == sorted(db["t"].rows()), options


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe, found = tmp_path / "out.csv", list[str]()
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: found.append(pipe.read_text()), daemon=True)
    reader.start()
    ev.connect().sql(f"COPY (SELECT 1 AS a, 'x' AS b) TO '{pipe}'")
    reader.join(20)
    assert (found, stat.S_ISFIFO(pipe.stat().st_mode)) == (['1,"x"\n'], True)
