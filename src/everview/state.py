"""What a session is made of: its dataflow, its tables and views, what is under way.

`Session` is put together from parts that share this state: `transacting` (changes and steps), `listening`
(subscribers), `inspecting` (statistics and explanations) and, on top, `session` itself (tables, views, languages).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from everview.codes.interner import Interner
from everview.dataflow.builder import Builder
from everview.dataflow.graph import Graph
from everview.dataflow.operators import Operator, Trace
from everview.errors import ClosedError, InputError
from everview.table import Table
from everview.view import View

if TYPE_CHECKING:
    from everview.clock import Clock
    from everview.transacting import Work


class State:
    """The state of a session, and what every part of it needs."""

    _files = True
    """whether SQL may name files to read and write"""

    def __init__(
        self, *, history: int = 1000, merge_effort: int = 4, threads: int = 1, interner: Interner | None = None
    ) -> None:
        if threads not in (1, 2):
            raise InputError("E_THREADS", f"threads={threads!r}: a session works with one thread or two", "give 1 or 2")
        check_count("history", history, 0)
        check_count("merge_effort", merge_effort, 1)
        self._interner = interner or Interner()
        self._graph, self._builder = self._dataflow(merge_effort)
        if threads == 2:
            self._graph.share_work()
        self._history = history
        self._writing: Any = threading.RLock()
        """Held by the thread whose transaction is under way, for as long as it is; taken before `_lock`, never after"""
        self._lock: Any = threading.RLock()
        """Held while the dataflow runs, is changed or is read: in a turn, see `everview.turns`"""
        self._unsettled = False
        """Whether a turn is under way, or ended in a way that nobody foresaw"""
        self._underway: tuple[list[Work], int] | None = None
        """The transactions of a step whose end was not noted yet, and the time before it"""
        self._left: deque[tuple[Trace, int]] = deque()
        """Times that snapshots do not need any more; they go in any thread, at any moment"""
        self._tables: dict[str, Table] = {}
        self._views: dict[str, View] = {}
        self._node_ids = 0
        self._closed = False
        self._staged: Work | None = None
        self._staged_by = 0  # the thread whose transaction it is
        self._queued: list[Work] | None = None
        self._marks: dict[str, str] = {}
        """What was marked in complete transactions: positions of sources and sinks, say"""
        self._listening: list[View] = []
        self._deliveries: deque[Callable[[], Any]] = deque()
        self._delivering = threading.Lock()
        self._clock: Clock

    def _dataflow(self, merge_effort: int) -> tuple[Graph, Builder]:
        """An empty dataflow and what builds it."""
        graph = Graph(self._interner, merge_effort)
        return graph, Builder(graph)

    def _alive(self) -> None:
        if self._closed:
            raise ClosedError("E_CLOSED", "the session is closed", "open a new one with everview.connect()")

    def _changing(self) -> None:
        """Called before anything is changed: a step under way calls users' functions, and those must not."""
        self._alive()
        if self._graph.serving == threading.get_ident():
            raise InputError(
                "E_REENTRANT",
                "a function that a step calls cannot change the session",
                "let it depend on its arguments alone; a subscriber, which is called after the step, may change tables",
            )

    def _prepare(self) -> None:
        """Called at the beginning of a turn, if there is anything to do: let go of what snapshots held, and put in
        order what a turn has left that was cut off.
        """
        while self._left:
            trace, time = self._left.popleft()
            if not self._closed:
                trace.release(time)
        if self._unsettled and not self._closed:
            self._settle()
        self._unsettled = False

    def _settle(self) -> None:
        """Put everything in order, whatever was under way; twice does no harm."""
        self._graph.settle()

    @property
    def time(self) -> int:
        """The last complete time: 0 at the start, one more with every transaction."""
        return self._graph.time + (len(self._queued) if self._queued else 0)

    def _sync(self, *operators: Operator) -> None:
        """Called before the traces of operators are read: here they are always complete."""


def check_count(what: str, number: Any, least: int) -> None:
    """Refuse an option that is no whole number, or too small.

    >>> check_count("history", -1, 0)
    Traceback (most recent call last):
        ...
    everview.errors.InputError: [E_RANGE] history=-1
      hint: give a whole number, 0 or more
    """
    if not isinstance(number, int) or isinstance(number, bool) or number < least:
        raise InputError("E_RANGE", f"{what}={number!r}", f"give a whole number, {least} or more")
