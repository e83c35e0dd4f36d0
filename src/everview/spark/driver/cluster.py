"""The shards on Spark: every step is one job, committed to the store as one version.

A small change is run by one task on all shards: moving it between processes would cost more than the work. A large
one is run by a barrier stage of as many tasks as there are slots, which exchange rows directly (`mesh`). Either way a
job's tasks are pure (see `job`), so retries, speculation and lost executors are Spark's business; only the driver
commits.

Batches of a version are small pieces in its commit, or files; `merging` keeps lists of them short. A step's input
travels inside the job while it is small, else as a file per shard that lasts as long as the step: many rows through the
JVM would cost more than the step.
"""

from __future__ import annotations

import math
import pickle
import secrets
import warnings
from collections.abc import Iterable, Sequence, Set
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from everview.codes.interner import Interner
from everview.dataflow.commands import Commands
from everview.dataflow.dataflow import Dataflow
from everview.dataflow.replica import Added, Command, Keep, MakeTable, Replica
from everview.dataflow.saved import image_of, packed_entries
from everview.dataflow.superstep import Inputs
from everview.errors import EverviewError, StoppedError, StoreError
from everview.plan.frozen import Functions
from everview.recovery.stored_shards import all_contents_of, contents_of, measure_of
from everview.runtime.base import AbsentRows, RemoteTarget
from everview.runtime.sharded import ShardStep
from everview.spark.driver.alive import asking, lost, unless_lost
from everview.spark.driver.interrupts import Running, put_off
from everview.spark.driver.job import Answer, Job, bytes_table, table_bytes, write_rows
from everview.spark.driver.long_lived_task import LINGER, LONGEST, LongLivedTask, Unreachable, all_leave
from everview.spark.driver.merging import INLINE_BYTES, Merger
from everview.spark.driver.slots import stage_slots
from everview.spark.driver.versions import checked, guarded, other_in
from everview.spark.rows.encode import Target, encode_rows
from everview.spark.rows.encoded import EncodedRows
from everview.spark.rows.frames import FrameRows, first_line
from everview.spark.transport.failures import PeerFailed
from everview.spark.transport.handshake import new_secret
from everview.spark.transport.message import Buffer
from everview.spark.workers.address_space import NoAddressSpace
from everview.store.dictionary_gc import version_of
from everview.store.manifest import BUILT, DECLARED, Place, Ref
from everview.store.store import BATCHES, Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ALONE_ROWS = 1_000_000
"""Input rows up to which one task runs all shards: a barrier stage costs a second before it has done anything."""

WORKER_TRIES = 4
"""How often a step is run whose Python process dies, where Spark does not try again: as often as it does elsewhere."""

BARRIER_TRIES = 4
"""How often a barrier stage is run that loses a task: as often as Spark tries other tasks."""

FORGET = 30.0
"""Seconds for which a worker keeps shards that another worker has taken over, in case they come back."""

FILE_BYTES = 1 << 17
"""Size from which a step's input travels as files."""

DICTIONARY_FILE_ENTRIES = 1 << 19
"""Entries of the dictionary in one file."""

COLLECT_EVERY = 8
"""Merges after which files that nobody needs are deleted."""

COLLECT_BYTES = 1 << 22
"""Size of what merges leave behind that is deleted before that, if it is more than the state."""

COLLECT_GRACE = 60.0
"""Seconds for which files are spared that may belong to a task still running."""


class SparkCluster:
    """Shards whose state is in a store and whose steps are Spark jobs."""

    def __init__(
        self, spark: SparkSession, store: Store, interner: Interner, driver_replica: Replica, functions: Functions
    ) -> None:
        self.spark = spark
        self._spark = spark.sparkContext
        self._store = store
        self._interner = interner
        self._driver_replica = driver_replica
        self.shards = store.manifest.shards
        self._commands = Commands(functions)
        self._sent: Any = None  # the commands as a broadcast
        self._lineage: dict[int, str] = {store.manifest.version: ""}
        self._words = len(interner)
        self._one = self._spark.parallelize([0], 1)
        self._merger = Merger(self._spark, store, driver_replica)
        self._tidied = 0
        self._left: dict[str, int] = {}  # files, and their sizes, that merges have left behind since some were deleted
        self.alone_rows = ALONE_ROWS
        self._apart = False  # whether no task may run all shards
        self._resident: LongLivedTask | None = None
        self.linger(LINGER if self._spark.defaultParallelism > 1 else 0.0, LONGEST)
        self.forget = FORGET

    def linger(self, seconds: float, longest: float = 0.0) -> None:
        """Let tasks wait so long for the next step, or up to `longest` if steps come at such intervals; 0: every step
        is a job of its own.
        """
        if self._resident is not None:
            self._resident.close()
        self._resident = LongLivedTask(self._spark, seconds, longest) if seconds > 0 else None

    # steps

    def build(self, command: Command, inputs: Inputs, wanted: Set[int]) -> list[Added]:
        with put_off(), asking(self._spark):
            before = len(self._commands)
            self._commands.append(command)
            self._forget_broadcast()
            try:
                return self._build(command, inputs, wanted)
            except BaseException:
                self._commands.go_back(before)
                self._forget_broadcast()
                raise

    def _build(self, command: Command, inputs: Inputs, wanted: Set[int]) -> list[Added]:
        commands = (BUILT + self._commands.encoded[-1],)
        if isinstance(command, Keep):
            self._drop_lists(command, commands)
            return []
        dataflow = self._driver_replica.dataflow
        sinces = {o.number: dataflow.time for o in dataflow.new() if o.scope.is_root}
        noted: dict[str, Any] = {
            "commands": commands,
            "sinces": sinces,
            "fingerprints": (self._driver_replica.fingerprint(),),
        }
        if not inputs and (isinstance(command, MakeTable) or not sinces):
            self._store.commit(self._store.manifest.time, **noted)  # nothing to compute: workers will follow
            self.passed()
            return []
        return self._run_step(ShardStep(inputs, 0), wanted, noted)

    def _drop_lists(self, command: Keep, commands: tuple[bytes, ...]) -> None:
        """Commit that the batches of operators which no root needs are no longer wanted."""
        dataflow = self._driver_replica.dataflow
        roots = (o for o in (dataflow.numbered[n] for n in command.roots) if o is not None)
        numbers = {o.number for o in dataflow.needed(roots)}
        gone: dict[Place, list[Ref]] = {p: [] for p in self._store.manifest.lists if p[0] not in numbers}
        self._store.commit(self._store.manifest.time, replaces=gone, commands=commands)
        self.passed()

    def passed(self) -> None:
        """A version was committed that changes no shard's contents."""
        version = self._store.manifest.version
        self._remember(version, self._lineage.get(version - 1, ""))

    def _remember(self, version: int, attempt: str) -> None:
        self._lineage[version] = attempt
        for old in [v for v in self._lineage if v < version - 64]:
            del self._lineage[old]

    @property
    def encoded(self) -> list[bytes]:
        """The commands, as they are written."""
        return self._commands.encoded

    def follow(self, command: Command) -> None:
        """A command whose state is in the store already."""
        self._commands.append(command)

    def knows(self, words: int) -> None:
        """So many entries of the dictionary are in the store."""
        self._words = words

    def keep(self, entry: bytes) -> None:
        """Make an entry of the catalog durable."""
        with put_off():
            self._store.commit(self._driver_replica.dataflow.time, commands=(DECLARED + entry,))
            self.passed()

    def noted(self) -> None:
        """Entries are committed whole."""

    def step(self, step: ShardStep, wanted: Set[int]) -> list[Added]:
        with put_off(), asking(self._spark):
            return self._run_step(step, wanted, {"marks": step.offsets} if step.offsets else {})

    def suppose(self, step: ShardStep, wanted: Set[int]) -> list[Added]:
        with put_off(), asking(self._spark):
            _, answers, _ = self._ask(step, tuple(sorted(wanted)))
            for answer in answers:
                self._learn(answer)
            return [answer.added(shard) for answer in answers for shard in answer.packed]

    def _run_step(self, step: ShardStep, wanted: Set[int], noted: dict[str, Any]) -> list[Added]:
        """Run a step and commit it, with what else is noted."""
        job, answers, words = self._ask(step)
        added = self._commit(job, answers, wanted, words if job.stored else self._words, noted)
        for rows in step.remote:
            if isinstance(rows, EncodedRows):
                rows.missing = sum(answer.missing.get(rows.table, 0) for answer in answers)
        return added

    def _ask(self, step: ShardStep, suppose: tuple[int, ...] | None = None) -> tuple[Job, list[Answer], int]:
        """Have tasks run a step: the job, their answers, and the entries of the dictionary when it began."""
        manifest, inputs = self._store.manifest, step.inputs
        coded = tuple(rows.at(manifest.time + 1) for rows in step.remote if isinstance(rows, EncodedRows))
        attempt = secrets.token_hex(6)
        files: dict[int, str] = {}
        small: dict[int, list[tuple[int, bytes]]] = {}
        if sum(rows.nbytes for parts in inputs.values() for _, rows in parts) >= FILE_BYTES:
            files = {s: f"{manifest.version + 1:020d}-{s}-{attempt}.rows" for s in inputs}
        else:
            small = {s: [(o, rows.tobytes()) for o, rows in parts] for s, parts in inputs.items()}
        fresh, words = self._interner.export(self._words), len(self._interner)
        stored = self._saved(fresh) if fresh.nbytes >= FILE_BYTES and suppose is None else ()
        job = Job(
            root=self._store.files.root,
            version=manifest.version,
            time=manifest.time,
            lineage=dict(self._lineage),
            attempt=attempt,
            shards=self.shards,
            epochs=step.epochs,
            commands=len(self._commands),
            fingerprint=self._driver_replica.fingerprint(),
            merge_effort=self._driver_replica.dataflow.merge_effort,
            inputs=small,
            input_files=files,
            dictionary=b"" if stored else table_bytes(fresh),
            stored=stored,
            coded=coded,
            forget=self.forget,
            forgotten=version_of(manifest),
            suppose=suppose,
        )
        try:
            for shard, name in files.items():
                write_rows(self._store.files, name, inputs[shard])
            return job, self._submit(job, self._tasks_for(inputs, job)), words
        finally:
            for name in files.values():
                self._store.files.delete(f"{BATCHES}/{name}")

    def _tasks_for(self, inputs: Inputs, job: Job) -> int:
        """How many tasks a step deserves."""
        words = sum(len(rows) for parts in inputs.values() for _, rows in parts)
        words += sum(rows.words for rows in job.coded)
        if job.epochs == 0:
            words = max(words, sum(r.size // 8 for refs in self._store.manifest.lists.values() for r in refs))
        return min(self.shards, stage_slots(self._spark)) if words > 4 * self.alone_rows or self._apart else 1

    def _submit(self, job: Job, tasks: int) -> list[Answer]:
        """Run a job; by several tasks if one may not map all shards."""
        try:
            return self._answers(job, tasks)
        except NoAddressSpace as error:
            most = min(self.shards, stage_slots(self._spark))
            if tasks >= most:
                raise
            told = f"{error.message}; steps are run by {most} tasks from now on, which takes longer ({error.hint})"
            warnings.warn(told, stacklevel=2)
            self._apart = True
            return self._answers(job, most)

    def _answers(self, job: Job, tasks: int) -> list[Answer]:
        data = pickle.dumps(job, protocol=5)
        left = WORKER_TRIES
        while True:
            left -= 1
            try:
                found: Sequence[Buffer] = self._alone(data) if tasks == 1 else self._together(data, tasks)
                break
            except EverviewError:
                raise
            except Exception as error:
                if not left or not self._lost_worker(error):
                    raise self._gave_up(error) from error
        answers = [Answer.read(checked(data)) for data in found]
        failures = [e for e in (a.error() for a in answers) if e is not None]
        if failures:
            known = sorted(failures, key=lambda e: (not isinstance(e, AbsentRows), isinstance(e, PeerFailed)))
            raise known[0]
        return answers

    def _lost_worker(self, error: Exception) -> bool:
        """Whether to run a step again because a Python process of Spark's died. In local mode Spark itself tries no
        task twice.
        """
        return "Python worker exited unexpectedly" in str(error) and str(self._spark.master).startswith("local[")

    def _gave_up(self, error: Exception) -> EverviewError:
        return lost(self._spark) or EverviewError(
            "E_JOB",
            f"Spark gave up a step's job: {first_line(error)}",
            "nothing of the step was committed, and the session goes on; Spark's log says more",
        )

    def _alone(self, data: bytes) -> Sequence[Buffer]:
        if self._resident is not None:
            try:
                return [self._resident.run(data, self._commands.encoded)]
            except Unreachable:
                self._resident = None
        return self._collect(self._one.mapPartitions(guarded("alone", data, self._broadcast())))

    def _collect(self, task: Any) -> list[bytes]:
        job = Running(self._spark, task.collect)
        try:
            return job.result()
        except BaseException as error:
            if not isinstance(error, Exception) or isinstance(error, StoppedError):
                job.cancel()
            raise

    def _broadcast(self) -> Any:
        if self._sent is None:
            self._sent = self._spark.broadcast(list(self._commands.encoded))
        return self._sent

    def _together(self, data: bytes, tasks: int) -> list[bytes]:
        """Run a job as a barrier stage. Spark does not try such a stage again if its result is what was asked for
        (outputs might have been committed twice); ours may be.
        """
        if self._resident is not None:
            self._resident.leave()
        all_leave(self._spark)
        shipped, commands = self._spark.broadcast(data), self._broadcast()
        left = BARRIER_TRIES
        try:
            while True:
                left -= 1
                stage = self._spark.parallelize(range(tasks), tasks).barrier()
                task = guarded("together", shipped, commands, new_secret())
                try:
                    return self._collect(stage.mapPartitions(task))
                except Exception as error:
                    if (other := other_in(error)) is not None:
                        raise other from None
                    if not left or "failed barrier" not in str(error):
                        raise
        finally:
            with unless_lost(self._spark):
                shipped.destroy()

    def _forget_broadcast(self) -> None:
        sent, self._sent = self._sent, None
        if sent is not None:
            with unless_lost(self._spark):
                sent.destroy()

    # versions

    def _commit(
        self, job: Job, answers: list[Answer], wanted: Set[int], saved: int, noted: dict[str, Any]
    ) -> list[Added]:
        """Make a version of what the tasks made; `saved` entries of the dictionary are in the store."""
        adds: list[tuple[int, int, Ref]] = []
        result: list[Added] = []
        for answer in answers:
            self._learn(answer)
            adds += answer.files
            for shard in answer.packed:
                added = answer.added(shard)
                for operator, words in packed_entries(added.packed):
                    image = image_of(words)
                    data = words.tobytes()
                    if len(data) <= INLINE_BYTES:
                        ref = Ref(image.rows, len(data), inline=data)
                    else:
                        ref = self._store.put(image, f"{job.version + 1:020d}-{shard}-{operator}-{job.attempt}")
                    adds.append((operator, shard, ref))
                result.append(added)
            result += contents_of(self._store, (f for f in answer.files if f[0] in wanted))
        dictionary = (*job.stored, *self._saved(self._interner.export(saved)))
        self._store.commit(job.time + job.epochs, adds=adds, dictionary=dictionary, **noted)
        self._words = len(self._interner)
        self._remember(self._store.manifest.version, job.attempt)
        with suppress(OSError, StoreError):  # the step is done: lists can be merged next time
            self._tidy({(operator, shard) for operator, shard, _ in adds})
        return result

    def _learn(self, answer: Answer) -> None:
        """Know the words that tasks have made."""
        learned = bytes_table(answer.dictionary)
        if learned is not None:
            self._interner.load(learned)

    def _saved(self, entries: pa.Table) -> tuple[Ref, ...]:
        """Entries of the dictionary, put into the store a piece at a time: the whole once more would take memory."""
        pieces = (
            entries.slice(start, DICTIONARY_FILE_ENTRIES) for start in range(0, len(entries), DICTIONARY_FILE_ENTRIES)
        )
        return tuple(self._store.put_dictionary(piece) for piece in pieces)

    def _tidy(self, places: set[Place]) -> None:
        """Commit merges of lists that have become long."""
        changed, texts = self._merger.tidy(places), self._merger.tidy_dictionary()
        if not changed and not texts:
            return
        lists = self._store.manifest.lists
        for place, refs in changed.items():
            self._left |= {ref.file: ref.size for ref in set(lists[place]).difference(refs) if ref.file}
        self._store.commit(self._store.manifest.time, replaces=changed, **texts)
        self.passed()
        self._tidied += 1
        grace = math.inf if self._merger.busy else COLLECT_GRACE  # its file may be there, but in no version yet
        if sum(self._left.values()) > max(self._store.size(), COLLECT_BYTES):
            self._store.checkpoint()  # the last one has what was merged since
            self._store.collect(grace=grace, left=self._left)
            self._left.clear()
        elif self._tidied >= COLLECT_EVERY:
            self._store.collect(grace=grace)
            self._tidied = 0

    def contents(self, operators: set[int]) -> Iterable[Added]:
        return all_contents_of(self._store, operators)

    def dataflows(self) -> Sequence[Dataflow]:
        return ()

    def measure(self) -> np.ndarray:
        return measure_of(self._store.manifest, len(self._driver_replica.dataflow.numbered))

    def encode_remote(self, target: RemoteTarget, rows: Any) -> EncodedRows | None:
        """Have tasks encode the rows of a DataFrame."""
        if not isinstance(rows, FrameRows):
            return None
        table = target.table
        place = Target(
            self._store.files, table._id, table._arrangement, table._key, self.shards, target.until, target.settle()
        )
        with asking(self._spark):
            return encode_rows(rows.frame, target.fitting, target.place, target.how, place)

    def close(self) -> None:
        self._merger.close()
        self.linger(0.0)
        self._forget_broadcast()
