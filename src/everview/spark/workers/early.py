"""Python workers that are there before the first step needs them.

A worker takes a second or two to start: Spark forks it, it imports Everview and links kernels. The JVM takes about as
long again from its SparkContext to its SparkSession, and leaves the other core idle. So a job that does nothing has
the workers started meanwhile; Spark keeps them for the jobs to come.
"""

from __future__ import annotations

import contextlib
import threading
from typing import Any


def early(context: Any) -> None:
    """Have a worker started for every slot, without waiting for them. Whatever goes wrong, a later job will tell."""

    def work() -> None:
        with contextlib.suppress(Exception):
            slots = context.defaultParallelism
            context.parallelize(range(slots), slots).foreach(_ready)

    threading.Thread(target=work, name="everview workers", daemon=True).start()


def _ready(_: int) -> None:
    """On a worker: import what tasks need."""
    from everview.spark.workers import tasks  # noqa: F401
