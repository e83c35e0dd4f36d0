"""Examines a damaged store and recovers what is possible into a new directory.

`examine` reads every file and changes nothing: which versions can be reconstructed from intact checkpoints and commits,
whether their batches exist with the right checksums, how many log records are intact, and what was acknowledged
(`everview.store.witness`) but is missing. `rescue` writes the newest complete version, and the records that follow it,
into a *new* directory; the damaged one is left alone, because there may be a better way to repair it.

>>> import tempfile
>>> from everview.store.store import Store
>>> where = tempfile.mkdtemp()
>>> with Store(where) as store:
...     _ = store.commit(1); _ = store.commit(2)
>>> LocalFiles(Path(where)).delete(numbered(LOG, 2))
>>> found = examine(open_files(where))
>>> found.manifest.version, found.lost
(1, ['version 2 was acknowledged; the newest that can be put together is 1'])
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from everview.errors import InputError, StoreError
from everview.store import attempts, wal, wal_objects, witness
from everview.store import manifest as m
from everview.store.files import Files, LocalFiles
from everview.store.locations import open_files
from everview.store.manifest import Manifest
from everview.store.owner import Owner
from everview.store.store import BATCHES, CHECKPOINT, LOG, VERSION, WAL, numbered


@dataclass
class Findings:
    """The result. `manifest` is the newest complete version, `records` the intact records of the log after it."""

    manifest: Manifest
    records: list[bytes] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    stuck: bool = False

    @property
    def sound(self) -> bool:
        """Whether nothing is damaged and nothing acknowledged is missing."""
        return not self.damaged and not self.lost

    def report(self) -> list[str]:
        """A readable report."""
        lines = [f"damaged: {text}" for text in self.damaged] + [f"lost: {text}" for text in self.lost]
        if self.stuck:
            lines.append("the log's last record ended the process that ran it: --set-aside takes it out")
        had = f"version {self.manifest.version}, and {len(self.records)} records of the log after it"
        return [*lines, f"can be had back: {had}" if not self.sound else f"sound: {had}"]


def examine(files: Files) -> Findings:
    """Examine a store without changing it."""
    bound = witness.load(files)
    found = Findings(Manifest())
    complete = [v for v in _versions(files, found) if not _missing(files, v, found)]
    found.manifest = max(complete, key=lambda v: v.version, default=Manifest())
    version = found.manifest.version
    if version < bound.version:
        newest = f"the newest that can be put together is {version}" if version else "none can be put together"
        found.lost.append(f"version {bound.version} was acknowledged; {newest}")
    later = [n for n in files.list(WAL) if VERSION.fullmatch(n) and int(n) > version and _size(files, n) > wal.START]
    found.lost += [f"{files.where(f'{WAL}/{n}')} continues a version that is not there" for n in later]
    _examine_log(files, version, bound, found)
    return found


def _versions(files: Files, found: Findings) -> Iterator[Manifest]:
    """Every version that can be reconstructed from checkpoints and commits."""
    starts = [Manifest()]
    for name in files.list(CHECKPOINT):
        if VERSION.fullmatch(name):
            where = files.where(f"{CHECKPOINT}/{name}")
            try:
                manifest = m.decode_manifest(files.read(f"{CHECKPOINT}/{name}"), where)
            except StoreError as error:
                found.damaged.append(error.message)
                continue
            if manifest.version == int(name):
                starts.append(manifest)
            else:
                found.damaged.append(f"{where} is a copy of version {manifest.version}'s file")
    seen = set()
    for manifest in sorted(starts, key=lambda s: -s.version):
        while manifest.version not in seen:
            seen.add(manifest.version)
            if manifest.version:
                yield manifest
            name = numbered(LOG, manifest.version + 1)
            if not files.exists(name):
                break
            try:
                commit = m.decode_commit(files.read(name), files.where(name))
            except StoreError as error:
                found.damaged.append(error.message)
                break
            if commit.version != manifest.version + 1:
                found.damaged.append(f"{files.where(name)} is a copy of version {commit.version}'s file")
                break
            manifest = manifest.after(commit)


def _missing(files: Files, manifest: Manifest, found: Findings) -> bool:
    """Whether a version refers to missing or damaged batches."""
    wrong = False
    for ref in {r.file: r for r in manifest.refs() if r.file}.values():
        where = files.where(f"{BATCHES}/{ref.file}")
        try:
            whole = zlib.crc32(files.map(f"{BATCHES}/{ref.file}")) == ref.crc
        except (OSError, ValueError):  # an empty file cannot be mapped
            whole = False
        if not whole:
            wrong = True
            said = f"{where} is missing or not what was written"
            if said not in found.damaged:
                found.damaged.append(said)
    return wrong


def _size(files: Files, name: str) -> int:
    return -1 if files.local is None else files.disk.size(files.local / WAL / name)


def _examine_log(files: Files, version: int, bound: witness.Bound, found: Findings) -> None:
    """The records that continue a version, as far as they are intact."""
    if files.local is None:
        try:
            records = list(wal_objects.read(files, version))
            found.records = [payload for _, payload in records]
            tried = bound.attempts and bound.version == version
            found.stuck = bool(tried and records and bound.place == records[-1][0] - 1)
        except StoreError as error:
            found.damaged.append(error.message)
        return
    path = files.local / numbered(WAL, version)
    try:
        whole = wal.examine(path, bound.of(version), files.disk)
        found.records = whole.payloads
        found.stuck = bool(bound.attempts) and bound.version == version and bound.place in whole.ends[:-1]
    except StoreError as error:
        found.lost.append(error.message)
        if files.disk.size(path) >= wal.START:
            found.records = wal.whole_records(files.disk.read(path), path)[0]


def rescue(files: Files, found: Findings, into: str) -> None:
    """Write what can be recovered into a new directory."""
    new = open_files(into)
    if any(new.list(folder) for folder in ("", LOG, CHECKPOINT, BATCHES, WAL)):
        raise InputError("E_TARGET", f"{into} is not empty", "give a directory that does not exist yet")
    if not isinstance(new, LocalFiles):
        raise InputError("E_TARGET", f"{into} is not a local directory", "rescue into one, then copy it")
    for name in {r.file for r in found.manifest.refs() if r.file}:
        new.write(f"{BATCHES}/{name}", files.read(f"{BATCHES}/{name}"))
    if found.records or not found.manifest.is_sharded:
        log = wal.Wal(Path(new.root) / numbered(WAL, found.manifest.version))
        for payload in found.records:
            log.append(payload)
        log.done()
        log.sync()
        log.close()
    if found.manifest.version:
        new.write(numbered(CHECKPOINT, found.manifest.version), m.encode_manifest(found.manifest))


def set_aside(files: Files) -> str:
    """Remove the log's last record, which kills every process that runs it; return the file that now has it."""
    if files.local is None and not files.exclusive:
        raise InputError("E_TARGET", f"{files.root} has no log", "copy it to a local directory first")
    owner = Owner(files)
    try:
        found = examine(files)
        if not found.stuck:
            raise InputError("E_TARGET", f"{files.root} has no record that killed a process", "open it normally")
        bound = witness.load(files)
        if files.local is None:
            log = wal_objects.ObjectWal(files, bound.version, owner, without_last=True)
            return log.aside
        path = files.local / numbered(WAL, bound.version)
        return attempts.set_aside(files, path, bound.version, wal.examine(path, bound, files.disk))
    finally:
        owner.release()
