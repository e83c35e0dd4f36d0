"""Quarantines a log record that kills the process.

A transaction is logged before it runs. If running it kills the process (out of memory, a crash in a user function), it
is still there at the next opening, and the next; a directory that cannot be opened is worse than a transaction that was
never acknowledged. Before the last unacknowledged record of a log is run, this is therefore noted in the witness
(`everview.store.witness`). If the note is still there at the next opening, the record killed the process: it is moved
into a file under `aside/`, which nothing deletes, with a warning.

Only the last record can be affected, because each record is written after the previous one was done; and whatever was
done was acknowledged, and is never set aside. In one case this is unknown: the machine stopped, and the disk may lack
some of what was done. Then the record is tried `TRIES` times, after which opening fails with an error that names it;
`everview repair` can set it aside on request. An opening that ends in an ordinary error (a missing function, say)
removes the note.

On object stores the owner's note records what was done (`everview.store.wal_objects`). It is unknown if that note is
gone, or was written by a version of Everview that did not write it before each acknowledgement.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

from everview.errors import StoreError
from everview.store.files import Files
from everview.store.wal import HEAD, Found
from everview.store.witness import Bound, Witness

FOLDER = "aside"
TRIES = 3
"""How often a possibly acknowledged record is tried."""


def prepare(files: Files, path: Path, version: int, found: Found, bound: Bound, witness: Witness) -> None:
    """Note that the last record is about to be run, if it was not done; remove it if that was noted before."""
    if len(found.ends) < 2 or found.ends[-1] <= found.done:
        return
    place = found.ends[-2]
    bound = replace(bound, version=version, done=max(bound.done, found.done), unsure=found.unsure or bound.unsure)
    if was_tried(f"{path}: at byte {place}", place, bound, witness):
        set_aside(files, path, version, found)


def was_tried(where: str, place: int, bound: Bound, witness: Witness) -> bool:
    """Whether the record at a position, not known to be done, killed a process before and must be set aside. If not,
    note that it is about to be run. E_STUCK if it did, but may have been acknowledged.
    """
    tried = bound.attempts if bound.place == place else 0
    if tried and not bound.unsure:
        return True
    if tried >= TRIES:
        raise StoreError(
            "E_STUCK",
            f"{where}: the process ended {tried} times while it ran the last record",
            "if memory or a function was the reason, mend that and try `everview repair`; "
            "`everview repair --set-aside` opens the directory without that transaction",
        )
    witness.attempt(replace(bound, attempts=tried + 1, place=place))
    return False


def set_aside(files: Files, path: Path, version: int, found: Found) -> str:
    """Move the last record out of the log; return the file that now has it."""
    payload = found.payloads.pop()
    found.ends.pop()
    end = found.ends[-1]
    name = keep(files, version, end, payload)
    handle = files.disk.open(path)
    handle.truncate(end)
    handle.sync()
    handle.close()
    warn(files, str(path), name, f"{len(payload) + HEAD} bytes at {end}")
    return name


def keep(files: Files, version: int, place: int, payload: bytes) -> str:
    """Write a record into a file that nothing deletes or replaces; return its name. Another one may have been set aside
    at the same position: the log is truncated there each time.
    """
    name = start = f"{FOLDER}/{version:020d}-{place}"
    number = 1
    while files.exists(name):
        number += 1
        name = f"{start}-{number}"
    files.write(name, payload)
    return name


def warn(files: Files, where: str, name: str, what: str) -> None:
    """Warn about a record that was set aside."""
    warnings.warn(
        f"{where}: the last transaction ended the process that ran it and was never acknowledged; it is set aside "
        f"({what}, kept in {files.where(name)})",
        stacklevel=2,
    )
