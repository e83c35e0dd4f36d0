"""Hooks around a session's steps, for plan adaptation, and for a log of steps that write or run elsewhere.

A hook is called instead of `Runtime.step` and calls its predecessor. Several can be chained; each removes itself.

Hazard: never access a runtime's `__dict__`. CPython stores an object's attributes inline until it is accessed, and
reads each of them more slowly afterwards: 5 % of a single insert.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import TYPE_CHECKING

from everview.runtime.base import ChangeSet, StepOutcome

if TYPE_CHECKING:
    from everview.runtime.base import Runtime

Step = Callable[[list[ChangeSet]], StepOutcome]
"""What runs a step: a runtime's method, or a hook."""


def install_hook(runtime: Runtime, stepped: Step) -> None:
    """Call `stepped` for every step from now on."""
    runtime.step = stepped  # type: ignore[method-assign, assignment]


def remove_hook(runtime: Runtime, stepped: Step, beneath: Step) -> None:
    """Restore the predecessor, unless another hook was added since."""
    if runtime.step != stepped:
        return
    if isinstance(beneath, MethodType) and beneath.__func__ is getattr(type(runtime), "step", None):
        del runtime.step
    else:
        runtime.step = beneath  # type: ignore[method-assign, assignment]
