"""Rows from Python: any iterable, taken a piece at a time.

The position is the number of rows taken. After a restart that many are skipped, so the iterable must yield the same
rows again: a list, a file's lines, a function that starts a query over. A generator that blocks for its next row blocks
the pipeline.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from everview.codes.tables import is_table
from everview.errors import InputError
from everview.io.source import Chunk, Source, Wanted

CHUNK = 65_536
"""Default number of rows per chunk."""

SAMPLE_ROWS = 1000
"""Rows inspected to infer the columns."""


class Rows(Source):
    """Rows of a Python iterable, of a table of another library, or of a function that returns one."""

    def __init__(self, rows: Any) -> None:
        if not callable(rows) and not isinstance(rows, Iterable) and not is_table(rows):
            raise InputError(
                "E_TYPE",
                f"ev.io.rows needs an iterable or a function, got {type(rows).__name__}",
                "give a list of rows",
            )
        self._given: Any = rows
        self._iterator: Iterator[Any] = iter(())
        self._taken = 0
        self._snapshots = False

    def describe(self) -> str:
        return "rows"

    def _whole(self) -> pa.Table | list[Any]:
        given = self._fresh()
        table = _table(given)
        return list(given) if table is None else table

    def _again(self) -> Iterator[Any]:
        given = self._fresh()
        table = _table(given)
        return iter(given if table is None else table.to_pylist())

    def _fresh(self) -> Any:
        """The given object, or the result of the given function."""
        if not callable(self._given):
            return self._given
        given = self._given()
        if not isinstance(given, Iterable) and not is_table(given):
            raise InputError("E_TYPE", f"the function of ev.io.rows gave {given!r}", "have it return the rows")
        return given

    def schema(self) -> pa.Schema:
        table = _table(self._given if isinstance(self._given, Iterator) else self._fresh())
        if table is not None:
            return table.schema
        if not callable(self._given) and isinstance(self._given, Iterator):
            head = list(itertools.islice(self._given, SAMPLE_ROWS))
            self._given = itertools.chain(head, self._given)
        else:
            head = list(itertools.islice(self._again(), SAMPLE_ROWS))
        if not head or not all(isinstance(row, Mapping) for row in head):
            raise InputError(
                "E_SCHEMA",
                "the columns of these rows are not known" if head else "there are no rows yet to tell the columns from",
                'give schema={"column": type, ...}, or rows as dicts',
            )
        names = list(dict.fromkeys(name for row in head for name in row))
        if not all(isinstance(name, str) for name in names):
            raise InputError("E_SCHEMA", f"the rows have columns {names!r}", "name columns with texts")
        try:
            return pa.Table.from_pydict({name: [row.get(name) for row in head] for name in names}).schema
        except (pa.ArrowException, OverflowError, UnicodeError) as error:
            raise InputError(
                "E_SCHEMA",
                f"the columns cannot be inferred from these rows: {error}",
                'give schema={"column": type, ...}',
            ) from None

    def open(self, marks: Mapping[str, str], wanted: Wanted | None, snapshots: bool) -> None:
        self._taken = int(marks.get("rows", 0))
        self._snapshots = snapshots
        if snapshots and isinstance(self._given, Iterator):
            raise InputError(
                "E_MODE",
                "an iterator gives its rows only once: no snapshots",
                "give a list, or a function that starts over",
            )
        self._iterator = self._again()
        if not snapshots:
            skipped = sum(1 for _ in itertools.islice(self._iterator, self._taken))
            if skipped < self._taken:
                raise InputError(
                    "E_SOURCE_CHANGED",
                    f"{self._taken} rows were taken before, but the iterable has only {skipped}",
                    "give the same rows again, in the same order; new ones at the end",
                )

    def poll(self, limit: int | None) -> Chunk | None:
        if self._snapshots:
            return Chunk("rows", self._whole(), {}, snapshot=True)
        rows = list(itertools.islice(self._iterator, limit or CHUNK))
        if not rows:
            return None
        first, self._taken = self._taken, self._taken + len(rows)
        return Chunk(f"rows from {first}", rows, {"rows": str(self._taken)})


def _table(given: Any) -> pa.Table | None:
    """A table of any library, or a Spark DataFrame, as Arrow; None if it is something else."""
    if isinstance(given, pa.Table):
        return given
    if hasattr(given, "toArrow"):
        return given.toArrow()
    return pa.table(given) if is_table(given) and not isinstance(given, (Mapping, np.ndarray)) else None
