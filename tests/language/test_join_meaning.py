"""Every kind of join against its definition by nested loops, with duplicates, NULLs and residual conditions."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everview.language.collection import Collection
from everview.types import FLOAT, INT
from tests.language.interpreter import Bag, rows, table

HOWS = ["inner", "left", "right", "full", "semi", "anti"]
LEFT = table(0, "l", k=INT.optional(), a=INT.optional())
RIGHT = table(1, "r", k=INT.optional(), b=INT.optional())

small = st.one_of(st.none(), st.integers(0, 2))
bags = st.lists(st.tuples(small, small), max_size=6).map(Counter)


def equal(x: Any, y: Any) -> bool:
    return x is not None and x == y


def less(x: Any, y: Any) -> bool:
    return x is not None and y is not None and x < y


CONDITIONS: dict[str, tuple[Any, Any]] = {
    "key": (LEFT.k == RIGHT.k, lambda x, y: equal(x[0], y[0])),
    "key and both": ((LEFT.k == RIGHT.k) & (LEFT.a < RIGHT.b), lambda x, y: equal(x[0], y[0]) and less(x[1], y[1])),
    "key, NULL counts": (
        (LEFT.k == RIGHT.k) & (LEFT.a.is_null() | (LEFT.a < RIGHT.b)),
        lambda x, y: equal(x[0], y[0]) and (x[1] is None or less(x[1], y[1])),
    ),
    "no key": (LEFT.a < RIGHT.b, lambda x, y: less(x[1], y[1])),
    "expression": (RIGHT.k == LEFT.k + 1, lambda x, y: x[0] is not None and equal(x[0] + 1, y[0])),
    "left only": ((LEFT.k == RIGHT.k) & (LEFT.a == 1), lambda x, y: equal(x[0], y[0]) and x[1] == 1),
    "right only": ((LEFT.k == RIGHT.k) & (RIGHT.b == 1), lambda x, y: equal(x[0], y[0]) and y[1] == 1),
    "right alone": (RIGHT.b == 1, lambda x, y: y[1] == 1),
    "two keys": (
        (LEFT.k == RIGHT.k) & (LEFT.a == RIGHT.b),
        lambda x, y: equal(x[0], y[0]) and equal(x[1], y[1]),
    ),
}


def by_definition(left: Bag, right: Bag, match: Any, how: str) -> Bag:
    out: Bag = Counter()
    nothing = (None, None)
    for x, n in left.items():
        partners = {y: m for y, m in right.items() if match(x, y)}
        if how in {"semi", "anti"}:
            out[x] += n if bool(partners) == (how == "semi") else 0
            continue
        for y, m in partners.items():
            out[x + y] += n * m
        if not partners and how in {"left", "full"}:
            out[x + nothing] += n
    if how in {"right", "full"}:
        for y, m in right.items():
            if not any(match(x, y) for x in left):
                out[nothing + y] += m
    return +out


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("name", CONDITIONS)
@settings(max_examples=25, deadline=None)
@given(left=bags, right=bags)
def test_join(name: str, how: Any, left: Bag, right: Bag) -> None:
    on, match = CONDITIONS[name]
    joined = LEFT.join(RIGHT, on, how)
    assert rows(joined, {0: left, 1: right}) == by_definition(left, right, match, how)


@pytest.mark.parametrize("how", HOWS)
@settings(max_examples=25, deadline=None)
@given(left=bags, right=bags)
def test_using(how: Any, left: Bag, right: Bag) -> None:
    pairs = by_definition(left, right, lambda x, y: equal(x[0], y[0]), how)
    merged: Bag = Counter()
    for row, n in pairs.items():
        if len(row) == 2:
            merged[row] += n
        else:
            merged[(row[0] if row[0] is not None else row[2], row[1], row[3])] += n
    assert rows(LEFT.join(RIGHT, "k", how), {0: left, 1: right}) == merged


@settings(max_examples=25, deadline=None)
@given(left=bags, right=bags)
def test_cross_and_bags(left: Bag, right: Bag) -> None:
    data = {0: left, 1: right}
    assert rows(LEFT.join(RIGHT, how="cross"), data) == by_definition(left, right, lambda x, y: True, "inner")
    assert rows(LEFT.union_all(RIGHT), data) == left + right
    assert rows(LEFT.except_(RIGHT), data) == left - right
    assert rows(LEFT.intersect(RIGHT), data) == left & right
    assert rows(LEFT.distinct(), data) == Counter(set(left))
    assert rows(LEFT.negate().threshold(), data) == Counter()


def test_zero_keys_have_no_sign() -> None:
    left, right = table(0, "x", f=FLOAT), table(1, "y", f=FLOAT)
    joined = left.join(right, left.f == right.f)
    assert "+ 0.0" in joined.explain()
    assert rows(joined, {0: Counter([(-0.0,)]), 1: Counter([(0.0,)])}) == Counter([(0.0, 0.0)])


def nullability(c: Collection) -> str:
    return ", ".join(map(repr, c.schema().values()))


def test_padded_columns_become_nullable() -> None:
    left, right = table(0, "l", a=INT), table(1, "r", b=INT)
    on = left.a == right.b
    assert nullability(left.join(right, on)) == "int, int"
    assert nullability(left.join(right, on, "left")) == "int, int?"
    assert nullability(left.join(right, on, "right")) == "int?, int"
    assert nullability(left.join(right, on, "full")) == "int?, int?"
    assert nullability(left.join(right, on, "anti")) == "int"
