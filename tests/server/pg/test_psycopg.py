"""psycopg 3, the driver most Python programs use."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from typing import Any

import pytest

from everview.server.pg import copy_protocol
from tests.server.pg.conftest import Running

psycopg = pytest.importorskip("psycopg")


def connect(server: Running, **options: Any) -> Any:
    return psycopg.connect(server.dsn, **{"autocommit": True, "connect_timeout": 30, **options})


def test_rows_and_types_come_as_python_has_them(fresh: Running) -> None:
    with connect(fresh) as db:
        rows = db.execute("SELECT * FROM sale ORDER BY id").fetchall()
    assert rows == [
        (1, "north", Decimal("5.50"), dt.date(2026, 1, 31), dt.datetime(2026, 1, 31, 10), True, 1.5),
        (2, "south", Decimal("-0.25"), None, None, None, None),
    ]


@pytest.mark.parametrize("binary", [False, True])
def test_every_type_goes_both_ways(fresh: Running, binary: bool) -> None:
    with connect(fresh) as db:
        db.execute(
            "CREATE TABLE every (i bigint, s smallint, f double, b boolean, t text, y bytea, d date, ts timestamp, "
            "tz timestamptz, tm time, n numeric(30, 5), g decimal(12, 3), iv interval, u uuid, "
            "j jsonb, a int[], ta text[])"
        )
        given = (
            2**40, -7, 1e-300, True, "a\tb'\"\\ü", b"\0\xff", dt.date(1066, 10, 14),
            dt.datetime(2026, 2, 3, 4, 5, 6, 7), dt.datetime(2026, 2, 3, 4, 5, 6, 7, dt.UTC), dt.time(23, 59, 59, 1),
            Decimal("-123456789012345678.12345"), Decimal("0.001"), dt.timedelta(days=3, seconds=5),
            uuid.UUID(int=7), psycopg.types.json.Jsonb({"a": [1, None]}), [1, 2, 3], ["x", "y z"],
        )  # fmt: skip
        marks = ", ".join(["%b" if binary else "%t"] * len(given))
        text = f"INSERT INTO every VALUES ({marks})"
        cursor = db.cursor(binary=binary)
        cursor.execute(text, given)
        assert cursor.rowcount == 1
        cursor.execute(text, (None,) * len(given))
        found = cursor.execute("SELECT * FROM every WHERE i IS NOT NULL").fetchone()
    assert found == (*given[:14], {"a": [1, None]}, *given[15:])


def test_what_is_ignored_in_a_statement_is_a_notice(fresh: Running) -> None:
    told: list[str] = []
    with connect(fresh) as db:
        db.add_notice_handler(lambda notice: told.append(notice.message_primary))
        db.execute("CREATE TABLE heard (x int) WITH (fillfactor = 70)")
        db.execute("INSERT INTO heard VALUES (1)")
    assert told == ["fillfactor of CREATE TABLE is ignored: it says how rows are kept elsewhere"]


PASSED_OVER = {
    "DROP TABLE IF EXISTS nothing": "there is no table nothing: nothing is dropped",
    "DROP VIEW IF EXISTS nothing": "there is no view nothing: nothing is dropped",
    "DROP INDEX IF EXISTS nothing": "there is no index nothing: nothing is dropped",
    "DROP SEQUENCE IF EXISTS nothing": "there is no sequence nothing: nothing is dropped",
    "DROP SCHEMA IF EXISTS nothing": "there is no schema nothing: nothing is dropped",
    "DROP FUNCTION IF EXISTS nothing": "there is no function nothing: nothing is dropped",
    "DROP ROLE IF EXISTS nothing": "there is no role nothing: nothing is dropped",
    "DROP POLICY IF EXISTS nothing ON sale": "sale has no policy nothing: nothing is dropped",
    "ALTER TABLE IF EXISTS nothing ADD COLUMN x int": "there is no table nothing: nothing is altered",
    "CREATE TABLE IF NOT EXISTS sale (x int)": "sale already exists: it is left as it is",
    "CREATE VIEW IF NOT EXISTS total AS SELECT 1 AS x": "total already exists: it is left as it is",
    "CREATE SCHEMA IF NOT EXISTS public": "the schema public already exists",
}


@pytest.mark.parametrize("statement", PASSED_OVER)
def test_what_is_passed_over_is_a_notice(fresh: Running, statement: str) -> None:
    told: list[str] = []
    with connect(fresh) as db:
        db.add_notice_handler(lambda notice: told.append(notice.message_primary))
        db.execute(statement)
        db.execute("SELECT 1")
    assert told == [PASSED_OVER[statement]]


def test_prepared_statements_are_run_again_with_other_values(fresh: Running) -> None:
    with connect(fresh, prepare_threshold=0) as db:
        for key, shop in ((1, "north"), (2, "south"), (1, "north"), (9, None)):
            found = db.execute("SELECT shop FROM sale WHERE id = %s", (key,)).fetchone()
            assert found == (None if shop is None else (shop,))


def test_errors_have_states_and_places(fresh: Running) -> None:
    with connect(fresh) as db:
        with pytest.raises(psycopg.errors.UndefinedColumn) as column:
            db.execute("SELECT nope FROM sale")
        assert column.value.diag.statement_position == "8"
        assert column.value.diag.source_function == "E_COLUMN"
        with pytest.raises(psycopg.errors.UndefinedTable):
            db.execute("SELECT 1 FROM nowhere WHERE x = %s", (1,))
        with pytest.raises(psycopg.errors.UniqueViolation):
            db.execute("INSERT INTO sale (id, shop) VALUES (1, 'x')")
        with pytest.raises(psycopg.errors.NotNullViolation):
            db.execute("INSERT INTO sale (id) VALUES (7)")
        with pytest.raises(psycopg.errors.SyntaxError):
            db.execute("SELEC 1")
        assert db.execute("SELECT count(*) FROM sale").fetchone() == (2,)


def test_a_transaction_sees_what_it_changed_and_nobody_else_does(fresh: Running) -> None:
    with connect(fresh, autocommit=False) as one, connect(fresh) as other:
        one.execute("INSERT INTO sale (id, shop, amount) VALUES (3, 'north', 1)")
        assert one.execute("SELECT amount FROM total WHERE shop = 'north'").fetchone() == (Decimal("6.50"),)
        assert other.execute("SELECT amount FROM total WHERE shop = 'north'").fetchone() == (Decimal("5.50"),)
        other.execute("INSERT INTO sale (id, shop, amount) VALUES (4, 'east', 2)")  # an idle transaction blocks nobody
        one.commit()
        assert other.execute("SELECT amount FROM total WHERE shop = 'north'").fetchone() == (Decimal("6.50"),)


def test_savepoints_undo_a_part(fresh: Running) -> None:
    with connect(fresh) as db, db.transaction():
        db.execute("INSERT INTO sale (id, shop) VALUES (10, 'a')")
        with pytest.raises(psycopg.errors.UniqueViolation), db.transaction():
            db.execute("INSERT INTO sale (id, shop) VALUES (11, 'b')")
            db.execute("INSERT INTO sale (id, shop) VALUES (10, 'c')")
        db.execute("INSERT INTO sale (id, shop) VALUES (12, 'd')")
    assert sorted(r[0] for r in fresh.do(lambda s: s["sale"].rows())) == [1, 2, 10, 12]


def test_a_transaction_that_failed_takes_only_its_end(fresh: Running) -> None:
    with connect(fresh, autocommit=False) as db:
        with pytest.raises(psycopg.errors.UndefinedTable):
            db.execute("SELECT * FROM nowhere")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            db.execute("SELECT 1")
        assert db.info.transaction_status == psycopg.pq.TransactionStatus.INERROR
        db.rollback()
        assert db.execute("SELECT 1").fetchone() == (1,)


def test_two_transactions_that_change_the_same_row(fresh: Running) -> None:
    with connect(fresh, autocommit=False) as one, connect(fresh, autocommit=False) as other:
        for db in (one, other):
            db.execute("UPDATE sale SET amount = amount + 1 WHERE id = 1")
        one.commit()
        with pytest.raises(psycopg.errors.SerializationFailure):
            other.commit()
        other.execute("UPDATE sale SET amount = amount + 1 WHERE id = 1")
        other.commit()
    assert fresh.do(lambda s: s["sale"].lookup(1))[0][2] == Decimal("7.50")


def test_two_transactions_that_add_the_same_key(fresh: Running) -> None:
    with connect(fresh, autocommit=False) as one, connect(fresh, autocommit=False) as other:
        for db in (one, other):
            db.execute("INSERT INTO sale (id, shop) VALUES (50, 'x')")
        one.commit()
        with pytest.raises(psycopg.errors.SerializationFailure):
            other.commit()
    assert len(fresh.do(lambda s: s["sale"].lookup(50))) == 1


def test_repeatable_read_reads_as_of_its_first_statement(fresh: Running) -> None:
    with connect(fresh, autocommit=False) as one, connect(fresh) as other:
        one.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        assert one.execute("SELECT count(*) FROM sale").fetchone() == (2,)
        other.execute("INSERT INTO sale (id, shop) VALUES (60, 'x')")
        assert one.execute("SELECT count(*) FROM sale").fetchone() == (2,)
        with pytest.raises(psycopg.errors.SerializationFailure):
            one.execute("INSERT INTO sale (id, shop) VALUES (61, 'x')")
        one.rollback()
        assert one.execute("SELECT count(*) FROM sale").fetchone() == (3,)


def test_what_is_sent_together_is_one_transaction(fresh: Running) -> None:
    with connect(fresh) as db:
        with pytest.raises(psycopg.errors.UniqueViolation):
            db.execute("INSERT INTO sale (id, shop) VALUES (70, 'x'); INSERT INTO sale (id, shop) VALUES (70, 'y')")
        assert db.execute("SELECT count(*) FROM sale").fetchone() == (2,)
        before = fresh.do(lambda s: s.time)
        with db.cursor() as cursor:
            cursor.executemany("INSERT INTO sale (id, shop) VALUES (%s, %s)", [(i, "many") for i in range(100, 200)])
            assert cursor.rowcount == 100
        assert fresh.do(lambda s: s.time) <= before + 2


def test_cursors_on_the_server(fresh: Running) -> None:
    with connect(fresh, autocommit=False) as db:
        db.cursor().executemany("INSERT INTO sale (id, shop) VALUES (%s, 'c')", [(i,) for i in range(10, 30)])
        with db.cursor("c", scrollable=True) as cursor:
            cursor.itersize = 7
            cursor.execute("SELECT id FROM sale ORDER BY id")
            assert [r[0] for r in cursor] == [1, 2, *range(10, 30)]
            cursor.scroll(0, mode="absolute")
            assert cursor.fetchmany(2) == [(1,), (2,)]
            cursor.scroll(-1)
            assert cursor.fetchone() == (2,)


def test_copy_in_and_out(fresh: Running) -> None:
    with connect(fresh) as db:
        with db.cursor().copy("COPY sale (id, shop, amount) FROM STDIN") as copy:
            for i in range(1000, 1500):
                copy.write_row((i, f"s\t{i}" if i % 2 else "plain", Decimal(i) / 4))
        with db.cursor().copy("COPY sale (id, shop) FROM STDIN (FORMAT csv, HEADER)") as copy:
            copy.write('id,shop\n7,"a ""quoted"", one"\n8,plain\n')
        with db.cursor().copy("COPY sale (id, shop, day) FROM STDIN (FORMAT binary)") as copy:
            copy.set_types(["int8", "text", "date"])
            copy.write_row((9, "bin", dt.date(2026, 1, 1)))
        assert db.execute("SELECT count(*) FROM sale").fetchone() == (505,)
        assert db.execute("SELECT shop FROM sale WHERE id = 7").fetchone() == ('a "quoted", one',)
        with db.cursor().copy("COPY (SELECT id, shop FROM sale WHERE id < 10 ORDER BY id) TO STDOUT") as copy:
            copy.set_types(["int8", "text"])
            assert list(copy.rows()) == [(1, "north"), (2, "south"), (7, 'a "quoted", one'), (8, "plain"), (9, "bin")]
        with db.cursor().copy("COPY (SELECT id, shop FROM sale WHERE id = 1001) TO STDOUT (FORMAT csv)") as copy:
            assert b"".join(copy) == b"1001,s\t1001\n"


def test_rows_of_a_binary_copy(fresh: Running) -> None:
    """psycopg looks for the signature in the message of the first row."""
    with connect(fresh) as db:
        found = []
        for text in ("SELECT id, shop FROM sale ORDER BY id", "SELECT id, shop FROM sale WHERE false"):
            with db.cursor().copy(f"COPY ({text}) TO STDOUT (FORMAT BINARY)") as copy:
                copy.set_types(["int8", "text"])
                found.append(list(copy.rows()))
        assert found == [[(1, "north"), (2, "south")], []]


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("SELECT nowhere(1)", "42883"),
        ("SELECT 'x'::uuid", "22P02"),
        ("SELECT '{'::jsonb", "22P02"),
        ("SELECT 1 = 'x'", "22P02"),
        ("SELECT '2020-13-01'::date", "22007"),
        ("CREATE EXTENSION hstore", "42704"),
    ],
)
def test_states_of_names_and_constants(shared: Running, text: str, state: str) -> None:
    with connect(shared) as db, pytest.raises(psycopg.Error) as found:
        db.execute(text.encode())
    assert found.value.sqlstate == state


def test_a_copy_that_fails_copies_nothing(fresh: Running) -> None:
    with connect(fresh) as db:
        wrong = pytest.raises(psycopg.errors.BadCopyFileFormat, match="line 2")
        with wrong, db.cursor().copy("COPY sale (id, shop) FROM STDIN") as copy:
            copy.write("100\tgood\nbad\tbad\n")
        with pytest.raises(ZeroDivisionError), db.cursor().copy("COPY sale (id, shop) FROM STDIN") as copy:
            copy.write("100\tgood\n")
            raise ZeroDivisionError
        assert db.execute("SELECT count(*) FROM sale").fetchone() == (2,)


def test_constraints_raise_the_drivers_own_errors(fresh: Running) -> None:
    with connect(fresh, autocommit=False) as db:
        db.execute("CREATE TABLE owner (id serial PRIMARY KEY, email text NOT NULL UNIQUE)")
        db.execute("CREATE TABLE pet (owner int REFERENCES owner, legs int DEFAULT 4 CHECK (legs > 0))")
        db.execute("INSERT INTO owner (email) VALUES (%s)", ("a@x",))
        db.commit()
        for statement, kind, constraint in [
            ("INSERT INTO owner (email) VALUES ('a@x')", psycopg.errors.UniqueViolation, "owner_email_key"),
            ("INSERT INTO pet (legs) VALUES (0)", psycopg.errors.CheckViolation, "pet_legs_check"),
            ("INSERT INTO pet (owner) VALUES (9)", psycopg.errors.ForeignKeyViolation, "pet_owner_fkey"),
        ]:
            with pytest.raises(kind) as error, db.transaction():
                db.execute(statement)
            assert error.value.diag.constraint_name == constraint
        with pytest.raises(psycopg.errors.NotNullViolation), db.transaction():
            db.execute("INSERT INTO owner (email) VALUES (NULL)")
        db.execute("INSERT INTO pet (owner) VALUES (1)")
        with pytest.raises(psycopg.errors.ForeignKeyViolation), db.transaction():
            db.execute("DELETE FROM owner")
        with db.cursor().copy("COPY owner (email) FROM STDIN") as copy:
            copy.write_row(("b@x",))
        db.commit()
        assert db.execute("SELECT legs FROM pet").fetchall() == [(4,)]
        assert [e for _, e in db.execute("SELECT id, email FROM owner ORDER BY id").fetchall()] == ["a@x", "b@x"]
        db.commit()


def test_what_follows_the_end_of_rows_is_passed_over(fresh: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line of \\. ends them, however much comes after it, and in however many messages."""
    monkeypatch.setattr(copy_protocol, "PART", 100)
    with connect(fresh) as db:
        for number, ending in enumerate(("\\.\n", "\\.\r\n")):
            with db.cursor().copy("COPY sale (id, shop) FROM STDIN") as copy:
                copy.write("".join(f"{1000 * (number + 1) + i}\tbefore\n" for i in range(50)) + ending)
                for i in range(200):
                    copy.write(f"{i}\tafter\n")
                copy.write("this is no row at all\n")
        found = db.execute("SELECT shop, count(*) FROM sale WHERE id >= 1000 OR shop = 'after' GROUP BY shop")
        assert found.fetchall() == [("before", 100)]


def test_a_copy_in_many_parts(fresh: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts are read beside each other: rows, mistakes and line numbers are as in one; the first mistake counts."""
    monkeypatch.setattr(copy_protocol, "PART", 1000)
    with connect(fresh) as db:
        db.execute("CREATE TABLE parts (a bigint PRIMARY KEY, b text, c double precision)")
        lines = [f"{i}\ttext {i % 100}\t{i / 8}\n" for i in range(5000)]
        with db.cursor().copy("COPY parts FROM STDIN") as copy:
            for at in range(0, len(lines), 37):
                copy.write("".join(lines[at : at + 37]))
        assert db.execute("SELECT count(*), sum(a), max(c) FROM parts").fetchone() == (5000, 12497500, 4999 / 8)
        assert db.execute("SELECT b FROM parts WHERE a = 4321").fetchall() == [("text 21",)]
        wrong = [*lines[:1000], "1\tx\tno number\n", *lines[1001:3000], "2\ttoo few\n", *lines[3001:]]
        with pytest.raises(psycopg.Error) as error, db.cursor().copy("COPY parts FROM STDIN") as copy:
            for line in wrong:
                copy.write(line)
        assert "line 1001" in str(error.value)
        assert db.execute("SELECT count(*) FROM parts").fetchone() == (5000,)
        with (
            pytest.raises(psycopg.errors.SerializationFailure),
            db.cursor().copy("COPY parts (a, b) FROM STDIN") as copy,
        ):
            copy.write("".join(f"{i}\tx\n" for i in range(6000, 7000)))
            with connect(fresh) as other:
                other.execute("ALTER TABLE parts ADD COLUMN d int")
        assert db.execute("SELECT count(*) FROM parts").fetchone() == (5000,)


@pytest.mark.parametrize(
    "text", ["SHOW TABLES", "SHOW search_path", "SELECT name FROM ev.views", "DESCRIBE sale", "EXPLAIN SELECT 1 AS x"]
)
def test_what_a_driver_prepares_gives_the_same(fresh: Running, text: str) -> None:
    """psycopg prepares what it has sent five times. Rows without a description broke the connection."""
    with connect(fresh) as db:
        found = [db.execute(text).fetchall() for _ in range(8)]
        assert found[0] and found == found[:1] * 8
        assert db.execute("SELECT 1").fetchone() == (1,)
