"""Sources and sinks: where a pipeline's rows come from and where its views go.

    db.source("orders", ev.io.json("in/orders"), key="id")       # a directory that grows
    revenue.write_to(ev.io.parquet("out/revenue"))               # the view's changes, each exactly once
    db.run(until="caught_up")

| name | as a source | as a sink |
|---|---|---|
| `csv`, `json`, `parquet`, `arrow` | a file, a directory that grows, a pattern | files of changes, or of the contents |
| `rows` | any Python iterable | |

A Spark DataFrame, streaming or not, is given to `db.source` as it is. How positions, exactly-once and dead letters
work is said in `everview.io.source` and `everview.io.feed`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

from everview.io.files import Files
from everview.io.formats import Arrow, Csv, Json, Parquet
from everview.io.pipeline import Run
from everview.io.rows import Rows
from everview.io.source import Bad, Chunk, Source

__all__ = ["Bad", "Chunk", "Files", "Run", "Source", "arrow", "csv", "json", "parquet", "rows"]

Path = str | os.PathLike[str]
Order = Literal["modified", "name"]


def csv(
    path: Path,
    *,
    delimiter: str = ",",
    quote: str = '"',
    header: bool | Sequence[str] = True,
    null: str = "",
    tail: bool = False,
    order: Order = "modified",
) -> Files:
    """CSV files. `header` says whether the first line has the names, or gives the names; an unquoted field that
    equals `null` is NULL; with `tail=True`, files that are appended to are followed.

    >>> import everview as ev, pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.csv").write_text("id,name" + chr(10) + "1,pear" + chr(10))
    >>> db = ev.connect()
    >>> fruit = db.source("fruit", ev.io.csv(folder))
    >>> _ = db.run(until="caught_up")
    >>> fruit.rows()
    [(1, 'pear')]
    """
    return Files(path, Csv(delimiter, quote, header, null), tail=tail, order=order)


def json(path: Path, *, tail: bool = False, order: Order = "modified") -> Files:
    """JSON files with one object per line."""
    return Files(path, Json(), tail=tail, order=order)


def parquet(path: Path, *, order: Order = "modified") -> Files:
    """Parquet files."""
    return Files(path, Parquet(), order=order)


def arrow(path: Path, *, order: Order = "modified") -> Files:
    """Arrow IPC (Feather) files or streams."""
    return Files(path, Arrow(), order=order)


def rows(rows: Iterable[Any] | Callable[[], Iterable[Any]]) -> Rows:
    """Rows of a Python iterable, as tuples or dicts, or of a function that gives one; the same rows must come again
    after a restart.

    >>> import everview as ev
    >>> db = ev.connect()
    >>> t = db.source("t", ev.io.rows([{"x": 1}, {"x": 2}]))
    >>> print(db.run(until="caught_up").rows, sorted(t.rows()))
    {'t': 2} [(1,), (2,)]
    """
    return Rows(rows)
