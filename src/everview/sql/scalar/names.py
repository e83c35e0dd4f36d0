"""Types by SQL name, and default names of columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError

from everview.codes.digits import whole_number
from everview.codes.limits import INTEGER
from everview.errors import closest
from everview.sql.text.dialects import Everview
from everview.sql.text.error_positions import Source
from everview.types import (
    BOOL,
    BYTES,
    DATE,
    FLOAT,
    FREE,
    INT,
    INTERVAL,
    JSON,
    MOST_DIGITS,
    STR,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    UUID,
    DataType,
    array,
    char,
    decimal,
    mapping,
    numeric,
    small_int,
    struct,
    varchar,
)

COLLATIONS = ("C", "POSIX", "UCS_BASIC", "C.UTF-8", "BINARY")
"""Collations that compare by code point, as everywhere here"""

_T = exp.DataType.Type

_KINDS: dict[exp.DType, DataType] = {
    **dict.fromkeys((_T.INT, _T.BIGINT), INT),
    _T.NAME: STR,
    _T.TINYINT: small_int(8),
    _T.SMALLINT: small_int(16),
    _T.UTINYINT: small_int(-8),
    _T.USMALLINT: small_int(-16),
    _T.UINT: small_int(-32),
    _T.TIMESTAMPTZ: TIMESTAMPTZ,
    _T.TIMESTAMPLTZ: TIMESTAMPTZ,
    _T.TIME: TIME,
    _T.INTERVAL: INTERVAL,
    _T.UUID: UUID,
    _T.JSON: JSON,
    _T.JSONB: JSON,
    **dict.fromkeys((_T.FLOAT, _T.DOUBLE), FLOAT),
    **dict.fromkeys((_T.TEXT, _T.VARCHAR, _T.NVARCHAR), STR),
    **dict.fromkeys((_T.VARBINARY, _T.BINARY, _T.BLOB), BYTES),
    _T.BOOLEAN: BOOL,
    _T.DATE: DATE,
    **dict.fromkeys((_T.TIMESTAMP, _T.TIMESTAMPNTZ, _T.DATETIME), TIMESTAMP),
}


TYPE_NAMES = (
    "int", "integer", "bigint", "smallint", "double precision", "real", "float", "decimal", "numeric", "text",
    "varchar", "char", "bytea", "boolean", "date", "timestamp", "timestamptz", "time", "interval", "uuid", "json",
    "jsonb", "bool", "double", "string", "tinyint", "serial", "bigserial", "enum", "array", "map", "struct", "row",
)  # fmt: skip
"""Type names suggested for misspelt ones."""


def written_type(text: str, at: exp.Expr, source: Source) -> exp.DataType:
    """The type that a part of a statement is, which was noted as a text; `at` is what it is the type of.

    >>> written_type("varchar(3)", exp.column("a"), Source("a varchar(3)")).sql()
    'VARCHAR(3)'
    """
    try:
        cast = sqlglot.parse_one(f"CAST(NULL AS {text})", read=Everview)
    except ParseError:
        cast = None
    if not isinstance(cast, exp.Cast) or cast.args.get("format"):
        raise source.error(at, "E_TYPE", f"there is no type {text}")
    return cast.to


def data_type(kind: exp.DataType, source: Source) -> DataType:
    """The type of an SQL type name; without the length of a varchar, see `column_type`."""
    if kind.this == _T.DECIMAL:
        return _decimal(kind, source)
    if kind.this in (_T.CHAR, _T.NCHAR, _T.BPCHAR):
        return _char(kind, source)
    if kind.this in (_T.VARCHAR, _T.NVARCHAR):
        return _varchar(kind, source)
    if kind.this in _MADE_OF:
        return _MADE_OF[kind.this](kind, source)
    if kind.this == _T.USERDEFINED:
        return _named(kind, source)
    if kind.this in _WIDE:
        raise source.refuse(kind, f"{_WIDE[kind.this][0]} does not fit 64 bits", f"use numeric({_WIDE[kind.this][1]})")
    found = _KINDS.get(kind.this)
    if found is None:
        raise source.refuse(
            kind,
            f"there is no type {kind.sql('postgres')}",
            "use int, double, decimal, text, bytea, boolean, date, timestamp, or another of docs/sql.md",
        )
    return found


MOST_LETTERS = 10_485_760
"""of a char(n), as in PostgreSQL"""


def _char(kind: exp.DataType, source: Source) -> DataType:
    sizes = [whole_number(p.this.name) if p.this.name.isdecimal() else 0 for p in kind.expressions]
    if not sizes:
        return char(0 if kind.this == _T.BPCHAR else 1)
    if sizes[0] < 1:
        raise source.refuse(kind, "a char has one letter at least")
    if sizes[0] > MOST_LETTERS:
        raise source.error(kind, "E_RANGE", f"a char has {MOST_LETTERS} letters at most", "text has no limit")
    return char(sizes[0])


def column_type(kind: exp.DataType, source: Source) -> DataType:
    """The type of a table's column: an int is limited to 32 bits, and a varchar(n) to n characters where the dialect
    has such limits."""
    found = data_type(kind, source)
    if is_integer(kind, source):
        return INTEGER
    letters = most_letters(kind)
    if letters is None or source.dialect in ("duckdb", "sqlite"):
        return found
    if letters > MOST_LETTERS:
        raise source.error(kind, "E_RANGE", f"a varchar has {MOST_LETTERS} letters at most", "text has no limit")
    return varchar(letters)


WIDE_INTS = ("sqlite", "bigquery", "snowflake", "oracle")
"""Dialects in which `int` has 64 bits or more"""


def is_integer(kind: exp.DataType, source: Source) -> bool:
    """Whether a type is an int of 32 bits."""
    return kind.this == _T.INT and source.dialect not in WIDE_INTS


def _varchar(kind: exp.DataType, source: Source) -> DataType:
    """A text: casts truncate (`everview.sql.scalar.casts`), columns refuse longer ones (`column_type`)."""
    if most_letters(kind) == 0 or any(not size.this.is_int for size in kind.expressions):
        raise source.refuse(kind, "a varchar has room for one letter at least", "write varchar(20), or text")
    return STR


def most_letters(kind: exp.DataType) -> int | None:
    """The n of varchar(n)."""
    sized = kind.this in (_T.VARCHAR, _T.NVARCHAR) and kind.expressions
    return whole_number(kind.expressions[0].this.name) if sized and kind.expressions[0].this.is_int else None


def _array(kind: exp.DataType, source: Source) -> DataType:
    if len(kind.expressions) != 1 or not isinstance(kind.expressions[0], exp.DataType):
        raise source.refuse(kind, "an array has elements of one type", "write int[]")
    return array(data_type(kind.expressions[0], source))


def _map(kind: exp.DataType, source: Source) -> DataType:
    if len(kind.expressions) != 2:
        raise source.refuse(kind, "a map has a type of keys and one of values", "write map(text, int)")
    key, value = (data_type(part, source) for part in kind.expressions)
    return mapping(key, value)


def _struct(kind: exp.DataType, source: Source) -> DataType:
    fields = kind.expressions
    if not fields or not all(isinstance(f, exp.ColumnDef) and f.kind is not None for f in fields):
        raise source.refuse(kind, "a struct has named fields", "write struct<x int, y text>")
    if len({f.name.lower() for f in fields}) < len(fields):
        raise source.error(kind, "E_DUPLICATE", "two fields of the struct have the same name")
    return struct(tuple(f.name for f in fields), tuple(data_type(f.kind, source) for f in fields))


_MADE_OF: dict[exp.DType, Callable[[exp.DataType, Source], DataType]] = {
    _T.ARRAY: _array,
    _T.LIST: _array,
    _T.MAP: _map,
    _T.STRUCT: _struct,
}

_BY_NAME: dict[str, DataType] = {
    "utinyint": small_int(-8),
    "usmallint": small_int(-16),
    "uint": small_int(-32),
    "uinteger": small_int(-32),
    "uint1": small_int(-8),
    "uint2": small_int(-16),
    "uint4": small_int(-32),
    "int1": small_int(8),
    "bytes": BYTES,
    "jsonpath": STR,
}

_TOO_WIDE = {"ubigint": 20, "uint8": 20, "uhugeint": 38, "hugeint": 38}
_WIDE = {_T.UBIGINT: ("ubigint", 20), _T.INT128: ("hugeint", 38), _T.UINT128: ("uhugeint", 38)}


def is_domain(kind: exp.DataType, source: Source) -> bool:
    """Whether a type is one of CREATE DOMAIN."""
    return kind.this == _T.USERDEFINED and named_type(type_name(kind), source.domains) in source.domains


def _named(kind: exp.DataType, source: Source) -> DataType:
    """A type by a name outside PostgreSQL's grammar: other systems' ints, and CREATE TYPE."""
    name = type_name(kind)
    if named_type(name, source.domains) in source.domains:
        hint = "cast to the type that it is made of"
        raise source.refuse(kind, f"the domain {name} is for columns of tables and for casts", hint)
    found = source.types.get(named_type(name, source.types)) or _BY_NAME.get(name.lower())
    if found is not None:
        return found
    if name.lower() in _TOO_WIDE:
        raise source.refuse(kind, f"{name} does not fit 64 bits", f"use numeric({_TOO_WIDE[name.lower()]})")
    raise source.refuse(kind, f"there is no type {name}", type_hint(name, source))


def type_name(kind: exp.DataType) -> str:
    """The name of a type that the parser does not know, with its schema: mood, s.mood, public.mood"""
    given = kind.args.get("kind")
    parts = [p.name for p in (given.this, given.expression)] if isinstance(given, exp.Dot) else []
    if not parts:
        return given.name if isinstance(given, exp.Expr) else str(given)
    return parts[1] if parts[0].lower() == "pg_catalog" else ".".join(parts)


def named_type(name: str, known: Iterable[str]) -> str:
    """The one of the known types that a name means; the name itself if there is none."""
    every = list(known)
    found = spelled(name, every)
    return found if found in every or not name.lower().startswith("public.") else spelled(name[7:], every)


def type_hint(name: str, source: Source) -> str:
    """The type that a name may have been meant to be, or how to make one."""
    found = closest(name, [*source.types, *TYPE_NAMES])
    return f"did you mean {found[0]!r}?" if found else "CREATE TYPE name AS ENUM ('a', 'b') makes one"


def _decimal(kind: exp.DataType, source: Source) -> DataType:
    texts = [str(p.this.name) for p in kind.expressions]
    if not all(text.isascii() and text.isdecimal() and len(text) < 10 for text in texts):
        raise source.refuse(kind, f"{kind.sql('postgres')} says no number of digits", "write decimal(18, 2)")
    sizes = [int(text) for text in texts]
    if sizes and sizes[0] > MOST_DIGITS:
        raise source.refuse(kind, f"decimals have {MOST_DIGITS} digits at most, not {sizes[0]}", "use double")
    if sizes and (scale := sizes[1] if len(sizes) > 1 else 0) > sizes[0]:
        raise source.refuse(kind, f"of {sizes[0]} digits {scale} cannot be after the point")
    if sizes and sizes[0] > 18:
        return numeric(scale, sizes[0])
    return decimal(scale, sizes[0]) if sizes else _BARE.get(source.dialect, numeric(FREE))


_BARE: dict[str, DataType] = {
    "duckdb": decimal(3),
    **dict.fromkeys(("spark", "spark2", "databricks", "hive", "mysql"), decimal(0)),
}
"""The meaning of a decimal without precision, where that is not unlimited."""


OWN_NAMES: dict[type[exp.Expr], str] = {exp.GroupConcat: "string_agg", exp.StrPosition: "position"}
"""Names of functions that sqlglot parses specially and renames."""


def spelled(name: str, candidates: Iterable[str]) -> str:
    """The intended candidate: an exact match, else one that differs only in case.

    >>> spelled("SRC", ["src", "dst"]), spelled("x", ["src", "dst"])
    ('src', 'x')
    """
    known = list(candidates)
    return name if name in known else next((c for c in known if c.lower() == name.lower()), name)


_OPERATORS = (exp.Binary, exp.StartsWith, exp.JSONBDeleteAtPath, exp.Abs, exp.Sqrt, exp.Cbrt, exp.ParseJSON)
"""Functions that can also be written as operators (j -> 'k', x ~ 'y', @ x), of which sqlglot keeps no place."""


def output_name(item: exp.Expr, position: int) -> str:
    """The name of a SELECT column: its alias, its column, its function, else column1, column2, ...

    >>> import sqlglot
    >>> select = sqlglot.parse_one("SELECT a.b, count(*), x + 1, y AS z, w::int, j -> 1", read="postgres")
    >>> [output_name(item, i) for i, item in enumerate(select.expressions)]
    ['b', 'count', 'column3', 'z', 'w', 'column6']
    """
    if isinstance(item, (exp.Alias, exp.Column)):
        return str(item.alias_or_name)
    if isinstance(item, exp.Window):
        return output_name(item.this, position)
    if isinstance(item, (exp.Cast, exp.Paren, exp.Filter, exp.Collate)):
        inner = output_name(item.this, position)
        return inner if inner != f"column{position + 1}" or isinstance(item, exp.Paren) else f"column{position + 1}"
    if isinstance(item, exp.WithinGroup):
        return output_name(item.this, position)
    if isinstance(item, (exp.Anonymous, exp.AnonymousAggFunc)):
        return str(item.name).lower()
    if isinstance(item, exp.Case):
        return "case"
    if isinstance(item, _OPERATORS) and "start" not in item.meta:
        return f"column{position + 1}"
    if isinstance(item, exp.Mod):
        return "mod"
    if isinstance(item, exp.Func) and not isinstance(item, exp.Connector):
        return str(item.meta.get("name") or OWN_NAMES.get(type(item)) or item.sql_name()).lower()
    return f"column{position + 1}"
