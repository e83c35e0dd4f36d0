"""A long-lived task: steps in quick succession share one Spark job.

An empty job with a Python task takes tens of milliseconds, which is most of a small step. So the task that runs a step
on all shards keeps its connection to the driver and waits for the next one. If none arrives for `linger` seconds, it
ends and frees its slot. Steps remain pure functions of a committed version (see `job`); only the path to the worker is
shorter.

Spark remains in charge. If the task dies, Spark restarts it and the driver sends the step again; if Spark gives up, the
step fails with Spark's error; if workers cannot reach the driver's port, every step is its own job again. Driver and
task authenticate each other with a secret that travels with the task through Spark's own channel (`handshake`). Other
callers of the driver's port are rejected (`listener`).

Hazard: an idle task occupies a slot. Where several sessions share an application, idle tasks end when another is about
to start, so that at least one slot stays free for Spark's other jobs (`idle_tasks`). Steps on several tasks may need
all slots; the single task must `leave` first.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Sequence
from typing import Any

from everview.cancellation import poll
from everview.errors import EverviewError, InternalError
from everview.spark.driver.idle_tasks import Lingering, make_room
from everview.spark.driver.interrupts import NOTICE, Running, heard
from everview.spark.driver.versions import checked, guarded
from everview.spark.transport.channel import Channel
from everview.spark.transport.handshake import new_secret
from everview.spark.transport.listener import JobListener
from everview.spark.transport.message import Buffer, pack
from everview.spark.transport.step_line import PURPOSE, REACH_SECONDS, UNREACHABLE

TRIES = 4
"""Attempts to send a step to a task that dies before answering; Spark's own number of task attempts."""

EVERYWHERE = ("0.0.0.0", "::", "[::]", "")


class Unreachable(Exception):
    """Workers cannot connect to the driver."""


class LongLivedTask(Lingering):
    """The driver's side of a long-lived task; started on first use, one at a time."""

    def __init__(self, context: Any, linger: float, longest: float) -> None:
        self._one = context.parallelize([0], 1)
        self._call: _Call | None = None
        self._asked = False  # whether an answer is due
        super().__init__(context, linger, longest)

    @property
    def taken(self) -> int:
        return 0 if self._call is None else 1

    def run(self, job: bytes, commands: Sequence[bytes]) -> Buffer:
        """Run a step and return its answer."""
        with self._lock:
            self._begin()
            if self._asked:  # and cut off before there was an answer, which would be taken for that of this step
                self._drop(cancel=True)
            elif self._call is not None and self._call.over():  # cancelled while idle
                self._drop()
            self._asked = True
            for left in reversed(range(TRIES)):
                if self._call is None:
                    make_room(self, self._context, 1)
                    self._call = _Call(self._context, self._one)
                try:
                    with heard():
                        answer = self._call.ask(job, commands)
                    self._asked = False
                    self._rest()
                    return answer
                except _Gone:
                    self._drop()
                    if not left:
                        raise InternalError("E_PEER", "a step's task is lost each time", "see Spark's log") from None
                except BaseException:  # such as Ctrl-C: the task must not continue an abandoned step
                    self._drop(cancel=True)
                    raise
        raise AssertionError

    def _drop(self, *, wait: bool = False, cancel: bool = False) -> None:
        if self._call is not None:
            self._call.close(wait=wait, cancel=cancel)
            self._call = None


class _Gone(Exception):
    """The task ended without an answer."""


class _Call:
    """One task and the connection to it."""

    def __init__(self, context: Any, one: Any) -> None:
        secret = new_secret()
        host, hosts = addresses(context.getConf())
        self._door = JobListener(hosts, secret)
        self._door.open(PURPOSE)
        self._line: Channel | None = None
        self._waiting = select.poll()  # for the line
        self._known: Sequence[bytes] | None = None
        task = one.mapPartitions(guarded("resident", (host, self._door.address[1]), secret))
        self._job = Running(context, task.collect)

    def ask(self, job: bytes, commands: Sequence[bytes]) -> Buffer:
        """Send a step and wait for the answer; resend it if Spark restarts the task."""
        while True:
            line = self._line or self._connect()
            same = self._known is not None and self._known == commands
            try:
                line.send(pack({"same": same}, [job, *(() if same else commands)]))
                self._known = list(commands)
                while not self._waiting.poll(1000 * NOTICE):
                    poll()  # interrupts are heard here, too
                return line.receive()
            except (OSError, InternalError):
                self._hang_up()

    def _connect(self) -> Channel:
        """Wait for the task, which Spark starts when a slot is free."""
        while True:
            over = self._job.over
            found = self._door.admit(0.05)
            if found is not None:
                self._waiting = select.poll()
                self._waiting.register(found[1].socket, select.POLLIN)
                self._line, self._known = found[1], None
                return self._line
            if over:
                raise self._ended()

    def _ended(self) -> Exception:
        """Why the task has ended although it was not told to."""
        try:
            said = b"".join(self._job.result())
        except Exception as error:
            return error
        if said == UNREACHABLE:
            return Unreachable()
        try:
            if said:
                checked(said)
        except EverviewError as error:  # the worker has another Everview
            return error
        return _Gone()

    def over(self) -> bool:
        """Whether the task has ended or is about to."""
        if self._line is None or self._job.over:
            return True
        if not self._waiting.poll(0):  # nothing to read, as it should be
            return False
        try:
            return not self._line.socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except OSError:
            return True

    def _hang_up(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None

    def close(self, *, wait: bool, cancel: bool) -> None:
        """End the task, forcibly if it is to be cancelled: a busy task does not notice that nobody waits for it."""
        self._hang_up()
        self._door.close()
        if cancel:
            self._job.cancel()
        if wait:
            self._job.wait(REACH_SECONDS)


def addresses(conf: Any) -> tuple[str, list[str]]:
    """The address at which workers reach the driver, and the addresses to listen on. The driver listens on all
    interfaces only if Spark was configured to and there is no alternative.

    >>> addresses({"spark.driver.host": "10.0.0.7"}), addresses({"spark.driver.bindAddress": "127.0.0.1"})
    (('10.0.0.7', ['10.0.0.7']), ('127.0.0.1', ['127.0.0.1']))
    >>> addresses({"spark.driver.host": "10.0.0.7", "spark.driver.bindAddress": "0.0.0.0"})
    ('10.0.0.7', ['10.0.0.7', '0.0.0.0'])
    """
    host = conf.get("spark.driver.host", "127.0.0.1")
    bind = conf.get("spark.driver.bindAddress", host)
    return host.strip("[]"), [host, bind] if bind in EVERYWHERE else [bind]
