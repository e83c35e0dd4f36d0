"""Settings of whoever speaks: the time zone in which SQL reads and writes moments, and where it looks for names.

A session has them once. A server has many clients, each with its own, and several of them are served at a time: one by
the thread that owns the session, others by threads that read beside it. So a client's settings are not put into the
session: they hold in the context of its call (`spoken`), and `Core.zone` and `Core.search_path` give them there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass
class Spoken:
    """The settings; SET changes them."""

    zone: str = "UTC"
    search_path: tuple[str, ...] = ("public",)


HERE: ContextVar[Spoken | None] = ContextVar("everview settings", default=None)
"""The settings of the call under way; None if they are the session's."""


@contextmanager
def spoken(settings: Spoken) -> Iterator[Spoken]:
    """Let settings hold for the calls inside, in this thread; what SET says there is forgotten with them.

    >>> import everview as ev
    >>> db = ev.connect()
    >>> with spoken(Spoken(zone="Europe/Oslo")):
    ...     db.sql("SHOW TimeZone").rows()
    [('Europe/Oslo',)]
    >>> db.sql("SHOW TimeZone").rows()
    [('UTC',)]
    """
    before = HERE.set(settings)
    try:
        yield settings
    finally:
        HERE.reset(before)
