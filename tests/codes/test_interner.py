"""Ids: made from values alone, never two values under one id, shippable, readable while written."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everview.codes import Interner, hashing
from everview.codes.interner import TAGS, Remembered
from everview.errors import InputError
from everview.types import NULL

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
ITEMS = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | TEXTS | st.binary(),
    lambda inner: st.tuples(inner, inner),
    max_leaves=6,
)
SOME = ["", "a", "ab", "abcdefgh", "x" * 17, "naïve", "𝄞 clef", "a\0b"]


def reference_hash(data: bytes, seed: int) -> int:
    """The hash in plain Python: what every machine must compute."""
    word = 2**64 - 1
    s0, s1, s2 = hashing._S0 & word, hashing._S1 & word, hashing._S2

    def mix(a: int, b: int) -> int:
        return a ^ b ^ (a * b & word) ^ (a * b >> 64)

    def load(at: int, size: int = 8) -> int:
        return int.from_bytes(data[at : at + size], "little")

    n, state, a, b = len(data), mix(seed ^ s0, s1), 0, 0
    if n > 16:
        for i in range(0, n - 16, 16):
            state = mix(load(i) ^ s1, load(i + 8) ^ state)
        a, b = load(n - 16), load(n - 8)
    elif n >= 8:
        a, b = load(0), load(n - 8)
    elif n >= 4:
        a, b = load(0, 4), load(n - 4, 4)
    elif n > 0:
        a = data[0] << 16 | data[n >> 1] << 8 | data[n - 1]
    return mix(s2 ^ n, mix(a ^ s1, b ^ state))


def signed(number: int) -> int:
    return number - 2**64 if number >= 2**63 else number


@given(st.binary(max_size=100))
def test_hash_is_the_reference(data: bytes) -> None:
    assert Interner().id(data) == signed(reference_hash(data, TAGS["bytes"]))


def test_ids_are_pinned() -> None:
    """Stored data holds ids: these numbers may never change."""
    interner = Interner()
    assert [interner.id(value) for value in ("", "a", b"a", "differential dataflow", (1, "a", None))] == PINNED


@given(TEXTS | st.binary() | st.tuples(ITEMS) | st.tuples(ITEMS, ITEMS) | st.just(()))
def test_single_values_round_trip(value: object) -> None:
    writer, reader = Interner(), Interner()
    wanted = writer.id(value)  # type: ignore[arg-type]
    assert wanted != NULL
    reader.load(writer.export())
    assert repr(reader.value(wanted)) == repr(writer.value(wanted)) == repr(value)


@given(st.lists(TEXTS | st.none()))
def test_batches_agree_with_single_values(texts: list[str | None]) -> None:
    interner, single = Interner(), Interner()
    codes = interner.encode(pa.array(texts, pa.string()))
    assert codes.tolist() == [NULL if text is None else single.id(text) for text in texts]
    assert interner.decode(codes).to_pylist() == texts
    assert len(interner) == len(single)


@given(st.lists(st.binary() | st.none()), st.integers(0, 3))
def test_slices_chunks_and_dictionaries(values: list[bytes | None], skip: int) -> None:
    interner = Interner()
    whole = pa.array(values, pa.binary())
    part = whole.slice(min(skip, len(values)))
    expected = interner.encode(whole, "bytes").tolist()
    assert interner.encode(part, "bytes").tolist() == expected[min(skip, len(values)) :]
    assert interner.encode(pa.chunked_array([part, whole], pa.binary()), "bytes").tolist() == [
        *expected[min(skip, len(values)) :],
        *expected,
    ]
    assert interner.encode(whole.dictionary_encode(), "bytes").tolist() == expected
    assert interner.encode(whole.cast(pa.large_binary()), "bytes").tolist() == expected
    assert interner.encode(whole.cast(pa.binary_view()), "bytes").tolist() == expected


def test_kinds_are_told_apart() -> None:
    interner = Interner()
    assert len({interner.id(v) for v in ("a", b"a", ("a",), (b"a",), (1,), (1.0,), (True,), (None,), ((1,),))}) == 9


@pytest.mark.parametrize("bits", [0, 1, 4])
def test_collisions_keep_values_apart(bits: int) -> None:
    values = [f"value {i}" for i in range(300)]
    one, two = Interner(hash_bits=bits), Interner(hash_bits=bits)
    codes = one.encode(values)
    assert len({*codes.tolist()}) == len(values)
    assert one.decode(codes).to_pylist() == values
    assert one.encode(values[::-1]).tolist() == codes.tolist()[::-1], "known values keep their ids"
    assert [two.id(value) for value in values] == codes.tolist(), "the same order gives the same ids"
    assert one.id(b"value 1") not in codes.tolist(), "kinds may collide too"


def test_dictionaries_that_disagree_are_refused() -> None:
    one, two = Interner(hash_bits=0), Interner(hash_bits=0)
    one.encode(["a", "b"])
    two.encode(["b"])
    before = two.export()
    with pytest.raises(InputError) as caught:
        two.load(one.export())
    assert caught.value.code == "E_CONFLICT"
    assert caught.value.message.startswith("the value 'a' has id 0 in the loaded dictionary and ")
    assert two.export().equals(before), "nothing of a refused dictionary stays"
    assert two.decode(two.encode(["c", "b"])).to_pylist() == ["c", "b"]


def test_export_since() -> None:
    one, two = Interner(), Interner()
    one.encode(SOME)
    two.load(one.export())
    seen = len(one)
    ids = [one.id(("new", 1)), one.id(b"bytes")]
    rest = one.export(since=seen)
    assert rest.num_rows == 3, "the text in the tuple, the tuple, the bytes"
    two.load(rest)
    two.load(one.export())
    assert [two.value(code) for code in ids] == [("new", 1), b"bytes"]
    assert len(one) == len(two)


def test_unknown_ids() -> None:
    interner = Interner()
    text = interner.id("a")
    for action in (lambda: interner.value(5), lambda: interner.decode(np.array([text]), "bytes")):
        with pytest.raises(InputError, match=r"\[E_CODE\] no (value|bytes) has id"):
            action()


def test_lone_surrogates() -> None:
    with pytest.raises(InputError, match=r"\[E_TYPE\] '\\ud800' is not valid Unicode text"):
        Interner().id("\ud800")


def test_memory_is_told() -> None:
    interner = Interner()
    before = interner.nbytes
    interner.encode(["x" * 1000 + str(i) for i in range(1000)])
    assert interner.nbytes - before > 1_000_000


def test_no_collisions_among_similar_values() -> None:
    """Half of all bits: sequences of short similar values behave like random numbers."""
    count = 300_000
    codes = Interner().encode(pa.array(np.arange(count)).cast(pa.string()))
    for half in (codes & 0xFFFFFFFF, codes >> 32):
        expected = count**2 / 2**33
        assert abs((count - len(np.unique(half))) - expected) < 6 * expected**0.5
    bits = np.unpackbits(codes.view(np.uint8)).reshape(count, 64).mean(axis=0)
    assert (abs(bits - 0.5) < 0.006).all()


def test_ids_are_equal_in_other_processes() -> None:
    script = (
        "from everview.codes import Interner; import datetime as d; i = Interner();"
        "print([i.id(v) for v in ('pear', b'pear', ('pear', 1.5, None, d.date(2020, 1, 1), (True,)))])"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert runs[0] == runs[1] != ""


@settings(max_examples=3)
@given(st.integers(0, 10))
def test_readers_while_one_writes(seed: int) -> None:
    interner = Interner()
    texts = [f"{seed}-{i}" for i in range(20_000)]
    codes = interner.encode(texts[:100])
    faults: list[BaseException] = []
    stop = threading.Event()

    def read() -> None:
        try:
            while not stop.is_set():
                assert interner.decode(codes).to_pylist() == texts[:100]
                assert interner.value(int(codes[7])) == texts[7]
        except BaseException as fault:
            faults.append(fault)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for low in range(0, len(texts), 500):
        interner.encode(texts[low : low + 500])
    stop.set()
    for reader in readers:
        reader.join()
    assert not faults
    assert interner.decode(interner.encode(texts)).to_pylist() == texts


def test_a_failed_growth_leaves_the_store_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    interner = Interner()
    codes = interner.encode(SOME)
    before = interner.export()
    monkeypatch.setattr("everview.codes.interner.longer", _no_memory)
    with pytest.raises(MemoryError):
        interner.encode([str(i) for i in range(10_000)])
    monkeypatch.undo()
    assert interner.export().equals(before)
    assert interner.encode(SOME).tolist() == codes.tolist()
    many = [str(i) for i in range(10_000)]
    assert interner.decode(interner.encode(many)).to_pylist() == many


def test_a_full_cache_begins_anew() -> None:
    """It stays small, and what is asked for now is in it: not what was asked for first, for ever."""
    reads: list[int] = []

    def read(code: int) -> str:
        reads.append(code)
        return str(code)

    cache = Remembered(read, most=8)
    for code in range(100):
        assert cache[code] == str(code) and cache[NULL] is None
        assert len(cache) <= 8
    reads.clear()
    assert [cache[99], cache[99], cache[98]] == ["99", "99", "98"]
    assert reads == []


def test_caches_of_packed_values_count_as_held() -> None:
    interner = Interner()
    before = interner.nbytes
    for i in range(1000):
        interner.packed_id("numeric", str(i))
    held = interner.nbytes - before
    empty = Interner()
    empty.encode([str(i) for i in range(1000)])
    assert held > empty.nbytes - before + 1000 * 90


def _no_memory(*_: object) -> None:
    raise MemoryError


PINNED = [5912411242011034332, 3745649265424266106, -8787401890039527824, 4821759787495583885, -4772452761150726080]
