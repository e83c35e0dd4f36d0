"""The few calls of a SparkContext that the runtime makes, run in this process: for tests of everything around them (the
store, catching up, retries) that would take minutes with a JVM. What Spark itself does is tested with Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

from everview.spark import host


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
        return self.context.run(lambda: list(self.task(iter(self.rows))))


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
            finally:
                host._hosts = before
        return found


def session(workers: int = 2) -> Any:
    """Something like a SparkSession."""
    return SimpleNamespace(sparkContext=Context(workers))
