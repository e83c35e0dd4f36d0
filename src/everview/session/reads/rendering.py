"""Rows for display: text tables for terminals and HTML for notebooks.

Numbers are right-aligned; very long texts are truncated with an ellipsis. Omitted rows are always counted.
"""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from everview.types import INT, STR, DataType

DEFAULT_ROWS = 20
"""Default number of rows shown."""
WIDEST = 60
"""Maximum number of characters shown per value."""

Row = tuple[Any, ...]


def cell(value: Any, widest: int = WIDEST) -> str:
    r"""Format one value on one line.

    >>> cell(None), cell("two\nlines"), cell("x" * 9, widest=5)
    ('NULL', 'two\\nlines', 'xxxx…')
    """
    if value is None:
        return "NULL"
    text = str(value)
    if not text.isprintable():
        text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    return text if len(text) <= widest else text[: widest - 1] + "…"


def width(text: str) -> int:
    """The terminal width of a text: wide East Asian characters take two columns, combining accents none.

    >>> width("fig"), width("東京"), width("e\u0301")
    (3, 4, 1)
    """
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF") for c in text)


def in_order(rows: list[Row]) -> list[Row]:
    """Sort rows in ascending order, NULLs last, so that output is stable. Rows with unordered values (JSON, records)
    are left as they are.

    >>> in_order([("pear", None), ("fig", 12), ("pear", 3)])
    [('fig', 12), ('pear', 3), ('pear', None)]
    """
    try:
        return sorted(rows, key=lambda row: [(v is None, v) for v in row])
    except TypeError:
        return rows


def is_number(declared: DataType) -> bool:
    """Whether values of a type are right-aligned."""
    return declared.kind in ("int", "float", "decimal")


def lines(
    names: Sequence[str],
    types: Sequence[DataType],
    rows: Sequence[Row],
    *,
    with_types: bool = False,
    widest: int = WIDEST,
) -> list[str]:
    """Format a table as text.

    >>> from everview.types import INT, STR
    >>> print("\\n".join(lines(["name", "n"], [STR, INT], [("fig", 5), ("pear", 12)], with_types=True)))
    name   n
    str  int
    ---- ---
    fig    5
    pear  12
    """
    heads = [[*names], *([[repr(t) for t in types]] if with_types else [])]
    cells = [[cell(v, widest) for v in row] for row in rows]
    widths = [max(map(width, column)) for column in zip(*heads, *cells, strict=True)]
    right = [is_number(t) for t in types]

    def line(row: Sequence[str]) -> str:
        blanks = [" " * (w - width(c)) for c, w in zip(row, widths, strict=True)]
        placed = (b + c if r else c + b for c, b, r in zip(row, blanks, right, strict=True))
        return GAP.join(placed).rstrip()

    return [*map(line, heads), GAP.join("-" * w for w in widths), *map(line, cells)]


GAP = "  "


def left_out(shown: int, total: int) -> str:
    """The note about rows that are not shown; empty if all are.

    >>> left_out(20, 1234567), left_out(3, 3)
    ('... and 1,234,547 more', '')
    """
    return f"... and {total - shown:,} more" if total > shown else ""


def counted(number: int) -> str:
    """Format a number of rows.

    >>> counted(1), counted(12345)
    ('1 row', '12,345 rows')
    """
    return f"{number:,} row{'' if number == 1 else 's'}"


def page(
    names: Sequence[str], types: Sequence[DataType], rows: Sequence[Row], note: str, *, with_types: bool = True
) -> str:
    """Format a table as HTML, with a note below."""
    style = ["" if is_number(t) else ' style="text-align:left"' for t in types]
    head = "".join(
        f"<th{s}>{html.escape(n)}{f'<br><small>{html.escape(repr(t))}</small>' if with_types else ''}</th>"
        for n, t, s in zip(names, types, style, strict=True)
    )
    body = "".join(
        "<tr>" + "".join(f"<td{s}>{html.escape(cell(v))}</td>" for v, s in zip(row, style, strict=True)) + "</tr>"
        for row in rows
    )
    table = f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    return f'<table style="text-align:right">{table}</table><p>{html.escape(note)}</p>'


class Stats(dict[str, Any]):
    """Statistics of a session or view: a dict that prints as a table.

    >>> held = [
    ...     {"name": "arrange t", "updates": 1200, "views": ["v", "w"]},
    ...     {"name": "reduce", "updates": 3, "views": []},
    ... ]
    >>> print(Stats({"time": 3, "bytes": 2048, "arrangements": held}))
    time 3, bytes 2,048
    <BLANKLINE>
    name       updates  views
    ---------  -------  -------
    arrange t    1,200  v and w
    reduce           3
    """

    def __str__(self) -> str:
        heads, types, rows = self._table()
        return "\n".join([self._summary(), *(["", *lines(heads, types, rows)] if rows else [])])

    def _summary(self) -> str:
        return ", ".join(f"{name} {_measure(value)}" for name, value in self.items() if name != "arrangements")

    def _table(self) -> tuple[list[str], list[DataType], list[Row]]:
        """Names and types of the statistics, and a row for each arrangement."""
        held = self.get("arrangements", [])
        heads = list(dict.fromkeys(name for one in held for name in one))
        types = [INT if any(isinstance(one.get(n), int) for one in held) else STR for n in heads]
        return heads, types, [tuple(_measure(one.get(n, "")) for n in heads) for one in held]

    def _repr_html_(self) -> str:
        heads, types, rows = self._table()
        return page(heads, types, rows, self._summary(), with_types=False)


def _measure(value: Any) -> str:
    if isinstance(value, list):
        return " and ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) else str(value)


def session_page(named: Sequence[tuple[str, str, Mapping[str, DataType]]], time: int) -> str:
    """A session's contents as HTML: (table or view, name, columns), and the time."""
    body, left = "", ' style="text-align:left"'
    for kind, name, schema in named:
        columns = ", ".join(f"{n} {t!r}" for n, t in schema.items())
        cells = "".join(f"<td{left}>{html.escape(text)}</td>" for text in (kind, name, columns))
        body += f"<tr>{cells}</tr>"
    head = f"<tr><th></th><th{left}>name</th><th{left}>columns</th></tr>"
    return f"<table><thead>{head}</thead><tbody>{body}</tbody></table><p>time {time}</p>"
