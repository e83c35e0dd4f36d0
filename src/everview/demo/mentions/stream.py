"""New mentions arrive as files in a directory, and Spark Structured Streaming reads them: one file, one micro-batch.

Without Spark, Everview reads the same files itself; the rest of the program is the same.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import everview as ev
from everview.demo.mentions.data import Mentions

SCHEMA = "slot long, src long, dst long, tag string"


def write(folder: Path, mentions: Mentions, first: int, last: int, slots_per_file: int) -> int:
    """Write the mentions of slots first to last as files; how many."""
    starts = range(first, last, slots_per_file)
    for number, start in enumerate(starts):
        part = mentions.between(start, min(start + slots_per_file, last))
        pq.write_table(part.to_arrow(), folder / f"{number:04}.parquet")
    return len(starts)


def source(folder: Path, session: Any) -> Any:
    """The files as a source: a streaming DataFrame, or Everview's own reader without a Spark session."""
    if session is None:
        return ev.io.parquet(folder)
    return session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder))
