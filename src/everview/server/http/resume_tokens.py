"""Resume tokens: what was followed, its definition, and up to which time.

A token is the server's text for a subscription, a dot, and the time of the last applied commit. It is valid as long as
the database is the same: a directory keeps its identity over restarts of the server, an in-memory session has a new one
each time. A view that was created again, or has another definition, is a different view; a query is kept for `LINGER`
seconds after its last client was disconnected. Otherwise, and where history does not reach back, the client receives
the contents again with the reason (`reset`). Nothing is lost silently.
"""

from __future__ import annotations

import contextlib
import secrets
from dataclasses import replace

from everview.server.feeds import Feeds, identity_of, whose_rows
from everview.server.subscription import Wanted
from everview.session.core import core_of
from everview.session.session import Session

NAME = "incarnation"
"""The file in a directory that stores its identity."""


LINGER = 30.0
"""Seconds for which queries of disconnected clients are kept."""


def incarnation_of(session: Session) -> str:
    """The identity of a database: its times are comparable while it is the same."""
    store = core_of(session).runtime.backing.store
    fresh = secrets.token_hex(8)
    if store is None or core_of(session).runtime.backing.read_only:
        return fresh
    with contextlib.suppress(OSError):
        store.files.create(NAME, fresh.encode())
        return store.files.read(NAME).decode()[:16]
    return fresh


def resumed(feeds: Feeds, incarnation: str, wanted: Wanted, token: str) -> Wanted:
    """What a client with a token receives: changes since then, or contents, with the reason. For the engine."""
    session = feeds.session
    name, _, rest = token.partition(".")
    identity, _, time = rest.rpartition(".")
    if not identity or not time.isascii() or not time.isdecimal() or len(time) > 18:
        return replace(wanted, since=None, reason="token")
    if name != incarnation:
        return replace(wanted, since=None, reason="database")
    if wanted.query:
        if feeds.identity_of_query(wanted.query, wanted.arrow) != identity:
            return replace(wanted, since=None, reason="query")
    elif wanted.name not in session or identity_of(session[wanted.name], whose_rows(session)) != identity:
        return replace(wanted, since=None, reason="definition")
    return replace(wanted, since=int(time))
