"""A record that ends the process: tried once, then set aside.

A transaction is in the log before it is run. If running it ends the process (it needs more memory than there is, a
function in it crashes), it is still there at the next opening, and the next; a directory that cannot be opened any more
is worse than a transaction that was never acknowledged. So before a log's last record is run, if it was not done, the
witness is told (`everview.store.witness`). If that note is still there at the next opening, nobody came back from the
record: it is moved into a file under `aside/`, where nothing deletes it, and a warning says so.

Only the last record can be of that kind, because a record is written after the one before it was done; and whatever was
done was acknowledged, and is never set aside. There is one case in which nobody knows: the machine stopped, and what
was done may be further than what the disk has of it. Then the record is tried `TRIES` times, and after that opening is
an error that names it: `everview repair` sets it aside if it is told to.
"""

from __future__ import annotations

import warnings
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
    tried = bound.attempts if bound.place == place else 0
    unsure = found.unsure or bound.unsure
    if tried and not unsure:
        set_aside(files, path, version, found)
        return
    if tried >= TRIES:
        raise StoreError(
            "E_STUCK",
            f"{path}: the process ended {tried} times while it ran the last record, at byte {place}",
            "if memory or a function was the reason, mend that and try `everview repair`; "
            "`everview repair --set-aside` opens the directory without that transaction",
        )
    done, safe = max(bound.done, found.done), bound.safe
    witness.attempt(Bound(version, done, safe, attempts=tried + 1, place=place, unsure=unsure))


def set_aside(files: Files, path: Path, version: int, found: Found) -> str:
    """Move the last record out of the log; gives the file that has it now."""
    payload = found.payloads.pop()
    found.ends.pop()
    end = found.ends[-1]
    name = f"{FOLDER}/{version:020d}-{end}"
    files.write(name, payload)
    handle = files.disk.open(path)
    handle.truncate(end)
    handle.sync()
    handle.close()
    warnings.warn(
        f"{path}: the last transaction ended the process that ran it and was never acknowledged; it is set aside "
        f"({len(payload) + HEAD} bytes at {end}, kept in {files.where(name)})",
        stacklevel=2,
    )
    return name
