"""Tracks which loop bodies are running, to keep loop variables inside their loops.

While a body runs (`everview.language.loop`), its loop has a *token*, which everything built from the variable carries.
A collection whose token's loop is over has leaked, and using it raises an error.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass

from everview.plan.check import leaked


@dataclass(frozen=True, eq=False)
class Token:
    """One run of one loop's body."""

    depth: int


running: ContextVar[tuple[Token, ...]] = ContextVar("everview_running_loops", default=())
"""The tokens of the running bodies, outermost first."""


def check_running(tokens: frozenset[Token]) -> None:
    """Refuse variables of loops whose body is not running."""
    if tokens and not tokens <= set(running.get()):
        raise leaked()
