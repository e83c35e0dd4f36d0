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
from everview.runtime.step_hooks import Step, install_hook, remove_hook
from everview.session.limits import is_given_up

if TYPE_CHECKING:
    from everview.session.core import Core

LAST = 1000
"""Number of steps, and of statements, that are kept."""

LONGEST = 1000
"""Maximum length of a recorded statement."""

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
        self._epoch = time.time() - time.perf_counter()
        self._beneath: Step = core.runtime.step
        self._stepped = _noting(core, self._beneath, self._steps.append)
        install_hook(core.runtime, self._stepped)
        core.statement_log = self._ran

    def remove(self) -> None:
        """Stop recording."""
        remove_hook(self._core.runtime, self._stepped, self._beneath)
        self._core.statement_log = None

    @property
    def steps(self) -> list[tuple[Any, ...]]:
        """The last steps, as rows of `ev.steps`."""
        return [
            (now, _moment(end + self._epoch), 1000 * (end - start), *_counted(*rest))
            for start, end, now, *rest in list(self._steps)
        ]

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
            if not is_given_up(code):
                self.statements.append((next(self._numbers), _now(), text, ms, rows, code))


def _counted(rows: int, transactions: int = 1, committed: bool = True, error: str = "") -> tuple[Any, ...]:
    """The number of transactions and rows of a step, and how it ended."""
    return transactions, rows, committed, error


def _noting(core: Core, step: Step, note: Callable[[tuple[Any, ...]], None]) -> Step:
    """A step that is noted. Every single change passes here, so it is a closure, which takes a third of the time of a
    method, and of a single transaction it only notes what is at hand: the rows of each table it changes. Iterating
    over these is faster than looking whether there is one.
    """
    clock, runtime = time.perf_counter, core.runtime

    def stepped(transactions: list[ChangeSet]) -> StepOutcome:
        start = clock()
        outcome = step(transactions)
        end = clock()
        if outcome is COMMITTED and len(transactions) == 1:
            rows = 0
            for _, some, _ in transactions[0]:
                rows += len(some) if type(some) is list else row_count(some)
            note((start, end, runtime.dataflow.time, rows))
            return outcome
        error = "" if outcome.error is None else _stopped_by(core, outcome.error)
        if not is_given_up(error):
            rows = sum(row_count(some) for changes in transactions for _, some, _ in changes)
            note((start, end, runtime.dataflow.time, rows, len(transactions), outcome.committed, error))
        return outcome

    return stepped


def _stopped_by(core: Core, error: BaseException) -> str:
    """Why a step failed: one that is stopped fails for whatever reason comes first."""
    stop = core.stop
    return _code(error if stop is None else stop.error())


def without_passwords(text: str) -> str:
    """A statement as it may be shown to others.

    >>> without_passwords("ALTER USER ann PASSWORD 'it''s secret' LOGIN")
    "ALTER USER ann PASSWORD '***' LOGIN"
    """
    return _PASSWORD.sub(r"\1'***'", text)


def _code(error: BaseException) -> str:
    return getattr(error, "code", type(error).__name__)


def _moment(seconds: float) -> dt.datetime:
    return dt.datetime.fromtimestamp(seconds, dt.UTC).replace(tzinfo=None)


def _now() -> dt.datetime:
    return _moment(time.time())
