"""The few calls of a SparkContext that the runtime makes, run in this process: for tests of everything around them (the
store, catching up, retries) that would take minutes with a JVM. What Spark itself does is tested with Spark.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

import everview as ev
from everview.spark.rows.frames import FrameRows
from everview.spark.workers import state as host


class _Broadcast:
    def __init__(self, value: Any) -> None:
        self.value = value

    def destroy(self) -> None:
        pass


class _Rows:
    def __init__(self, context: Context, rows: Iterable[Any], task: Callable[..., Any] | None = None) -> None:
        self.context, self.rows, self.task = context, list(rows), task

    def mapPartitions(self, task: Callable[..., Any]) -> _Rows:
        return _Rows(self.context, self.rows, task)

    def collect(self) -> list[Any]:
        assert self.task is not None
        return self.context.run(lambda: list(self.task(iter(self.rows))))  # type: ignore[misc]


class Context:
    """`workers` processes' worth of memory, used in turn; `before` may fail a task, or run one twice."""

    defaultParallelism = 1
    master = "in process"

    def __init__(self, workers: int = 2) -> None:
        self._memories: list[dict[str, Any]] = [{} for _ in range(workers)]
        self._turn = 0
        self.attempts: Callable[[int], int] = lambda job: 1
        self.jobs = 0

    def parallelize(self, rows: Iterable[Any], parts: int) -> _Rows:
        return _Rows(self, rows)

    def getConf(self) -> dict[str, str]:
        return {}

    def broadcast(self, value: Any) -> _Broadcast:
        return _Broadcast(value)

    def run(self, task: Callable[[], list[Any]]) -> list[Any]:
        """Run a task on the next worker, as often as `attempts` says; the last attempt's answer counts."""
        self.jobs += 1
        found: list[Any] = []
        for _ in range(self.attempts(self.jobs)):
            self._turn = (self._turn + 1) % len(self._memories)
            before, host._hosts = host._hosts, self._memories[self._turn]
            try:
                found = task()
            except Exception:
                raise
            except BaseException:  # what cuts the driver off would not reach a worker, or end it
                self._memories[self._turn] = {}
                raise
            finally:
                host._hosts = before
        return found


def session(workers: int = 2) -> Any:
    """Something like a SparkSession."""
    return SimpleNamespace(sparkContext=Context(workers))


class Frame:
    """Something like a DataFrame: Arrow tables, one for each partition. It can be coded and not be fetched."""

    def __init__(self, *partitions: pa.Table) -> None:
        self._partitions = partitions
        self.columns = partitions[0].column_names

    def mapInArrow(self, task: Callable[..., Any], schema: str) -> SimpleNamespace:
        batches = [batch for part in self._partitions for batch in task(part.to_batches())]
        answers = [(answer,) for batch in batches for answer in batch[0].to_pylist()]
        return SimpleNamespace(collect=lambda: answers)


class Rows(FrameRows):
    """The rows of such a frame."""

    large = True

    def __init__(self, *partitions: pa.Table) -> None:
        super().__init__(Frame(*partitions))  # type: ignore[arg-type]


def parts(records: list[dict[str, Any]], schema: pa.Schema, count: int = 3) -> list[pa.Table]:
    """Records in several tables."""
    cuts = [len(records) * i // count for i in range(count + 1)]
    return [pa.Table.from_pylist(records[a:b], schema) for a, b in itertools.pairwise(cuts)]


class Script(ev.io.Source):
    """Chunks that are put in by hand."""

    by_rows = False

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self.waiting: list[Any] = []

    def schema(self) -> pa.Schema:
        return self._schema

    def open(self, marks: Any, wanted: Any, snapshots: bool) -> None:
        self.snapshots = snapshots

    def poll(self, limit: int | None) -> ev.io.Chunk | None:
        return ev.io.Chunk("here", self.waiting[0], {}, snapshot=self.snapshots) if self.waiting else None

    def committed(self, chunk: ev.io.Chunk) -> None:
        self.waiting.pop(0)
