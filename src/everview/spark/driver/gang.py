"""A gang: long-lived tasks, each owning some of the shards.

The driver starts one Spark job with a task per member. Every task connects to the driver, which introduces the members
to each other and sends them steps; rows travel directly between members (`everview.spark.gang`). A step on spread state
then costs two messages per member and one per round between them, where a barrier stage per step cost a second. After
an idle timeout the tasks end and free their slots (`idle_tasks`).

Members are ordinary tasks rather than a barrier stage, so that a gang consists of whichever tasks are running. If a
member dies, Spark restarts its task alone and the others keep their shards. Under dynamic allocation, and where Spark
does not allow barrier stages, pending tasks make Spark request executors. The driver waits `MISSING_SECONDS` for
missing members, then the others share their shards; members that arrive later join before the next step. In local mode
Spark fails a job that loses a task; the driver then starts another, as it does in any mode when Spark gives up.

Hazard: a gang may occupy all slots. It therefore waits only for steps that follow within `linger` seconds, and it ends,
between steps or while idle, when another job waits for slots. It checks for such jobs once a second (`others_wait`).
"""

from __future__ import annotations

import itertools
import select
import time
from collections.abc import Callable, Sequence
from typing import Any

from everview.cancellation import poll
from everview.errors import EverviewError, InternalError
from everview.spark.driver.idle_tasks import Lingering, all_leave
from everview.spark.driver.interrupts import NOTICE, Running, heard
from everview.spark.driver.long_lived_task import Unreachable, addresses
from everview.spark.driver.versions import guarded, other_in
from everview.spark.gang.coordinator import TRIES, Coordinator, Outcome, Phase, Usable
from everview.spark.gang.messages import AGAIN, Order, ToMember, read, written
from everview.spark.transport.channel import Channel
from everview.spark.transport.handshake import new_secret
from everview.spark.transport.listener import JobListener
from everview.spark.transport.message import Buffer
from everview.spark.transport.step_line import REACH_SECONDS, UNREACHABLE
from everview.spark.workers.gang_member import GANG

MISSING_SECONDS = 10.0
"""Seconds to wait for missing members, once one is there."""

GATHER_NOTICE = 0.01
"""Polling interval, in seconds, while the driver waits for members to connect."""

LOOK_SECONDS = 1.0
"""Seconds between checks for other jobs that wait for slots."""

JobFor = Callable[[int, tuple[int, ...]], Buffer]
"""The job of an attempt for a member that runs some shards."""


class Gang(Lingering):
    """The driver's side of a gang; its tasks start on first use."""

    def __init__(self, context: Any, root: str, shards: int, linger: float) -> None:
        self._root = root
        self._shards = shards
        self._tasks: _Tasks | None = None
        self._asked = False  # whether an answer is due
        self._looked = 0.0
        self._until = 0.0  # when it has rested long enough
        super().__init__(context, linger, 0.0)  # it may have all slots

    @property
    def taken(self) -> int:
        return 0 if self._tasks is None else self._tasks.wanted

    @property
    def members(self) -> int:
        """The current number of members."""
        return 0 if self._tasks is None else len(self._tasks.coordinator.members)

    @property
    def stands(self) -> bool:
        """Whether there are tasks waiting for a step."""
        return self._tasks is not None

    def reshard(self, shards: int) -> None:
        """End the tasks; those started next share the new number of shards."""
        with self._lock:
            self._drop(wait=True)
            self._shards = shards

    def run(self, tasks: int, job_for: JobFor, commands: Sequence[bytes], usable: Usable) -> Outcome:
        """Run a step on this many tasks, or fewer if they are not available; retries if members are lost."""
        with self._lock:
            self._begin()
            if self._asked:  # and cut off before there was an answer
                self._drop(cancel=True)
            self._asked = True
            try:
                if self._tasks is not None and (self._tasks.wanted != tasks or self._give_way()):
                    self._drop(wait=True)
                if self._tasks is None:
                    all_leave(self._context, self)
                    self._tasks = _Tasks(self._context, self._root, self._shards, tasks)
                with heard():
                    outcome = self._tasks.run(job_for, commands, usable)
                self._asked = False
            except BaseException:  # such as Ctrl-C: tasks must not continue an abandoned step
                self._drop(cancel=True)
                raise
            if outcome.how == AGAIN:
                self._drop(cancel=True)
                raise EverviewError(
                    "E_JOB",
                    f"a step lost its tasks {outcome.attempt + 1} times: {outcome.why}",
                    "nothing of the step was committed, and the session goes on; Spark's log says more",
                )
            if self._linger > 0:
                self._rest()
            else:
                self._drop(wait=True)
            return outcome

    def _give_way(self) -> bool:
        """Whether another job waits for slots; rate-limited, because it takes a call of the JVM."""
        now = time.monotonic()
        if now - self._looked < LOOK_SECONDS:
            return False
        self._looked = now
        return self._others_wait()

    def _others_wait(self) -> bool:
        """Whether other jobs wait. Unknown while one of our own tasks is waiting."""
        return self._tasks is not None and self._tasks.complete and others_wait(self._context)

    def _wait(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds
        super()._wait(min(seconds, LOOK_SECONDS))

    def _overdue(self) -> None:
        left = self._until - time.monotonic()
        try:
            leave = left <= 0 or self._others_wait()
        except Exception:  # Spark is gone; the next step reports it
            leave = True
        if leave:
            self._drop()
        else:
            super()._wait(min(left, LOOK_SECONDS))

    def _drop(self, *, wait: bool = False, cancel: bool = False) -> None:
        if self._tasks is not None:
            tasks, self._tasks = self._tasks, None
            tasks.close(wait=wait, cancel=cancel)


class _Tasks:
    """The tasks of a gang and the connections to them."""

    def __init__(self, context: Any, root: str, shards: int, wanted: int) -> None:
        self.wanted = wanted
        self.coordinator = Coordinator(shards, wanted)
        self._context = context
        self._root = root
        self._secret = new_secret()
        self._host, hosts = addresses(context.getConf())
        self._door = JobListener(hosts, self._secret)
        self._door.open(GANG)
        self._numbers = itertools.count()
        self._lines: dict[int, Channel] = {}
        self._task_of: dict[int, int] = {}
        self._known: dict[int, Sequence[bytes]] = {}  # the commands that each member has been told
        self._came = 0
        self._since: float | None = None  # when it began to wait for members that are missing
        self._job = self._start()

    @property
    def complete(self) -> bool:
        """Whether all tasks are running."""
        return not self.coordinator.missing

    def _start(self) -> Running:
        rows = self._context.parallelize(range(self.wanted), self.wanted)
        task = guarded("gang_member", (self._host, self._door.address[1]), self._secret, self._root)
        return Running(self._context, rows.mapPartitions(task).collect)

    def run(self, job_for: JobFor, commands: Sequence[bytes], usable: Usable) -> Outcome:
        """Run a step."""
        gang, restarts = self.coordinator, 0
        self._meet_new()
        self._hear(0.0)
        gang.begin(usable)
        while gang.outcome is None:
            self._send(job_for, commands)
            if self._job.over:
                restarts += 1
                self._restart(last=restarts >= TRIES)
            gathering = gang.phase == Phase.GATHERING
            self._hear(GATHER_NOTICE if gathering else NOTICE)
            self._meet_new()
            if gathering:
                self._wait_for_missing()
            else:
                self._since = None
            poll()  # interrupts are heard here, too
        return gang.outcome

    def _wait_for_missing(self) -> None:
        now = time.monotonic()
        if self._since is None or not self._lines:
            self._since = now
        elif now - self._since > MISSING_SECONDS:
            self.coordinator.waited()

    def _restart(self, *, last: bool) -> None:
        """Handle a Spark job that ended although its tasks were not told to. Raises the cause if it cannot be
        restarted.
        """
        for member in list(self._lines):
            self._lose(member)
        try:
            results = self._job.result()
        except Exception as error:
            if (other := other_in(error)) is not None:
                raise other from None
            if last:
                raise
        else:
            if any(each == UNREACHABLE for each in results):
                raise Unreachable
            if last:
                raise InternalError("E_PEER", "a step's tasks end each time", "see Spark's log")
        self._job = self._start()
        self._came = 0

    def _meet_new(self) -> None:
        """Admit members that have connected; of two connections from the same task the later one counts."""
        while (found := self._door.admit(0)) is not None:
            task, line = found
            for member in [m for m, other in self._task_of.items() if other == task]:
                self._lose(member)
            member = next(self._numbers)
            self._lines[member], self._task_of[member] = line, task
            self._came += 1
            self.coordinator.joined(member)

    def _lose(self, member: int) -> None:
        self._lines.pop(member).close()
        self._known.pop(member, None)
        del self._task_of[member]
        self.coordinator.lost(member)

    def _send(self, job_for: JobFor, commands: Sequence[bytes]) -> None:
        for member, message in self.coordinator.take():
            if member in self._lines:
                try:
                    self._lines[member].send(self._message(member, message, job_for, commands))
                except OSError:
                    self._lose(member)

    def _message(self, member: int, message: ToMember, job_for: JobFor, commands: Sequence[bytes]) -> list[Buffer]:
        if not isinstance(message, Order):
            return written(message)
        job = job_for(message.attempt, self.coordinator.shards_of(member))
        if self._known.get(member) == commands:
            return written(Order(message.step, message.generation, message.attempt, same=True), [job])
        self._known[member] = list(commands)
        return written(message, [job, *commands])

    def _hear(self, seconds: float) -> None:
        """Process messages from members, waiting up to this long for one."""
        waiting = select.poll()
        by_number = {line.socket.fileno(): member for member, line in self._lines.items()}
        for number in by_number:
            waiting.register(number, select.POLLIN)
        for number, _ in waiting.poll(1000 * seconds):
            member = by_number[number]
            try:
                message, parts = read(self._lines[member].receive())
            except (OSError, InternalError):
                self._lose(member)
                continue
            answer = parts[0] if parts else b""
            self.coordinator.heard(member, message, answer)  # type: ignore[arg-type]

    def close(self, *, wait: bool, cancel: bool) -> None:
        """End the tasks, forcibly if they are to be cancelled or have not begun."""
        for line in self._lines.values():
            line.close()
        self._door.close()
        if cancel or self._came < self.wanted:
            self._job.cancel()
        if wait:
            self._job.wait(REACH_SECONDS)


def others_wait(context: Any) -> bool:
    """Whether other jobs have tasks that are waiting for slots."""
    if not hasattr(context, "statusTracker"):  # a stand-in for Spark
        return False
    tracker = context.statusTracker()
    for job in tracker.getActiveJobsIds():
        info = tracker.getJobInfo(job)
        for stage in info.stageIds if info is not None else ():
            found = tracker.getStageInfo(stage)
            if found is not None and found.numTasks > found.numActiveTasks + found.numCompletedTasks:
                return True
    return False
