"""Pipelines from files: `everview run`, and `everview check`, which inspects one without running it."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated

import typer

from everview.cli import directories
from everview.cli.app import TRUST, app
from everview.codes.durations import seconds
from everview.errors import EverviewError, InputError

CERTAIN = ("E_SYNTAX", "E_COLUMN", "E_TYPE", "E_FORMAT", "E_GROUP", "E_AGGREGATE", "E_OPTION", "E_PIPELINE")
"""Errors that are certain from the file alone, whatever Spark or earlier statements would do."""


@app.command()
def run(
    file: Annotated[Path, typer.Argument(help="The pipeline: .sql, .toml, or .py with a function pipeline(db).")],
    master: Annotated[str, typer.Option(help="Spark master; default local[2].")] = "",
    embedded: Annotated[bool, typer.Option("--embedded", help="Run in this process, without Spark.")] = False,
    state: Annotated[str, typer.Option(help="Directory for tables, views and source positions.")] = "",
    shards: Annotated[str, typer.Option(help="Number of shards, on Spark; default one per slot.")] = "",
    until: Annotated[
        str, typer.Option(help="When to stop: caught_up, or after a duration such as 30s. Default: at Ctrl-C.")
    ] = "",
    conf: Annotated[list[str] | None, typer.Option(help="Spark setting, name=value. Repeatable.")] = None,
    progress: Annotated[bool, typer.Option(help="Show a progress line.")] = True,
    trust: Annotated[bool, typer.Option("--trust", help=TRUST)] = False,
) -> None:
    """Run a pipeline: sources, views and sinks. Paths in the file are relative to it."""
    from everview.io import program
    from everview.sql.shell import script

    more = program.spark_settings(conf or ())
    if embedded:
        _refuse_of_spark(master, shards, conf or [])
        master = program.EMBEDDED
    options = {"master": master, "state": state, "shards": shards, "until": until}
    given = {name: value for name, value in options.items() if value}
    _check_until(until)
    if file.suffix == ".sql" and file.is_file():
        _refuse_until(file, until)
        _refuse_trust(trust, given)
        _refuse_mistakes(file, given)
        with program.connect(given, more, trust=trust) as (db, _):
            script.run(db, file, until=until or None, show=typer.echo, progress=progress)
        return
    found = program.load(file)
    settings = found.settings | given
    _refuse_trust(trust, settings)
    if file.suffix == ".toml":
        _refuse_mistakes(file, settings)
    with program.connect(settings, found.conf | more, trust=trust) as (db, spark):
        found.build(db, spark)
        typer.echo(str(db.run(settings.get("until"), progress=progress)))


def _refuse_mistakes(file: Path, settings: dict[str, str]) -> None:
    """Report errors in a file before Spark starts, which takes seconds. An existing directory may have tables that the
    file relies on; and Python is only run once.
    """
    from everview.cli import dry_run
    from everview.io.program import EMBEDDED

    state = settings.get("state", "")
    if settings.get("master") == EMBEDDED or "://" in state or (state and Path(state).exists()):
        return
    try:
        with warnings.catch_warnings(action="ignore"):  # the run will report it
            list(dry_run.described(file))
    except EverviewError as error:
        if error.code in CERTAIN:
            raise


def _refuse_of_spark(master: str, shards: str, conf: list[str]) -> None:
    """Refuse Spark options without Spark."""
    for option, value in (("--master", master), ("--shards", shards), ("--conf", conf)):
        if value:
            raise InputError(
                "E_OPTION", f"--embedded runs without Spark, so {option} would have no effect", "leave one of them out"
            )


def _check_until(until: str) -> None:
    """Refuse an invalid duration before anything starts."""
    from everview.io.pipeline import CAUGHT_UP

    if until and until != "caught_up":
        seconds(until, CAUGHT_UP)


def _refuse_until(file: Path, until: str) -> None:
    from everview.sql.shell import script

    if until and script.has_run(file):
        raise InputError(
            "E_OPTION",
            f"{file.name} says how long it runs, so --until {until} would have no effect",
            "leave --until out, or take RUN out of the script",
        )


def _refuse_trust(trust: bool, settings: dict[str, str]) -> None:
    if trust and not settings.get("state"):
        raise InputError("E_OPTION", "--trust is about the functions in a directory, and none is named", "add --state")


@app.command()
def check(
    what: Annotated[str, typer.Argument(help="A pipeline file, or a state directory.")],
    deep: Annotated[
        bool, typer.Option("--deep", help="Recompute every view from its tables and compare row by row.")
    ] = False,
    trust: Annotated[bool, typer.Option("--trust", help=TRUST)] = False,
) -> None:
    """Check a pipeline or a state directory; changes nothing. A pipeline is parsed and planned, and its sources and
    sinks are listed. Every file of a directory is read and verified.
    """
    from everview.io.program import KINDS

    path = Path(what)
    if not (path.is_file() or path.suffix in KINDS):
        directories.check(what, deep, trust)
        return
    if deep or trust:
        raise InputError("E_OPTION", "--deep and --trust are about directories", "leave them out for a pipeline's file")
    from everview.cli import dry_run

    for line in dry_run.described(path):
        typer.echo(line)
