"""Merging a piece at a time gives what merging at once gives."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from everview.dataflow.batch_merge import TraceShape
from everview.dataflow.operators import NEVER
from everview.spark.driver import compaction
from everview.spark.driver.compaction import Request
from everview.store import Image, Store
from everview.store.chunked_merge import cut
from everview.store.manifest import Ref


def batches(random: np.random.Generator, *, apart: bool, same: bool) -> list[Image]:
    """Sorted batches of (key, value): overlapping or behind one another, with one key or many."""
    found = []
    for number in range(6):
        low = 1000 * number if apart else 0
        keys = np.zeros(700, dtype=np.int64) if same else random.integers(low, low + 1000, 700)
        rows = np.unique(np.array([keys, random.integers(low, low + 300, 700)]), axis=1)
        diffs = random.choice([-1, 1, 2], rows.shape[1])
        times = int(number) if number % 2 else random.integers(1, 9, rows.shape[1])
        found.append(Image.of(rows, times, 1 if number % 3 == 0 else diffs.reshape(1, -1)))  # type: ignore[arg-type]
    return found


@pytest.mark.parametrize("apart", [False, True], ids=["overlapping", "behind one another"])
@pytest.mark.parametrize("same", [False, True], ids=["many keys", "one key"])
def test_pieces_are_ranges_of_rows_of_about_one_size(apart: bool, same: bool) -> None:
    images = batches(np.random.default_rng(3), apart=apart, same=same)
    pieces = [np.concatenate([i.columns() for i in piece], axis=1) for piece in cut(images, 8000)]
    assert len(pieces) > 5
    assert sum(p.shape[1] for p in pieces) == sum(i.rows for i in images)
    assert max(p.shape[1] for p in pieces) < 3 * sum(p.shape[1] for p in pieces) / len(pieces)
    for before, after in pairwise(pieces):
        assert max(map(tuple, before.T.tolist())) < min(map(tuple, after.T.tolist()))


def merge(store: Store, refs: list[Ref], name: str) -> Image | None:
    request = Request((0, 0), tuple(refs), name, 9, TraceShape(2, 1, -1, 4, 5, held=NEVER))
    found = request.run(store.files)
    return None if found is None else store.get(found)


@pytest.mark.parametrize("apart", [False, True], ids=["overlapping", "behind one another"])
def test_a_merge_in_pieces_is_the_merge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, apart: bool) -> None:
    images = batches(np.random.default_rng(5), apart=apart, same=False)
    with Store(tmp_path, shards=1) as store:
        refs = [store.put(image) for image in images]
        whole = merge(store, refs, "whole.arrow")
        monkeypatch.setattr(compaction, "PIECE_BYTES", 5000)
        parts = merge(store, refs, "parts.arrow")
        assert whole is not None and parts is not None and whole.rows > 1000
        assert (whole.time, whole.diff) == (parts.time, parts.diff)
        assert whole.body.tolist() == parts.body.tolist()
        assert not [p for p in (tmp_path / "batches").iterdir() if p.suffix != ".arrow"]


def test_what_cancels_is_no_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "PIECE_BYTES", 5000)
    rows = np.arange(2000).reshape(2, -1)
    with Store(tmp_path, shards=1) as store:
        refs = [store.put(Image.of(rows, 1, np.full((1, 1000), diff))) for diff in (1, -1)]
        assert merge(store, refs, "none.arrow") is None
