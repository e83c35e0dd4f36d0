"""Which loops' bodies are running: what keeps a loop's variable inside its loop.

While a body runs (`everview.language.loop`), its loop has a *token*; everything made from the variable carries it. A
collection whose token's loop is over has leaked, and is refused the moment something is made of it.
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
"""The tokens of the bodies under way, outermost first."""


def check_running(tokens: frozenset[Token]) -> None:
    """Refuse variables of loops whose body is not running now."""
    if tokens and not tokens <= set(running.get()):
        raise leaked()
