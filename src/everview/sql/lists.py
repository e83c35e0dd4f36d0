"""string_agg, array_agg, jsonb_agg and jsonb_object_agg: a group's values combined into one.

These are reductions in Python: a changed group is rebuilt, as its value must be anyway.

Without ORDER BY the values are in their own order, so that the result is deterministic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from typing import Any

from everview.codes import packed
from everview.codes.immutable import JsonNull
from everview.codes.jsons import order_key
from everview.errors import InputError
from everview.types import DataType

Row = tuple[Any, ...]


@dataclass(frozen=True)
class _Lists:
    """A group reduction for `PythonReduce`.

    A row is the keys, then whether it counts (`filtered`), the value, and the sort columns.
    """

    keys: int
    order: tuple[bool, ...]
    separator: str | None = None
    distinct: bool = False
    filtered: bool = False

    def __call__(self, key: Row, group: list[tuple[Row, int]]) -> list[Row]:
        at = self.keys + self.filtered
        rows = [(row[at:], n) for row, n in group if n > 0 and (not self.filtered or row[self.keys])]
        if self.separator is not None:
            rows = [(row, n) for row, n in rows if row[0] is not None]
        for column in (0, *reversed(range(1, len(self.order) + 1))):
            down = self.order[column - 1] if column else False
            known = [r for r in rows if r[0][column] is not None]
            known.sort(key=lambda r, c=column: self.sortable(r[0][c], c), reverse=down)  # type: ignore[misc]
            rows = known + [r for r in rows if r[0][column] is None]
        if self.distinct:
            values = list({itself(row[0]): row[0] for row, _ in reversed(rows)}.values())[::-1]
        else:
            values = [row[0] for row, n in rows for _ in range(n)]
        if not values:
            return [(None,)]
        return [(self.made(values),)]

    def sortable(self, value: Any, column: int) -> Any:
        """What the values of a column (0: those that are listed) sort by."""
        raise NotImplementedError

    def made(self, values: list[Any]) -> Any:
        """One value of many."""
        raise NotImplementedError


@dataclass(frozen=True)
class Listing(_Lists):
    """The values as an array, or as one text.

    >>> Listing(1, order=(True,), separator="-")(("k",), [(("k", "a", 1), 1), (("k", "b", 2), 2), (("k", None, 3), 1)])
    [('b-b-a',)]
    >>> Listing(0, order=(), filtered=True)((), [((True, 2.5), 1), ((False, 1.0), 1), ((True, None), 1)])
    [([2.5, None],)]
    """

    types: tuple[DataType, ...] = field(default=(), metadata={"later": True})
    """Those of the value and the sort columns, if some do not sort by themselves (`told`)."""

    @property
    def __name__(self) -> str:
        return "array_agg" if self.separator is None else "string_agg"

    def sortable(self, value: Any, column: int) -> Any:
        """What the values of a column (0: those that are listed) sort by."""
        return ordered(value, column, self.types)

    def made(self, values: list[Any]) -> Any:
        """One value of many."""
        return values if self.separator is None else self.separator.join(values)


@dataclass(frozen=True)
class Documents(_Lists):
    """A group's JSON values as one JSON array; `pairs`: of keys and values, as one object, in which the last key wins.

    >>> Documents(0, order=(), pairs=True)((), [((["a", 1],), 1), ((["b", None],), 1)])
    [({'a': 1, 'b': None},)]
    """

    pairs: bool = False
    types: tuple[DataType, ...] = field(default=(), metadata={"later": True})

    @property
    def __name__(self) -> str:
        return "jsonb_object_agg" if self.pairs else "jsonb_agg"

    def sortable(self, value: Any, column: int) -> Any:
        return order_key(value) if column == 0 else ordered(value, column, self.types)

    def made(self, values: list[Any]) -> Any:
        inside: list[Any] = [None if isinstance(v, JsonNull) else v for v in values]
        if self.pairs and any(key is None or isinstance(key, JsonNull) for key, _ in inside):
            hint = "leave such rows out: FILTER (WHERE key IS NOT NULL)"
            raise InputError("E_NULL", "a key is NULL, and an object has no such key", hint)
        return dict(inside) if self.pairs else inside


def told(types: Sequence[DataType]) -> tuple[DataType, ...]:
    """The types that a reduction needs to know to sort: none, if all values sort by themselves.

    >>> from everview.types import INT, JSON
    >>> told([INT, INT]), told([INT, JSON])
    ((), (int, json))
    """
    return tuple(types) if any(packed.order_key(t) is not None for t in types) else ()


def ordered(value: Any, column: int, types: tuple[DataType, ...]) -> Any:
    """What a value sorts by: an enum's label by its place, a struct field by field with NULLs last, JSON as jsonb."""
    key = _key(types[column]) if types else None
    return sortable(value) if key is None else key(value)


_key = cache(packed.order_key)


def sortable(value: Any) -> Any:
    """A sort key for any values of one type: NaN is larger than all numbers, lists compare item by item, NULLs last.
    JSON values of different kinds are in the order of `order_key`.
    """
    if isinstance(value, (dict, JsonNull)):
        return order_key(value)
    if isinstance(value, bool):
        return 3, value
    if isinstance(value, (int, float, Decimal)):
        return 2, value != value, value
    if isinstance(value, (list, tuple)):
        return 4, [(v is None, 0 if v is None else sortable(v)) for v in value]
    return 1, value


def itself(value: Any) -> Any:
    """An identity key: Python's True equals 1, JSON's does not."""
    if isinstance(value, dict):
        return frozenset((key, itself(v)) for key, v in value.items())
    if isinstance(value, list):
        return tuple(itself(v) for v in value)
    return isinstance(value, bool), value
