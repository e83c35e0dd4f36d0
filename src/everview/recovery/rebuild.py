"""Rebuilds a session from a directory: the dataflow from the catalog, then its state.

Only what is in the log is computed. State is matched by fingerprint (`everview.recovery.stored_state`). If this version
of Everview builds different operators from the catalog than the one that wrote it, their state is computed from their
inputs, with a warning.
"""

from __future__ import annotations

import warnings

from everview.dataflow import saved_state, shield
from everview.errors import StoreError
from everview.language.relation import relation_of
from everview.recovery.migration import begin_again, from_shards
from everview.recovery.stored_state import Restorer, StoredState
from everview.runtime.base import ChangeSet
from everview.runtime.embedded import EmbeddedRuntime, Restored
from everview.session.core import Core
from everview.session.names import entries as catalog_entries
from everview.session.names.entries import Entry
from everview.session.names.entry_compaction import compacted
from everview.store import Manifest, Store, records, steps

STEP, ENTRY, ENTRIES = b"S", b"C", b"D"
"""Prefixes of the log's records: a step, a catalog entry, several entries created together."""


class Loaded:
    """An embedded session restored from a store, and its progress."""

    def __init__(self, core: Core, runtime: EmbeddedRuntime, store: Store) -> None:
        self.core = core
        self.runtime = runtime
        self.store = store
        self.words = 0
        """number of dictionary entries in the store or the log"""
        self.rebuilt = False
        """whether the store's commands differ from those this dataflow was built from"""

    def load(self, manifest: Manifest) -> None:
        """Load what the manifest describes."""
        runtime, where = self.runtime, self.store.files.root
        for ref in manifest.dictionary:
            runtime.interner.load(self.store.get_dictionary(ref))
        self.words = len(runtime.interner)
        runtime.offsets = dict(manifest.marks)
        if manifest.is_sharded:
            self.rebuilt = True
            from_shards(self.core, runtime, self.store, manifest)
            return
        functions = self.core.catalog.functions
        entries = [(catalog_entries.decode(data, where, functions), data) for data in manifest.commands]
        with runtime.filling(Restored()):
            for entry, data in entries:
                self.core.definitions.replay.perform(entry, data)
        if saved_state.held(runtime.dataflow).keys() <= set(manifest.fingerprints):
            self._put_back(manifest)
        else:
            self._restore(manifest, entries)
        runtime.dataflow.time = manifest.time

    def _put_back(self, manifest: Manifest) -> None:
        kept = StoredState(self.store, manifest, self.runtime.spill)
        for operator in saved_state.live(self.runtime.dataflow):
            if saved_state.state_of(operator) is not None:
                kept.fill(operator)

    def _restore(self, manifest: Manifest, entries: list[tuple[Entry, bytes]]) -> None:
        """Restore the state of matching operators and compute the others: today different operators would be built."""
        warnings.warn(
            f"{self.store.files.root} was written by another version of Everview, or with other functions: "
            "views are computed again",
            stacklevel=2,
        )
        self.rebuilt = True
        begin_again(self.core, self.runtime)
        dataflow = self.runtime.dataflow
        dataflow.time = manifest.time
        restorer = Restorer(dataflow, StoredState(self.store, manifest, self.runtime.spill))
        with self.runtime.filling(restorer):
            for entry, data in compacted(entries):
                self.core.definitions.replay.perform(entry, data)
            restorer.fill()

    def replay(self, payload: bytes) -> None:
        """Replay a log record."""
        shield.hear()  # opening may be interrupted between records
        core, where = self.core, self.store.files.root
        kind, body = payload[:1], memoryview(payload)[1:]
        written = [body] if kind == ENTRY else records.decode(body, where)[1] if kind == ENTRIES else []
        entries = [(catalog_entries.decode(data, where, core.catalog.functions), data) for data in written]
        core.catalog.functions.require(where)
        for entry, data in entries:
            core.definitions.replay.perform(entry, bytes(data))
        if entries:
            return
        step = steps.decode(body)
        if step.time != self.runtime.dataflow.time:
            raise StoreError(
                "E_DAMAGED",
                f"the log of {where} continues time {step.time}, but it is {self.runtime.dataflow.time} now",
                "restore the directory from a copy",
            )
        if step.words is not None:
            core.interner.load(step.words)
            self.words = len(core.interner)
        tables = {relation_of(table).id: table for table in core.catalog.tables.values()}
        transactions = []
        for each in step.transactions:
            changes = ChangeSet((tables[table], rows, diff) for table, rows, diff in each.changes)
            changes.offsets = {**changes.offsets, **each.marks}
            transactions.append(changes)
        core.transactions.run(transactions)
        core.subscriptions.deliver()
