"""Queries of the .slt files, maintained through random batches, equal DuckDB after each; errors are pinned."""

from __future__ import annotations

import zlib
from functools import cache
from pathlib import Path

import pytest

import everview as ev
from tests.sql import harness

FILES = sorted(Path(__file__).parent.glob("*.slt"))
BATCHES = 6


def _cases(kind: str) -> list[object]:
    return [pytest.param(f, b, id=f"{f.stem}-{b.name}") for f in FILES for b in harness.blocks(f) if b.kind == kind]


@cache
def _differences(path: Path, shards: int = 0) -> dict[str, str]:
    """What went wrong with each query of a file; all of them live in one session and share what they can."""
    db, oracle = harness.session(shards), harness.Oracle()
    found: dict[str, str] = {}
    queries = [b for b in harness.blocks(path) if b.kind == "query"]
    for block in queries:
        try:
            db.sql(f"CREATE VIEW {block.name} AS {block.ours}")
        except Exception as error:
            found[block.name] = f"cannot be installed: {type(error).__name__}: {error}"
    changes = harness.Changes(zlib.crc32(path.name.encode()))
    for step, batch in enumerate(changes.batches(BATCHES)):
        harness.apply(db, batch)
        oracle.load(changes.rows)
        for block in queries:
            if block.name not in found:
                try:
                    problem = harness.difference(db[block.name].rows(), oracle.rows(block.theirs))
                except Exception as error:
                    problem = f"{type(error).__name__}: {error}"
                if problem:
                    found[block.name] = f"after batch {step + 1}: {problem}"
    db.close()
    return found


@pytest.mark.parametrize(("path", "block"), _cases("query"))
def test_query(path: Path, block: harness.Block) -> None:
    problem = _differences(path).get(block.name)
    assert problem is None, f"{problem}\n{block.text}"


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=[f.stem for f in FILES])
def test_file_on_three_shards(path: Path) -> None:
    """The plans that Spark runs: where rows of one partition meet, they must meet on one shard."""
    assert _differences(path, 3) == {}


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
