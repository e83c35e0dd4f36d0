"""Queries of the .slt files with clauses dropped, doubled and swapped: refused, or the answer that DuckDB gives.

A mutant makes sense more often than not, so this looks for clauses whose absence, presence or place goes unnoticed.
Where the answer depends on ties (LIMIT, windows, lists) or on rounding (a spread of nearly nothing; of one row,
corr and regr_slope are NULL as in PostgreSQL, NaN in DuckDB) only the number of rows is compared.
"""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path

import duckdb
import pytest
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

import everview as ev
from tests.sql import harness

FILES = sorted(f for f in Path(__file__).parent.glob("*.slt") if f.stem not in ("errors", "recursive"))
CLAUSES = ("where", "group", "having", "order", "limit", "offset", "distinct", "qualify", "windows")
UNSURE = (
    exp.Limit,
    exp.Fetch,
    exp.Offset,
    exp.Window,
    exp.GroupConcat,
    exp.ArrayAgg,
    exp.Stddev,
    exp.Variance,
    exp.VariancePop,
    exp.Corr,
    exp.RegrSlope,
)


@cache
def _databases() -> tuple[ev.Session, harness.Oracle]:
    db, oracle, changes = harness.session(), harness.Oracle(), harness.Changes(3)
    for _, batch in zip(range(4), changes.batches(6), strict=False):
        harness.apply(db, batch)
    oracle.load(changes.rows)
    return db, oracle


def _queries() -> list[str]:
    found = [b for f in FILES for b in harness.blocks(f) if b.kind == "query"]
    return [b.ours for b in found if b.ours == b.theirs and "[" not in b.ours]


def mutant(text: str, r: random.Random) -> str:
    """The query with one thing dropped, doubled or swapped."""
    tree = sqlglot.parse_one(text, read="postgres")
    select = r.choice(list(tree.find_all(exp.Select)) or [tree])
    joins = select.args.get("joins") or []
    match r.randint(0, 7):
        case 0 | 1:
            there = [c for c in CLAUSES if select.args.get(c)]
            select.set(r.choice(there or ["where"]), None)
        case 2 if joins:
            joins.remove(r.choice(joins))
        case 3 if len(joins) > 1:
            i = r.randrange(len(joins) - 1)
            select.set("joins", [*joins[:i], joins[i + 1], joins[i], *joins[i + 2 :]])
        case 4:
            r.shuffle(select.expressions)
        case 5 if select.args.get("where") and select.args.get("group"):
            having, where = select.args.get("having"), select.args["where"]
            select.set("having", exp.Having(this=where.this.copy()))
            select.set("where", exp.Where(this=having.this.copy()) if having else None)
        case 6:
            union = r.choice([exp.Union, exp.Except, exp.Intersect])
            tree = union(this=tree.copy(), expression=tree.copy(), distinct=r.random() < 0.5)
        case _:
            there = [n for n in tree.find_all(exp.Binary, exp.Ordered, exp.Join) if n is not tree]  # type: ignore[misc]
            node = r.choice(there) if there else None
            if isinstance(node, exp.Binary):
                left, right = node.this.copy(), node.expression.copy()
                node.set("this", right)
                node.set("expression", left)
            elif isinstance(node, exp.Ordered):
                node.set("desc", not node.args.get("desc"))
            elif isinstance(node, exp.Join):
                node.set("side", r.choice(["LEFT", "RIGHT", "FULL", ""]))
    try:
        return tree.sql("postgres")
    except ValueError:  # sides of an alias swapped, which sqlglot cannot write
        return text


def _check(text: str) -> bool:
    """Compare with DuckDB; whether both have answered."""
    db, oracle = _databases()
    if "AS DECIMAL)" in text:  # sqlglot writes it for round(x, n); DuckDB's has three digits after the point
        return False
    try:
        tree = sqlglot.parse_one(text, read="postgres")
        ours = db.sql(text).rows()
    except (ev.EverviewError, SqlglotError):
        return False
    try:
        theirs = oracle.rows(text)
    except duckdb.Error:
        return False
    on = any(d.args.get("on") for d in tree.find_all(exp.Distinct))
    listed = any(a.find(exp.Select) for a in tree.find_all(exp.Array))  # ARRAY(SELECT ...), in any order
    if on or listed or tree.find(*UNSURE) is not None:
        if tree.find(exp.Subquery, exp.SetOperation) is None and not tree.find(exp.Qualify):
            assert len(ours) == len(theirs), text
    else:
        assert not harness.difference(ours, theirs), text
    return True


def test_some_mutants() -> None:
    r = random.Random(1)
    assert sum(_check(mutant(text, r)) for text in r.sample(_queries(), 60)) > 20


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_mutants_of_all_queries(seed: int) -> None:
    r = random.Random(seed)
    assert sum(_check(mutant(text, r)) for text in _queries()) > 150
