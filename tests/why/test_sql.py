"""Rows of windows and of joins at once, at random, and the answers of TPC-H, checked step by step."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import everview as ev
from everview.language.relation import relation_of
from tests.oracle import reference
from tests.sql import test_tpch
from tests.why.checker import check_why, contents_of
from tests.why.evaluation import Whole

WINDOWS = ["row_number()", "rank()", "dense_rank()", "count(*)", "sum(x)", "min(x)", "max(y)", "count(y)"]

RULES = """
    triangle(A, B, C) :- t(_, A, B), t(_, B, C), t(_, C, A).
    ends(A)           :- t(_, A, B), u(_, B, C), t(_, C, D), A < D.
    between(A, N)     :- t(_, A, B), t(_, B, C), u(_, C, A), N = count(B).
"""


def filled(db: Any, rng: random.Random) -> None:
    for name in ("t", "u"):
        table = db.table(name, {"g": int, "x": int, "y": int | None})
        table.insert([(rng.randrange(3), rng.randrange(4), rng.choice([0, 1, 2, 3, None])) for _ in range(14)])


def check_all(db: Any, view: Any, most: int) -> int:
    contents = contents_of(db)
    evaluation = Whole(relation_of(view).node, contents)
    assert {row: n for row, n in evaluation.result.items() if n} == view.counts()
    rows = sorted(view.counts(), key=repr)[:most]
    for row in rows:
        check_why(view, row, contents, evaluation=evaluation)
    return len(rows)


@pytest.mark.parametrize("seed", range(6))
def test_rows_of_windows_are_explained(seed: int) -> None:
    rng = random.Random(seed)
    with ev.connect() as db:
        filled(db, rng)
        by = rng.choice(["PARTITION BY g", "PARTITION BY g, x", ""])
        order = rng.choice(["ORDER BY x", "ORDER BY y DESC", "ORDER BY y, x DESC"])
        calls = ", ".join(f"{c} OVER ({by} {order}) AS w{i}" for i, c in enumerate(rng.sample(WINDOWS, 2)))
        whole = f"{rng.choice(WINDOWS[3:])} OVER ({by}) AS whole"
        db.sql(f"CREATE MATERIALIZED VIEW v AS SELECT g, x, y, {calls}, {whole} FROM t")
        assert check_all(db, db["v"], 8)
        db.sql(f"CREATE MATERIALIZED VIEW w AS SELECT g, max(w0) AS most FROM (SELECT g, {calls} FROM t) s GROUP BY g")
        assert check_all(db, db["w"], 3)


@pytest.mark.parametrize("how", ["wco", "delta", "binary"])
def test_rows_of_joins_at_once_are_explained(how: Any) -> None:
    with ev.connect() as db:
        filled(db, random.Random(5))
        rules = db.datalog(RULES, plan=how)
        assert sum(check_all(db, rules[name], 6) for name in ("triangle", "ends", "between")) > 6


@pytest.mark.slow
def test_answers_of_tpch_are_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At scale 0.01, an answer of every query, with every step of its explanation."""
    monkeypatch.setattr(reference, "MAX_ROWS", 10**9)
    monkeypatch.setattr(reference, "MAX_COUNT", 10**18)
    data = test_tpch._generated(tmp_path)
    run = test_tpch.Run(data)
    run.change(1, data)
    contents = contents_of(run.db)
    for name in test_tpch.QUERIES:
        view: Any = run.db[name]
        evaluation = Whole(relation_of(view).node, contents)
        rows = sorted(view.rows(), key=repr)[:1]
        assert rows, name
        for row in rows:
            check_why(view, row, contents, evaluation=evaluation)
    run.db.close()


CALLS = (
    "row_number() OVER w", "rank() OVER w", "dense_rank() OVER w", "percent_rank() OVER w", "cume_dist() OVER w",
    "ntile(2) OVER w", "lag(name) OVER w", "lag(pay, 2) OVER w", "lead(pay, 1, 0) OVER w",
    "first_value(name) OVER w", "last_value(name) OVER w", "nth_value(pay, 2) OVER w",
    "sum(pay) OVER (PARTITION BY dept ORDER BY pay ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
    "max(pay) OVER (ORDER BY dept GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING)",
    "count(*) OVER (PARTITION BY dept)", "min(pay) OVER w",
)  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
def test_every_window_function_is_explained(call: str) -> None:
    with ev.connect() as db:
        emp = db.table("emp", {"name": str, "dept": str, "pay": int | None})
        emp.insert([("Ann", "it", 90), ("Bob", "it", 70), ("Eve", "it", 70), ("Cay", "hr", 80), ("Dan", "hr", None)])
        db.sql(f"CREATE VIEW v AS SELECT name, {call} AS x FROM emp WINDOW w AS (PARTITION BY dept ORDER BY pay)")
        contents = contents_of(db)
        for row in db["v"].rows():
            found = check_why(db["v"], row, contents)
            assert any(leaf == row[0] for _, (leaf, *_) in found.leaves())
