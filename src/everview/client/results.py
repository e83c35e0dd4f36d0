"""Client-side results: rows, changes at a time, explanations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from everview.codes.type_declarations import arrow_field
from everview.wire.plans import type_of
from everview.wire.values import rows_of, value_of

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from everview.types import DataType
    from everview.why.derivation import Derivation, Witnesses
    from everview.why.expression import Expression

Row = tuple[Any, ...]


class ClientResult:
    """The rows of a SELECT: a copy, unaffected by later changes."""

    def __init__(self, head: Mapping[str, Any], tables: Sequence[pa.Table]) -> None:
        self._columns = [(name, type_of(kind)) for name, kind in head["columns"]]
        self._table = tables[0] if tables else None
        self._rows = rows_of(head["rows"]) if self._table is None else None

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return [name for name, _ in self._columns]

    @property
    def types(self) -> list[DataType]:
        """Types of the columns."""
        return [kind for _, kind in self._columns]

    def rows(self) -> list[Row]:
        """The rows as tuples."""
        if self._rows is None:
            assert self._table is not None
            self._rows = rows_in(self._table)
        return list(self._rows)

    def to_arrow(self) -> pa.Table:
        """As an Arrow table."""
        if self._table is None:
            fields = pa.schema([arrow_field(name, kind) for name, kind in self._columns])
            columns = list(zip(*self.rows(), strict=True)) or [()] * len(self._columns)
            self._table = pa.table([pa.array(list(c), f.type) for c, f in zip(columns, fields, strict=True)], fields)
        return self._table

    def to_pandas(self) -> pd.DataFrame:
        """As a pandas frame."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """As a polars frame."""
        import polars

        found = polars.from_arrow(self.to_arrow())
        assert isinstance(found, polars.DataFrame)
        return found

    def __len__(self) -> int:
        return len(self._rows) if self._rows is not None else self.to_arrow().num_rows

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows())

    def __repr__(self) -> str:
        return f"Result({', '.join(self.columns)}: {len(self)} rows)"


def rows_in(table: pa.Table) -> list[Row]:
    """The rows of an Arrow table as tuples."""
    if not table.num_columns:
        return [()] * table.num_rows
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


class ClientBatch:
    """The changes of a view at one complete time, or up to it since the last; passed to subscribers."""

    def __init__(self, time: int, columns: Sequence[str], changes: list[tuple[Row, int]]) -> None:
        self.time = time
        self._columns = list(columns)
        self._changes = changes

    def rows(self) -> list[tuple[Row, int]]:
        """[(row, diff), ...]: diff is positive for inserted rows and negative for deleted ones."""
        return list(self._changes)

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table, with columns `_time` and `_diff`."""
        columns = list(zip(*(row for row, _ in self._changes), strict=True)) or [()] * len(self._columns)
        named: dict[str, Any] = {n: list(c) for n, c in zip(self._columns, columns, strict=True)}
        named |= {"_time": [self.time] * len(self._changes), "_diff": [diff for _, diff in self._changes]}
        return pa.table(named)

    def __len__(self) -> int:
        return len(self._changes)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"Batch(time={self.time}, rows={self.rows()!r})"


class ClientWhyNot:
    """Why a row is not there."""

    def __init__(self, head: Mapping[str, Any]) -> None:
        self._text = str(head["text"])
        self._missing = [(str(name), value_of(row)) for name, row in head["missing"]]

    def missing(self) -> list[tuple[str, Row]]:
        """[(table, row pattern), ...]: rows that would make it appear."""
        return list(self._missing)

    def __str__(self) -> str:
        return self._text

    __repr__ = __str__


def derivations(head: Mapping[str, Any], several: bool) -> Derivation | Witnesses:
    """Parse the explanations that a server sends."""
    from everview.why.derivation import Derivation, Witnesses

    found = tuple(_tree(Derivation, tree["parts"]) for tree in head["derivations"])
    return Witnesses(found, bool(head["truncated"])) if several else found[0]


def expression(said: Mapping[str, Any]) -> Expression:
    """Parse the provenance expression that a server sends."""
    from everview.why.expression import Expression

    variables = [(label, table, value_of(row)) for label, table, row in said["variables"]]
    return Expression.read(variables, said["nodes"], said["root"])


def _tree(kind: type[Derivation], parts: Sequence[Mapping[str, Any]]) -> Derivation:
    """A derivation from its parts; children may be before or after their parents."""
    made: dict[int, Derivation] = {}
    todo = [0]
    while todo:
        at = todo[-1]
        part = parts[at]
        lacking = [c for c in part["children"] if c not in made]
        if lacking:
            todo.extend(lacking)
            continue
        todo.pop()
        if at not in made:
            made[at] = kind(
                value_of(part["row"]), part["source"], part["kind"], tuple(made[c] for c in part["children"]),
                tuple(part["columns"]), part["rule"], part["how"], part["round"], part["of"],
            )  # fmt: skip
    return made[0]
