"""A task that stays for a while: steps that follow each other closely share one Spark job.

An empty job with a Python task takes tens of milliseconds, most of a small step. So the task that runs a step on all
shards keeps a connection to the driver and waits for the next one, and only when none comes for `linger` seconds does
it end and give its slot back. Where steps come at longer intervals, as those of a stream do, it waits for the next one
too, up to LONGEST (if nobody has said how long to linger). Steps are what they were, pure functions of a committed
version (see `job`); only the way to the worker is shorter.

Spark remains in charge. If the task dies, Spark starts it again and the driver sends the step once more; if Spark gives
up, the step fails with Spark's error; if workers cannot reach the driver's port, every step is a job of its own again.
Driver and task prove to each other that they belong together (`proof`): the secret for that travels with the task, by
Spark's own channel. Others who call the driver's port are sent away (`door`).

Hazard: the slot is taken meanwhile. Where several sessions share an application, tasks that only wait go when another
is to start, so that one slot at least stays free for Spark's other jobs. A barrier stage, which may need all slots,
must `leave` first and have the others leave (`all_leave`).
"""

from __future__ import annotations

import atexit
import math
import select
import socket
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

from everview.errors import EverviewError, InternalError
from everview.spark.driver.interrupts import NOTICE, Running, heard
from everview.spark.driver.slots import slots
from everview.spark.driver.versions import checked, guarded
from everview.spark.transport.channel import Channel, call
from everview.spark.transport.handshake import new_secret
from everview.spark.transport.listener import JobListener
from everview.spark.transport.message import Buffer, pack, unpack
from everview.stopping import poll

LINGER = 0.2
"""Seconds for which a task waits for the next step, at least."""

LONGEST = 4.0
"""Seconds for which a task waits at most because steps come at such intervals."""

LATE = 1.5
"""A step may be later than the one before by this factor and still find the task."""

TRIES = 4
"""How often a step is sent to a task that is gone before it has answered, as often as Spark tries tasks."""

PURPOSE = b"steps"
EVERYWHERE = ("0.0.0.0", "::", "[::]", "")
UNREACHABLE = b"unreachable"
REACH_SECONDS = 10.0
"""Seconds in which a worker must have reached the driver."""


class Unreachable(Exception):
    """Workers cannot connect to the driver."""


class LongLivedTask:
    """The driver's side of a task that stays; made when first needed, one at a time."""

    def __init__(self, context: Any, linger: float, longest: float) -> None:
        self._context = context
        self._linger = linger
        self._longest = longest
        self._one = context.parallelize([0], 1)
        self._lock = threading.Lock()
        self._call: _Call | None = None
        self._timer: threading.Timer | None = None
        self._answered = -math.inf  # when the last step was done
        self._pause = math.inf  # how long it took from there to the next
        with _registering:
            _all.add(self)
        atexit.register(self.leave)  # a task that waits while Spark is stopped makes Spark complain

    def run(self, job: bytes, commands: Sequence[bytes]) -> Buffer:
        """A step's answer."""
        with self._lock:
            self._stop_timer()
            self._pause = time.monotonic() - self._answered
            if self._call is not None and self._call.over():  # cancelled while nobody needed it
                self._drop()
            for left in reversed(range(TRIES)):
                if self._call is None:
                    self._make_room()
                    self._call = _Call(self._context, self._one)
                try:
                    with heard():
                        answer = self._call.ask(job, commands)
                    self._start_timer()
                    return answer
                except _Gone:
                    self._drop()
                    if not left:
                        raise InternalError("E_PEER", "a step's task is lost each time", "see Spark's log") from None
                except BaseException:  # Ctrl-C, say: the task must not go on with what nobody wants any more
                    self._drop(cancel=True)
                    raise
        raise AssertionError

    def _make_room(self) -> None:
        """Let tasks of other sessions go that only wait, but for as many as leave a slot free besides our own."""
        waiting = sorted(_others(self, self._context), key=lambda other: other._answered)
        if waiting:
            for other in waiting[: max(0, len(waiting) + 2 - slots(self._context))]:
                other._yield()

    def _yield(self) -> None:
        """End the task, unless a step is under way."""
        if self._lock.acquire(blocking=False):
            try:
                self._stop_timer()
                self._drop(wait=True)
            finally:
                self._lock.release()

    def close(self) -> None:
        """It is not needed any more."""
        self.leave()
        atexit.unregister(self.leave)

    def leave(self) -> None:
        """End the task now, and wait until its slot is free."""
        with self._lock:
            self._stop_timer()
            self._drop(wait=True)

    def _drop(self, *, wait: bool = False, cancel: bool = False) -> None:
        if self._call is not None:
            self._call.close(wait=wait, cancel=cancel)
            self._call = None

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _start_timer(self) -> None:
        call = self._call
        self._answered = time.monotonic()
        self._timer = threading.Timer(patience(self._linger, self._pause, self._longest), self._expire, (call,))
        self._timer.daemon = True
        self._timer.start()

    def _expire(self, call: _Call) -> None:
        with self._lock:
            if self._call is call and self._timer is not None and self._timer is threading.current_thread():
                self._drop()


_all: weakref.WeakSet[LongLivedTask] = weakref.WeakSet()
_registering = threading.Lock()


def _others(one: LongLivedTask | None, context: Any) -> list[LongLivedTask]:
    with _registering:
        known = list(_all)
    return [r for r in known if r is not one and r._context is context and r._call is not None]


def all_leave(context: Any) -> None:
    """End the tasks that wait for steps, of all sessions of an application: their slots are needed."""
    for each in _others(None, context):
        each._yield()


def patience(linger: float, pause: float, longest: float) -> float:
    """How long to wait for the next step, if the last one came so long after the one before.

    >>> patience(0.2, 0.01, 4.0), patience(0.2, 1.0, 4.0), patience(0.2, 60.0, 4.0), patience(0.2, 1.0, 0.0)
    (0.2, 1.5, 0.2, 0.2)
    """
    expected = LATE * pause
    return max(linger, expected) if expected <= longest else linger


class _Gone(Exception):
    """The task ended without an answer."""


class _Call:
    """One such task, and the connection to it."""

    def __init__(self, context: Any, one: Any) -> None:
        secret = new_secret()
        host, hosts = _addresses(context.getConf())
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


def _addresses(conf: Any) -> tuple[str, list[str]]:
    """Where workers reach the driver, and where it listens: at that address alone, if it is this machine's, and at all
    addresses only if Spark was told to listen at all and there is no other way.

    >>> _addresses({"spark.driver.host": "10.0.0.7"}), _addresses({"spark.driver.bindAddress": "127.0.0.1"})
    (('10.0.0.7', ['10.0.0.7']), ('127.0.0.1', ['127.0.0.1']))
    >>> _addresses({"spark.driver.host": "10.0.0.7", "spark.driver.bindAddress": "0.0.0.0"})
    ('10.0.0.7', ['10.0.0.7', '0.0.0.0'])
    """
    host = conf.get("spark.driver.host", "127.0.0.1")
    bind = conf.get("spark.driver.bindAddress", host)
    return host.strip("[]"), [host, bind] if bind in EVERYWHERE else [bind]


def reach(address: tuple[str, int], secret: bytes) -> Channel:
    """In a worker: the line to the driver."""
    return call(address, secret, PURPOSE, 0, REACH_SECONDS)


def steps(line: Channel) -> Iterator[tuple[Buffer, Sequence[bytes]]]:
    """In a worker: the steps that the driver sends until it hangs up, each with all commands. Answers go back on the
    same line.
    """
    commands: Sequence[bytes] = ()
    while True:
        try:
            header, (job, *more) = unpack(line.receive())
        except (InternalError, ConnectionError):
            return
        commands = commands if header["same"] else [bytes(each) for each in more]
        yield job, commands
