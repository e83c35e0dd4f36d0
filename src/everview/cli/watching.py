"""What `everview top` draws: the memory of a directory, or what a server does and for whom."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

import everview
from everview.session.memory import RIGHT, Memory
from everview.sql.shell import live_display

if TYPE_CHECKING:
    from everview.session.session import Session

SECONDS = 1.0
"""Seconds between two drawings."""

SHEETS = {
    "views": "SELECT name, updates, bytes FROM ev.views ORDER BY bytes DESC LIMIT 15",
    "operators": "SELECT name, ns / 1000000 AS ms, merge_ns / 1000000 AS merging_ms, python_ns / 1000000 AS python_ms "
    "FROM ev.work ORDER BY ns DESC LIMIT 10",
    "sessions": 'SELECT id, protocol, "user", state, statement FROM ev.sessions ORDER BY id LIMIT 20',
    "followers": "SELECT session, relation, position, behind FROM ev.followers ORDER BY behind DESC LIMIT 10",
    "steps": "SELECT time, ms, transactions, rows, error FROM ev.steps ORDER BY time DESC LIMIT 8",
    "errors": "SELECT view, error, rows FROM ev.errors ORDER BY rows DESC LIMIT 5",
}
"""What `everview top` shows of a server; what is empty is left out."""


def directory(state: str, db: Session, once: bool) -> None:
    """Show the memory of tables and views, and what dropping each would free."""
    console = Console()
    if once or not console.is_terminal:
        console.print(_memory(state, db.memory()))
        return
    with Live(console=console, auto_refresh=False, screen=True) as screen:
        while True:
            screen.update(_memory(state, db.memory()), refresh=True)
            live_display.advance(db, SECONDS)


def _memory(state: str, found: Memory) -> Group:
    parts: list[Table | Text] = [Text(f"{state}, time {found['time']}: {found.summary()}")]
    for heads, rows in found.tables():
        table = Table(*heads)
        for column in table.columns:
            column.justify = "right" if column.header in RIGHT else "left"
        for row in rows:
            table.add_row(*(f"{v:,}" if isinstance(v, int) else Text(v) for v in row))
        parts.append(table)
    return Group(*parts)


def server(address: str, token: str, certificate: str, once: bool) -> None:
    """Show the busiest and the largest of a server."""
    console = Console()
    client: Any = everview.connect(address, token=token, certificate=certificate)
    with client as db:
        if once or not console.is_terminal:
            console.print(_drawn(address, db.sql))
            return
        with Live(console=console, auto_refresh=False, screen=True) as screen:
            while True:
                screen.update(_drawn(address, db.sql), refresh=True)
                time.sleep(SECONDS)


def _drawn(address: str, sql: Callable[[str], Any]) -> Group:
    ((now, tables, views, operators),) = sql("SELECT time, tables, views, operators FROM ev.session").rows()
    memory = sum(size for _, size in sql("SELECT what, bytes FROM ev.memory").rows())
    head = f"{address}, time {now}: {tables} tables, {views} views, {operators} operators, {memory:,} bytes"
    parts: list[Table | Text] = [Text(head)]
    for title, text in SHEETS.items():
        found = sql(text)
        rows = found.rows()
        if not rows:
            continue
        table = Table(*found.columns, title=title, title_justify="left")
        for column, value in zip(table.columns, rows[0], strict=True):
            column.justify = "right" if isinstance(value, (int, float)) else "left"
        for row in rows:
            table.add_row(*(_cell(value) for value in row))
        parts.append(table)
    return Group(*parts)


def _cell(value: Any) -> str:
    if isinstance(value, (int, float)):
        return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"
    return " ".join(str(value).split())[:80].replace("[", "\\[")
