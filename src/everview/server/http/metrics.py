"""Health and metrics: `/healthz`, `/readyz`, and `/metrics` in OpenMetrics format.

Label sets are bounded by what is installed: views, never statements or clients.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from everview.server.http.answers import Door, shown
from everview.server.http.guard import Guard
from everview.session.core import core_of

KIND = "application/openmetrics-text; version=1.0.0; charset=utf-8"
BEGAN = time.time()


async def health(door: Door, request: Request) -> Response:
    """The process is alive and its loop runs."""
    return shown({"status": "ok"})


async def readiness(door: Door, request: Request) -> Response:
    """It accepts work."""
    ready = not door.engine.closing
    return shown({"status": "ready" if ready else "closing"}, 200 if ready else 503)


async def metrics(door: Door, guard: Guard, request: Request) -> Response:
    """Metrics; read on the loop, so that they are available while a step runs."""
    core_of(door.engine.session).access.may_manage("read the figures of the server", look=True)
    return Response("\n".join([*_lines(door, guard), "# EOF", ""]), media_type=KIND)


def _lines(door: Door, guard: Guard) -> Iterator[str]:
    engine = door.engine
    yield from _metric("everview_time", "gauge", "The last complete time.", engine.session.time)
    yield from _metric("everview_work", "counter", "Jobs that were done.", engine.jobs)
    yield from _metric("everview_work_seconds", "counter", "Time that they took.", round(engine.seconds, 6))
    yield from _metric("everview_work_waiting", "gauge", "Jobs that wait.", engine.waiting)
    yield from _metric("everview_http_requests", "counter", "Requests.", door.requests)
    yield from _metric("everview_http_errors", "counter", "Requests that failed.", door.errors)
    yield from _metric("everview_http_refused", "counter", "Requests without the right token.", guard.refused)
    yield from _metric("everview_connections", "gauge", "Connections that are open.", door.sockets, 'protocol="ws"')
    subscriptions = engine.feeds.subscriptions
    yield from _metric("everview_subscriptions", "gauge", "Clients that follow something.", len(subscriptions))
    behind = max((engine.feeds.time - s.position for s in subscriptions), default=0)
    yield from _metric("everview_subscription_behind", "gauge", "Times that the slowest lacks.", behind)
    resets = sum(feed.resets for feed in engine.feeds.known)
    yield from _metric("everview_subscription_resets", "counter", "Contents sent anew to slow ones.", resets)
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu = round(used.ru_utime + used.ru_stime, 3)
    yield from _metric("process_cpu_seconds", "counter", "Processor time.", cpu)
    yield from _metric("process_start_time_seconds", "gauge", "When it was started.", round(BEGAN, 3))
    yield from _metric("process_peak_resident_bytes", "gauge", "Most memory it had.", used.ru_maxrss * 1024)


def _metric(name: str, kind: str, text: str, value: Any, labels: str = "") -> Iterator[str]:
    yield f"# TYPE {name} {kind}"
    yield f"# HELP {name} {text}"
    yield f"{name}{'_total' if kind == 'counter' else ''}{f'{{{labels}}}' if labels else ''} {value}"
