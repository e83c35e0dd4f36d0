"""A client of `everview serve`: the session's interface, over the network.

    db = everview.connect("everview://127.0.0.1:8080", token="...")

Read in this order:

    transport    calls to a server, and recovery from broken connections
    session      `ClientSession`, with the methods of a session
    relations    tables and views: collections, from which queries are built here and installed there
    results      results of SELECT, explanations
    what_if      transactions and hypothetical changes
    rules        the relations of a Datalog program
    subscriptions  subscriptions that reconnect
    asynchronous the same for programs with an event loop: `connect_async`

Nothing here loads the engine: no kernels, no compiler, no SQL parser. The server does all computation; plans of
collections are sent as data (`everview.wire.plans`).

Differences from a local session are listed in docs/server.md: transactions are sent when they end, so errors in their
rows are raised then; Python functions cannot be sent.
"""

from __future__ import annotations

from everview.client.asynchronous import connect_async
from everview.client.session import ClientSession, connect

__all__ = ["ClientSession", "connect", "connect_async"]
