"""Rows encoded column by column are the same bytes as rows encoded value by value, for every type and both forms."""

from __future__ import annotations

import datetime as dt
import random
import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from everview.codes.codec import Codec
from everview.codes.interner import Interner
from everview.codes.intervals import Interval
from everview.server.pg.answers import RowWriter, columns_of
from everview.server.pg.column_encoder import Columnwise
from everview.types import (
    BOOL,
    BYTES,
    DATE,
    FLOAT,
    INT,
    INTERVAL,
    JSON,
    STR,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    UUID,
    DataType,
    array,
    char,
    decimal,
    enum,
    numeric,
    small_int,
)


def _moment(chance: random.Random) -> dt.datetime:
    seconds = chance.randrange(-62_135_596_800, 253_402_300_799)
    return dt.datetime(1970, 1, 1) + dt.timedelta(seconds=seconds, microseconds=chance.choice((0, 1, 999_999)))


VALUES: dict[str, tuple[DataType, Any]] = {
    "int": (INT, lambda c: c.choice((0, -1, 2**62, -(2**62), c.randrange(-999, 999)))),
    "int4": (small_int(32), lambda c: c.choice((0, -(2**31), 2**31 - 1))),
    "int2": (small_int(16), lambda c: c.choice((0, -(2**15), 2**15 - 1))),
    "float": (FLOAT, lambda c: c.choice((0.0, -0.0, 1e300, 5e-324, float("inf"), float("nan"), c.gauss(0, 1e3)))),
    "bool": (BOOL, lambda c: c.random() < 0.5),
    "str": (STR, lambda c: c.choice(("", "a", "ü\n\t\\", "x" * 300, str(c.random())))),
    "bytes": (BYTES, lambda c: c.choice((b"", b"\0\xff", c.randbytes(9)))),
    "date": (DATE, lambda c: dt.date.fromordinal(c.randrange(1, 3_652_060))),
    "timestamp": (TIMESTAMP, _moment),
    "timestamptz": (TIMESTAMPTZ, lambda c: _moment(c).replace(tzinfo=dt.UTC)),
    "time": (TIME, lambda c: _moment(c).time()),
    "interval": (INTERVAL, lambda c: Interval(c.randrange(-9, 9), c.randrange(9), c.randrange(10**9))),
    "uuid": (UUID, lambda c: uuid.UUID(int=c.getrandbits(128))),
    "json": (JSON, lambda c: {"a": c.random()}),
    "decimal": (decimal(2), lambda c: Decimal(c.randrange(-9999, 9999)).scaleb(-2)),
    "numeric": (numeric(3), lambda c: Decimal(c.randrange(-(10**30), 10**30)).scaleb(-3)),
    "char": (char(3), lambda c: c.choice(("a  ", "abc"))),
    "enum": (enum("red", "green"), lambda c: c.choice(("red", "green"))),
    "array": (array(INT), lambda c: [1, None, c.randrange(9)]),
}


def _same(types: list[DataType], rows: list[tuple[Any, ...]], formats: tuple[int, ...]) -> None:
    codec = Codec(types, [f"c{i}" for i in range(len(types))], Interner())
    codes, columns = codec.encode(rows), columns_of(codec.names, codec.types)
    zone = "Europe/Berlin" if not any(t.kind == "timestamptz" for t in types) else "UTC"
    wanted = RowWriter(columns, formats, zone)(codec.decode_rows(codes))
    assert Columnwise(columns, formats, zone, codec)(codes) == wanted


@pytest.mark.parametrize("binary", [0, 1])
@pytest.mark.parametrize("name", VALUES)
def test_one_column(name: str, binary: int) -> None:
    declared, make = VALUES[name]
    chance = random.Random(name)
    rows = [(make(chance),) for _ in range(100)]
    _same([declared], rows, (binary,))
    _same([declared.optional()], [(None if i % 3 == 0 else row[0],) for i, row in enumerate(rows)], (binary,))
    _same([declared.optional()], [(None,)] * 3, (binary,))


@pytest.mark.parametrize("seed", range(20))
def test_columns_side_by_side(seed: int) -> None:
    chance = random.Random(seed)
    chosen = [VALUES[chance.choice(list(VALUES))] for _ in range(chance.randrange(1, 9))]
    types = [declared.optional(chance.random() < 0.5) for declared, _ in chosen]
    rows = [
        tuple(
            None if t.nullable and chance.random() < 0.3 else make(chance)
            for t, (_, make) in zip(types, chosen, strict=True)
        )
        for _ in range(chance.randrange(1, 300))
    ]
    _same(types, rows, tuple(chance.randrange(2) for _ in types))


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("form", [0, 1])
def test_nothing_is_done_that_imports_pandas(name: str, form: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """`pa.array` and `pa.scalar` would, on the event loop, while everybody waits."""
    chance = random.Random(3)
    declared, draw = VALUES[name]
    codec = Codec([declared.optional()], ["c"], Interner())
    codes = codec.encode([(draw(chance),) for _ in range(20)] + [(None,)])
    columns = columns_of(codec.names, codec.types)
    for function in ("array", "scalar"):
        monkeypatch.setattr(pa, function, lambda *_, **__: pytest.fail("it would import pandas"))
    assert Columnwise(columns, (form,), "UTC", codec)(codes)
