"""What a sink is: something that is given a view's changes, time by time, and can say how far it got.

The session commits first, the sink writes after. A crash between the two leaves the sink behind, never ahead; when the
pipeline starts again, the sink is asked for the last time it *holds*, and is given what came later. So the sink's own
contents are the only record of its position, and there is no second one to disagree with it. All that is asked of a
sink is that the changes of one time appear whole or not at all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import pyarrow as pa

from everview.errors import InputError
from everview.io.checks import lacks
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
    """Whether what it holds outlives the process, so that it must know whose it is"""

    def open(self, identity: str, columns: dict[str, DataType], mode: SinkMode) -> int | None:
        """Get ready to be written by the view with this identity; the last time the sink holds, None if it is empty."""
        raise lacks(self, "open", "E_SINK")

    def write(self, batch: Batch) -> None:
        """Take the changes of one time, whole or not at all."""
        raise lacks(self, "write", "E_MODE", 'use mode="snapshot", or define it')

    def replace(self, rows: pa.Table, time: int) -> None:
        """Hold these rows, the contents at a time, instead of all others."""
        raise lacks(self, "replace", "E_MODE", 'use mode="changes", or define it')

    def held(self) -> pa.Table:
        """All changes it holds, as `Batch.to_arrow` returns them: for catching up when the view's history is gone."""
        raise lacks(self, "held", "E_SINK", "open the session with more history, empty the sink, or define it")

    def describe(self) -> str:
        """A few words for errors; it also names the sink among a view's sinks."""
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
