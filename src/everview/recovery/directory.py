"""The directory of a durable embedded session: its log and its checkpoints.

A transaction is acknowledged when its record is in the write-ahead log (`everview.store.wal`); the record is written
before the transaction runs, and removed if it fails. Periodically, and when the session is closed, all traces are
written as batch files and a new version of the store is committed, which empties the log. Batches are named by content,
so unchanged ones are not written again.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from contextlib import suppress
from time import perf_counter
from typing import Any, NamedTuple

import pyarrow as pa

from everview.dataflow import saved_state
from everview.dataflow.operators import Trace
from everview.errors import ClosedError, EverviewError, MemoryLimitError, StoreError, out_of_memory
from everview.language.relation import relation_of
from everview.plan.serialisation import Functions
from everview.plan.trust import NOBODY, Trust
from everview.recovery.rebuild import ENTRIES, ENTRY, STEP, Loaded
from everview.runtime.base import ChangeSet
from everview.runtime.embedded import EmbeddedRuntime, Restored
from everview.session.core import Core
from everview.session.history import History
from everview.session.names import entries as catalog_entries
from everview.session.names.catalog import Unkept
from everview.session.names.entries import Entry
from everview.session.names.entry_compaction import compacted
from everview.store import Ref, Store, garbage, records, steps
from everview.store.logs import Log, next_version, open_log
from everview.store.wal import Sync

NO_REFUSALS = ("E_DAMAGED", "E_TRUST", "E_FORMAT", "E_DISK", "E_MEMORY")
"""Errors that do not condemn a logged transaction: it may succeed another time."""

LOG_BYTES = 32 << 20
"""Minimum size of the log for a new version, if the state is not larger."""

FOLD_AT_CLOSE = 1 << 16
"""Size of the log from which closing creates a new version."""

ENTRIES_KEPT = 4096
"""Number of catalog entries from which a new version is created. Each view that is created and dropped leaves two, with
its plan, in memory and in the log; a version discards them.
"""

DICTIONARY_FILES = 16
"""Number of dictionary pieces from which they are merged."""


class _Pending(NamedTuple):
    """A record being logged and executed."""

    size: int
    """of the log before it"""
    words: int
    """number of dictionary entries known after it"""


class Directory:
    """The storage of an embedded session that writes a directory: logs steps and catalog entries, creates versions."""

    read_only = False

    def __init__(
        self,
        store: Store,
        sync: Sync,
        *,
        history: History = 1000,
        merge_effort: int = 4,
        threads: int | None = 1,
        memory: int | None = None,
        trust: Trust = NOBODY,
    ) -> None:
        self.store: Store | None = store
        self._store = store
        self._sync = sync
        self._pending: _Pending | None = None
        self._written = (0, 0, 0.0)  # records, their bytes, the seconds spent writing them
        self._committing = False  # whether a version may exist that `_wal` does not continue
        self.runtime = EmbeddedRuntime(
            merge_effort=merge_effort, threads=threads, memory=memory, folder=store.files.local
        )
        self.core = core = Core(self.runtime, history=history, trust=trust)
        core.catalog.entry_log = Unkept()  # until it is open
        try:
            self._open()
        except BaseException:
            core.closed = True
            self.runtime.dataflow.close()
            raise

    def _open(self) -> None:
        core, runtime, manifest = self.core, self.runtime, self._store.manifest
        loaded = Loaded(core, runtime, self._store)
        loaded.load(manifest)
        self._wal: Log
        self._wal, payloads = open_log(self._store, manifest.version, self._sync)
        self._kept = len(core.catalog.entries)  # entries in the store
        self._empty = -1 if payloads else self._wal.size
        self._catch_up_with(loaded, payloads)
        self._rebuilt = loaded.rebuilt or core.catalog.functions.old
        self._words = loaded.words
        core.clock.resume()
        self._wal.begin()
        core.catalog.redeclarable = {*core.catalog.tables, *core.catalog.views}
        core.catalog.entry_log = runtime.log = runtime.backing = self
        runtime.sound = False
        if manifest.is_sharded or self._wal.sealed:
            self._checkpoint()
        elif self._rebuilt:  # so that what was computed need not be computed the next time
            self._checkpoint_or_warn()
        self._set_limit()

    def _catch_up_with(self, loaded: Loaded, payloads: list[bytes]) -> None:
        """Replay the log. If the last record is refused and was not acknowledged, the process died while removing it. A
        record that fails for lack of memory counts as an attempt, like one that kills the process
        (`everview.store.attempts`).
        """
        for number, payload in enumerate(payloads):
            try:
                loaded.replay(payload)
            except EverviewError as error:
                last = number + 1 == len(payloads) and payload[:1] == STEP and self._wal.doubtful
                if error.code in NO_REFUSALS or not last:
                    if error.code != "E_MEMORY":
                        self._came_back()
                    raise
                self._wal.take_back(payload)
                warnings.warn(f"the last transaction in the log was refused and is taken out: {error}", stacklevel=2)

    def _came_back(self) -> None:
        """Note that a record failed with an error rather than killing the process."""
        if self._store.witness is not None:
            with suppress(StoreError):
                self._store.witness.came_back()

    # entries of the catalog

    def keep(self, entries: Sequence[bytes]) -> None:
        """Make entries durable, several as one record."""
        self._pending = _Pending(self._wal.size, self._words)
        self._append(ENTRY + entries[0] if len(entries) == 1 else ENTRIES + records.encode({}, entries))
        self._wal.done()

    def noted(self) -> None:
        """Record that the catalog contains them as well."""
        self._pending = None

    def _append(self, record: bytes) -> None:
        start = perf_counter()
        try:
            self._wal.append(record)
            self._written = (
                self._written[0] + 1,
                self._written[1] + len(record),
                self._written[2] + perf_counter() - start,
            )
        except EverviewError:  # nothing was written, or it was removed again
            self._pending = None
            raise

    def costs(self) -> dict[str, int | float]:
        """The amount logged since the session was opened, and the time spent; with `sync="full"` this includes the wait
        for the disk.
        """
        return dict(zip(("log_records", "log_bytes", "log_seconds"), self._written, strict=True))

    # steps

    def before(self, time: int, transactions: list[ChangeSet]) -> None:
        """Log a step."""
        self.core.catalog.functions.require(self._store.files.root)
        new = steps.new_words(self.core.interner, self._words)
        self._pending = _Pending(self._wal.size, self._words + (0 if new is None else len(new)))
        self._append(STEP + _encoded(time, transactions, new))

    def committed(self, transactions: list[ChangeSet]) -> None:
        """Mark a step as done; create a new version if the log is long."""
        self._wal.done()
        if self._pending is not None:
            self._words = self._pending.words
            self._pending = None
        if self._wal.size > self._limit or len(self.core.catalog.entries) > self._most_entries:
            self._checkpoint_or_warn()

    def aborted(self) -> None:
        """Remove a step from the log, if it is there."""
        if self._pending is not None and self._wal.size != self._pending.size:
            self._wal.cut(self._pending.size)
        self._pending = None

    def settle(self) -> None:
        """If it is unknown whether a logged table or view was created, the directory must be reopened: there it will
        have been created. Likewise if a new version may exist: what is appended to the old log from then on would never
        be read.
        """
        if not self._committing and (self._pending is None or self._wal.size == self._pending.size):
            self._pending = None
            return
        self.core.abandon()
        raise ClosedError(
            "E_CLOSED",
            f"an exception that another thread raised in this one cut the log of {self._store.files.root} off from the "
            "session, which is closed",
            "open the directory again: everything that was acknowledged is there",
        )

    # versions

    def check_writable(self, what: str) -> None:
        pass

    def refresh(self) -> None:
        """There is no other writer."""

    def checkpoint(self) -> None:
        """Write all state into files and begin a new log."""
        self.core.catalog.uninterruptible.run(self._checkpoint)
        self._set_limit()

    def _checkpoint(self) -> None:
        store = self._store
        words = len(self.core.interner)
        try:
            self._wal = next_version(store, self._wal, self._sync, self._new_version)
        except EverviewError:  # then there is no version; an asynchronous exception may come after it was created
            self._committing = False
            raise
        self._committing = False
        self._empty = self._wal.size
        self._words = words
        self._rebuilt = False
        self._kept = len(self.core.catalog.entries)
        store.checkpoint()
        store.collect()

    def _new_version(self) -> dict[str, Any]:
        """Write what is new into the store; return what the version brings."""
        store, dataflow = self._store, self.runtime.dataflow
        try:
            lists = {(n, 0): refs for n, refs in self._put_all()}
        except MemoryError as error:
            if isinstance(error, EverviewError):
                raise
            raise out_of_memory("writing a checkpoint") from None
        new = [*lists.items(), *((place, ()) for place in store.manifest.lists if place not in lists)]
        operators = saved_state.live(dataflow)
        sinces = {
            n: saved_state.since(t) for n, o in enumerate(operators) if (t := saved_state.state_of(o)) is not None
        }
        brings = {
            "time": dataflow.time,
            "replaces": {place: refs for place, refs in new if store.manifest.lists.get(place) != refs},
            "marks": self.runtime.offsets,
            "sinces": {n: s for n, s in sinces.items() if s is not None},
            "fingerprints": saved_state.fingerprints(dataflow),
            **self._new_commands(),
            **self.new_dictionary(),
        }
        self._committing = True
        return brings

    def _put_all(self) -> Iterable[tuple[int, tuple[Ref, ...]]]:
        """Store every trace's batches; a trace with much garbage is compacted first."""
        time = self.runtime.dataflow.time
        for number, operator in enumerate(saved_state.live(self.runtime.dataflow)):
            trace = saved_state.state_of(operator)
            if trace is None:
                continue
            refs = self._put_trace(number, trace)
            trace.pass_on(time)
            if garbage.wasteful(refs, trace.since if trace.scope.is_root else time) and self._compacted(trace):
                refs = self._put_trace(number, trace)
            if refs:
                yield number, refs

    def _compacted(self, trace: Trace) -> bool:
        """Compact a trace, if there is memory for it: it can wait."""
        files = self.runtime.spill
        try:
            if files is None or not files.compact(trace, self.runtime.dataflow.time):
                trace.compact()
        except MemoryLimitError:
            self.runtime.dataflow.abort()  # no step is running: it only frees allocations
            return False
        return True

    def _put_trace(self, number: int, trace: Trace) -> tuple[Ref, ...]:
        """Store a trace's batches; those in files have a tally, which is known if they existed before."""
        known = {r.file: r for r in self._store.manifest.lists.get((number, 0), ()) if r.until >= 0}
        refs = []
        files = self.runtime.spill
        for image in saved_state.images(trace) if files is None else files.images(trace):
            ref = self._store.put(image)
            if ref.file:
                ref = known.get(ref.file) or saved_state.tally_of(trace, image, self.runtime.dataflow.time).on(ref)
            refs.append(ref)
        return tuple(refs)

    def _new_commands(self) -> dict[str, Any]:
        """The entries since the last version; or all relevant ones, if many are obsolete or in another order than in
        the store.
        """
        catalog = self.core.catalog
        many = len(catalog.entries) > 2 * len(compacted(catalog.entries)) + 32
        kept = self.living_entries() if self._rebuilt or many else catalog.entries
        if self._rebuilt or len(kept) < len(catalog.entries):
            functions = Functions(like=catalog.functions)
            catalog.entries = [(e, catalog_entries.encode(e, functions)) for e, _ in kept]
            catalog.functions = functions
            return {"commands": tuple(data for _, data in catalog.entries), "history": True}
        return {"commands": tuple(data for _, data in catalog.entries[self._kept :])}

    def living_entries(self) -> list[tuple[Entry, bytes]]:
        """The entries without what was dropped, if they alone build the same operators; else all."""
        entries = self.core.catalog.entries
        kept = compacted(entries)
        return kept if self._builds_the_same(kept) else entries

    def _builds_the_same(self, entries: list[tuple[Entry, bytes]]) -> bool:
        """Whether these entries alone build the same operators."""
        runtime = EmbeddedRuntime()
        trial = Core(runtime, history=0)
        trial.catalog.entry_log = Unkept()
        try:
            with runtime.filling(Restored()):
                for entry, _ in entries:
                    trial.definitions.replay.perform(entry)
            return saved_state.held(runtime.dataflow).keys() <= saved_state.held(self.runtime.dataflow).keys()
        finally:
            trial.close()

    def new_dictionary(self) -> dict[str, Any]:
        """The dictionary's new entries; all of it as one file, if there are many pieces."""
        store, interner = self._store, self.core.interner
        stored = sum(ref.rows for ref in store.manifest.dictionary)
        if len(store.manifest.dictionary) >= DICTIONARY_FILES:
            return {"dictionary": (store.put_dictionary(interner.export()),), "whole_dictionary": True}
        if len(interner) == stored:
            return {}
        return {"dictionary": (store.put_dictionary(interner.export(stored)),)}

    def _checkpoint_or_warn(self) -> None:
        """Create a new version, if disk space and memory permit: the log has everything anyway."""
        try:
            self.core.catalog.uninterruptible.run(self._checkpoint)
        except (StoreError, MemoryLimitError) as error:
            if error.code not in ("E_DISK", "E_MEMORY"):
                raise
            warnings.warn(f"no new version could be written, the log goes on: {error.message}", stacklevel=2)
        self._set_limit()

    def _set_limit(self) -> None:
        """Let the log grow as large as the state before it is folded, which bounds the cost of writing state."""
        live = saved_state.live(self.runtime.dataflow)
        state = sum(o.trace.measure()[2] for o in live if saved_state.state_of(o) and o.trace)
        self._limit = self._wal.size + max(LOG_BYTES, state)
        self._most_entries = len(self.core.catalog.entries) + ENTRIES_KEPT

    # the end

    def fold(self) -> None:
        """Fold the log into files; the store stays open."""
        try:
            self._checkpoint()
        finally:
            self.let_go()

    def let_go(self) -> None:
        """End the session; the store stays open."""
        self._wal.close()
        self.core.closed = True
        self.runtime.dataflow.close()

    def close(self) -> None:
        """Fold the log into files, if it is long, and release the directory."""
        try:
            # functions may have to be supplied after opening, but a log would need them at once
            with_functions = len(self.core.catalog.functions) > 0 and self._wal.size != self._empty
            if self._wal.size > FOLD_AT_CLOSE or with_functions:
                self._checkpoint_or_warn()
            self._wal.sync()
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Release the directory; everything acknowledged is in the log."""
        self._wal.close()
        self._store.close()


def _encoded(time: int, transactions: list[ChangeSet], words: pa.Table | None) -> bytes:
    """Encode a step; fast for one small change."""
    if words is None and len(transactions) == 1:
        changes = transactions[0]
        if len(changes) == 1 and not changes.offsets:
            table, rows, diff = changes[0]
            if isinstance(rows, list):
                return steps.encode_rows(time, relation_of(table).id, rows, diff)
    coded = (
        steps.Transaction([(relation_of(t).id, rows, diff) for t, rows, diff in c], c.offsets) for c in transactions
    )
    return steps.encode(time, coded, words)
