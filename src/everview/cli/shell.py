"""`everview sql`: an interactive prompt, a text (`-c`), a script (`-f`) or a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import everview
from everview.cli.app import TRUST, app
from everview.cli.places import check_state
from everview.errors import InputError, StoreError

if TYPE_CHECKING:
    from everview.session.session import Session


@app.command()
def sql(
    state: Annotated[str | None, typer.Argument(help="State directory. Without one, the session is in memory.")] = None,
    command: Annotated[list[str] | None, typer.Option("-c", "--command", help="Run this SQL. Repeatable.")] = None,
    file: Annotated[list[Path] | None, typer.Option("-f", "--file", help="Run this script. Repeatable.")] = None,
    create: Annotated[bool, typer.Option("--create", help="Create the directory if it does not exist.")] = False,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Only read; works while another process is writing.")
    ] = False,
    spark: Annotated[bool, typer.Option("--spark/--embedded", help="Run on Spark, or in this process.")] = False,
    mode: Annotated[str, typer.Option(help="Output format: table, line, csv, json or markdown.")] = "table",
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="Continue after an error instead of stopping.")
    ] = False,
    trust: Annotated[bool, typer.Option("--trust", help=TRUST)] = False,
) -> None:
    """Run SQL at a prompt, from -c, -f or a pipe. Without a prompt, the first error ends the run with exit code 1."""
    from everview.sql.shell.output import Output
    from everview.sql.shell.repl import Repl

    _check(state, create=create, read_only=read_only, spark=spark, trust=trust)
    output = Output(mode)
    asked = command or file
    with _session(state, read_only, spark, trust, ask=not asked and sys.stdin.isatty()) as session:
        if not asked and sys.stdin.isatty():
            from everview.sql.shell import terminal

            terminal.talk(session, mode)
            return
        repl = Repl(session, typer.echo, complain=lambda text: typer.echo(text, err=True), output=output)
        for name, lines in _texts(command or [], file or []):
            if not repl.run(lines, keep_going=keep_going, script=name) and not keep_going:
                break
        if repl.failed:
            raise typer.Exit(1)


def _texts(commands: list[str], files: list[Path]) -> Iterator[tuple[str, Any]]:
    """The name and the lines of each text to run; only files have names."""
    for text in commands:
        yield "", text.split("\n")
    for path in files:
        try:
            yield path.name, path.read_text().split("\n")
        except OSError as error:
            raise InputError(
                "E_FILE", f"{path} cannot be read: {error.strerror}", "give the path of a script"
            ) from None
    if not commands and not files:
        yield "", sys.stdin


def _check(state: str | None, *, create: bool, read_only: bool, spark: bool, trust: bool) -> None:
    """Refuse contradictory options, and a directory that does not exist."""

    if state is None:
        given = [n for n, on in (("--create", create), ("--read-only", read_only), ("--trust", trust)) if on]
        if given:
            raise InputError("E_OPTION", f"{given[0]} is about a directory, and none is given", "name the directory")
        return
    for other, on in (("--create", create), ("--spark", spark)):
        if read_only and on:
            raise InputError("E_OPTION", f"--read-only and {other} do not go together", "leave one of them out")
    if not create:
        check_state(state)


@contextmanager
def _session(state: str | None, read_only: bool, spark: bool, trust: bool, ask: bool) -> Iterator[Session]:
    """The session to use. If another process writes it, offer to open it read-only."""
    from everview.io import program

    if spark:
        settings = {"master": program.MASTER, **({"state": state} if state else {})}
        with program.connect(settings, trust=trust) as (session, _):
            yield session
        return
    options: dict[str, Any] = {"trust": trust} if state else {}
    try:
        session = everview.connect(state, **options, **({"read_only": True} if read_only else {}))
    except StoreError as error:
        if error.code != "E_LOCKED":
            raise
        error.hint = "close it there, or look at it with --read-only"
        if not ask:
            raise
        typer.echo(error.message)
        if not typer.confirm("Open it read-only?", default=True):
            raise typer.Exit(1) from None
        session = everview.connect(state, **options, read_only=True)
    with session:
        yield session
