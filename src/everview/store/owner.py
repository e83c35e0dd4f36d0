"""The owner's lock: one writer per directory.

The file `owner` identifies the process that has the directory open for writing: process, host, and the host's boot, so
that a process id from before a reboot means nothing. On a local filesystem the owner holds an flock on the *directory*,
which ends with the process; the file is only a note, and removing it lets nobody in (where folders cannot be locked, as
on NFS, the lock is on the file). On other filesystems the owner rewrites the file every few seconds, and one that has
not been rewritten for `STALE` seconds is taken over. A second writer is refused with the name of the first. The file is
rewritten only by compare-and-swap (`Files.swap`), so an owner that slept through a takeover notices.

A process that wrongly believes to hold the lock is still stopped: a version's log file can be created only once
(`everview.store.store`), and a record counts only if its log is still the file of that name (`everview.store.wal`) or
if the writer is still the owner (`everview.store.wal_objects`).
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import threading
import time
import weakref
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from everview.errors import StoreError
from everview.store.disk import Handle
from everview.store.files import Files, no_room

NAME = "owner"
BEAT = 5.0
"""Seconds between heartbeats on filesystems without locks."""
STALE = 30.0
"""Seconds without one after which an owner counts as dead."""


@cache
def boot_id() -> str:
    """An identifier of this boot of the machine; empty if unavailable."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def myself() -> dict[str, Any]:
    """The identity of this process."""
    return {"pid": os.getpid(), "host": socket.gethostname(), "boot": boot_id()}


def is_dead(who: dict[str, Any]) -> bool | None:
    """Whether a process is certainly dead (True) or alive (False); None for one on another machine."""
    if who.get("host") != socket.gethostname():
        return None
    if who.get("boot") != boot_id():
        return True
    try:
        os.kill(int(who["pid"]), 0)
    except (ProcessLookupError, KeyError, ValueError):
        return True
    except PermissionError:
        return False
    return False


class Owner:
    """The right to write into a directory, until `release`."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self.token = secrets.token_hex(8)
        self.done = ""  # how much of the log was done, if no file is mapped (`store.wal_objects`)
        self.prompt = False  # whether its writer wrote it before each acknowledgement
        self.settled = True  # whether the witness has the same, so that the note may go
        self.before: dict[str, Any] = {}  # the note of a dead owner
        self.firm = False  # whether nobody else can be admitted while this process lives
        self._held: list[Handle] = []
        self._tag: str | None = None
        self._beating = threading.Lock()
        self._stop = threading.Event()
        self._about = {**myself(), "token": self.token, "since": time.time()}
        if files.local is not None:
            self._lock(files.local / NAME)
        else:
            self._claim()

    def _lock(self, path: Path) -> None:
        disk = self.files.disk
        try:
            disk.folder(path.parent)
            folder = disk.open_folder(path.parent)
        except OSError as error:
            raise no_room(str(path), error) from error
        try:
            self._keep(folder, path)
            self.firm = True
        except OSError:  # a filesystem that has no locks for folders
            folder.close()
        try:
            note = disk.open(path)
            self._keep(note, path)
            note.truncate(0)
            note.write(json.dumps(self._about).encode(), 0)
        except OSError as error:
            if not self._held:
                raise no_room(str(path), error) from error
            # no space for the note: the lock itself holds

    def _keep(self, handle: Handle, note: Path) -> None:
        """Acquire the lock; a folder that cannot be locked at all is an OSError."""
        if not handle.lock():
            handle.close()
            try:
                about = self.files.disk.read(note)
            except OSError:
                about = b""
            self._let_go()
            raise _locked(self.files.root, _parsed(about)) from None
        self._held.append(handle)
        _held.add(self)

    def _claim(self) -> None:
        """Without locks: check for an owner, then claim ownership and keep renewing it."""
        present, self._tag = self._present()
        if present and "left" not in present and is_dead(present) is not True:
            age = self.files.ages("").get(NAME, 0.0)
            if age < STALE:
                raise _locked(self.files.root, present)
        self.before = present
        self.done, self.prompt = (
            str(present.get("done", "")),
            bool(present.get("prompt")),
        )  # until we know more ourselves
        self.settled = not self.done
        self._beat()
        if self._tag is None:
            raise _locked(self.files.root, self._present()[0])
        threading.Thread(target=self._keep_beating, name="everview owner", daemon=True).start()

    def _present(self) -> tuple[dict[str, Any], str | None]:
        try:
            about, tag = self.files.tagged(NAME)
        except FileNotFoundError:
            return {}, None
        return _parsed(about), tag

    def _beat(self) -> None:
        about = {**self._about, "seen": time.time(), "done": self.done, "prompt": self.prompt}
        tag = self.files.swap(NAME, json.dumps(about).encode(), self._tag)
        if tag is None:  # taken, or the response to the last heartbeat was lost and it is our own
            present, found = self._present()
            tag = found if present.get("token") == self.token else None
        self._tag = tag

    def holds(self) -> bool:
        """Whether this is still the owner, on filesystems without locks. If so, a later owner will see everything that
        was written before this call.
        """
        with self._beating:
            return self._tag is not None and self._present()[1] == self._tag

    def confirm(self, done: str) -> bool:
        """Write the log's progress at once; return whether this is still the owner."""
        with self._beating:
            self.done, self.settled = done, False
            if self._tag is not None:
                self._beat()
            return self._tag is not None

    def _keep_beating(self) -> None:
        while not self._stop.wait(BEAT):
            with self._beating, suppress(StoreError):  # no space for a heartbeat is not fatal
                if self._stop.is_set() or self._tag is None:
                    return
                self._beat()

    def release(self) -> None:
        """Let others write."""
        self._stop.set()
        if self._held:
            self._let_go()
        elif self.files.local is None and self.holds():
            if self.settled:
                self.files.delete(NAME)
            else:  # nobody has the directory, but the recorded progress must not be lost
                note = {"left": time.time(), "done": self.done, "prompt": self.prompt}
                self.files.swap(NAME, json.dumps(note).encode(), self._tag)

    def _let_go(self) -> None:
        try:
            if len(self._held) == 2:
                with suppress(OSError):
                    self._held[1].truncate(0)
            for handle in reversed(self._held):
                handle.unlock()
        finally:
            self.forget()

    def forget(self) -> None:
        """Close the locks' files: after a fork the child must not keep the parent's locks alive."""
        for handle in self._held:
            handle.close()
        self._held = []
        _held.discard(self)


_held: weakref.WeakSet[Owner] = weakref.WeakSet()


def _after_fork() -> None:
    for owner in list(_held):
        owner.forget()


os.register_at_fork(after_in_child=_after_fork)


def _parsed(about: bytes) -> dict[str, Any]:
    try:
        known: dict[str, Any] = json.loads(about)
    except ValueError:
        return {}
    return known


def _locked(root: str, who: dict[str, Any]) -> StoreError:
    name = f"process {who['pid']} on {who['host']}" if "pid" in who else "another process"
    return StoreError(
        "E_LOCKED",
        f"{root} is open for writing in {name}",
        "close it there, or open it here with everview.connect(..., read_only=True)",
    )
