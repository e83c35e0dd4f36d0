"""Commands on state directories: `everview ls`, `explain`, `what-if`, `subscribe`, `repair`, `check`.

All but `repair` only read, even while a pipeline writes.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

import everview
from everview.cli import servers
from everview.cli.app import TRUST, app
from everview.cli.places import check_state
from everview.codes.durations import seconds
from everview.errors import EverviewError, InputError, did_you_mean

if TYPE_CHECKING:
    from everview.session.session import Session

State = Annotated[str, typer.Argument(help="State directory.")]
Trust = Annotated[bool, typer.Option("--trust", help=TRUST)]


def _opened(state: str, trust: bool) -> Session:

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
    """List tables and views with columns, row counts and sizes."""
    from everview.codes.scalars import counted
    from everview.session.core import core_of
    from everview.session.memory import size
    from everview.session.reads import rendering

    with _opened(state, trust) as db:
        typer.echo(f"{state}: time {db.time}, {size(db.stats()['bytes'])} of indexes")
        found = []
        for kind, names in (("table", db.tables), ("view", db.views)):
            for name in names:
                columns = ", ".join(f"{n} {t!r}" for n, t in db[name].schema().items())
                try:
                    rows = rendering.counted(db[name].count())
                except EverviewError as error:
                    rows = error.code
                said = core_of(db).catalog.comments.get((name, ""), "")
                found.append((kind, name, rows, f"({columns}){f'  -- {said}' if said else ''}"))
        longest, most = (max((rendering.width(line[i]) for line in found), default=0) for i in (1, 2))
        for kind, name, rows, columns in found:
            blanks = " " * (longest - rendering.width(name))
            typer.echo(f"{kind:5}  {name}{blanks}  {rows:>{most}}  {columns}")
        marks = core_of(db).runtime.offsets
        for source in sorted({mark.split("/")[1] for mark in marks if mark.startswith("source/")}):
            kept = sum(m.startswith(f"source/{source}/") for m in marks)
            typer.echo(f"source {source}  {counted(kept, 'position')}")


@app.command()
def top(
    state: Annotated[str, typer.Argument(help="State directory, or a server such as everview://127.0.0.1:8080.")],
    once: Annotated[bool, typer.Option("--once", help="Print once and exit.")] = False,
    trust: Trust = False,
    token: servers.Token = "",
    certificate: servers.Certificate = "",
) -> None:
    """Show memory by table and view, and what dropping each would free. Of a server: what it does, and for whom."""
    from everview.cli import watching

    if servers.is_server(state):
        watching.server(state, token, certificate, once)
        return
    with _opened(state, trust) as db:
        watching.directory(state, db, once)


@app.command()
def explain(state: State, view: Annotated[str, typer.Argument(help="Name of a view.")], trust: Trust = False) -> None:
    """Show a view's plan and the indexes it uses."""
    with _opened(state, trust) as db:
        typer.echo(db[view].explain())


@app.command("what-if")
def what_if(
    state: State,
    statements: Annotated[str, typer.Argument(help="SQL that changes tables, such as DELETE FROM edge WHERE src = 1.")],
    views: Annotated[
        list[str] | None, typer.Argument(help="Views and tables to report; default all that change.")
    ] = None,
    trust: Trust = False,
) -> None:
    """Show what a change would do to views. Nothing is changed, even while a pipeline is writing."""
    from everview.session.reads import rendering

    with _opened(state, trust) as db, db.what_if() as w:
        for name in views or ():
            w.errors(name)  # it exists
        db.sql(statements)
        typer.echo(str(w))
        for name in views or w.changed:
            for row, diff in w.changes(name):
                typer.echo(f"{name} {diff:+d}  {', '.join(rendering.cell(v) for v in row)}")


@app.command()
def why(
    state: State,
    view: Annotated[str, typer.Argument(help="Name of a view.")],
    row: Annotated[
        str, typer.Argument(help="The row's values: 7,north or 7, 'north'. With --not, _ stands for any value.")
    ],
    absent: Annotated[bool, typer.Option("--not", help="Explain why the row is absent.")] = False,
    number: Annotated[int, typer.Option("--all", help="Show up to this many explanations.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    trust: Trust = False,
) -> None:
    """Explain why a row is in a view, or is not. Shows the table rows it follows from."""
    from everview.cli.rows import as_json, row_of
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
            try:
                answer = found.why(values, all=number) if number else found.why(values)
            except EverviewError as error:
                if error.code == "E_ABSENT":
                    error.hint = "add --not to see what is missing"
                raise
        typer.echo(as_json(answer.to_dict()) if json else str(answer))


@app.command()
def subscribe(
    state: State,
    view: Annotated[str, typer.Argument(help="Name of a view or table.")],
    lines: Annotated[bool, typer.Option("--lines", help="Print changes as lines instead of a live table.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print changes as JSON, one object per line.")] = False,
    snapshot: Annotated[bool, typer.Option(help="Start with the current contents.")] = True,
    during: Annotated[
        str, typer.Option("--for", help="How long to follow it, such as 30s. Default: until Ctrl-C.")
    ] = "",
    trust: Trust = False,
) -> None:
    """Follow a view or table while a pipeline changes it. On a terminal it is a table updated in place; otherwise each
    change is a line.
    """
    from everview.sql.shell import live_display

    with _opened(state, trust) as db:
        if sys.stdout.isatty() and not (lines or json or during):
            live_display.watch(db, view)
            return
        wanted = seconds(during) if during else None
        live_display.follow(db, view, _said, snapshot=snapshot, seconds=wanted, as_json=json)


def _said(line: str) -> None:
    """Print each change at once, also into a pipe."""
    print(line, flush=True)


def check(state: str, deep: bool, trust: bool) -> None:
    """Read a directory through, and say whether it is whole; nothing in it is changed."""
    from everview.codes.scalars import counted
    from everview.recovery import verification
    from everview.session.core import core_of

    with _opened(state, trust) as db:
        store = core_of(db).runtime.backing.store
        assert store is not None
        pieces = verification.read_through(store)
        held = f"{counted(len(db.tables), 'table')}, {counted(len(db.views), 'view')}"
        typer.echo(f"{counted(pieces, 'file')} verified; time {db.time}, {held}")
        found = db.check() if deep else []
    for line in verification.told(found):
        typer.echo(line, err=True)
    if found:
        raise typer.Exit(1)
    if deep:
        typer.echo("every view equals what recomputing it gives")


@app.command()
def repair(
    state: Annotated[str, typer.Argument(help="State directory that is damaged or does not open.")],
    into: Annotated[str, typer.Option(help="New directory to write what can be recovered to.")] = "",
    set_aside: Annotated[
        bool, typer.Option("--set-aside", help="Move aside a log record that crashes every process that replays it.")
    ] = False,
) -> None:
    """Report damage to a directory and what can be recovered. Changes nothing unless an option says so."""
    from everview.store import repair as store
    from everview.store.locations import open_files

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
