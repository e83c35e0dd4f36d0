"""Long columns are encoded by several threads: codes, dictionary and errors are those of one thread."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import everview as ev
from everview.codes import codec, hashing, interner
from everview.codes.codec import Codec
from everview.codes.interner import Interner
from everview.codes.runs import Run
from everview.codes.sharing import each
from everview.errors import InputError
from everview.types import DataType

ROWS = 5_000
THREADS = (2, 4, 7)


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Share columns of some thousand rows, of which the first few are added alone."""
    monkeypatch.setattr(interner, "SHARED_ROWS", 1000)
    monkeypatch.setattr(codec, "SHARED_ROWS", 1000)
    monkeypatch.setattr(interner, "FIRST_ROWS", 50)


def _texts(seed: int, different: int) -> pa.Array:
    draw = np.random.default_rng(seed)
    values: list[str | None] = [f"value {n} {'x' * (n % 40)}" for n in draw.integers(0, different, ROWS).tolist()]
    for place in draw.integers(0, ROWS, ROWS // 10).tolist():
        values[place] = None
    return pa.array(values)


def _stored(one: Interner, since: int = 0) -> dict[str, list[Any]]:
    stored: dict[str, list[Any]] = one.export(since).to_pydict()
    return stored


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("hash_bits", [64, 6])
@pytest.mark.parametrize("different", [3, 700, 1_000_000])
def test_the_dictionary_is_that_of_one_thread(threads: int, hash_bits: int, different: int) -> None:
    alone, shared = Interner(hash_bits=hash_bits), Interner(hash_bits=hash_bits)
    shared.threads = threads
    for seed in range(3):
        column = _texts(seed, different)
        for part in (column, column.slice(7, ROWS - 1000), column.cast(pa.large_string()), column.cast(pa.binary())):
            kind = "bytes" if pa.types.is_binary(part.type) else "str"
            assert alone.encode(part, kind).tolist() == shared.encode(part, kind).tolist()
    assert _stored(alone) == _stored(shared)


def test_values_at_rest_are_found() -> None:
    alone, shared = Interner(), Interner()
    shared.threads = 2
    for one in (alone, shared):
        one.encode(_texts(0, 700))
        one.rest_on([Run.of(one.export())], len(one))
    before = len(alone)
    assert alone.encode(_texts(1, 1400)).tolist() == shared.encode(_texts(1, 1400)).tolist()
    assert _stored(alone, before) == _stored(shared, before)


def test_threads_look_for_values(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = []
    find = hashing.find
    monkeypatch.setattr(hashing, "find", lambda *given: looked.append(1) or find(*given))  # type: ignore[func-returns-value]
    shared = Interner()
    shared.threads = 3
    shared.encode(_texts(0, 3))
    assert len(looked) == 3


TYPES = (
    DataType("int", width=32), DataType("str", nullable=True), DataType("decimal", scale=2, width=9), DataType("date"),
    DataType("float"), DataType("bool", nullable=True),
)  # fmt: skip
NAMES = ("number", "text", "price", "day", "ratio", "flag")


def _columns(seed: int) -> dict[str, Any]:
    draw = np.random.default_rng(seed)
    numbers = draw.integers(-1000, 1000, ROWS)
    return {
        "number": pa.array(numbers, pa.int32()),
        "text": _texts(seed, 300),
        "price": pa.array([Decimal(n) / 100 for n in numbers.tolist()], pa.decimal128(15, 2)),
        "day": pa.array([dt.date(2020, 1, 1) + dt.timedelta(n) for n in numbers.tolist()]),
        "ratio": draw.random(ROWS),
        "flag": pa.array([None if n % 7 == 0 else n > 0 for n in numbers.tolist()]),
    }


@pytest.mark.parametrize("threads", THREADS)
def test_tables_are_encoded_alike(threads: int) -> None:
    alone, shared = Codec(TYPES, NAMES, Interner()), Codec(TYPES, NAMES, Interner())
    shared.interner.threads = threads
    for seed in range(3):
        assert np.array_equal(alone.encode(_columns(seed)), shared.encode(_columns(seed)))


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("wrong", ["number", "price", "day", "number price", "price text"])
def test_the_first_wrong_column_is_reported(threads: int, wrong: str) -> None:
    columns = _columns(0)
    if "number" in wrong:
        columns["number"] = pa.array([*range(ROWS - 1), 2**40])
    if "price" in wrong:
        columns["price"] = pa.array([Decimal(1)] * 30 + [Decimal(10**8)] * (ROWS - 30))
    if "day" in wrong:
        columns["day"] = pa.array([-(10**7)] * ROWS, pa.int32()).cast(pa.date32())
    if "text" in wrong:
        columns["text"] = pa.array([1] * ROWS)
    said = []
    for count in (1, threads):
        codec_ = Codec(TYPES, NAMES, Interner())
        codec_.interner.threads = count
        with pytest.raises(InputError) as refused:
            codec_.encode(columns)
        said.append(str(refused.value))
    assert said[0] == said[1] and f"column {NAMES[min(NAMES.index(name) for name in wrong.split())]!r}" in said[0]


def test_the_error_of_the_lowest_number_is_raised() -> None:
    def fail(number: int) -> None:
        if number % 2:
            raise ValueError(str(number))

    for _ in range(20):
        with pytest.raises(ValueError, match=r"^1$"):
            each(9, 4, fail)


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_sessions_share_what_they_encode(threads: int) -> None:
    with ev.connect(threads=threads) as db:
        table = db.table("t", {"number": int, "text": "str?", "ratio": float})
        view = db.view("v", table.group_by("text").agg(rows=ev.count()))
        given = {name: column for name, column in _columns(1).items() if name in ("number", "text", "ratio")}
        given["number"] = given["number"].cast(pa.int64())
        table.insert(given)
        expected: dict[str | None, int] = {}
        for text in given["text"].to_pylist():
            expected[text] = expected.get(text, 0) + 1
        assert dict(view.rows()) == expected
        table.delete(given)
        assert view.rows() == []
