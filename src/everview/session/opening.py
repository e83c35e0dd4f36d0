"""Chooses the kind of session for `connect`: in memory, in a directory, on Spark."""

from __future__ import annotations

import os
from typing import Any

from everview.dataflow.shield import shielded
from everview.errors import InputError, did_you_mean
from everview.expr import nesting
from everview.runtime.embedded import EmbeddedRuntime
from everview.session import doors
from everview.session.core import Core
from everview.session.history import History
from everview.session.limits import size_of
from everview.session.names.arguments import check_count
from everview.session.session import Session


def embedded(
    *, history: History = 1000, merge_effort: int = 4, threads: int | None = None, memory: int | None = None
) -> Session:
    """A session in memory."""
    check_count("merge_effort", merge_effort, 1)
    check_threads(threads)
    runtime = EmbeddedRuntime(merge_effort=merge_effort, threads=threads, memory=memory, packs=memory is None)
    return Session(Core(runtime, history=history))


def check_threads(threads: Any) -> None:
    """Refuse an invalid number of threads; None selects the default."""
    if threads is None:
        return
    if not isinstance(threads, int) or isinstance(threads, bool) or threads < 1:
        raise InputError("E_THREADS", f"threads={threads!r} is not a number of threads", "give 1, 2 or more")


@shielded
def opened(
    target: Any, *, history: History, merge_effort: int, threads: int | None, options: dict[str, Any]
) -> Session:
    """Open the session that the arguments of `connect` describe."""
    if "memory" in options:
        options["memory"] = size_of(options["memory"])
        if target is not None and not isinstance(target, (str, os.PathLike)):
            hint = "Spark's workers map their state from files already; leave it out"
            raise InputError("E_OPTION", "memory= is for sessions in this process", hint)
    if target is None and not options.keys() - {"memory"}:
        return embedded(history=history, merge_effort=merge_effort, threads=threads, **options)
    check_threads(threads)
    if isinstance(target, (str, os.PathLike)):
        with nesting.room():  # views may have deep expressions
            return doors.open_directory(target, history=history, merge_effort=merge_effort, threads=threads, **options)
    if hasattr(target, "sparkContext") or type(target).__module__.startswith("pyspark."):
        return doors.open_on_spark(target, history=history, merge_effort=merge_effort, **options)
    if target is None:
        unknown = next(iter(options.keys() - {"memory"}))
        hint = did_you_mean(unknown, ("history", "merge_effort", "threads", "memory", "adaptive"))
        if not hint.startswith("did you mean"):
            hint = f"give a directory if it is about one: everview.connect(directory, {unknown}=...)"
        raise InputError("E_OPTION", f"a session in memory has no option {unknown!r}", hint)
    raise InputError(
        "E_TARGET",
        f"cannot connect to {target!r}" + (f" with {', '.join(options)}" if options else ""),
        "call everview.connect() for a session in memory, everview.connect(directory) for a durable one",
    )
