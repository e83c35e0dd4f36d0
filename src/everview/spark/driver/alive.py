"""Whether there still is a Spark to talk to.

The Python driver speaks to a JVM through Py4J. A JVM that ends on its own (killed for its memory, say) leaves a
SparkContext that looks like any other, and every call to it fails like a job that Spark gave up. But a job may be tried
again and that JVM will not come back, so the two must be told apart: after a failure, and only then, the JVM is asked
something cheap. A JVM that lives may still have stopped its SparkContext, when its application was ended by the cluster
manager, for example.

Hazard: a JVM that is stopped (SIGSTOP) or unreachable does not answer, and Py4J waits for answers without end.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from everview.errors import EverviewError, InputError

_DEAD = "Spark's JVM has ended"
_STOPPED = "the SparkSession has been stopped"


def lost(context: Any) -> InputError | None:
    """The error that says why a SparkContext is of no use any more; None if it is alive, or a stand-in for one."""
    if getattr(context, "_jsc", context) is None:
        return InputError("E_SPARK", _STOPPED, "close this session, and open another with a new SparkSession")
    if not type(context).__module__.startswith("pyspark."):
        return None
    try:
        stopped = context._jsc.sc().isStopped()
    except Exception as error:  # Py4J has many ways to say that nobody answers
        made = InputError("E_SPARK", _DEAD, "what was committed is safe: start this program again, with a new Spark")
        made.__cause__ = error
        return made
    if stopped:
        return InputError("E_SPARK", _STOPPED, "close this session, and open another with a new SparkSession")
    return None


@contextmanager
def asking(context: Any) -> Iterator[None]:
    """What fails here because Spark is lost says so; other errors come out as they are."""
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
    """What fails here because Spark is lost need not be done: it gave back something that went with it."""
    try:
        yield
    except Exception:
        if lost(context) is None:
            raise
