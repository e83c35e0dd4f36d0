"""Detecting that Spark itself is gone.

The Python driver talks to a JVM through Py4J. When the JVM dies (killed for its memory, say), the SparkContext object
survives, and every call to it fails like an aborted job. A job can be retried; a dead JVM cannot. To tell the two
apart, a cheap call probes the JVM after a failure, and only then. A live JVM may also have stopped its SparkContext,
for example when the cluster manager ended the application.

Hazard: a JVM that is stopped (SIGSTOP) or unreachable does not respond, and Py4J has no timeout.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from everview.errors import EverviewError, InputError

_DEAD = "Spark's JVM has ended"
_STOPPED = "the SparkSession has been stopped"


def lost(context: Any) -> InputError | None:
    """The error that explains why a SparkContext is unusable; None if it is alive, or a test double."""
    if getattr(context, "_jsc", context) is None:
        return InputError("E_SPARK", _STOPPED, "close this session, and open another with a new SparkSession")
    if not type(context).__module__.startswith("pyspark."):
        return None
    try:
        stopped = context._jsc.sc().isStopped()
    except Exception as error:  # Py4J reports a missing JVM in many ways
        made = InputError("E_SPARK", _DEAD, "what was committed is safe: start this program again, with a new Spark")
        made.__cause__ = error
        return made
    if stopped:
        return InputError("E_SPARK", _STOPPED, "close this session, and open another with a new SparkSession")
    return None


@contextmanager
def asking(context: Any) -> Iterator[None]:
    """Failures inside the block that are caused by a lost Spark are reported as such; others pass through."""
    try:
        yield
    except EverviewError:
        raise
    except Exception as error:
        gone = lost(context)
        if gone is None:
            raise
        raise gone from error


@contextmanager
def unless_lost(context: Any) -> Iterator[None]:
    """Ignore failures inside the block that are caused by a lost Spark: the resource to release went with it."""
    try:
        yield
    except Exception:
        if lost(context) is None:
            raise
