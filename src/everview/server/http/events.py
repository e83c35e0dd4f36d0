"""Subscriptions as server-sent events, for curl and whatever reads lines:

    curl -N -H "Authorization: Bearer $TOKEN" http://127.0.0.1:8080/v1/relations/total/events

Each commit is an event: `event: snapshot` or `event: changes`, whose `data` is what the WebSocket sends as one message,
and whose `id` is a token. EventSource and others send the last one back as `Last-Event-ID` on reconnection, and receive
what changed since. Lines that begin with a colon keep an idle connection open.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from everview.errors import EverviewError, InputError
from everview.server.http.answers import Door, body_object, text_in
from everview.server.http.frames import message
from everview.server.http.json_values import dumped
from everview.server.http.resume_tokens import LINGER, resumed
from everview.server.subscription import Subscription, Wanted
from everview.server.visitors import Visitor
from everview.session.rights.principal import WHO
from everview.wire.error_records import told

ALIVE = 15.0
"""Seconds between keep-alives."""


async def events(door: Door, incarnation: str, request: Request) -> Response:
    """Follow a table or view, or (POST) a query."""
    if request.method == "POST":
        wanted = Wanted(query=await _query(request))
    else:
        wanted = Wanted(request.path_params["name"])
    if request.query_params.get("snapshot") == "false":
        wanted = replace(wanted, snapshot=False)
    engine, observer = door.engine, door.engine.observer
    if inside := await observer.wanted([wanted]):
        engine, _ = await observer.opened()
        (wanted,), incarnation = inside, observer.incarnation
    if token := request.headers.get("last-event-id", ""):
        given = wanted
        wanted = await engine.run(lambda _: resumed(engine.feeds, incarnation, given, token))
    subscription = await engine.subscribe([wanted], granularity=_granularity(request))
    (feed,) = subscription.feeds.values()
    prefix = f"{incarnation}.{feed.identity}"
    lines = _listed(door, subscription, prefix)
    return StreamingResponse(lines, media_type="text/event-stream", headers={"cache-control": "no-store"})


async def _query(request: Request) -> str:
    """The query: a body that is nothing else, or `{"query": ...}`."""
    body = await request.body()
    if request.headers.get("content-type", "").startswith("application/json") or body.lstrip()[:1] == b"{":
        return text_in(await body_object(request), "query")
    return body.decode("utf-8", "replace")


def _granularity(request: Request) -> float:
    try:
        found = float(request.query_params.get("granularity", "0.1"))
    except ValueError:
        found = -1.0
    if not 0 <= found <= 3600:
        raise InputError("E_MESSAGE", "'granularity' is not a number of seconds", "give one up to 3600")
    return found


async def _listed(door: Door, subscription: Subscription, prefix: str) -> AsyncIterator[bytes]:
    """The lines, while the connection is among those that are listed."""
    who = WHO.get()
    user = "" if who is None else who.name
    visitor = Visitor("events", lambda: user, lambda: ("following", ""), subscription.listed)
    async with contextlib.AsyncExitStack() as ends:
        ends.enter_context(door.engine.visitors.listed(visitor))
        if subscription.engine.is_inner:
            await ends.enter_async_context(door.engine.observer.looking(subscription))
        async for line in _lines(subscription, prefix):
            yield line


async def _lines(subscription: Subscription, prefix: str) -> AsyncIterator[bytes]:
    upcoming: asyncio.Task[object] | None = None
    try:
        while subscription.feeds:
            upcoming = upcoming or asyncio.create_task(subscription.next())
            done, _ = await asyncio.wait({upcoming}, timeout=ALIVE)
            if not done:
                yield b": alive\n\n"
                continue
            commit = await upcoming
            upcoming = None
            kind = "snapshot" if any(f.kind == "snapshot" for f in commit.frames) else "changes"  # type: ignore[attr-defined]
            head = f"event: {kind}\nid: {prefix}.{commit.time}\ndata: ".encode()  # type: ignore[attr-defined]
            yield head + message(commit) + b"\n\n"  # type: ignore[arg-type]
    except EverviewError as error:
        yield b"event: error\ndata: " + dumped({"error": told(error)}) + b"\n\n"
    finally:
        if upcoming is not None:
            upcoming.cancel()
        with contextlib.suppress(EverviewError):
            await subscription.close(linger=LINGER)
