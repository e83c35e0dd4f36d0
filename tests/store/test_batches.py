"""Batches survive being written and read, as bytes and as Arrow files, and damage is noticed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import everview as ev
from everview.store.batches import Image, from_arrow, from_bytes, open_batch, to_arrow, to_bytes, write_batch
from everview.store.locations import open_files


@st.composite
def images(draw: st.DrawFn) -> Image:
    rows, cols, diffs = draw(st.integers(0, 40)), draw(st.integers(0, 4)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))

    def words(*shape: int) -> np.ndarray:
        return rng.integers(-(2**63), 2**63 - 1, shape, dtype=np.int64)

    times = draw(st.sampled_from([words(rows), int(words(1)[0])]))
    weights = draw(st.sampled_from([words(diffs, rows), 1]))
    return Image.of(words(cols, rows), times, weights)  # type: ignore[arg-type]


def same(a: Image, b: Image) -> bool:
    return (a.rows, a.cols, a.diffs, a.time, a.diff) == (b.rows, b.cols, b.diffs, b.time, b.diff) and np.array_equal(
        a.body, b.body
    )


@settings(max_examples=60, deadline=None)
@given(images())
def test_round_trips(image: Image) -> None:
    assert same(from_bytes(to_bytes(image), "x"), image)
    assert same(from_arrow(to_arrow(image), "x"), image)


@settings(max_examples=30, deadline=None)
@given(images(), st.data())
def test_taking_rows(image: Image, data: st.DataObject) -> None:
    places = np.array(data.draw(st.permutations(range(image.rows))), dtype=np.int64)[: image.rows // 2]
    some = image.take(places)
    assert np.array_equal(some.columns(), image.columns()[:, places])
    assert np.array_equal(some.times(), image.times()[places])
    assert np.array_equal(some.weights(), image.weights()[:, places])


def test_a_file_is_mapped_not_copied(tmp_path: Path) -> None:
    files = open_files(tmp_path)
    image = Image.of(np.arange(3000).reshape(3, 1000), np.arange(1000), np.arange(2000).reshape(2, 1000))
    write_batch(files, "b.arrow", image)
    mapped = open_batch(files, "b.arrow")
    assert not mapped.body.flags.owndata and not mapped.body.flags.writeable
    before = pa.total_allocated_bytes()
    again = open_batch(files, "b.arrow")
    assert pa.total_allocated_bytes() - before < 1000 and same(again, image)


def test_any_arrow_reader_reads_it(tmp_path: Path) -> None:
    write_batch(open_files(tmp_path), "b.arrow", Image.of(np.array([[1, 2], [3, 4]]), 7, np.array([[1, -1]])))
    table = pa.ipc.open_file(str(tmp_path / "b.arrow")).read_all()
    assert table.to_pydict() == {"c0": [1, 2], "c1": [3, 4], "diff0": [1, -1]}
    assert table.schema.metadata[b"time"] == b"7"


def test_every_flipped_byte_is_noticed(tmp_path: Path) -> None:
    files = open_files(tmp_path)
    _, crc = write_batch(files, "b.arrow", Image.of(np.arange(20).reshape(2, 10), 1, 1))
    good = (tmp_path / "b.arrow").read_bytes()
    for at in range(0, len(good), 7):
        (tmp_path / "b.arrow").write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        with pytest.raises(ev.StoreError, match="E_DAMAGED"):
            open_batch(files, "b.arrow", crc)


@pytest.mark.parametrize("size", [0, 1, 8, 100, 700])
def test_a_torn_file_is_refused_even_without_its_checksum(tmp_path: Path, size: int) -> None:
    files = open_files(tmp_path)
    write_batch(files, "b.arrow", Image.of(np.arange(200).reshape(2, 100), 1, 1))
    (tmp_path / "b.arrow").write_bytes((tmp_path / "b.arrow").read_bytes()[:size])
    with pytest.raises(ev.StoreError, match="E_DAMAGED"):
        open_batch(files, "b.arrow")


def test_a_missing_file_and_a_stranger_are_named(tmp_path: Path) -> None:
    files = open_files(tmp_path)
    with pytest.raises(ev.StoreError, match=r"b\.arrow is missing"):
        open_batch(files, "b.arrow")
    with pa.ipc.new_file(str(tmp_path / "b.arrow"), pa.schema([("x", pa.int64())])):
        pass
    with pytest.raises(ev.StoreError, match="it is not a batch"):
        open_batch(files, "b.arrow")
