"""Sinks through Spark's DataFrame writers: databases by JDBC, Delta tables.

The position of the sink is read from the table itself, as `max(_time)`. This requires the changes of one time to appear
atomically: they are written as one partition, which the JDBC writer turns into one database transaction and Delta into
one version. Delta also receives the time as `txnVersion` and skips versions it already has.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from everview.errors import InputError
from everview.io.changes import DIFF, TIME
from everview.io.sink import Sink, SinkMode
from everview.io.validation import text_option
from everview.session.changes.batch import Batch
from everview.spark.rows.frames import check_session, first_line, to_frame
from everview.types import DataType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ABSENT = re.compile(r"not exist|not found|doesn't exist|no such table|unknown table|not a Delta table", re.IGNORECASE)
"""Database messages for a missing table."""


class Writer(Sink):
    """A table behind one of Spark's formats."""

    def __init__(self, spark: SparkSession, format: str, options: Mapping[str, str]) -> None:
        check_session(spark)
        for name, text in options.items():
            text_option(name, text, f'{name}="..."')
        self._spark = spark
        self._format = format
        self._options = dict(options)
        self._identity = ""

    def describe(self) -> str:
        return f"{self._format} {self._options.get('dbtable') or self._options.get('path')}"

    def open(self, identity: str, columns: dict[str, DataType], mode: SinkMode) -> int | None:
        self._identity = identity
        if mode == "snapshot":
            return None
        found = self._read()
        if found is None:
            return None
        names = {name.lower() for name in found.columns}
        if names != {name.lower() for name in (*columns, TIME, DIFF)}:
            raise InputError(
                "E_SINK",
                f"{self.describe()} has columns ({', '.join(found.columns)}), "
                f"not ({', '.join([*columns, TIME, DIFF])})",
                "give another table, or drop this one to start over",
            )
        latest = found.selectExpr(f"max(`{TIME}`)").collect()[0][0]
        return None if latest is None else int(latest)

    def _read(self) -> DataFrame | None:
        """The table; None if it does not exist. Any other failure is an error: with an unknown position rows would be
        written twice.
        """
        try:
            return self._spark.read.format(self._format).options(**self._options).load()
        except Exception as error:
            if _ABSENT.search(str(error)):
                return None
            raise InputError(
                "E_SINK", f"{self.describe()} cannot be read: {first_line(error)}", "is its driver installed?"
            ) from error

    def write(self, batch: Batch) -> None:
        once = {"txnAppId": self._identity, "txnVersion": str(batch.time)} if self._format == "delta" else {}
        self._save(batch.to_arrow(), "append", once)

    def replace(self, rows: pa.Table, time: int) -> None:
        self._save(rows, "overwrite", {})

    def _save(self, table: pa.Table, mode: str, more: dict[str, Any]) -> None:
        frame = to_frame(self._spark, table).coalesce(1)
        frame.write.format(self._format).mode(mode).options(**self._options, **more).save()

    def held(self) -> pa.Table:
        found = self._read()
        assert found is not None
        table: pa.Table = found.toArrow()
        return table
