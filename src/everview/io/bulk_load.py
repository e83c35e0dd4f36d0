"""One-time loading of data into a table: `db.table(name, frame)` and `db.read("x.csv")`.

Unlike a source (`everview.io.pipeline`), the data is read once. Columns and types are inferred in the same way: from
the frame's or the file's schema, with NULLs allowed everywhere except in the key.
"""

from __future__ import annotations

import datetime as dt
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from everview.codes.tables import is_table
from everview.errors import InputError
from everview.io.pipeline import Pipeline, types_of
from everview.language.relation import relation_of

if TYPE_CHECKING:
    from everview.io.source import Source
    from everview.session.core import Core
    from everview.session.session import Session
    from everview.session.table import Table

Key = str | Sequence[str] | None


def table_of(core: Core, name: str, data: Any, key: Key, ttl: dt.timedelta | None) -> Table:
    """Create a table from data: its columns and its rows."""
    columns = types_of(_arrow(name, data).schema, (key,) if isinstance(key, str) else tuple(key or ()))
    fresh = name not in core.session.tables
    table = core.session.table(name, columns, key, ttl=ttl)
    try:
        table.insert(data)
    except BaseException:
        if fresh:
            table.drop()
        raise
    return table


def _arrow(name: str, data: Any) -> pa.Table:
    """The data as Arrow sees it."""
    try:
        if is_table(data):
            return pa.table(dict(data) if isinstance(data, Mapping) else data)
        if isinstance(data, list) and data and all(isinstance(row, Mapping) for row in data):
            return pa.Table.from_pylist(data)
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, ValueError) as error:
        raise InputError(
            "E_SCHEMA",
            f"the columns of table {name!r} cannot be inferred: {str(error).splitlines()[0]}",
            'give a schema, {"column": type}, and insert the rows',
        ) from None
    raise InputError(
        "E_SCHEMA",
        f"table {name!r}: {type(data).__name__} is neither a schema nor a table with named columns",
        'give {"column": type, ...}, or a pandas or polars frame, an Arrow table, a list of dicts',
    )


def read(core: Core, source: Any, name: str | None, key: Key, schema: Mapping[str, Any] | None) -> Table:
    """Implements `Session.read`."""
    if name is None:
        name = name_of(source)
    alone = Pipeline(core)  # not registered with the session: `db.run` does not read it again
    table = alone.source(
        name,
        source,
        key=key,
        mode=None,
        schema=schema,
        bad="fail",
        missing="count",
        change_column=None,
        max_rows_per_step=None,
        every="10s",
    )
    alone.run("caught_up", False)
    return table


def load(session: Session, table: Table, source: Source) -> int:
    """Insert all records of a source into a table, in one transaction; return how many. Rows replace those with the
    same keys."""
    source.open({}, {c.name: c.type for c in relation_of(table).columns}, False)
    taken = 0
    with session.transaction():
        while (chunk := source.poll(None)) is not None:
            for bad in chunk.bad:
                raise InputError("E_RECORD", f"{bad.place}: {bad.reason}", "nothing was copied: correct the record")
            rows: Any = chunk.rows
            (table.upsert if relation_of(table).key else table.insert)(rows)
            taken += len(rows)
    return taken


def name_of(source: Any) -> str:
    """A table's name, derived from a file's.

    >>> name_of("in/orders-2026.csv.gz")
    'orders_2026'
    """
    place = getattr(source, "place", None)
    path = place.given if place is not None else source
    if not isinstance(path, (str, os.PathLike)):
        raise InputError("E_NAME", "the table needs a name", 'give one: db.read(source, "name")')
    stem = PurePath(os.fspath(path)).name.split(".")[0]
    found = re.sub(r"\W+", "_", stem).strip("_")
    if not found:
        raise InputError(
            "E_NAME", f"no table name can be inferred from {os.fspath(path)!r}", 'give one: db.read(path, "name")'
        )
    return f"t{found}" if found[0].isdecimal() else found
