"""A Spark whose tasks run beside the driver, as threads: for tests of gangs that would take minutes with a JVM.

Every thread has the memory of a Python worker of its own, the connections between them are the real ones. A task that
ends in peace leaves its memory to the next, as Spark's workers do; one that fails takes it along, and its job with it,
as in local mode. `die` is how a user's function ends the worker that it runs in.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

from everview.spark.workers import tasks
from everview.spark.workers.state import WorkerShards, worker_shards

_here = threading.local()

Memory = dict[str, WorkerShards]


def _worker_shards(root: str) -> WorkerShards:
    """The shards of the worker that this thread is."""
    memory: Memory | None = getattr(_here, "memory", None)
    if memory is None:
        return worker_shards(root)
    if root not in memory:
        memory[root] = WorkerShards(root)
    return memory[root]


tasks.worker_shards = _worker_shards  # type: ignore[attr-defined]


class Died(BaseException):
    """The worker is gone."""


def die() -> None:
    """End the worker that calls this."""
    raise Died


class _Tasks:
    def __init__(self, context: GangContext, parts: list[list[Any]], task: Callable[..., Any] | None = None) -> None:
        self._context, self._parts, self._task = context, parts, task

    def mapPartitions(self, task: Callable[..., Any]) -> _Tasks:
        return _Tasks(self._context, self._parts, task)

    def collect(self) -> list[Any]:
        assert self._task is not None
        return self._context.run(self._task, self._parts)


class GangContext:
    """A SparkContext with so many slots."""

    beside = True
    master = "local[in process]"

    def __init__(self, slots: int) -> None:
        self.defaultParallelism = slots
        self.jobs = 0
        self.running = 0
        self.busy: list[Memory] = []
        """the memories of workers that have a task"""
        self._idle: list[Memory] = []
        self._change = threading.Condition()

    def resize(self, slots: int) -> None:
        """Have so many slots from now on."""
        with self._change:
            self.defaultParallelism = slots
            self._change.notify_all()

    def parallelize(self, rows: Iterable[Any], parts: int) -> _Tasks:
        given = list(rows)
        return _Tasks(self, [given[part::parts] for part in range(parts)])

    def broadcast(self, value: Any) -> Any:
        return SimpleNamespace(value=value, destroy=lambda: None)

    def getConf(self) -> dict[str, str]:
        return {"spark.driver.host": "127.0.0.1"}

    def addJobTag(self, tag: str) -> None:
        pass

    def cancelJobsWithTag(self, tag: str) -> None:
        """Tasks that nobody waits for end by themselves."""

    def run(self, task: Callable[..., Any], parts: list[list[Any]]) -> list[Any]:
        """Run a job's tasks, each in a thread; the first that fails fails the job."""
        self.jobs += 1
        found: list[list[Any]] = [[] for _ in parts]
        failed = threading.Event()
        over = threading.Semaphore(0)

        def one(number: int) -> None:
            _here.memory = memory = self._begin()
            alive = False
            try:
                found[number] = list(task(iter(parts[number])))
                alive = True
            except BaseException:
                failed.set()
            finally:
                _here.memory = None
                self._end(memory, alive)
                over.release()

        for number in range(len(parts)):
            threading.Thread(target=one, args=(number,), daemon=True, name="everview task").start()
        for _ in parts:
            over.acquire()
            if failed.is_set():
                raise RuntimeError("Python worker exited unexpectedly (crashed)")
        return [answer for answers in found for answer in answers]

    def _begin(self) -> Memory:
        """Wait for a slot; gives the memory of a worker that is idle, or of a new one."""
        with self._change:
            self._change.wait_for(lambda: self.running < self.defaultParallelism)
            self.running += 1
            self.busy.append(self._idle.pop() if self._idle else {})
            return self.busy[-1]

    def _end(self, memory: Memory, alive: bool) -> None:
        with self._change:
            self.running -= 1
            self.busy = [each for each in self.busy if each is not memory]
            if alive:
                self._idle.append(memory)
            self._change.notify_all()


def session(slots: int) -> Any:
    """Something like a SparkSession."""
    return SimpleNamespace(sparkContext=GangContext(slots))
