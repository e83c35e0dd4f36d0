"""Types against PostgreSQL: texts of constant expressions, and views under inserts and deletes on both runtimes."""

from __future__ import annotations

import datetime as dt
import random
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import everview as ev
from everview.session.local_shards import local_shards
from tests.sql.postgres import Postgres

EXPRESSIONS = Path(__file__).with_name("types_expressions.txt")

COLUMNS = {
    "id": "int", "k": "int", "tz": "timestamptz", "ts": "timestamp", "ti": "time", "i": "interval", "u": "uuid",
    "j": "jsonb", "l": "int[]", "w": "text[]", "n": "numeric(38,10)", "c": "char(4)", "s": "smallint", "m": "mood",
}  # fmt: skip

QUERIES = {
    "all": "SELECT * FROM t",
    "groups": "SELECT k, count(*), max(n), min(n), max(tz), min(ti), max(m), min(m), max(c), min(s) FROM t GROUP BY k",
    "sums": "SELECT k, sum(n), sum(i), sum(s)::numeric(38,0) FROM t GROUP BY k",
    "average": "SELECT k, avg(n)::numeric(38,6) FROM t GROUP BY k",
    "by_uuid": "SELECT u, count(*), sum(n * 2) FROM t GROUP BY u",
    "by_json": "SELECT j, count(*) FROM t GROUP BY j",
    "by_array": "SELECT l, w, count(*) FROM t GROUP BY l, w",
    "by_enum": "SELECT m, count(*) FROM t WHERE m > 'low' GROUP BY m",
    "by_char": "SELECT c, count(*) FROM t GROUP BY c",
    "by_moment": "SELECT date_trunc('day', tz), ti, count(*) FROM t GROUP BY 1, 2",
    "joined": "SELECT a.id, b.id FROM t a JOIN t b ON a.n = b.n AND a.id < b.id",
    "joined_spans": "SELECT a.id, b.id FROM t a JOIN t b ON a.i = b.i AND a.id < b.id",
    "joined_arrays": "SELECT a.id, b.id FROM t a JOIN t b ON a.l = b.l AND a.m = b.m AND a.id < b.id",
    "left": "SELECT a.id, b.c FROM t a LEFT JOIN t b ON a.u = b.u AND a.c = b.c AND b.s > 1",
    "arithmetic": "SELECT id, ts + i, tz - i, ts - timestamp '2024-01-01', ti + i, n * 3 - s, -i, i * 2 FROM t",
    "compared": "SELECT id FROM t WHERE i > interval '29 days' AND (n > 1.5 OR tz >= '2024-02-01 00:00+00' "
    "OR ti < '12:00')",
    "zones": "SELECT id, tz AT TIME ZONE 'Europe/Oslo', ts AT TIME ZONE 'America/New_York', tz::date FROM t",
    "paths": "SELECT id, j -> 'a', j ->> 'b', j #>> '{a,0}', j @> '{\"b\": 1}', j ? 'a', jsonb_typeof(j) FROM t",
    "places": "SELECT id, l[1], l[2:], l || 7, 2 = ANY(l), 2 < ALL(l), cardinality(w), array_to_string(w, '-') FROM t",
    "lists": "SELECT k, array_agg(s ORDER BY id), jsonb_agg(j ORDER BY id), array_agg(m ORDER BY m, id) FROM t "
    "GROUP BY k",
    "objects": "SELECT k, jsonb_object_agg(id::text, l) FROM t GROUP BY k",
    "windows": "SELECT id, row_number() OVER (PARTITION BY k ORDER BY n, id), lag(l) OVER (ORDER BY id), "
    "max(m) OVER (PARTITION BY k), rank() OVER (ORDER BY i) FROM t",
    "first": "SELECT DISTINCT ON (k) k, id, n FROM t ORDER BY k, n DESC, id",
    "top": "SELECT id, l FROM t WHERE l IS NOT NULL ORDER BY l DESC, id LIMIT 3",
    "union": "SELECT n, l, u FROM t WHERE k = 1 UNION SELECT n, l, u FROM t WHERE k = 2",
    "cases": "SELECT id, CASE WHEN k = 1 THEN j ELSE '{}' END, coalesce(l, '{9}'), nullif(m, 'high'), greatest(n, s) "
    "FROM t",
    "unnested": "SELECT t.id, e.v, e.o FROM t, unnest(t.l) WITH ORDINALITY AS e(v, o)",
    "elements": "SELECT t.id, e.value FROM t, jsonb_array_elements(t.j -> 'a') AS e(value)",
    "texts": "SELECT id, tz::text, i::text, u::text, l::text, n::text, c::text || '|', m::text, ti::text FROM t",
    "sorted_spans": "SELECT k, max(i), min(i) FROM t WHERE i <> interval '30 days' GROUP BY k",
}  # fmt: skip


def test_constants_are_printed_as_postgres_prints_them(postgres: Postgres) -> None:
    db = ev.connect()
    lines = [line for line in EXPRESSIONS.read_text().split("\n") if line.strip() and not line.startswith("#")]
    assert len(lines) > 200
    wrong = []
    for line in lines:
        ours, _, theirs = line.partition(" ---- ")
        expected = postgres.rows(f"SELECT ({theirs or ours})::text")[0][0]
        try:
            found = db.sql(f"SELECT ({ours})::text").rows()[0][0]
        except ev.EverviewError as error:
            found = str(error)
        if found != expected:
            wrong.append(f"{ours}: {found!r}, PostgreSQL {expected!r}")
    assert not wrong, "\n".join(wrong)


def _value(kind: str, r: random.Random) -> str:
    """A random constant of a type, as SQL writes it."""
    match kind:
        case "int" | "smallint":
            return str(r.randint(-3, 5))
        case "timestamptz" | "timestamp":
            return (
                f"'2024-0{r.randint(1, 3)}-{r.choice(('01', '15'))} {r.choice(('00', '10:30:00.5', '23:59'))}'".replace(
                    " 00'", " 00:00'"
                )
            )
        case "time":
            return f"'{r.choice(('00:00', '08:15:00.25', '23:59:59'))}'"
        case "interval":
            return f"'{r.choice(('1 month', '30 days', '1 day 02:00', '-3 hours', '25 hours', '1 year 2 days'))}'"
        case "uuid":
            return f"'{uuid.UUID(int=r.randint(1, 4) << 90)}'"
        case "jsonb":
            return r.choice(
                [
                    """'{"a": [1, "x", null], "b": 1}'""",
                    """'{"b": 2, "a": [2.5]}'""",
                    "'[1, 2]'",
                    "'\"s\"'",
                    "'null'",
                    "'5'",
                ]
            )
        case "int[]":
            return r.choice(["'{}'", "'{1,2}'", "ARRAY[2, 3]", "'{NULL,2}'", "'{1,2,3}'"])
        case "text[]":
            return r.choice(["'{}'", "'{a,b}'", "ARRAY['x y', 'z']", "'{NULL}'"])
        case "numeric(38,10)":
            return r.choice(["12345678901234567890.5", "-0.0000000001", "1.5", "99999999999999999999999999", "0"])
        case "char(4)":
            return r.choice(["'ab'", "'ab  '", "'abcd'", "''"])
    return f"'{r.choice(('low', 'middle', 'high'))}'"


def _row(number: int, r: random.Random) -> str:
    values = [str(number), str(r.randint(1, 3))]
    values += ["NULL" if r.random() < 0.2 else _value(kind, r) for kind in [*COLUMNS.values()][2:]]
    return f"({', '.join(values)})"


def _texts(db: ev.Session, name: str) -> list[tuple[Any, ...]]:
    columns = ", ".join(f"{c}::text" for (c, *_) in db.sql(f"DESCRIBE {name}").rows())
    return sorted(db.sql(f"SELECT {columns} FROM {name}").rows(), key=repr)


def _their_texts(postgres: Postgres, query: str) -> list[tuple[Any, ...]]:
    booleans = {"t": "true", "f": "false"}
    rows = postgres.rows(query)
    return sorted((tuple(booleans.get(v or "", v) for v in row) for row in rows), key=repr)


def _plain(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Numbers without idle zeros (scales differ), and texts without the blanks that char(n) ends with."""
    return sorted((tuple(None if v is None else _number(v.rstrip(" ")) for v in row) for row in rows), key=repr)


def _number(text: str) -> str:
    try:
        return format(Decimal(text).normalize(), "f") if text and text[-1].isdigit() and "e" not in text else text
    except ArithmeticError:
        return text


@pytest.mark.parametrize("shards", [0, 2])
def test_views_follow_changes(postgres: Postgres, shards: int) -> None:
    db = local_shards(shards=shards) if shards else ev.connect()
    table = f"CREATE TABLE t ({', '.join(f'{name} {kind}' for name, kind in COLUMNS.items())})"
    for run in (db.sql, postgres.run):
        run("CREATE TYPE mood AS ENUM ('low', 'middle', 'high')")
        run(table)
    # doubled output names cannot be a view's
    for name, query in QUERIES.items():
        width = len(postgres.rows(f"SELECT * FROM (SELECT 1) one LEFT JOIN LATERAL ({query}) q ON true LIMIT 1")[0]) - 1
        listed = ", ".join(f"c{i}" for i in range(width))
        db.sql(f"CREATE VIEW v_{name} ({listed}) AS {query}")
    r = random.Random(7)
    wrong = []
    for step in range(3):
        changes = [f"INSERT INTO t VALUES {', '.join(_row(step * 100 + i, r) for i in range(12))}"]
        if step:
            changes.append(f"DELETE FROM t WHERE id % 3 = {r.randint(0, 2)}")
            changes.append(f"UPDATE t SET n = n + 1, l = l || 4, j = '{{}}', m = 'low' WHERE k = {r.randint(1, 3)}")
        for change in changes:
            db.sql(change)
            postgres.run(change)
        for name, query in QUERIES.items():
            ours, theirs = _plain(_texts(db, f"v_{name}")), _plain(_their_texts(postgres, query))
            if ours != theirs:
                only = [row for row in ours if row not in theirs], [row for row in theirs if row not in ours]
                wrong.append(f"{name} after {step}: only here {only[0][:3]}, only PostgreSQL {only[1][:3]}")
    db.close()
    assert not wrong, "\n".join(wrong)


def test_values_in_python_and_arrow() -> None:
    db = ev.connect()
    db.sql("CREATE TYPE mood AS ENUM ('low', 'high')")
    db.sql(
        "CREATE TABLE t (tz timestamptz, ti time, i interval, u uuid, j jsonb, l int[], r struct<x int, y text>, "
        "p map(text, int), n numeric(38, 2), c char(3), s smallint, b utinyint, m mood)"
    )
    row = (
        dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC), dt.time(10, 30), ev.Interval(months=1, days=2), uuid.UUID(int=5),
        {"a": [1, None]}, [1, None], {"x": 1, "y": None}, {"k": 2}, Decimal("12345678901234567890.25"), "ab ", -5, 255,
        "high",
    )  # fmt: skip
    table = db["t"]
    assert isinstance(table, ev.Table)
    table.insert([row, (None,) * len(row)])
    assert sorted(table.rows(), key=repr) == sorted([row, (None,) * len(row)], key=repr)
    arrow = db.sql("SELECT * FROM t").to_arrow()
    kinds = [pa.timestamp("us", "UTC"), pa.time64("us"), pa.month_day_nano_interval(), pa.string(), pa.string()]
    kinds += [
        pa.list_(pa.int64()),
        pa.struct([("x", pa.int64()), ("y", pa.string())]),
        pa.map_(pa.string(), pa.int64()),
    ]
    kinds += [pa.decimal128(38, 2), pa.string(), pa.int16(), pa.uint8(), pa.dictionary(pa.int32(), pa.string())]
    assert arrow.schema.types == kinds
    db.sql("DELETE FROM t")
    table.insert(arrow)
    assert sorted(table.rows(), key=repr) == sorted([row, (None,) * len(row)], key=repr)
    table.delete([row])
    assert table.rows() == [(None,) * len(row)]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"s": 40000}, "does not fit int16"),
        ({"n": Decimal("1.234")}, "more than 2 digits after the point"),
        ({"n": Decimal(10) ** 37}, "needs more than 38 digits"),
        ({"m": "none"}, "the labels are 'low', 'high'"),
        ({"c": "abcd"}, "has 4 letters, not 3"),
        ({"l": 5}, "is an int, not an array(int?)"),
        ({"j": {1}}, "JSON has no set"),
        ({"i": ev.Interval(months=2**31)}, "is too long for an interval"),
    ],
)
def test_values_that_do_not_fit(value: dict[str, Any], says: str) -> None:
    db = ev.connect()
    columns = {"s": "int16?", "n": "numeric(38, 2)?", "m": "enum('low', 'high')?", "c": "char(3)?"}
    columns |= {"l": "array(int)?", "j": "json?", "i": "interval?"}
    table = db.table("t", columns)
    with pytest.raises(ev.InputError) as caught:
        table.insert([{**dict.fromkeys(columns), **value}])
    assert says in str(caught.value)


def test_values_are_kept_in_a_directory(tmp_path: Path) -> None:
    where = str(tmp_path / "state")
    with ev.connect(where) as db:
        db.sql("CREATE TYPE mood AS ENUM ('low', 'high')")
        db.sql("CREATE TABLE t (id int PRIMARY KEY, m mood, n numeric(38, 5), l text[], j jsonb, i interval, u uuid)")
        db.sql(
            "CREATE VIEW v AS SELECT m, sum(n) AS n, max(i) AS i, array_agg(l ORDER BY id) AS l FROM t "
            "WHERE j @> '{\"a\": 1}' AND u <> '00000000-0000-0000-0000-000000000000' GROUP BY m"
        )
        db.sql(
            "INSERT INTO t VALUES (1, 'high', 12345678901234567890.5, '{a,NULL}', '{\"a\": 1}', '1 mon', "
            "'550e8400-e29b-41d4-a716-446655440000'), (2, 'low', 1, '{}', '{\"a\": 2}', '1 day', NULL)"
        )
        before, kept = db["t"].rows(), db["v"].rows()
    with ev.connect(where) as db:
        assert sorted(db["t"].rows(), key=repr) == sorted(before, key=repr)
        assert db["v"].rows() == kept != []
        db.sql("UPDATE t SET j = '{\"a\": 1}', u = '550e8400-e29b-41d4-a716-446655440000' WHERE id = 2")
        assert sorted(row[0] for row in db["v"].rows()) == ["high", "low"]


def test_values_are_read_from_files(tmp_path: Path) -> None:
    line = (
        '1,550e8400-e29b-41d4-a716-446655440000,1 mon,"{""a"": 1}","{1,2}",12345678901234567890.5,2024-01-01 00:00+01'
    )
    (tmp_path / "a.csv").write_text(f"id,u,i,j,l,n,tz\n{line}\n")
    record = '{"id": 1, "u": "550e8400-e29b-41d4-a716-446655440000", "i": "1 mon", "j": {"a": 1}, "l": [1, 2], '
    (tmp_path / "a.jsonl").write_text(record + '"n": "12345678901234567890.5", "tz": "2024-01-01 00:00+01"}\n')
    columns = "id int, u uuid, i interval, j jsonb, l int[], n numeric(38, 2), tz timestamptz"
    expected = (
        1, uuid.UUID("550e8400-e29b-41d4-a716-446655440000"), ev.Interval(months=1), {"a": 1}, [1, 2],
        Decimal("12345678901234567890.50"), dt.datetime(2023, 12, 31, 23, tzinfo=dt.UTC),
    )  # fmt: skip
    for name in ("a.csv", "a.jsonl"):
        db = ev.connect()
        db.sql(f"CREATE SOURCE t ({columns}) FROM '{tmp_path / name}'; RUN UNTIL CAUGHT UP")
        assert db["t"].rows() == [expected], name
        db.close()


def test_the_zone_of_the_session(postgres: Postgres) -> None:
    db = ev.connect()
    for run in (db.sql, postgres.run):
        run("SET TIME ZONE 'Europe/Oslo'")
    wrong = []
    for each in (
        "timestamptz '2024-03-31 02:30'", "timestamptz '2024-10-27 02:30'", "timestamptz '2024-07-01 12:00+00'",
        "(timestamptz '2024-07-01 22:30+00')::date", "date_trunc('day', timestamptz '2024-07-01 22:30+00')",
        "timestamptz '2024-03-30 12:00' + interval '1 day'", "timestamptz '2024-03-30 12:00' + interval '24 hours'",
        "timestamptz '2024-01-01' > timestamp '2023-12-31 23:30'", "(timestamp '2024-01-01')::timestamptz",
        "extract(hour from timestamptz '2024-07-01 12:00+00')::int",
        "'2024-01-01 00:00'::timestamptz AT TIME ZONE 'UTC'",
        "timestamptz '2024-03-31 12:00' - timestamptz '2024-03-30 12:00'",
    ):  # fmt: skip
        ours, theirs = db.sql(f"SELECT ({each})::text").rows()[0][0], postgres.rows(f"SELECT ({each})::text")[0][0]
        if ours != theirs:
            wrong.append(f"{each}: {ours!r}, PostgreSQL {theirs!r}")
    assert not wrong, "\n".join(wrong)


def test_json_tells_numbers_from_truth() -> None:
    db = ev.connect()
    db.sql("CREATE TABLE t (id int, j jsonb)")
    one = db.sql("CREATE VIEW one AS SELECT id FROM t WHERE j = '1'")
    true = db.sql("CREATE VIEW yes AS SELECT id FROM t WHERE j = 'true'")
    lists = db.sql("CREATE VIEW lists AS SELECT id FROM t WHERE j = '[true]'")
    db.sql("INSERT INTO t VALUES (1, '1'), (2, 'true'), (3, '1.0'), (4, '[1]'), (5, '[true]'), (6, 'null'), (7, NULL)")
    assert sorted(one.rows()) == [(1,), (3,)]
    assert true.rows() == [(2,)]
    assert lists.rows() == [(5,)]
    assert db.sql("SELECT id FROM t WHERE j IS NULL").rows() == [(7,)]
    assert ev.JSON_NULL in [row[1] for row in db["t"].rows()]


def test_types_are_made_and_dropped() -> None:
    db = ev.connect()
    db.sql("CREATE TYPE mood AS ENUM ('low', 'high')")
    with pytest.raises(ev.PlanError, match="is there already"):
        db.sql("CREATE TYPE mood AS ENUM ('x')")
    db.sql("CREATE TABLE t (m mood)")
    with pytest.raises(ev.PlanError, match="the table t has values of mood"):
        db.sql("DROP TYPE mood")
    db.sql("DROP TABLE t; DROP TYPE mood; DROP TYPE IF EXISTS mood")
    with pytest.raises(ev.PlanError, match="there is no type mood"):
        db.sql("CREATE TABLE t (m mood)")


def test_sums_of_many_digits_are_exact() -> None:
    db = ev.connect()
    db.sql("CREATE TABLE t (n numeric(38, 2))")
    total = db.sql("CREATE VIEW total AS SELECT sum(n) AS s FROM t")
    db.sql("INSERT INTO t VALUES (99999999999999999999999999999999.99), (0.01), (-5)")
    assert total.rows()[0][0] == Decimal("99999999999999999999999999999995.00")
    db.sql("DELETE FROM t WHERE n = -5")
    assert total.rows()[0][0] == Decimal("100000000000000000000000000000000.00")
    db.sql("CREATE VIEW product AS SELECT n * n AS p FROM t")
    with pytest.raises(ev.RowErrors):
        db["product"].rows()
