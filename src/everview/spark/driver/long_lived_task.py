"""A task that stays for a while: steps that follow each other closely share one Spark job.

An empty job with a Python task takes tens of milliseconds, most of a small step. So the task that runs a step on all
shards keeps a connection to the driver and waits for the next one, and only when none comes for `linger` seconds does
it end and give its slot back. Steps are what they were, pure functions of a committed version (see `job`); only the way
to the worker is shorter.

Spark remains in charge. If the task dies, Spark starts it again and the driver sends the step once more; if Spark gives
up, the step fails with Spark's error; if workers cannot reach the driver's port, every step is a job of its own again.
Driver and task prove to each other that they belong together (`proof`): the secret for that travels with the task, by
Spark's own channel. Others who call the driver's port are sent away (`door`).

Hazard: the slot is taken meanwhile. Where several sessions share an application, tasks that only wait go when another
is to start, so that one slot at least stays free for Spark's other jobs (`lingering`). Steps on several tasks may need
all slots: before those it must `leave`.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Sequence
from typing import Any

from everview.errors import EverviewError, InternalError
from everview.spark.driver.interrupts import NOTICE, Running, heard
from everview.spark.driver.lingering import Lingering, make_room
from everview.spark.driver.versions import checked, guarded
from everview.spark.transport.channel import Channel
from everview.spark.transport.handshake import new_secret
from everview.spark.transport.listener import JobListener
from everview.spark.transport.message import Buffer, pack
from everview.spark.transport.step_line import PURPOSE, REACH_SECONDS, UNREACHABLE
from everview.stopping import poll

TRIES = 4
"""How often a step is sent to a task that is gone before it has answered, as often as Spark tries tasks."""

EVERYWHERE = ("0.0.0.0", "::", "[::]", "")


class Unreachable(Exception):
    """Workers cannot connect to the driver."""


class LongLivedTask(Lingering):
    """The driver's side of a task that stays; made when first needed, one at a time."""

    def __init__(self, context: Any, linger: float, longest: float) -> None:
        self._one = context.parallelize([0], 1)
        self._call: _Call | None = None
        self._asked = False  # whether an answer is due
        super().__init__(context, linger, longest)

    @property
    def taken(self) -> int:
        return 0 if self._call is None else 1

    def run(self, job: bytes, commands: Sequence[bytes]) -> Buffer:
        """A step's answer."""
        with self._lock:
            self._begin()
            if self._asked:  # and cut off before there was an answer, which would be taken for that of this step
                self._drop(cancel=True)
            elif self._call is not None and self._call.over():  # cancelled while nobody needed it
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
                except BaseException:  # Ctrl-C, say: the task must not go on with what nobody wants any more
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
    """One such task, and the connection to it."""

    def __init__(self, context: Any, one: Any) -> None:
        secret = new_secret()
        host, hosts = addresses(context.getConf())
        self._door = JobListener(hosts, secret)
        self._door.open(PURPOSE)
        self._line: Channel | None = None
        self._known: Sequence[bytes] | None = None
        task = one.mapPartitions(guarded("resident", (host, self._door.address[1]), secret))
        self._job = Running(context, task.collect)

    def ask(self, job: bytes, commands: Sequence[bytes]) -> Buffer:
        """Send a step, wait for the answer; again if Spark has started the task again."""
        while True:
            line = self._line or self._connect()
            same = self._known is not None and self._known == commands
            try:
                line.send(pack({"same": same}, [job, *(() if same else commands)]))
                self._known = list(commands)
                while not select.select([line.socket], [], [], NOTICE)[0]:
                    poll()  # interrupts are heard here, too
                return line.receive()
            except (OSError, InternalError):
                self._hang_up()

    def _connect(self) -> Channel:
        """Wait for the task, which Spark starts when there is a slot."""
        while True:
            over = self._job.over
            found = self._door.admit(0.05)
            if found is not None:
                self._line, self._known = found[1], None
                return self._line
            if over:
                raise self._ended()

    def _ended(self) -> Exception:
        """Why the task is over, though nobody told it to end."""
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
        """Whether the task has ended, or is about to."""
        if self._line is None or self._job.over:
            return True
        try:
            return not self._line.socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:  # nothing to read, as it should be
            return False
        except OSError:
            return True

    def _hang_up(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None

    def close(self, *, wait: bool, cancel: bool) -> None:
        """Let the task end, by force if it is to be cancelled: one that is busy does not notice that nobody waits."""
        self._hang_up()
        self._door.close()
        if cancel:
            self._job.cancel()
        if wait:
            self._job.wait(REACH_SECONDS)


def addresses(conf: Any) -> tuple[str, list[str]]:
    """Where workers reach the driver, and where it listens: at that address alone, if it is this machine's, and at all
    addresses only if Spark was told to listen at all and there is no other way.

    >>> addresses({"spark.driver.host": "10.0.0.7"}), addresses({"spark.driver.bindAddress": "127.0.0.1"})
    (('10.0.0.7', ['10.0.0.7']), ('127.0.0.1', ['127.0.0.1']))
    >>> addresses({"spark.driver.host": "10.0.0.7", "spark.driver.bindAddress": "0.0.0.0"})
    ('10.0.0.7', ['10.0.0.7', '0.0.0.0'])
    """
    host = conf.get("spark.driver.host", "127.0.0.1")
    bind = conf.get("spark.driver.bindAddress", host)
    return host.strip("[]"), [host, bind] if bind in EVERYWHERE else [bind]
