"""The top-level command: `--version`, and error handling.

A user's mistake is one message on standard error and exit code 1 (2 for wrong usage, 130 for Ctrl-C), never a traceback
of ours. A traceback means a bug in Everview, or in the user's own Python, and is then complete.
"""

from __future__ import annotations

import os
import sys
import warnings
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from everview.errors import EverviewError, InternalError, Notice

TRUST = "Run Python functions stored in the directory. Only do this if you trust whoever wrote it."


ORDER = (
    *("demo", "sql", "run", "check", "serve", "ls", "explain", "why", "what-if"),
    *("subscribe", "top", "support", "repair", "doctor", "bench"),
)
"""The order of commands in `--help`: starting points first."""


_show_warning = warnings.showwarning


def _shown(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
    """Print notices without the source location that issued them."""
    if issubclass(category, Notice):
        typer.echo(f"notice: {message}", err=True)
    else:
        _show_warning(message, category, *where, **more)


class Commands(TyperGroup):
    """The command group; errors of Everview become messages."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The commands in the order of `ORDER`."""
        return sorted(super().list_commands(ctx), key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER))

    def invoke(self, ctx: Any) -> Any:
        before, warnings.showwarning = warnings.showwarning, _shown
        try:
            return super().invoke(ctx)
        except EverviewError as error:
            if isinstance(error, InternalError) and error.code != "E_KERNELS":
                raise
            typer.echo(str(error), err=True)
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            raise typer.Exit(130) from None
        except BrokenPipeError:  # the reader has closed the pipe: `everview ls dir | head -1`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(141) from None
        finally:
            warnings.showwarning = before


app = typer.Typer(
    name="everview",
    help="Queries whose answers stay up to date: SQL, Datalog, collections and graphs.",
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"everview {version('everview')}")
        raise typer.Exit()


@app.callback()
def everview(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Keep subcommands subcommands."""


def main() -> None:
    """Entry point of the console script."""
    app()
