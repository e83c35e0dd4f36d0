"""Averages, quotients, variances and deviations of decimals and numerics: PostgreSQL's, to the last digit.

The oracle is a real PostgreSQL; every view is compared with it after each transaction of inserts and deletes. Idle
zeros at the end are not compared: a numeric without a scale does not keep them.
"""

from __future__ import annotations

import random
from collections import Counter
from decimal import Context, Decimal
from typing import Any

import pytest

import everview as ev
from everview.language.relation import relation_of
from everview.session.local_shards import local_shards
from tests.sql.postgres import Postgres

VIEWS = {
    "averages": """
        SELECT k, avg(x) AS a, avg(n) AS b, avg(w) AS c, avg(DISTINCT x) AS d, avg(x) FILTER (WHERE x > 0) AS e
        FROM t GROUP BY k
    """,
    "whole": "SELECT avg(x) AS a, stddev(x) AS b, sum(x) / count(*) AS c, round(avg(n), 3) AS d FROM t",
    "deviations": """
        SELECT k, stddev(x) AS a, stddev_pop(x) AS b, variance(x) AS c, var_pop(x) AS d, var_samp(DISTINCT x) AS e
        FROM t GROUP BY k
    """,
    "numerics": "SELECT k, stddev(n) AS a, stddev_pop(n) AS b, variance(w) AS c, var_pop(n) AS d FROM t GROUP BY k",
    "quotients": "SELECT x / 7 AS a, x / nullif(n, 0) AS b, w / 3 AS c, x / 0.03 AS d, 1.00 / nullif(x, 0) AS e FROM t",
    "windows": """
        SELECT k, x, avg(x) OVER (PARTITION BY k ORDER BY x, n, w) AS a, avg(w) OVER (PARTITION BY k) AS b FROM t
    """,
    "some": "SELECT k, avg(x) * 2 AS a FROM t GROUP BY k HAVING avg(x) > 0.5",
}

EXACT = Context(prec=100)

TABLE = "CREATE TABLE t (k int NOT NULL, x numeric(12, 2), n numeric, w numeric(30, 6))"


def _number(chance: random.Random, digits: int, scale: int) -> Decimal | None:
    if chance.random() < 0.1:
        return None
    number = Decimal(chance.randrange(-(10 ** chance.randrange(1, digits)), 10 ** chance.randrange(1, digits)))
    return number.scaleb(-scale)


def _row(chance: random.Random) -> tuple[Any, ...]:
    return (
        chance.randrange(4),
        _number(chance, 11, 2),
        _number(chance, 12, chance.choice((0, 1, 3, 7))),
        _number(chance, 20, 6),
    )


def _same(rows: list[tuple[Any, ...]], digits: int) -> Counter[tuple[Any, ...]]:
    def number(value: Any) -> Decimal:
        found = EXACT.create_decimal(value)
        after = min(digits, -int(found.as_tuple().exponent))
        return EXACT.normalize(EXACT.quantize(found, Decimal(1).scaleb(-after)))

    return Counter(tuple(None if v is None else number(v) for v in row) for row in rows)


def _values(rows: list[tuple[Any, ...]]) -> str:
    return ", ".join("(" + ", ".join("NULL" if v is None else str(v) for v in row) + ")" for row in rows)


@pytest.mark.parametrize("shards", [0, 2])
def test_digits_are_postgresqls(postgres: Postgres, shards: int) -> None:
    db = local_shards(shards=shards) if shards else ev.connect()
    table = db.sql(TABLE)
    for name, text in VIEWS.items():
        db.sql(f"CREATE VIEW {name} AS {text}")
    chance = random.Random(16 + shards)
    rows: list[tuple[Any, ...]] = []
    for _ in range(8):
        gone = chance.sample(rows, len(rows) // 2)
        new = [_row(chance) for _ in range(chance.randrange(1, 12))]
        with db.transaction():
            table.delete(gone)
            table.insert(new)
        rows = [*(Counter(rows) - Counter(gone)).elements(), *new]
        postgres.run(f"DROP TABLE IF EXISTS t; {TABLE}; INSERT INTO t VALUES {_values(rows)}")
        for name, text in VIEWS.items():
            wanted = postgres.rows(text)
            digits = 9 if name == "numerics" else 40  # how many zeros a number without a scale ended in is not known
            assert _same(db[name].rows(), digits) == _same(wanted, digits), name
            assert _same(db.sql(text).rows(), digits) == _same(wanted, digits), name
    table.delete(rows)
    assert db["averages"].rows() == [] and db["whole"].rows() == [(None, None, None, None)]


def test_types_are_said_and_other_dialects_keep_theirs() -> None:
    db = ev.connect()
    db.sql("CREATE TABLE t (x decimal(10, 2), d double precision, i int)")
    db.sql("CREATE VIEW v AS SELECT avg(x) AS a, avg(d) AS b, avg(i) AS c, stddev(d) AS e, stddev(x) AS f FROM t")
    assert [t.kind for t in relation_of(db["v"]).node.types] == ["numeric", "float", "float", "float", "numeric"]
    db.sql("SET dialect = 'duckdb'")
    db.sql("CREATE VIEW w AS SELECT avg(x) AS a, avg(x / 3) AS b, stddev(x) AS c FROM t")
    assert {t.kind for t in relation_of(db["w"]).node.types} == {"float"}


def test_large_decimals_do_not_lose_digits_in_their_squares() -> None:
    db = ev.connect()
    table = db.sql("CREATE TABLE t (x decimal(18, 2))")
    view = db.sql("CREATE VIEW v AS SELECT var_pop(x) AS p, variance(x) AS s FROM t")
    large = Decimal("4999999999999999.00")
    table.insert([(large,), (large - Decimal("0.01"),)])
    assert view.rows() == [(Decimal("0.000025"), Decimal("0.00005"))]
    table.insert([(-large,), (-large,)])
    table.delete([(large,), (large - Decimal("0.01"),)])
    assert view.rows() == [(Decimal(0), Decimal(0))]


@pytest.mark.parametrize("shards", [0, 2])
def test_try_cast_is_null_where_a_cast_fails(shards: int) -> None:
    db = local_shards(shards=shards) if shards else ev.connect()
    table = db.sql("CREATE TABLE t (x text, y int)")
    view = db.sql("""
        CREATE VIEW v AS SELECT TRY_CAST(x AS int) AS i, TRY_CAST(x AS date) AS d, TRY_CAST(x AS numeric(6, 2)) AS n,
                                TRY_CAST(y AS smallint) AS s FROM t
    """)
    db.sql("INSERT INTO t VALUES ('1', 1), ('a', 70000), (NULL, NULL), ('2020-01-01', 3), ('12345.678', 4)")
    found = sorted(map(str, view.rows()))
    assert found == sorted([
        "(1, None, Decimal('1.00'), 1)",
        "(None, None, None, None)",
        "(None, None, None, None)",
        "(None, datetime.date(2020, 1, 1), None, 3)",
        "(None, None, None, 4)",
    ])  # fmt: skip
    table.delete([("a", 70000)])
    assert len(view.rows()) == 4
    assert db.sql("SELECT TRY_CAST('x' AS int) AS a, TRY_CAST('7' AS int) + 1 AS b").rows() == [(None, 8)]
    for failing in ("TRY_CAST(1 / (y - 3) AS int)", "TRY_CAST(x AS int), x::int"):
        with pytest.raises(ev.RowErrors):  # only the cast itself is tried
            db.sql(f"SELECT {failing} FROM t").rows()
