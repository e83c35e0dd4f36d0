"""Wide statements: joins and set operations of many inputs are planned in reasonable time and depth."""

from __future__ import annotations

import time

import pytest

import everview as ev
from everview.sql.select import compiler

TABLES = 100
SECONDS = 2.0
"""CPU time for binding and planning, on a slow machine."""


@pytest.fixture(scope="module")
def db() -> ev.Session:
    session = ev.connect()
    for i in range(TABLES):
        session.sql(f"CREATE TABLE t{i} (a int, b int); INSERT INTO t{i} VALUES ({i}, {i + 1}), ({i}, -1)")
    return session


CHAIN = "SELECT t0.a FROM t0 " + " ".join(f"JOIN t{i} ON t{i}.a = t{i - 1}.b" for i in range(1, TABLES))
COMMAS = (
    "SELECT t0.a FROM "
    + ", ".join(f"t{i}" for i in range(TABLES))
    + " WHERE "
    + " AND ".join(f"t{i}.a = t{i - 1}.b" for i in range(1, TABLES))
)


LEFT = CHAIN.replace("JOIN", "LEFT JOIN")


@pytest.mark.parametrize("by_size", [False, True])
@pytest.mark.parametrize("text", [CHAIN, COMMAS, LEFT], ids=["chain", "commas", "left"])
def test_joins_of_100_tables(db: ev.Session, text: str, by_size: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if by_size:
        monkeypatch.setattr(compiler, "ORDER_BY_SIZE_ROWS", 0)
    start = time.process_time()
    db.sql(f"EXPLAIN {text}")
    assert time.process_time() - start < SECONDS
    start = time.process_time()
    rows = db.sql(text).rows()
    assert time.process_time() - start < 2 * SECONDS, "planned, installed, computed and dropped"
    assert rows == [(0,)] * (TABLES + 1 if text is LEFT else 2), "-1 has no partner"


def test_a_union_of_600_queries(db: ev.Session) -> None:
    start = time.process_time()
    text = " UNION ALL ".join(f"SELECT a FROM t{i % 10} WHERE a = {i % 10}" for i in range(600))
    assert len(db.sql(f"SELECT count(*) FROM ({text}) q")) == 1
    assert db.sql(f"SELECT count(*) FROM ({text}) q").rows() == [(1200,)]
    assert time.process_time() - start < 3 * SECONDS
