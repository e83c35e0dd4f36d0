"""A driver to be killed, `python -m tests.spark.killing MASTER DIRECTORY SEED ALONE`, and the model of what it does.

Transaction n is a function of seed and n: some rows more, and those of seven transactions ago are gone. So whatever a
dead driver left must be what the first N transactions make, for an N that is the last it told of, or the next. The
driver goes on from the N that it finds, tells of every transaction that was acknowledged, and ends when there is a file
`stop`.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import everview as ev

WINDOW = 7
Row = tuple[int, int, int, str]

SETTINGS = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.deploy.maxExecutorRetries": "-1",
}


def rows(seed: int, n: int) -> list[Row]:
    """The rows of transaction n, from 1 on."""
    draw = random.Random(f"{seed} {n}")
    return [
        (n, draw.randrange(6), draw.randrange(100), f"name {draw.randrange(40)}") for _ in range(draw.randrange(1, 6))
    ]


def contents(seed: int, n: int) -> dict[str, Counter[Any]]:
    """Table and views after n transactions."""
    there = [row for m in range(max(1, n - WINDOW + 1), n + 1) for row in rows(seed, m)]
    totals = Counter(
        (k, sum(1 for r in there if r[1] == k), sum(r[2] for r in there if r[1] == k)) for _, k, *_ in there
    )
    paths = {(k, x % 6) for _, k, x, _ in there}
    while more := {(a, d) for a, b in paths for c, d in paths if b == c} - paths:
        paths |= more
    return {"t": Counter(there), "totals": Counter(dict.fromkeys(totals, 1)), "paths": Counter(paths)}


def found(db: Any) -> dict[str, Counter[Any]]:
    """Table and views as they are."""
    return {name: Counter(db[name].rows()) for name in ("t", "totals", "paths")}


def applied(db: Any) -> int:
    """How many transactions there have been: each leaves rows of its number."""
    return max((n for n, *_ in db["t"].rows()), default=0)


def declare(db: Any, out: Path) -> None:
    t = db.table("t", {"n": int, "k": int, "x": int, "name": str})
    totals = db.view("totals", t.group_by("k").agg(n=ev.count(), s=t.x.sum()))
    step = t.select(a=t.k, b=t.x % 6).distinct()

    def further(v: Any) -> Any:
        return v.join(step, v.b == step.a).select(a=v.a, b=step.b).union_all(step).distinct()

    db.view("paths", step.iterate(further))
    totals.write_to(ev.io.json(out))


def written(out: Path) -> Counter[Any]:
    """The changes that the sink holds: (row, time, diff), and how often."""
    files = [path.read_text() for path in out.glob("changes-*.json")]
    changes = [json.loads(line) for text in files for line in text.splitlines()]
    return Counter(((c["k"], c["n"], c["s"]), c["_time"], c["_diff"]) for c in changes)


def main(master: str, work: Path, seed: int, alone_rows: int) -> None:
    from everview.spark import local_session

    spark = local_session(master, **SETTINGS)
    options: dict[str, Any] = {"alone_rows": 0} if alone_rows == 0 else {}
    with ev.connect(spark, state=str(work / "state"), shards=2, **options) as db:
        declare(db, work / "out")
        n = applied(db)
        assert found(db) == contents(seed, n), "what it found is not what was left"
        print("running", os.getpid(), n, flush=True)
        while not (work / "stop").exists():
            n += 1
            try:
                with db.transaction():
                    db["t"].insert(rows(seed, n))
                    if n > WINDOW:
                        db["t"].delete(rows(seed, n - WINDOW))
            except ev.EverviewError as error:
                if error.code != "E_JOB":
                    raise
                n -= 1  # Spark gave up: nothing happened, and the session goes on
                assert found(db) == contents(seed, n), "a step that was refused left something"
                print("refused", n + 1, flush=True)
                continue
            print("done", n, flush=True)
        assert found(db) == contents(seed, n)
    print("stopped", n, flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
