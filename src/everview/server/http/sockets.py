"""Subscriptions over WebSocket: `/v1/ws`.

The client's first message is `{"type": "hello", "token": "..."}`; the server responds with its name and time. Then:

    {"type": "subscribe", "id": 1, "view": "total"}       or "query": "SELECT ..."; "resume": TOKEN, "snapshot": false
    {"type": "subscribe", "views": [{"id": 1, "view": "a"}, {"id": 2, "view": "b"}]}    several, from one time on
    {"type": "unsubscribe", "id": 1}
    {"type": "sync"}             request progress: a commit follows, possibly without changes
    {"type": "ping", "id": 9}

`hello` may contain `"format": "arrow"`, `"granularity": 0.5` (seconds between two commits), and `"progress": true`
(also report times without changes); these apply to the connection. The messages are in `everview.server.http.frames`; a
subscription's first frame is preceded by `{"type": "subscribed", "id": 1, "columns": [...], "resume": "..."}`.

A client that does not read is waited for: its commits are consolidated meanwhile, at no cost. One that reads nothing of
a message for `STALLED` seconds is closed with 1013 (try again later), which it receives if it reads the rest within a
second; then it is aborted (`everview.server.http.slow_clients`). It can resume with its token. A connection therefore
holds one message and the operating system's buffers.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from everview.errors import EverviewError, InputError
from everview.server.engine import Engine
from everview.server.http import frames
from everview.server.http.answers import LOG, Door
from everview.server.http.guard import Guard
from everview.server.http.json_values import columns_shown, dumped
from everview.server.http.resume_tokens import LINGER, resumed
from everview.server.http.slow_clients import WRITE
from everview.server.observing import apart
from everview.server.subscription import GRANULARITY, Commit, Subscription, Wanted
from everview.server.visitors import Followed, Visitor
from everview.session.rights.principal import WHO
from everview.wire.error_records import told
from everview.wire.values import parsed

PATIENCE = 10.0
"""Seconds within which a client must say hello."""

STALLED = 30.0
"""Seconds for which a message may wait to be read."""

MAX_SUBSCRIPTIONS = 1000
"""Maximum number of subscriptions per connection."""

AGAIN_LATER, FAULT, NOT_ALLOWED, GOING_AWAY = 1013, 1011, 1008, 1001


FORMATS: dict[str, Callable[[Commit], str | bytes]] = {
    "json": lambda commit: frames.message(commit).decode(),
    "arrow": frames.envelope,
    "exact": lambda commit: frames.exact(commit).decode(),
}
"""Message formats; `exact` is for Everview's own clients."""


class Socket:
    """One client."""

    def __init__(self, door: Door, guard: Guard, incarnation: str, socket: WebSocket) -> None:
        self.door = door
        self.guard = guard
        self.incarnation = incarnation
        self.socket = socket
        self.form = "json"
        self.granularity = GRANULARITY
        self.progress = False
        self.subscription: Subscription | None = None
        """what it follows, once it follows something"""
        self._begun = asyncio.Event()
        self._ends = contextlib.AsyncExitStack()
        self._writing = asyncio.Lock()

    async def run(self) -> None:
        """Serve until the client disconnects."""
        async with self._ends:
            with contextlib.ExitStack() as counted:
                await self._run(counted)

    async def _run(self, counted: contextlib.ExitStack) -> None:
        await self.socket.accept()
        try:
            async with asyncio.timeout(PATIENCE):
                hello = await self._receive()
            await self._welcome(hello, counted)
            tasks = [asyncio.create_task(self._listen()), asyncio.create_task(self._tell())]
            try:
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    await task
            finally:  # whichever of the two ends, the connection does
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        except TimeoutError:
            await self._close(NOT_ALLOWED, "say hello first")
        except EverviewError as error:  # in the hello: nothing can follow
            await self._refused(error)
        except (WebSocketDisconnect, RuntimeError):
            pass
        finally:
            if self.subscription is not None:
                await self.subscription.close(linger=LINGER)

    async def _welcome(self, hello: dict[str, Any], counted: contextlib.ExitStack) -> None:
        if hello.get("type") != "hello":
            raise InputError("E_MESSAGE", "the first message must be a hello", 'send {"type": "hello", "token": ...}')
        self.guard.let_in(*(str(hello.get(part, "")) for part in ("token", "user", "password")))
        counted.enter_context(self.door.engine.quotas.counting("connections", WHO.get()))
        granularity = hello.get("granularity", GRANULARITY)
        if not isinstance(granularity, (int, float)) or not 0 <= granularity <= 3600 or not math.isfinite(granularity):
            raise InputError("E_MESSAGE", "'granularity' is not a number of seconds", "give one up to 3600")
        if hello.get("format", "json") not in FORMATS:
            raise InputError("E_MESSAGE", "there is no such 'format'", f"use one of {', '.join(FORMATS)}")
        self.form = hello.get("format", "json")
        self.granularity, self.progress = float(granularity), hello.get("progress") is True
        who = WHO.get()
        user = "" if who is None else who.name
        counted.enter_context(
            self.door.engine.visitors.listed(Visitor("ws", lambda: user, self._doing, self._followed))
        )
        time = self.door.engine.session.time
        await self._say({"type": "hello", "server": "everview", "incarnation": self.incarnation, "time": time})

    def _doing(self) -> tuple[str, str]:
        return ("following" if self._followed() else "idle"), ""

    def _followed(self) -> list[Followed]:
        return [] if self.subscription is None else self.subscription.listed()

    # what the client says

    async def _listen(self) -> None:
        while True:
            await self._hear(await self._receive())

    async def _receive(self) -> dict[str, Any]:
        message = await self.socket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", 1000))
        text = message.get("text")
        found = parsed(text if text is not None else message.get("bytes") or b"")
        if not isinstance(found, dict):
            raise InputError("E_MESSAGE", "a message must be a JSON object", "see docs/server.md")
        return found

    async def _hear(self, message: dict[str, Any]) -> None:
        kind, number = message.get("type"), message.get("id")
        try:
            if kind == "subscribe":
                await self._subscribe(message)
            elif kind == "unsubscribe" and isinstance(number, int):
                if self.subscription is not None:
                    await self.subscription.remove(number)
                await self._say({"type": "unsubscribed", "id": number})
            elif kind == "sync":
                if self.subscription is not None:
                    self.subscription.hurry()
            elif kind == "ping":
                await self._say({"type": "pong", "id": number})
            else:
                raise InputError("E_MESSAGE", f"there is no message of type {str(kind)[:40]!r}", "see docs/server.md")
        except EverviewError as error:
            await self._say({"type": "error", "id": number, "error": told(error)})
        except (WebSocketDisconnect, RuntimeError, asyncio.CancelledError):
            raise
        except Exception as error:
            LOG.exception("a message failed")
            await self._say({"type": "error", "id": number, "error": told(error)})

    async def _subscribe(self, message: dict[str, Any]) -> None:
        given = message.get("views", [message])
        there = 0 if self.subscription is None else len(self.subscription.feeds)
        if not isinstance(given, list) or not 0 < len(given) <= MAX_SUBSCRIPTIONS - there:
            raise InputError(
                "E_MESSAGE", f"'views' is not a list of up to {MAX_SUBSCRIPTIONS} subscriptions", "see docs/server.md"
            )
        wanted = [_wanted(each, self.form == "arrow") for each in given]
        ids = [each.get("id") for each in given]
        if not all(isinstance(i, int) and not isinstance(i, bool) for i in ids) or len({*ids}) < len(ids):
            raise InputError("E_MESSAGE", "each subscription needs an 'id', a number of its own", "see docs/server.md")
        tokens = [str(each.get("resume") or "") for each in given]
        engine, wanted = await self._chosen(wanted)
        if any(tokens):
            wanted = await engine.run(
                lambda _: [
                    resumed(engine.feeds, self.incarnation, each, token) if token else each
                    for each, token in zip(wanted, tokens, strict=True)
                ]
            )
        subscription = await self._following(engine)
        async with self._writing:  # what it is comes before what is in it
            await subscription.add(wanted, ids)
            for number in ids:
                feed = subscription.feeds[number]
                await self._send(
                    {
                        "type": "subscribed",
                        "id": number,
                        "columns": columns_shown(feed.names, feed.types),
                        "resume": f"{self.incarnation}.{feed.identity}",
                    }
                )

    async def _chosen(self, wanted: list[Wanted]) -> tuple[Engine, list[Wanted]]:
        """The engine that serves some subscriptions, and what they are there."""
        engine, observer = self.door.engine, self.door.engine.observer
        inside = await observer.wanted(wanted)
        if inside is not None:
            engine, _ = await observer.opened()
            wanted = inside
        if self.subscription is not None and self.subscription.engine is not engine:
            raise apart()
        if engine.is_inner:
            self.incarnation = observer.incarnation
        return engine, wanted

    async def _following(self, engine: Engine) -> Subscription:
        """The connection's subscription, made when it first follows something."""
        if self.subscription is None:
            self.subscription = Subscription(engine, self.granularity, self)
            if self.progress:
                self.subscription.report_progress()
            if engine.is_inner:
                await self._ends.enter_async_context(self.door.engine.observer.looking(self.subscription))
            self._begun.set()
        return self.subscription

    # what the client is told

    async def _tell(self) -> None:
        """Send commits, forever."""
        await self._begun.wait()
        assert self.subscription is not None
        write = self.socket.scope["extensions"].get(WRITE, {}).get("write") if self.form == "json" else None
        try:
            while True:
                commit = await self.subscription.next()
                async with self._writing:
                    if write is None or not write(frames.framed(commit)):
                        await self._sent(FORMATS[self.form](commit))
        except (WebSocketDisconnect, RuntimeError):
            pass  # the other task ends the connection
        except TimeoutError:
            await self._close(AGAIN_LATER, f"you take nothing; go on after {self.subscription.position}")
        except EverviewError as error:  # the engine is closed, or a view cannot be read
            await self._refused(error)
        except Exception:
            LOG.exception("a subscription failed")
            await self._close(FAULT, "E_INTERNAL")

    async def _say(self, message: dict[str, Any]) -> None:
        async with self._writing:
            await self._send(message)

    async def _send(self, message: dict[str, Any]) -> None:
        await self._sent(dumped(message).decode())

    async def _sent(self, message: str | bytes) -> None:
        async with asyncio.timeout(STALLED):
            if isinstance(message, str):
                await self.socket.send_text(message)
            else:
                await self.socket.send_bytes(message)

    async def _refused(self, error: EverviewError) -> None:
        with contextlib.suppress(WebSocketDisconnect, RuntimeError, TimeoutError):
            await self._say({"type": "error", "id": None, "error": told(error)})
        code = GOING_AWAY if error.code == "E_CLOSED" else NOT_ALLOWED
        await self._close(code, error.code)

    async def _close(self, code: int, reason: str) -> None:
        if self.socket.application_state == WebSocketState.CONNECTED:
            with contextlib.suppress(WebSocketDisconnect, RuntimeError, TimeoutError):
                async with asyncio.timeout(1.0):
                    await self.socket.close(code, reason[:100])


def _wanted(given: Any, arrow: bool) -> Wanted:
    if not isinstance(given, dict):
        raise InputError("E_MESSAGE", "a subscription must be a JSON object", "see docs/server.md")
    view, query = given.get("view", ""), given.get("query", "")
    if not isinstance(view, str) or not isinstance(query, str) or bool(view) == bool(query):
        raise InputError("E_MESSAGE", "a subscription names a 'view', or has a 'query'", "see docs/server.md")
    return Wanted(view, query, snapshot=given.get("snapshot") is not False, arrow=arrow)
