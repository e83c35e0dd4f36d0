"""Rows that do not fit into one word are sorted by the beginning of their columns; ties are resolved afterwards.

Each shape makes another kind of ties: none, in the first columns, in all columns but the last, in whole rows. What a
table says after bulk loads, deletes and changes of a few rows is compared with counting in Python, with one thread and
with several.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

import everview as ev
from tests.inside import inside

ROWS = 3_000
LIMIT = 2**63 - 1  # the lowest code of 64 bits stands for NULL

Rows = np.ndarray
Shape = Callable[[np.random.Generator], Rows]


def _full_range(rng: np.random.Generator) -> Rows:
    rows = rng.integers(-LIMIT, LIMIT, size=(ROWS, 4))
    rows[0] = [LIMIT, -LIMIT, LIMIT, -LIMIT]
    rows[1] = [-LIMIT, LIMIT, -LIMIT, LIMIT]
    return rows


def _few_values_first(rng: np.random.Generator) -> Rows:
    few = np.array([-LIMIT, -1, 0, LIMIT])
    return np.column_stack([rng.choice(few, ROWS), rng.choice(few, ROWS), rng.integers(0, 2**40, ROWS)])


def _neighbours(rng: np.random.Generator) -> Rows:
    """Values that differ in their lowest bits only, after columns that differ by one and are odd."""
    base = rng.choice([2**61 + 1, 2**61 + 2], ROWS)
    return np.column_stack([base, np.full(ROWS, 7), -base, rng.integers(2**62 + 1, 2**62 + 40, ROWS), base + 1])


def _last_column_alone(rng: np.random.Generator) -> Rows:
    return np.column_stack([np.full((ROWS, 6), 2**50), rng.permutation(ROWS) * 2**40 - LIMIT // 2])


def _many_equal(rng: np.random.Generator) -> Rows:
    kinds = rng.integers(-LIMIT, LIMIT, size=(40, 5))
    return kinds[rng.integers(0, 40, ROWS)]


def _ordered(rng: np.random.Generator) -> Rows:
    return np.column_stack([np.arange(ROWS) * 2**30, rng.integers(0, 2**62, size=(ROWS, 15))])


SHAPES = (_full_range, _few_values_first, _neighbours, _last_column_alone, _many_equal, _ordered)


def _bag(view: ev.View | ev.Table) -> Counter[tuple[int, ...]]:
    return Counter(view.rows())


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__.strip("_"))
def test_wide_rows_are_sorted_and_added_up(shape: Shape, threads: int) -> None:
    rng = np.random.default_rng(7)
    rows = shape(rng)
    names = [f"c{i}" for i in range(rows.shape[1])]
    with ev.connect(threads=threads) as db:
        if threads > 1:
            inside(db).runtime.dataflow.threads.share_from(100)
        table = db.table("t", dict.fromkeys(names, int))
        view = db.view("v", table.select(*reversed(names)))
        expected = Counter(map(tuple, rows.tolist()))
        table.insert(dict(zip(names, rows.T.copy(), strict=True)))
        assert _bag(table) == expected
        assert _bag(view) == Counter({row[::-1]: n for row, n in expected.items()})
        gone = rows[rng.permutation(ROWS)[: ROWS // 3]]
        with db.transaction():
            table.delete(dict(zip(names, gone.T.copy(), strict=True)))
            table.insert(dict(zip(names, rows[:700].T.copy(), strict=True)))
        expected.subtract(map(tuple, gone.tolist()))
        expected.update(map(tuple, rows[:700].tolist()))
        expected = +expected
        assert _bag(table) == expected
        assert _bag(view) == Counter({row[::-1]: n for row, n in expected.items()})
        late = db.view("late", table.distinct())
        assert set(late.rows()) == set(expected)
        some = list(expected.elements())[:150]
        table.delete(some)
        expected.subtract(some)
        assert _bag(table) == +expected


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_a_bulk_delete_of_a_row_that_is_not_there_is_refused(threads: int) -> None:
    """The first such row is named, and nothing of the change is kept."""
    with ev.connect(threads=threads) as db:
        if threads > 1:
            inside(db).runtime.dataflow.threads.share_from(10)
        table = db.table("t", {"a": int, "b": int})
        numbers = np.arange(5_000)
        table.insert({"a": numbers, "b": numbers})
        wrong = numbers.copy()
        wrong[[1_500, 4_000]] += 10_000
        with pytest.raises(ev.InputError, match="1500, 11500") as caught:
            table.delete({"a": numbers, "b": wrong})
        assert caught.value.code
        assert len(table.rows()) == 5_000
        table.delete({"a": numbers[:4_999], "b": numbers[:4_999]})
        assert table.rows() == [(4_999, 4_999)]
        with pytest.raises(ev.InputError):
            table.delete([(4_999, 4_999), (4_999, 4_999)])
        assert table.rows() == [(4_999, 4_999)]
