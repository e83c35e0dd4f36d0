"""Sessions killed with kill -9 at random moments: after each death the views equal a computation from scratch over
exactly the acknowledged transactions, or those and the one that was under way.

The writer says what it does through a pipe *after* each transaction returned, so what it said was acknowledged. Input
is a function of the transaction's number: the test knows what every prefix of it gives.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

import everview as ev
from tests.inside import inside

WRITER = """
import random, sys, warnings
import everview as ev
from everview import col
from everview.recovery import directory as durable
from tests.inside import inside
from tests.store.test_killed import changes

durable.LOG_BYTES = int(sys.argv[2])
db = ev.connect(sys.argv[1], sync=sys.argv[3])
edge = db.table("edge", {"src": int, "dst": int, "label": str})
root = db.table("root", {"node": int})

def step(found):
    return found.join(edge, found.node == edge.src).select(node=edge.dst).union_all(root).distinct()

reach = db.view("reach", root.iterate(step))
labels = db.view("labels", edge.group_by("label").agg(n=ev.count(), top=col.dst.max()))
print("ready", flush=True)
while True:
    number = int(inside(db).runtime.offsets.get("number", 0))
    with db.transaction():
        new, gone = changes(number)
        if number == 0:
            root.insert([(0,)])
        edge.insert(new)
        edge.delete(gone)
        inside(db).transactions.set_offset("number", str(number + 1))
    print(number + 1, flush=True)
"""

Edge = tuple[int, int, str]


def changes(number: int) -> tuple[list[Edge], list[Edge]]:
    """The edges that transaction `number` brings and takes away: each edge lives for 20 transactions."""
    return edges(number), edges(number - 20) if number >= 20 else []


def edges(number: int) -> list[Edge]:
    source = random.Random(number)
    many = 300 if number % 17 == 3 else 3
    return [(source.randrange(60), source.randrange(60), f"label {source.randrange(number + 1)}") for _ in range(many)]


def present(count: int) -> list[Edge]:
    """The edges after `count` transactions."""
    return [e for number in range(max(0, count - 20), count) for e in edges(number)]


def reachable(found: list[Edge]) -> set[int]:
    reached, todo = {0}, [0]
    while todo:
        node = todo.pop()
        for src, dst, _ in found:
            if src == node and dst not in reached:
                reached.add(dst)
                todo.append(dst)
    return reached


def check(where: Path | str, acknowledged: int) -> int:
    """Open what was left behind and compare it; gives the number of transactions that are there."""
    with ev.connect(where) as db:
        count = db.time
        assert count in (acknowledged, acknowledged + 1)
        assert int(inside(db).runtime.offsets.get("number", 0)) == count
        if "labels" not in db:
            assert count == 0
            return count
        now = present(count)
        assert sorted(db["edge"].rows()) == sorted(now)
        assert {n for (n,) in db["reach"].rows()} == (reachable(now) if count else set())
        tops: dict[str, int] = {}
        for _, dst, label in now:
            tops[label] = max(dst, tops.get(label, -1))
        amounts = Counter(label for *_, label in now)
        assert sorted(db["labels"].rows()) == sorted((label, n, tops[label]) for label, n in amounts.items())
        assert db.check() == []
        return count


def kill_again_and_again(where: Path | str, deaths: int, log_bytes: int, sync: str, seed: int) -> int:
    source = random.Random(seed)
    acknowledged = 0
    for _ in range(deaths):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(where), str(log_bytes), sync],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": "src:."},
        )
        assert process.stdout is not None and process.stderr is not None
        if source.random() < 0.8:  # else it may die while it is opening
            assert process.stdout.readline() == "ready\n", process.stderr.read()
            time.sleep(source.random() * 0.3)
        else:
            time.sleep(1.5 + source.random() * 2)
        process.kill()
        said = [int(line) for line in process.stdout.read().split() if line != "ready"]
        process.wait()
        acknowledged = check(where, max([acknowledged, *said]))
    return acknowledged


def test_two_deaths(tmp_path: Path) -> None:
    assert kill_again_and_again(tmp_path, 2, 30_000, "normal", 3) > 0


@pytest.mark.slow
@pytest.mark.parametrize(("log_bytes", "sync"), [(3_000, "normal"), (1_000_000, "normal"), (10_000, "full")])
def test_many_deaths(tmp_path: Path, log_bytes: int, sync: str) -> None:
    assert kill_again_and_again(tmp_path, 8, log_bytes, sync, log_bytes) > 20
