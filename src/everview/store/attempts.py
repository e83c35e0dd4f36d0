"""A record that ends the process: tried once, then set aside.

A transaction is in the log before it is run. If running it ends the process (it needs more memory than there is, a
function in it crashes), it is still there at the next opening, and the next; a directory that cannot be opened any more
is worse than a transaction that was never acknowledged. So before a log's last record is run, if it was not done, the
witness is told (`everview.store.witness`). If that note is still there at the next opening, nobody came back from the
record: it is moved into a file under `aside/`, where nothing deletes it, and a warning says so.

Only the last record can be of that kind, because a record is written after the one before it was done; and whatever was
done was acknowledged, and is never set aside. There is one case in which nobody knows: the machine stopped, and what
was done may be further than what the disk has of it. Then the record is tried `TRIES` times, and after that opening is
an error that names it: `everview repair` sets it aside if it is told to. An opening that ends in an ordinary error (a
function that was not given, say) came back from the record, and takes its note away.

On object stores the owner's note says what was done (`everview.store.wal_objects`), and nobody knows if that note is
gone, or was written by an Everview that did not write it before each acknowledgement.
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
"""How often a record is tried that may have been acknowledged."""


def prepare(files: Files, path: Path, version: int, found: Found, bound: Bound, witness: Witness) -> None:
    """Note that the last record is about to be run, if it was not done; take it out if that was noted before."""
    if len(found.ends) < 2 or found.ends[-1] <= found.done:
        return
    place = found.ends[-2]
    bound = replace(bound, version=version, done=max(bound.done, found.done), unsure=found.unsure or bound.unsure)
    if was_tried(f"{path}: at byte {place}", place, bound, witness):
        set_aside(files, path, version, found)


def was_tried(where: str, place: int, bound: Bound, witness: Witness) -> bool:
    """Whether the record at a place, which is not known to be done, ended a process before, so that it is to be set
    aside. If not, it is noted that it is about to be run. E_STUCK if it did, but may have been acknowledged.
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
    """Move the last record out of the log; gives the file that has it now."""
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
    """Write a record into a file that nothing deletes or replaces; gives its name. Another one may have been set aside
    at the same place: the log is cut there each time.
    """
    name = start = f"{FOLDER}/{version:020d}-{place}"
    number = 1
    while files.exists(name):
        number += 1
        name = f"{start}-{number}"
    files.write(name, payload)
    return name


def warn(files: Files, where: str, name: str, what: str) -> None:
    """Say what was set aside."""
    warnings.warn(
        f"{where}: the last transaction ended the process that ran it and was never acknowledged; it is set aside "
        f"({what}, kept in {files.where(name)})",
        stacklevel=2,
    )
