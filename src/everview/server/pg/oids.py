"""PostgreSQL's types: by number (OID), with a length and a modifier.

Every type of ours is reported as the PostgreSQL type whose values mean the same, so that drivers return ints, decimals,
dates and UUIDs. Enums are reported as text, structs and tuples as records, maps as JSON. Conversely, a client's type of
a parameter maps to the type of ours that holds all of its values.

>>> oid_of(DataType("timestamptz")), oid_of(array(INT)), modifier_of(decimal(2))
(1184, 1016, 1179654)
>>> type_of(23), type_of(1231)
(int, array(numeric?))
"""

from __future__ import annotations

from typing import NamedTuple

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
    decimal,
    numeric,
)  # fmt: skip

__all__ = ["TYPES", "PgType", "decimal", "modifier_of", "named", "number_of", "oid_of", "size_of", "type_of"]


class PgType(NamedTuple):
    """A type of PostgreSQL's."""

    oid: int
    name: str
    """as pg_type has it"""
    words: str
    """as it is written in SQL"""
    size: int
    """bytes of a value; -1 if they vary"""
    category: str
    array: int
    """the type of arrays of it; 0 if there is none"""
    ours: DataType | None = None
    """the type of a parameter that is said to be of it"""


TYPES: dict[int, PgType] = {
    t.oid: t
    for t in (
        PgType(16, "bool", "boolean", 1, "B", 1000, BOOL),
        PgType(17, "bytea", "bytea", -1, "U", 1001, BYTES),
        PgType(18, "char", '"char"', 1, "Z", 1002, STR),
        PgType(19, "name", "name", 64, "S", 1003, STR),
        PgType(20, "int8", "bigint", 8, "N", 1016, INT),
        PgType(21, "int2", "smallint", 2, "N", 1005, INT),
        PgType(22, "int2vector", "int2vector", -1, "A", 1006),
        PgType(23, "int4", "integer", 4, "N", 1007, INT),
        PgType(24, "regproc", "regproc", 4, "N", 1008),
        PgType(25, "text", "text", -1, "S", 1009, STR),
        PgType(26, "oid", "oid", 4, "N", 1028, INT),
        PgType(28, "xid", "xid", 4, "U", 1011),
        PgType(30, "oidvector", "oidvector", -1, "A", 1013),
        PgType(114, "json", "json", -1, "U", 199, JSON),
        PgType(194, "pg_node_tree", "pg_node_tree", -1, "Z", 0),
        PgType(700, "float4", "real", 4, "N", 1021, FLOAT),
        PgType(701, "float8", "double precision", 8, "N", 1022, FLOAT),
        PgType(705, "unknown", "unknown", -2, "X", 0),
        PgType(1042, "bpchar", "character", -1, "S", 1014, STR),
        PgType(1043, "varchar", "character varying", -1, "S", 1015, STR),
        PgType(1082, "date", "date", 4, "D", 1182, DATE),
        PgType(1083, "time", "time without time zone", 8, "D", 1183, TIME),
        PgType(1114, "timestamp", "timestamp without time zone", 8, "D", 1115, TIMESTAMP),
        PgType(1184, "timestamptz", "timestamp with time zone", 8, "D", 1185, TIMESTAMPTZ),
        PgType(1186, "interval", "interval", 16, "T", 1187, INTERVAL),
        PgType(1700, "numeric", "numeric", -1, "N", 1231, numeric(FREE)),
        PgType(2205, "regclass", "regclass", 4, "N", 2210),
        PgType(2206, "regtype", "regtype", 4, "N", 2211),
        PgType(2249, "record", "record", -1, "P", 2287),
        PgType(2277, "anyarray", "anyarray", -1, "P", 0),
        PgType(2278, "void", "void", 4, "P", 0),
        PgType(2950, "uuid", "uuid", 16, "U", 2951, UUID),
        PgType(3802, "jsonb", "jsonb", -1, "U", 3807, JSON),
    )
}
"""Types by their numbers, which are PostgreSQL's own."""

_NAMES = {t.name: t for t in TYPES.values()} | {t.words: t for t in TYPES.values()}
_ITEMS = {t.array: t for t in TYPES.values() if t.array}
_OTHER_NAMES = {"int": 23, "decimal": 1700, "float": 701, "double": 701, "string": 25, "char": 1042, "serial": 23}

_KINDS = {
    "bool": 16, "bytes": 17, "str": 25, "enum": 25, "float": 701, "char": 1042, "date": 1082, "time": 1083,
    "timestamp": 1114, "timestamptz": 1184, "interval": 1186, "decimal": 1700, "numeric": 1700, "uuid": 2950,
    "json": 3802, "struct": 2249, "tuple": 2249, "map": 3802,
}  # fmt: skip

_INTS = {8: 21, 16: 21, 32: 23, 64: 20, 0: 20, -8: 21, -16: 23, -32: 20, -64: 20}


def oid_of(declared: DataType) -> int:
    """The number of the type that clients are told."""
    if declared.kind == "str" and declared.width:
        return 1043
    if declared.kind == "int":
        return _INTS.get(declared.width, 20)
    if declared.kind == "array":
        inner = declared.items[0]
        while inner.kind == "array":  # arrays of arrays are arrays of more dimensions
            inner = inner.items[0]
        return TYPES[oid_of(inner)].array
    return _KINDS[declared.kind]


def size_of(oid: int) -> int:
    """Bytes of its values; -1 if they vary."""
    return TYPES[oid].size if oid in TYPES else -1


def modifier_of(declared: DataType) -> int:
    """Digits of a number, letters of a text; -1 if nothing is said."""
    if declared.kind == "decimal":
        return ((declared.width or 18) << 16 | declared.scale) + 4
    if declared.kind == "numeric" and declared.scale < FREE:
        return ((declared.width or MOST_DIGITS) << 16 | declared.scale) + 4
    if declared.kind in ("char", "str") and declared.width:
        return declared.width + 4
    return -1


def type_of(oid: int) -> DataType | None:
    """The type of ours for a type that a client names; None if there is none, or it leaves it open."""
    if oid in _ITEMS:
        item = _ITEMS[oid].ours
        return array(item) if item is not None else None
    return TYPES[oid].ours if oid in TYPES else None


def number_of(name: str) -> int:
    """The number of a type, or of an array of it, by name; 0 if there is none.

    >>> number_of("bigint"), number_of("int8[]"), number_of("_oid"), number_of("nothing")
    (20, 1016, 1028, 0)
    """
    name = name.strip().lower().removeprefix("pg_catalog.")
    many = name.endswith("[]") or name.startswith("_")
    found = named(name.removesuffix("[]").removeprefix("_"))
    return 0 if found is None else found.array if many else found.oid


def named(name: str) -> PgType | None:
    """A type by one of its names.

    >>> named("bigint").oid, named("int8").oid, named("nothing")
    (20, 20, None)
    """
    name = name.strip().lower().removeprefix("pg_catalog.").strip('"')
    found = _NAMES.get(name)
    return found if found is not None else TYPES.get(_OTHER_NAMES.get(name, -1))
