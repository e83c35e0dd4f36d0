"""Shards on Spark: tasks run every step, and the store commits it as one version.

A small step runs in one task on all shards, because moving rows between processes would cost more than the work. A
large step, or one on large state, runs in a gang of as many tasks as there are slots, which exchange rows directly
(`placement`, `submission`). Tasks are pure functions (see `job`) and can be retried freely; only the driver commits.

The batches of a version are stored inside its commit if they are small, otherwise as files; `compaction` keeps the
lists of batches short. The input of a small step travels inside the job. That of a large step is written to one file
per shard for the duration of the step, because sending many rows through the JVM would cost more than the step.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterable, Sequence, Set
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from everview.codes.interner import Interner
from everview.codes.runs import sorted_by_id
from everview.dataflow.commands import Commands
from everview.dataflow.dataflow import Dataflow
from everview.dataflow.replica import Added, Command, Keep, MakeTable, Replica
from everview.dataflow.saved_state import image_of, packed_entries
from everview.dataflow.superstep import Inputs
from everview.errors import InputError
from everview.language.relation import relation_of
from everview.plan.serialisation import Functions
from everview.recovery.stored_shards import all_contents_of, contents_of, measure_of
from everview.runtime.base import RemoteTarget
from everview.runtime.sharded import Commit, ShardStep
from everview.spark.driver.compaction import INLINE_BYTES, Merger
from everview.spark.driver.idle_tasks import LINGER, LONGEST
from everview.spark.driver.interrupts import put_off
from everview.spark.driver.interrupts import settle as settle_interrupts
from everview.spark.driver.job import Answer, Job, bytes_table, table_bytes, write_rows
from everview.spark.driver.liveness import asking
from everview.spark.driver.placement import Placing
from everview.spark.driver.shard_count import LiveResharding
from everview.spark.driver.submission import Submitter
from everview.spark.rows.encode import Target, encode_rows
from everview.spark.rows.encoded import EncodedRows
from everview.spark.rows.frames import FrameRows
from everview.store.dictionary_gc import version_of
from everview.store.manifest import BUILT, DECLARED, Place, Ref
from everview.store.reshard import RowPartitioning
from everview.store.store import BATCHES, Store
from everview.store.stored_dictionary import FILE_ENTRIES, RESIDENT_ENTRIES, StoredDictionary
from everview.uninterruptible import Uninterruptible

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORGET = 30.0
"""Seconds for which a worker keeps shards that another has taken over, in case they return."""

FILE_BYTES = 1 << 17
"""Size from which the input of a step travels as files."""

SIZE_EVERY = 16
"""Versions after which the size of the state is counted again."""

COLLECT_EVERY = 8
"""Merges after which unused files are deleted."""

COLLECT_BYTES = 1 << 22
"""Size of leftovers of merges from which they are deleted earlier, if they exceed the state."""

COLLECT_GRACE = 60.0
"""Minimum age, in seconds, of deleted files: younger ones may belong to a running task."""


class SparkCluster:
    """Shards whose state is in a store and whose steps are Spark jobs."""

    in_process = False

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
        self._built = 0  # commands that are committed
        self._uninterruptible = Uninterruptible()
        self._submitter = Submitter(self._spark, store.files.root, self.shards, self._commands.encoded)
        self._lineage: dict[int, str] = {store.manifest.version: ""}
        self._words = len(interner)
        self._stored_dictionary = StoredDictionary(store.get_dictionary)
        self._merger = Merger(self._spark, store, driver_replica)
        self._tidied = 0
        self._left: dict[str, int] = {}  # files, and their sizes, that merges have left behind since some were deleted
        self._size, self._sized = 0, -SIZE_EVERY  # the state's bytes, and the version at which they were counted
        self.linger(LINGER if self._spark.defaultParallelism > 1 else 0.0, LONGEST)
        self.forget = FORGET

    def linger(self, seconds: float, longest: float = 0.0) -> None:
        """Keep tasks alive for this many seconds to wait for the next step, or up to `longest` if steps arrive at such
        intervals; 0 ends them with every step.
        """
        self._submitter.linger(seconds, longest)

    @property
    def placing(self) -> Placing:
        """The choice between one task and several."""
        return self._submitter.placing

    def where(self) -> str:
        return self._submitter.where()

    # steps

    def build(self, command: Command, inputs: Inputs, wanted: Set[int]) -> Commit:
        with put_off(), asking(self._spark):
            self._commands.append(command)
            self._submitter.forget_commands()
            try:
                return self._build(command, inputs, wanted)
            except BaseException:
                self._go_back()
                raise

    def undo(self) -> None:
        self._uninterruptible.wait()
        self._go_back()
        settle_interrupts()

    def _go_back(self) -> None:
        if len(self._commands) != self._built:
            self._commands.go_back(self._built)
            self._submitter.forget_commands()

    def _build(self, command: Command, inputs: Inputs, wanted: Set[int]) -> Commit:
        commands = (BUILT + self._commands.encoded[-1],)
        dataflow = self._driver_replica.dataflow
        if isinstance(command, Keep):
            roots = (o for o in (dataflow.numbered[n] for n in command.roots) if o is not None)
            numbers = {o.number for o in dataflow.needed(roots)}
            return lambda: self._drop_lists(numbers, commands)
        sinces = {o.number: dataflow.time for o in dataflow.new() if o.scope.is_root}
        noted: dict[str, Any] = {
            "commands": commands,
            "sinces": sinces,
            "fingerprints": self._driver_replica.described(),
        }
        if not inputs and (isinstance(command, MakeTable) or not sinces):
            return lambda: self._note(**noted)  # nothing to compute: workers will follow
        return self._run_step(ShardStep(inputs, 0), wanted, noted)

    def _drop_lists(self, kept: set[int], commands: tuple[bytes, ...]) -> list[Added]:
        """Commit that the batches of operators without any root are no longer needed."""
        gone: dict[Place, list[Ref]] = {p: [] for p in self._store.manifest.lists if p[0] not in kept}
        return self._note(replaces=gone, commands=commands)

    def _note(self, **what: Any) -> list[Added]:
        """Commit something that changes no shard."""
        self._store.commit(self._store.manifest.time, **what)
        self.passed()
        self._built = len(self._commands)
        return []

    def passed(self) -> None:
        """Record a committed version that changes no shard."""
        version = self._store.manifest.version
        self._remember(version, self._lineage.get(version - 1, ""))

    def _remember(self, version: int, attempt: str) -> None:
        self._lineage[version] = attempt
        for old in [v for v in self._lineage if v < version - 64]:
            del self._lineage[old]

    @property
    def encoded(self) -> list[bytes]:
        """The commands in serialised form."""
        return self._commands.encoded

    def follow(self, command: Command) -> None:
        """Apply a command whose state is already in the store."""
        self._commands.append(command)
        self._built = len(self._commands)

    def knows(self, words: int) -> None:
        """Set how many dictionary entries are in the store."""
        self._words = words

    def keep(self, entries: Sequence[bytes]) -> None:
        """Make catalog entries durable."""
        with put_off():
            commands = tuple(DECLARED + entry for entry in entries)
            self._store.commit(self._driver_replica.dataflow.time, commands=commands)
            self.passed()

    def noted(self) -> None:
        """Commit catalog entries in one version."""

    def step(self, step: ShardStep, wanted: Set[int]) -> Commit:
        with put_off(), asking(self._spark):
            return self._run_step(step, wanted, {"marks": step.offsets} if step.offsets else {})

    def suppose(self, step: ShardStep, wanted: Set[int]) -> list[Added]:
        with put_off(), asking(self._spark):
            _, answers, _ = self._ask(step, tuple(sorted(wanted)))
            for answer in answers:
                self._learn(answer)
            return [answer.added(shard) for answer in answers for shard in answer.packed]

    def _run_step(self, step: ShardStep, wanted: Set[int], noted: dict[str, Any]) -> Commit:
        """Run a step and commit it together with pending notes."""
        job, answers, words = self._ask(step)

        def commit() -> list[Added]:
            added = self._commit(job, answers, wanted, words if job.stored else self._words, noted)
            for rows in step.remote:
                if isinstance(rows, EncodedRows):
                    rows.missing = sum(answer.missing.get(rows.table, 0) for answer in answers)
            return added

        return commit

    def _ask(self, step: ShardStep, suppose: tuple[int, ...] | None = None) -> tuple[Job, list[Answer], int]:
        """Have tasks run a step. Returns the job, the answers, and the number of dictionary entries when it began."""
        manifest, inputs = self._store.manifest, step.inputs
        encoded = [rows for rows in step.remote if isinstance(rows, EncodedRows)]
        coded = tuple(rows.at(manifest.time + 1) for rows in encoded)
        if any(rows.shards != self.shards for rows in encoded):
            raise InputError("E_SHARDS", "rows were coded before the number of shards changed", "give them again")
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
            done, answers = self._submitter.run(job, self._words_for(inputs, job), self._state())
            return done, answers, words
        finally:
            for name in files.values():
                self._store.files.delete(f"{BATCHES}/{name}")

    def _words_for(self, inputs: Inputs, job: Job) -> int:
        """The size of a step, in words."""
        words = sum(len(rows) for parts in inputs.values() for _, rows in parts)
        words += sum(int(rows.words) for rows in job.coded)
        return max(words, self._state() // 8) if job.epochs == 0 else words

    def _state(self) -> int:
        """Bytes of state, now or a few versions ago."""
        version = self._store.manifest.version
        if version - self._sized >= SIZE_EVERY:
            self._size, self._sized = self._store.size(), version
        return self._size

    # versions

    def _commit(
        self, job: Job, answers: list[Answer], wanted: Set[int], saved: int, noted: dict[str, Any]
    ) -> list[Added]:
        """Commit the answers of a step as a version; `saved` dictionary entries are already in the store."""
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
        self._built = len(self._commands)
        self._remember(self._store.manifest.version, job.attempt)
        with suppress(Exception):  # the step is done: lists can be merged next time
            self._tidy({(operator, shard) for operator, shard, _ in adds})
            self._rest()
        return result

    def _learn(self, answer: Answer) -> None:
        """Add dictionary entries that tasks created."""
        learned = bytes_table(answer.dictionary)
        if learned is not None:
            self._interner.load(learned)

    def _rest(self) -> None:
        """Release dictionary entries that the store has, if there are many; from then on they are looked up there."""
        if self._interner.resident >= RESIDENT_ENTRIES and self._words == len(self._interner):
            self._interner.rest_on(self._stored_dictionary.runs(self._store.manifest.dictionary), self._words)

    def save_entries(self) -> None:
        """Commit dictionary entries that arrived without a step, if there are many, instead of holding them until the
        next step.
        """
        if self._interner.resident < RESIDENT_ENTRIES:
            return

        def work() -> None:
            pieces = self._saved(self._interner.export(self._words))
            self._store.commit(self._store.manifest.time, dictionary=pieces)
            self.passed()
            self._words = len(self._interner)
            self._rest()

        with put_off():
            self._uninterruptible.run(work)

    def _saved(self, entries: pa.Table) -> tuple[Ref, ...]:
        """Write dictionary entries to the store in chunks: a second copy of all of them would take too much memory."""
        pieces = (entries.slice(start, FILE_ENTRIES) for start in range(0, len(entries), FILE_ENTRIES))
        return tuple(self._store.put_dictionary(sorted_by_id(piece)) for piece in pieces)

    def _tidy(self, places: set[Place]) -> None:
        """Commit merges of long lists of batches."""
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
            self._store.files,
            relation_of(table).id,
            relation_of(table).arrangement,
            relation_of(table).key,
            self.shards,
            target.until,
            target.settle(),
            self.save_entries,
        )
        with asking(self._spark):
            self._submitter.give_slots()  # those who encode need some
            frame = rows.frame if target.how == "append" else rows.in_order()
            return encode_rows(frame, target.fitting, target.place, target.how, place)

    def resharding(self, shards: int) -> LiveResharding:
        """The procedure for changing the number of shards."""
        return LiveResharding(self, self._store, shards)

    def partitionings(self) -> dict[int, RowPartitioning]:
        """The partitioning of each operator."""
        return {o.number: o.partitioning for o in self._driver_replica.dataflow.numbered if o is not None}

    def give_slots(self) -> None:
        """Release slots that another job needs."""
        self._submitter.give_slots()

    def reshard(self, commit: Callable[[], None]) -> None:
        """Switch to another number of shards, between two steps; `commit` switches the store."""

        def work() -> None:
            commit()
            self.shards = self._store.manifest.shards
            self.passed()
            self._submitter.reshard(self.shards)

        with put_off(), asking(self._spark):
            self._uninterruptible.run(work)

    def close(self) -> None:
        self._submitter.leave()  # a merge may be waiting for a slot
        self._merger.close()
        self._submitter.close()
