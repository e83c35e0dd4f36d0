"""Address space of a Spark worker, where it is limited: `spark.executor.pyspark.memory`.

Spark sets that limit for each Python worker, as the given size divided by the executor's cores, and files that a worker
maps count in full, though the page cache has them and not the worker. A step of one task maps the state of all shards.
So a worker asks before it maps: if there is no room it says so, and the driver has such steps run by several tasks from
then on, each of which maps its own shards only. Where that is not enough either the error reaches the user.
"""

from __future__ import annotations

import resource
from pathlib import Path

from everview.errors import StoreError

STEP_BYTES = 1 << 27
"""What a step needs besides: input, sorting, threads."""


class NoAddressSpace(StoreError):
    """A worker may not map as much as the shards it should run have."""


def limit() -> int | None:
    """Bytes of address space that this process may have."""
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if soft == resource.RLIM_INFINITY else soft


def used() -> int:
    """Bytes of address space that this process has.

    >>> used() > 10_000_000
    True
    """
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def check(state: int) -> None:
    """Refuse to map so many bytes more if they and a step would not fit."""
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
