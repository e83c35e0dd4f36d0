"""`everview.connect(spark, state=...)`: validates its arguments before anything is opened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everview.errors import InputError, did_you_mean
from everview.plan.trust import Trust
from everview.spark.driver.liveness import lost

if TYPE_CHECKING:
    from everview.session.session import Session

OPTIONS = ("state", "shards", "alone_rows", "alone_bytes", "linger", "forget", "read_only", "trust", "functions")


def open_on_spark(
    spark: Any, *, read_only: bool = False, trust: bool = False, functions: Any = (), **options: Any
) -> Session:
    """Open a session on Spark; with `read_only`, a follower of another session, which needs no Spark."""
    from everview.recovery.opening import open_directory
    from everview.spark.session import spark_session

    for name in options:
        if name not in (*OPTIONS, "history", "merge_effort"):
            raise InputError("E_OPTION", f"a session on Spark has no option {name!r}", did_you_mean(name, OPTIONS))
    if not options.get("state"):
        raise InputError("E_OPTION", "a session on Spark needs a directory", 'connect(spark, state="directory")')
    _check(spark)
    _check_number("shards", options.get("shards"), 1, 4096)
    for name in ("alone_rows", "alone_bytes"):
        _check_number(name, options.get(name), 0, None)
    for name in ("linger", "forget"):
        seconds = options.get(name)
        if seconds is not None and not (isinstance(seconds, int | float) and seconds >= 0):
            raise InputError("E_OPTION", f"{name} is {seconds!r}", "give seconds, 0 or more")
    if read_only:
        reading = {name: options[name] for name in ("history", "merge_effort")}
        return open_directory(options["state"], read_only=True, trust=trust, functions=functions, **reading)
    return spark_session(spark, trust=Trust.of(trust, functions, str(options["state"])), **options)


def _check(spark: Any) -> None:
    """Reject SparkSessions that cannot run our jobs: only the driver of an application can."""
    kind = type(spark).__module__
    if kind.startswith("pyspark.sql.connect"):
        raise InputError(
            "E_SPARK",
            "a Spark Connect session cannot run Everview's jobs: there is no SparkContext on this side",
            'run where the driver is, with a classic session (.config("spark.api.mode", "classic"), no .remote(...))',
        )
    if not hasattr(spark, "sparkContext"):
        raise InputError("E_SPARK", f"a {type(spark).__name__} is not a SparkSession", "give connect a SparkSession")
    if (gone := lost(spark.sparkContext)) is not None:
        raise gone


def _check_number(name: str, given: Any, least: int, most: int | None) -> None:
    if given is None:
        return
    whole = isinstance(given, int) and not isinstance(given, bool)
    if not whole or given < least or (most is not None and given > most):
        hint = f"give a whole number, {least} or more" if most is None else f"give a number from {least} to {most}"
        raise InputError("E_OPTION", f"{name} is {given!r}", hint)
