"""Tallies promise no more than is true: a merge leaves as much at least, and after it they are exact."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

from everview.store import garbage
from everview.store.batches import Image
from everview.store.garbage import Tally
from everview.store.manifest import Ref

Updates = dict[tuple[int, ...], list[int]]
"""Diffs by row and time."""


def batch(random: np.random.Generator, diffs: int) -> Updates:
    made: Updates = {}
    sign = random.choice([-1, 1])
    for _ in range(random.integers(1, 40)):
        row, other, time = random.integers(0, 6), random.integers(0, 2), random.integers(1, 4)
        made[int(row), int(other), int(time)] = [int(d) for d in random.integers(-1, 2, diffs) * sign]
    return {k: d for k, d in made.items() if any(d)} or {(0, 0, 1): [1] * diffs}


def image(updates: Updates) -> Image:
    keys = sorted(updates)
    table = np.array(keys, dtype=np.int64).T
    return Image.of(table[:2], table[2], np.array([updates[k] for k in keys], dtype=np.int64).T.copy())


def merged(batches: list[Updates], apart: bool) -> Updates:
    total: Updates = defaultdict(lambda: [0, 0, 0])
    for updates in batches:
        for (a, b, time), diffs in updates.items():
            key = (a, b, time if apart else 0)
            total[key] = [x + y for x, y in zip(total[key], [*diffs, 0, 0], strict=False)]
    return {k: d for k, d in total.items() if any(d)}


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("diffs", [1, 2, 3])
def test_least_is_what_a_merge_leaves_or_less(diffs: int, apart: bool) -> None:
    for seed in range(150):
        random = np.random.default_rng(seed)
        batches = [batch(random, diffs) for _ in range(random.integers(1, 5))]
        tallies = [garbage.of(image(updates), 3, apart=apart) for updates in batches]
        left = merged(batches, apart)
        assert garbage.least(tallies) <= len(left), seed
        if left:
            settled = image({k: d[:diffs] for k, d in left.items()})
            assert garbage.least([garbage.of(settled, 3, apart=apart)]) == len(left), seed


def test_a_large_batch_is_counted_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(garbage, "PIECE_BYTES", 100)
    rows = np.repeat(np.arange(500), 2).reshape(1, -1)
    made = Image.of(rows, np.tile([1, 2], 500), np.tile([1, -1], 500).reshape(1, -1))
    assert garbage.of(made, 2, apart=False) == Tally(2, 0, 0)
    assert garbage.of(made, 2, apart=True) == Tally(2, 500, 500)


def test_batches_without_columns() -> None:
    """A total over everything has none."""
    made = Image.of(np.empty((0, 2), dtype=np.int64), np.array([1, 2]), np.array([[5, -5]]))
    assert garbage.of(made, 2, apart=False) == Tally(2, 0, 0)


def test_only_the_settled_beginning_of_a_list_is_taken() -> None:
    dead = Ref(9000, 1, "a", until=4, up=100)
    recent = Ref(9000, 1, "b", until=30, up=100)
    assert [r.file for r in garbage.wasteful([dead, recent, dead], 10)] == ["a"]
    assert [r.file for r in garbage.wasteful([dead, recent, dead], 30)] == ["a", "b", "a"]
    assert not garbage.wasteful([recent, dead], 10)


def test_a_few_rows_are_not_worth_a_merge() -> None:
    assert not garbage.wasteful([Ref(garbage.GARBAGE_ROWS, 1, inline=b"")], 10)
    assert garbage.wasteful([Ref(garbage.GARBAGE_ROWS + 1, 1, inline=b"")], 10)
