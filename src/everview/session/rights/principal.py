"""The current principal: on whose behalf a call is made.

An embedded session belongs to its program and is unrestricted: `WHO` is None. A server sets it for each request,
connection and job. A new task inherits it but another thread does not, so the engine passes it along with each job
(`everview.server.engine`). What a principal may do is decided only by `everview.session.rights.access`.

Hazard: None means *unrestricted*. Anything that serves untrusted clients must set `NOBODY` first, so that a forgotten
path is closed rather than open.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class Principal:
    """An authenticated user: the role that logged in, the role it acts as, and its attributes.

    Policies read attributes by `current_setting('tenant')`. They come from the role, the token or the claims of a JWT;
    a client cannot SET them.

    >>> Principal("ann", attributes={"tenant": "a"}).as_role("reader").name
    'reader'
    """

    role: str
    attributes: Mapping[str, Any] = field(default_factory=dict)
    acts_as: str = ""
    """set by SET ROLE"""
    token: str = ""
    """name of the token it authenticated with"""
    until: float | None = None
    """expiry of that token, in seconds since the epoch"""
    free: bool = False
    """whether it has the server's own token and is unrestricted"""
    proof: tuple[str, str] = ("", "")
    """which role of this name it is (`Role.made`), and the digest of its token: others may get the names later"""

    def __post_init__(self) -> None:
        """Attributes become texts, as they are read: claims 1 and true would be equal, but are not the same."""
        given = self.attributes
        if not isinstance(given, ObservedAttributes) and any(type(v) is not str for v in given.values()):
            texts = {name: as_text(value) for name, value in given.items() if value is not None}
            object.__setattr__(self, "attributes", texts)

    @property
    def name(self) -> str:
        """The effective role: `current_user`."""
        return self.acts_as or self.role

    def as_role(self, name: str) -> Principal:
        """The same principal acting as another role."""
        return replace(self, acts_as=name)

    @property
    def is_over(self) -> bool:
        """Whether its token has expired."""
        return self.until is not None and self.until <= time.time()

    def setting(self, name: str) -> Any:
        """The value of an attribute; None if it does not exist."""
        if name == "current_user":
            return self.name
        return self.attributes.get(name.lower())

    def observed(self) -> Principal:
        """The same principal, whose attributes note which of them are read."""
        return replace(self, attributes=ObservedAttributes(self.attributes))

    def unobserved(self) -> Principal:
        """The same principal, whose attributes note nothing: to read values that will not matter."""
        given = self.attributes
        return replace(self, attributes=given.of) if isinstance(given, ObservedAttributes) else self

    def __hash__(self) -> int:
        return hash((self.role, self.acts_as, self.token, self.free))


def as_text(value: Any) -> str:
    """The value of an attribute as `current_setting` returns it.

    >>> as_text(True), as_text(1), as_text("a")
    ('true', '1', 'a')
    """
    return str(value).lower() if isinstance(value, bool) else str(value)


class ObservedAttributes(Mapping[str, Any]):
    """Attributes that note which of them were read, and their values (None: missing).

    >>> who = Principal("ann", attributes={"tenant": "a", "level": 1}).observed()
    >>> who.setting("tenant"), who.setting("town")
    ('a', None)
    >>> who.attributes.read
    {'tenant': 'a', 'town': None}
    """

    def __init__(self, of: Mapping[str, Any]) -> None:
        self.of = of
        self.read: dict[str, Any] = {}
        self.all_read = False
        """whether they were listed: then it matters which there are"""

    def __getitem__(self, name: str) -> Any:
        self.read[name] = self.of.get(name)
        return self.of[name]

    def __iter__(self) -> Iterator[str]:
        self.all_read = True
        return iter(self.of)

    def __len__(self) -> int:
        self.all_read = True
        return len(self.of)


class Anybody(Principal):
    """A principal with every attribute: what is bound for readers to come is checked for this one.

    >>> Anybody().setting("tenant")
    '0'
    """

    def __init__(self) -> None:
        super().__init__("anybody", free=True)

    def setting(self, name: str) -> Any:
        return "0"


class Author(Principal):
    """The same role with every attribute: for a condition that it writes for readers to come.

    >>> author = Author(Principal("ann", {"town": "Oslo"}))
    >>> author.name, author.setting("town"), author.setting("tenant")
    ('ann', 'Oslo', '0')
    """

    def __init__(self, of: Principal) -> None:
        super().__init__(of.role, of.attributes, of.acts_as)

    def setting(self, name: str) -> Any:
        own = super().setting(name)
        return "0" if own is None else own


NOBODY = Principal("")
"""A principal that is not authenticated yet: nothing is allowed."""

WHO: ContextVar[Principal | None] = ContextVar("everview principal", default=None)
"""The principal of this thread or task; None for the program that owns the session."""


COMMAND: ContextVar[str] = ContextVar("everview command", default="")
"""The command that changes rows: ON CONFLICT, UPDATE, DELETE, MERGE, TRUNCATE; empty for plain insertions and
deletions.
"""


@contextmanager
def doing(command: str) -> Iterator[None]:
    """Change rows as part of a command, which determines the required privilege.

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
    """Act on behalf of a principal; None: of the program itself.

    >>> with acting(Principal("ann")):
    ...     WHO.get().name
    'ann'
    """
    before = WHO.set(who)
    try:
        yield
    finally:
        WHO.reset(before)
