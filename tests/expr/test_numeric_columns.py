"""Numerics over whole columns have the values, digits and errors that they have one by one, and in rows of few."""

from __future__ import annotations

import random
from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import pytest

from everview.codes.codec import Codec
from everview.codes.interner import Interner
from everview.expr import functions, numeric_columns
from everview.expr.evaluate import evaluate
from everview.expr.nodes import Call, ColumnRef, Expr, Literal
from everview.expr.python_function_types import QUOTIENT
from everview.expr.row_interpreter import FewRows
from everview.types import FREE, INT, DataType, decimal, numeric

KINDS = (INT, decimal(2), decimal(6), numeric(0), numeric(4, 30), numeric(20, 38), numeric(FREE))

BINARY = ("add", "sub", "mul", "div", "mod", "lt", "le", "gt", "ge")

EDGES = [Decimal(text) for text in ("0", "1", "-1", "9999", "10000", "0.0001", "-0.00009", "1234.5678", "2.50")]


def number(rng: random.Random, declared: DataType) -> Decimal | int | None:
    """A random number of a type: of any size that fits, often a small one."""
    if rng.random() < 0.05:
        return None
    if declared.kind == "int":
        return rng.choice([rng.randint(-20, 20), rng.randint(-(2**62), 2**62)])
    if declared.scale == FREE:
        digits = rng.randint(1, 38)
        edge = rng.choice(EDGES)
        return rng.choice([edge, Decimal(rng.randint(-(10**digits), 10**digits)).scaleb(-rng.randint(0, 38))])
    most = (declared.width or 18) - 1
    return Decimal(rng.randint(-(10 ** rng.randint(1, most)), 10 ** rng.randint(1, most))).scaleb(-declared.scale)


def all_ways(
    expr: Expr, types: list[DataType], rows: Sequence[tuple[object, ...]], patch: pytest.MonkeyPatch
) -> list[tuple[list[int], list[int]]]:
    """Codes of the rows that were kept and errors of all: over columns, value by value, and a few rows at a time."""
    interner = Interner()
    codes = np.ascontiguousarray(Codec(types, [f"c{i}" for i in range(len(types))], interner).encode(rows))
    found = []
    for many in (1, 10**9):
        patch.setattr(numeric_columns, "MIN_COLUMN_ROWS", many)
        answer = evaluate((expr,), None, codes, interner)
        found.append((answer.codes[0].tolist(), answer.errors.tolist()))
    few = FewRows((expr,), None, interner)
    answers = [few(codes[:, at : at + 5]) for at in range(0, codes.shape[1], 5)]
    kept = [code for answer in answers for code in answer.codes[0].tolist()]
    return [*found, (kept, [error for answer in answers for error in answer.errors.tolist()])]


@pytest.mark.parametrize("op", BINARY)
@pytest.mark.parametrize("seed", range(3))
def test_two_columns(op: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(f"{op} {seed}")
    compared = 0
    for left in KINDS:
        for right in KINDS:
            if "numeric" not in (left.kind, right.kind):
                continue
            types = [left.optional(), right.optional()]
            rows = [(number(rng, left), number(rng, right)) for _ in range(60)]
            expr = functions.call(op, ColumnRef(types[0], 0), ColumnRef(types[1], 1))
            columns, values, few = all_ways(expr, types, rows, monkeypatch)
            assert columns == values == few, (op, left, right)
            compared += len(columns[0])
    assert compared > 100


@pytest.mark.parametrize("source", KINDS, ids=repr)
def test_one_column(source: DataType, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(repr(source))
    a = ColumnRef(source.optional(), 0)
    exprs = [functions.cast(a, target) for target in KINDS if target.kind == "numeric"]
    if source.kind == "numeric":
        exprs += [functions.call(op, a) for op in ("neg", "abs", "round", "floor")]
        exprs += [functions.call("round", a, Literal(INT, digits)) for digits in (0, 2, 15)]
        exprs += [functions.call("numeric_limb", a, Literal(INT, at)) for at in range(4)]
        exprs += [functions.call("div", a, Literal(numeric(FREE), Decimal(by))) for by in ("3", "-0.07", "0")]
    else:
        exprs += [functions.call("div", functions.cast(a, numeric(FREE)), Literal(numeric(FREE), Decimal("7.0")))]
    for expr in exprs:
        rows = [(number(rng, source),) for _ in range(80)]
        columns, values, few = all_ways(expr, [source.optional()], rows, monkeypatch)
        assert columns == values == few, expr


@pytest.mark.parametrize("of", [decimal(0), decimal(2), decimal(6), decimal(18)], ids=repr)
def test_averages_of_decimals(of: DataType, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQL's avg: a decimal's sum by a count, which is 0 or NULL where there are no values."""
    rng = random.Random(repr(of))
    types = [of.optional(), INT.optional()]
    counts = [0, 1, 2, 3, 7, 9999, 10_000, 10_001, 2**40]
    sums = [Decimal(total).scaleb(-of.scale) for total in (0, 1, -1, 5, 9999, 10_000, 10**18 - 1, 1 - 10**18)]
    rows: list[tuple[Decimal | int | None, int | None]] = [(total, count) for total in sums for count in counts]
    rows += [(number(rng, of), rng.choice([None, *counts, rng.randint(1, 10**6)])) for _ in range(400)]
    expr = Call(QUOTIENT.optional(), "numeric_average", (ColumnRef(types[0], 0), ColumnRef(types[1], 1)))
    columns, values, few = all_ways(expr, types, rows, monkeypatch)
    assert columns == values == few
    assert len(few[0]) > 300 and any(few[1])


def test_ids_are_the_same_one_by_one_and_at_once() -> None:
    interner = Interner()
    texts = [f'"{i}.5"' for i in range(100)]
    assert interner.encode_packed("numeric", texts).tolist() == [interner.packed_id("numeric", t) for t in texts]
    assert interner.encode_packed("numeric", []).tolist() == []
