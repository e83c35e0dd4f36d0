"""Kafka topics as sinks, through Spark's connector.

Each change is a record: its value is the row as JSON with `_time` and `_diff`, its key (if columns are named) those
columns as JSON, so that one key's changes stay in order. Spark writes to Kafka at least once: a crash may leave a part
of a time in the topic, and a task that is tried again may write a record twice. So every record carries a header that
says whose it is, its time, its number within the time and how many there are:

    everview: <identity of view and sink> <time> <number> <of>

From these the sink tells how far the topic got: the last time, if all its records are there, else the time before; and
of a time that is there in part, it writes only the records that are missing. A consumer that drops a (time, number) it
has seen has each change exactly once, whatever happened to the writer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from everview.codes.declare import arrow_field
from everview.errors import InputError, did_you_mean
from everview.io.changes import DIFF, TIME
from everview.io.sink import Sink, SinkMode
from everview.spark.frames import first_line, instants, to_frame
from everview.types import INT, DataType
from everview.view import Batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HEADER = "everview"
NUMBER = "_number"

PACKAGE = "org.apache.spark:spark-sql-kafka-0-10_2.13, in Spark's version (spark.jars.packages)"

_OURS = f"split(cast(element_at(filter(headers, h -> h.key = '{HEADER}'), -1).value as string), ' ')"
"""The header's parts, as SQL; NULL for a record that has none."""


class Topic(Sink):
    """A topic that holds a view's changes."""

    def __init__(
        self, spark: SparkSession, servers: str, topic: str, key: Sequence[str], options: Mapping[str, str]
    ) -> None:
        self._spark = spark
        self._topic = topic
        self._key = tuple(key)
        self._options = {"kafka.bootstrap.servers": servers, **options}
        self._identity = ""
        self._columns: dict[str, DataType] = {}
        self._part: tuple[int, frozenset[int]] = (-1, frozenset())
        """A time of which the topic holds only some records, and their numbers"""

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
        """The last time of which the topic holds everything, None if it is empty."""
        found = self._records().selectExpr(
            "ours[0] as identity", "cast(ours[1] as long) as time", "cast(ours[2] as long) as n", "ours[3] as size"
        )
        whose = [row[0] for row in found.select("identity").distinct().limit(2).collect()]
        if not whose:
            return None
        if whose != [self._identity]:
            raise InputError(
                "E_SINK", f"{self.describe()} holds records of somebody else", "give this view a topic of its own"
            )
        time: int = found.selectExpr("max(time)").collect()[0][0]
        numbers = {row[0]: int(row[1]) for row in found.filter(f"time = {time}").select("n", "size").collect()}
        if len(numbers) == next(iter(numbers.values())):
            return time
        self._part = (time, frozenset(numbers))
        return time - 1

    def _records(self) -> DataFrame:
        """All records, with the parts of our header as `ours`."""
        reader = self._spark.read.format("kafka").options(**self._options)
        reader = reader.options(subscribe=self._topic, startingOffsets="earliest", includeHeaders="true")
        return reader.load().selectExpr("value", f"{_OURS} as ours")

    def write(self, batch: Batch) -> None:
        order = np.lexsort(batch._columns[::-1]) if len(batch._columns) else np.arange(len(batch))
        table = batch.to_arrow().take(order)  # the same numbers for the same rows, also after a restart
        table = table.append_column(NUMBER, pa.array(np.arange(len(batch), dtype=np.int64)))
        time, present = self._part
        if batch.time == time:
            table = table.filter(~np.isin(np.arange(len(batch)), list(present)))
        self._send(table, len(batch))
        self._part = (-1, frozenset())

    def _send(self, table: pa.Table, of: int) -> None:
        columns = ", ".join(f"`{name}`" for name in (*self._columns, TIME, DIFF))
        keys = ", ".join(f"`{name}`" for name in self._key)
        text = "map('ignoreNullFields', 'false')"
        frame = to_frame(self._spark, table).coalesce(1)
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
