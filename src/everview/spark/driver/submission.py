"""Running a step in tasks: a long-lived task, a gang, or jobs of their own.

| | on one task | on several |
|---|---|---|
| default | `long_lived_task` | `gang` |
| where workers cannot reach the driver | one job per step | one barrier stage per step |

With `linger` 0 tasks end with their step. All four run the same steps on the same shards, so a session can switch
between them at any time (`placement`). Failed attempts have changed nothing.
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from everview.errors import EverviewError, StoppedError
from everview.runtime.base import AbsentRows
from everview.spark.driver.gang import Gang
from everview.spark.driver.idle_tasks import all_leave
from everview.spark.driver.interrupts import Running
from everview.spark.driver.job import Answer, Job
from everview.spark.driver.liveness import lost, unless_lost
from everview.spark.driver.long_lived_task import LongLivedTask, Unreachable
from everview.spark.driver.placement import Placing, in_words
from everview.spark.driver.slots import slots, stage_slots
from everview.spark.driver.versions import checked, guarded, other_in
from everview.spark.rows.frames import first_line
from everview.spark.transport.failures import PeerFailed
from everview.spark.transport.handshake import new_secret
from everview.spark.transport.message import Buffer
from everview.spark.workers.address_space import NoAddressSpace

WORKER_TRIES = 4
"""Attempts at a step whose Python worker dies, where Spark does not retry; its own number elsewhere."""

BARRIER_TRIES = 4
"""Attempts at a barrier stage that loses a task; Spark's number of task attempts."""


class Submitter:
    """Runs the steps of one session in tasks."""

    def __init__(self, context: Any, root: str, shards: int, commands: list[bytes]) -> None:
        self.placing = Placing(context, shards)
        self.resident: LongLivedTask | None = None
        self.gang: Gang | None = None
        self._context = context
        self._root = root
        self._shards = shards
        self._commands = commands
        self._sent: Any = None  # the commands as a broadcast
        self._one = context.parallelize([0], 1)

    def linger(self, seconds: float, longest: float) -> None:
        """Keep tasks alive for this many seconds to wait for the next step, or up to `longest` if steps arrive at such
        intervals.
        """
        for each in (self.resident, self.gang):
            if each is not None:
                each.close()
        self.resident = LongLivedTask(self._context, seconds, longest) if seconds > 0 else None
        self.gang = Gang(self._context, self._root, self._shards, seconds)

    def reshard(self, shards: int) -> None:
        """Run steps on this many shards from now on, in new tasks."""
        self.leave()
        self._shards = shards
        self.placing.reshard(shards)
        if self.gang is not None:
            self.gang.reshard(shards)

    def where(self) -> str:
        """Where steps run, and why."""
        return f"in {in_words(self.placing.placed)}: {self.placing.why}" if self.placing.placed else "nowhere yet"

    def give_slots(self) -> None:
        """Release slots: an idle gang must not hold them all."""
        if self.gang is not None and self.gang.stands and self.gang.taken >= slots(self._context):
            self.gang.give_way()

    def leave(self) -> None:
        """End idle tasks without calling Spark, which may be gone."""
        for each in (self.resident, self.gang):
            if each is not None:
                each.leave()

    def close(self) -> None:
        """End all tasks."""
        for each in (self.resident, self.gang):
            if each is not None:
                each.close()
        self.resident = self.gang = None
        self.forget_commands()

    def run(self, job: Job, words: int, state: int) -> tuple[Job, list[Answer]]:
        """Run a job with this many words of input on this many bytes of state; returns the successful attempt."""
        gang_stands = self.gang is not None and self.gang.stands
        tasks = self.placing.tasks(words, state, gang_stands=gang_stands)
        try:
            return self._answers(job, tasks)
        except NoAddressSpace as error:
            most = self.placing.most()
            if tasks >= most:
                raise
            told = f"{error.message}; steps are run by {most} tasks from now on, which takes longer ({error.hint})"
            warnings.warn(told, stacklevel=2)
            self.placing.must_spread = True
            return self._answers(job, most)

    def _answers(self, job: Job, tasks: int) -> tuple[Job, list[Answer]]:
        left = WORKER_TRIES
        while True:
            left -= 1
            try:
                job, found = self._alone(job) if tasks == 1 else self._spread(job, tasks)
                break
            except EverviewError:
                raise
            except Exception as error:
                if not left or not self._lost_worker(error):
                    raise self._gave_up(error) from error
        answers = [Answer.read(checked(data)) for data in found]
        failures = [e for e in (a.error() for a in answers) if e is not None]
        if failures:
            known = sorted(failures, key=lambda e: (not isinstance(e, AbsentRows), isinstance(e, PeerFailed)))
            raise known[0]
        return job, answers

    def _lost_worker(self, error: Exception) -> bool:
        """Whether to rerun a step because a Python worker died. In local mode Spark does not retry tasks."""
        return "Python worker exited unexpectedly" in str(error) and str(self._context.master).startswith("local[")

    def _gave_up(self, error: Exception) -> EverviewError:
        return lost(self._context) or EverviewError(
            "E_JOB",
            f"Spark gave up a step's job: {first_line(error)}",
            "nothing of the step was committed, and the session goes on; Spark's log says more",
        )

    # one task

    def _alone(self, job: Job) -> tuple[Job, Sequence[Buffer]]:
        if self.gang is not None and self.gang.stands:
            self.gang.leave()
        data = pickle.dumps(job, protocol=5)
        if self.resident is not None:
            try:
                return job, [self.resident.run(data, self._commands)]
            except Unreachable:
                self.resident = None
        return job, self._collect(self._one.mapPartitions(guarded("alone", data, self._broadcast())))

    def _collect(self, task: Any) -> list[bytes]:
        job = Running(self._context, task.collect)
        try:
            return job.result()
        except BaseException as error:
            if not isinstance(error, Exception) or isinstance(error, StoppedError):
                job.cancel()
            raise

    def _broadcast(self) -> Any:
        if self._sent is None:
            self._sent = self._context.broadcast(list(self._commands))
        return self._sent

    def forget_commands(self) -> None:
        """Invalidate cached commands after they changed."""
        sent, self._sent = self._sent, None
        if sent is not None:
            with unless_lost(self._context):
                sent.destroy()

    # several tasks

    def _spread(self, job: Job, tasks: int) -> tuple[Job, Sequence[Buffer]]:
        if self.resident is not None:
            self.resident.leave()
        if self.gang is not None:
            try:
                outcome = self.gang.run(tasks, _pickled(job), self._commands, _usable(job.lineage))
                return _attempt(job, outcome.attempt), list(outcome.answers.values())
            except Unreachable:
                self.gang.close()
                self.gang = None
        most = min(tasks, stage_slots(self._context))
        return (job, self._together(job, most)) if most > 1 else self._alone(job)

    def _together(self, job: Job, tasks: int) -> list[bytes]:
        """Run a job as a barrier stage. Spark does not retry such a result stage, because outputs might have been
        committed twice; ours can be retried safely.
        """
        all_leave(self._context)
        shipped, commands = self._context.broadcast(pickle.dumps(job, protocol=5)), self._broadcast()
        left = BARRIER_TRIES
        try:
            while True:
                left -= 1
                stage = self._context.parallelize(range(tasks), tasks).barrier()
                task = guarded("together", shipped, commands, new_secret())
                try:
                    return self._collect(stage.mapPartitions(task))
                except Exception as error:
                    if (other := other_in(error)) is not None:
                        raise other from None
                    if not left or "failed barrier" not in str(error):
                        raise
        finally:
            with unless_lost(self._context):
                shipped.destroy()


def _attempt(job: Job, number: int) -> Job:
    """The same job as a new attempt: shards left in a worker's memory by an earlier attempt do not match it."""
    return job if number == 0 else replace(job, attempt=f"{job.attempt}.{number}")


def _pickled(job: Job) -> Callable[[int, tuple[int, ...]], bytes]:
    """The job for a member, with the input of its shards only."""

    def job_for(attempt: int, shards: tuple[int, ...]) -> bytes:
        inputs = {shard: job.inputs[shard] for shard in shards if shard in job.inputs}
        files = {shard: job.input_files[shard] for shard in shards if shard in job.input_files}
        return pickle.dumps(replace(_attempt(job, attempt), inputs=inputs, input_files=files), protocol=5)

    return job_for


def _usable(lineage: Mapping[int, str]) -> Callable[[int, str], bool]:
    """Whether a shard in a worker's memory can be caught up with the committed version."""
    return lambda version, attempt: lineage.get(version) == attempt
