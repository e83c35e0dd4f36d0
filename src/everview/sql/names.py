"""Types by their SQL names, and the names that columns get."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from everview.sql.places import Source
from everview.types import BOOL, BYTES, DATE, FLOAT, INT, STR, TIMESTAMP, DataType, decimal

DEFAULT_SCALE = 6
"""Digits after the point of a DECIMAL that does not say."""

_T = exp.DataType.Type

_KINDS: dict[exp.DType, DataType] = {
    **dict.fromkeys((_T.TINYINT, _T.SMALLINT, _T.INT, _T.BIGINT), INT),
    **dict.fromkeys((_T.FLOAT, _T.DOUBLE), FLOAT),
    **dict.fromkeys((_T.TEXT, _T.VARCHAR, _T.CHAR, _T.NCHAR, _T.NVARCHAR, _T.BPCHAR), STR),
    **dict.fromkeys((_T.VARBINARY, _T.BINARY, _T.BLOB), BYTES),
    _T.BOOLEAN: BOOL,
    _T.DATE: DATE,
    **dict.fromkeys((_T.TIMESTAMP, _T.TIMESTAMPNTZ, _T.DATETIME), TIMESTAMP),
}


TYPE_NAMES = (
    "int", "integer", "bigint", "smallint", "double precision", "real", "float", "decimal", "numeric", "text",
    "varchar", "char", "bytea", "boolean", "date", "timestamp",
)  # fmt: skip
"""Names of types that a misspelt one may be."""


def data_type(kind: exp.DataType, source: Source) -> DataType:
    """The column type an SQL type stands for; lengths of texts are not enforced."""
    if kind.this == _T.DECIMAL:
        return _decimal(kind, source)
    found = _KINDS.get(kind.this)
    if found is None:
        raise source.refuse(
            kind,
            f"there is no type {kind.sql('postgres')}",
            "use int, double, decimal, text, bytea, boolean, date, timestamp",
        )
    return found


def _decimal(kind: exp.DataType, source: Source) -> DataType:
    texts = [str(p.this.name) for p in kind.expressions]
    if not all(text.isascii() and text.isdigit() and len(text) < 10 for text in texts):
        raise source.refuse(kind, f"{kind.sql('postgres')} says no number of digits", "write decimal(18, 2)")
    sizes = [int(text) for text in texts]
    if sizes and sizes[0] > 18:
        raise source.refuse(kind, f"decimals have 18 digits at most, not {sizes[0]}", "use decimal(18, s) or double")
    return decimal(sizes[1] if len(sizes) > 1 else 0 if sizes else DEFAULT_SCALE)


OWN_NAMES: dict[type[exp.Expr], str] = {exp.GroupConcat: "string_agg", exp.StrPosition: "position"}
"""What functions are called that sqlglot reads in a way of its own, and names otherwise."""


def spelled(name: str, candidates: Iterable[str]) -> str:
    """The candidate that is meant: the name as written if there is one, else one that differs in letters' case only.

    >>> spelled("SRC", ["src", "dst"]), spelled("x", ["src", "dst"])
    ('src', 'x')
    """
    known = list(candidates)
    return name if name in known else next((c for c in known if c.lower() == name.lower()), name)


def output_name(item: exp.Expr, position: int) -> str:
    """What a column of a SELECT is called: its alias, its column, its function, else column1, column2, ...

    >>> import sqlglot
    >>> select = sqlglot.parse_one("SELECT a.b, count(*), x + 1, y AS z, w::int", read="postgres")
    >>> [output_name(item, i) for i, item in enumerate(select.expressions)]
    ['b', 'count', 'column3', 'z', 'w']
    """
    if isinstance(item, (exp.Alias, exp.Column)):
        return str(item.alias_or_name)
    if isinstance(item, exp.Window):
        return output_name(item.this, position)
    if isinstance(item, (exp.Cast, exp.Paren, exp.Filter)):
        inner = output_name(item.this, position)
        return inner if inner != f"column{position + 1}" or isinstance(item, exp.Paren) else f"column{position + 1}"
    if isinstance(item, exp.WithinGroup):
        return output_name(item.this, position)
    if isinstance(item, (exp.Anonymous, exp.AnonymousAggFunc)):
        return str(item.name).lower()
    if isinstance(item, exp.Case):
        return "case"
    if isinstance(item, exp.Func) and not isinstance(item, exp.Connector):
        return str(item.meta.get("name") or OWN_NAMES.get(type(item)) or item.sql_name()).lower()
    return f"column{position + 1}"
