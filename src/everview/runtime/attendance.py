"""Standing between a session and what runs its steps: what notes them, and what looks after plans.

Who stands there is called instead of `Runtime.step`, and calls what stood there before. Several may, one before the
other; each steps aside by itself.

Hazard: a runtime's `__dict__` is never asked for. CPython keeps the attributes of an object in line until somebody
does, and reads each of them more slowly from then on: 5 % of a single insert.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from everview.runtime.base import ChangeSet, Runtime, StepOutcome

    Step = Callable[[list[ChangeSet]], StepOutcome]


def stand_before(runtime: Runtime, stepped: Step) -> None:
    """Have `stepped` called for every step from now on."""
    runtime.step = stepped  # type: ignore[method-assign, assignment]


def step_aside(runtime: Runtime, stepped: Step, beneath: Step) -> None:
    """Have what stood there before called again, unless somebody else has come since."""
    if runtime.step != stepped:
        return
    if isinstance(beneath, MethodType) and beneath.__func__ is getattr(type(runtime), "step", None):
        del runtime.step
    else:
        runtime.step = beneath  # type: ignore[method-assign, assignment]
