"""A client of `everview serve`: the session's interface, over the network.

    db = everview.connect("everview://127.0.0.1:8080", token="...")

Read in this order:

    transport    calls to a server, and what becomes of them when connections break
    session      `ClientSession`, with the methods of a session
    relations    tables and views: collections too, of which more are built here and installed there
    results      what a SELECT gives, explanations
    supposing    changes that are made together, or only supposed
    rules        what a Datalog program made
    following    subscriptions, which connect again and go on
    asynchronous the same for programs with an event loop: `connect_async`

Nothing here loads the engine: no kernels, no compiler, no SQL parser. What a client asks for is computed by the server;
plans of collections travel as data (`everview.wire.plans`).

What is different from a session of one's own is listed in docs/server.md: transactions are sent when they end, so a
mistake in their rows is told then; Python functions do not travel.
"""

from __future__ import annotations

from everview.client.asynchronous import connect_async
from everview.client.session import ClientSession, connect

__all__ = ["ClientSession", "connect", "connect_async"]
