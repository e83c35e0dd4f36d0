"""`spark.read.format("everview")`, `readStream` and `writeStream`: views and tables through Spark's own API.

    everview.spark.register(spark)
    spark.read.format("everview").option("view", "revenue").load("state/")         # the contents, now or as of a time
    spark.readStream.format("everview").option("view", "revenue").load("state/")   # the changes, with _time and _diff
    orders.writeStream.format("everview").option("table", "orders").option("checkpointLocation", c).start("state/")

A reading task attaches to the state directory, beside its writer. The offsets of a stream are Everview's times; the
first batch is the contents of the view. The path is anything that `everview.connect` accepts, including object store
URIs.

A state directory has one writer, its session, so a Spark query delivers to an inbox instead: tasks write files into the
table's inbox, and the driver claims a name `batch-<number>` for all of them together, so a batch that Spark repeats
finds its name taken (`everview.io.inbox`). The session reads the files like any others: `db.source("orders",
everview.io.inbox("state/", "orders"))`.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import from_arrow_schema

from everview.errors import InputError
from everview.io.inbox import Inbox
from everview.language.relation import relation_of
from everview.session.changes.batch import with_times
from everview.session.view import View
from everview.spark.rows.frames import instants

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

START = -1
"""The offset before a stream's first batch."""


def register(spark: SparkSession) -> None:
    """Register `format("everview")` with a SparkSession."""
    spark.dataSource.register(Everview)


class Everview(DataSource):
    """The format; options: `path` (the state directory), `view` or `table`, `asOf` (a time, for reading once)."""

    @classmethod
    def name(cls) -> str:
        """The name in `format("everview")`."""
        return "everview"

    def _option(self, *names: str) -> str:
        for name in names:
            if self.options.get(name):
                return str(self.options[name])
        raise InputError("E_OPTION", f'format("everview") needs {names[0]}', f'add .option("{names[0]}", ...)')

    def schema(self) -> StructType:
        """The columns of the view, plus `_time` and `_diff` if the option `changes` is set. `readStream` needs that
        option, because Spark asks for the schema before it says whether it streams.
        """
        changes = str(self.options.get("changes", "false")).lower() == "true"
        with _Reading(self._option("path"), self._option("view", "table")) as view:
            found = view.to_arrow().slice(0, 0)
        if changes:
            found = with_times(found, np.array([], np.int64), np.array([], np.int64))
        return from_arrow_schema(instants(found).schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        """For `spark.read`."""
        at = self.options.get("asOf")
        return Contents(self._option("path"), self._option("view", "table"), None if at is None else int(at))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """For `spark.readStream`."""
        if "_diff" not in schema.fieldNames():
            raise InputError(
                "E_OPTION", "a stream of a view is a stream of its changes", 'add .option("changes", "true")'
            )
        return Changes(self._option("path"), self._option("view", "table"))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """For `frame.write`."""
        return Delivery(self._option("path"), self._option("table"), overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        """For `frame.writeStream`."""
        return StreamDelivery(self._option("path"), self._option("table"), overwrite)


# reading


class _Reading:
    """A view or table of a state directory, attached while it is read."""

    def __init__(self, path: str, name: str) -> None:
        self._path = path
        self._name = name

    def __enter__(self) -> Any:
        import everview

        self._session = everview.connect(self._path, read_only=True)
        return self._session[self._name]

    def __exit__(self, *exc: object) -> None:
        self._session.close()


class Contents(DataSourceReader):
    """Reads the contents, in one task."""

    def __init__(self, path: str, name: str, at: int | None) -> None:
        self._path, self._name, self._at = path, name, at

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows as record batches."""
        with _Reading(self._path, self._name) as view:
            table = view.to_arrow() if self._at is None else _view(view).as_of(self._at).to_arrow()
            yield from instants(table).to_batches(max_chunksize=65_536)


class Times(InputPartition):
    """The changes after one time and up to another."""

    def __init__(self, start: int, end: int) -> None:
        super().__init__(0)
        self.start, self.end = start, end


class Changes(DataSourceStreamReader):
    """Reads the changes, batch by batch."""

    def __init__(self, path: str, name: str) -> None:
        self._path, self._name = path, name

    def initialOffset(self) -> dict[str, int]:
        """The offset before the first batch."""
        return {"time": START}

    def latestOffset(self, start: dict[str, int] | None = None, limit: Any = None) -> dict[str, int]:
        """The writer's last complete time."""
        with _Reading(self._path, self._name) as view:
            return {"time": view._core.time}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """One task reads a batch."""
        return [Times(start["time"], end["time"])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The first batch is the contents at its end; later ones are the changes."""
        assert isinstance(partition, Times)
        with _Reading(self._path, self._name) as found:
            view = _view(found)
            if partition.start == START:
                columns, diffs = view.as_of(partition.end)._contents()
                times = np.full(len(diffs), partition.end)
            else:
                columns, times, diffs = view._changes(partition.start)
                kept = times <= partition.end
                columns, times, diffs = np.ascontiguousarray(columns[:, kept]), times[kept], diffs[kept]
            table = with_times(relation_of(view).codec.to_arrow(columns), times, diffs)
            yield from instants(table).to_batches(max_chunksize=65_536)

    def commit(self, end: dict[str, int]) -> None:
        """Nothing to do: the state directory keeps its own history."""


def _view(found: Any) -> View:
    if not isinstance(found, View):
        raise InputError(
            "E_OPTION",
            "a table has no history to stream or to go back in",
            "name a view; tables can be read as they are",
        )
    return found


# writing


class Part(WriterCommitMessage):
    """What one task wrote and has not delivered, and for which stream (if it is one)."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        context = TaskContext.get()
        self.stream = None if context is None else context.getLocalProperty("sql.streaming.queryId")


class Delivery(DataSourceArrowWriter):
    """Writes records into a table's inbox: tasks write files, the driver publishes them as a batch."""

    def __init__(self, path: str, table: str, overwrite: bool) -> None:
        if overwrite:
            raise InputError("E_OPTION", "a table's inbox can only be added to", 'use mode("append")')
        self._path, self._table = path, table
        Inbox(path, table)  # a place that cannot be opened is an error of the query's, not of its tasks

    @property
    def inbox(self) -> Inbox:
        """The inbox, opened on use because connections cannot be pickled."""
        return Inbox(self._path, self._table)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """In a task: write files under names of its own."""
        return Part(self.inbox.write(iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """In the driver, when all tasks are done."""
        self.inbox.deliver(uuid.uuid4().hex, _names(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """In the driver, when a task failed for good."""
        self.inbox.discard(_names(messages))


class StreamDelivery(DataSourceStreamArrowWriter):
    """The same for streams, whose batches are numbered."""

    def __init__(self, path: str, table: str, overwrite: bool) -> None:
        self._delivery = Delivery(path, table, overwrite)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """In a task: write files."""
        return self._delivery.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """In the driver: make the batch known, once."""
        stream = next((m.stream for m in messages if isinstance(m, Part) and m.stream), "stream")
        self._delivery.inbox.deliver(f"{stream}-{batchId:020d}", _names(messages))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """In the driver, when a task failed for good."""
        self._delivery.abort(messages)


def _names(messages: list[WriterCommitMessage | None]) -> list[str]:
    return [name for m in messages if isinstance(m, Part) for name in m.names]
