"""The `everview` command. Each command is a thin wrapper that imports on demand, so `everview --help` loads nothing.

app           the command itself: version and error handling
pipelines     run, check
shell         sql
serve         serve
servers       support, and top of a server
directories   ls, explain, subscribe, repair
about         demo, doctor, bench

Further modules:

    diagnosis, places    the checks of `doctor`; recognising state directories
    watching             what `top` draws
    dry_run, rows        dry runs of pipeline files; rows as text
"""

from __future__ import annotations

from everview.cli import about, directories, pipelines, serve, servers, shell
from everview.cli.app import app, main

__all__ = ["about", "app", "directories", "main", "pipelines", "serve", "servers", "shell"]
