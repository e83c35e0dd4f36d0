"""A world in which a gang runs: processes are threads, connections are lists, and a seed decides what happens next.

The protocol is the real one (`everview.spark.gang`, `everview.spark.transport.exchange`). Here is what it stands on.
One thread runs at a time, until it has to wait, and then a draw chooses what happens: a message arrives (those of one
connection in order, those of several in any), a process goes on, dies, fails, or is started again, a connection breaks,
the driver loses its patience. So a run is a function of its seed, and a run in which nobody can go on is found at once.

The work is a toy with the real one's habits: shards are numbers that depend on all that ever came in and on what the
other shards sent in each round; a process keeps them at the version and attempt that it made, and takes them from the
store otherwise. Each run adds a number of its own, as users' functions may that do not always say the same. So a step
that mixes versions or attempts, that some shards have run twice, or whose rounds do not agree, leaves another number
than the model.
"""

from __future__ import annotations

import pickle
import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from everview.errors import InternalError
from everview.spark.gang.coordinator import Coordinator, Outcome, Phase
from everview.spark.gang.member import Member
from everview.spark.gang.messages import AGAIN, DONE, FAILED, Order, Roster, read, written
from everview.spark.transport.exchange import Line, ShardExchange
from everview.spark.transport.failures import PeerFailed, PeerLost

PRIME = 2_147_483_629


class Killed(BaseException):
    """The process is gone."""


class Stuck(AssertionError):
    """Nobody can go on."""


class Process(threading.Thread):
    """A process, as a thread that runs when it is told to, until it has to wait."""

    def __init__(self, world: World, task: int, memory: Memory) -> None:
        super().__init__(daemon=True)
        self.world, self.task, self.memory = world, task, memory
        self.ready: Callable[[], bool] = lambda: True
        self.killed = self.ended = False
        self.lines: list[End] = []
        self.ports: list[Port] = []
        self.member = -1
        self._go = threading.Semaphore(0)
        self.start()

    def run(self) -> None:
        self._go.acquire()
        try:
            self._work()
        except Killed:
            pass
        except OSError:  # what it fails with passes: its task is started again
            self.killed = True
        except BaseException as error:
            self.world.broken = error
        finally:
            for line in self.lines:
                line.vanish(self.world.draw if self.killed else None)
            for port in self.ports:
                port.closed = True
            self.ended = True
            self.world.back.release()

    def _work(self) -> None:
        if self.killed:
            raise Killed
        up, down = self.world.connection(self)
        self.world.calls.append((self, down))
        Member(up, Lines(self), Toy(self)).serve()

    def wait(self, ready: Callable[[], bool]) -> None:
        """In this thread: let others run until something is so."""
        self.ready = ready
        self.world.back.release()
        self._go.acquire()
        if self.killed:
            raise Killed

    def resume(self) -> None:
        """In the world's thread: let it run until it waits again."""
        self._go.release()
        self.world.back.acquire()


@dataclass
class Memory:
    """What a Python worker keeps between tasks: shards at versions that attempts made."""

    held: dict[int, tuple[int, str, int]] = field(default_factory=dict)


class End:
    """One end of a connection."""

    def __init__(self, owner: Process | None) -> None:
        self.owner = owner
        self.other: End = self
        self.coming: list[bytes | None] = []  # on their way to this end; None: hung up
        self.there: list[bytes | None] = []
        self.closed = False
        if owner is not None:
            owner.lines.append(self)

    def send(self, pieces: Sequence[Any]) -> None:
        if self.owner is not None and self.owner.world.draw.random() < 0.2:
            self.owner.wait(lambda: True)  # it may die between two messages
        if self.closed or None in self.there:
            raise BrokenPipeError
        if not self.other.closed:
            self.other.coming.append(b"".join(map(bytes, pieces)))

    def receive(self) -> bytes:
        if self.owner is not None and not self.speaks():
            self.owner.wait(self.speaks)
        found = self.there[0] if not self.closed else None
        if found is None:  # whoever is hung up on stays so
            raise InternalError("E_PEER", "hung up")
        return self.there.pop(0) or b""

    def speaks(self) -> bool:
        return bool(self.there) or self.closed

    def close(self) -> None:
        self.vanish(None)

    def vanish(self, draw: random.Random | None) -> None:
        """Hang up; a process that dies may take with it what was on its way."""
        if not self.closed:
            self.closed = True
            if draw is not None and self.other.coming:
                del self.other.coming[draw.randrange(len(self.other.coming) + 1) :]
            self.other.coming.append(None)


@dataclass
class Port:
    """Where a process listens."""

    number: int
    open: bool = False
    closed: bool = False
    callers: dict[int, End] = field(default_factory=dict)


class Lines:
    """The world of one member."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._port: Port | None = None

    def first(self, lines: Sequence[Line]) -> Line:
        ends: list[Any] = list(lines)
        if not any(end.speaks() for end in ends):
            self._process.wait(lambda: any(end.speaks() for end in ends))
        found: Line = self._process.world.draw.choice([end for end in ends if end.speaks()])
        return found

    def speaks(self, line: Any) -> bool:
        return bool(line.speaks())

    def listen(self, generation: int) -> tuple[str, int]:
        self._close()
        world = self._process.world
        self._port = Port(len(world.ports))
        world.ports.append(self._port)
        self._process.ports.append(self._port)
        return "here", self._port.number

    def connect(self, roster: Roster, stop: Callable[[], bool]) -> dict[int, Line]:
        assert self._port is not None
        mine, world, process = self._port, self._process.world, self._process
        mine.open = True
        found: dict[int, Any] = {}
        try:
            for rank in range(roster.rank):
                theirs = world.ports[roster.at[rank][1]]
                process.wait(lambda theirs=theirs: theirs.open or theirs.closed)  # type: ignore[misc]
                if theirs.closed:
                    raise PeerLost("E_PEER", f"{rank} is not there")
                here, there = End(process), End(None)
                here.other, there.other = there, here
                theirs.callers[roster.rank] = there
                found[rank] = here
            others = len(roster.at) - 1 - roster.rank
            process.wait(lambda: len(mine.callers) == others or stop())
            if len(mine.callers) < others:
                raise PeerLost("E_PEER", "somebody has not called")
            for rank, end in mine.callers.items():
                end.owner = process
                process.lines.append(end)
                found[rank] = end
            world.meshes.append(list(found.values()))
        except PeerLost:
            for end in found.values():
                end.close()
            raise
        finally:
            self._close()
        return dict(sorted(found.items()))

    def _close(self) -> None:
        if self._port is not None:
            self._port.closed = True
            for end in self._port.callers.values():
                if end.owner is None:
                    end.close()  # it called, and nobody answered
            self._port = None


class NoWords:
    """A dictionary in which nothing is written."""

    def __len__(self) -> int:
        return 0


@dataclass(frozen=True)
class Job:
    """A toy step."""

    version: int
    lineage: dict[int, str]
    attempt: str
    inputs: tuple[int, ...]
    rounds: tuple[int, ...]
    """how many rounds each shard has something to say in"""
    fails: int = -1
    """the shard that refuses the step, if one does"""


class Toy:
    """The work of one member."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def held(self) -> tuple[tuple[int, int, str], ...]:
        return tuple((shard, version, attempt) for shard, (version, attempt, _) in self._process.memory.held.items())

    def run(
        self, order: Order, parts: Sequence[Any], shards: Sequence[int], exchange: ShardExchange
    ) -> tuple[str, Sequence[Any]]:
        job: Job = pickle.loads(parts[0])
        held, world = self._process.memory.held, self._process.world
        values = {shard: self._bring(job, shard) for shard in shards}
        salts = {shard: world.draw.randrange(1000) for shard in shards}
        exchange.begin(NoWords())  # type: ignore[arg-type]
        try:
            if job.fails in shards and world.draw.random() < 0.5:
                raise ValueError("refused")
            if world.faults > 0 and world.draw.random() < 0.02:
                world.faults -= 1
                raise OSError("a full disk, for a while")
            values = self._rounds(job, {s: v + salts[s] for s, v in values.items()}, exchange)
            if job.fails in shards:
                raise ValueError("refused")
        except BaseException as error:
            for shard in shards:
                held.pop(shard, None)
            exchange.fail(error)
            if isinstance(error, PeerFailed):
                return AGAIN, [b""]
            if isinstance(error, ValueError):
                return FAILED, [b"refused"]
            raise
        for gone in set(held).difference(shards):
            del held[gone]
        held.update({shard: (job.version + 1, job.attempt, value) for shard, value in values.items()})
        return DONE, [pickle.dumps((values, salts))]

    def _bring(self, job: Job, shard: int) -> int:
        """A shard at the job's version: the one in memory, if it is what was committed."""
        version, attempt, value = self._process.memory.held.get(shard, (-1, "", 0))
        store = self._process.world.store
        if version == job.version and job.lineage.get(version) == attempt:
            assert value == store[job.version][shard], "memory is not what was committed"
            return value
        return store[job.version][shard]

    def _rounds(self, job: Job, values: dict[int, int], exchange: ShardExchange) -> dict[int, int]:
        count, number = len(job.inputs), 0
        values = {shard: (value + job.inputs[shard]) % PRIME for shard, value in values.items()}
        while True:
            messages = [
                (to, shard, np.array([told(v, shard, to, number)]))
                for shard, v in values.items()
                for to in range(count)
            ]
            agenda = min(-job.rounds[shard] for shard in values)
            heard, latest = exchange.exchange(messages, agenda)
            for to, _, words in heard:
                values[to] = (values[to] + int(words[0])) % PRIME
            assert len(heard) == count * len(values), "a message was lost, or came twice"
            number += 1
            if number > -latest:
                return values


def told(value: int, shard: int, to: int, number: int) -> int:
    """What a shard says to another in a round."""
    return (value * 31 + shard * 7 + to * 3 + number) % PRIME


def model(values: Sequence[int], job: Job, salts: dict[int, int]) -> list[int]:
    """What a step makes of all shards, without a gang."""
    now = [(v + i + salts[s]) % PRIME for s, (v, i) in enumerate(zip(values, job.inputs, strict=True))]
    for number in range(max(job.rounds) + 1):
        said = [[told(v, s, to, number) for s, v in enumerate(now)] for to in range(len(now))]
        now = [(v + sum(heard)) % PRIME for v, heard in zip(now, said, strict=True)]
    return now


class World:
    """A driver, tasks that Spark starts, and all that goes wrong between them."""

    def __init__(self, seed: int, shards: int, tasks: int, faults: int) -> None:
        self.draw = random.Random(seed)
        self.shards, self.tasks = shards, tasks
        self.faults = faults
        self.gang = Coordinator(shards, tasks)
        self.back = threading.Semaphore(0)
        self.broken: BaseException | None = None
        self.ports: list[Port] = []
        self.meshes: list[list[Any]] = []
        self.calls: list[tuple[Process, End]] = []
        self.processes: list[Process] = []
        self.lines: dict[int, tuple[Process, End]] = {}
        self.store: list[list[int]] = [[0] * shards]
        self.lineage = {0: ""}
        self.generations: set[int] = set()
        self._numbers = 0
        for task in range(tasks):
            self._start(task)

    def _start(self, task: int) -> None:
        """Spark starts a task, perhaps in a worker that has run one before."""
        idle = [p.memory for p in self.processes if p.ended and not p.killed]
        memory = self.draw.choice(idle) if idle and self.draw.random() < 0.8 else Memory()
        busy = {id(p.memory) for p in self.processes if not p.ended}
        self.processes.append(Process(self, task, Memory() if id(memory) in busy else memory))

    def connection(self, process: Process) -> tuple[End, End]:
        """A line from a process to the driver."""
        up, down = End(process), End(None)
        up.other, down.other = down, up
        return up, down

    # the driver

    def run(self, inputs: Sequence[int], rounds: Sequence[int], fails: int = -1) -> Outcome:
        """Run a step and commit it, if it goes well."""
        version = len(self.store) - 1
        job = Job(version, dict(self.lineage), f"{version}-{self.draw.random()}", tuple(inputs), tuple(rounds), fails)
        self.gang.begin(lambda v, attempt: self.lineage.get(v) == attempt)
        while self.gang.outcome is None:
            self._send(job)
            self._something_happens()
        return self.commit(job, self.gang.outcome)

    def commit(self, job: Job, outcome: Outcome) -> Outcome:
        """Make a version of what the members say, unless the disk is full."""
        if outcome.how != DONE:
            return outcome
        values: dict[int, int] = {}
        salts: dict[int, int] = {}
        for answer in outcome.answers.values():
            mine, added = pickle.loads(answer)
            assert not set(mine) & set(values), "two members ran a shard"
            values, salts = values | mine, salts | added
        made = [values[shard] for shard in range(self.shards)]
        assert made == model(self.store[-1], job, salts), "a step is not what it should be"
        if self.faults > 0 and self.draw.random() < 0.1:
            self.faults -= 1
            return Outcome(FAILED, outcome.attempt, why="nothing could be committed")
        self.store.append(made)
        self.lineage[job.version + 1] = f"{job.attempt}.{outcome.attempt}"
        return outcome

    def _send(self, job: Job) -> None:
        for member, said in self.gang.take():
            if member not in self.lines:
                continue
            parts = []
            if isinstance(said, Order):
                own = Job(job.version, job.lineage, f"{job.attempt}.{said.attempt}", job.inputs, job.rounds, job.fails)
                parts = [pickle.dumps(own)]
            try:
                self.lines[member][1].send(written(said, parts))
            except OSError:
                self._lose(member)

    def _lose(self, member: int) -> None:
        self.lines.pop(member)[1].close()
        self.gang.lost(member)

    # what happens

    def _something_happens(self) -> None:
        choices: list[Callable[[], None]] = []
        for process in self.processes:
            if not process.ended and (process.killed or process.ready()):
                choices.append(process.resume)
        ends = [end for process in self.processes for end in process.lines] + [end for _, end in self.lines.values()]
        choices += [lambda end=end: self._arrives(end) for end in ends if end.coming]  # type: ignore[misc]
        choices += [lambda m=m: self._hears(m) for m, (_, end) in self.lines.items() if end.there]  # type: ignore[misc]
        if self.calls:
            choices.append(self._admits)
        missing = [task for task in range(self.tasks) if all(p.ended or p.task != task for p in self.processes)]
        if missing and self.draw.random() < 0.1:
            choices.append(lambda: self._start(self.draw.choice(missing)))
        if self.faults > 0 and self.draw.random() < 0.03:
            choices = [self._fault]
        impatient = self.gang.phase == Phase.GATHERING and bool(self.gang.members)
        if impatient and (not choices or self.draw.random() < 0.02):
            choices = [self.gang.waited]
        if not choices and missing:
            choices = [lambda: self._start(missing[0])]
        if not choices:
            raise Stuck(f"nobody can go on: {self.gang.phase}, {self.gang.members}")
        self.draw.choice(choices)()
        if self.broken is not None:
            raise self.broken

    def _arrives(self, end: End) -> None:
        end.there.append(end.coming.pop(0))

    def _hears(self, member: int) -> None:
        try:
            said, parts = read(self.lines[member][1].receive())
        except InternalError:
            self._lose(member)
            return
        self.gang.heard(member, said, bytes(parts[0]) if parts else b"")  # type: ignore[arg-type]

    def _admits(self) -> None:
        process, end = self.calls.pop(self.draw.randrange(len(self.calls)))
        for member in [m for m, (other, _) in self.lines.items() if other.task == process.task]:
            self._lose(member)
        self._numbers += 1
        self.lines[self._numbers] = process, end
        self.gang.joined(self._numbers)

    def _fault(self) -> None:
        self.faults -= 1
        alive = [p for p in self.processes if not p.ended]
        kind = self.draw.choice(("kill", "kill", "break", "cut", "cut", "twice"))
        if kind == "kill" and alive:
            self.draw.choice(alive).killed = True
        elif kind == "break" and self.meshes:
            for end in self.draw.sample(self.meshes[-1], min(1, len(self.meshes[-1]))):
                end.vanish(self.draw)
                end.other.vanish(self.draw)
                for each in (end, end.other):
                    each.closed = False  # both ends find out, and neither has hung up
        elif kind == "cut" and self.lines:
            self._lose(self.draw.choice(sorted(self.lines)))  # its process lives on, and so does what it holds
        elif kind == "twice":
            self._start(self.draw.randrange(self.tasks))  # one that is there already, or late

    def end(self) -> None:
        """The driver hangs up, and all members end by themselves."""
        for member in list(self.lines):
            self._lose(member)
        for _, end in self.calls:
            end.close()
        self.calls.clear()
        self.faults = 0
        for _ in range(100_000):
            left = [p for p in self.processes if not p.ended]
            if not left:
                return
            able = [p.resume for p in left if p.killed or p.ready()]
            ends = [end for p in left for end in p.lines if end.coming]
            able += [lambda end=end: self._arrives(end) for end in ends]  # type: ignore[misc]
            if self.calls:
                self.calls.pop()[1].close()
                continue
            if not able:
                raise Stuck("a member does not end")
            self.draw.choice(able)()
            if self.broken is not None:
                raise self.broken
        raise Stuck("members do not end")

    def abandon(self) -> None:
        """End all threads, whatever they wait for."""
        for process in self.processes:
            for _ in range(1000):
                if process.ended:
                    break
                process.killed = True
                process.resume()
