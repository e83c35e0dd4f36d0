"""Window functions in plans: every row of a partition with further columns, computed from the rows around it.

A window partitions rows by its keys, sorts each partition, and adds one column per call. No row is lost or merged, so
the node's columns are its child's and then the calls'. A change recomputes the partitions it touches and outputs the
differences.

Rows that are tied in the order are *peers*. What depends on the order among peers (row_number, ROWS frames) is decided
by the remaining columns, so that the result is deterministic.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from everview.plan.nodes import Node, Types
from everview.types import DataType

FrameUnit = Literal["rows", "range", "groups"]
Exclusion = Literal["no others", "current row", "group", "ties"]
"""What a frame excludes: nothing, the row itself, it and its peers, or its peers alone."""


@dataclass(frozen=True)
class Frame:
    """The rows around a row that a call sees: `start` to `end`, inclusive, None: to the partition's end.

    Offsets are relative to the row, negative before it: rows ("rows"), groups of peers ("groups"), or the difference of
    the only order column's code ("range": days of dates, microseconds, decimals without the point).
    """

    unit: FrameUnit
    start: int | float | None
    end: int | float | None
    exclude: Exclusion = "no others"

    def __str__(self) -> str:
        def bound(offset: int | float | None, side: str) -> str:
            if offset is None:
                return f"unbounded {side}"
            return f"{abs(offset)} {'preceding' if offset < 0 else 'following'}" if offset else "current row"

        without = "" if self.exclude == "no others" else f" exclude {self.exclude}"
        return f"{self.unit} {bound(self.start, 'preceding')} to {bound(self.end, 'following')}{without}"


WHOLE = Frame("rows", None, None)
"""The frame of a window without an order: the partition."""

TO_PEERS = Frame("range", None, 0)
"""The frame of a window with an order that names none: up to the last peer."""

WindowKind = Literal[
    "row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile",
    "lag", "lead", "first_value", "last_value", "nth_value",
    "count", "sum", "avg", "min", "max", "array_agg", "object_agg",
]  # fmt: skip


@dataclass(frozen=True)
class WindowCall:
    """One function over the window: of column `column` (None: of rows), seen through `frame`.

    `number` is the constant argument of ntile, lag, lead and nth_value; `default` the column that lag and lead return
    if there is no such row, and for array_agg and object_agg the condition of rows that count. `ignore_nulls`: rows
    whose column is NULL are skipped (lag, lead and the values of a frame).
    """

    kind: WindowKind
    type: DataType
    column: int | None = None
    frame: Frame = WHOLE
    number: int = 1
    default: int | None = None
    ignore_nulls: bool = False

    @property
    def columns(self) -> tuple[int, ...]:
        """The columns it reads."""
        return tuple(c for c in (self.column, self.default) if c is not None)


@dataclass(frozen=True, eq=False)
class Window(Node):
    """Each row of the child, then its calls. `order` holds (column, descending); NULLs sort last either way."""

    child: Node
    keys: tuple[int, ...]
    order: tuple[tuple[int, bool], ...]
    calls: tuple[WindowCall, ...]

    @cached_property
    def types(self) -> Types:
        return self.child.types + tuple(c.type for c in self.calls)
