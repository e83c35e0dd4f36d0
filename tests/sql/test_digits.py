"""decimal(p, s) has p digits in all: more of them are refused wherever a value gets its type, as in PostgreSQL.

Random numbers go into columns and through casts of random precisions, here and in PostgreSQL: both take them and have
the same value, or both refuse them (SQLSTATE 22003, numeric field overflow).
"""

from __future__ import annotations

import random
from collections import Counter
from decimal import Decimal

import pytest

import everview as ev
from everview.server.pg.sqlstates import state_of
from everview.session.local_shards import local_shards
from tests.sql.postgres import Postgres, PostgresError

CREATE = "CREATE TABLE t (id int PRIMARY KEY, a decimal(5, 2), b numeric(3), c decimal(17, 17), d numeric(20, 4))"
COLUMNS = {"a": (5, 2), "b": (3, 0), "c": (17, 17), "d": (20, 4)}


def _number(r: random.Random, digits: int, scale: int) -> str:
    """A number near the limit of a type, or far from it."""
    whole = max(0, digits - scale + r.choice([-1, 0, 0, 1, 3]))
    text = "".join(r.choice("0999951") for _ in range(whole)) or "0"
    return f"{r.choice(['', '-'])}{text}.{''.join(r.choice('049995') for _ in range(scale + r.choice([0, 1, 2])))}0"


def _statement(r: random.Random) -> str:
    column, (digits, scale) = r.choice(list(COLUMNS.items()))
    number, key = _number(r, digits, scale), r.randint(1, 6)
    written = r.choice([number, f"'{number}'", f"({number}::numeric + 0)"])
    into = f"INSERT INTO t (id, {column})"
    no_constant = f"coalesce({column}, 0) * 0 + {number}"  # which PostgreSQL would look at even if no row is updated
    merged = f"UPDATE SET {column} = s.v WHEN NOT MATCHED THEN INSERT (id, {column}) VALUES (s.id, s.v)"
    return r.choice(
        [
            f"{into} VALUES ({key}, {written}) ON CONFLICT (id) DO UPDATE SET {column} = excluded.{column}",
            f"UPDATE t SET {column} = {no_constant} WHERE id = {key}",
            f"UPDATE t SET {column} = {column} * {r.choice([1, -1, 2, 10])}",
            f"{into} SELECT {key}, sum({column}) FROM t ON CONFLICT (id) DO NOTHING",
            f"MERGE INTO t USING (SELECT {key} AS id, {number} AS v) AS s ON s.id = t.id WHEN MATCHED THEN {merged}",
            f"DELETE FROM t WHERE id = {key}",
        ]
    )


@pytest.mark.parametrize(("seed", "shards"), [(1, 0), (2, 0), (3, 2)])
def test_columns_as_postgresql(seed: int, shards: int, postgres: Postgres) -> None:
    r = random.Random(seed)
    db = local_shards(shards=shards) if shards else ev.connect()
    refused = 0
    for run in (db.sql, postgres.run):
        run(CREATE)
    for _ in range(60):
        text, ours, theirs = _statement(r), "", ""
        try:
            db.sql(text)
        except ev.EverviewError as error:
            ours = str(error)
            assert state_of(error) == "22003", error
        try:
            postgres.run(text)
        except PostgresError as error:
            theirs = str(error)
        assert bool(ours) == bool(theirs), f"{text}\nhere: {ours}\nPostgreSQL: {theirs}"
        assert not theirs or "numeric field overflow" in theirs
        refused += bool(ours)
        here = Counter(db.sql("SELECT id::text, a::text, b::text, c::text, d::text FROM t").rows())
        assert here == Counter(postgres.rows("SELECT * FROM t")), text
    assert 5 < refused < 55


@pytest.mark.parametrize("seed", [1, 2])
def test_casts_as_postgresql(seed: int, postgres: Postgres) -> None:
    r, db = random.Random(seed), ev.connect()
    db.sql("CREATE TABLE n (x numeric, f double, s text, i bigint)")
    postgres.run("CREATE TABLE n (x numeric, f double precision, s text, i bigint)")
    agreed = Counter[bool]()
    for _ in range(80):
        digits = r.randint(1, 18)
        scale = r.randint(0, digits)
        number = _number(r, digits, scale)
        whole = "".join(r.choice("019") for _ in range(min(17, max(1, digits - scale + r.choice([-1, 0, 1])))))
        for run in (db.sql, postgres.run):
            run(f"DELETE FROM n; INSERT INTO n VALUES ({number}, {number}::float, '{number}', {whole})")
        column = r.choice(["x", "s", "i", f"{number}", f"'{number}'", "x::decimal(18, 0)", f"{whole}"])
        asked = f"SELECT ({column})::decimal({digits}, {scale})::text FROM n"
        try:
            ours: object = db.sql(asked).rows()
        except ev.EverviewError as error:
            assert state_of(error) == "22003", f"{asked}: {error}"
            ours = "refused"
        try:
            theirs: object = postgres.rows(asked)
        except PostgresError as error:
            assert "overflow" in str(error), f"{asked}: {error}"
            theirs = "refused"
        assert ours == theirs, f"{asked} with {number}, {whole}"
        agreed[ours == "refused"] += 1
    assert min(agreed.values()) > 5


def test_what_is_computed_has_more_digits() -> None:
    """Sums, products and unions are not of the columns' precision; what only chooses among values is."""
    db = ev.connect()
    db.sql("CREATE TABLE t (a decimal(3, 1), b decimal(3, 1)); INSERT INTO t VALUES (99.9, 99.9), (99.9, -1)")
    asked = "SELECT a + b, a * b, sum(a) OVER (), round(a), -a, abs(b), greatest(a, b) FROM t WHERE b > 0"
    assert [str(v) for v in db.sql(asked).rows()[0]] == ["199.8", "9980.01", "99.9", "100", "-99.9", "99.9", "99.9"]
    assert db.sql("SELECT sum(a), avg(a), max(a) FROM t").rows()[0][0] == Decimal("199.8")
    assert Decimal("1000") in [v for (v,) in db.sql("SELECT a FROM t UNION SELECT 1000").rows()]
    asked = "SELECT a, a + b, coalesce(a, b), coalesce(a, 0), sum(a) OVER () FROM t"
    names = [row[1] for row in db.sql(f"DESCRIBE {asked}")]
    assert names == ["decimal(3, 1)", "decimal(18, 1)", "decimal(3, 1)", "decimal(18, 1)", "decimal(18, 1)"]
    assert db.sql("SELECT count(*) FROM t WHERE a < '1000'").rows() == [(2,)], "the constant is no decimal(3, 1)"


def test_python_obeys_the_digits(tmp_path: object) -> None:
    db = ev.connect(str(tmp_path))
    db.sql("CREATE TABLE t (a decimal(5, 2), b int)")
    db["t"].insert([(Decimal("999.99"), 1), (None, 2)])
    for rows in ([(Decimal("1000"), 1)], [(Decimal(1), 1), (Decimal("-1000"), 2)]):
        with pytest.raises(ev.InputError, match=r"does not fit decimal\(5, 2\)") as caught:
            db["t"].insert(rows)
        assert caught.value.code == "E_RANGE"
    db.close()
    again = ev.connect(str(tmp_path))
    assert [str(t) for t in again["t"].schema().values()] == ["decimal(5, 2)?", "int32?"]
    with pytest.raises(ev.EverviewError):
        again.sql("UPDATE t SET a = a + 1")
    assert sorted(again["t"].rows(), key=str) == [(Decimal("999.99"), 1), (None, 2)]
    again.close()
