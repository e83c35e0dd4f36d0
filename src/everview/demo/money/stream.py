"""Payments as a stream: a file for every moment, read one after the other by Spark Structured Streaming.

A file is a change feed: payments to insert, and cancelled ones to delete. Without Spark, Everview reads the same files.
Either way it is a source like any other, and `Watched` is put around it. That is a source too: it lets the session's
clock follow the payments, takes the time of each change, and says when it is complete.
"""

from __future__ import annotations

import datetime as dt
import os
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import everview as ev
from everview.demo.money.data import Moment, Payment
from everview.io.source import Chunk, Source, Wanted
from everview.io.source_inference import as_source

SPARK_SCHEMA = "id long, at timestamp_ntz, payer string, payee string, via string, amount long, _change_type string"

COLUMNS = pa.schema(
    [
        *(("id", pa.int64()), ("at", pa.timestamp("us")), ("payer", pa.string()), ("payee", pa.string())),
        *(("via", pa.string()), ("amount", pa.int64())),
    ]
)


def to_arrow(payments: Iterable[Payment]) -> pa.Table:
    """Payments as rows of the table `transfer`."""
    columns = list(zip(*payments, strict=True)) or [()] * len(COLUMNS)
    return pa.table([pa.array(values, kind) for values, kind in zip(columns, COLUMNS.types, strict=True)], COLUMNS)


def write(folder: Path, moments: Iterable[Moment]) -> None:
    """Write each moment's changes as a file. Spark takes files by their age, so each is a second younger."""
    began = time.time() - 100_000
    for number, moment in enumerate(moments):
        told = [(event.payment, event.what) for event in moment.events if event.payment is not None]
        kinds = ["delete" if what == "cancel" else "insert" for _, what in told]
        rows = to_arrow(payment for payment, _ in told).append_column("_change_type", pa.array(kinds))
        path = folder / f"{number:04}.parquet"
        pq.write_table(rows, path)
        os.utime(path, (began + number, began + number))


def files(folder: Path, session: Any) -> Source:
    """The files as a source: a streaming DataFrame, or Everview's own reader without a Spark session."""
    if session is None:
        return ev.io.parquet(folder)
    return as_source(session.readStream.schema(SPARK_SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder)))


class Watched(Source):
    """A source with somebody who watches it: `arrives` is called before a chunk's rows are taken, `taken` when they are
    in and every subscriber has been told.
    """

    def __init__(self, source: Source, arrives: Callable[[], None], taken: Callable[[], None]) -> None:
        self._source, self._arrives, self._taken = source, arrives, taken

    def schema(self) -> pa.Schema:
        return self._source.schema()

    def open(self, marks: Mapping[str, str], wanted: Wanted | None, snapshots: bool) -> None:
        self._source.open(marks, wanted, snapshots)

    def poll(self, limit: int | None) -> Chunk | None:
        chunk = self._source.poll(limit)
        if chunk is not None:
            self._arrives()
        return chunk

    def committed(self, chunk: Chunk) -> None:
        self._taken()
        self._source.committed(chunk)

    def failed(self, error: BaseException) -> None:
        self._source.failed(error)

    @property
    def caught_up(self) -> bool:
        return self._source.caught_up

    def bind(self, name: str, directory: str | None) -> None:
        self._source.bind(name, directory)

    def start(self, follow: bool, wake: Callable[[], None]) -> None:
        self._source.start(follow, wake)

    def stop(self) -> None:
        self._source.stop()

    def describe(self) -> str:
        return self._source.describe()


class Stopwatch:
    """The time of one change: from when its rows are at hand until the first subscriber hears of it, which is when all
    views are right.
    """

    def __init__(self) -> None:
        self._began = 0.0
        self._running = False
        self.seconds = 0.0
        """Of all changes since `reset`"""

    def reset(self) -> None:
        """Forget what was measured."""
        self.seconds, self._running = 0.0, False

    def start(self) -> None:
        """A change begins."""
        self._began, self._running = time.perf_counter(), True

    def stop(self) -> None:
        """It is complete; only the first call after `start` counts."""
        if self._running:
            self.seconds += time.perf_counter() - self._began
            self._running = False


def slide(db: ev.Session, now: dt.datetime, watch: Stopwatch) -> None:
    """Let the clock, and with it the window, go on."""
    watch.start()
    db.advance(now)
    watch.stop()
