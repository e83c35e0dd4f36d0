"""The store: a directory that holds a dataflow's state, version by version.

    log/<version>         one commit each: the changes since the previous version
    checkpoint/<version>  the full contents at a version, so that opening need not read the whole log
    batches/<name>.arrow  batches of many rows, pieces of the dictionary
    wal/<version>         the steps of an embedded session after a version (`everview.store.wal`)
    owner                 the current writer
    acknowledged          what was acknowledged (`everview.store.witness`)
    aside/                records that killed the process that ran them (`everview.store.attempts`)
    pins/<reader>         the versions that readers use

A commit exists if and only if its log file does, and that file is created atomically under a name that can be created
only once. The store is therefore always at one version or the next; files that no version refers to are garbage and are
collected. A writer that was overtaken (it was suspended, say, and another took over) finds its next version taken and
is refused for good: E_FENCED.
"""

from __future__ import annotations

import hashlib
import os
import re
import warnings
import zlib
from collections.abc import Container, Iterable, Mapping
from contextlib import suppress
from typing import Any

import pyarrow as pa
from pyarrow import fs

from everview.errors import StoreError
from everview.store import manifest as m
from everview.store import pins, witness
from everview.store.batches import Image, from_bytes, open_batch, to_arrow, to_bytes
from everview.store.files import Files
from everview.store.locations import open_files
from everview.store.manifest import Commit, Manifest, Place, Ref
from everview.store.owner import Owner
from everview.store.pins import Pin
from everview.store.witness import Witness

LOG, CHECKPOINT, BATCHES, WAL = "log", "checkpoint", "batches", "wal"

INLINE = 4096
"""Maximum size in bytes of a batch inlined into the commit."""

CHECKPOINT_EVERY = 32
"""Number of commits between checkpoints."""


VERSION = re.compile(r"[0-9]{20}")
LOGGED = re.compile(r"[0-9]{20}(\.[0-9]{10})?")
BATCH = re.compile(r"([0-9a-f]{40}|words-[0-9a-f]{40}|[0-9]{20}-.*)\.arrow")
"""Names of our files: others are left alone."""

EMPTY_LOG = 16
"""Size of a log file without records (`everview.store.wal`)."""


def numbered(folder: str, version: int) -> str:
    """The name of a version's file."""
    return f"{folder}/{version:020d}"


class Store:
    """A directory of versions, open for writing by one process, or for reading by many.

    >>> import tempfile
    >>> import numpy as np
    >>> where = tempfile.mkdtemp()
    >>> with Store(where) as store:
    ...     ref = store.put(Image.of(np.array([[1, 2, 3]]), 1, 1))
    ...     store.commit(1, adds=[(0, 0, ref)], marks={"offset": "3"})
    1
    >>> with Store(where, read_only=True) as store:
    ...     store.manifest.time, store.get(store.manifest.lists[0, 0][0]).columns().tolist()
    (1, [[1, 2, 3]])
    """

    def __init__(
        self,
        location: str | os.PathLike[str] | Files,
        *,
        filesystem: fs.FileSystem | None = None,
        read_only: bool = False,
        shards: int = 0,
    ) -> None:
        """Open or create one; `shards` is for a new one."""
        self.files = open_files(location, filesystem)
        self.read_only = read_only
        self.owner: Owner | None = None
        self.pin: Pin | None = None
        self.witness: Witness | None = None
        self._fenced = False
        self.spared: set[str] = set()
        """files in no version yet that are not collected"""
        if read_only:
            try:
                self._open_to_read()
            except BaseException:
                self.close()
                raise
        else:
            self.owner = Owner(self.files)
            try:
                self._clear_temporaries()
                self._open_to_write(shards)
            except BaseException:
                self.close()
                raise
        self._since_checkpoint = self.manifest.version - self._last_checkpoint()

    # lifetime

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the writer's lock, or the reader's pin."""
        if self.owner is not None:
            if self.witness is not None:
                self.witness.close()
            self.owner.release()
            self.owner = None
        if self.pin is not None:
            self.pin.release()
            self.pin = None

    def _clear_temporaries(self) -> None:
        for folder in (LOG, CHECKPOINT, BATCHES, WAL):
            self.files.delete_temporaries(folder)

    # opening

    def _open_to_write(self, shards: int) -> None:
        self.files.settle((LOG, CHECKPOINT, BATCHES, WAL))
        self.witness = Witness(self.files)
        self.bound = self.witness.found
        self.manifest = self._load(Manifest(shards=shards))
        if not self.files.exists(witness.NAME):
            self._check_not_bereft()
            self.witness.made(self.manifest.version)

    def _check_not_bereft(self) -> None:
        """A store without a witness may be new, or older than witnesses; but then it is not empty."""
        if not self.manifest.version and not self.files.list(WAL) and self.files.list(BATCHES):
            raise witness.lost(self.files.root, "there are batches, but no version and no log that names them")

    def _open_to_read(self) -> None:
        """Pin what is to be loaded first, then load: otherwise it might be collected in between."""
        self.bound = witness.load(self.files)  # first: what is found later can only be more
        if not self.files.list(LOG) and not self.files.list(CHECKPOINT) and not self.files.list(WAL):
            if self.bound.version or self.bound.done:
                raise witness.lost(self.files.root, "its files are missing")
            raise StoreError(
                "E_TARGET", f"there is no Everview store in {self.files.root}", "check the path, or open it for writing"
            )
        self.pin = Pin(self.files, self._last_checkpoint())
        while True:
            try:
                self.manifest = self._load(Manifest())
                break
            except FileNotFoundError:  # collected before the pin existed
                self.pin.move(self._last_checkpoint())
        self.pin.move(self.manifest.version)

    def _versions(self, folder: str) -> list[int]:
        return [int(name) for name in self.files.list(folder) if VERSION.fullmatch(name)]

    def _last_checkpoint(self) -> int:
        return max(self._versions(CHECKPOINT), default=0)

    def _load(self, empty: Manifest) -> Manifest:
        """The newest intact checkpoint, then the log after it; everything acknowledged must be there."""
        logs = self._logs_with_records()  # before the versions: a reader may be overtaken meanwhile
        manifest = self._load_versions(empty)
        needed = max([self.bound.version, *logs])
        if manifest.version < needed:
            found = f"the newest that is there is {manifest.version}" if manifest.version else "there is none"
            what = f"version {needed} was made, but {found}: files of {LOG}/ or {CHECKPOINT}/ are missing"
            raise witness.lost(self.files.root, what)
        return manifest

    def _logs_with_records(self) -> list[int]:
        """The versions that nonempty logs continue."""
        names = [name for name in self.files.list(WAL) if LOGGED.fullmatch(name)]
        if self.files.local is not None:
            path = self.files.local / WAL
            names = [name for name in names if self.files.disk.size(path / name) > EMPTY_LOG]
        return [int(name.split(".")[0]) for name in names]

    def _load_versions(self, empty: Manifest) -> Manifest:
        for version in sorted(self._versions(CHECKPOINT), reverse=True):
            try:
                return self._follow(self._checkpoint(version))
            except StoreError as error:
                if error.code != "E_TORN" or not self.files.exists(numbered(LOG, version)):
                    raise
                self._set_aside(numbered(CHECKPOINT, version))
        return self._follow(empty)

    def _set_aside(self, name: str) -> None:
        """Move an unfinished file out of the way."""
        warnings.warn(f"{self.files.where(name)} was never finished: it is ignored", stacklevel=2)
        if not self.read_only:
            self.files.write(f"{name}.torn", self.files.read(name))
            self.files.delete(name)

    def _checkpoint(self, version: int) -> Manifest:
        name = numbered(CHECKPOINT, version)
        found = m.decode_manifest(self.files.read(name), self.files.where(name))
        self._check_version(name, version, found.version)
        return found

    def _check_version(self, name: str, wanted: int, found: int) -> None:
        if wanted != found:
            raise witness.lost(self.files.where(name), f"it is a copy of version {found}'s file")

    def _follow(self, manifest: Manifest) -> Manifest:
        """The manifest after all commits that follow it in the log."""
        known = set(self._versions(LOG))
        while manifest.version + 1 in known:
            try:
                manifest = manifest.after(self.read_commit(manifest.version + 1))
            except StoreError as error:
                if error.code != "E_TORN" or manifest.version + 1 != max(known):
                    raise
                if manifest.version < self.bound.version:
                    raise witness.lost(error.message, "it was acknowledged") from error
                self._set_aside(numbered(LOG, manifest.version + 1))
                return manifest
        beyond = [v for v in known if v > manifest.version]
        if beyond:
            missing = self.files.where(numbered(LOG, manifest.version + 1))
            raise StoreError(
                "E_DAMAGED",
                f"{missing} is missing, though version {max(beyond)} exists",
                "restore the file from a copy; nothing was changed",
            )
        return manifest

    def read_commit(self, version: int) -> Commit:
        """The commit that created a version."""
        name = numbered(LOG, version)
        found = m.decode_commit(self.files.read(name), self.files.where(name))
        self._check_version(name, version, found.version)
        return found

    # pieces

    def put(self, image: Image, name: str | None = None) -> Ref:
        """Store a batch for a later commit: inlined if it is small, else as a file, by default named by content (an
        existing batch is then not written again).
        """
        return put_batch(self.files, image, name)

    def get(self, ref: Ref, *, check: bool = True) -> Image:
        """A stored batch, mapped if possible; `check` reads it once to verify checksums."""
        if ref.inline is not None:
            return from_bytes(ref.inline, self.files.where(LOG))
        return open_batch(self.files, f"{BATCHES}/{ref.file}", ref.crc if check else None)

    def put_dictionary(self, entries: pa.Table) -> Ref:
        """Store entries of the dictionary (`Interner.export`) for a later commit."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, entries.schema) as writer:
            writer.write_table(entries)
        data = sink.getvalue()
        if data.size <= INLINE:
            return Ref(len(entries), data.size, inline=data.to_pybytes())
        ref = Ref(len(entries), data.size, f"words-{hashlib.sha256(data).hexdigest()[:40]}.arrow", zlib.crc32(data))
        if not self.files.exists(f"{BATCHES}/{ref.file}"):
            self.files.write(f"{BATCHES}/{ref.file}", data)
        return ref

    def get_dictionary(self, ref: Ref) -> pa.Table:
        """Stored entries of the dictionary."""
        if ref.inline is not None:
            data: Any = pa.py_buffer(ref.inline)
        else:
            where = self.files.where(f"{BATCHES}/{ref.file}")
            try:
                data = self.files.map(f"{BATCHES}/{ref.file}")
            except FileNotFoundError:
                raise StoreError("E_DAMAGED", f"{where} is missing", "restore the file from a copy") from None
            if zlib.crc32(data) != ref.crc:
                raise StoreError("E_DAMAGED", f"{where} is damaged: its checksum is wrong", "restore it from a copy")
        return pa.ipc.open_file(pa.BufferReader(data)).read_all()

    # versions

    def commit(
        self,
        time: int,
        *,
        adds: Iterable[tuple[int, int, Ref]] = (),
        replaces: Mapping[Place, Iterable[Ref]] | None = None,
        **more: Any,
    ) -> int:
        """Create the next version (see `manifest.Commit` for its contents) and return its number."""
        if self.owner is None or self._fenced:
            raise StoreError("E_FENCED", f"{self.files.root} is not open for writing here", "open it again")
        version = self.manifest.version + 1
        commit = Commit(
            version,
            time,
            tuple(adds),
            tuple((o, s, tuple(refs)) for (o, s), refs in (replaces or {}).items()),
            token=self.owner.token,
            **more,
        )
        made = self.files.create(numbered(LOG, version), m.encode_commit(commit))
        # a version that was created, outdated by a checkpoint and collected can be created again: check for that too
        if not made or self._last_checkpoint() >= version:
            self._fenced = True
            raise StoreError(
                "E_FENCED",
                f"another process has committed version {version} of {self.files.root}",
                "this session is outdated: close it and open the directory again",
            )
        self.manifest = self.manifest.after(commit)
        if self.witness is not None:
            with suppress(OSError, StoreError):  # the commit is done: an older witness will do
                self.witness.made(version)
        self._since_checkpoint += 1
        if self._since_checkpoint >= CHECKPOINT_EVERY:
            with suppress(OSError, StoreError):  # the commit is done: the next one tries again
                self.checkpoint()
        return version

    def checkpoint(self) -> None:
        """Write the full contents at this version into one file, so that opening does not need the log before it."""
        version = self.manifest.version
        if version and self._last_checkpoint() < version:
            self.files.write(numbered(CHECKPOINT, version), m.encode_manifest(self.manifest))
        self._since_checkpoint = 0

    def refresh(self) -> list[Commit]:
        """Follow the log as a reader to its end: the commits since this reader's version."""
        found = []
        while self.overtaken():
            found.append(self.follow())
        return found

    def overtaken(self) -> bool:
        """Whether there is a later version than this reader's."""
        following = numbered(LOG, self.manifest.version + 1)
        if self.files.exists(following):
            return True
        if self._last_checkpoint() <= self.manifest.version:
            return False
        if self.files.exists(following):  # both came between the two looks
            return True
        raise self.stale()

    def follow(self) -> Commit:
        """Advance to the next version as a reader; return its commit."""
        try:
            commit = self.read_commit(self.manifest.version + 1)
        except FileNotFoundError:
            raise self.stale() from None
        self.manifest = self.manifest.after(commit)
        if self.pin is not None:
            self.pin.move(self.manifest.version)
        return commit

    def stale(self) -> StoreError:
        """Return the error for a reader that fell too far behind."""
        return StoreError(
            "E_STALE",
            f"what this reader of {self.files.root} needs to catch up was collected",
            "open the directory again",
        )

    # garbage

    def collect(self, grace: float = 0.0, left: Container[str] = ()) -> int:
        """Delete files that neither the current version nor a reader needs; return how many. `grace` spares files
        younger than so many seconds, whose tasks may still commit, except those in `left`, which were committed and are
        obsolete.
        """
        held = pins.oldest(self.files, self.manifest.version)
        base = max((v for v in self._versions(CHECKPOINT) if v <= held), default=0)
        manifest = self._checkpoint(base) if base else Manifest()
        needed = self.spared | {r.file for r in self.manifest.refs()} | {r.file for r in manifest.refs()}
        for version in range(base + 1, self.manifest.version + 1):
            needed |= {r.file for r in m.refs_of(self.read_commit(version))}
        gone = [numbered(LOG, v) for v in self._versions(LOG) if v <= base]
        gone += [numbered(CHECKPOINT, v) for v in self._versions(CHECKPOINT) if v < base]
        logs = [name for name in self.files.list(WAL) if LOGGED.fullmatch(name)]
        gone += [f"{WAL}/{name}" for name in logs if int(name.split(".")[0]) < held]
        ages = [(name, age) for name, age in self.files.ages(BATCHES).items() if BATCH.fullmatch(name)]
        gone += [f"{BATCHES}/{n}" for n, age in ages if n not in needed and (age >= grace or n in left)]
        for name in gone:
            self.files.delete(name)
        return len(gone)

    def size(self) -> int:
        """Bytes of the current version's files."""
        return sum(r.size for r in {r.file or id(r): r for r in self.manifest.refs()}.values())


def put_batch(files: Files, image: Image, name: str | None = None) -> Ref:
    """Write a batch for a later commit; see `Store.put`."""
    if image.nbytes <= INLINE:
        data = to_bytes(image)
        return Ref(image.rows, len(data), inline=data)
    arrow = to_arrow(image)
    crc = zlib.crc32(arrow)
    name = name or hashlib.sha256(arrow).hexdigest()[:40]
    ref = Ref(image.rows, len(arrow), f"{name}.arrow", crc)
    if not files.exists(f"{BATCHES}/{ref.file}"):
        files.write(f"{BATCHES}/{ref.file}", arrow)
    return ref
