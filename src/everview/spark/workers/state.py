"""The shards that a Spark Python worker keeps in its memory between tasks.

Worker processes survive jobs, so a shard loaded for one step is there for the next. This is only a cache. A cached
shard is identified by the commands that built it, the version of its traces, and the attempt that produced that
version; whatever does not match the committed version is discarded or caught up. Catching up reads the commits since
then from the store's log; loading anew starts from the last checkpoint.

State lives in the store's files, which workers map: the page cache holds them once per machine, and the system can
reclaim the memory. Large batches that a step creates are written to files and mapped, and their memory is freed;
batches in files are not merged in memory. The store merges lists of batches (`merging`), so a list that has grown long
here, or has accumulated much private memory over many small steps, is reloaded from there. A worker's private memory is
then the bucket indexes of its batches, two bytes per row, plus the working memory of a step.

Spark may schedule a task on any free worker, so in time every worker would hold every shard. A worker therefore
releases shards that others have advanced: in a gang immediately, because members agree on the assignment (`ownership`),
otherwise after it has been idle for a while (`Job.forget`). Freed memory is returned to the system.
"""

from __future__ import annotations

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
from everview.dataflow import saved_state, superstep
from everview.dataflow.allocator import give_back, one_heap, unused_memory
from everview.dataflow.commands import read_command
from everview.dataflow.replica import Keep, Replica
from everview.dataflow.superstep import Inputs, Shard, ShardChannel
from everview.errors import EverviewError, InputError, InternalError, StoreError
from everview.kernels.trace import image as image_k
from everview.plan.serialisation import Functions
from everview.plan.trust import EVERYBODY
from everview.spark.driver.job import Answer, Job, bytes_table, read_rows, table_bytes, words_of
from everview.spark.workers import address_space as room
from everview.spark.workers.address_space import NoAddressSpace
from everview.store import manifest as m
from everview.store.batches import Image, write_batch
from everview.store.files import Files
from everview.store.local_cache import with_copies
from everview.store.locations import open_files
from everview.store.manifest import Commit, Manifest, Place, Ref
from everview.store.mapped import read_image
from everview.store.store import BATCHES, CHECKPOINT, LOG, numbered
from everview.store.stored_dictionary import RESIDENT_ENTRIES, StoredDictionary

LARGE_WORDS = 1 << 16
"""Size in words from which the task writes its batches to files."""


MAPPED_BATCHES = 16
OWN_WORDS = 1 << 21
"""Batches of a list, and words of its private memory, beyond which it is reloaded from the store, where lists are
merged: twice as many as at the last load, plus these numbers.
"""

KEEP_UNUSED = 1 << 27
"""Bytes of freed memory that a worker keeps for the next step: fresh pages cost time."""

TIDY_SECONDS = 2.0
"""Seconds between checks for shards that others have advanced."""

PASSING = (OSError, MemoryError, InternalError)
"""Failures that a retry may cure."""


class LoadedShard:
    """A shard in memory and its version."""

    def __init__(self, host: WorkerShards, number: int, shards: int, effort: int) -> None:
        self.shard = Shard(Replica(host.interner, effort), number, shards)
        self.commands = 0
        self.version = 0
        self.attempt = ""
        self._maps: dict[int, list[mmap.mmap]] = {}  # by operator; must outlive the traces
        self._read: dict[int, tuple[int, int]] = {}  # `owned` of operators when they were last loaded

    def build(self, host: WorkerShards, commands: Sequence[bytes], count: int) -> None:
        """Apply commands whose state comes from the store."""
        for data in commands[self.commands : count]:
            self.shard.replica.load([read_command(data, host.functions_for(self))])
        self.commands = count

    def append(self, files: Files, operator: int, ref: Ref, time: int) -> None:
        """Append a committed batch."""
        trace = self._trace(operator)
        if trace:
            take_in(files, ref, trace, time, self._maps.setdefault(operator, []))

    def _trace(self, operator: int) -> int:
        """The address of an operator's trace; 0 if it was dropped since."""
        dataflow = self.shard.dataflow
        found = dataflow.numbered[operator] if operator < len(dataflow.numbered) else None
        return 0 if found is None or found.trace is None else found.trace.address

    def lay(self, files: Files, operator: int, ref: Ref) -> int:
        """Map a batch file for the lifetime of the shard and return its address; 0 if it cannot be mapped."""
        image, mapped = read_image(files, ref)
        if mapped is None:
            return 0
        self._maps.setdefault(operator, []).append(mapped)
        return int(image.body.ctypes.data)

    def swollen(self) -> list[int]:
        """Operators whose traces have many more batches, or much more private memory, than necessary: the store has
        merged them meanwhile.
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
        """Reload the batches of some operators from the store."""
        here = [o for o in operators if self._trace(o)]
        for operator in here:
            image_k.forget(self._trace(operator))
            self._maps[operator] = []
            for ref in lists.get((operator, self.shard.number), ()):
                self.append(files, operator, ref, time)
        owned = self._owned()
        self._read |= {n: (int(owned[n, 0]), int(owned[n, 1])) for n in here}

    def close(self) -> None:
        """Free the shard's memory."""
        self.shard.replica.close()
        self._maps.clear()


def take_in(files: Files, ref: Ref, trace: int, time: int, maps: list[mmap.mmap]) -> None:
    """Append a committed batch to a trace: a local file is mapped (its map is added to `maps`, which must outlive the
    trace), anything else is copied.
    """
    image, mapped = read_image(files, ref)
    if mapped is not None:
        maps.append(mapped)
        image_k.adopt(trace, image.body.ctypes.data, saved_state.header(image), time)
    else:
        saved_state.append(trace, image, time)


class WorkerShards:
    """All shards of one store in this process."""

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
        """The Python functions named by a shard's commands so far."""
        return self._functions.setdefault(held, Functions(trust=EVERYBODY))  # the driver's

    def run(self, job: Job, commands: Sequence[bytes], numbers: Sequence[int], channel: ShardChannel) -> Answer:
        """Run a job on some shards; a deterministic failure is an answer too."""
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
            for each in held:  # they have run the step, but it will not be reported
                self._drop(each.shard.number)
            if isinstance(error, StoreError):
                return Answer.failed(error)
            raise
        return answer

    def _supposed(self, job: Job, shards: list[Shard], answer: Answer) -> Answer:
        """What a step would have added; the step is undone."""
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
        """If missing rows were deleted, name those that belong to a change feed."""
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
        """Add the output of a shard to the answer."""
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
        """The input rows of a job for some shards; deletions by key without a match are added to `missing`."""
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
        """Write a large batch to a file named after the attempt; it counts only once committed."""
        name = f"{job.version + 1:020d}-{shard}-{operator}-{job.attempt}-{secrets.token_hex(4)}.arrow"
        size, crc = write_batch(self.files, f"{BATCHES}/{name}", image)
        found = self._held[shard].shard.dataflow.numbered[operator]
        assert found is not None and found.trace is not None
        return saved_state.tally_of(found.trace, image, job.time + job.epochs).on(Ref(image.rows, size, name, crc))

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
            for operator in saved_state.live(held.shard.dataflow):
                operator.traces_were_replaced()
        if swollen := held.swollen():
            held.read_anew(self.files, self._manifest(job.version).lists, swollen, job.time)
        held.version = job.version
        held.attempt = job.lineage.get(job.version, "")
        held.shard.dataflow.time = job.time
        return held

    def _usable(self, held: LoadedShard, job: Job, built: int) -> bool:
        """Whether a cached shard can be caught up with the job's version."""
        return (
            held.shard.shards == job.shards
            and held.commands <= built
            and held.version <= job.version
            and job.lineage.get(held.version) == held.attempt
            and all(self.files.exists(numbered(LOG, v)) for v in range(held.version + 1, job.version + 1))
        )

    def _make_room(self, job: Job, numbers: Sequence[int]) -> None:
        """Where address space is limited: refuse shards whose files do not fit, before mapping them."""
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
        """Load a shard from the store at the job's version."""
        held = LoadedShard(self, number, job.shards, job.merge_effort)
        held.build(self, commands, built)
        lists = self._manifest(job.version).lists
        held.read_anew(self.files, lists, [o for o, shard in lists if shard == number], job.time)
        held.version = job.version
        return held

    def _manifest(self, version: int) -> Manifest:
        """The contents of the store at a version: the newest checkpoint before it, and the commits since."""
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
        """A commit, whose dictionary entries are added."""
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
        """If the store has removed dictionary entries since, drop the cached ones: they would not be reported to the
        driver.
        """
        if version != self._forgotten:
            for number in list(self._held):
                self._drop(number)
            self.interner, self._words, self._forgotten = Interner(), 0, version
            self._told, self._made = 0, ("", 0)

    def _learn(self, version: int, dictionary: Sequence[Ref], whole: bool) -> None:
        """Add dictionary entries up to a version: the `whole` dictionary, or the new ones."""
        if version <= self._words or version < self._forgotten:
            return
        if whole and sum(ref.rows for ref in dictionary) > RESIDENT_ENTRIES:
            self._rest(dictionary)
        else:
            for ref in dictionary:
                self.interner.load(self._words_of(ref))
        self._words = version

    def _rest(self, dictionary: Sequence[Ref]) -> None:
        """Keep only dictionary entries newer than these pieces."""
        self.interner.rest_on(self._stored_dictionary.runs(dictionary), len(self.interner))
        self._told = len(self.interner)

    def _words_of(self, ref: Ref) -> pa.Table:
        """Dictionary entries in the store."""
        data = pa.py_buffer(ref.inline) if ref.inline is not None else self.files.map(f"{BATCHES}/{ref.file}")
        return pa.ipc.open_file(pa.BufferReader(data)).read_all()

    # memory

    def holds(self, job: Job) -> dict[int, int]:
        """The shards that could run a job, with their versions."""
        held = ((n, h) for n, h in self._held.items() if h.shard.shards == job.shards)
        return {n: h.version for n, h in held if job.lineage.get(h.version) == h.attempt}

    def held(self) -> tuple[tuple[int, int, str], ...]:
        """All shards here: numbers, versions, and the attempts that produced them."""
        return tuple((number, held.version, held.attempt) for number, held in self._held.items())

    def tidy(self) -> None:
        """Release all shards if this process has been idle and another has advanced them."""
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
    """This process's shards of a store."""
    if root not in _hosts:
        _hosts[root] = WorkerShards(root)
        if in_a_worker():
            share_memory()
            # Spark's worker collects garbage after every task, which takes 50 ms for all imported objects.
            gc.freeze()
            if len(_hosts) == 1:
                threading.Thread(target=_keep_tidy, daemon=True, name="everview memory").start()
    return _hosts[root]


def _keep_tidy() -> None:
    """Periodically release the memory of an idle worker."""
    while True:
        time.sleep(TIDY_SECONDS)
        for host in list(_hosts.values()):
            with suppress(OSError, StoreError):  # the directory may be gone
                host.tidy()


def share_memory() -> None:
    """Make all threads of a worker, and Arrow, allocate from one heap, so that memory freed by one can be reused by
    another. By default each thread has its own arena, and Arrow reserves a gigabyte of address space, which
    `spark.executor.pyspark.memory` limits.
    """
    pa.set_memory_pool(pa.system_memory_pool())
    one_heap()


def in_a_worker() -> bool:
    """Whether this process is a Spark worker rather than a test."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return spec is not None and spec.name.startswith("pyspark.")


class Refused(Exception):
    """A feed deleted keys that do not exist, and its mode treats that as an error."""

    def __init__(self, table: int, rows: dict[tuple[int, ...], int]) -> None:
        from everview.runtime.base import AbsentRows  # see `_explained`

        super().__init__(table)
        self.error = AbsentRows.of(table, rows)
