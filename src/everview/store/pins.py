"""Pins: small files by which readers keep what they still need.

A reader that is at version 7 leaves a pin that says so; what version 7 is made of, and the log after it, is then not
collected. A pin counts while its process lives. For one on another machine nobody can tell, so it counts for `STALE`
seconds after it was last renewed (`refresh` renews it).

A reader that may not write into the directory has none: if the writer collects what it needs, it is told to open again.
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
    """One reader's hold on a version."""

    def __init__(self, files: Files, version: int) -> None:
        self.files = files
        self.held = False
        self.name = f"{FOLDER}/{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        self.move(version)

    def move(self, version: int) -> None:
        """Hold this version instead, from now on. Who may only read, or has no room, reads without a pin."""
        self.version = version
        try:
            self.files.write(self.name, json.dumps({**myself(), "version": version}).encode(), lasting=False)
            self.held = True
        except StoreError:
            self.held = False

    def release(self) -> None:
        """Hold nothing any more."""
        if self.held:
            with suppress(OSError, StoreError):
                self.files.delete(self.name)


def oldest(files: Files, version: int) -> int:
    """The oldest version that a living reader holds, `version` if none is older; removes dead readers' pins."""
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
