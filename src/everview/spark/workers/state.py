"""The shards that a Spark Python worker keeps in its memory between tasks.

Worker processes live on between jobs, so a shard that was loaded for one step is there for the next. It is only a
cache: a shard is (the commands that built it, the version its traces are at, the attempt that made that version), and
whatever does not match what the driver committed is thrown away or caught up with. Catching up reads the commits since
then from the store's log; loading anew reads the last checkpoint.

What a worker holds lies in the store's files, which it maps: the page cache has them once for all workers of a
machine, and the system may take their memory back. Large batches that a step makes are written, mapped, and their own
memory is given back; batches in files are not merged in memory. In the store lists are merged (`merging`), so a list
that has become long here, or has much memory of its own from many small steps, is read anew from there. A worker's own
memory is then the bucket indexes of its batches, two bytes a row, and what a step works on.

Spark gives tasks to any worker that is free, so in time every worker would hold every shard. A worker therefore lets go
of shards that others have moved on: in a gang at once, because members agree on who has which (`ownership`), else
when it has not been asked for a while (`Job.forget`); the freed memory goes back to the system.
"""

from __future__ import annotations

import ctypes
import gc
import math
import mmap
import secrets
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

import numpy as np
import pyarrow as pa

from everview.codes.interner import Interner
from everview.dataflow import saved, superstep
from everview.dataflow.allocator import give_back, unused_memory
from everview.dataflow.commands import read_command
from everview.dataflow.replica import Keep, Replica
from everview.dataflow.superstep import Inputs, Shard, ShardChannel
from everview.errors import EverviewError, InputError, InternalError, StoreError
from everview.kernels.trace import image as image_k
from everview.plan.frozen import Functions
from everview.plan.trust import EVERYBODY
from everview.spark.driver.job import Answer, Job, bytes_table, read_rows, table_bytes, words_of
from everview.spark.workers import address_space as room
from everview.spark.workers.address_space import NoAddressSpace
from everview.store import manifest as m
from everview.store.batches import Image, write_batch
from everview.store.files import Files
from everview.store.locations import open_files
from everview.store.manifest import Commit, Manifest, Place, Ref
from everview.store.mapped import read_image
from everview.store.nearby import with_copies
from everview.store.store import BATCHES, CHECKPOINT, LOG, numbered
from everview.store.stored_dictionary import RESIDENT_ENTRIES, StoredDictionary

LARGE_WORDS = 1 << 16
"""Images from this many words on are written as files by the task that made them."""


MAPPED_BATCHES = 16
OWN_WORDS = 1 << 21
"""Batches of a list, and words of its memory that are not mapped files, beyond which it is read anew from the store,
where lists are merged: twice as many as it had when it was last read, and so many more.
"""

KEEP_UNUSED = 1 << 27
"""Bytes of freed memory that a worker keeps after a step, for the next: fresh pages cost time."""

TIDY_SECONDS = 2.0
"""How often a worker looks whether it holds what others have moved on."""

PASSING = (OSError, MemoryError, InternalError)
"""Failures that are not the step's own: another attempt may succeed."""


class LoadedShard:
    """A shard in memory, and which version of it."""

    def __init__(self, host: WorkerShards, number: int, shards: int, effort: int) -> None:
        self.shard = Shard(Replica(host.interner, effort), number, shards)
        self.commands = 0
        self.version = 0
        self.attempt = ""
        self._maps: dict[int, list[mmap.mmap]] = {}  # by operator; must outlive the traces
        self._read: dict[int, tuple[int, int]] = {}  # what `owned` said of operators when they were read anew

    def build(self, host: WorkerShards, commands: Sequence[bytes], count: int) -> None:
        """Follow commands whose state comes from the store."""
        for data in commands[self.commands : count]:
            self.shard.replica.load([read_command(data, host.functions_for(self))])
        self.commands = count

    def append(self, files: Files, operator: int, ref: Ref, time: int) -> None:
        """Take in a committed batch."""
        trace = self._trace(operator)
        if trace:
            take_in(files, ref, trace, time, self._maps.setdefault(operator, []))

    def _trace(self, operator: int) -> int:
        """The address of an operator's trace; 0 if it was dropped since."""
        dataflow = self.shard.dataflow
        found = dataflow.numbered[operator] if operator < len(dataflow.numbered) else None
        return 0 if found is None or found.trace is None else found.trace.address

    def lay(self, files: Files, operator: int, ref: Ref) -> int:
        """The address of a batch's file in memory, where it will stay as long as the shard; 0 if it cannot."""
        image, mapped = read_image(files, ref)
        if mapped is None:
            return 0
        self._maps.setdefault(operator, []).append(mapped)
        return int(image.body.ctypes.data)

    def swollen(self) -> list[int]:
        """Operators whose traces have many batches, or much memory of their own, and more than they need to have:
        those in the store were merged meanwhile.
        """
        owned = self._owned()
        before = (self._read.get(number, (0, 0)) for number in range(len(owned)))
        long = enumerate(zip(owned.tolist(), before, strict=True))
        return [
            n for n, ((count, words), (c, w)) in long if count > 2 * c + MAPPED_BATCHES or words > 2 * w + OWN_WORDS
        ]

    def _owned(self) -> np.ndarray:
        traces = self.shard.replica.traces()
        found = np.zeros((len(traces), 2), dtype=np.int64)
        image_k.owned(traces, found.reshape(-1))
        return found

    def read_anew(
        self, files: Files, lists: Mapping[Place, Sequence[Ref]], operators: Sequence[int], time: int
    ) -> None:
        """Take the batches of some operators from the store, in place of those in memory."""
        here = [o for o in operators if self._trace(o)]
        for operator in here:
            image_k.forget(self._trace(operator))
            self._maps[operator] = []
            for ref in lists.get((operator, self.shard.number), ()):
                self.append(files, operator, ref, time)
        owned = self._owned()
        self._read |= {n: (int(owned[n, 0]), int(owned[n, 1])) for n in here}

    def close(self) -> None:
        """Give the shard's memory back."""
        self.shard.replica.close()
        self._maps.clear()


def take_in(files: Files, ref: Ref, trace: int, time: int, maps: list[mmap.mmap]) -> None:
    """Append a committed batch to a trace: a local file where it lies, its map added to `maps`, which must outlive the
    trace; anything else as a copy.
    """
    image, mapped = read_image(files, ref)
    if mapped is not None:
        maps.append(mapped)
        image_k.adopt(trace, image.body.ctypes.data, saved.header(image), time)
    else:
        saved.append(trace, image, time)


class WorkerShards:
    """All shards of one store that this process holds."""

    def __init__(self, root: str) -> None:
        self.files = with_copies(open_files(root))
        self.interner = Interner()
        self._held: dict[int, LoadedShard] = {}
        self._functions: dict[LoadedShard, Functions] = {}
        self._words = 0  # version up to which the dictionary is loaded
        self._stored_dictionary = StoredDictionary(self._words_of)
        self._told = 0  # entries of the dictionary that the driver knows
        self._made = ("", 0)  # the last attempt that went well, and the entries after it
        self._forgotten = 0  # version at which words were forgotten
        self._commits: dict[int, Commit] = {}
        self._known = Manifest()
        self._busy = threading.Lock()
        self._used = time.monotonic()
        self._forget = math.inf

    def functions_for(self, held: LoadedShard) -> Functions:
        """The Python functions a shard's commands have named so far."""
        return self._functions.setdefault(held, Functions(trust=EVERYBODY))  # the driver's

    def run(self, job: Job, commands: Sequence[bytes], numbers: Sequence[int], channel: ShardChannel) -> Answer:
        """Run a job on some shards; a failure that would come again is an answer too."""
        with self._busy:
            self._forget = job.forget
            answer = self._answer(job, commands, numbers, channel)
            for gone in [n for n in self._held if n not in numbers]:  # others run these now
                self._drop(gone)
            if unused_memory() > KEEP_UNUSED:
                give_back()
            self._used = time.monotonic()
            return answer

    def _answer(self, job: Job, commands: Sequence[bytes], numbers: Sequence[int], channel: ShardChannel) -> Answer:
        self._forget_words(job.forgotten)
        known = len(self.interner)
        if self._made[0] in job.lineage.values():  # it was committed, and with it the words it made
            self._told = max(self._told, self._made[1])
        try:
            self._make_room(job, numbers)
        except NoAddressSpace as error:
            channel.fail(error)
            return Answer.failed(error)
        held = [self._bring(number, job, commands) for number in numbers]
        if self.interner.resident >= RESIDENT_ENTRIES:  # with words of attempts that failed: they are made again
            self._rest(self._manifest(job.version).dictionary)
        self._commits.clear()
        self._known = Manifest()
        for fresh in (*map(self._words_of, job.stored), bytes_table(job.dictionary)):
            if fresh is not None:
                self.interner.load(fresh)
        if self._told >= known:  # none is left that an attempt made which did not count
            self._told = len(self.interner)
        channel.begin(self.interner)
        missing: dict[int, int] = {}
        try:
            inputs = self._inputs(job, held, missing)
            words = superstep.words_in(inputs)
            self._run_step(job, commands, held, channel, inputs)
        except PASSING:
            raise  # Spark tries again
        except Refused as refused:  # before the others were met, who wait
            channel.fail(refused.error)
            return Answer.failed(refused.error)
        except Exception as error:
            return Answer.failed(self._explained(error, job, held))
        answer = Answer(dictionary=table_bytes(self.interner.export(self._told)), missing=missing)
        self._made = job.attempt, len(self.interner)
        shards = [each.shard for each in held]
        if job.suppose is not None:
            return self._supposed(job, shards, answer)
        try:
            superstep.side_by_side(shards, words, lambda shard: self._finish(job, shard, answer))
        except BaseException as error:
            for each in held:  # they have taken the step, but nobody will hear of it
                self._drop(each.shard.number)
            if isinstance(error, StoreError):
                return Answer.failed(error)
            raise
        return answer

    def _supposed(self, job: Job, shards: list[Shard], answer: Answer) -> Answer:
        """What a step would have added; it is undone."""
        wanted = frozenset(job.suppose or ())
        try:
            for shard in shards:
                answer.packed[shard.number] = shard.would_add(wanted, job.epochs).packed.tobytes()
        except EverviewError as error:
            return Answer.failed(error)
        finally:
            for shard in shards:
                shard.abort(installing=False)
        return answer

    def _explained(self, error: Exception, job: Job, held: list[LoadedShard]) -> Exception:
        """If rows were deleted that are not there, say which ones of a change feed."""
        if not isinstance(error, InputError) or error.code != "E_ABSENT":
            return error
        for rows in job.coded:
            absent: dict[tuple[int, ...], int] = {}
            for each in held:
                arrangement = each.shard.replica.builder.tables[rows.table]
                absent |= rows.absent(self.files, each.shard.number, arrangement, job.time, self.interner)
            if absent:
                from everview.runtime.base import AbsentRows  # most workers code nothing, and start sooner

                return AbsentRows.of(rows.table, absent)
        return error

    def _finish(self, job: Job, shard: Shard, answer: Answer) -> None:
        """Add what the step added to a shard to the answer."""
        number = shard.number
        held = self._held[number]
        files: list[tuple[int, int, Ref]] = []

        def keep(operator: int, image: Image) -> int:
            ref = self._write(job, number, operator, image)
            files.append((operator, number, ref))
            return held.lay(self.files, operator, ref)

        added = shard.finish(job.epochs, LARGE_WORDS, keep)
        answer.packed[number] = added.packed.tobytes()
        answer.files += files
        held.version, held.attempt = job.version + 1, job.attempt

    def _inputs(self, job: Job, held: list[LoadedShard], missing: dict[int, int]) -> Inputs:
        """The rows that a job brings for some shards; deletions by key that find nothing are added to `missing`."""
        inputs: Inputs = {s: [(o, words_of(data)) for o, data in rows] for s, rows in job.inputs.items()}
        here = {each.shard.number for each in held}
        inputs |= {s: read_rows(self.files, name) for s, name in job.input_files.items() if s in here}
        for rows in job.coded:
            absent: dict[tuple[int, ...], int] = {}
            for each in held:
                arrangement = each.shard.replica.builder.tables[rows.table]
                changes, more = rows.changes(self.files, each.shard.number, arrangement, job.time, self.interner)
                absent |= more
                if changes is not None:
                    inputs.setdefault(each.shard.number, []).append((rows.operator, changes))
            if absent and rows.reject:
                raise Refused(rows.table, absent)
            missing[rows.table] = missing.get(rows.table, 0) + sum(absent.values())
        return inputs

    def _run_step(
        self, job: Job, commands: Sequence[bytes], held: list[LoadedShard], channel: ShardChannel, inputs: Inputs
    ) -> None:
        if job.epochs == 0:
            for each in held:
                command = read_command(commands[job.commands - 1], self.functions_for(each))
                assert not isinstance(command, Keep)
                each.shard.replica.build(command)
                each.commands = job.commands
        for each in held:
            if each.shard.replica.fingerprint() != job.fingerprint:
                raise InternalError("E_REPLICA", "a worker built other operators than the driver", "report this")
        try:
            superstep.run([each.shard for each in held], channel, inputs, job.epochs)
        except BaseException:
            if job.epochs == 0:
                for each in held:  # its numbers are used up here, but not on the driver
                    self._drop(each.shard.number)
            raise

    def _write(self, job: Job, shard: int, operator: int, image: Image) -> Ref:
        """Write a large batch as a file whose name carries the attempt: only the commit makes it count."""
        name = f"{job.version + 1:020d}-{shard}-{operator}-{job.attempt}-{secrets.token_hex(4)}.arrow"
        size, crc = write_batch(self.files, f"{BATCHES}/{name}", image)
        found = self._held[shard].shard.dataflow.numbered[operator]
        assert found is not None and found.trace is not None
        return saved.tally_of(found.trace, image, job.time + job.epochs).on(Ref(image.rows, size, name, crc))

    # versions

    def _bring(self, number: int, job: Job, commands: Sequence[bytes]) -> LoadedShard:
        """A shard at the job's version."""
        held = self._held.get(number)
        built = job.commands - (1 if job.epochs == 0 else 0)
        if held is not None and not self._usable(held, job, built):
            self._drop(number)
            held = None
        if held is None:
            held = self._load(number, job, commands, built)
            self._held[number] = held
        held.build(self, commands, built)
        for version in range(held.version + 1, job.version + 1):
            self._follow(held, version)
        if held.version < job.version:
            for operator in saved.live(held.shard.dataflow):
                operator.traces_were_replaced()
        if swollen := held.swollen():
            held.read_anew(self.files, self._manifest(job.version).lists, swollen, job.time)
        held.version = job.version
        held.attempt = job.lineage.get(job.version, "")
        held.shard.dataflow.time = job.time
        return held

    def _usable(self, held: LoadedShard, job: Job, built: int) -> bool:
        """Whether a shard in memory can be caught up with the job's version."""
        return (
            held.shard.shards == job.shards
            and held.commands <= built
            and held.version <= job.version
            and job.lineage.get(held.version) == held.attempt
            and all(self.files.exists(numbered(LOG, v)) for v in range(held.version + 1, job.version + 1))
        )

    def _make_room(self, job: Job, numbers: Sequence[int]) -> None:
        """Where address space is limited: refuse shards whose files do not fit, before they are mapped."""
        if room.limit() is None:
            return
        built = job.commands - (1 if job.epochs == 0 else 0)
        for number, held in list(self._held.items()):
            if number not in numbers or not self._usable(held, job, built):
                self._drop(number)
        missing = set(numbers).difference(self._held)
        if missing:
            give_back()
            lists = self._manifest(job.version).lists.items()
            room.check(sum(ref.size for (_, shard), refs in lists if shard in missing for ref in refs))

    def _load(self, number: int, job: Job, commands: Sequence[bytes], built: int) -> LoadedShard:
        """A shard as the store has it at the job's version."""
        held = LoadedShard(self, number, job.shards, job.merge_effort)
        held.build(self, commands, built)
        lists = self._manifest(job.version).lists
        held.read_anew(self.files, lists, [o for o, shard in lists if shard == number], job.time)
        held.version = job.version
        return held

    def _manifest(self, version: int) -> Manifest:
        """All that the store has at a version: the newest checkpoint before it, and the commits since."""
        if self._known.version == version:
            return self._known
        versions = [int(n) for n in self.files.list(CHECKPOINT) if n.isdecimal() and int(n) <= version]
        found = Manifest()
        if versions:
            name = numbered(CHECKPOINT, max(versions))
            found = m.decode_manifest(self.files.read(name), self.files.where(name))
            self._learn(found.version, found.dictionary, whole=True)
        while found.version < version:
            found = found.after(self._commit(found.version + 1))
        self._known = found
        return found

    def _commit(self, version: int) -> Commit:
        """A commit, whose dictionary entries become known."""
        if version not in self._commits:
            name = numbered(LOG, version)
            self._commits[version] = m.decode_commit(self.files.read(name), self.files.where(name))
        commit = self._commits[version]
        fresh = not commit.whole_dictionary or version == self._forgotten  # else the same words in fewer pieces
        self._learn(version, commit.dictionary if fresh else (), whole=commit.whole_dictionary)
        return commit

    def _follow(self, held: LoadedShard, version: int) -> None:
        commit = self._commit(version)
        for operator, shard, ref in commit.adds:
            if shard == held.shard.number:
                held.append(self.files, operator, ref, commit.time)

    def _forget_words(self, version: int) -> None:
        """If words were forgotten in the store since, know no others: they would not be told to the driver."""
        if version != self._forgotten:
            for number in list(self._held):
                self._drop(number)
            self.interner, self._words, self._forgotten = Interner(), 0, version
            self._told, self._made = 0, ("", 0)

    def _learn(self, version: int, dictionary: Sequence[Ref], whole: bool) -> None:
        """Know dictionary entries up to a version, which are the `whole` dictionary or what is new."""
        if version <= self._words or version < self._forgotten:
            return
        if whole and sum(ref.rows for ref in dictionary) > RESIDENT_ENTRIES:
            self._rest(dictionary)
        else:
            for ref in dictionary:
                self.interner.load(self._words_of(ref))
        self._words = version

    def _rest(self, dictionary: Sequence[Ref]) -> None:
        """Hold no words but what comes after these pieces of the dictionary."""
        self.interner.rest_on(self._stored_dictionary.runs(dictionary), len(self.interner))
        self._told = len(self.interner)

    def _words_of(self, ref: Ref) -> pa.Table:
        """Entries of the dictionary that are in the store."""
        data = pa.py_buffer(ref.inline) if ref.inline is not None else self.files.map(f"{BATCHES}/{ref.file}")
        return pa.ipc.open_file(pa.BufferReader(data)).read_all()

    # memory

    def holds(self, job: Job) -> dict[int, int]:
        """The shards that could run a job, with their versions."""
        held = ((n, h) for n, h in self._held.items() if h.shard.shards == job.shards)
        return {n: h.version for n, h in held if job.lineage.get(h.version) == h.attempt}

    def held(self) -> tuple[tuple[int, int, str], ...]:
        """All shards here: their numbers, versions, and the attempts that made those."""
        return tuple((number, held.version, held.attempt) for number, held in self._held.items())

    def tidy(self) -> None:
        """Let go of all shards, if this process was not asked for a while and another has moved them on."""
        if time.monotonic() - self._used > self._forget and self._held and self._busy.acquire(blocking=False):
            try:
                newest = max((int(n) for n in self.files.list(LOG) if n.isdecimal()), default=0)
                if any(held.version < newest for held in self._held.values()):
                    for number in list(self._held):
                        self._drop(number)
                    give_back()
            finally:
                self._busy.release()

    def _drop(self, number: int) -> None:
        held = self._held.pop(number)
        self._functions.pop(held, None)
        held.close()


_hosts: dict[str, WorkerShards] = {}


def worker_shards(root: str) -> WorkerShards:
    """This process's host for a store."""
    if root not in _hosts:
        _hosts[root] = WorkerShards(root)
        if in_a_worker():
            share_memory()
            # Spark's worker collects garbage after every task: 50 ms for all that was imported, again and again.
            gc.freeze()
            if len(_hosts) == 1:
                threading.Thread(target=_keep_tidy, daemon=True, name="everview memory").start()
    return _hosts[root]


def _keep_tidy() -> None:
    """Look after the memory of a worker that nobody asks any more."""
    while True:
        time.sleep(TIDY_SECONDS)
        for host in list(_hosts.values()):
            with suppress(OSError, StoreError):  # the directory may be gone
                host.tidy()


def share_memory() -> None:
    """Let all threads of a worker, and Arrow, allocate from one heap: what one of them freed another can use. Each
    would have its own, steps start threads, and Arrow's takes a gigabyte of address space, which
    `spark.executor.pyspark.memory` limits.
    """
    pa.set_memory_pool(pa.system_memory_pool())
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(-8, 1)  # M_ARENA_MAX


def in_a_worker() -> bool:
    """Whether this process is one of Spark's, and not a test's."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return spec is not None and spec.name.startswith("pyspark.")


class Refused(Exception):
    """A feed deletes by keys that are not there, and does not want that to be passed over."""

    def __init__(self, table: int, rows: dict[tuple[int, ...], int]) -> None:
        from everview.runtime.base import AbsentRows  # see `_explained`

        super().__init__(table)
        self.error = AbsentRows.of(table, rows)
