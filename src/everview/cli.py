"""The `everview` command: `demo`, `sql`, `run`, `check`, `repair`, `doctor` and `bench` so far.

Each command is a thin face: the demo's story is in `everview.demo`, benchmarks live in the checkout's `benchmarks/`.
Imports happen inside the commands, so `everview --help` does not load a compiler.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    name="everview",
    help="Views that stay up to date: incremental queries by differential dataflow.",
    no_args_is_help=True,
    add_completion=False,
)


TRUST = "Run the Python functions that the directory brings: only if you trust whoever wrote it."


@app.callback()
def _everview() -> None:
    """Keep `demo` a subcommand even while there are few."""


@app.command()
def demo(
    fast: Annotated[bool, typer.Option("--fast", help="Less of everything: a few seconds.")] = False,
    data: Annotated[
        Path | None, typer.Option(help="Mentions to use: a file of lines `src dst unixtime`, or .gz.")
    ] = None,
    keep: Annotated[
        Path | None, typer.Option(help="A directory for the page and the stream's files, which then stay.")
    ] = None,
    spark: Annotated[bool, typer.Option(help="Read the stream through Spark, if it starts.")] = True,
) -> None:
    """Who talks with whom: components of a mention graph, in a window that slides forwards and backwards."""
    from everview import demo as story
    from everview.errors import EverviewError

    try:
        story.run(data=data, fast=fast, spark=spark, keep=keep)
    except EverviewError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None


@app.command()
def run(
    file: Annotated[Path, typer.Argument(help="A pipeline: .sql, .py with a function pipeline(db), or .toml.")],
    master: Annotated[str, typer.Option(help="Spark's master; usually local[2].")] = "",
    embedded: Annotated[bool, typer.Option("--embedded", help="Run in this process, without Spark.")] = False,
    state: Annotated[str, typer.Option(help="The directory that keeps tables, views and positions.")] = "",
    shards: Annotated[str, typer.Option(help="Parts to split the state into, on Spark; usually one per slot.")] = "",
    until: Annotated[str, typer.Option(help='"caught_up", or a duration like 30s; else until Ctrl-C.')] = "",
    conf: Annotated[list[str] | None, typer.Option(help="A setting of Spark, name=value; may be repeated.")] = None,
    progress: Annotated[bool, typer.Option(help="Show a progress line.")] = True,
    trust: Annotated[bool, typer.Option("--trust", help=TRUST)] = False,
) -> None:
    """Run a pipeline: take what its sources have, keep its views and sinks up to date."""
    from everview.errors import EverviewError
    from everview.io import program
    from everview.sql import script

    if embedded:
        master = program.EMBEDDED
    options = {"master": master, "state": state, "shards": shards, "until": until}
    given = {name: value for name, value in options.items() if value}
    try:
        more = program.spark_settings(conf or ())
        if file.suffix == ".sql":
            with program.connect(given, more, trust=trust) as (db, _):
                script.run(db, file, until=until or None, show=typer.echo)
            return
        found = program.load(file)
        settings = found.settings | given
        with program.connect(settings, found.conf | more, trust=trust) as (db, spark):
            found.build(db, spark)
            typer.echo(str(db.run(settings.get("until"), progress=progress)))
    except EverviewError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None


@app.command()
def sql(
    state: Annotated[str | None, typer.Argument(help="Directory of a durable session; without one, in memory.")] = None,
    trust: Annotated[bool, typer.Option("--trust", help=TRUST)] = False,
) -> None:
    """SQL at a prompt; statements from a pipe are run as they are."""
    import everview
    from everview.sql import repl

    with everview.connect(state, **({"trust": trust} if state else {})) as session:
        repl.main(session)


@app.command()
def check(
    state: Annotated[str, typer.Argument(help="Directory of a durable session, or of one on Spark.")],
    deep: Annotated[
        bool, typer.Option("--deep", help="Compute every view again from its tables, and compare row by row.")
    ] = False,
    trust: Annotated[bool, typer.Option("--trust", help=TRUST)] = False,
) -> None:
    """Read a directory through, and say whether it is whole; nothing in it is changed."""
    import everview
    from everview.errors import EverviewError
    from everview.recovery import checking
    from everview.session.core import core_of

    try:
        with everview.connect(state, read_only=True, trust=trust) as db:
            store = core_of(db).runtime.backing.store
            assert store is not None
            pieces = checking.read_through(store)
            typer.echo(f"{pieces} pieces are whole, time {db.time}: {len(db.tables)} tables, {len(db.views)} views")
            found = db.check() if deep else []
    except EverviewError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
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
    from everview.errors import EverviewError
    from everview.store import repair as store
    from everview.store.files import open_files

    try:
        files = open_files(state)
        if set_aside:
            typer.echo(f"set aside: {files.where(store.set_aside(files))}")
        found = store.examine(files)
        for line in found.report():
            typer.echo(line)
        if into:
            store.rescue(files, found, into)
            typer.echo(f"written into {into}")
    except EverviewError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    raise typer.Exit(0 if found.sound or into else 1)


@app.command()
def doctor() -> None:
    """Say what is installed, where compiled kernels are kept, and what an import costs."""
    from rich.console import Console
    from rich.table import Table

    table = Table(show_header=False, box=None)
    for name, value in _facts():
        table.add_row(name, value)
    Console().print(table)


def _facts() -> list[tuple[str, str]]:
    from importlib.metadata import PackageNotFoundError, version

    from everview.kernels.build import cache

    archive = cache.archive_path()
    ready = "there" if archive.exists() else "not there: run `python -m everview.warm`"
    facts = [
        ("python", f"{sys.version.split()[0]} ({sys.executable})"),
        ("cpus", str(os.cpu_count())),
        ("kernel build", cache.build_mode()),
        ("compiled kernels", f"{archive} ({ready})"),
        ("import everview", f"{_import_seconds():.2f} s CPU"),
    ]
    for package in ("everview", "numpy", "numba", "llvmlite", "pyarrow", "sqlglot", "pandas", "polars", "pyspark"):
        try:
            facts.append((package, version(package)))
        except PackageNotFoundError:
            facts.append((package, "not installed"))
    return facts


def _import_seconds() -> float:
    """CPU seconds of a fresh interpreter that imports the package."""
    program = "import everview, time; print(time.process_time())"
    return float(subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True).stdout)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def bench(context: typer.Context) -> None:
    """Run the benchmarks of a source checkout; arguments are passed on."""
    folder = Path(__file__).resolve().parents[2] / "benchmarks"
    if not (folder / "__main__.py").is_file():
        typer.echo(f"No benchmarks in {folder}: they are part of the source checkout, not of the package.", err=True)
        raise typer.Exit(2)
    raise typer.Exit(subprocess.run([sys.executable, str(folder), *context.args], check=False).returncode)


def main() -> None:
    """Entry point of the console script."""
    app()


if __name__ == "__main__":
    main()
