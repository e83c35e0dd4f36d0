"""Damage to single files of a directory: what disks, copies and people do to them.

Each damage is chosen by a seed: a file, and one of: deleted, emptied, cut somewhere, a few bits flipped, a piece
zeroed, replaced by an older copy of itself, replaced by another file of its folder.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

KINDS = ("delete", "empty", "cut", "flip", "zero", "older", "other")


def files_of(where: Path) -> list[Path]:
    """The files, without notes about who is there."""
    found = [p.relative_to(where) for p in where.rglob("*") if p.is_file()]
    return sorted(p for p in found if p.parts[0] not in ("owner", "pins"))


def damage(where: Path, older: list[Path], source: random.Random) -> str | None:
    """Damage one file; what was done, None if it came to nothing. `older` are copies of the directory of before."""
    file = source.choice(files_of(where))
    kind = source.choice(KINDS)
    path = where / file
    data = path.read_bytes()
    others = [p for p in sorted(path.parent.iterdir()) if p.is_file()]
    new = _damaged(kind, data, [p / file for p in older], others, source)
    if new is not None and new == data:
        return None
    if new is None:
        path.unlink()
    else:
        path.write_bytes(new)
    return f"{kind} {file}"


def _damaged(kind: str, data: bytes, older: list[Path], others: list[Path], source: random.Random) -> bytes | None:
    if kind == "delete":
        return None
    if kind == "empty" or not data:
        return b""
    if kind == "cut":
        return data[: source.randrange(len(data))]
    if kind == "flip":
        changed = bytearray(data)
        for _ in range(source.choice((1, 1, 1, 3))):
            changed[source.randrange(len(data))] ^= 1 << source.randrange(8)
        return bytes(changed)
    if kind == "zero":
        start = source.randrange(len(data))
        size = source.randint(1, 64)
        return data[:start] + bytes(len(data[start : start + size])) + data[start + size :]
    places = [p for p in older if p.exists()] if kind == "older" else others
    return source.choice(places).read_bytes() if places else data


def copied(where: Path, to: Path) -> Path:
    """A fresh copy of a directory."""
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(where, to)
    return to
