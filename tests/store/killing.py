"""Writers to be killed, and a nursery that makes them: `python -m tests.store.killing`.

Importing Everview takes longer than the life of a writer, so one process imports it and forks the writers. It is told
what to do by lines of JSON on its standard input and answers with the child's process number; a line with a number
makes it wait for the death of that child. A writer tells of its transactions in a file, *after* each has returned:
what is in the file was acknowledged.

Transaction n is a function of n: some edges come, and those of twenty transactions ago go. Now and then three are a
batch, or a writer makes a checkpoint, or a view that lives for a few transactions. All changes of the view `labels` go
to a sink.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
import warnings
from contextlib import nullcontext
from pathlib import Path
from types import TracebackType
from typing import Any

import everview as ev
from everview import col
from everview.recovery import directory as durable
from everview.runtime import spill
from tests.inside import inside
from tests.store import everything

Edge = tuple[int, int, str]
LIFE = 20


def edges(number: int) -> list[Edge]:
    source = random.Random(number)
    many = 300 if number % 17 == 3 else 3
    return [(source.randrange(60), source.randrange(60), f"label {source.randrange(number + 1)}") for _ in range(many)]


def changes(number: int) -> tuple[list[Edge], list[Edge]]:
    """The edges that transaction `number` brings and takes away."""
    return edges(number), edges(number - LIFE) if number >= LIFE else []


def present(count: int) -> list[Edge]:
    """The edges after `count` transactions."""
    return [e for number in range(max(0, count - LIFE), count) for e in edges(number)]


def write(where: str, out: str, log_bytes: int, sync: str, said: Path) -> None:
    """The life of a writer."""
    durable.LOG_BYTES = log_bytes
    db = ev.connect(where, sync=sync)
    declare(db, out)
    with said.open("a", buffering=1) as tell:
        tell.write("ready\n")
        while True:
            tell.write(f"{_transaction(db)}\n")


def declare(db: Any, out: str) -> None:
    edge = db.table("edge", {"src": int, "dst": int, "label": str})
    root = db.table("root", {"node": int})

    def step(found: Any) -> Any:
        return found.join(edge, found.node == edge.src).select(node=edge.dst).union_all(root).distinct()

    db.view("reach", root.iterate(step))
    labels = db.view("labels", edge.group_by("label").agg(n=ev.count(), top=col.dst.max()))
    if out:
        labels.write_to(ev.io.json(out))


def at_once(number: int) -> int:
    """How many transactions are done together when `number` are done: some are a batch, there whole or not at all."""
    return 3 if number % 13 == 6 else 1


def _transaction(db: Any) -> int:
    number = int(inside(db).runtime.offsets.get("number", 0))
    with db.batch() if at_once(number) > 1 else nullcontext():
        for each in range(number, number + at_once(number)):
            _change(db, each)
    number += at_once(number) - 1
    if number % 23 == 7 and "short" not in db:
        db.view("short", db["edge"].filter(col.src == number % 60))
    elif number % 23 == 11 and "short" in db:
        db.sql("DROP VIEW short")
    elif number % 29 == 5:
        db.checkpoint()
    return number + 1


def _change(db: Any, number: int) -> None:
    with db.transaction():
        new, gone = changes(number)
        if number == 0:
            db["root"].insert([(0,)])
        db["edge"].insert(new)
        db["edge"].delete(gone)
        inside(db).transactions.set_offset("number", str(number + 1))


class Nursery:
    """The process that makes writers; one at a time."""

    def __enter__(self) -> Nursery:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.store.killing"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": "src:."},
        )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(600)  # on a busy machine, at the lowest priority, it takes its time

    def start(self, *arguments: Any) -> int:
        """A new writer's process number; arguments are those of `write`, or "everything" and what that needs."""
        return self._ask(json.dumps([str(a) if isinstance(a, Path) else a for a in arguments]))

    def wait(self, pid: int) -> int:
        """The status with which a writer ended."""
        return self._ask(str(pid))

    def _ask(self, line: str) -> int:
        assert self._process.stdin is not None and self._process.stdout is not None
        print(line, file=self._process.stdin, flush=True)
        return int(self._process.stdout.readline())


def lines(said: Path) -> list[str]:
    """What a writer has told, whole lines only."""
    return said.read_text().split("\n")[:-1] if said.exists() else []


def wait_until_ready(said: Path, pid: int, seconds: float = 300.0) -> None:
    until = time.monotonic() + seconds
    while not lines(said):
        assert time.monotonic() < until and Path(f"/proc/{pid}/task").exists(), "it ended before it was ready"
        time.sleep(0.003)


def warm_up() -> None:
    """A few transactions of a writer that is closed again: what is compiled and imported on first use is there then."""
    with tempfile.TemporaryDirectory() as where, ev.connect(f"{where}/state") as db:
        declare(db, f"{where}/out")
        for _ in range(30):
            _transaction(db)
    with tempfile.TemporaryDirectory() as where, ev.connect(f"{where}/state") as db:
        everything.declare(db)
        model = everything.Model(0)
        for _ in range(40):
            model.act()[1](db)


def main() -> None:
    warm_up()
    for line in sys.stdin:
        asked = json.loads(line)
        if isinstance(asked, int):
            print(os.waitpid(asked, 0)[1], flush=True)
        elif pid := os.fork():
            print(pid, flush=True)
        else:
            warnings.simplefilter("error", RuntimeWarning)
            if asked[0] == "everything":
                _, where, seed, number, way, log_bytes, said = asked
                durable.LOG_BYTES, spill.SMALLEST = log_bytes, 1
                everything.live(where, seed, number, way, Path(said))
            where, out, log_bytes, sync, said = asked
            write(where, out, log_bytes, sync, Path(said))


if __name__ == "__main__":
    main()
