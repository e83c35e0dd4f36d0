"""Inboxes: directories where others put records for a table of a state directory that they may not write themselves."""

from __future__ import annotations

from pathlib import Path

from everview.errors import InputError

INBOX = "inbox"


def inbox_directory(state: str, table: str) -> Path:
    """The directory of a table's inbox, which is made if it is not there."""
    if "://" in state:
        raise InputError(
            "E_TARGET",
            f"an inbox needs renaming, and {state} may not have it",
            "let the stream write files there, and take them with db.source(table, everview.io.parquet(...))",
        )
    folder = Path(state) / INBOX / table
    folder.mkdir(parents=True, exist_ok=True)
    return folder
