"""Durable embedded sessions: `everview.connect("directory")`.

A transaction is acknowledged when its record is in the write-ahead log (`everview.store.wal`); it is written first and
run then, and taken out again if it cannot be run. From time to time, and when the session is closed, all traces are
written as batch files and a new version of the store is committed, which empties the log. Batches are named after
their content, so those that have not changed since the last version are not written again.

Opening is: read the last version, build the dataflow from its catalogue, put the batches back into the traces, then
run the log's transactions. Nothing is computed anew but those. State is found by what it is the state of
(`everview.restoring`). If this version of Everview builds other operators from the catalogue than the one that wrote
it, their state is computed from what they read, with a warning.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import pyarrow as pa

from everview import journal, shield
from everview.catalogue import Catalogued
from everview.dataflow import saved
from everview.dataflow.operators import Arrangement, Trace
from everview.errors import ClosedError, EverviewError, InputError, StoreError, did_you_mean
from everview.journal import Entry
from everview.marks import change_marks
from everview.moving import Move, from_shards
from everview.plan import nodes as plan
from everview.plan.frozen import Functions
from everview.plan.trust import Trust
from everview.restoring import Kept, Restoring
from everview.session import Session
from everview.store import Manifest, Ref, Store, steps, tally, words
from everview.store.logs import Log, next_version, open_log, read_log
from everview.store.wal import Sync
from everview.transacting import Work
from everview.turns import reads

STEP, ENTRY = b"S", b"C"
"""How the log's records begin."""

NO_REFUSALS = ("E_DAMAGED", "E_TRUST", "E_FORMAT")
"""Errors that say nothing about a transaction that the log has."""

NOW = "everview.now"
"""The mark that says what the clock showed, where something follows it."""

LOG_BYTES = 32 << 20
"""Size of the log from which a new version is made, if the state is not larger."""

FOLD_AT_CLOSE = 1 << 16
"""Size of the log from which closing makes a new version."""

DICTIONARY_FILES = 16
"""Pieces of the dictionary from which they are written as one."""


class _Unsure(NamedTuple):
    """What is being written into the log and done."""

    size: int
    """of the log before it"""
    time: int = 0
    """before it, if it is a step"""
    transactions: Sequence[Work] = ()
    words: int = 0
    """entries of the dictionary that are known after it"""


class Stored(Catalogued):
    """A session whose dataflow comes from a store's manifest: what durable and attached sessions share."""

    def __init__(self, store: Store, **options: Any) -> None:
        self._store = store
        self._loading = False
        self._move: Move | Restoring | None = None  # while state is taken over that is not all of it
        self._anew = False  # whether the store has other commands than this dataflow was built from
        self._words = 0  # entries of the dictionary that are in the store or the log
        self._unsure: _Unsure | None = None
        super().__init__(**options)

    # loading

    def _load(self, manifest: Manifest) -> None:
        """Become what the manifest says."""
        for ref in manifest.dictionary:
            self._interner.load(self._store.get_dictionary(ref))
        self._words = len(self._interner)
        self._marks = dict(manifest.marks)
        if manifest.is_sharded:
            self._anew = True
            from_shards(self, manifest)
            return
        where = self._store.files.root
        entries = [(journal.decode(data, where, self._plan_functions), data) for data in manifest.commands]
        self._loading = True
        for entry, data in entries:
            self._perform(entry, data)
        self._loading = False
        if saved.held(self._graph).keys() <= set(manifest.fingerprints):
            self._put_back(manifest)
        else:
            self._restore(manifest, entries)
        self._graph.time = manifest.time

    def _put_back(self, manifest: Manifest) -> None:
        kept = Kept(self._store, manifest)
        for operator in saved.live(self._graph):
            if saved.state_of(operator) is not None:
                kept.fill(operator)

    def _restore(self, manifest: Manifest, entries: list[tuple[Entry, bytes]]) -> None:
        """Other operators would be built today: keep the state of those that are the same, compute the others."""
        warnings.warn(
            f"{self._store.files.root} was written by another version of Everview, or with other functions: "
            "views are computed again",
            stacklevel=2,
        )
        self._anew = True
        self._start_again()
        self._graph.time = manifest.time
        self._move = move = Restoring(self._graph, Kept(self._store, manifest))
        self._loading = True
        try:
            for entry, data in journal.surviving(entries):
                self._perform(entry, data)
            move.fill()
        finally:
            self._loading = False
            self._move = None

    def _start_again(self) -> None:
        effort = self._graph.merge_effort
        self._graph.close()
        self._tables.clear()
        self._views.clear()
        self._entries.clear()
        self._clock.followers.clear()
        self._graph, self._builder = self._dataflow(effort)

    def _add_table(
        self, node: plan.Table, order: tuple[int, ...], name: str, history: int, rows: Sequence[tuple[int, ...]] = ()
    ) -> Arrangement:
        return super()._add_table(node, order, name, history, () if self._loading else rows)

    def _install_new(self) -> None:
        if self._move is not None:
            self._move.settle(super()._install_new)
        elif self._loading:
            self._graph.installed()
        else:
            super()._install_new()

    # following the log

    def _replay(self, payload: bytes) -> None:
        """Do what a record of the log says."""
        shield.hear()  # between records is where opening may be given up
        kind, body = payload[:1], memoryview(payload)[1:]
        entry = journal.decode(body, self._store.files.root, self._plan_functions) if kind == ENTRY else None
        self._plan_functions.require(self._store.files.root)
        if entry is not None:
            self._perform(entry, bytes(body))
            return
        step = steps.decode(body)
        if step.time != self._graph.time:
            raise StoreError(
                "E_DAMAGED",
                f"the log of {self._store.files.root} continues time {step.time}, but it is {self._graph.time} now",
                "restore the directory from a copy",
            )
        if step.words is not None:
            self._interner.load(step.words)
            self._words = len(self._interner)
        tables = {table._id: table for table in self._tables.values()}
        transactions = []
        for each in step.transactions:
            work = Work((tables[table], rows, diff) for table, rows, diff in each.changes)
            work.marks.update(each.marks)
            transactions.append(work)
        self._step(transactions)
        self._deliver()


class DurableSession(Stored):
    """An embedded session in a directory; made by `everview.connect("directory")`.

    >>> import tempfile
    >>> import everview as ev
    >>> where = tempfile.mkdtemp()
    >>> with ev.connect(where) as db:
    ...     t = db.table("t", {"x": int})
    ...     v = db.view("v", t.select(y=t.x * 2).distinct())
    ...     t.insert([(1,), (2,)])
    >>> with ev.connect(where) as db:
    ...     db["t"].insert([(3,)])
    ...     sorted(db["v"].rows()), db.time
    ([(2,), (4,), (6,)], 2)
    """

    def __init__(self, location: str | os.PathLike[str], *, sync: Sync = "normal", **options: Any) -> None:
        if sync not in ("normal", "full"):
            raise InputError("E_OPTION", f"sync is {sync!r}", 'use "normal" (survives kill -9) or "full" (power loss)')
        self._closed = True  # until it is open
        store = Store(location)
        try:
            if words.due(store.manifest):
                _forget_words(store, options)
            super().__init__(store, **options)
            self._open(sync)
        except BaseException:
            if not self._closed:
                self._closed = True
                self._graph.close()
            store.close()
            raise

    def _open(self, sync: Sync) -> None:
        self._sync_mode = sync
        self._replaying = True
        manifest = self._store.manifest
        self._load(manifest)
        self._wal: Log
        self._wal, payloads = open_log(self._store, manifest.version, sync)
        self._kept = len(self._entries)  # entries that the store has
        self._limit = LOG_BYTES
        self._empty = -1 if payloads else self._wal.size
        self._catch_up_with(payloads)
        self._anew = self._anew or self._plan_functions.old
        self._clock.resume(int(self._marks.get(NOW, 0)))
        self._wal.begin()
        self._replaying = False
        self._again = {*self._tables, *self._views}
        if manifest.is_sharded or self._wal.sealed:
            self._checkpoint()
        elif self._anew:  # what was computed need not be computed the next time
            self._checkpoint_or_warn()
        self._set_limit()

    def _catch_up_with(self, payloads: list[bytes]) -> None:
        """Run what the log has. A last record that cannot be run is one that was being taken back when the process
        died.
        """
        for number, payload in enumerate(payloads):
            try:
                self._replay(payload)
            except EverviewError as error:
                if error.code in NO_REFUSALS or number + 1 < len(payloads) or payload[:1] != STEP:
                    raise
                self._wal.take_back(payload)
                warnings.warn(f"the last transaction in the log was refused and is taken out: {error}", stacklevel=2)

    # changing

    def _keep(self, entry: bytes) -> None:
        self._unsure = _Unsure(self._wal.size)
        self._append(ENTRY + entry)
        self._wal.done()

    def _append(self, record: bytes) -> None:
        try:
            self._wal.append(record)
        except EverviewError:  # nothing was written, or it was taken out again
            self._unsure = None
            raise

    def _note(self, entry: Entry) -> None:
        super()._note(entry)
        self._unsure = None

    def _run(self, transactions: list[Work]) -> None:
        if self._replaying:
            super()._run(transactions)
            return
        self._plan_functions.require(self._store.files.root)
        if self._clock.followers:  # each step is a time of its own then, and says when it was
            transactions[-1].marks[NOW] = str(self._clock.now)
        size, time = self._wal.size, self._graph.time
        words = steps.new_words(self._interner, self._words)
        self._unsure = unsure = _Unsure(size, time, transactions, self._words + (0 if words is None else len(words)))
        self._append(STEP + _coded(time, transactions, words))
        try:
            super()._run(transactions)
        except BaseException:
            if self._graph.time == time:
                self._wal.cut(size)
                self._unsure = None
            else:  # it was complete, and only then interrupted
                self._complete(unsure)
            raise
        self._complete(unsure)
        if self._wal.size > self._limit:
            self._checkpoint_or_warn()

    def _complete(self, step: _Unsure) -> None:
        """A step is done. Its marks are taken here, because a version may be made next and must have them."""
        self._wal.done()
        for work in step.transactions:
            if work.marks:
                change_marks(self._marks, work.marks)
        self._words = step.words
        self._unsure = None

    def _settle(self) -> None:
        """A step that is in the log has happened, or is taken out. If nobody can tell whether a table or view that is
        there was made, the directory must be opened again: there it will have been made.
        """
        self._graph.settle()
        if self._unsure is None or self._wal.size == self._unsure.size:
            pass
        elif self._unsure.transactions and self._graph.time == self._unsure.time:
            self._wal.cut(self._unsure.size)
        elif self._unsure.transactions:
            self._complete(self._unsure)
        else:
            self._let_go()
            raise ClosedError(
                "E_CLOSED",
                f"an exception that another thread raised in this one cut the log of {self._store.files.root} off from "
                "the session, which is closed",
                "open the directory again: everything that was acknowledged is there",
            )
        self._unsure = None
        super()._settle()

    # versions

    @reads
    def checkpoint(self) -> None:
        """Write all state into files and begin a new log: opening is then quick. Happens by itself when the log is
        long.
        """
        self._alive()
        self._catch_up()
        self._checkpoint()
        self._set_limit()

    def _checkpoint(self) -> None:
        store = self._store
        words = len(self._interner)
        self._wal = next_version(store, self._wal, self._sync_mode, self._new_version)
        self._empty = self._wal.size
        self._words = words
        self._anew = False
        self._kept = len(self._entries)
        store.checkpoint()
        store.collect()

    def _new_version(self) -> dict[str, Any]:
        """Write what is new into the store; gives what the version brings."""
        store = self._store
        lists = {(n, 0): refs for n, refs in self._put_all()}
        new = [*lists.items(), *((place, ()) for place in store.manifest.lists if place not in lists)]
        operators = saved.live(self._graph)
        sinces = {n: saved.since(t) for n, o in enumerate(operators) if (t := saved.state_of(o)) is not None}
        return {
            "time": self._graph.time,
            "replaces": {place: refs for place, refs in new if store.manifest.lists.get(place) != refs},
            "marks": self._marks,
            "sinces": {n: s for n, s in sinces.items() if s is not None},
            "fingerprints": saved.fingerprints(self._graph),
            **self._new_commands(),
            **self._new_dictionary(),
        }

    def _put_all(self) -> Iterable[tuple[int, tuple[Ref, ...]]]:
        """Every trace's batches in the store; a trace of which little is alive is compacted first."""
        for number, operator in enumerate(saved.live(self._graph)):
            trace = saved.state_of(operator)
            if trace is None:
                continue
            refs = self._put_trace(number, trace)
            trace.pass_on(self._graph.time)
            if tally.wasteful(refs, trace.since if trace.scope.is_root else self._graph.time):
                trace.compact()
                refs = self._put_trace(number, trace)
            if refs:
                yield number, refs

    def _put_trace(self, number: int, trace: Trace) -> tuple[Ref, ...]:
        """A trace's batches in the store; those in files have a tally, which is known if they were there before."""
        known = {r.file: r for r in self._store.manifest.lists.get((number, 0), ()) if r.until >= 0}
        refs = []
        for image in saved.images(trace):
            ref = self._store.put(image)
            if ref.file:
                ref = known.get(ref.file) or saved.tally_of(trace, image, self._graph.time).on(ref)
            refs.append(ref)
        return tuple(refs)

    def _new_commands(self) -> dict[str, Any]:
        """The entries since the last version; all that are still of consequence, if many are not, or if they were done
        in another order than the store has them.
        """
        many = len(self._entries) > 2 * len(journal.surviving(self._entries)) + 32
        kept = self._living_entries() if self._anew or many else self._entries
        if self._anew or len(kept) < len(self._entries):
            functions = Functions(like=self._plan_functions)
            self._entries = [(e, journal.encode(e, functions)) for e, _ in kept]
            self._plan_functions = functions
            return {"commands": tuple(data for _, data in self._entries), "history": True}
        return {"commands": tuple(data for _, data in self._entries[self._kept :])}

    def _living_entries(self) -> list[tuple[Entry, bytes]]:
        """The entries without what was dropped, if they alone make no other operators than there are; else all."""
        kept = journal.surviving(self._entries)
        return kept if self._builds_the_same(kept) else self._entries

    def _builds_the_same(self, entries: list[tuple[Entry, bytes]]) -> bool:
        """Whether these entries alone make no other operators than there are."""
        sketch = _Sketch(self._store, history=0)
        try:
            for entry, _ in entries:
                sketch._perform(entry)
            return saved.held(sketch._graph).keys() <= saved.held(self._graph).keys()
        finally:
            sketch.close()

    def _new_dictionary(self) -> dict[str, Any]:
        """The dictionary's new entries; all of it as one file, if there are many."""
        stored = sum(ref.rows for ref in self._store.manifest.dictionary)
        if len(self._store.manifest.dictionary) >= DICTIONARY_FILES:
            return {"dictionary": (self._store.put_dictionary(self._interner.export()),), "whole_dictionary": True}
        if len(self._interner) == stored:
            return {}
        return {"dictionary": (self._store.put_dictionary(self._interner.export(stored)),)}

    def _checkpoint_or_warn(self) -> None:
        """Make a new version, if there is room: the log has everything anyway."""
        try:
            self._checkpoint()
        except StoreError as error:
            if error.code != "E_DISK":
                raise
            warnings.warn(f"no new version could be written, the log goes on: {error.message}", stacklevel=2)
        self._set_limit()

    def _set_limit(self) -> None:
        """The log may grow as large as the state before it is folded, so that writing state costs no more than that."""
        state = sum(o.trace.measure()[2] for o in saved.live(self._graph) if saved.state_of(o) and o.trace)
        self._limit = self._wal.size + max(LOG_BYTES, state)

    # the end

    @reads
    def close(self) -> None:
        """Write what is only in the log into files, if it is much, and let others open the directory."""
        if self._closed:
            return
        try:
            self._catch_up()
            # functions may have to be given again after opening, but a log would need them at once
            if self._wal.size > FOLD_AT_CLOSE or (len(self._plan_functions) and self._wal.size != self._empty):
                self._checkpoint_or_warn()
            self._wal.sync()
        finally:
            self._let_go()

    def _let_go(self) -> None:
        self._wal.close()
        super().close()
        self._store.close()

    def __del__(self) -> None:
        if not getattr(self, "_closed", True):
            self._let_go()  # whatever was acknowledged is in the log


class _Folding(DurableSession):
    """A session that puts the log of a store into files, no more; the store stays open."""

    def __init__(self, store: Store, **options: Any) -> None:
        Stored.__init__(self, store, **options)
        try:
            self._open("normal")
            self._checkpoint()
            self._wal.close()
        finally:
            Stored.close(self)


def _forget_words(store: Store, options: Mapping[str, Any]) -> None:
    """Free a store of words that nobody needs, if there is room for it: else another time."""
    with suppress(OSError, StoreError):
        log = read_log(store.files, store.manifest.version, bound=store.bound)
        if next(log, None) is not None:  # the last session was killed
            _Folding(store, **options)
        words.forget(store)


class _Sketch(Stored):
    """A session that only builds."""

    def __init__(self, store: Store, **options: Any) -> None:
        super().__init__(store, **options)
        self._loading = True


def _coded(time: int, transactions: list[Work], words: pa.Table | None) -> bytes:
    """The bytes of a step; quickly, if it is one small change."""
    if words is None and len(transactions) == 1:
        work = transactions[0]
        if len(work) == 1 and not work.marks:
            table, rows, diff = work[0]
            if isinstance(rows, list):
                return steps.encode_rows(time, table._id, rows, diff)
    coded = (steps.Transaction([(t._id, rows, diff) for t, rows, diff in w], w.marks) for w in transactions)
    return steps.encode(time, coded, words)


def open_directory(
    location: str | os.PathLike[str],
    *,
    read_only: bool = False,
    sync: Sync = "normal",
    trust: bool = False,
    functions: Any = (),
    **options: Any,
) -> Session:
    """The session in a directory, for `everview.connect`."""
    for name in options:
        if name not in ("history", "merge_effort", "threads"):
            known = did_you_mean(name, ("read_only", "sync", "trust", "functions"))
            raise InputError("E_OPTION", f"a session in a directory has no option {name!r}", known)
    options["trust"] = Trust.of(trust, functions, os.fspath(location))
    if read_only:
        from everview.attached import AttachedSession
        from everview.spark.session import ShardReader

        store = Store(location, read_only=True)
        if store.manifest.is_sharded:
            return ShardReader(store, **options)
        store.close()

        return AttachedSession(location, **options)
    return DurableSession(location, sync=sync, **options)
