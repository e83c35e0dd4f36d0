"""Directories of durable sessions, from outside: `everview ls`, `explain`, `what-if`, `subscribe`, `repair`, `check`.

All but `repair` only read, also while a pipeline writes.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from everview.cli.app import TRUST, app

if TYPE_CHECKING:
    from everview.session.session import Session

State = Annotated[str, typer.Argument(help="Directory of a durable session, or of one on Spark.")]
Trust = Annotated[bool, typer.Option("--trust", help=TRUST)]


def _opened(state: str, trust: bool) -> Session:
    import everview
    from everview.cli.places import check_state
    from everview.errors import InputError

    try:
        check_state(state)
    except InputError as error:
        error.hint = (
            error.hint.removesuffix("--create makes a new one").rstrip("; ") or "name one that a pipeline wrote"
        )
        raise
    return everview.connect(state, read_only=True, trust=trust)


@app.command()
def ls(state: State, trust: Trust = False) -> None:
    """Say what a directory holds: tables and views, their columns and rows, and how much room they take."""
    from everview.errors import EverviewError
    from everview.session.core import core_of
    from everview.session.memory import size

    with _opened(state, trust) as db:
        typer.echo(f"{state}: time {db.time}, {size(db.stats()['bytes'])} of indexes")
        for kind, names in (("table", db.tables), ("view", db.views)):
            for name in names:
                columns = ", ".join(f"{n} {t!r}" for n, t in db[name].schema().items())
                try:
                    rows = f"{db[name].count():,}"
                except EverviewError as error:
                    rows = error.code
                said = core_of(db).catalog.comments.get((name, ""), "")
                typer.echo(f"{kind:5}  {name}  {rows} rows  ({columns}){f'  -- {said}' if said else ''}")
        marks = core_of(db).runtime.offsets
        for source in sorted({mark.split("/")[1] for mark in marks if mark.startswith("source/")}):
            typer.echo(f"source {source}  {sum(m.startswith(f'source/{source}/') for m in marks)} positions")


@app.command()
def top(
    state: State,
    once: Annotated[bool, typer.Option("--once", help="Show it once, also on a terminal.")] = False,
    trust: Trust = False,
) -> None:
    """Say what a directory's tables and views hold: sizes, who shares them, what dropping one would free."""
    from rich.console import Console, Group
    from rich.live import Live
    from rich.table import Table as Shown
    from rich.text import Text

    from everview.session.memory import RIGHT, Memory
    from everview.sql.shell import live

    def drawn(found: Memory) -> Group:
        parts: list[Shown | Text] = [Text(f"{state}, time {found['time']}: {found.summary()}")]
        for heads, rows in found.tables():
            table = Shown(*heads)
            for column in table.columns:
                column.justify = "right" if column.header in RIGHT else "left"
            for row in rows:
                table.add_row(*(f"{v:,}" if isinstance(v, int) else Text(v) for v in row))
            parts.append(table)
        return Group(*parts)

    console = Console()
    with _opened(state, trust) as db:
        if once or not console.is_terminal:
            console.print(drawn(db.memory()))
            return
        with Live(console=console, auto_refresh=False, screen=True) as screen:
            while True:
                screen.update(drawn(db.memory()), refresh=True)
                live.advance(db, TOP_SECONDS)


TOP_SECONDS = 1.0
"""How often `everview top` looks again."""


@app.command()
def explain(state: State, view: Annotated[str, typer.Argument(help="The view's name.")], trust: Trust = False) -> None:
    """Say how a view is computed, and which indexes it keeps and shares."""
    with _opened(state, trust) as db:
        typer.echo(db[view].explain())


@app.command("what-if")
def what_if(
    state: State,
    statements: Annotated[str, typer.Argument(help="SQL that changes tables, like DELETE FROM edge WHERE src = 1.")],
    views: Annotated[list[str] | None, typer.Argument(help="Views and tables to list; all if none are named.")] = None,
    trust: Trust = False,
) -> None:
    """Say what would change in views if SQL changed tables. Nothing is changed, also while a pipeline writes."""
    from everview.session.reads import shown

    with _opened(state, trust) as db, db.what_if() as w:
        for name in views or ():
            w.errors(name)  # it is there
        db.sql(statements)
        typer.echo(str(w))
        for name in views or w.changed:
            for row, diff in w.changes(name):
                typer.echo(f"{name} {diff:+d}  {', '.join(shown.cell(v) for v in row)}")


@app.command()
def why(
    state: State,
    view: Annotated[str, typer.Argument(help="The view's name.")],
    row: Annotated[str, typer.Argument(help="The row's values, as 7, 'north' or 7,north; _ for any with --not.")],
    absent: Annotated[bool, typer.Option("--not", help="Say why the row is not there.")] = False,
    number: Annotated[int, typer.Option("--all", help="Up to so many explanations.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
    trust: Trust = False,
) -> None:
    """Say why a row is in a view, down to the rows of tables that it follows from; or why it is not."""
    from everview.cli.rows import as_json, row_of
    from everview.errors import InputError, did_you_mean
    from everview.session.view import View

    with _opened(state, trust) as db:
        found = db[view] if view in db.views else None
        if not isinstance(found, View):
            what = f"{state} has no view {view!r}"
            raise InputError("E_TABLE", what, did_you_mean(view, db.views) or "`everview ls` lists them")
        values = row_of(row, tuple(found.schema().values()))
        if absent:
            answer: Any = found.why_not(values)
        else:
            answer = found.why(values, all=number) if number else found.why(values)
        typer.echo(as_json(answer.to_dict()) if json else str(answer))


@app.command()
def subscribe(
    state: State,
    view: Annotated[str, typer.Argument(help="The name of a view or table.")],
    lines: Annotated[bool, typer.Option("--lines", help="Print changes as lines, also on a terminal.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print changes as JSON, an object per line.")] = False,
    snapshot: Annotated[bool, typer.Option(help="Begin with what is there now.")] = True,
    during: Annotated[str, typer.Option("--for", help="How long, like 30s; else until Ctrl-C.")] = "",
    trust: Trust = False,
) -> None:
    """Show a view or table while a pipeline changes it: on a terminal a table that updates itself, else the changes."""
    from everview.io.durations import seconds
    from everview.sql.shell import live

    with _opened(state, trust) as db:
        if sys.stdout.isatty() and not (lines or json or during):
            live.watch(db, view)
            return
        wanted = seconds(during) if during else None
        live.follow(db, view, _said, snapshot=snapshot, seconds=wanted, as_json=json)


def _said(line: str) -> None:
    """Each change at once, also into a pipe."""
    print(line, flush=True)


def check(state: str, deep: bool, trust: bool) -> None:
    """Read a directory through, and say whether it is whole; nothing in it is changed."""
    from everview.recovery import checking
    from everview.session.core import core_of

    with _opened(state, trust) as db:
        store = core_of(db).runtime.backing.store
        assert store is not None
        pieces = checking.read_through(store)
        typer.echo(f"{pieces} pieces are whole, time {db.time}: {len(db.tables)} tables, {len(db.views)} views")
        found = db.check() if deep else []
    for line in checking.told(found):
        typer.echo(line, err=True)
    if found:
        raise typer.Exit(1)
    if deep:
        typer.echo("every view is what its tables say")


@app.command()
def repair(
    state: Annotated[str, typer.Argument(help="Directory of a durable session that is damaged, or does not open.")],
    into: Annotated[str, typer.Option(help="A new directory, to write into it what can be had back.")] = "",
    set_aside: Annotated[
        bool, typer.Option("--set-aside", help="Take a record out of the log that ends every process that runs it.")
    ] = False,
) -> None:
    """Say what is damaged or missing in a directory and what can be had back; nothing is changed without an option."""
    from everview.store import repair as store
    from everview.store.files import open_files

    files = open_files(state)
    if set_aside:
        typer.echo(f"set aside: {files.where(store.set_aside(files))}")
    found = store.examine(files)
    for line in found.report():
        typer.echo(line)
    if into:
        store.rescue(files, found, into)
        typer.echo(f"written into {into}")
    raise typer.Exit(0 if found.sound or into else 1)
