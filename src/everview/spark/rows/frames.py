"""Spark DataFrames as sources.

A static DataFrame is one chunk: with `mode="append"` it is read once; with `mode="snapshot"` it is re-evaluated and
compared with the known rows. A function that creates the DataFrame, such as `lambda: spark.read.parquet(path)`, also
picks up new files; a DataFrame object keeps the file list from its creation. Rows of a small DataFrame are collected on
the driver as Arrow; those of a large one are encoded by Spark tasks (`encode`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from everview.errors import InputError
from everview.io.source import Chunk, Distant, Source, Wanted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def frame_schema(frame: DataFrame) -> pa.Schema:
    """The columns of a DataFrame as an Arrow schema."""
    return pa.schema([_arrow_field(each) for each in frame.schema.fields])


def _arrow_field(column: Any) -> pa.Field:
    from pyspark.errors import PySparkTypeError
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    try:
        found: pa.Schema = to_arrow_schema(StructType([column]), timezone="UTC")
    except PySparkTypeError:
        kind = column.dataType.simpleString()
        hint = "cast it, to a string say, or leave it out"
        raise InputError("E_SCHEMA", f"column {column.name!r}: Spark's {kind} is not a column type", hint) from None
    return found.field(0)


def check_session(spark: Any) -> None:
    """Reject values that are not a SparkSession; Spark Connect sessions are accepted."""
    if not callable(getattr(type(spark), "createDataFrame", None)) or not hasattr(type(spark), "read"):
        raise InputError(
            "E_SPARK", f"a {type(spark).__name__} is not a SparkSession", "give one: SparkSession.builder ..."
        )


def instants(table: pa.Table) -> pa.Table:
    """A table whose timestamps, which are UTC in Everview, are Spark's TIMESTAMP rather than TIMESTAMP_NTZ."""
    for i, column in enumerate(table.schema):
        if pa.types.is_timestamp(column.type):
            instant = pa.timestamp("us", "UTC")
            table = table.set_column(i, column.with_type(instant), table[i].cast(instant))
    return table


def to_frame(spark: SparkSession, table: pa.Table) -> DataFrame:
    """An Arrow table as a DataFrame."""
    return spark.createDataFrame(instants(table))


def first_line(error: BaseException) -> str:
    """The message of a Spark error, without the Java stack trace and Py4J's preamble.

    >>> first_line(ValueError("An error occurred while calling o69.start.\\n: java.io.IOException: no\\n\\tat x"))
    'java.io.IOException: no'
    """
    lines = (line.strip().removeprefix(": ") for line in str(error).splitlines())
    said = (line for line in lines if line and not line.startswith("An error occurred while calling "))
    return next(said, type(error).__name__)


def unreadable(what: str, error: BaseException) -> InputError:
    """The error for rows that Spark could not compute."""
    return InputError(
        "E_STREAM",
        f"{what} cannot be read: {first_line(error)}",
        "correct its cause and run again: it goes on after the last complete step",
    )


LARGE_BYTES = 8 << 20
"""Size by Spark's estimate from which the rows of a DataFrame stay on the workers."""


FILE_ORDER = ("everview: file's time", "everview: file", "everview: place in it")
"""Columns added to a stream of files that determine the order of its rows."""


def with_file_order(frame: DataFrame) -> DataFrame:
    """The stream with the columns `FILE_ORDER`, if its rows come from files and Spark can tell which. Aggregates, joins
    and other stateful operators lose that information.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql.functions import col

    plan: Any = frame._jdf.queryExecution().analyzed()
    if any(word in str(plan.toString()) for word in KEEP_STATE):
        return frame
    fields = ("file_modification_time", "file_path", "file_block_start")
    try:
        return frame.select(
            "*", *(col(f"_metadata.{f}").alias(name) for f, name in zip(fields, FILE_ORDER, strict=True))
        )
    except PySparkException:
        return frame


KEEP_STATE = ("Aggregate", "Join", "Deduplicate", "GroupState", "MapGroups", "Union")
"""Plan nodes above which the file of a row is unknown, or whose state would get other columns."""


class FrameRows(Distant):
    """The rows of a DataFrame. With `FILE_ORDER` they are ordered by file time and name; without it they come in
    Spark's order, large files first.
    """

    def __init__(self, frame: DataFrame) -> None:
        self._given = frame
        self._by_file = FILE_ORDER[0] in frame.columns
        self.frame = frame.drop(*FILE_ORDER) if self._by_file else frame

    def in_order(self) -> DataFrame:
        """The rows, ordered, for consumers that depend on the order."""
        from pyspark.sql.functions import monotonically_increasing_id

        if not self._by_file:
            return self.frame
        row = "everview: row"  # the place in a task's rows: those of one piece of a file are in one task
        found = self._given.withColumn(row, monotonically_increasing_id()).sort(*FILE_ORDER, row)
        return found.drop(*FILE_ORDER, row)

    @property
    def large(self) -> bool:
        """Whether to leave the rows on the workers. Spark reports a very large size if it has no estimate, for example
        for Kafka.
        """
        plan: Any = self.frame._jdf.queryExecution().optimizedPlan()
        return int(str(plan.stats().sizeInBytes())) > LARGE_BYTES

    def fetch(self) -> pa.Table:
        try:
            table: pa.Table = self._given.toArrow()
        except Exception as error:
            raise unreadable(f"DataFrame({', '.join(self.frame.columns)})", error) from error
        if not self._by_file:
            return table
        if pc.count_distinct(table[FILE_ORDER[1]]).as_py() > 1:
            place = pa.table({**{n: table[n] for n in FILE_ORDER}, "row": pa.array(np.arange(len(table)))})
            table = table.take(pc.sort_indices(place, [(name, "ascending") for name in place.column_names]))
        return table.drop_columns(list(FILE_ORDER))


class Frame(Source):
    """A static DataFrame."""

    by_rows = False

    def __init__(self, frame: DataFrame) -> None:
        self._frame = frame
        self._taken = False
        self._snapshots = False

    def describe(self) -> str:
        return f"DataFrame({', '.join(self._frame.columns)})"

    def schema(self) -> pa.Schema:
        return frame_schema(self._frame)

    def open(self, marks: Mapping[str, str], wanted: Wanted | None, snapshots: bool) -> None:
        self._taken = "taken" in marks
        self._snapshots = snapshots

    def poll(self, limit: int | None) -> Chunk | None:
        if self._taken and not self._snapshots:
            return None
        self._taken = True
        marks = {} if self._snapshots else {"taken": "1"}
        return Chunk(self.describe(), FrameRows(self._frame), marks, snapshot=self._snapshots)
