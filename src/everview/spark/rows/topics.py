"""Kafka topics as sinks, through Spark's connector.

Each change is a record: its value is the row as JSON with `_time` and `_diff`, its key (if key columns are given) those
columns as JSON, so that the changes of a key stay in order. Spark alone writes to Kafka at least once: a crash may
leave part of a time in the topic, and a retried task starts over. So every record carries a header with the identity of
the sink, its time, its number within the time, and the count:

    everview: <identity of view and sink> <time> <number> <of>

From these headers the sink determines how far the topic got: the last time if all its records are there, otherwise the
time before. Of an incomplete time it writes only the missing records, after a crash as well as after a failed task: a
second attempt by Spark refuses to write (`only_once`), so the job fails, the topic is inspected, and the rest is sent.
One case remains: an attempt that Spark has abandoned but that still runs (its executor was cut off) may write records
after the inspection, and so twice. A consumer that drops (time, number) pairs it has seen has each change exactly once
even then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from everview.codes.type_declarations import arrow_field
from everview.errors import InputError, did_you_mean
from everview.io.changes import DIFF, TIME
from everview.io.sink import Sink, SinkMode
from everview.io.validation import text_option
from everview.session.changes.batch import Batch
from everview.spark.rows.frames import check_session, first_line, instants, to_frame
from everview.types import INT, DataType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HEADER = "everview"
NUMBER = "_number"

PACKAGE = "org.apache.spark:spark-sql-kafka-0-10_2.13, in Spark's version (spark.jars.packages)"

TRIES = 3
"""Attempts at sending a time, each without the records already there."""

_OURS = f"split(cast(element_at(filter(headers, h -> h.key = '{HEADER}'), -1).value as string), ' ')"
"""The header's parts, as SQL; NULL for a record that has none."""


class Topic(Sink):
    """A topic with the changes of a view."""

    def __init__(
        self, spark: SparkSession, servers: str, topic: str, key: Sequence[str], options: Mapping[str, str]
    ) -> None:
        check_session(spark)
        for name, text in {"servers": servers, "topic": topic, **options}.items():
            text_option(name, text, f'{name}="..."')
        self._spark = spark
        self._topic = topic
        self._key = tuple(key)
        self._options = {"kafka.bootstrap.servers": servers, **options}
        self._identity = ""
        self._columns: dict[str, DataType] = {}
        self._part: tuple[int, frozenset[int]] = (-1, frozenset())
        """A time of which the topic holds only some records, and their numbers"""
        self._unsure = False
        """Whether records were sent and it is unknown how many arrived"""

    def describe(self) -> str:
        return f"kafka {self._topic}"

    def open(self, identity: str, columns: dict[str, DataType], mode: SinkMode) -> int | None:
        if mode == "snapshot":
            raise InputError("E_MODE", f"{self.describe()}: a topic can only be added to", 'use mode="changes"')
        for name in self._key:
            if name not in columns:
                raise InputError("E_COLUMN", f"{self.describe()}: no column {name!r}", did_you_mean(name, columns))
        self._identity, self._columns = identity, columns
        try:
            return self._position()
        except InputError:
            raise
        except Exception as error:
            if "UnknownTopicOrPartition" in str(error):
                return None  # it comes into being when it is written
            raise InputError(
                "E_SINK", f"{self.describe()} cannot be read: {first_line(error)}", f"Spark needs the package {PACKAGE}"
            ) from error

    def _position(self) -> int | None:
        """The last time whose records are all in the topic; None if it is empty."""
        found = self._numbers()
        whose = [row[0] for row in found.select("identity").distinct().limit(2).collect()]
        if not whose:
            return None
        if whose != [self._identity]:
            raise InputError(
                "E_SINK",
                f"{self.describe()} holds records that this pipeline did not write",
                "give this view a topic of its own",
            )
        time: int = found.selectExpr("max(time)").collect()[0][0]
        numbers = {row[0]: int(row[1]) for row in found.filter(f"time = {time}").select("n", "size").collect()}
        if len(numbers) == next(iter(numbers.values())):
            return time
        self._part = (time, frozenset(numbers))
        return time - 1

    def _numbers(self) -> DataFrame:
        """Sink identity, time, number and count of records."""
        return self._records().selectExpr(
            "ours[0] as identity", "cast(ours[1] as long) as time", "cast(ours[2] as long) as n", "ours[3] as size"
        )

    def _records(self) -> DataFrame:
        """All records, with the parsed header as `ours`."""
        reader = self._spark.read.format("kafka").options(**self._options)
        reader = reader.options(subscribe=self._topic, startingOffsets="earliest", includeHeaders="true")
        return reader.load().selectExpr("value", f"{_OURS} as ours")

    def write(self, batch: Batch) -> None:
        order = np.lexsort(batch._columns[::-1]) if len(batch._columns) else np.arange(len(batch))
        table = batch.to_arrow().take(order)  # the same numbers for the same rows, also after a restart
        table = table.append_column(NUMBER, pa.array(np.arange(len(batch), dtype=np.int64)))
        for attempt in range(1, TRIES + 1):
            there = self._there(batch.time)
            rest = table.filter(~np.isin(np.arange(len(batch)), list(there))) if there else table
            self._unsure = True
            try:
                if len(rest):
                    self._send(rest, len(batch))
                break
            except Exception as error:
                if attempt == TRIES:
                    raise InputError(
                        "E_SINK",
                        f"{self.describe()} cannot be written: {first_line(error)}",
                        "correct its cause and run again: what the topic holds by then is not sent twice",
                    ) from error
        self._part, self._unsure = (-1, frozenset()), False

    def _there(self, time: int) -> frozenset[int]:
        """The numbers of a time's records in the topic."""
        if self._unsure:
            found = self._numbers().filter(f"time = {time}").select("n").collect()
            self._part = (time, frozenset(row[0] for row in found))
        return self._part[1] if self._part[0] == time else frozenset()

    def _send(self, table: pa.Table, of: int) -> None:
        columns = ", ".join(f"`{name}`" for name in (*self._columns, TIME, DIFF))
        keys = ", ".join(f"`{name}`" for name in self._key)
        text = "map('ignoreNullFields', 'false')"
        frame = to_frame(self._spark, table).coalesce(1)
        frame = frame.mapInArrow(only_once, frame.schema)
        header = f"concat_ws(' ', '{self._identity}', `{TIME}`, `{NUMBER}`, '{of}')"
        sent = frame.selectExpr(
            f"to_json(struct({keys}), {text}) as key" if keys else "cast(null as string) as key",
            f"to_json(struct({columns}), {text}) as value",
            f"array(named_struct('key', '{HEADER}', 'value', cast({header} as binary))) as headers",
        )
        sent.write.format("kafka").options(**self._options, topic=self._topic).option("includeHeaders", "true").save()

    def held(self) -> pa.Table:
        from pyspark.sql import functions
        from pyspark.sql.pandas.types import from_arrow_schema

        columns = {**self._columns, TIME: INT, DIFF: INT}
        schema = instants(pa.schema([arrow_field(n, t) for n, t in columns.items()]).empty_table()).schema
        records = self._records().selectExpr("cast(value as string) as value", "ours[1] as t", "ours[2] as n")
        once = records.dropDuplicates(["t", "n"])
        table: pa.Table = (
            once.select(functions.from_json("value", from_arrow_schema(schema)).alias("row")).select("row.*").toArrow()
        )
        return table


def only_once(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For `mapInArrow`: pass rows in a task's first attempt, and fail in later ones, which would send them again."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is not None and context.attemptNumber():
        raise RuntimeError("the task that sent records failed, and what it has sent is to be looked at first")
    yield from batches
