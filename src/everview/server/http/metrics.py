"""Health and metrics: `/healthz`, `/readyz`, `/metrics` in OpenMetrics format, and a dashboard of them for Grafana.

Label sets are bounded by what is installed (views, tables, sources), never by statements or clients.

What the loop knows is told at once, also while a step runs. Sizes of views can only be read between steps: the last
known ones are told if reading them takes longer than `PATIENCE`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import time
from collections.abc import Iterable, Iterator, Mapping
from importlib import resources
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from everview.errors import EverviewError
from everview.server.engine import BOUNDS
from everview.server.http.answers import Door, shown
from everview.server.http.guard import Guard
from everview.session import doors
from everview.session.core import core_of

if TYPE_CHECKING:
    from everview.session.session import Session

KIND = "application/openmetrics-text; version=1.0.0; charset=utf-8"
BEGAN = time.time()

PATIENCE = 0.25
"""Seconds to wait for a step to end."""

Value = int | float
Sizes = Mapping[str, list[tuple[object, ...]]]


async def health(door: Door, request: Request) -> Response:
    """The process is alive and its loop runs."""
    return shown({"status": "ok"})


async def readiness(door: Door, request: Request) -> Response:
    """It accepts work."""
    ready = not door.engine.closing
    return shown({"status": "ready" if ready else "closing"}, 200 if ready else 503)


async def dashboard(door: Door, request: Request) -> Response:
    """A dashboard for Grafana, to be imported."""
    text = resources.files("everview.server.http").joinpath("grafana.json").read_text()
    return Response(text, media_type="application/json")


class Metrics:
    """The handler of `/metrics`."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._sizes: Sizes = {}
        self._reading: asyncio.Future[Sizes] | None = None

    async def __call__(self, door: Door, request: Request) -> Response:
        """All metrics."""
        core_of(door.engine.session).access.may_manage("read the figures of the server", look=True)
        return Response(await self.text(door), media_type=KIND)

    async def text(self, door: Door) -> str:
        """All metrics, as a text."""
        await self._read(door)
        return "\n".join([*_activity(door, self._guard), *_contents(self._sizes), *_process(), "# EOF", ""])

    async def _read(self, door: Door) -> None:
        if self._reading is None:
            self._reading = asyncio.ensure_future(door.engine.run(_sizes_of))
        with contextlib.suppress(asyncio.TimeoutError, EverviewError):
            self._sizes = await asyncio.wait_for(asyncio.shield(self._reading), PATIENCE)
        if self._reading.done():
            self._reading = None


def _sizes_of(session: Session) -> Sizes:
    """Relations of the schema `ev` that say how large things are; on the engine's thread."""
    system = doors.system(core_of(session))
    return system.present(("tables", "views", "errors", "sources", "memory"))


def _activity(door: Door, guard: Guard) -> Iterator[str]:
    engine = door.engine
    yield from _metric("everview_time", "gauge", "The last complete time.", engine.session.time)
    yield from _metric("everview_work", "counter", "Jobs that were done.", engine.jobs)
    yield from _metric("everview_work_seconds", "counter", "Time that they took.", round(engine.seconds, 6))
    yield from _histogram("everview_work_duration_seconds", "How long they took.", engine.durations, engine.seconds)
    yield from _metric("everview_work_waiting", "gauge", "Jobs that wait.", engine.waiting)
    yield from _metric("everview_http_requests", "counter", "Requests.", door.requests)
    yield from _metric("everview_http_errors", "counter", "Requests that failed.", door.errors)
    yield from _metric("everview_http_refused", "counter", "Requests without the right token.", guard.refused)
    counts = engine.visitors.counts()
    yield from _labelled("everview_connections", "gauge", "Connections that are open.", "protocol", counts.items())
    subscriptions = engine.feeds.subscriptions
    yield from _metric("everview_subscriptions", "gauge", "Clients that follow something.", len(subscriptions))
    behind = max((engine.feeds.time - s.position for s in subscriptions), default=0)
    yield from _metric("everview_subscription_behind", "gauge", "Times that the slowest lacks.", behind)
    resets = sum(feed.resets for feed in engine.feeds.known)
    yield from _metric("everview_subscription_resets", "counter", "Contents sent anew to slow ones.", resets)


def _contents(sizes: Sizes) -> Iterator[str]:
    tables, views = sizes.get("tables", []), sizes.get("views", [])
    for place, what, text in ((1, "updates", "Rows and changes that are kept."), (2, "bytes", "Memory of its index.")):
        for kind, rows in (("table", tables), ("view", views)):
            yield from _labelled(f"everview_{kind}_{what}", "gauge", text, kind, _column(rows, place))
    errors: dict[str, Value] = {}
    for view, _, count in sizes.get("errors", []):
        errors[str(view)] = errors.get(str(view), 0) + _number(count)
    yield from _labelled("everview_view_errors", "gauge", "Rows that failed.", "view", errors.items())
    sources = sizes.get("sources", [])
    for place, what, text in ((2, "rows", "Records that were read."), (3, "rejected", "Records that were set aside.")):
        yield from _labelled(f"everview_source_{what}", "counter", text, "source", _column(sources, place))
    memory = _column(sizes.get("memory", []), 1)
    yield from _labelled("everview_memory_bytes", "gauge", "Memory of the session.", "what", memory)


def _process() -> Iterator[str]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu = round(used.ru_utime + used.ru_stime, 3)
    yield from _metric("process_cpu_seconds", "counter", "Processor time.", cpu)
    yield from _metric("process_start_time_seconds", "gauge", "When it was started.", round(BEGAN, 3))
    yield from _metric("process_peak_resident_bytes", "gauge", "Most memory it had.", used.ru_maxrss * 1024)
    with contextlib.suppress(OSError), open("/proc/self/statm") as file:
        pages = int(file.read().split()[1])
        yield from _metric("process_resident_memory_bytes", "gauge", "Memory.", pages * os.sysconf("SC_PAGE_SIZE"))


def _column(rows: Iterable[tuple[object, ...]], place: int) -> list[tuple[str, Value]]:
    return [(str(row[0]), _number(row[place])) for row in rows]


def _number(value: object) -> Value:
    assert isinstance(value, (int, float))
    return value


def _metric(name: str, kind: str, text: str, value: Value) -> Iterator[str]:
    yield from _head(name, kind, text)
    yield f"{name}{'_total' if kind == 'counter' else ''} {value}"


def _labelled(name: str, kind: str, text: str, label: str, values: Iterable[tuple[str, Value]]) -> Iterator[str]:
    yield from _head(name, kind, text)
    for what, value in values:
        yield f'{name}{"_total" if kind == "counter" else ""}{{{label}="{_escaped(what)}"}} {value}'


def _histogram(name: str, text: str, counts: list[int], total: float) -> Iterator[str]:
    yield from _head(name, "histogram", text)
    so_far = 0
    for bound, count in zip((*map(str, BOUNDS), "+Inf"), counts, strict=True):
        so_far += count
        yield f'{name}_bucket{{le="{bound}"}} {so_far}'
    yield f"{name}_sum {round(total, 6)}"
    yield f"{name}_count {so_far}"


def _head(name: str, kind: str, text: str) -> Iterator[str]:
    yield f"# TYPE {name} {kind}"
    yield f"# HELP {name} {text}"


def _escaped(text: str) -> str:
    """A label's value.

    >>> print(_escaped('a "b"'))
    a \\"b\\"
    """
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
