"""Every function of SQL with arguments that make sense to nobody: what comes out is an answer, or an error of ours.

Three of four calls get values of the kinds that a signature asks for, among them the largest, the smallest and the
strangest; the others get anything, in any number. Functions of the library are called as themselves, all others by name
too, as scalars, as aggregates and over windows. EVERVIEW_SEED and EVERVIEW_CALLS say which and how many the long form
makes.
"""

from __future__ import annotations

import json
import os
import random
import sys
import traceback
from collections import Counter
from pathlib import Path

import pytest

import everview as ev
from everview.expr import functions
from everview.expr.library import LIBRARY
from tests.misuse.test_mutated_sql import SCHEMA

SEED = int(os.environ.get("EVERVIEW_SEED", "2"))
CALLS = int(os.environ.get("EVERVIEW_CALLS", "20000"))

VALUES: dict[str, list[str]] = {
    "text": [
        "''", "'x'", "'a b c'", "'%'", "'['", "'(a+)+$'", "'2026-01-31'", "'\u00e9\U0001f600'", "repeat('x', 1000)",
        "s", "'YYYY-MM-DD'", "'999.99'", "'g'", "'utf8'", "'base64'", "'hex'", "'day'", "'UTC'", "'Nowhere/City'",
        "'$.a'", """'{"a": 1}'""", f"'{'9' * 60}'", r"'\'", "'%s %I %L %5$s %-3s'", "'1e999'", "'12:99'", "'Infinity'",
    ],
    "int": ["0", "-1", "1", "2", "7", str(2**63 - 1), str(-(2**63)), "99999999999", "a", "b"],
    "float": ["1.5e0", "-0.5e0", "1e308", "'NaN'::double", "'Infinity'::double", "1e-320", "x", "0e0", "-0e0"],
    "bool": ["true", "false", "p"],
    "bytes": [r"'\x00ff'::bytea", "''::bytea"],
    "date": ["DATE '2026-01-31'", "DATE '0001-01-01'", "DATE '9999-12-31'", "d"],
    "timestamp": [
        "TIMESTAMP '2026-01-31 10:00:00'", "TIMESTAMP '9999-12-31 23:59:59.999999'", "TIMESTAMP '0001-01-01 00:00:00'",
    ],
    "interval": ["INTERVAL '1 day'", "INTERVAL '99999999 days'", "INTERVAL '-1 second'", "INTERVAL '1 month'"],
    "time": ["TIME '10:00'", "TIME '23:59:59.999999'"],
    "texts": ["ARRAY['a', 'b']", "ARRAY['']", "ARRAY[NULL, 'x']"],
}  # fmt: skip
VALUES["number"] = [
    *VALUES["int"],
    *VALUES["float"],
    "1.25::decimal(9,2)",
    "m",
    "12345678901234567890.1::numeric(38,3)",
]
ANY = [
    *(text for texts in VALUES.values() for text in texts), "NULL", "ARRAY[1, 2, NULL]", "ARRAY[]::int[]", "now()",
    """'{"a": [1, 2]}'::json""", "'[1]'::json", "'null'::json", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid",
    "map(ARRAY['a'], ARRAY[1])", "ROW(1, 'x')", "-9999999999999999999999", "9" * 50, "*", "DISTINCT a", "(SELECT 1)",
]  # fmt: skip
NAMES = sorted(
    name
    for book in vars(functions).values()
    if isinstance(book, dict) and book and all(isinstance(key, str) for key in book)
    for name in book
    if name.isidentifier()
)
AGGREGATES = [
    "count", "sum", "avg", "min", "max", "bool_and", "bool_or", "every", "stddev", "stddev_pop", "variance", "var_pop",
    "string_agg", "array_agg", "median", "mode", "first_value", "last_value", "nth_value", "lag", "lead", "ntile",
    "rank", "row_number", "dense_rank", "percent_rank", "cume_dist", "json_agg", "json_object_agg", "corr", "covar_pop",
    "covar_samp", "regr_slope", "bit_and", "bit_or", "bit_xor", "any_value", "arg_max", "arg_min", "count_if",
    "approx_count_distinct", "grouping", "listagg", "group_concat", "quantile", "histogram",
]  # fmt: skip


def written(draw: random.Random) -> str:
    """A query with one odd call."""
    fate = draw.random()
    if fate < 0.6:
        name = draw.choice(sorted(LIBRARY))
        signature = draw.choice(LIBRARY[name].signatures)
        count = draw.randint(signature.needs, len(signature.takes) + 2 * signature.repeats)
        args = [draw.choice(VALUES.get(kind, ANY) if draw.random() < 0.9 else ANY) for kind in signature.wants(count)]
        return f"SELECT {name}({', '.join(args)}) AS r FROM t"
    args = [draw.choice(ANY) for _ in range(draw.choice((0, 1, 1, 1, 2, 2, 3, 4)))]
    if fate < 0.75:
        return f"SELECT {draw.choice(NAMES)}({', '.join(args)}) AS r FROM t"
    call = f"{draw.choice(AGGREGATES)}({', '.join(args)})"
    if fate < 0.82:
        return f"SELECT {call} AS r FROM t"
    if fate < 0.9:
        return f"SELECT b, {call} AS r FROM t GROUP BY b"
    part, order = draw.choice(["", "PARTITION BY b"]), draw.choice(["", "ORDER BY a", "ORDER BY x DESC, s"])
    frame = draw.choice(["", "ROWS 1 PRECEDING", "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"]) if order else ""
    return f"SELECT {call} OVER ({part} {order} {frame}) AS r FROM t"


def raw_errors(seed: int, count: int, became: Counter[str]) -> Counter[str]:
    """What came out that is not ours, by where it comes from; `became` counts answers and codes."""
    draw, found, db = random.Random(seed), Counter[str](), ev.connect(files=False)
    for text in SCHEMA:
        db.sql(text)
    for number in range(count):
        text = written(draw)
        try:
            db.sql(text).rows()
            became["answer"] += 1
        except ev.EverviewError as error:
            became[error.code] += 1
            if error.code == "E_INTERNAL":
                found[f"{error.message} in {text}"] += 1
        except Exception as error:
            place = traceback.extract_tb(sys.exc_info()[2])[-1]
            where = f"{Path(place.filename).name}:{place.lineno}"
            found[f"{number}: {type(error).__name__} at {where}: {error} in {text}"] += 1
    db.close()
    return found


def test_400_misused_functions() -> None:
    became: Counter[str] = Counter()
    assert raw_errors(1, 400, became) == Counter()
    assert became["answer"] > 100 and became["E_ROWS"] > 10, became


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(3600)
def test_20000_misused_functions() -> None:
    became: Counter[str] = Counter()
    assert raw_errors(SEED, CALLS, became) == Counter()
    print(dict(became))


@pytest.mark.parametrize(
    ("call", "answer"),
    [
        ("concat_ws(',', TIME '10:00', 1)", "10:00:00,1"),
        ("concat_ws(',', ARRAY[1, NULL], 'x')", "{1,NULL},x"),
        ("concat_ws(',', INTERVAL '1 day', true)", "1 day,t"),
        ("concat_ws(',', TIMESTAMPTZ '2026-01-01 10:00:00+02', NULL)", "2026-01-01 08:00:00+00"),
        ("format('%s %L', '[1, 2]'::json, ROW(1, 'x'))", "[1, 2] '(1,x)'"),
        ("format('%s', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid)", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    ],
)
def test_every_type_is_written_out(call: str, answer: str) -> None:
    assert ev.connect().sql(f"SELECT {call} AS r").rows() == [(answer,)]


@pytest.mark.parametrize(
    ("dialect", "call"),
    [
        *(("postgres", call) for call in ("div(5)", "div()", "map()", "map(ARRAY[1])", "octet_length()")),
        ("mysql", "monthname()"),
        ("snowflake", "date_part(1)"),
        ("snowflake", "date_part('year')"),
    ],
)
def test_arguments_that_sqlglot_does_not_miss(dialect: str, call: str) -> None:
    db = ev.connect()
    db.sql(f"SET dialect = '{dialect}'")
    with pytest.raises(ev.EverviewError, match="E_ARITY"):
        db.sql(f"SELECT {call} AS r")


JSONS = ["1", '"x"', "[1, null]", '{"a": 1}', "null", "true", "1.5", '{"a": null}', '["x"]', "[]"]


@pytest.mark.parametrize(
    ("call", "answer"),
    [
        ("arg_min(v, k)", "[]"),
        (
            "to_json(array_agg(v ORDER BY v))::text",
            '[[], null, "x", 1, 1.5, true, true, ["x"], [1, null], {"a": null}, {"a": 1}]',
        ),
        ("count(DISTINCT v)", 10),
        ("array_length(array_agg(DISTINCT v), 1)", 10),
        ("mode() WITHIN GROUP (ORDER BY v)", "true"),
    ],
)
def test_json_of_every_kind_in_one_group(call: str, answer: object) -> None:
    """They have one order, and true is not 1."""
    db = ev.connect()
    db.sql("CREATE TABLE j (k int, v json)")
    db["j"].insert([(1, json.loads(text)) for text in [*JSONS, "true"] if text != "null"])
    db.sql("INSERT INTO j VALUES (1, 'null'::json)")
    found = db.sql(f"SELECT ({call}) AS r FROM j").rows()[0][0]
    assert (str(found).lower() if isinstance(answer, str) and not isinstance(found, str) else found) == answer


def test_an_object_has_no_key_null() -> None:
    db = ev.connect()
    db.sql("CREATE TABLE t (a text); INSERT INTO t VALUES ('x'), (NULL)")
    with pytest.raises(ev.EverviewError, match="a key is NULL"):
        db.sql("SELECT json_object_agg(a, 1) AS r FROM t")
