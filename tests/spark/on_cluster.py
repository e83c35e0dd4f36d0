"""A driver for `test_clusters`: `python -m tests.spark.on_cluster MASTER DIRECTORY`.

It says what it did line by line, and ends with 0 if all views are right.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import everview as ev
from everview.expr.language import udf
from everview.spark import local_session
from tests.spark.test_session import contents, embedded, feed, program


def main(master: str, folder: Path) -> None:
    spark = local_session(master, **{"spark.executor.memory": "1g", "spark.executor.cores": "1"})
    print("executors", sorted(where(spark)), flush=True)
    try:
        for name, alone_rows in (("one", None), ("barrier", 0)):
            the_same_answers(spark, folder / name, alone_rows)
            print(f"{name}: the same answers", flush=True)
            a_killed_executor(spark, folder / f"{name}-killed", alone_rows)
            print(f"{name}: an executor was killed", flush=True)
            a_killed_worker(spark, folder / f"{name}-worker", alone_rows)
            print(f"{name}: a Python worker was killed", flush=True)
        a_killed_executor_between_steps(spark, folder / "lingering")
        print("lingering: an executor was killed", flush=True)
    finally:
        spark.stop()


def where(spark: Any) -> set[int]:
    """The executors' process numbers."""
    found: set[int] = set()
    until = time.monotonic() + 120
    while len(found) < 2 and time.monotonic() < until:  # the second may take longer to start
        found |= set(spark.sparkContext.parallelize(range(2), 2).map(lambda _: executor()).collect())
    return found


def executor() -> int:
    """In a worker: the executor's process, which started the daemon that forked this worker."""
    daemon = os.getppid()
    return int(Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1])


def the_same_answers(spark: Any, state: Path, alone_rows: int | None) -> None:
    with ev.connect(spark, state=str(state), shards=3, alone_rows=alone_rows) as db:
        feed(db, program(db), 1, 6)
        assert contents(db) == embedded((1, 6))
    with ev.connect(spark, state=str(state), shards=2, alone_rows=alone_rows) as db:
        feed(db, program(db), 2, 2)
        assert contents(db) == embedded((1, 6), (2, 2))


def a_killed_executor(spark: Any, state: Path, alone_rows: int | None) -> None:
    """One that dies in the third round of a loop, when half of the step is done."""
    killed_in_a_loop(spark, state, alone_rows, executor)


def a_killed_worker(spark: Any, state: Path, alone_rows: int | None) -> None:
    """The same for the Python process that runs the step; its executor lives on."""
    killed_in_a_loop(spark, state, alone_rows, os.getpid)


def a_killed_executor_between_steps(spark: Any, state: Path) -> None:
    """One whose task waits for the next step."""
    where = state.with_suffix(".where")

    def passes(x: int) -> int:
        where.write_text(str(executor()))
        return x

    with ev.connect(spark, state=str(state), shards=2, linger=60.0) as db:
        t = db.table("t", {"x": int})
        v = db.view("v", t.select(x=udf(passes, returns=int)(t.x)).distinct())
        for i in range(4):
            t.insert([(i,)])
            with suppress(ProcessLookupError):  # the worker of one that is dead already may have answered
                os.kill(int(where.read_text()), signal.SIGKILL)
            time.sleep(0.5 * (i % 2))  # at once, and when the driver may have noticed
        t.insert([(4,)])
        assert sorted(v.rows()) == [(i,) for i in range(5)]


def killed_in_a_loop(spark: Any, state: Path, alone_rows: int | None, victim: Callable[[], int]) -> None:
    fuse = state.with_suffix(".fuse")
    fuse.touch()

    def passes(node: int) -> int:
        if node == 3 and fuse.exists():
            fuse.unlink()
            os.kill(victim(), signal.SIGKILL)
            time.sleep(60)  # until Spark's daemon ends us
        return node

    def reach(db: Any, function: Any) -> tuple[Any, Any]:
        edge = db.table("edge", {"src": int, "dst": int})
        root = db.table("root", {"node": int})

        def step(v: Any) -> Any:
            hop = v.join(edge, v.node == edge.src).select(node=function(edge.dst))
            return hop.union_all(root).distinct()

        return edge, db.view("reach", root.iterate(step))

    with ev.connect(spark, state=str(state), shards=3, alone_rows=alone_rows) as db:
        edge, view = reach(db, udf(passes, returns=int))
        db["root"].insert([(0,)])
        edge.insert([(10, 11)])
        assert fuse.exists()
        edge.insert([(i, i + 1) for i in range(6)])  # 0 → 1 → 2 → 3: here it dies
        assert not fuse.exists()
        assert sorted(view.rows()) == [(i,) for i in range(7)]
        edge.delete([(1, 2)])
        assert sorted(view.rows()) == [(0,), (1,)]
        edge.insert([(1, 4)])
        assert sorted(view.rows()) == [(0,), (1,), (4,), (5,), (6,)]
    with ev.connect(spark, state=str(state)) as db:
        assert sorted(db["reach"].rows()) == [(0,), (1,), (4,), (5,), (6,)]
        assert len(db["edge"].rows()) == 7


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
