"""Pins: small files by which readers keep what they still need.

A reader at version 7 leaves a pin for it; the contents of version 7, and the log after it, are then not collected. A
pin is valid while its process lives. For one on another machine this is unknown, so it is valid for `STALE` seconds
after its last renewal (by `refresh`).

A reader without write permission has no pin: if the writer collects what it needs, it must reopen.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
from contextlib import suppress

from everview.errors import StoreError
from everview.store.files import Files
from everview.store.owner import is_dead, myself

FOLDER = "pins"
STALE = 600.0


class Pin:
    """A reader's pin of a version."""

    def __init__(self, files: Files, version: int) -> None:
        self.files = files
        self.held = False
        self.name = f"{FOLDER}/{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        self.move(version)

    def move(self, version: int) -> None:
        """Pin this version instead. Without write permission or space, read without a pin."""
        self.version = version
        try:
            self.files.write(self.name, json.dumps({**myself(), "version": version}).encode(), lasting=False)
            self.held = True
        except StoreError:
            self.held = False

    def release(self) -> None:
        """Remove the pin."""
        if self.held:
            with suppress(OSError, StoreError):
                self.files.delete(self.name)


def oldest(files: Files, version: int) -> int:
    """The oldest version pinned by a live reader, `version` if none is older; removes dead readers' pins."""
    for name, age in files.ages(FOLDER).items():
        try:
            known = json.loads(files.read(f"{FOLDER}/{name}"))
        except (FileNotFoundError, ValueError):
            continue
        dead = is_dead(known)
        if dead or (dead is None and age > STALE):
            files.delete(f"{FOLDER}/{name}")
        else:
            version = min(version, int(known["version"]))
    return version
