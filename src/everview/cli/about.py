"""What Everview shows and says of itself: `everview demo`, `doctor`, `bench`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from everview.cli.app import app

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"
"""where they are in a source checkout; nowhere in an installed package"""


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

    story.run(data=data, fast=fast, spark=spark, keep=keep)


@app.command()
def doctor() -> None:
    """Say what is installed and where, and try a query: what to look at first when something does not work."""
    from everview.cli import diagnosis

    failed = diagnosis.examine(typer.echo)
    raise typer.Exit(1 if failed else 0)


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    hidden=not (BENCHMARKS / "__main__.py").is_file(),
)
def bench(context: typer.Context) -> None:
    """Run the benchmarks of a source checkout; arguments are passed on."""
    if not (BENCHMARKS / "__main__.py").is_file():
        typer.echo("The benchmarks are part of the source checkout, not of the package.", err=True)
        raise typer.Exit(2)
    raise typer.Exit(subprocess.run([sys.executable, str(BENCHMARKS), *context.args], check=False).returncode)
