"""Queries of the .slt files, maintained through random batches, equal DuckDB after each; errors are pinned."""

from __future__ import annotations

import zlib
from functools import cache
from pathlib import Path

import pytest

import everview as ev
from everview.sql.select import compiler
from tests.sql import harness

FILES = sorted(Path(__file__).parent.glob("*.slt"))
BATCHES = 6


def _cases(kind: str) -> list[object]:
    return [pytest.param(f, b, id=f"{f.stem}-{b.name}") for f in FILES for b in harness.blocks(f) if b.kind == kind]


def _queries(path: Path) -> list[harness.Block]:
    return [b for b in harness.blocks(path) if b.kind == "query"]


@cache
def _differences(path: Path, shards: int = 0) -> dict[str, str]:
    """What went wrong with each query of a file."""
    return harness.differences(harness.session(shards), _queries(path), zlib.crc32(path.name.encode()), BATCHES)


@pytest.mark.parametrize(("path", "block"), _cases("query"))
def test_query(path: Path, block: harness.Block) -> None:
    problem = _differences(path).get(block.name)
    assert problem is None, f"{problem}\n{block.text}"


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=[f.stem for f in FILES])
def test_file_on_three_shards(path: Path) -> None:
    """The plans that Spark runs: where rows of one partition meet, they must meet on one shard."""
    assert _differences(path, 3) == {}


def test_some_of_every_file_on_two_shards() -> None:
    """Every 25th query of each file, in three batches."""
    found = {f.stem: harness.differences(harness.session(2), _queries(f)[3::25], 5, 3) for f in FILES}
    assert not any(found.values()), found


def test_windows_and_lists_of_everything_on_shards() -> None:
    """Without PARTITION BY and GROUP BY all rows meet on one shard."""
    db = harness.session(3)
    numbers = db.sql("CREATE VIEW n AS SELECT a, c, row_number() OVER (ORDER BY a, c) AS n FROM v")
    listed = db.sql("CREATE VIEW l AS SELECT string_agg(a::text, '' ORDER BY a) AS l, stddev_pop(a) AS s FROM v")
    db.sql("INSERT INTO v VALUES (4, 1), (2, 1), (3, 1), (1, 1)")
    assert sorted(numbers.rows()) == [(1, 1, 1), (2, 1, 2), (3, 1, 3), (4, 1, 4)]
    db.sql("DELETE FROM v WHERE a = 2")
    assert sorted(numbers.rows()) == [(1, 1, 1), (3, 1, 2), (4, 1, 3)]
    assert [(text, round(spread**2, 9)) for text, spread in listed.rows()] == [("134", round(14 / 9, 9))]


@pytest.mark.parametrize("name", ["joins", "subqueries", "combinations"])
def test_joins_ordered_by_sizes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if all tables were large: joins in the order of estimates, IN as one more table, where otherwise the text's
    order counts. The tables have rows when the views are made.
    """
    monkeypatch.setattr(compiler, "ORDER_BY_SIZE_ROWS", 0)
    path = Path(__file__).with_name(f"{name}.slt")
    assert harness.differences(harness.session(), _queries(path), 11, 4, install_after=1) == {}


@pytest.mark.parametrize(("path", "block"), _cases("error"))
def test_error(path: Path, block: harness.Block) -> None:
    code, place = block.args
    says, text = block.text.split("\n", 1)
    db = harness.session()
    with pytest.raises(ev.EverviewError) as caught:
        db.sql(text)
    line, column = place.split(":")
    assert caught.value.code == code, caught.value
    assert caught.value.message.startswith(f"line {line}, column {column}: "), caught.value
    assert says in str(caught.value)


def test_there_are_queries() -> None:
    assert sum(b.kind == "query" for f in FILES for b in harness.blocks(f)) >= 100
