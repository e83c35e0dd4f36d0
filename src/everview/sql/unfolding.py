"""Expands rows: generate_series, unnest and the like, as functions for `FlatMap`.

A row has the kept columns (`width`), then the arguments of the table function. Each result becomes a row: the kept
columns, the value, and optionally its number (WITH ORDINALITY), or its position from 0 before it (Spark's posexplode).
`outer` keeps a row without results, with NULL, like LEFT JOIN. Invalid arguments (a step of 0) are errors of the row.
"""

from __future__ import annotations

import calendar
import datetime as dt
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from everview.codes.intervals import DAY
from everview.expr.library.regex_functions import all_captured, split
from everview.expr.string_functions import RowFailure
from everview.kernels.expressions.scalars import ERROR_DOMAIN, ERROR_OVERFLOW

MOST_ROWS = 10_000_000
"""Rows out of one: more is a slip that would fill the memory."""

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Unfolding:
    """What a row becomes.

    >>> Unfolding("generate_series", width=1)("a", 1, 3)
    [('a', 1), ('a', 2), ('a', 3)]
    >>> Unfolding("elements", width=0, numbered=True)(5, None)
    [(5, 1), (None, 2)]
    """

    name: str
    width: int
    numbered: bool = False
    outer: bool = False
    placed: bool = False
    first: int = 1
    columns: int = 1
    months: int = 0
    microseconds: int = 0

    @property
    def __name__(self) -> str:
        return self.name

    def __call__(self, *row: Any) -> list[Row]:
        kept, args = row[: self.width], row[self.width :]
        found = list(UNFOLDINGS[self.name](args, self))
        if self.numbered:
            found = [(*values, i) for i, values in enumerate(found, self.first)]
        if self.placed:
            found = [(i, *values) for i, values in enumerate(found)]
        if not found and self.outer:
            found = [(None,) * (self.placed + self.columns + self.numbered)]
        return [(*kept, *values) for values in found]


@dataclass(frozen=True)
class SideBySide:
    """What a row becomes by several functions in one SELECT: their first values, their second ones, and so on; NULL
    where one has no more. A function is written as its fields, so that plans with it can be; `counts` tells how many
    of the arguments are each one's own.

    >>> from dataclasses import astuple
    >>> numbers, letters = Unfolding("generate_series", 0), Unfolding("elements", 0)
    >>> SideBySide((astuple(numbers), astuple(letters)), (2, 1), width=1)("a", 1, 2, "x")
    [('a', 1, 'x'), ('a', 2, None)]
    """

    parts: tuple[tuple[Any, ...], ...]
    counts: tuple[int, ...]
    width: int

    @property
    def __name__(self) -> str:
        return ", ".join(str(part[0]) for part in self.parts)

    def __call__(self, *row: Any) -> list[Row]:
        kept, args = row[: self.width], row[self.width :]
        columns: list[list[Any]] = []
        for part, count in zip(self.parts, self.counts, strict=True):
            columns.append([value for (value,) in Unfolding(*part)(*args[:count])])
            args = args[count:]
        return [(*kept, *values) for values in zip_longest(*columns)]


def _series(args: Row, of: Unfolding) -> Iterator[Row]:
    """Numbers from one to another, both included, in steps."""
    if None in args:
        return
    start, stop, step = (*args, 1)[:3]
    if step == 0:
        raise RowFailure(ERROR_DOMAIN)
    if (stop - start) / step > MOST_ROWS:
        raise RowFailure(ERROR_OVERFLOW)
    while start <= stop if step > 0 else start >= stop:
        yield (start,)
        start += step


def _range(args: Row, of: Unfolding) -> Iterator[Row]:
    """DuckDB's: numbers from one (0) to before another."""
    if None in args:
        return
    start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
    if step == 0:
        raise RowFailure(ERROR_DOMAIN)
    numbers = range(start, stop, step)
    if len(numbers) > MOST_ROWS:
        raise RowFailure(ERROR_OVERFLOW)
    for number in numbers:
        yield (number,)


def later(moment: dt.datetime, months: int, microseconds: int) -> dt.datetime:
    """A moment moved by months, then by microseconds; the day stays or becomes the month's last.

    >>> later(dt.datetime(2026, 1, 31), 1, 0)
    datetime.datetime(2026, 2, 28, 0, 0)
    """
    year, month = divmod(moment.year * 12 + moment.month - 1 + months, 12)
    if not 1 <= year <= 9999:
        raise RowFailure(ERROR_OVERFLOW)
    day = min(moment.day, calendar.monthrange(year, month + 1)[1])
    try:
        return moment.replace(year=year, month=month + 1, day=day) + dt.timedelta(microseconds=microseconds)
    except OverflowError:
        raise RowFailure(ERROR_OVERFLOW) from None


def _moments(args: Row, of: Unfolding) -> Iterator[Row]:
    """Moments from one to another, both included, an interval apart (each step from the one before, as PostgreSQL)."""
    if None in args:
        return
    moment, stop = args[:2]
    months, microseconds = of.months, of.microseconds
    if len(args) > 2:  # an interval of the row
        months, microseconds = args[2].months, args[2].days * DAY + args[2].microseconds
    if (months, microseconds) == (0, 0) or months * microseconds < 0:
        raise RowFailure(ERROR_DOMAIN)
    forward = (months, microseconds) > (0, 0)
    count = 0
    while moment <= stop if forward else moment >= stop:
        yield (moment,)
        count += 1
        if count > MOST_ROWS:
            raise RowFailure(ERROR_OVERFLOW)
        try:
            moment = later(moment, months, microseconds)
        except RowFailure:
            return  # the calendar ends before the series does


def _elements(args: Row, of: Unfolding) -> Iterator[Row]:
    """The values themselves."""
    for value in args:
        yield (value,)


def _unnest(args: Row, of: Unfolding) -> Iterator[Row]:
    """The items of arrays, side by side; the shorter ones are filled with NULL."""
    yield from zip_longest(*(arg or () for arg in args))


def _string_to_table(args: Row, of: Unfolding) -> Iterator[Row]:
    """A text parted at a separator: at none (NULL) into letters; a part that equals the third argument is NULL."""
    text, separator = args[:2]
    if text is None or text == "":
        return
    parts = list(text) if separator is None else [text] if separator == "" else text.split(separator)
    for part in parts:
        yield (None if len(args) > 2 and part == args[2] else part,)


def _regexp_split(args: Row, of: Unfolding) -> Iterator[Row]:
    if None in args:
        return
    for part in split(*args):
        yield (part,)


def _regexp_matches(args: Row, of: Unfolding) -> Iterator[Row]:
    if None in args:
        return
    for groups in all_captured(*args):
        yield (groups,)


UNFOLDINGS: dict[str, Callable[[Row, Unfolding], Iterator[Row]]] = {
    "generate_series": _series,
    "range": _range,
    "moments": _moments,
    "elements": _elements,
    "unnest": _unnest,
    "string_to_table": _string_to_table,
    "regexp_split_to_table": _regexp_split,
    "regexp_matches": _regexp_matches,
}
"""What each function gives for its arguments."""
