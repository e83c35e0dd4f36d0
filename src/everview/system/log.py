"""Steps and statements as they happen: the last few of each, while somebody wants to know.

A log stands between a session and what runs its steps, and in front of its SQL; when it is taken away, both are as they
were. It notes what has happened after it has happened, and runs nothing.
"""

from __future__ import annotations

import datetime as dt
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from everview.errors import EverviewError
from everview.runtime.attendance import stand_before, step_aside
from everview.runtime.base import ChangeSet, StepOutcome, row_count

if TYPE_CHECKING:
    from everview.session.core import Core

LAST = 1000
"""Steps, and statements, that are remembered."""

LONGEST = 1000
"""Letters of a statement that are."""


class Log:
    """Notes a session's steps and statements from now on."""

    def __init__(self, core: Core, sql: Any) -> None:
        self.steps: deque[tuple[Any, ...]] = deque(maxlen=LAST)
        self.statements: deque[tuple[Any, ...]] = deque(maxlen=LAST)
        self._core = core
        self._sql = sql
        self._number = 0
        self._step: Callable[[list[ChangeSet]], StepOutcome] = core.runtime.step
        self._run_one: Callable[[Any], Any] = sql._run_one
        stand_before(core.runtime, self._stepped)
        sql._run_one = self._ran

    def remove(self) -> None:
        """Note nothing any more."""
        step_aside(self._core.runtime, self._stepped, self._step)
        del self._sql.__dict__["_run_one"]

    def _stepped(self, transactions: list[ChangeSet]) -> StepOutcome:
        start = time.perf_counter()
        outcome = self._step(transactions)
        ms = 1000 * (time.perf_counter() - start)
        rows = sum(row_count(rows) for changes in transactions for _, rows, _ in changes)
        code = "" if outcome.error is None else getattr(outcome.error, "code", type(outcome.error).__name__)
        now = self._core.runtime.dataflow.time
        self.steps.append((now, _now(), ms, len(transactions), rows, outcome.committed, code))
        return outcome

    def _ran(self, statement: Any) -> Any:
        start, code = time.perf_counter(), ""
        answer: Any = None
        try:
            answer = self._run_one(statement)
            return answer
        except EverviewError as error:
            code = error.code
            raise
        finally:
            ms = 1000 * (time.perf_counter() - start)
            self._number += 1
            rows = len(answer) if hasattr(answer, "types") else None
            self.statements.append((self._number, _now(), statement.text.strip()[:LONGEST], ms, rows, code))


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC).replace(tzinfo=None)
