"""The codec of one schema: rows and tables to codes, and back.

A batch of n rows is one C-contiguous int64 array of shape (columns, n). Streams of small changes consist of single
rows, so three small functions are generated and compiled once per schema. `encode_row` checks the common case of every
column in a comparison or two, and calls the general encoder (see `values`) only when that fails; `decode_row` is its
inverse. `encode_few` contains the same statements for a list of one row: a call is a twentieth of a change. Batches go
column by column through `arrays`.

A bad row raises an `InputError` that names row (counted from 0), column and value, with one of these codes: `E_WIDTH`
(number of columns), `E_COLUMN` (names), `E_TYPE`, `E_NULL`, `E_RANGE`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from types import CodeType
from typing import Any

import numpy as np
import pyarrow as pa

from everview.codes import scalars
from everview.codes.arrays import BadValue, decode_arrow, decode_list, encode_column
from everview.codes.interner import Interner, Words
from everview.codes.multiplicity import check_room
from everview.codes.plain_columns import copied
from everview.codes.scalars import counted, shown
from everview.codes.sharing import SHARED_ROWS, each
from everview.codes.tables import columns_of, is_series, is_table, of_series
from everview.codes.type_declarations import arrow_field
from everview.codes.values import Encode, decoder, encoder, read_by_type
from everview.errors import EverviewError, InputError, did_you_mean
from everview.types import INTERNED, NULL, PACKED, DataType, bounds

ONE_BY_ONE_ROWS = 24
"""Up to this many rows, row by row is faster than column by column."""

ROW_BYTES, VALUE_BYTES = 64, 32
"""Size of a tuple in a list, and of each of its values."""

Row = tuple[Any, ...]


class Codec:
    """Encoder and decoder of rows of one schema.

    >>> from everview.types import INT, STR
    >>> codec = Codec((INT, STR.optional()), ("id", "name"), Interner())
    >>> codes = codec.encode([(1, "pear"), {"id": 2, "name": None}])
    >>> codes.shape, codec.decode_rows(codes)
    ((2, 2), [(1, 'pear'), (2, None)])
    >>> codec.decode_row(codec.encode_row((3, "fig")))
    (3, 'fig')
    """

    encode_row: Callable[[Any], tuple[int, ...]]
    """Encode one row (tuple, list or dict)."""
    decode_row: Callable[[Sequence[int]], Row]
    """Decode one tuple of codes."""
    encode_few: Callable[[Any], list[tuple[int, ...]] | None]
    """Encode a short list of rows as tuples; None for any other input, which is better encoded by columns."""

    def __init__(self, types: Sequence[DataType], names: Sequence[str], interner: Interner) -> None:
        self.types = tuple(types)
        self.names = tuple(names)
        self._listed = [*names]
        self.interner = interner
        self._pick = itemgetter(*self.names) if len(self.names) > 1 else None
        self.encode_row, self.encode_few = _compile_encoders(self)
        self.decode_row = _compile_decoder(self)

    # rows

    def encode(self, data: Any) -> Words:
        """Encode rows (any iterable of tuples, lists or dicts) or a table (see `encode_table`)."""
        if type(data) is list or not is_table(data):
            return self.encode_rows(data)
        return self.encode_table(data)

    def _encode_several(self, rows: list[Any]) -> list[tuple[int, ...]] | None:
        """`encode_few` for a list that has not exactly one row."""
        if len(rows) > ONE_BY_ONE_ROWS:
            return None
        try:
            return [*map(self.encode_row, rows)]
        except EverviewError:
            self.encode_rows(rows)  # reports which row it was
            raise

    def encode_rows(self, rows: Iterable[Any]) -> Words:
        """Encode rows given as tuples, lists or dicts."""
        rows = rows if isinstance(rows, list) else _row_list(rows)
        if len(rows) <= ONE_BY_ONE_ROWS:
            return self._encode_few(rows)
        if {*map(type, rows)} != {tuple}:
            rows = self._located(rows, self.as_tuple)
        if {*map(len, rows)} != {len(self.types)}:
            self._located(rows, self._check_width)
        return self._encode_columns([*zip(*rows, strict=True)], len(rows))

    def decode_rows(self, columns: Words) -> list[Row]:
        """Decode codes of shape (columns, n)."""
        check_room(columns.shape[1], ROW_BYTES + VALUE_BYTES * len(self.types))
        if not self.types:
            return [()] * columns.shape[1]
        parts = [decode_list(part, kind, self.interner) for part, kind in zip(columns, self.types, strict=True)]
        return [*zip(*parts, strict=True)]

    # tables

    def encode_table(self, data: Any) -> Words:
        """Encode an Arrow table or batch, a pandas or polars frame, a dict of columns, or a NumPy array.

        Columns are matched by name, in any order; those of a plain two-dimensional array by position.
        """
        columns = columns_of(data)
        if isinstance(columns, list):
            if len(columns) != len(self.types):
                raise self._wrong_width("the array", len(columns), "column")
            return self._encode_columns(columns, len(columns[0]) if columns else 0)
        self._check_names(columns, "the table")
        sizes = [*map(len, columns.values())]
        if len({*sizes}) > 1:
            listed = ", ".join(f"{name}: {size}" for name, size in zip(columns, sizes, strict=True))
            raise InputError("E_WIDTH", f"columns have different lengths ({listed})", "make them equally long")
        return self._encode_columns([columns[name] for name in self.names], sizes[0] if sizes else 0)

    def to_arrow(self, columns: Words) -> pa.Table:
        """Decode codes of shape (columns, n) into an Arrow table.

        >>> Codec((DataType("bool"),), ("ok",), Interner()).to_arrow(np.array([[1, 0]])).to_pydict()
        {'ok': [True, False]}
        """
        arrays = [decode_arrow(part, kind, self.interner) for part, kind in zip(columns, self.types, strict=True)]
        fields = [
            arrow_field(name, kind).with_type(array.type)
            for name, kind, array in zip(self.names, self.types, arrays, strict=True)
        ]
        return pa.Table.from_arrays(arrays, schema=pa.schema(fields))

    def to_pandas(self, columns: Words) -> Any:
        """Decode into a pandas frame; nullable numbers and bools have pandas' own nullable types, tuples are tuples."""
        import pandas as pd

        nullable = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}
        frame = self.to_arrow(columns)
        plain = frame.to_pandas(integer_object_nulls=True)
        for i, (name, field) in enumerate(zip(self.names, frame.schema, strict=True)):
            if self.types[i].kind == "tuple" or self.types[i].kind in PACKED:
                plain[name] = pd.Series(decode_list(columns[i], self.types[i], self.interner), dtype=object)
            elif field.nullable and field.type in nullable:
                plain[name] = plain[name].astype(nullable[field.type])
            elif field.nullable and self.types[i].kind == "float":  # NaN is a number, NULL is not
                missing = columns[i] == NULL
                values = np.where(missing, 1.0, plain[name].to_numpy(dtype=float))
                plain[name] = pd.arrays.FloatingArray(values, missing)
        return plain

    def to_polars(self, columns: Words) -> Any:
        """Decode into a polars frame."""
        import polars as pl

        table = self.to_arrow(columns)
        for i, declared in enumerate(self.types):
            if declared.kind == "interval":  # polars has no intervals with months
                values = decode_list(columns[i], declared, self.interner)
                texts = pa.array([None if v is None else str(v) for v in values], pa.string())
                table = table.set_column(i, self.names[i], texts)
        return pl.from_arrow(table)

    # helpers

    def as_tuple(self, row: Any) -> Row:
        """A row in the schema's order, from a dict, list or other sequence of values."""
        if isinstance(row, Mapping):
            if len(row) != len(self.names) or not all(name in row for name in self.names):
                self._check_names(row, "the row")
            return self._pick(row) if self._pick else tuple(row[name] for name in self.names)
        if isinstance(row, (tuple, list, np.void)):
            return tuple(row)  # type: ignore[arg-type]
        if isinstance(row, np.ndarray) and row.ndim == 1:
            return tuple(row.tolist())
        example = f"({', '.join(self.names)}{',' if len(self.names) == 1 else ''})"
        raise scalars.wrong_type(row, "a row", f"a row is a tuple {example} or a dict; give a list of rows")

    def _encode_few(self, rows: list[Any]) -> Words:
        try:
            codes = [*map(self.encode_row, rows)]
        except InputError:
            codes = self._located(rows, self.encode_row)  # once more, to find the row
        if codes and self.types:
            return np.array([*zip(*codes, strict=True)], dtype=np.int64)
        return np.empty((len(self.types), len(codes)), dtype=np.int64)

    def _located(self, rows: list[Any], function: Callable[[Any], Any]) -> list[Any]:
        """Apply `function` to each row; errors name the row."""
        out = []
        try:
            for row in rows:
                out.append(function(row))
        except InputError as error:
            raise _placed(error, f"row {len(out)}") from None
        return out

    def _encode_columns(self, columns: Sequence[Any], size: int) -> Words:
        out = np.empty((len(self.types), size), dtype=np.int64)
        try:
            if self.interner.threads > 1 and size >= SHARED_ROWS:
                self._encode_shared(columns, out)
                return out
        except InputError:
            pass  # one by one, to report the first column that is wrong
        for i, values in enumerate(columns):
            self._encode_column(i, values, out[i])
        return out

    def _encode_shared(self, columns: Sequence[Any], out: Words) -> None:
        """Encode on several threads: interned columns one after the other, each by all of them, and then the others."""
        others = []
        for i, declared in enumerate(self.types):
            if declared.kind in INTERNED:
                self._encode_column(i, columns[i], out[i])
            else:
                others.append(i)

        def encode(number: int) -> None:
            i = others[number]
            self._encode_column(i, columns[i], out[i])

        each(len(others), self.interner.threads, encode)

    def _encode_column(self, i: int, values: Any, out: Words) -> None:
        if copied(values, self.types[i], out):
            return
        try:
            values = of_series(values, self.types[i]) if is_series(values) else values
            out[:] = encode_column(values, self.types[i], self.interner)
        except BadValue as error:
            raise _placed(error, f"row {error.row}, column {self.names[i]!r}") from None
        except InputError as error:
            raise _placed(error, f"column {self.names[i]!r}") from None

    def _check_width(self, row: Row) -> None:
        if len(row) != len(self.types):
            raise self._wrong_width(shown(row), len(row))

    def _wrong_width(self, what: str, width: int, noun: str = "value") -> InputError:
        hint = f"the columns are {', '.join(self.names)}"
        return InputError("E_WIDTH", f"{what} has {counted(width, noun)}, not {len(self.types)}", hint)

    def _check_names(self, given: Iterable[Any], what: str) -> None:
        names = [*given]
        if names == self._listed:
            return
        missing = [name for name in self.names if name not in names]
        extra = [name for name in names if name not in self.names]
        if extra:
            hint = did_you_mean(str(extra[0]), missing or self.names)
            raise InputError("E_COLUMN", f"{what} has a column {extra[0]!r} that the schema has not", hint)
        if missing:
            hint = f"the columns are {', '.join(self.names)}"
            raise InputError("E_COLUMN", f"{what} has no column {missing[0]!r}", hint)


def _row_list(rows: Iterable[Any]) -> list[Any]:
    """Rows of any iterable; detects the common mistake of passing a single row."""
    if isinstance(rows, (str, bytes, Mapping)) or not isinstance(rows, Iterable):
        raise scalars.wrong_type(rows, "a list of rows", "give a list of tuples or dicts, or a table")
    return [*rows]


def _placed(error: InputError, place: str) -> InputError:
    joint = ", " if error.message.startswith("column ") else ": "
    return InputError(error.code, place + joint + error.message, error.hint)


# Generated functions. The source consists of types and column numbers alone; names and values never enter it.

_QUICK_ENCODE = {
    "int": "if type(c{i}) is not int or not {low} <= c{i} <= {high}: c{i} = f{i}(c{i})",
    "int?": (
        "c{i} = {null} if c{i} is None else c{i} if type(c{i}) is int and {low} <= c{i} <= {high} and c{i} != {null} "
        "else f{i}(c{i})"
    ),
    "small": "if type(c{i}) is not int or not {low} <= c{i} <= {high}: c{i} = f{i}(c{i})",
    "small?": (
        "c{i} = {null} if c{i} is None else c{i} if type(c{i}) is int and {low} <= c{i} <= {high} else f{i}(c{i})"
    ),
    "bool": "c{i} = 1 if c{i} is True else 0 if c{i} is False else f{i}(c{i})",
    "bool?": "c{i} = 1 if c{i} is True else 0 if c{i} is False else f{i}(c{i})",
    "date": "c{i} = c{i}.toordinal() - {day} if type(c{i}) is date else f{i}(c{i})",
    "date?": "c{i} = c{i}.toordinal() - {day} if type(c{i}) is date else f{i}(c{i})",
    "float": "c{i} = quick_float(c{i}) if type(c{i}) is float else f{i}(c{i})",
    # the one float whose code means NULL is below -1e300
    "float?": "c{i} = quick_float(c{i}) if type(c{i}) is float and c{i} > -1e300 else f{i}(c{i})",
    "timestamp": "c{i} = quick_timestamp(c{i}) if type(c{i}) is datetime and c{i}.tzinfo is None else f{i}(c{i})",
    "timestamp?": "c{i} = quick_timestamp(c{i}) if type(c{i}) is datetime and c{i}.tzinfo is None else f{i}(c{i})",
    "str": "c{i} = (text(c{i}) if type(c{i}) is str else None) or f{i}(c{i})",
    "str?": "c{i} = (text(c{i}) if type(c{i}) is str else None) or f{i}(c{i})",
    "varchar": "c{i} = (text(c{i}) if type(c{i}) is str and len(c{i}) <= {width} else None) or f{i}(c{i})",
    "bytes": "c{i} = (data(c{i}) if type(c{i}) is bytes else None) or f{i}(c{i})",
    "bytes?": "c{i} = (data(c{i}) if type(c{i}) is bytes else None) or f{i}(c{i})",
}
"""Type to the statement that turns value c0, c1, ... into its code; other types call their encoder."""


def _quick(declared: DataType) -> str:
    if declared.kind == "int" and declared.width:
        return "small?" if declared.nullable else "small"
    return "varchar" if declared.kind == "str" and declared.width else repr(declared)


def _numbers(declared: DataType) -> dict[str, int]:
    """Numbers for the statements of a column: the range of an int, and the room of a text."""
    low, high = bounds(declared.width if declared.kind == "int" and declared.width else 64)
    return {"low": low, "high": high, "null": NULL, "day": scalars.UNIX_DAY, "width": declared.width}


def _compile_encoders(codec: Codec) -> tuple[Callable[[Any], tuple[int, ...]], Callable[[Any], Any]]:
    """`encode_row` and `encode_few`."""
    codes = _listed(len(codec.types))
    one_row = [
        "if type(row) is not tuple: row = as_tuple(row)",
        f"if len(row) != {len(codec.types)}: check_width(row)",
        f"{codes} = row",
        *(
            _QUICK_ENCODE.get(_quick(kind), "c{i} = f{i}(c{i})").format(i=i, **_numbers(kind))
            for i, kind in enumerate(codec.types)
        ),
    ]
    row = ["def encode_row(row):", *(f"    {line}" for line in one_row), f"    return {codes}"]
    few = [
        "def encode_few(rows):",
        "    if type(rows) is not list: return None",
        "    if len(rows) != 1: return several(rows)",
        "    try:",
        "        row = rows[0]",
        *(f"        {line}" for line in one_row),
        "    except EverviewError:",
        "        report(rows)",
        "        raise",
        f"    return [{codes}]",
    ]
    known: dict[str, Any] = {f"f{i}": _value_encoder(codec, i) for i in range(len(codec.types))}
    known |= {"as_tuple": codec.as_tuple, "check_width": codec._check_width, "date": dt.date, "datetime": dt.datetime}
    known |= {"quick_float": scalars.float_code, "quick_timestamp": scalars.timestamp_code}
    known |= {"text": codec.interner.known_texts.get, "data": codec.interner.known_bytes.get}
    known |= {"several": codec._encode_several, "report": codec.encode_rows, "EverviewError": EverviewError}
    return _compiled("\n".join(row), "encode_row", known), _compiled("\n".join(few), "encode_few", known)


def _compile_decoder(codec: Codec) -> Callable[[Sequence[int]], Row]:
    codes = _listed(len(codec.types))
    values = [_decode_expression(i, kind) for i, kind in enumerate(codec.types)]
    text = f"def decode_row(codes):\n    {codes} = codes\n    return ({''.join(value + ', ' for value in values)})"
    known: dict[str, Any] = {f"f{i}": decoder(kind, codec.interner) for i, kind in enumerate(codec.types)}
    known["value"] = codec.interner.values.__getitem__
    compiled: Callable[[Sequence[int]], Row] = _compiled(text, "decode_row", known)
    return compiled


def _decode_expression(i: int, declared: DataType) -> str:
    if declared.kind in ("str", "bytes", "tuple") and not read_by_type(declared):
        return f"value(c{i})"
    plain = {"int": f"c{i}", "bool": f"c{i} != 0"}.get(declared.kind)
    if plain is None:
        return f"f{i}(c{i})"
    return f"(None if c{i} == {NULL} else {plain})" if declared.nullable else plain


def _listed(width: int) -> str:
    return f"({''.join(f'c{i}, ' for i in range(width))})"


def _value_encoder(codec: Codec, column: int) -> Encode:
    """The general encoder of a column; decimals have a quicker one in front, as it takes more than one statement."""
    declared = codec.types[column]
    general = _named(encoder(declared, codec.interner), codec.names[column])
    if declared.kind != "decimal":
        return general
    return scalars.quick_decimal(declared.scale, declared.width or scalars.DIGITS, general)


def _named(encode: Encode, name: str) -> Encode:
    """The encoder with errors that name the column."""

    def encode_named(value: Any) -> int:
        try:
            return encode(value)
        except InputError as error:
            raise _placed(error, f"column {name!r}") from None

    return encode_named


def _compiled(text: str, name: str, known: Mapping[str, Any]) -> Any:
    scope = dict(known)
    exec(_code(text, name), scope)
    return scope[name]


@lru_cache(maxsize=1024)
def _code(text: str, name: str) -> CodeType:
    """Compile the functions, once for all tables and views with the same column types."""
    return compile(text, f"<everview {name}>", "exec")
