"""Functions of Python values (numerics, JSON, arrays, intervals), one row at a time and by columns."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import everview as ev
from everview.codes import Codec
from everview.expr import row_interpreter
from everview.expr.evaluate import Evaluated, evaluate
from everview.expr.nodes import Expr
from everview.expr.row_interpreter import FewRows
from everview.language.relation import relation_of
from everview.plan.nodes import Project
from everview.session.core import core_of

TABLE = "CREATE TABLE t (n numeric, d decimal(12, 2), i int, j jsonb, a int[], s text, v interval, m timestamptz)"
MOMENT = dt.datetime(2026, 3, 29, 0, 30, tzinfo=dt.UTC)
ROWS: list[tuple[Any, ...]] = [
    (Decimal("1.25"), Decimal("10.00"), 3, {"a": [1, 2]}, [1, 2, 3], "1.5", ev.Interval(months=1), MOMENT),
    (Decimal("-7"), Decimal("0.00"), 0, [1], [], "x", ev.Interval(days=2), MOMENT),
    (None, None, None, None, None, None, None, None),
    (Decimal("0.0001"), Decimal("-3.33"), -5, {"a": None}, [None, 4], "12", ev.Interval(microseconds=5), MOMENT),
    (Decimal(10) ** 37, Decimal("99999999.99"), 2**40, 5, [7] * 9, "1e3", ev.Interval(), MOMENT),
]
EXPRESSIONS = [
    "n / i", "d / i", "n / 3", "n * n", "n + d", "-n", "round(n, 1)", "n > d", "n::text", "s::numeric", "n::int",
    "CASE WHEN i <> 0 THEN n / i END", "coalesce(n, 0)", "greatest(n, 2, i)", "mod(n, 3)", "j -> 'a'", "j ->> 'a'",
    "j -> 'a' -> 1", "jsonb_typeof(j)", "j @> '{\"a\": null}'", "jsonb_build_object('k', n)", "a[1]", "a[2:3]",
    "array_length(a, 1)", "i = ANY (a)", "a || i", "a || a", "array_to_string(a, ',')", "v + v", "v * 2", "v / i",
    "m + v", "m AT TIME ZONE 'Europe/Oslo'", "extract(day FROM v)", "s::json", "n IS NULL OR n / i > 1",
]  # fmt: skip


def bound(text: str) -> tuple[tuple[Expr, ...], np.ndarray, ev.Session]:
    """The expressions of a SELECT, and the codes of the table's columns."""
    db = ev.connect()
    db.sql(TABLE)
    db.sql(f"CREATE VIEW v AS SELECT {text} AS x FROM t")
    exprs = next(n.exprs for n in relation_of(db["v"]).node.walk() if isinstance(n, Project))
    columns = relation_of(db["t"]).columns
    codec = Codec([c.type for c in columns], [c.name for c in columns], core_of(db).interner)
    return exprs, codec.encode_rows(ROWS), db


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_a_row_alone_is_as_among_others(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    exprs, columns, db = bound(text)
    interner = core_of(db).interner
    together = evaluate(exprs, None, columns, interner)
    found = dict(zip(together.kept.tolist(), together.codes.T.tolist(), strict=True))
    asked: list[Any] = []

    def by_columns(*given: Any) -> Evaluated:
        asked.append(given)
        return evaluate(*given)

    monkeypatch.setattr(row_interpreter, "evaluate", by_columns)
    one = FewRows(exprs, None, interner)
    for i in range(columns.shape[1]):
        alone = one(np.ascontiguousarray(columns[:, i : i + 1]))
        assert alone.errors.tolist() == [together.errors[i]], (text, ROWS[i])
        assert alone.codes.T.tolist() == ([found[i]] if i in found else []), (text, ROWS[i])
    assert not asked or text in ("greatest(n, 2, i)",), "left to whole columns"
