"""The routes of the HTTP port."""

from __future__ import annotations

from functools import partial
from importlib import resources

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from everview.errors import InputError
from everview.server.engine import Engine
from everview.server.http import calls, metrics, openapi, relations, statements
from everview.server.http.answers import Door, answering, shown
from everview.server.http.events import events
from everview.server.http.guard import Guard
from everview.server.http.sockets import AGAIN_LATER, Socket
from everview.server.identity import Identity
from everview.server.settings import Settings
from everview.server.support import bundle
from everview.wire.error_records import told

PAGE = """<!doctype html><meta charset="utf-8"><title>Everview</title>
<p>This is a server of <b>Everview</b>. It speaks <a href="/openapi.json">HTTP</a> and WebSocket; a module for pages is
at <a href="/everview.js">/everview.js</a>.</p>"""


def app(engine: Engine, settings: Settings, incarnation: str) -> Guard:
    """The application, with its guard."""
    door = Door(engine, settings)
    guard = Guard(Starlette(), settings, Identity(engine, settings))

    async def socket(connection: WebSocket) -> None:
        if door.sockets >= settings.connections:
            await connection.close(AGAIN_LATER)
            return
        door.sockets += 1
        try:
            await Socket(door, guard, incarnation, connection).run()
        finally:
            door.sockets -= 1

    def get(path: str, handler: object, *methods: str) -> Route:
        return Route(path, answering(door, handler), methods=list(methods) or ["GET"])  # type: ignore[arg-type]

    figures = metrics.Metrics(guard)
    following = partial(_following, incarnation)
    routes: list[BaseRoute] = [
        get("/", _page),
        get("/everview.js", _module),
        get("/openapi.json", _document),
        get("/healthz", metrics.health),
        get("/readyz", metrics.readiness),
        get("/metrics", figures),
        get("/grafana.json", metrics.dashboard),
        get("/v1/support", lambda door, request: _support(figures, door, request)),
        get("/v1/sql", statements.sql, "POST"),
        get("/v1/transaction", statements.transaction, "POST"),
        get("/v1/datalog", statements.datalog, "POST"),
        get("/v1/cancel", statements.cancel, "POST"),
        get("/v1/call", calls.call, "POST"),
        get("/v1/events", following, "POST"),
        get("/v1/relations", relations.listed),
        get("/v1/relations/{name}", relations.one),
        get("/v1/relations/{name}/rows", relations.rows),
        get("/v1/relations/{name}/changes", relations.changes),
        get("/v1/relations/{name}/events", following),
        get("/v1/tables/{name}/rows", relations.push, "POST"),
        WebSocketRoute("/v1/ws", socket),
    ]
    guard.app = Starlette(routes=routes, exception_handlers={HTTPException: _unknown})
    return guard


async def _unknown(request: Request, error: Exception) -> Response:
    """What there is no endpoint or method for, as all errors are told."""
    assert isinstance(error, HTTPException)
    where = f"{request.method} {request.url.path}"
    found = InputError("E_NOT_FOUND", f"there is no {where}: {error.detail}", "/openapi.json lists what there is")
    return shown({"error": told(found)}, status=error.status_code, headers=dict(error.headers or {}))


async def _following(incarnation: str, door: Door, request: Request) -> Response:
    return await events(door, incarnation, request)


async def _support(figures: metrics.Metrics, door: Door, request: Request) -> Response:
    text = await figures.text(door)
    data = await door.run(request, lambda session: bundle(session, door.settings, text))
    headers = {"content-disposition": 'attachment; filename="everview-support.zip"'}
    return Response(data, media_type="application/zip", headers=headers)


async def _page(door: Door, request: Request) -> Response:
    return HTMLResponse(PAGE, headers={"content-security-policy": "default-src 'self'"})


async def _module(door: Door, request: Request) -> Response:
    text = resources.files("everview.server.http").joinpath("everview.js").read_text()
    return Response(text, media_type="text/javascript", headers={"cache-control": "no-cache"})


async def _document(door: Door, request: Request) -> Response:
    return shown(openapi.document())
