"""Every query gets the same answer at once as by way of a view: the same rows in the same order, or the same error.

The tables have been changed in several transactions, with rows deleted, so that they are several batches.
"""

from __future__ import annotations

import contextlib
import random
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import everview as ev
from everview.sql.answers.one_off import Way
from tests.sql import harness
from tests.sql.random_statements import CREATE, Queries

FILES = sorted((Path(__file__).parents[1] / "sql").glob("*.slt"))


def asked(db: ev.Session, text: str, way: Way) -> tuple[Any, ...]:
    """The columns, types and rows of an answer, as text; or the error."""
    db.sql(f"SET ask = '{way}'")
    try:
        answer = db.sql(text)
        return answer.columns, answer.types, repr(answer.rows())
    except ev.EverviewError as error:
        return error.code, str(error)
    finally:
        db.sql("SET ask = default")


def compare(db: ev.Session, texts: list[str]) -> Counter[str]:
    """Ask everything in both ways; how often there was one answer, and how often there has to be a view."""
    found: Counter[str] = Counter()
    for text in texts:
        once = asked(db, text, "once")
        if once[0] == "E_PLAN" and "at once" in once[1]:
            found["view"] += 1
            continue
        assert once == asked(db, text, "view"), text
        found["once"] += 1
    return found


def changed(seed: int, batches: int) -> ev.Session:
    """The tables of the .slt files after some transactions."""
    db = harness.session()
    for batch in list(harness.Changes(seed).batches(batches + 1))[:-1]:
        harness.apply(db, batch)
    return db


def queries_of(path: Path) -> list[str]:
    return [b.ours for b in harness.blocks(path) if b.kind == "query"]


def test_some_queries_of_every_file() -> None:
    found: Counter[str] = Counter()
    for path in FILES:
        with changed(zlib.crc32(path.name.encode()), 3) as db:
            found += compare(db, queries_of(path)[::6])
    assert found["once"] > found["view"], found


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=[f.stem for f in FILES])
def test_all_queries(path: Path) -> None:
    with changed(7, 4) as db:
        compare(db, queries_of(path))


def random_tables(seed: int) -> tuple[ev.Session, Queries]:
    """A session with the tables of the random statements, filled and partly emptied."""
    db, made = ev.connect(), Queries(random.Random(seed))
    db.sql(CREATE)
    for _ in range(8):
        with contextlib.suppress(ev.EverviewError):  # a key that is there already
            db.sql(made.change())
    return db, made


def random_texts(seed: int, count: int) -> Counter[str]:
    db, made = random_tables(seed)
    with db:
        return compare(db, [made.query()[0] for _ in range(count)])


def test_random_statements() -> None:
    found = sum((random_texts(seed, 20) for seed in range(4)), Counter[str]())
    assert found["once"] > 20, found


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 40))
def test_many_random_statements(seed: int) -> None:
    random_texts(seed, 60)
