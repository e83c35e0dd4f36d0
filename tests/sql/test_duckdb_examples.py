"""The examples that DuckDB gives of its own functions: in its dialect each has DuckDB's value, or is rejected."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import duckdb
import pytest

import everview as ev

DIFFERENT = {
    "[unicode('âbcd'), unicode('â'), unicode(''), unicode(NULL)]": "0 for an empty text, as in PostgreSQL",
    "sha256('\\xAA\\xBB'::BLOB)": "bytes of bytes",
    "typeof('abc')": "PostgreSQL's names of types",
    "version()": "our own",
    "random()": "random",
    "gen_random_uuid()": "random",
}
UNORDERED = ("array_distinct", "list_distinct", "list_intersect", "array_intersect")


def comparable(value: Any) -> Any:
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, (int, float, Decimal)):
        return "nan" if math.isnan(value) else float(f"{value:.9g}")
    if isinstance(value, ev.Interval):
        return dt.timedelta(30 * value.months + value.days, 0, value.microseconds)  # how DuckDB makes a timedelta
    if isinstance(value, (list, tuple)):
        return [comparable(v) for v in value]
    if isinstance(value, dict):
        return {k: comparable(v) for k, v in value.items()}
    return value


def test_examples_have_duckdbs_values() -> None:
    other, db = duckdb.connect(config={"threads": 1}), ev.connect()
    db.sql("SET dialect = 'duckdb'")
    listed = "SELECT DISTINCT unnest(examples) AS e FROM duckdb_functions() ORDER BY e"
    same, wrong = 0, []
    for (example,) in other.execute(listed).fetchall():
        try:
            expected = other.execute(f"SELECT {example}").fetchall()
        except duckdb.Error:
            continue  # a pattern, not an example
        try:
            found = db.sql(f"SELECT {example}").rows()
        except ev.EverviewError as error:
            assert error.code != "E_INTERNAL", example
            continue
        pair = [comparable(found), comparable(expected)]
        if example.startswith(UNORDERED):
            pair = [sorted(map(str, rows[0][0])) for rows in pair]
        if pair[0] == pair[1]:
            same += 1
        elif example not in DIFFERENT:
            wrong.append((example, *pair))
    assert wrong == []
    assert same > 215


@pytest.mark.parametrize(
    ("call", "answer"),
    [
        (r"'\xAA'::bytea || '\xBB'::bytea", b"\xaa\xbb"),
        (r"'\xAA'::bytea || 'b'", b"\xaab"),
        (r"'\xAA'::bytea || NULL::bytea", None),
    ],
)
def test_bytes_are_joined_as_in_postgresql(call: str, answer: bytes | None) -> None:
    assert ev.connect().sql(f"SELECT {call}").rows() == [(answer,)]


@pytest.mark.parametrize(("dialect", "text"), [("postgres", r"\xA"), ("duckdb", r"\xA"), ("duckdb", "ü")])
def test_bytes_that_cannot_be_read(dialect: str, text: str) -> None:
    db = ev.connect()
    db.sql(f"SET dialect = '{dialect}'")
    with pytest.raises(ev.EverviewError, match="is not a valid bytea"):
        db.sql(f"SELECT '{text}'::{'bytea' if dialect == 'postgres' else 'BLOB'}")
