"""Change feeds: records that describe changes of rows.

Three formats are supported. All become a list of *events* (row, +1 or -1), in order:

| shape | looks like | from |
|---|---|---|
| column | a row, `_change_type`: insert, update_preimage, update_postimage, delete | Delta, Spark's `changes()` |
| diff | a row, `_diff`: +n or -n | Everview's own sinks |
| Debezium | `{"op": "c", "u", "d", "r" or "t", "before": row, "after": row}`, maybe in `payload` | Debezium, Kafka |

In a table with a key, +1 replaces whatever is stored under the key, and -1 deletes it, whatever else the record
contains: a feed may send the key alone. A deletion of a missing key is counted, or refused (`missing="reject"`); feeds
that deliver twice have such deletions. The row before an update is not a deletion: it is removed if it is still there,
because a feed may list the new row before the old one within one commit, as Delta's does. Without a key the events are
counted, and deleting an absent row is an error.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from everview.codes.scalars import shown
from everview.errors import InputError, did_you_mean
from everview.io.text_values import values_of_json
from everview.types import INT, STR, TIMESTAMP, DataType

CHANGE, VERSION, STAMP = "_change_type", "_commit_version", "_commit_timestamp"
DIFF, TIME = "_diff", "_time"

SIGNS: dict[str, int] = {
    "insert": 1,
    "update_postimage": 1,
    "update_preimage": -1,
    "delete": -1,
}

BEFORE = -(1 << 40)
"""Stands for the count of a row before an update, in a feed with a key"""

Shape = Literal["column", "diff", "debezium"]


@dataclass(frozen=True)
class Envelope:
    """The format of a feed's records: its shape, the column with the operation, the metadata columns, and those of them
    that give the order.
    """

    shape: Shape
    column: str
    extra: tuple[str, ...]
    ordering: tuple[str, ...] = ()

    @property
    def unordered(self) -> bool:
        """Whether a deleted row may be listed after its replacement, with nothing to distinguish it from a deletion."""
        return self.shape == "diff"

    def wanted(self, columns: Mapping[str, DataType]) -> dict[str, DataType] | None:
        """The columns to request from the source; None: records as they are."""
        if self.shape == "debezium":
            return None
        kind = INT if self.shape == "diff" else STR
        ordering = {name: (INT if name == VERSION else TIMESTAMP).optional() for name in self.ordering}
        return {**columns, **ordering, self.column: kind.optional()}


def envelope(schema: pa.Schema, change_column: str | None) -> Envelope:
    """The shape of a feed with these columns."""
    names = schema.names
    if change_column is not None:
        if change_column not in names:
            raise InputError(
                "E_COLUMN", f"the feed has no column {change_column!r}", did_you_mean(change_column, names)
            )
        shape: Shape = "diff" if pa.types.is_integer(schema.field(change_column).type) else "column"
        return Envelope(shape, change_column, (change_column, VERSION, STAMP, TIME), _ordering(schema))
    if CHANGE in names:
        return Envelope("column", CHANGE, (CHANGE, VERSION, STAMP), _ordering(schema))
    if DIFF in names:
        return Envelope("diff", DIFF, (DIFF, TIME))
    if "op" in names or "payload" in names or len(names) == 1:
        return Envelope("debezium", "op", ())
    raise InputError(
        "E_CHANGES",
        f"nothing in ({', '.join(names)}) says what happened to a row",
        f"name the column with change_column=; {CHANGE}, {DIFF} and Debezium's op are found by themselves",
    )


def _ordering(schema: pa.Schema) -> tuple[str, ...]:
    """The columns with the commit order, as far as their types are ordered: a version's type depends on the catalog
    (Delta counts, Iceberg uses random numbers, others texts).
    """
    kinds = {VERSION: pa.types.is_integer, STAMP: pa.types.is_timestamp}
    return tuple(name for name, fits in kinds.items() if name in schema.names and fits(schema.field(name).type))


def row_schema(found: pa.Schema, shape: Envelope) -> pa.Schema:
    """The columns of the rows in a feed."""
    if shape.shape != "debezium":
        return pa.schema([field for field in found if field.name not in shape.extra])
    fields = found
    if "payload" in fields.names and pa.types.is_struct(fields.field("payload").type):
        fields = pa.schema(list(fields.field("payload").type))
    for side in ("after", "before"):
        if side in fields.names and pa.types.is_struct(fields.field(side).type):
            return pa.schema(list(fields.field(side).type))
    raise InputError(
        "E_SCHEMA", "the columns cannot be inferred from the feed's records", 'give schema={"column": type, ...}'
    )


def signs(shape: Envelope, values: list[Any], keyed: bool = False) -> tuple[np.ndarray, dict[int, str]]:
    """The operation of each record as a signed count, and why the others were refused."""
    words = SIGNS | {"update_preimage": BEFORE} if keyed else SIGNS
    counts = np.zeros(len(values), dtype=np.int64)
    refused: dict[int, str] = {}
    for i, value in enumerate(values):
        if shape.shape == "diff" and isinstance(value, int) and value:
            counts[i] = value
        elif shape.shape == "column" and isinstance(value, str) and value.lower() in words:
            counts[i] = words[value.lower()]
        else:
            refused[i] = f"[E_CHANGES] {shown(value)} in column {shape.column!r} is not a kind of change"
    return counts, refused


CLEAR = "t"
"""Debezium's truncate: the table is emptied."""


def debezium(record: Any, columns: Mapping[str, DataType], keyed: bool) -> list[tuple[dict[str, Any] | None, int]]:
    """The events of one Debezium record; (None, 0) empties the table, and a tombstone is not an event.

    >>> debezium({"op": "u", "before": {"id": 1}, "after": {"id": 2}}, {"id": INT}, keyed=False)
    [({'id': 1}, -1), ({'id': 2}, 1)]
    """
    body = _body(record)
    if body is None:
        return []
    op = body.get("op")
    if op == CLEAR:
        return [(None, 0)]
    if op == "m":  # a log message, not about a row
        return []
    if op not in ("c", "r", "u", "d"):
        raise InputError("E_CHANGES", f"{shown(op)} is not a Debezium op", "c, r, u, d, t and m are known")
    before, after = _row(body.get("before"), columns), _row(body.get("after"), columns)
    events: list[tuple[dict[str, Any] | None, int]] = []
    if op in ("u", "d"):
        if before is not None:
            events.append((before, -1))
        elif op == "d" or not keyed:
            raise InputError(
                "E_CHANGES",
                f"op {op!r} without before",
                "have the database send old rows (REPLICA IDENTITY FULL), or declare key=",
            )
    if op != "d":
        if after is None:
            raise InputError("E_CHANGES", f"op {op!r} without after")
        events.append((after, 1))
    return events


def _body(record: Any) -> dict[str, Any] | None:
    """The part with op, before and after: extracted from a text, a single column, Kafka's schema and payload."""
    if isinstance(record, Mapping) and "op" not in record:
        if "payload" in record:
            return _body(record["payload"])
        if len(record) == 1:
            return _body(next(iter(record.values())))
    if isinstance(record, (str, bytes)):
        try:
            return _body(json.loads(record))
        except ValueError as error:
            raise InputError("E_RECORD", f"no JSON: {error}") from None
    if record is None or (isinstance(record, Mapping) and all(v is None for v in record.values())):
        return None  # a tombstone, which lets Kafka compact a key
    if not isinstance(record, Mapping):
        raise InputError("E_RECORD", f"{shown(record)} is not a JSON object")
    return dict(record)


def _row(value: Any, columns: Mapping[str, DataType]) -> dict[str, Any] | None:
    if isinstance(value, str):
        value = json.loads(value)
    return None if value is None else values_of_json(value, columns)


def in_commit_order(counts: np.ndarray, versions: np.ndarray | None, stamps: np.ndarray | None = None) -> np.ndarray:
    """The order in which to apply events: by commit, with deletions first within one; in order of arrival if commits
    are not ordered. Versions are in commit order, unless their timestamps contradict it.

    >>> in_commit_order(np.array([1, -1, 1]), np.array([5, 5, 4])).tolist()
    [2, 1, 0]
    >>> in_commit_order(np.array([1, -1, 1]), np.array([5, 5, 9]), np.array([8, 8, 3])).tolist()
    [2, 1, 0]
    """
    if stamps is None:
        return np.arange(len(counts)) if versions is None else np.lexsort((counts, versions))
    if versions is None:
        return np.lexsort((counts, stamps))
    order = np.lexsort((counts, versions))
    if np.all(stamps[order][1:] >= stamps[order][:-1]):
        return order
    return np.lexsort((counts, versions, stamps))
