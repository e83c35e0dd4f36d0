"""A Spark session that is on its way while a story has begun, and says nothing on the story's screen.

Spark takes seconds to start, so it is started in a thread. Where it cannot start, or not in time, a story does without:
Everview reads the same files itself, and the rest of the program is the same.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

from everview.errors import EverviewError, InputError


class SparkStart:
    """A SparkSession that is on its way; what its JVM says is in the file `log`."""

    def __init__(self, log: Path) -> None:
        self.log = log.resolve()
        self.took = 0.0
        """Seconds, when it has started"""
        self._session: Any = None
        self._problem = ""
        self._thread = threading.Thread(target=self._start, name="spark-start", daemon=True)
        self._thread.start()

    def _start(self) -> None:
        started = time.perf_counter()
        try:
            from everview.spark.java.jvm_output import chatter_in
            from everview.spark.local import local_session

            with chatter_in(self.log):
                self._session = local_session("local[2]", app="everview-demo")
        except EverviewError as error:
            self._problem = error.message
        except Exception as error:  # whatever Spark and Java come up with: the story can do without
            self._problem = f"{type(error).__name__}: {error}".splitlines()[0]
        self.took = time.perf_counter() - started

    @property
    def on_its_way(self) -> bool:
        """Whether it may still start."""
        return self._thread.is_alive()

    def wait(self, seconds: float) -> tuple[Any, str]:
        """(the session, "") or (None, why there is none), after so many seconds at most."""
        self._thread.join(max(seconds, 0.0))
        if self._thread.is_alive():
            return None, "it has not started in time"
        return self._session, self._problem

    def stop(self) -> None:
        """End Spark, if it ever started."""
        if not self._thread.is_alive() and self._session is not None:
            self._session.stop()


def place(home: Path, name: str) -> Path:
    """The directory `name` below `home`, for files that must not be there yet."""
    folder = home / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError("E_FILE", f"{folder} cannot be made: {error.strerror}", "give another directory") from None
    if any(folder.iterdir()):
        raise InputError("E_NOT_EMPTY", f"{folder} already has files", "give another directory, or empty this one")
    return folder
