"""The `everview` command. Each command is a thin wrapper that imports on demand, so `everview --help` loads nothing.

app           the command itself: version and error handling
pipelines     run, check
shell         sql
serve         serve
directories   ls, explain, subscribe, repair
about         demo, doctor, bench

Further modules:

    diagnosis, places    the checks of `doctor`; recognising state directories
    dry_run, rows        dry runs of pipeline files; rows as text
"""

from __future__ import annotations

from everview.cli import about, directories, pipelines, serve, shell
from everview.cli.app import app, main

__all__ = ["about", "app", "directories", "main", "pipelines", "serve", "shell"]
