"""Commands about Everview itself: `everview demo`, `doctor`, `bench`."""

from __future__ import annotations

import subprocess
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from everview import demo as stories
from everview.cli import diagnosis
from everview.cli.app import app

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"
"""their place in a source checkout; none in an installed package"""


class Story(StrEnum):
    """The available demos."""

    money = "money"
    mentions = "mentions"


@app.command()
def demo(
    story: Annotated[
        Story,
        typer.Option(help="money: who pays a sanctioned account. mentions: the sliding window of the 2013 paper."),
    ] = Story.money,
    fast: Annotated[bool, typer.Option("--fast", help="A short version, a few seconds.")] = False,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Your own data: a CSV file (at,what,id,payer,payee,via,amount); for mentions: src dst unixtime."
        ),
    ] = None,
    keep: Annotated[
        Path | None, typer.Option(help="Directory in which to leave the page, the state and the stream's files.")
    ] = None,
    embedded: Annotated[bool, typer.Option("--embedded", "--no-spark", help="Do not use Spark.")] = False,
    show: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in a browser, if there is a display.")
    ] = True,
) -> None:
    """Follow the money, live, in under a minute. A stream of payments: rings of accounts, and who reaches a sanctioned
    one. Ends with a page to look at.
    """
    stories.run(story.value, data=data, fast=fast, spark=not embedded, keep=keep, show=show)


@app.command()
def doctor() -> None:
    """Check the installation: versions, paths, kernels, Java, Spark. Runs a query."""
    failed = diagnosis.examine(typer.echo)
    raise typer.Exit(1 if failed else 0)


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    hidden=not (BENCHMARKS / "__main__.py").is_file(),
)
def bench(context: typer.Context) -> None:
    """Run the benchmarks of a source checkout. Arguments are passed on to them."""
    if not (BENCHMARKS / "__main__.py").is_file():
        typer.echo("The benchmarks are part of the source checkout, not of the package.", err=True)
        raise typer.Exit(2)
    raise typer.Exit(subprocess.run([sys.executable, str(BENCHMARKS), *context.args], check=False).returncode)
