"""A log of recent steps and statements, while enabled.

A log is a hook around a session's steps and in front of its SQL; removing it restores both. It records what has
happened afterwards, and runs nothing.
"""

from __future__ import annotations

import datetime as dt
import itertools
import re
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from everview.errors import EverviewError
from everview.runtime.base import COMMITTED, ChangeSet, StepOutcome, row_count
from everview.runtime.step_hooks import install_hook, remove_hook

if TYPE_CHECKING:
    from everview.session.core import Core

LAST = 1000
"""Number of steps, and of statements, that are kept."""

LONGEST = 1000
"""Maximum length of a recorded statement."""

_clock = time.perf_counter_ns

_PASSWORD = re.compile(
    r"(\bpassword\s*=?\s*)(?:[a-z&]*'(?:[^']|'')*(?:'|$)|\$(\w*)\$.*?(?:\$\2\$|$))", re.IGNORECASE | re.DOTALL
)


class Log:
    """Records a session's steps and statements from now on."""

    def __init__(self, core: Core) -> None:
        self._steps: deque[tuple[Any, ...]] = deque(maxlen=LAST)
        self.statements: deque[tuple[Any, ...]] = deque(maxlen=LAST)
        self._core = core
        self._numbers = itertools.count(1)
        self._epoch = time.time_ns() - time.perf_counter_ns()
        self._step: Callable[[list[ChangeSet]], StepOutcome] = core.runtime.step
        install_hook(core.runtime, self._stepped)
        core.statement_log = self._ran

    def remove(self) -> None:
        """Stop recording."""
        remove_hook(self._core.runtime, self._stepped, self._step)
        self._core.statement_log = None

    @property
    def steps(self) -> list[tuple[Any, ...]]:
        """The last steps, as rows of `ev.steps`."""
        return [
            (now, _moment(end + self._epoch), (end - start) / 1e6, *rest)
            for now, start, end, *rest in list(self._steps)
        ]

    def _stepped(self, transactions: list[ChangeSet]) -> StepOutcome:
        """Run a step and note it. Each single change pays for this, so it only notes what it has at hand."""
        start = _clock()
        outcome = self._step(transactions)
        end = _clock()
        rows = 0
        for changes in transactions:
            for _, some, _ in changes:
                rows += len(some) if type(some) is list else row_count(some)
        error = "" if outcome is COMMITTED else _code(outcome.error)
        now = self._core.runtime.dataflow.time
        self._steps.append((now, start, end, len(transactions), rows, outcome.committed, error))
        return outcome

    def _ran(self, run: Callable[[Any], Any], statement: Any) -> Any:
        """Run a statement and note it. Several threads may do so at once."""
        start, code = time.perf_counter(), ""
        answer: Any = None
        try:
            answer = run(statement)
            return answer
        except EverviewError as error:
            code = error.code
            raise
        finally:
            ms = 1000 * (time.perf_counter() - start)
            rows = len(answer) if hasattr(answer, "types") else None
            text = without_passwords(statement.text.strip())[:LONGEST]
            self.statements.append((next(self._numbers), _now(), text, ms, rows, code))


def without_passwords(text: str) -> str:
    """A statement as it may be shown to others.

    >>> without_passwords("ALTER USER ann PASSWORD 'it''s secret' LOGIN")
    "ALTER USER ann PASSWORD '***' LOGIN"
    """
    return _PASSWORD.sub(r"\1'***'", text)


def _code(error: BaseException | None) -> str:
    return "" if error is None else getattr(error, "code", type(error).__name__)


def _moment(ns: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(ns / 1e9, dt.UTC).replace(tzinfo=None)


def _now() -> dt.datetime:
    return _moment(time.time_ns())
