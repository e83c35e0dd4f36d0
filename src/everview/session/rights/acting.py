"""Who acts: the principal on whose behalf the present call is made.

A session of a program's own belongs to the program, and nobody is asked: `WHO` is None, and everything is allowed. A
server sets it for each request, connection and job; a task that is made inherits it, another thread does not, so the
engine hands it over with each job (`everview.server.engine`). What may be done is decided by
`everview.session.rights.access`, from here and from nowhere else.

Hazard: None means *everything is allowed*. Whatever serves strangers has to set `NOBODY` before it does anything else,
so that a way which was forgotten is closed and not open.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class Principal:
    """Somebody who was let in: the role that logged in, the role it acts as, and attributes that others gave it.

    Attributes are what `current_setting('tenant')` reads in policies. They come from the role, the token or the claims
    of a JWT; a client cannot SET them.

    >>> Principal("ann", attributes={"tenant": "a"}).as_role("reader").name
    'reader'
    """

    role: str
    attributes: Mapping[str, Any] = field(default_factory=dict)
    acts_as: str = ""
    """what SET ROLE said"""
    token: str = ""
    """the token it came with, by its name"""
    until: float | None = None
    """when that token ends, as a moment in seconds"""
    free: bool = False
    """whether it came with the server's own token, and may do everything"""

    @property
    def name(self) -> str:
        """The role that counts: `current_user`."""
        return self.acts_as or self.role

    def as_role(self, name: str) -> Principal:
        """The same, acting as another role."""
        return replace(self, acts_as=name)

    def setting(self, name: str) -> Any:
        """An attribute; None if it has none of that name."""
        if name == "current_user":
            return self.name
        return self.attributes.get(name.lower())

    def __hash__(self) -> int:
        return hash((self.role, self.acts_as, self.token, self.free))


NOBODY = Principal("")
"""Who has not said yet who it is: nothing is allowed."""

WHO: ContextVar[Principal | None] = ContextVar("everview principal", default=None)
"""On whose behalf this thread or task acts; None for the program that the session belongs to."""


COMMAND: ContextVar[str] = ContextVar("everview command", default="")
"""What is done to rows: INSERT, UPDATE, DELETE, MERGE, TRUNCATE; nothing where rows are only put in or taken away."""


@contextmanager
def doing(command: str) -> Iterator[None]:
    """Change rows as a part of a command, which decides what right that takes.

    >>> with doing("UPDATE"):
    ...     COMMAND.get()
    'UPDATE'
    """
    before = COMMAND.set(command)
    try:
        yield
    finally:
        COMMAND.reset(before)


@contextmanager
def acting(who: Principal | None) -> Iterator[None]:
    """Act on somebody's behalf; None: on the program's own.

    >>> with acting(Principal("ann")):
    ...     WHO.get().name
    'ann'
    """
    before = WHO.set(who)
    try:
        yield
    finally:
        WHO.reset(before)
