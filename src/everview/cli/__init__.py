"""The `everview` command. Each command is a thin face; imports happen inside them, so `everview --help` loads nothing.

app           the command itself: versions, and what becomes of errors
pipelines     run, check
shell         sql
serving       serve
directories   ls, explain, subscribe, repair
about         demo, doctor, bench

Besides:

    diagnosis, places    what `doctor` looks at; whether a directory is a session's
    planned, rows        what a pipeline's file would do; rows as text
"""

from __future__ import annotations

from everview.cli import about, directories, pipelines, serving, shell
from everview.cli.app import app, main

__all__ = ["about", "app", "directories", "main", "pipelines", "serving", "shell"]
