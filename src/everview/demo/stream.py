"""New mentions arrive as files in a directory, and Spark Structured Streaming reads them: one file, one micro-batch.

Spark takes seconds to start, so it is started in a thread while the story's first act runs. Where it cannot start, or
not in time, Everview reads the same files itself; the rest of the program is the same.
"""

from __future__ import annotations

import threading
import warnings
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import everview as ev
from everview.demo.data import Mentions
from everview.errors import EverviewError, InputError

QUIET = """rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c{1}: %m%n
"""
"""Log4j's settings: Spark's warnings while it starts would be all over the dashboard."""

SCHEMA = "slot long, src long, dst long, tag string"


def place(home: Path) -> Path:
    """The directory below `home` for the stream's files, which must not be there yet."""
    folder = home / "mentions"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError("E_FILE", f"{folder} cannot be made: {error.strerror}", "give another directory") from None
    if any(folder.iterdir()):
        raise InputError("E_NOT_EMPTY", f"{folder} has files already", "give another directory, or empty this one")
    return folder


def write(folder: Path, mentions: Mentions, first: int, last: int, slots_per_file: int) -> int:
    """Write the mentions of slots first to last as files; how many."""
    starts = range(first, last, slots_per_file)
    for number, start in enumerate(starts):
        part = mentions.between(start, min(start + slots_per_file, last))
        pq.write_table(part.to_arrow(), folder / f"{number:04}.parquet")
    return len(starts)


class SparkStart:
    """A SparkSession that is on its way."""

    def __init__(self, home: Path) -> None:
        self._settings = home / "log4j2.properties"
        self._settings.write_text(QUIET)
        self._session: Any = None
        self._problem = ""
        self._thread = threading.Thread(target=self._start, name="spark-start", daemon=True)
        self._thread.start()

    def _start(self) -> None:
        try:
            from everview.spark.local import local_session

            warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")  # about pandas
            quiet = {"spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={self._settings}"}
            self._session = local_session("local[2]", app="everview-demo", **quiet)
        except EverviewError as error:
            self._problem = str(error)
        except Exception as error:  # whatever Spark and Java come up with: the story can do without
            self._problem = f"{type(error).__name__}: {error}".splitlines()[0]

    def wait(self, seconds: float) -> tuple[Any, str]:
        """(the session, "") or (None, why there is none), after so many seconds at most."""
        self._thread.join(max(seconds, 0.0))
        if self._thread.is_alive():
            return None, "Spark has not started in time"
        return self._session, self._problem

    def stop(self) -> None:
        """End Spark, if it ever started."""
        if not self._thread.is_alive() and self._session is not None:
            self._session.stop()


def source(folder: Path, session: Any) -> Any:
    """The files as a source: a streaming DataFrame, or Everview's own reader without a Spark session."""
    if session is None:
        return ev.io.parquet(folder)
    return session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder))
