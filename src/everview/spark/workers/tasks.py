"""Entry points of Spark tasks: a job on all shards in one task, or on some of them in each member of a gang or each
task of a barrier stage. `everview.spark.driver.versions.guarded` wraps them as Spark tasks.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from typing import Any

from everview.dataflow.superstep import NoOtherShards
from everview.spark.driver.job import Job
from everview.spark.gang.member import Member
from everview.spark.transport.channel import call
from everview.spark.transport.exchange import meet
from everview.spark.transport.handshake import NotAuthenticated
from everview.spark.transport.message import Buffer
from everview.spark.transport.step_line import REACH_SECONDS, UNREACHABLE, reach, steps
from everview.spark.workers.gang_member import GANG, SocketLines, StepsOnShards
from everview.spark.workers.state import worker_shards
from everview.store.local_cache import with_copies
from everview.store.locations import open_files
from everview.store.manifest import Ref
from everview.store.reshard import Request


def alone(partition: Iterable[Any], job: bytes, commands: Any) -> Iterator[bytes]:
    """Run all shards in one task."""
    drain(partition)
    yield b"".join(_alone(job, commands.value))


def resident(partition: Iterable[Any], address: tuple[str, int], secret: bytes) -> Iterator[bytes]:
    """Run all shards in one task, step after step (`everview.spark.driver.long_lived_task`)."""
    drain(partition)
    try:
        line = reach(address, secret)
    except (OSError, NotAuthenticated):
        yield UNREACHABLE
        return
    with closing(line):
        for job, commands in steps(line):
            line.send(_alone(job, commands))


def _alone(job: Buffer, commands: Sequence[bytes]) -> list[Buffer]:
    work: Job = pickle.loads(job)  # our own driver's: it came by Spark's channel, or by a line that proved to be its
    return worker_shards(work.root).run(work, commands, range(work.shards), NoOtherShards()).message()


def gang_member(partition: Iterable[Any], address: tuple[str, int], secret: bytes, root: str) -> Iterator[bytes]:
    """Run some shards as one of several tasks, step after step (`everview.spark.driver.gang`)."""
    numbers = list(partition)  # all of it: see `drain`
    try:
        line = call(address, secret, GANG, numbers[0], REACH_SECONDS)
    except (OSError, NotAuthenticated):
        yield UNREACHABLE
        return
    lines = SocketLines(secret, line.socket.getsockname()[0])
    with closing(line), closing(lines):
        Member(line, lines, StepsOnShards(worker_shards(root))).serve()


def together(partition: Iterable[Any], job: Any, commands: Any, secret: bytes) -> Iterator[bytes]:
    """Run some shards as one task of a barrier stage."""
    from pyspark import BarrierTaskContext

    drain(partition)
    context = BarrierTaskContext.get()
    number = context.partitionId()
    work: Job = pickle.loads(job.value)
    host = worker_shards(work.root)
    mesh = meet(number, secret, context.allGather, _own_address(context, number), work.shards, host.holds(work))
    try:
        own = [shard for shard, task in enumerate(mesh.owners) if task == number]
        answer = host.run(work, commands.value, own, mesh)
    finally:
        mesh.close()  # if this task died, the others notice, and Spark runs all of them again
    yield b"".join(answer.message())


def split_batches(root: str, partition: Iterable[tuple[int, Request]]) -> Iterator[tuple[int, list[tuple[int, Ref]]]]:
    """Split batches for another number of shards."""
    files = with_copies(open_files(root))
    for number, request in [*partition]:  # all of it: see `drain`
        yield number, request.run(files)


def drain(partition: Iterable[Any]) -> None:
    """Read the partition to its end: Spark does not reuse a worker with unread input, and its shards would be lost."""
    for _ in partition:
        pass


def _own_address(context: Any, number: int) -> str:
    """The address under which Spark knows this task's executor, which other tasks can reach."""
    address: str = context.getTaskInfos()[number].address.rsplit(":", 1)[0]
    return address
