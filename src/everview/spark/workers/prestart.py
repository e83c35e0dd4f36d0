"""Starting Python workers before the first step needs them.

A worker takes a second or two to start: Spark forks it, it imports Everview and links kernels. The JVM takes about as
long from its SparkContext to its SparkSession and leaves the other core idle. So an empty job starts the workers
meanwhile; Spark reuses them for later jobs.
"""

from __future__ import annotations

import contextlib
import threading
from typing import Any


def early(context: Any) -> None:
    """Start a worker for every slot, without waiting. Failures are ignored: a later job will report them."""

    def work() -> None:
        with contextlib.suppress(Exception):
            slots = context.defaultParallelism
            context.parallelize(range(slots), slots).foreach(_ready)

    threading.Thread(target=work, name="everview workers", daemon=True).start()


def _ready(_: int) -> None:
    """On a worker: import what tasks need."""
    from everview.spark.workers import tasks  # noqa: F401
