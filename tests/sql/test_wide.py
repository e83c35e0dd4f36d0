"""Wide statements: joins and set operations of many inputs take reasonable work and depth to plan.

Work is counted in function calls; `benchmarks/wide.py` has the seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

import everview as ev
from everview.sql.select import compiler
from tests.effort import calls

TABLES = 100
QUADRATIC = 4.2
"""How much more work twice as many inputs may take; a cubic planner takes 8 times as much."""


@pytest.fixture(scope="module")
def db() -> ev.Session:
    session = ev.connect()
    for i in range(TABLES):
        session.sql(f"CREATE TABLE t{i} (a int, b int); INSERT INTO t{i} VALUES ({i}, {i + 1}), ({i}, -1)")
    return session


def chain(tables: int) -> str:
    return "SELECT t0.a FROM t0 " + " ".join(f"JOIN t{i} ON t{i}.a = t{i - 1}.b" for i in range(1, tables))


def commas(tables: int) -> str:
    conditions = " AND ".join(f"t{i}.a = t{i - 1}.b" for i in range(1, tables))
    return f"SELECT t0.a FROM {', '.join(f't{i}' for i in range(tables))} WHERE {conditions}"


def left(tables: int) -> str:
    return chain(tables).replace("JOIN", "LEFT JOIN")


@pytest.mark.parametrize("by_size", [False, True])
@pytest.mark.parametrize("query", [chain, commas, left])
def test_joins_of_100_tables(
    db: ev.Session, query: Callable[[int], str], by_size: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if by_size:
        monkeypatch.setattr(compiler, "ORDER_BY_SIZE_ROWS", 0)
    for statement in ("EXPLAIN {}", "{}"):
        half, whole = (calls(partial(db.sql, statement.format(query(size)))) for size in (TABLES // 2, TABLES))
        assert whole < QUADRATIC * half, statement
    assert db.sql(query(TABLES)).rows() == [(0,)] * (TABLES + 1 if query is left else 2), "-1 has no partner"


def test_a_union_of_600_queries(db: ev.Session) -> None:
    def count(queries: int) -> str:
        text = " UNION ALL ".join(f"SELECT a FROM t{i % 10} WHERE a = {i % 10}" for i in range(queries))
        return f"SELECT count(*) FROM ({text}) q"

    assert calls(lambda: db.sql(count(600))) < QUADRATIC * calls(lambda: db.sql(count(300)))
    assert db.sql(count(600)).rows() == [(1200,)]
