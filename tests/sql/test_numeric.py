"""Numerics without a scale: nothing is rounded, over groups, windows, directories and shards, and TPC-H on them.

The oracle is Python's exact arithmetic; for TPC-H it is DuckDB over DECIMAL(15, 2).
"""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import everview as ev
from everview.session.local_shards import local_shards
from tests.sql import harness
from tests.sql.test_tpch import HERE, QUERIES, TABLES, _plain

EXACT = Context(prec=150)

VIEWS = {
    "sums": "SELECT k, sum(n) AS s, sum(n * m * (1 - d) * (1 + d)) AS p, min(n) AS lo, max(n) AS hi FROM t GROUP BY k",
    "running": "SELECT k, n, sum(n) OVER (PARTITION BY k ORDER BY n, m) AS r, sum(m) OVER (PARTITION BY k) AS w FROM t",
    "parts": "SELECT n + m AS a, n - m AS b, n * 2 AS c, -n AS e, abs(n) AS f, n > m AS g FROM t",
    "groups": "SELECT n, count(*) AS c FROM t GROUP BY n",
    "pairs": "SELECT a.k, b.k AS l FROM t a JOIN t b ON a.n = b.m",
}


def _number(chance: random.Random) -> Decimal | None:
    if chance.random() < 0.1:
        return None
    digits = chance.choice((1, 3, 12, 18, 19, 30))
    return Decimal(chance.randrange(-(10**digits), 10**digits)).scaleb(-chance.choice((0, 1, 2, 7, 15)))


def _total(values: list[Decimal | None]) -> Decimal | None:
    known = [v for v in values if v is not None]
    total = Decimal(0)
    for value in known:
        total = EXACT.add(total, value)
    return total if known else None


def _product(n: Decimal | None, m: Decimal | None, d: Decimal | None) -> Decimal | None:
    if n is None or m is None or d is None:
        return None
    both = EXACT.multiply(EXACT.subtract(Decimal(1), d), EXACT.add(Decimal(1), d))
    return EXACT.multiply(EXACT.multiply(n, m), both)


def _wanted(rows: list[tuple[Any, ...]]) -> dict[str, list[tuple[Any, ...]]]:
    """The views' rows from scratch."""
    by: dict[int, list[tuple[Any, ...]]] = {}
    for row in rows:
        by.setdefault(row[0], []).append(row)
    sums, running = [], []
    for k, mine in by.items():
        known = [n for _, n, _, _ in mine if n is not None]
        total = _total([_product(n, m, d) for _, n, m, d in mine])
        sums.append((k, _total([r[1] for r in mine]), total, min(known, default=None), max(known, default=None)))
        order = sorted(mine, key=lambda r: (r[1] is None, r[1] or 0, r[2] is None, r[2] or 0))
        for row in order:
            peers = [r for r in order if order.index(r) <= order.index(row) or r[1:3] == row[1:3]]
            running.append((k, row[1], _total([r[1] for r in peers]), _total([r[2] for r in mine])))
    parts = [_parts(n, m) for _, n, m, _ in rows]
    groups = [*Counter(r[1] for r in rows).items()]
    pairs = [(a[0], b[0]) for a in rows for b in rows if a[1] is not None and a[1] == b[2]]
    return {"sums": sums, "running": running, "parts": parts, "groups": groups, "pairs": pairs}


def _parts(n: Decimal | None, m: Decimal | None) -> tuple[Any, ...]:
    one = (None, None) if n is None else (EXACT.multiply(n, Decimal(2)), n.copy_negate(), n.copy_abs())
    both = (None, None) if n is None or m is None else (EXACT.add(n, m), EXACT.subtract(n, m))
    return (*both, *(one if n is not None else (None, None, None)), None if n is None or m is None else n > m)


def _check(db: ev.Session, rows: list[tuple[Any, ...]]) -> None:
    for name, wanted in _wanted(rows).items():
        assert Counter(db[name].rows()) == Counter(wanted), name


@pytest.mark.parametrize("shards", [0, 2])
def test_nothing_is_rounded(shards: int) -> None:
    db = local_shards(shards=shards) if shards else ev.connect()
    table = db.sql("CREATE TABLE t (k int NOT NULL, n numeric, m numeric, d decimal(4, 2))")
    for name, text in VIEWS.items():
        db.sql(f"CREATE VIEW {name} AS {text}")
    chance = random.Random(3)
    rows: list[tuple[Any, ...]] = []
    for _ in range(5):
        gone = chance.sample(rows, len(rows) // 3)
        new = [
            (chance.randrange(3), _number(chance), _small(chance), Decimal(chance.randrange(11)) / 100)
            for _ in range(8)
        ]
        with db.transaction():
            table.delete(gone)
            table.insert(new)
        for row in gone:
            rows.remove(row)
        rows += new
        _check(db, rows)
    table.delete(rows)
    _check(db, [])


def _small(chance: random.Random) -> Decimal | None:
    return None if chance.random() < 0.1 else Decimal(chance.randrange(-9999, 9999)).scaleb(-chance.choice((0, 4)))


def test_quotients_and_averages_have_as_many_digits_as_in_postgresql() -> None:
    db = ev.connect()
    row = db.sql("""
        SELECT 1::numeric / 3 AS a, 100::numeric / 7 AS b, 0.001::numeric / 3 AS c, 123456.789::numeric / 0.07 AS d,
               avg(x) AS e FROM (VALUES (1::numeric), (2), (2)) AS v(x)
    """).rows()
    assert [str(value) for value in row[0]] == [
        "0.33333333333333333333",
        "14.2857142857142857",
        "0.00033333333333333333",
        "1763668.414285714286",
        "1.6666666666666667",
    ]


def test_idle_zeros_make_no_difference() -> None:
    db = ev.connect()
    db.sql("CREATE TABLE t (n numeric); CREATE VIEW v AS SELECT n, count(*) AS c FROM t GROUP BY n")
    db.sql("INSERT INTO t VALUES (1.50), (1.5), ('1.500'), (1e2), (100.0), (0.00)")
    assert sorted(db["v"].rows()) == [(Decimal(0), 1), (Decimal("1.5"), 3), (Decimal(100), 2)]
    assert str(db.sql("SELECT n::text AS t FROM t WHERE n = 100 LIMIT 1").rows()) == "[('100',)]"
    db.sql("DELETE FROM t WHERE n = 1.5000")
    assert sorted(db["v"].rows()) == [(Decimal(0), 1), (Decimal(100), 2)]


def test_what_does_not_fit_is_refused_not_rounded() -> None:
    db = ev.connect()
    table = db.sql("CREATE TABLE t (n numeric)")
    for number in (Decimal(10) ** 38, Decimal("1e-39"), Decimal("NaN")):
        with pytest.raises(ev.InputError, match="E_RANGE"):
            table.insert([(number,)])
    product = db.sql("CREATE VIEW p AS SELECT n * n AS p FROM t")
    table.insert([(Decimal(10) ** 20,)])
    with pytest.raises(ev.RowErrors):
        product.rows()
    table.delete([(Decimal(10) ** 20,)])
    table.insert([(Decimal("1e-19"),)])
    assert product.rows() == [(Decimal("1e-38"),)]


def test_products_of_decimals_that_need_more_digits_are_numerics() -> None:
    db = ev.connect()
    db.sql("CREATE TABLE t (a decimal(18, 10), b decimal(18, 10))")
    product = db.sql("CREATE VIEW p AS SELECT a * b AS p, sum(a * b) OVER () AS s FROM t")
    db.sql("INSERT INTO t VALUES (0.0000000001, 12345678.0000000001)")
    assert product.rows() == [(Decimal("0.00123456780000000001"),) * 2]


def test_halves_are_rounded_away_from_zero_wherever_a_text_becomes_a_decimal() -> None:
    db = ev.connect()
    db.sql("CREATE TABLE t (n decimal(10, 1))")
    db.sql("INSERT INTO t VALUES ('0.25'), ('-0.25')")
    assert sorted(db["t"].rows()) == [(Decimal("-0.3"),), (Decimal("0.3"),)]
    assert db.sql("SELECT '2.5'::decimal(4, 0) AS n").rows() == [(Decimal(3),)]


def test_decimals_without_digits_follow_the_dialect() -> None:
    db = ev.connect()
    made = {}
    for dialect in ("postgres", "duckdb", "spark"):
        db.sql(f"SET dialect = '{dialect}'")
        made[dialect] = db.sql("SELECT CAST('1.23456' AS decimal) AS n").rows()[0][0]
    assert {name: str(value) for name, value in made.items()} == {
        "postgres": "1.23456",
        "duckdb": "1.235",
        "spark": "1",
    }


def test_statistics_and_functions_of_numerics() -> None:
    db = ev.connect()
    db.sql("CREATE TABLE t (n numeric)")
    db.sql("INSERT INTO t VALUES (1.5), (2.5), (4)")
    found = db.sql("SELECT stddev_pop(n) AS a, median(n) AS b, corr(n, n) AS c, avg(n) OVER () AS d FROM t GROUP BY n")
    assert len(found.rows()) == 3
    row = db.sql("SELECT var_pop(n) AS a, median(n) AS b, corr(n, n) AS c FROM t").rows()[0]
    assert row == (Decimal("1.05555555555555555556"), 2.5, 1.0)
    text = "SELECT sqrt(n) AS a, trunc(n) AS b, round(n, 0) AS c, to_char(n, '9.99') AS d FROM t WHERE n = 2.5"
    assert db.sql(text).rows() == [(pytest.approx(1.5811388), Decimal(2), Decimal(3), " 2.50")]


def test_numerics_in_directories_and_arrow(tmp_path: Path) -> None:
    with ev.connect(tmp_path / "db") as db:
        db.sql("CREATE TABLE t (k int, n numeric, l numeric[])")
        db.sql("CREATE VIEW v AS SELECT k, sum(n) AS s FROM t GROUP BY k")
        db.sql("INSERT INTO t VALUES (1, 0.12345678901234567890123, ARRAY[1.50, NULL])")
    with ev.connect(tmp_path / "db") as db:
        db.sql("INSERT INTO t VALUES (1, 12345678901234567890, NULL)")
        assert db["v"].rows() == [(1, Decimal("12345678901234567890.12345678901234567890123"))]
        assert db.sql("SELECT l FROM t WHERE l IS NOT NULL").rows() == [([Decimal("1.5"), None],)]
        arrow = db["v"].to_arrow()
        assert arrow.schema.field("s").type == pa.string()  # neither Spark nor polars nor DuckDB has so many digits
        assert db["v"].to_polars()["s"].to_list() == ["12345678901234567890.12345678901234567890123"]
        other = db.table("u", {"k": "int?", "s": "numeric?"})
        other.insert(arrow)
        assert other.rows() == db["v"].rows()
        assert db.sql("DESCRIBE t").rows()[1][:2] == ("n", "numeric")


@pytest.mark.parametrize("ext", ["csv", "json", "parquet"])
def test_numerics_in_files(tmp_path: Path, ext: str) -> None:
    db = ev.connect()
    db.sql("CREATE TABLE t (k int, n numeric); CREATE TABLE u (k int, n numeric)")
    db.sql("INSERT INTO t VALUES (1, 0.12345678901234567890123), (2, 100), (3, NULL)")
    db.sql(f"COPY t TO '{tmp_path}/t.{ext}'")
    db.sql(f"COPY u FROM '{tmp_path}/t.{ext}'")
    assert sorted(db["u"].rows()) == sorted(db["t"].rows())


def test_texts_that_are_no_numbers_are_refused() -> None:
    table = ev.connect().table("t", {"n": "numeric"})
    table.insert(pa.table({"n": ["1.50"]}))
    assert table.rows() == [(Decimal("1.5"),)]
    for bad in ("x", "NaN", "1e50"):
        with pytest.raises(ev.InputError):
            table.insert(pa.table({"n": [bad]}))


# ------------------------------------------------------------------------------------------------------- TPC-H


@pytest.fixture(scope="module")
def tpch(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pa.Table]:
    command = Path(sys.executable).with_name("tpchgen-cli")
    if not command.exists():
        pytest.skip("tpchgen-cli is not installed (pip install -e '.[dev]')")
    folder = tmp_path_factory.mktemp("tpch")
    subprocess.run([command, "parquet", "-s", "0.001", f"--output-dir={folder}"], check=True, capture_output=True)
    return {name: _plain(pq.read_table(folder / f"{name}.parquet")) for name in TABLES}


def _differing(db: ev.Session, data: dict[str, pa.Table], queries: dict[str, str]) -> dict[str, str]:
    oracle = duckdb.connect()
    oracle.execute("SET threads = 1")
    for name, table in data.items():
        oracle.register(name, table)
    found = {n: harness.difference(db[n].rows(), oracle.execute(q).fetchall()) for n, q in queries.items()}
    exact = "SELECT sum(l_extendedprice * (1 - l_discount) * (1 + l_tax))::decimal(38, 6) FROM lineitem"
    ours, theirs = db["charge"].rows()[0][0], oracle.execute(exact).fetchall()[0][0]
    found["charge"] = "" if ours == theirs else f"{ours}, not {theirs}"
    return {name: problem for name, problem in found.items() if problem}


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(("q01", "q06", "q14"), id="some"),
        pytest.param(tuple(QUERIES), id="all", marks=[pytest.mark.slow, pytest.mark.long]),
    ],
)
def test_tpch_on_numeric_columns(tpch: dict[str, pa.Table], names: tuple[str, ...]) -> None:
    """Views before the data, then all rows, then a third of the orders gone."""
    queries = {name: QUERIES[name] for name in names}
    db = ev.connect()
    db.sql((HERE / "schema.sql").read_text().replace("decimal(15,2)", "NUMERIC"))
    for name, text in queries.items():
        db.sql(f"CREATE VIEW {name} AS {text}")
    db.sql("CREATE VIEW charge AS SELECT sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS c FROM lineitem")
    with db.transaction():
        for name, table in tpch.items():
            db[name].insert(table)
    assert _differing(db, tpch, queries) == {}
    db.sql("DELETE FROM lineitem WHERE l_orderkey % 3 = 0")
    kept = _without_third(tpch)
    assert _differing(db, {**tpch, "lineitem": kept}, queries) == {}


def _without_third(data: dict[str, pa.Table]) -> pa.Table:
    lines = data["lineitem"]
    keep = [key % 3 != 0 for key in lines["l_orderkey"].to_pylist()]
    return lines.filter(pa.array(keep))
