"""An interner that leaves its values to runs gives the ids and values of one that holds them all."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everview.codes import Interner
from everview.codes.runs import Run, slots_in, sorted_by_id
from everview.errors import InputError
from everview.types import NULL

TEXTS = st.text("ab", max_size=4) | st.none()
BATCHES = st.lists(st.tuples(st.sampled_from(("str", "bytes")), st.lists(TEXTS, max_size=12)), min_size=1, max_size=12)


def given_kind(kind: str, texts: list[str | None]) -> pa.Array:
    if kind == "str":
        return pa.array(texts, pa.string())
    return pa.array([None if text is None else text.encode() for text in texts], pa.binary())


@given(BATCHES, st.lists(st.booleans(), min_size=12, max_size=12), st.sampled_from((2, 4, 64)), st.booleans())
@settings(max_examples=300, deadline=None)
def test_ids_and_values_are_those_of_an_interner_without_runs(
    batches: list[tuple[str, list[str | None]]], rests: list[bool], bits: int, in_order: bool
) -> None:
    whole, resting = Interner(hash_bits=bits), Interner(hash_bits=bits)
    runs: list[Run] = []
    saved = 0
    for (kind, texts), rest in zip(batches, rests, strict=False):
        codes = whole.encode(given_kind(kind, texts), kind)
        assert resting.encode(given_kind(kind, texts), kind).tolist() == codes.tolist()
        assert resting.decode(codes, kind).to_pylist() == given_kind(kind, texts).to_pylist()
        assert [resting.value(int(code)) for code in codes] == given_kind(kind, texts).to_pylist()
        if rest:
            piece = resting.export(saved)
            runs.append(Run.of(piece if in_order else sorted_by_id(piece)))
            saved = len(resting)
            resting.rest_on(runs, saved)
            assert resting.resident == 0
    again = Interner(hash_bits=bits)
    again.load(pa.concat_tables([run.table.replace_schema_metadata() for run in runs] + [resting.export(saved)]))
    for kind, texts in batches:
        values = given_kind(kind, texts)
        assert again.encode(values, kind).tolist() == whole.encode(values, kind).tolist()


@given(st.lists(st.lists(st.integers(0, 50), max_size=20), max_size=4), st.lists(st.integers(0, 60), max_size=20))
def test_slots(pieces: list[list[int]], wanted: list[int]) -> None:
    runs = [
        Run.of(pa.table({"kind": pa.array([4] * len(ids), pa.uint8()), "id": pa.array(ids, pa.int64()),
                         "value": pa.array([b"%d" % i for i in ids], pa.binary())}))
        for ids in (sorted(set(piece)) for piece in pieces)
    ]  # fmt: skip
    which, slots = slots_in(runs, np.array(wanted, dtype=np.int64))
    for code, run, slot in zip(wanted, which.tolist(), slots.tolist(), strict=True):
        held = [number for number, one in enumerate(runs) if code in one.ids]
        assert run == (held[0] if held else -1)
        assert slot == (runs[run].ids.tolist().index(code) if held else -1)


def test_what_nobody_has_is_refused() -> None:
    interner = Interner()
    fig = interner.id("fig")
    interner.rest_on([Run.of(interner.export())], 1)
    with pytest.raises(InputError, match="E_CODE"):
        interner.decode(np.array([fig, 12345]))
    with pytest.raises(InputError, match="no bytes has id"):
        interner.decode(np.array([fig]), "bytes")
    assert interner.decode(np.array([NULL, fig])).to_pylist() == [None, "fig"]


def test_tuples_and_their_items_rest_too() -> None:
    interner = Interner()
    code = interner.id(("fig", 2, ("pear", None)))
    interner.rest_on([Run.of(sorted_by_id(interner.export()))], len(interner))
    assert interner.value(code) == ("fig", 2, ("pear", None))
    assert interner.id(("fig", 2, ("pear", None))) == code
    assert interner.resident == 0


def test_entries_that_are_not_at_rest_stay() -> None:
    interner = Interner()
    interner.id("fig")
    run = Run.of(interner.export())
    pear = interner.id("pear")
    interner.rest_on([run], 1)
    assert (interner.resident, len(interner), interner.value(pear)) == (2, 2, "pear")
    assert interner.export(1)["value"].to_pylist() == [b"pear"]
