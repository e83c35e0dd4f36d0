"""A log of recent steps and statements, while enabled.

It records what has happened afterwards, and runs nothing. Removing it leaves the session as it was.
"""

from __future__ import annotations

import datetime as dt
import itertools
import re
import time
from collections import deque
from collections.abc import Callable
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from everview.dataflow.step_notes import StepNotes
from everview.errors import EverviewError
from everview.runtime.base import ChangeSet, StepOutcome, row_count
from everview.runtime.embedded import EmbeddedRuntime
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
    """Records a session's steps and statements from now on.

    Steps in memory take notes themselves (`everview.dataflow.step_notes`), which costs a hundredth of a single change.
    A hook in Python costs a twentieth. Steps that also write, or run elsewhere, have it; it times all of the step.
    """

    def __init__(self, core: Core) -> None:
        self._steps: deque[tuple[Any, ...]] = deque(maxlen=LAST)
        self.statements: deque[tuple[Any, ...]] = deque(maxlen=LAST)
        self._core = core
        self._numbers = itertools.count(1)
        self._epoch = time.time() - time.perf_counter()
        self._beneath: Step = core.runtime.step
        self._stepped: Step | None = None
        if _in_memory(core):
            core.runtime.dataflow.note_steps(self._step_ended)
        else:
            self._stepped = self._noting(self._beneath)
            install_hook(core.runtime, self._stepped)
        core.statement_log = self._ran

    def remove(self) -> None:
        """Stop recording."""
        if self._stepped is not None:
            remove_hook(self._core.runtime, self._stepped, self._beneath)
        else:
            self._core.runtime.dataflow.note_steps(None)
        self._core.statement_log = None

    @property
    def steps(self) -> list[tuple[Any, ...]]:
        """The last steps, as rows of `ev.steps`, in the order in which they ended."""
        noted = list(self._steps)
        told = {now for _, _, now, _, _, committed, _ in noted if committed}
        notes = self._core.runtime.dataflow.notes
        small = () if notes is None else ((*note, 1, True, "") for note in notes.small() if note[2] not in told)
        ended = sorted((*noted, *small), key=itemgetter(1))[-LAST:]
        return [
            (now, _moment(end + self._epoch), 1000 * (end - start), transactions, rows, committed, error)
            for start, end, now, rows, transactions, committed, error in ended
        ]

    def _noting(self, step: Step) -> Step:
        """A step that is noted."""
        clock, note = time.perf_counter, self._step_ended

        def stepped(transactions: list[ChangeSet]) -> StepOutcome:
            start = clock()
            outcome = step(transactions)
            note(start, transactions, outcome.committed, outcome.error)
            return outcome

        return stepped

    def _step_ended(
        self, start: float, transactions: list[ChangeSet], committed: bool, error: BaseException | None
    ) -> None:
        """Note a step that began at a time of `time.perf_counter`."""
        end = time.perf_counter()
        code = "" if error is None else _stopped_by(self._core, error)
        if not is_given_up(code):
            rows = sum(row_count(some) for changes in transactions for _, some, _ in changes)
            now = self._core.runtime.dataflow.time
            self._steps.append((start, end, now, rows, len(transactions), committed, code))

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


def _in_memory(core: Core) -> bool:
    """Whether a step is one of this process's dataflow and nothing else."""
    runtime = core.runtime
    return (
        isinstance(runtime, EmbeddedRuntime) and runtime.log is None and runtime.spill is None and StepNotes.possible()
    )


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
