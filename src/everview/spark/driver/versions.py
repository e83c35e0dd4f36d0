"""Version check: workers must run the same Everview as the driver.

Driver and workers build the same operators from the same commands and identify them by number, so a different version
would fail somewhere inside at best. Every task therefore checks first. The check travels with the task as code, because
the installed version on the worker might not have it.
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
    """The answer of a worker with a different Everview: its version and location. Travels as a plain tuple."""

    version: str
    where: str

    def error(self) -> StoreError:
        """The error message on the driver."""
        return StoreError(
            "E_VERSION",
            f"a Spark worker ({self.where}) has Everview {self.version}, the driver has {own_version()}",
            "install the driver's version on every machine, or give workers its path (spark.executorEnv.PYTHONPATH)",
        )


def _asking() -> Callable[[], str]:
    """A function that returns the Everview version of the process that calls it. Defined here so that it travels as
    code.
    """

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
    """The task `everview.spark.workers.tasks.<name>(partition, *args)` for workers with the driver's Everview; other
    workers answer with their version.
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
    """A task's answer, or the error that its worker has a different Everview."""
    if bytes(data[:1]) == b"[":  # no message begins so
        other = other_in(RuntimeError(bytes(data).decode()))
        if other is not None:
            raise other
    return data


def other_in(error: BaseException) -> StoreError | None:
    """The version error behind a failed job, if that was its cause."""
    found = re.search(r"\[another Everview: ([^{}]+) on ([^{}\s]+)\]", str(error))  # not the line in the traceback
    return Other(*found.groups()).error() if found else None
