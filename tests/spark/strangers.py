"""Those who call ports that are none of their business, one kind a function. Each is given an address and does
its worst.

`plague` sends all of them, again and again, to whatever ports a function finds, while something else runs.
"""

from __future__ import annotations

import os
import pickle
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from everview.spark.transport.handshake import HELLO, MAGIC, NONCE, PROOF, REPLY, Caller

Address = tuple[str, int]


def _connect(address: Address) -> socket.socket:
    connection = socket.create_connection(address, timeout=5)
    connection.settimeout(0.2)
    return connection


def hangs_up(address: Address) -> socket.socket | None:
    """Connects, and is gone."""
    _connect(address).close()
    return None


def says_nothing(address: Address) -> socket.socket:
    """Connects, and stays."""
    return _connect(address)


def says_half(address: Address) -> socket.socket:
    """Begins as one of us does."""
    connection = _connect(address)
    connection.sendall((MAGIC + os.urandom(NONCE))[: HELLO - 1])
    return connection


def talks_rubbish(address: Address) -> socket.socket:
    """Sends what it likes."""
    connection = _connect(address)
    with suppress(OSError):
        connection.sendall(b"GET / HTTP/1.1\r\nHost: everview\r\n\r\n" + os.urandom(1 << 16))
    return connection


def names_a_huge_length(address: Address) -> socket.socket:
    """As messages began once: a length, of which nobody has so much memory."""
    connection = _connect(address)
    connection.sendall(b"\xff" * 7 + b"\x7f" + b"x" * 100)
    return connection


def sends_a_pickle(address: Address) -> socket.socket:
    """Code, for whoever would read it."""
    connection = _connect(address)
    data = pickle.dumps(_Bomb())
    with suppress(OSError):
        connection.sendall(len(data).to_bytes(8, "little") + data)
    return connection


class _Bomb:
    def __reduce__(self) -> tuple[Callable[[int], None], tuple[int]]:
        return os._exit, (77,)


def knows_another_secret(address: Address) -> socket.socket:
    """Goes through all of the greeting, with a secret of its own, and then sends a message."""
    connection = _connect(address)
    caller = Caller(os.urandom(32), b"steps", 0)
    with suppress(OSError):
        connection.sendall(caller.hello())
        connection.recv(REPLY)
        connection.sendall(os.urandom(PROOF))
        connection.sendall((1 << 40).to_bytes(8, "little") + os.urandom(1000))
    return connection


def sends_back_what_it_hears(address: Address) -> socket.socket:
    """A mirror: perhaps the other end believes itself."""
    connection = _connect(address)
    with suppress(OSError):
        connection.sendall(MAGIC + os.urandom(NONCE))
        heard = connection.recv(REPLY)
        connection.sendall(heard[NONCE - 8 :])
    return connection


KINDS: tuple[Callable[[Address], socket.socket | None], ...] = (
    hangs_up,
    says_nothing,
    says_half,
    talks_rubbish,
    names_a_huge_length,
    sends_a_pickle,
    knows_another_secret,
    sends_back_what_it_hears,
)


@contextmanager
def plague(find: Callable[[], Iterable[Address]], pause: float = 0.01) -> Iterator[Counter[str]]:
    """Strangers of all kinds call all ports found; counts whom they reached."""
    reached: Counter[str] = Counter()
    over = threading.Event()

    def run() -> None:
        open_: list[socket.socket] = []
        while not over.wait(pause):
            for address in find():
                for kind in KINDS:
                    with suppress(OSError):
                        connection = kind(address)
                        reached[kind.__name__] += 1
                        open_ += [connection] if connection is not None else []
            while len(open_) > 100:
                open_.pop(0).close()
        for connection in open_:
            connection.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield reached
    finally:
        over.set()
        thread.join()


def listening(pids: Iterable[int]) -> set[Address]:
    """The TCP ports at which processes listen on this machine."""
    sockets = set()
    for pid in pids:
        with suppress(OSError):
            for entry in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(OSError):
                    sockets.add(os.readlink(entry).removeprefix("socket:[").removesuffix("]"))
    found = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and fields[9] in sockets:
            found.add(("127.0.0.1", int(fields[1].split(":")[1], 16)))
    return found


def workers() -> list[int]:
    """Spark's Python workers below this process."""
    parents: dict[int, int] = {}
    commands: dict[int, bytes] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                commands[int(entry.name)] = (entry / "cmdline").read_bytes()
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])

    def below(pid: int) -> bool:
        while pid in parents and pid != os.getpid():
            pid = parents[pid]
        return pid == os.getpid()

    return [pid for pid, command in commands.items() if b"pyspark.daemon" in command and below(pid)]


class WorkersPorts:
    """The ports at which Spark's workers listen, found fast enough to catch those that are open for milliseconds.

    Looking for the workers means reading all of /proc, so it is done now and then; their ports are read every time.
    """

    AGAIN = 0.5
    """Seconds after which the workers are looked for again."""

    def __init__(self) -> None:
        self._workers: list[int] = []
        self._looked = float("-inf")
        self._not_ours = self._listening()

    def __call__(self) -> set[Address]:
        return self._listening() - self._not_ours

    def _listening(self) -> set[Address]:
        if time.monotonic() - self._looked > self.AGAIN:
            self._workers, self._looked = workers(), time.monotonic()
        return listening(self._workers)


def wait_until(true: Callable[[], bool], seconds: float = 10.0) -> bool:
    """Whether something becomes true in time."""
    until = time.monotonic() + seconds
    while not true() and time.monotonic() < until:
        time.sleep(0.01)
    return true()
