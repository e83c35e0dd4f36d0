"""The sink interface: receives a view's changes, time by time, and reports its position.

The session commits first, then the sink writes. A crash between the two leaves the sink behind, never ahead; on restart
the sink reports the last time it *holds* and receives what came later. The sink's own contents are thus the only record
of its position, and there is no second one that could disagree. The only requirement is that the changes of one time
appear atomically.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import pyarrow as pa

from everview.errors import InputError
from everview.io.validation import lacks
from everview.session.changes.batch import Batch
from everview.types import DataType

SinkMode = Literal["changes", "snapshot"]


class Sink:
    """Where a view's changes go. Made by `everview.io.csv`, `json`, `parquet`, `arrow`, `foreach`, `jdbc`, `delta`,
    `kafka`; subclass it for others.

    >>> import everview as ev
    >>> class Printer(ev.io.Sink):
    ...     lasting = False
    ...     def open(self, identity, columns, mode):
    ...         print("columns:", *columns)
    ...     def write(self, batch):
    ...         print(batch.time, batch.rows())
    >>> db = ev.connect()
    >>> t = db.table("t", {"x": int})
    >>> outlet = db.view("v", t.distinct()).write_to(Printer())
    columns: x
    >>> t.insert([(7,)])
    1 [((7,), 1)]
    """

    lasting = True
    """Whether its contents outlive the process, so that it must record its owner"""

    def open(self, identity: str, columns: dict[str, DataType], mode: SinkMode) -> int | None:
        """Prepare for the view with this identity; return the last time in the sink, None if it is empty."""
        raise lacks(self, "open", "E_SINK")

    def write(self, batch: Batch) -> None:
        """Write the changes of one time atomically."""
        raise lacks(self, "write", "E_MODE", 'use mode="snapshot", or define it')

    def replace(self, rows: pa.Table, time: int) -> None:
        """Replace the contents by these rows, the view's at a time."""
        raise lacks(self, "replace", "E_MODE", 'use mode="changes", or define it')

    def held(self) -> pa.Table:
        """All changes in the sink, as `Batch.to_arrow` returns them: for catching up when the view's history is
        gone."""
        raise lacks(self, "held", "E_SINK", "open the session with more history, empty the sink, or define it")

    def describe(self) -> str:
        """A short description for errors; it also identifies the sink among a view's sinks."""
        return type(self).__name__


class Foreach(Sink):
    """A function that is called with each time's changes."""

    def __init__(self, function: Callable[[Batch], Any], position: Callable[[], int | None] | None) -> None:
        for given, what in ((function, "foreach"), (position, "position")):
            if not callable(given) and (given is not None or what == "foreach"):
                raise InputError("E_TYPE", f"{what}: {given!r} cannot be called", "give a function")
        self._function = function
        self._position = position
        self.lasting = False

    def open(self, identity: str, columns: dict[str, DataType], mode: SinkMode) -> int | None:
        return None if self._position is None else self._position()

    def write(self, batch: Batch) -> None:
        self._function(batch)

    def describe(self) -> str:
        return f"foreach {getattr(self._function, '__qualname__', repr(self._function))}"
