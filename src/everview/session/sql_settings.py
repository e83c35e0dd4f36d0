"""Per-client settings: the time zone of timestamps and the search path of names in SQL.

A session has one set of them. A server has many clients, each with its own settings, several of which are served at a
time: one by the thread that owns the session, others by threads that read beside it. A client's settings are therefore
not stored in the session but hold in the context of its call (`settings_of_call`), where `Core.zone` and
`Core.search_path` return them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass
class SqlSettings:
    """The settings; changed by SET."""

    zone: str = "UTC"
    search_path: tuple[str, ...] = ("public",)


CURRENT: ContextVar[SqlSettings | None] = ContextVar("everview settings", default=None)
"""The settings of the current call; None for the session's own."""


@contextmanager
def settings_of_call(settings: SqlSettings) -> Iterator[SqlSettings]:
    """Use these settings for calls inside, in this thread; changes by SET are discarded at the end.

    >>> import everview as ev
    >>> db = ev.connect()
    >>> with settings_of_call(SqlSettings(zone="Europe/Oslo")):
    ...     db.sql("SHOW TimeZone").rows()
    [('Europe/Oslo',)]
    >>> db.sql("SHOW TimeZone").rows()
    [('UTC',)]
    """
    before = CURRENT.set(settings)
    try:
        yield settings
    finally:
        CURRENT.reset(before)
