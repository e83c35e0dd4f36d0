"""From a directory to a session: the dataflow is built again from the catalog, then it gets its state back.

Nothing is computed but what the log has. State is found by what it is the state of (`everview.recovery.restoring`). If
this version of Everview builds other operators from the catalog than the one that wrote it, their state is computed
from what they read, with a warning.
"""

from __future__ import annotations

import warnings

from everview.dataflow import saved, shield
from everview.errors import StoreError
from everview.language.relation import relation_of
from everview.recovery.migration import begin_again, from_shards
from everview.recovery.restoring import Kept, Restoring
from everview.runtime.base import ChangeSet
from everview.runtime.embedded import EmbeddedRuntime, Restored
from everview.session.core import Core
from everview.session.names import entries as catalog_entries
from everview.session.names.entries import Entry
from everview.session.names.surviving import surviving
from everview.store import Manifest, Store, records, steps

STEP, ENTRY, ENTRIES = b"S", b"C", b"D"
"""How the log's records begin: a step, an entry of the catalog, several entries that were made together."""


class Loaded:
    """An embedded session as a store has it, and how far it is."""

    def __init__(self, core: Core, runtime: EmbeddedRuntime, store: Store) -> None:
        self.core = core
        self.runtime = runtime
        self.store = store
        self.words = 0
        """entries of the dictionary that are in the store or the log"""
        self.rebuilt = False
        """whether the store has other commands than this dataflow was built from"""

    def load(self, manifest: Manifest) -> None:
        """Become what the manifest says."""
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
        if saved.held(runtime.dataflow).keys() <= set(manifest.fingerprints):
            self._put_back(manifest)
        else:
            self._restore(manifest, entries)
        runtime.dataflow.time = manifest.time

    def _put_back(self, manifest: Manifest) -> None:
        kept = Kept(self.store, manifest, self.runtime.spilling)
        for operator in saved.live(self.runtime.dataflow):
            if saved.state_of(operator) is not None:
                kept.fill(operator)

    def _restore(self, manifest: Manifest, entries: list[tuple[Entry, bytes]]) -> None:
        """Other operators would be built today: keep the state of those that are the same, compute the others."""
        warnings.warn(
            f"{self.store.files.root} was written by another version of Everview, or with other functions: "
            "views are computed again",
            stacklevel=2,
        )
        self.rebuilt = True
        begin_again(self.core, self.runtime)
        dataflow = self.runtime.dataflow
        dataflow.time = manifest.time
        restoring = Restoring(dataflow, Kept(self.store, manifest, self.runtime.spilling))
        with self.runtime.filling(restoring):
            for entry, data in surviving(entries):
                self.core.definitions.replay.perform(entry, data)
            restoring.fill()

    def replay(self, payload: bytes) -> None:
        """Do what a record of the log says."""
        shield.hear()  # between records is where opening may be given up
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
