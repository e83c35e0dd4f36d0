"""Interprets the argument of `db.source`: a path by its suffix, a DataFrame, rows, a table or a function."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from everview.errors import InputError
from everview.io import doors
from everview.io.files import Files
from everview.io.formats import Arrow, Csv, Format, Json, Parquet
from everview.io.rows import Rows
from everview.io.source import Source

_BY_SUFFIX: dict[str, Callable[[], Format]] = {
    ".csv": Csv,
    ".json": Json,
    ".jsonl": Json,
    ".ndjson": Json,
    ".parquet": Parquet,
    ".arrow": Arrow,
    ".feather": Arrow,
}


def as_source(given: Any) -> Source:
    """The source for a source, a path, a Spark DataFrame, rows, a table, or a function."""
    if isinstance(given, Source):
        return given
    if isinstance(given, (str, os.PathLike)):
        return by_suffix(os.fspath(given))
    if type(given).__module__.startswith("pyspark.sql"):
        return doors.frame_source(given)
    return Rows(given)


def by_suffix(path: str) -> Files:
    """The files at a path, by the suffix of its name."""
    for suffix, made in _BY_SUFFIX.items():
        if path.endswith((suffix, suffix + ".gz")):
            return Files(path, made())
    raise InputError(
        "E_FORMAT",
        f"the format of {path!r} cannot be inferred from its name",
        "use ev.io.csv(path), ev.io.json(path), ...",
    )
