"""Nexmark's queries as views, over the benchmark's events and with rows that leave again: DuckDB's at every step."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import everview as ev
from everview.session.local_shards import local_shards
from tests.sql import harness

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent / "nexmark"
QUERIES = {path.stem: path.read_text().split("\n----\n") for path in sorted(HERE.glob("q*.sql"))}
EVENTS, STEPS = 600, 4


def _events() -> Any:
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        import auctions  # type: ignore[import-not-found]
    finally:
        sys.path.pop(0)
    return auctions


def _compared(db: ev.Session, now: dict[str, pa.Table]) -> dict[str, str]:
    oracle = duckdb.connect()
    oracle.execute("SET threads = 1")
    for name, table in now.items():
        oracle.register(name, table)
    found = {}
    for name, texts in QUERIES.items():
        try:
            found[name] = harness.difference(db[name].rows(), oracle.execute(texts[-1]).fetchall())
        except ev.EverviewError as error:
            found[name] = str(error)
    return {name: problem for name, problem in found.items() if problem}


@cache
def _history(shards: int) -> list[tuple[str, dict[str, str]]]:
    """What differs at each step: events that come, the oldest bids that leave, bids that never were, all gone."""
    auctions = _events()
    data = auctions.tables(EVENTS, seed=5, per_second=10)
    db = local_shards(shards=shards) if shards else ev.connect()
    db.sql((HERE / "schema.sql").read_text())
    for name, texts in QUERIES.items():
        db.sql(f"CREATE VIEW {name} AS {texts[0]}")
    db["side_input"].insert(data["side_input"])
    now = {name: table.slice(0, 0) for name, table in data.items()} | {"side_input": data["side_input"]}
    found = []
    for i, part in enumerate(auctions.parts(data, EVENTS // STEPS)):
        _change(db, now, part, {"bid": now["bid"].slice(0, 20)} if i == 2 else {})
        found.append((f"part {i + 1}", _compared(db, now)))
    chance = np.random.default_rng(2)
    gone = {
        name: now[name].take(np.sort(chance.choice(now[name].num_rows, now[name].num_rows // 3, replace=False)))
        for name in ("person", "auction", "bid")
    }
    _change(db, now, {}, gone)
    found.append(("a third gone", _compared(db, now)))
    _change(db, now, {}, {name: now[name] for name in ("person", "auction", "bid")})
    found.append(("all gone", _compared(db, now)))
    return found


def _change(db: ev.Session, now: dict[str, pa.Table], new: dict[str, pa.Table], gone: dict[str, pa.Table]) -> None:
    with db.transaction():
        for name, rows in gone.items():
            db[name].delete(rows)
            leaving = {tuple(row.values()) for row in rows.to_pylist()}
            now[name] = now[name].filter(
                pa.array([tuple(row.values()) not in leaving for row in now[name].to_pylist()])
            )
        for name, rows in new.items():
            db[name].insert(rows)
            now[name] = pa.concat_tables([now[name], rows])


@pytest.mark.parametrize("name", QUERIES)
def test_query(name: str) -> None:
    problems = [f"{step}: {found[name]}" for step, found in _history(0) if name in found]
    assert not problems, "\n".join(problems)


@pytest.mark.slow
@pytest.mark.parametrize("name", QUERIES)
def test_query_on_shards(name: str) -> None:
    problems = [f"{step}: {found[name]}" for step, found in _history(2) if name in found]
    assert not problems, "\n".join(problems)


def test_the_queries_say_something() -> None:
    """No view is empty at the end of the events, so that their equality means something."""
    auctions = _events()
    data = auctions.tables(EVENTS, seed=5, per_second=10)
    oracle = duckdb.connect()
    for name, table in data.items():
        oracle.register(name, table)
    empty = [name for name, texts in QUERIES.items() if not oracle.execute(texts[-1]).fetchall()]
    assert empty == []
    assert data == auctions.tables(EVENTS, seed=5, per_second=10)


def test_deduplication_is_a_top_1() -> None:
    """The last bid of each key is kept without computing windows; the first ten are numbered among themselves."""
    db = ev.connect()
    db.sql((HERE / "schema.sql").read_text())
    for name in ("q09", "q18", "q19"):
        db.sql(f"CREATE VIEW {name} AS {QUERIES[name][0]}")
    plans = {name: str(db[name].explain()) for name in ("q09", "q18", "q19")}
    assert all("TopK" in plan for plan in plans.values())
    assert "Window" not in plans["q09"] + plans["q18"]
