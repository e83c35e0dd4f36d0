"""Spark streams as sources: each micro-batch of Structured Streaming is one transaction.

Spark calls `foreachBatch` in one of its threads, with a micro-batch and its number. A small batch is fetched there, and
the thread then waits until the run loop has committed it: one batch is in flight, so Spark never runs ahead of the
views. A batch that cannot be accepted waits until the run has ended.

Exactly-once delivery keeps two logs in step. Spark writes the offsets of a batch to its checkpoint, calls us, and then
records the batch as done. We commit rows and batch number in one transaction. If the process dies between our commit
and Spark's record, Spark sends the same batch again under the same number, and it is skipped. The checkpoint lives in
the state directory. Its identity is stored as an offset too, because batch numbers mean nothing in another checkpoint:
a deleted or exchanged checkpoint is an error rather than a silent gap. A socket source cannot replay, so its checkpoint
lasts for one run; rows in flight when a run ends are lost, as Spark documents.
"""

from __future__ import annotations

import json
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from everview.errors import EverviewError, InputError
from everview.io.source import Chunk, Distant, Source, Wanted
from everview.spark.rows.frames import FrameRows, first_line, frame_schema, with_file_order
from everview.store.folder_names import folder_of
from everview.store.hdfs import SCHEMES, HdfsFiles
from everview.store.locations import open_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery


class Stopped(Exception):
    """Ends a micro-batch that the pipeline no longer accepts, so that Spark sends it again.

    Spark logs a page for a failed batch, unless the query is ending and the failure looks like an interrupted Java
    call. This exception imitates one in its text.
    """

    def __init__(self, number: int) -> None:
        super().__init__(
            f"batch {number} was not taken; py4j.protocol.Py4JJavaError: An error occurred while calling everview.\n"
            ": java.lang.InterruptedException: the pipeline has stopped"
        )


class Stream(Source):
    """A streaming DataFrame."""

    by_rows = False

    def __init__(self, frame: DataFrame) -> None:
        self._frame = frame
        self._name = "stream"
        self._home: tempfile.TemporaryDirectory[str] | None = None
        self._checkpoint = ""
        self._query: StreamingQuery | None = None
        self._query_id = ""
        self._last = -1
        self._known = False
        self._counted = -1  # the last batch that was looked at for rows that Spark dropped
        self._stopping = False
        self._lock = threading.Condition()
        self._offered: tuple[int, pa.Table | Distant | EverviewError] | None = None
        self._taken = False
        self._wake: Callable[[], None] = lambda: None

    def describe(self) -> str:
        return f"stream {self._name}({', '.join(self._frame.columns)})"

    def bind(self, name: str, directory: str | None) -> None:
        self._name = name
        if directory is None:
            self._home = tempfile.TemporaryDirectory(prefix="everview-stream-")
            directory = self._home.name
        self._checkpoint = f"{directory}/{folder_of(name)}"

    def schema(self) -> pa.Schema:
        return frame_schema(self._frame)

    def open(self, marks: Mapping[str, str], wanted: Wanted | None, snapshots: bool) -> None:
        if snapshots:
            raise InputError(
                "E_MODE", f"{self.describe()} cannot be read as snapshots", 'use mode="append", "upsert" or "changes"'
            )
        self._last = int(marks.get("batch", -1))
        self._query_id = marks.get("query", "")
        self._known = bool(self._query_id)

    # the life of a query

    def start(self, follow: bool, wake: Callable[[], None]) -> None:
        if self._forgetful:
            self._begin_anew()
        self._check_checkpoint()
        self._wake = wake
        self._stopping, self._offered, self._taken = False, None, False
        where = for_spark(self._checkpoint)
        frame = with_file_order(self._frame)
        writer = frame.writeStream.foreachBatch(self._batch).option("checkpointLocation", where)
        with self._lock:  # no batch is looked at before the query's identity is known
            try:
                self._query = (writer if follow else writer.trigger(availableNow=True)).start()
            except Exception as error:
                raise self._not_started(error) from error
            self._query_id = str(self._query.id)

    @property
    def _forgetful(self) -> bool:
        """Whether the stream cannot replay. Spark's socket source restarts its line count with each connection; with an
        old checkpoint it would skip as many lines as it had read before.
        """
        plan: Any = self._frame._jdf.queryExecution().logical()
        return "TextSocket" in str(plan.toString())

    def _begin_anew(self) -> None:
        """Discard batch numbers and checkpoints of earlier runs."""
        self._home = tempfile.TemporaryDirectory(prefix="everview-stream-")
        self._checkpoint = self._home.name
        self._last, self._known = -1, False

    def _not_started(self, error: Exception) -> InputError:
        if "ClassNotFound" in str(error) or "No FileSystem for scheme" in str(error):
            hint = "add Hadoop's module for that store to Spark (for S3: hadoop-aws, in Hadoop's own version)"
        elif "STREAMING_OUTPUT_MODE" in str(error):
            hint = "give the stream's rows as they are, and aggregate them in a view, which needs no watermark"
        else:
            hint = "correct its cause and run again"
        return InputError("E_STREAM", f"source {self._name!r}: the stream did not start: {first_line(error)}", hint)

    def _check_checkpoint(self) -> None:
        """Reject a checkpoint and offsets that do not belong together."""
        found, commits = _checkpoint(self._checkpoint)
        if self._known and found != self._query_id:
            what = "is gone" if found is None else "is another one"
            hint = "put the checkpoint back, or start over with an empty state directory"
        elif not self._known and commits:
            what = "is further than the state, which knows nothing of this stream"
            hint = "put the state directory back, or delete the checkpoint to read the stream from its start"
        else:
            return
        raise InputError("E_CHECKPOINT", f"source {self._name!r}: the checkpoint {self._checkpoint} {what}", hint)

    def stop(self) -> None:
        query = self._query
        if query is None:
            return
        ending = threading.Thread(target=query.stop, name="everview stream", daemon=True)  # until its thread has ended
        ending.start()
        while query.isActive and ending.is_alive():  # until Spark no longer treats what follows as a failure
            time.sleep(0.01)
        with self._lock:
            self._stopping = True
            self._lock.notify_all()
        ending.join()
        self._count_dropped()
        self._query = None

    @property
    def caught_up(self) -> bool:
        query = self._query
        return query is None or (not query.isActive and self._offered is None)

    # batches: offered by Spark's thread, taken by the run loop

    def _count_dropped(self) -> None:
        """Count the rows that Spark dropped from the last batch because of a watermark, so that losses are visible."""
        progress = None if self._query is None else self._query.lastProgress
        if progress is not None and progress["batchId"] > self._counted:
            self._counted = progress["batchId"]
            self.dropped += sum(state["numRowsDroppedByWatermark"] for state in progress["stateOperators"])

    def _batch(self, frame: DataFrame, number: int) -> None:
        self._count_dropped()
        if number <= self._last:
            return
        rows = _near_or_far(frame)
        if isinstance(rows, pa.Table) and not rows.num_rows and self._known:
            return
        if not self._offer(number, rows):
            raise Stopped(number)
        self._known = True

    def _offer(self, number: int, rows: pa.Table | Distant | EverviewError) -> bool:
        """Wait until the run loop has accepted a batch or ended; returns whether it was accepted."""
        with self._lock:
            self._offered, self._taken = (number, rows), False
            self._wake()
            self._lock.wait_for(lambda: self._taken or self._stopping)
            self._offered = None
            return self._taken

    def poll(self, limit: int | None) -> Chunk | None:
        with self._lock:
            offered = None if self._taken else self._offered
        if offered is not None:
            number, rows = offered
            if isinstance(rows, EverviewError):
                raise InputError(rows.code, f"source {self._name!r}: {rows.message}", rows.hint) from rows
            return Chunk(f"batch {number}", rows, {"batch": str(number), "query": self._query_id})
        query = self._query
        if query is not None and not query.isActive and (error := query.exception()) is not None:
            raise InputError(
                "E_STREAM",
                f"source {self._name!r}: the stream ended: {first_line(error)}",
                "correct its cause and run again: it goes on from the last complete batch",
            )
        return None

    def committed(self, chunk: Chunk) -> None:
        self._last = int(chunk.marks["batch"])
        with self._lock:
            self._taken = True
            self._lock.notify_all()


def _near_or_far(frame: DataFrame) -> pa.Table | Distant | EverviewError:
    """The rows of a batch, fetched if they are few; or the error, which the run loop handles."""
    rows = FrameRows(frame)
    try:
        return rows if rows.large else rows.fetch()
    except EverviewError as error:
        return error


def for_spark(path: str) -> str:
    """A location in the form that Hadoop, and so Spark, expects.

    >>> for_spark("s3://bucket/state/streams/t"), for_spark("/state")
    ('s3a://bucket/state/streams/t', '/state')
    """
    if path.startswith("s3://"):
        return f"s3a://{path[5:]}"
    return HdfsFiles(path).for_hadoop() if path.split("://")[0] in SCHEMES else path


def _checkpoint(path: str) -> tuple[str | None, bool]:
    """(the identity of the query a checkpoint belongs to, whether it has complete batches)."""
    files = open_files(path)
    try:
        identity = str(json.loads(files.read("metadata"))["id"])
    except FileNotFoundError:
        return None, False
    return identity, any(name.isdecimal() for name in files.list("commits"))
