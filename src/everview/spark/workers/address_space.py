"""The address space limit of a Spark worker: `spark.executor.pyspark.memory`.

Spark sets that limit for each Python worker to the given size divided by the executor's cores. Mapped files count in
full, although they live in the page cache. A step in one task maps the state of all shards. So a worker checks before
it maps: if the state does not fit it reports so, and the driver runs such steps in several tasks from then on, each of
which maps only its own shards. If that is not enough either, the error reaches the user.
"""

from __future__ import annotations

import resource
from pathlib import Path

from everview.errors import StoreError

STEP_BYTES = 1 << 27
"""Bytes that a step needs in addition: input, sorting, threads."""


class NoAddressSpace(StoreError):
    """The shards to run do not fit into the address space of this worker."""


def limit() -> int | None:
    """The address space limit of this process, in bytes."""
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if soft == resource.RLIM_INFINITY else soft


def used() -> int:
    """The address space used by this process, in bytes.

    >>> used() > 10_000_000
    True
    """
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def check(state: int) -> None:
    """Refuse to map this many more bytes if they and a step would not fit."""
    allowed = limit()
    if allowed is None:
        return
    needed = used() + state + STEP_BYTES
    if needed > allowed:
        raise NoAddressSpace(
            "E_MEMORY",
            f"a Spark worker may have {allowed >> 20} MB of address space and needs {needed >> 20} MB, as it maps "
            f"{state >> 20} MB of state",
            "raise spark.executor.pyspark.memory (each worker gets it divided by the executor's cores), or leave it "
            "out: files that are mapped take no memory of the worker",
        )
