"""Recognises state directories."""

from __future__ import annotations

from pathlib import Path

from everview.errors import InputError, did_you_mean


def check_state(state: str) -> None:
    """Refuse a directory without a session: a typo must not create a new one."""
    if "://" in state:
        return  # opening it will tell
    path = Path(state)
    if is_state(path):
        return
    beside = path.parent if path.parent.is_dir() else Path()
    others = [p.name for p in beside.iterdir() if is_state(p)] if beside.is_dir() else []
    what = f"{state} holds no session" if path.exists() else f"there is no directory {state}"
    close = did_you_mean(path.name, others) if others else ""
    hint = f"{close}; " if close.startswith("did you mean") else ""
    raise InputError(
        "E_STATE", what, f"{hint}--create makes a new one" if not path.is_file() else f"{hint}name a directory"
    )


def is_state(path: Path) -> bool:
    """Whether a directory holds a session."""
    return path.is_dir() and any((path / name).exists() for name in ("owner", "wal", "versions"))
