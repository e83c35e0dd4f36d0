"""What Everview shows and says of itself: `everview demo`, `doctor`, `bench`."""

from __future__ import annotations

import subprocess
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from everview.cli.app import app

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"
"""where they are in a source checkout; nowhere in an installed package"""


class Story(StrEnum):
    """What can be told."""

    money = "money"
    mentions = "mentions"


@app.command()
def demo(
    story: Annotated[
        Story, typer.Option(help="money: who pays a sanctioned account; mentions: the window of the 2013 paper.")
    ] = Story.money,
    fast: Annotated[bool, typer.Option("--fast", help="Less of everything: a few seconds.")] = False,
    data: Annotated[
        Path | None,
        typer.Option(help="Data of yours: a CSV file (at,what,id,payer,payee,via,amount); mentions: src dst unixtime."),
    ] = None,
    keep: Annotated[
        Path | None, typer.Option(help="A directory for the page, the state and the stream's files.")
    ] = None,
    embedded: Annotated[bool, typer.Option("--embedded", "--no-spark", help="Without Spark.")] = False,
    show: Annotated[bool, typer.Option("--open/--no-open", help="Open the page where there is a display.")] = True,
) -> None:
    """Where does the money go? Rings of accounts, and who pays a sanctioned one, over a stream of payments."""
    from everview import demo as stories

    stories.run(story.value, data=data, fast=fast, spark=not embedded, keep=keep, show=show)


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
