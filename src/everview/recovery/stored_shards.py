"""Shards whose state is in a directory: how a session restores its dataflow.

A directory holds two kinds of commands: the declarations (tables, views: `everview.session.names.catalog`) and, one by
one, what was built for them on the shards. The latter determine operator numbers, so opening builds them first and then
locates the declared objects among them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from everview.dataflow import saved_state
from everview.dataflow.commands import check_built, read_command, rebuild
from everview.dataflow.operators import Arrangement
from everview.dataflow.replica import Added, Command, Install, Keep, MakeTable, Swap
from everview.dataflow.saved_state import header
from everview.errors import StoreError
from everview.plan.nodes import Node
from everview.plan.serialisation import Functions
from everview.runtime.sharded import ShardedRuntime
from everview.session.core import Core
from everview.session.names import entries as catalog_entries
from everview.session.names.entry_compaction import compacted
from everview.store import Store
from everview.store.manifest import BUILT, Commit, Manifest, Ref
from everview.store.mapped import read_image
from everview.store.offsets import change_offsets
from everview.store.stored_dictionary import RESIDENT_ENTRIES, StoredDictionary


class StoredShards:
    """A session's view of shards in a store."""

    def __init__(self, store: Store, runtime: ShardedRuntime, core: Core, functions: Functions) -> None:
        self._store = store
        self._runtime = runtime
        self._core = core
        self._functions = functions
        """of what was built"""
        self.words = 0
        """number of dictionary entries in the store"""

    def load(self, follow: Callable[[Command], None] = lambda command: None) -> None:
        """Load the directory; `follow` is called for every command."""
        manifest, runtime, core = self._store.manifest, self._runtime, self._core
        if sum(ref.rows for ref in manifest.dictionary) > RESIDENT_ENTRIES:
            runs = StoredDictionary(self._store.get_dictionary).runs(manifest.dictionary)
            runtime.interner.rest_on(runs, len(runtime.interner))
        else:
            for ref in manifest.dictionary:
                runtime.interner.load(self._store.get_dictionary(ref))
        self.words = len(runtime.interner)  # building may add others

        def build(command: Command) -> None:
            self._build(command)
            follow(command)

        rebuild(runtime.replica, manifest.built, self._functions, manifest.fingerprints, self._store.files.root, build)
        runtime.dataflow.time = manifest.time
        entries = [(self._entry(data), data) for data in manifest.declared]
        with runtime.building(Found(runtime, self._store)):
            for entry, data in compacted(entries):  # the operators of dropped objects are gone
                core.definitions.replay.perform(entry, data)
        runtime.offsets = dict(manifest.marks)
        core.catalog.redeclarable = {*core.catalog.tables, *core.catalog.views}

    def _entry(self, data: Any) -> catalog_entries.Entry:
        return catalog_entries.decode(data, self._store.files.root, self._core.catalog.functions)

    def _build(self, command: Command) -> None:
        """Build operators whose state is in the directory."""
        dataflow = self._runtime.dataflow
        self._runtime.replica.load([command])
        for number, since in self._store.manifest.sinces.items():
            operator = dataflow.numbered[number] if number < len(dataflow.numbered) else None
            if operator is not None and operator.trace is not None and operator.scope.is_root:
                saved_state.set_since(operator.trace, since)

    def take(self, commit: Commit) -> None:
        """Apply what the writer has committed since."""
        if commit.history:  # it was moved to another runtime
            raise self._store.stale()
        for ref in () if commit.whole_dictionary else commit.dictionary:  # otherwise it has the same in fewer pieces
            self._runtime.interner.load(self._store.get_dictionary(ref))
        for data in commit.commands:
            if data[:1] == BUILT:
                self._build(read_command(data[1:], self._functions))
                check_built(self._runtime.replica.fingerprint(), commit.fingerprints, self._store.files.root)
            else:
                with self._runtime.building(Found(self._runtime, self._store)):
                    self._core.definitions.replay.perform(self._entry(data[1:]), data[1:])
        self._runtime.dataflow.time = commit.time
        change_offsets(self._runtime.offsets, commit.marks)
        self._core.subscriptions.take(self._runtime.caught_up(contents_of(self._store, commit.adds)).changes)


class Found:
    """Locates declared objects among operators built before."""

    def __init__(self, runtime: ShardedRuntime, store: Store) -> None:
        self._runtime = runtime
        self._store = store

    def table(self, command: MakeTable) -> Arrangement:
        return self._runtime.builder.tables[command.node.id]

    def view(self, command: Install) -> Arrangement:
        builder, numbered = self._runtime.builder, self._runtime.dataflow.numbered
        built = len(numbered)
        whole: dict[Node, Node] = {}
        arrangement = builder.stored(
            command.node, builder.planned(command.node, command.choice, whole)[0], command.keys
        )
        builder.note_narrowed(whole)
        if len(numbered) != built:
            raise StoreError(
                "E_VERSION",
                f"{self._store.files.root} was written by another version of Everview: a view would be built anew",
                "open it with that version, or load its tables into a new directory",
            )
        return arrangement

    def swap(self, command: Swap) -> None:
        """It has been built so."""

    def keep(self, command: Keep) -> None:
        """Unused operators were dropped then."""


def contents_of(store: Store, batches: Iterable[tuple[int, int, Ref]]) -> Iterator[Added]:
    """Stored batches, one by one."""
    for operator, _, ref in batches:
        image, _ = read_image(store.files, ref)
        yield Added(np.empty(0, dtype=np.int64), {operator: np.concatenate([header(image), image.body])})


def all_contents_of(store: Store, operators: set[int]) -> Iterator[Added]:
    """All stored batches of some operators."""
    lists = store.manifest.lists.items()
    return contents_of(store, ((o, s, ref) for (o, s), refs in lists if o in operators for ref in refs))


def measure_of(manifest: Manifest, operators: int) -> np.ndarray:
    """Batches, updates and bytes of each operator's lists."""
    found = np.zeros((operators, 3), dtype=np.int64)
    for (operator, _), refs in manifest.lists.items():
        found[operator] += (len(refs), sum(r.rows for r in refs), sum(r.size for r in refs))
    return found
