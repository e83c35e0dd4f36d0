"""Which Everview a process has: workers must have the driver's.

Driver and workers build the same operators from the same commands and name them by number, so another version would
at best fail somewhere inside. A task therefore asks first. It asks with code that travels with it: the worker's own
might not have the question.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, NamedTuple

from everview.errors import StoreError
from everview.spark.transport.message import Buffer

Task = Callable[[Iterable[Any]], Iterator[bytes]]


class Other(NamedTuple):
    """A worker's answer that has another Everview: which, and where. It travels as a plain tuple."""

    version: str
    where: str

    def error(self) -> StoreError:
        """What the driver says about it."""
        return StoreError(
            "E_VERSION",
            f"a Spark worker ({self.where}) has Everview {self.version}, the driver has {own_version()}",
            "install the driver's version on every machine, or give workers its path (spark.executorEnv.PYTHONPATH)",
        )


def _asking() -> Callable[[], str]:
    """A function that says which Everview the process has that calls it. Made here, so that it travels as code."""

    def version() -> str:
        import hashlib
        import os
        import sys

        try:
            import everview
        except ImportError as error:
            return f"none ({error}; Python {sys.version.split()[0]})"
        known = getattr(everview, "_identity", None)
        if known is None:
            digest = hashlib.blake2b(digest_size=4)
            root = os.path.dirname(everview.__file__)
            for folder, folders, names in os.walk(root):
                folders.sort()
                for name in sorted(n for n in names if n.endswith(".py")):
                    with open(os.path.join(folder, name), "rb") as file:
                        digest.update(name.encode() + file.read())
            known = everview._identity = f"{everview.__version__} ({digest.hexdigest()})"
        return str(known)

    return version


@cache
def own_version() -> str:
    """This process's Everview: version, and a hash of its files.

    >>> own_version().split()[0]
    '0.1.0'
    """
    return _asking()()


def guarded(name: str, *args: Any) -> Task:
    """The task `everview.spark.workers.tasks.<name>(partition, *args)`, for workers that have the driver's Everview;
    others answer with theirs.
    """
    version, ask = own_version(), _asking()

    def task(partition: Iterable[Any]) -> Iterator[bytes]:
        found = ask()
        if found != version:
            import socket

            said = f"[another Everview: {found} on {socket.gethostname()}]"
            if name in ("together", "gang_member"):  # the job's other tasks would wait for it
                raise RuntimeError(said)
            for _ in partition:
                pass
            yield said.encode()
            return
        from everview.spark.workers import tasks

        yield from getattr(tasks, name)(partition, *args)

    return task


def checked(data: Buffer) -> Buffer:
    """What a task answered, or the error that its worker has another Everview."""
    if bytes(data[:1]) == b"[":  # no message begins so
        other = other_in(RuntimeError(bytes(data).decode()))
        if other is not None:
            raise other
    return data


def other_in(error: BaseException) -> StoreError | None:
    """The error that a worker has another Everview, from the failure of a job, if that was its cause."""
    found = re.search(r"\[another Everview: ([^{}]+) on ([^{}\s]+)\]", str(error))  # not the line in the traceback
    return Other(*found.groups()).error() if found else None
