"""From a request to the engine and back: size limits, cancellation on disconnect, errors as JSON."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from everview.errors import EverviewError, InputError
from everview.server.engine import Engine
from everview.server.http.guard import STATUS
from everview.server.http.json_values import columns_shown, dumped, rows_shown
from everview.server.settings import Settings
from everview.session.rights.principal import WHO
from everview.wire.envelopes import ARROW, arrow_stream
from everview.wire.error_records import told
from everview.wire.values import parsed

if TYPE_CHECKING:
    import pyarrow as pa

    from everview.session.session import Session
    from everview.types import DataType

LOG = logging.getLogger("everview.server")
T = TypeVar("T")


class Door:
    """Shared by handlers: the engine, the settings, the connections."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self.engine = engine
        self.settings = settings
        self.requests = 0
        self.errors = 0
        self.sockets = 0
        """open WebSockets"""
        self.numbers = itertools.count()

    async def run(
        self,
        request: Request,
        work: Callable[[Session], T],
        *,
        seconds: float | None = None,
        memory: int | None = None,
        looks: bool = False,
    ) -> T:
        """Run work for a request on the engine, until its client disconnects, within the server's limits or stricter
        ones of the request. `looks`: it only reads tables and views, and need not wait for a step.
        """
        limits = {
            "seconds": _least(seconds, self.settings.seconds),
            "memory": _least(memory, self.settings.memory),
        }
        key = query_key(request.headers.get(QUERY_ID))
        ask = self.engine.read if looks else self.engine.run
        running = asyncio.ensure_future(ask(work, **limits, key=key))  # type: ignore[arg-type]
        gone = asyncio.ensure_future(_gone(request))
        try:
            await asyncio.wait({running, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                running.cancel()
            return await running
        finally:
            gone.cancel()
            running.cancel()


QUERY_ID = "x-query-id"
"""The header by which a client names a request, for cancellation."""


def query_key(said: str | None) -> tuple[object, ...] | None:
    """The key of a request: its client's name for it, and whose it is, so that nobody cancels another's."""
    who = WHO.get()
    whose = () if who is None else (who.role, *sorted(who.attributes.items()))
    return None if said is None else (said, *whose)


def _least(one: float | None, other: float | None) -> float | None:
    return min((n for n in (one, other) if n is not None), default=None)


async def _gone(request: Request) -> None:
    """Wait until the client disconnects; its request has been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


Handler = Callable[[Request], Awaitable[Response]]


def answering(door: Door, handler: Callable[[Door, Request], Awaitable[Response]]) -> Handler:
    """A handler that returns errors as responses."""

    async def handle(request: Request) -> Response:
        door.requests += 1
        try:
            return await handler(door, request)
        except EverviewError as error:
            door.errors += 1
            return failed(error)
        except asyncio.CancelledError:
            return Response(status_code=499)
        except Exception as error:
            door.errors += 1
            LOG.exception("a request failed: %s %s", request.method, request.url.path)
            return failed(error)

    return handle


def failed(error: BaseException) -> Response:
    """An error as a response."""
    said = told(error)
    headers = {"retry-after": "1"} if said["code"] == "E_BUSY" else None
    return shown({"error": said}, STATUS.get(said["code"], 400), headers)


def shown(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """JSON as a response."""
    return Response(dumped(value), status, headers, media_type="application/json")


def wants_arrow(request: Request) -> bool:
    """Whether the client requested Arrow."""
    return ARROW in request.headers.get("accept", "")


def rows_answer(
    request: Request, time: int, names: list[str], types: list[DataType], found: list[Any] | pa.Table, **more: Any
) -> Response:
    """Rows as a response, in the requested format."""
    if wants_arrow(request):
        return Response(arrow_stream(found), headers={"x-everview-time": str(time)}, media_type=ARROW)
    rows = rows_shown(types, found)
    return shown({"time": time, "columns": columns_shown(names, types), "rows": rows, **more})


async def body_object(request: Request) -> dict[str, Any]:
    """The body as a JSON object."""
    found = parsed(await request.body())
    if not isinstance(found, dict):
        raise InputError("E_MESSAGE", "the body is not a JSON object", "see /openapi.json")
    return found


def text_in(body: dict[str, Any], name: str) -> str:
    """A required text."""
    found = body.get(name)
    if not isinstance(found, str):
        raise InputError("E_MESSAGE", f"{name!r} is missing, or no text", "see /openapi.json")
    return found


def number_in(request: Request, name: str) -> int | None:
    """A numeric query parameter, if given."""
    found = request.query_params.get(name)
    if found is None:
        return None
    if not found.isascii() or not found.isdecimal() or len(found) > 18:
        raise InputError("E_MESSAGE", f"{name}={found[:40]} is not a time", "give a number, such as an answer's time")
    return int(found)
