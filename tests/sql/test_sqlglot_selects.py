"""sqlglot's own SELECTs: each gives the answer that DuckDB gives, or is refused with a place.

The tables that they read all have the same columns of small whole numbers. A statement that DuckDB refuses is not
compared. Where LIMIT says nothing about which rows are meant, only their number is.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import duckdb
import pytest

import everview as ev
from tests.sql.harness import difference

COLUMNS = ("a", "b", "c", "d", "e", "x", "y", "z", "id", "i", "n", "foo", "bar", "col", "val", "k", "v", "g")
TABLES = ("x", "y", "z", "t", "test", "a", "b", "tbl", "foo", "bar", "c", "t1", "t2", "u")
STATEMENTS = [
    line
    for line in (Path(__file__).parent / "sqlglot_selects.sql").read_text().split("\n")
    if line and not line.startswith("--")
]
QUICK = 12
"""One statement of so many is asked in the quick form."""


@cache
def _databases() -> tuple[ev.Session, duckdb.DuckDBPyConnection]:
    db, duck = ev.connect(), duckdb.connect()
    duck.execute("SET default_null_order = 'nulls_last_on_asc_first_on_desc'; SET threads = 1")
    columns = ", ".join(f"{c} int" for c in COLUMNS)
    for table in TABLES:
        rows = [[(one + i * two) % 4 for i in range(len(COLUMNS))] for one, two in ((1, 2), (2, 3), (2, 0))]
        values = ", ".join(f"({', '.join(map(str, row))})" for row in rows)
        for text in (f"CREATE TABLE {table} ({columns})", f"INSERT INTO {table} VALUES {values}"):
            db.sql(text)
            duck.execute(text)
    return db, duck


def check(text: str) -> str:
    """Compare a statement; gives what became of it."""
    db, duck = _databases()
    try:
        ours = db.sql(text).rows()
    except ev.RowErrors as error:  # a fault of rows: a subquery with several, as DuckDB finds them
        with pytest.raises(duckdb.Error):
            duck.execute(text).fetchall()
        return f"rows: {error.code}"
    except ev.EverviewError as error:
        assert re.search(r"line \d+, column \d+", str(error)), f"{text}\n{error}"
        return "refused"
    try:
        theirs = duck.execute(text).fetchall()
    except duckdb.Error:
        return "refused by DuckDB"
    if re.search(r"\* FROM .* USING", text):  # DuckDB leaves such columns where they were, PostgreSQL puts them first
        ours, theirs = [tuple(sorted(row)) for row in ours], [tuple(sorted(row)) for row in theirs]
    if re.search(r"\b(LIMIT|FETCH|OFFSET)\b", text):
        assert len(ours) == len(theirs), text
    else:
        assert not difference(ours, theirs), f"{text}\n{difference(ours, theirs)}"
    return "same"


def test_some_of_sqlglots_selects() -> None:
    found = [check(text) for text in STATEMENTS[::QUICK]]
    assert found.count("same") > len(found) // 5


@pytest.mark.slow
@pytest.mark.long
def test_all_of_sqlglots_selects() -> None:
    found = [check(text) for text in STATEMENTS]
    assert found.count("same") > 170 and found.count("refused by DuckDB") < 30
