"""Names of types: ours, and in other systems (pg_typeof, arrow_typeof)."""

from __future__ import annotations

from everview.types import FREE, MOST_DIGITS, DataType

_NAMES = {"int": "bigint", "float": "double", "str": "text", "bytes": "bytea", "bool": "boolean", "json": "jsonb"}


_INTS = {8: "tinyint", 16: "smallint", 32: "int", -8: "utinyint", -16: "usmallint", -32: "uinteger"}


def sql_name(declared: DataType) -> str:
    """A type as CREATE TABLE writes it.

    >>> from everview.types import FLOAT, decimal
    >>> sql_name(FLOAT), sql_name(decimal(2))
    ('double', 'decimal(18, 2)')
    """
    match declared.kind:
        case "decimal":
            return f"decimal({declared.width or 18}, {declared.scale})"
        case "numeric" if declared.scale < FREE:
            return f"numeric({declared.width or MOST_DIGITS}, {declared.scale})"
        case "array":
            return f"{sql_name(declared.items[0])}[]"
        case "map":
            return f"map({', '.join(map(sql_name, declared.items))})"
        case "struct":
            fields = zip(declared.names, declared.items, strict=True)
            return f"struct<{', '.join(f'{n} {sql_name(t)}' for n, t in fields)}>"
        case "char":
            return f"char({declared.width})" if declared.width else "bpchar"
        case "str" if declared.width:
            return f"varchar({declared.width})"
        case "enum":
            return f"enum({', '.join(map(repr, declared.names))})"
        case "int" if declared.width:
            return _INTS[declared.width]
    return _NAMES.get(declared.kind, declared.kind)


def in_words(declared: DataType) -> str:
    """A type in an error: as it may be written.

    >>> from everview.types import INT, STR, array
    >>> in_words(INT.optional()), in_words(array(STR))
    ('int', 'text[]')
    """
    if declared.kind in ("array", "map") and declared.items:
        kinds = [in_words(t) for t in declared.items]
        return f"{kinds[0]}[]" if declared.kind == "array" else f"map({', '.join(kinds)})"
    if declared.kind in ("decimal", "numeric"):
        return "numeric"
    return "int" if declared.kind == "int" and not declared.width else sql_name(declared)


_POSTGRES = {
    "int": "integer", "float": "double precision", "bool": "boolean", "str": "text", "bytes": "bytea",
    "decimal": "numeric", "timestamp": "timestamp without time zone", "timestamptz": "timestamp with time zone",
    "time": "time without time zone", "json": "jsonb", "char": "character", "struct": "record",
}  # fmt: skip

_SMALL = {8: "smallint", 16: "smallint", -8: "smallint", -16: "integer", -32: "bigint"}


def in_postgres(declared: DataType) -> str:
    """A type's name in PostgreSQL's pg_typeof; any int is `integer`, which has 64 bits here.

    >>> from everview.types import FLOAT, STR, array
    >>> in_postgres(array(FLOAT)), in_postgres(STR)
    ('double precision[]', 'text')
    """
    if declared.kind == "array":
        return f"{in_postgres(declared.items[0])}[]"
    if declared.kind == "int":
        return _SMALL.get(declared.width, "integer")
    return _POSTGRES.get(declared.kind, declared.kind)


_ARROW = {
    "int": "Int64", "float": "Float64", "bool": "Boolean", "str": "Utf8", "char": "Utf8", "bytes": "Binary",
    "date": "Date32", "timestamp": "Timestamp(Microsecond, None)", "time": "Time64(Microsecond)",
    "timestamptz": 'Timestamp(Microsecond, Some("UTC"))', "interval": "Interval(MonthDayNano)", "json": "Utf8",
    "uuid": "Utf8", "enum": "Utf8",
}  # fmt: skip


def in_arrow(declared: DataType) -> str:
    """A type's name in DataFusion's arrow_typeof.

    >>> from everview.types import INT, array, decimal
    >>> in_arrow(decimal(2)), in_arrow(array(INT))
    ('Decimal128(18, 2)', 'List(Int64)')
    """
    match declared.kind:
        case "decimal" | "numeric":
            width = declared.width or (18 if declared.kind == "decimal" else 38)
            return f"Decimal128({width}, {min(declared.scale, 38)})"
        case "array":
            return f"List({in_arrow(declared.items[0])})"
        case "map":
            return f"Map({', '.join(map(in_arrow, declared.items))})"
        case "struct":
            fields = zip(declared.names, declared.items, strict=True)
            return f"Struct({', '.join(f'{name}: {in_arrow(kind)}' for name, kind in fields)})"
        case "int" if declared.width:
            return f"{'UInt' if declared.width < 0 else 'Int'}{abs(declared.width)}"
    return _ARROW[declared.kind]
