"""Inboxes: directories where others put records for a table of a state directory that they may not write themselves."""

from __future__ import annotations

from pathlib import Path

INBOX = "inbox"


def inbox_directory(state: str, table: str) -> Path:
    """The directory of a table's inbox, which is made if it is not there."""
    folder = Path(state) / INBOX / table
    folder.mkdir(parents=True, exist_ok=True)
    return folder
