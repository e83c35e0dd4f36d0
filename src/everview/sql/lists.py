"""string_agg and array_agg: a group's values put in order and written into one text.

These are reductions in Python: a group is written anew whenever it changes, as its text must be anyway. There is no
array type, so array_agg gives JSON: numbers as they are, NULL as null, everything else quoted.

Without ORDER BY the values are in their own order, so that the answer is always the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Listing:
    """What a group's rows become: a reduction for `PythonReduce`.

    A row is the keys, then whether it counts (`filtered`), the value, and what it is ordered by.

    >>> Listing(1, order=(True,), separator="-")(("k",), [(("k", "a", 1), 1), (("k", "b", 2), 2), (("k", None, 3), 1)])
    [('b-b-a',)]
    >>> Listing(0, order=(), filtered=True)((), [((True, 2.5), 1), ((False, 1.0), 1), ((True, None), 1)])
    [('[2.5,null]',)]
    """

    keys: int
    order: tuple[bool, ...]
    separator: str | None = None
    distinct: bool = False
    filtered: bool = False

    @property
    def __name__(self) -> str:
        return "array_agg" if self.separator is None else "string_agg"

    def __call__(self, key: Row, group: list[tuple[Row, int]]) -> list[Row]:
        at = self.keys + self.filtered
        rows = [(row[at:], n) for row, n in group if n > 0 and (not self.filtered or row[self.keys])]
        if self.separator is not None:
            rows = [(row, n) for row, n in rows if row[0] is not None]
        for column in (0, *reversed(range(1, len(self.order) + 1))):
            down = self.order[column - 1] if column else False
            known = [r for r in rows if r[0][column] is not None]
            known.sort(key=lambda r, c=column: _sortable(r[0][c]), reverse=down)  # type: ignore[misc]
            rows = known + [r for r in rows if r[0][column] is None]
        if self.distinct:
            values = list(dict.fromkeys(row[0] for row, _ in rows))
        else:
            values = [row[0] for row, n in rows for _ in range(n)]
        if not values:
            return [(None,)]
        return [(as_json(values) if self.separator is None else self.separator.join(values),)]


def _sortable(value: Any) -> Any:
    return (value != value, value) if isinstance(value, float) else value


def as_json(values: Iterable[Any]) -> str:
    """Values as a JSON array.

    >>> import datetime
    >>> as_json([1, None, True, Decimal("1.50"), datetime.date(2026, 1, 31), 'a "b"'])
    '[1,null,true,1.50,"2026-01-31","a \\\\"b\\\\""]'
    """
    return f"[{','.join(map(_item, values))}]"


def _item(value: Any) -> str:
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return json.dumps(str(value))
    plain = value is None or isinstance(value, (bool, int, float, str))
    return json.dumps(value if plain else str(value), ensure_ascii=False)
