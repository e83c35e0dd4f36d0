"""State and memory on Spark: the same change on ever more rows of state, and a large load with small executors.

    python benchmarks/spark_state.py --part size [--rows 1000000,10000000]    # local[3]
    python benchmarks/spark_state.py --part move [--rows 1000000]             # no JVM: only the driver works
    python benchmarks/spark_state.py --part churn [--rows 1000000] [--epochs 400]  # no JVM
    python benchmarks/spark_state.py --part load [--rows 20000000] [--pieces 20] [--worker-memory 2g]

*size*: two tables joined, totals by group (as in spark_steps.py); after loading, epochs of 1 and of 1,000 changes,
which should cost the same whatever there is, on all sizes in turn. Wall-clock medians.

*move*: the same program, loaded by an embedded session, opened on shards, and embedded again; next to opening it with
the runtime that wrote it. CPU seconds of this process.

*churn*: a table of --rows rows in two shards and totals by group; every epoch replaces 5,000 rows. CPU seconds of this
process per epoch, rows and bytes in the directory at the end, with `history` 0 and 50; next to loading as many rows.

*load*: one table of --rows rows and totals by group, on one executor process with a JVM of 2 GB and two cores
(`local-cluster[1,2,2048]`), in --pieces transactions. The memory of every process is sampled: the executor's JVM, the
largest Python worker, all Python workers together, the driver. `--worker-memory` sets spark.executor.pyspark.memory,
beyond which Python workers get no more memory.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import everview as ev
from everview import col
from everview.session.core import core_of
from everview.spark import local_session
from tests.spark import inprocess
from tests.spark.clusters import home


def clock(what: Callable[[], Any]) -> float:
    start = time.perf_counter()
    what()
    return time.perf_counter() - start


# ------------------------------------------------------------------------------------------- state


class Sized:
    """Two tables of so many rows in a session of their own."""

    def __init__(self, spark: Any, rows: int) -> None:
        self.rows = rows
        self._random = np.random.default_rng(1)
        self.state = tempfile.mkdtemp(prefix="everview-")
        self.db = ev.connect(spark, state=self.state, shards=2)
        self._orders = o = self.db.table("orders", {"customer": int, "amount": int})
        self._customers = c = self.db.table("customers", {"id": int, "country": int})
        self.db.view("revenue", o.join(c, o.customer == c.id).group_by("country").agg(total=col.amount.sum()))

    def load(self) -> None:
        piece = 1_000_000
        for start in range(0, self.rows, piece):
            ids = np.arange(start, min(start + piece, self.rows))
            self._customers.insert({"id": ids, "country": self._random.integers(0, 200, len(ids))})
        for start in range(0, self.rows, piece):
            self.change(min(piece, self.rows - start))

    def change(self, count: int) -> None:
        """An epoch of so many changes."""
        customers, amounts = self._random.integers(0, self.rows, count), self._random.integers(0, 1000, count)
        self._orders.insert({"customer": customers, "amount": amounts})

    def close(self) -> None:
        assert len(self.db["revenue"].rows()) == 200
        self.db.close()
        shutil.rmtree(self.state)


def size(spark: Any, sizes: list[int], epochs: int) -> list[dict[str, Any]]:
    """Epochs of 1 and 1,000 changes on tables of several sizes. They take turns, so that what else the machine does
    meets all alike.
    """
    every = [Sized(spark, rows) for rows in sizes]
    found: list[dict[str, Any]] = [{"rows": each.rows, "load": clock(each.load)} for each in every]
    for changes in (1, 1000):
        took: list[list[float]] = [[] for _ in every]
        for _ in range(epochs):
            for each, times in zip(every, took, strict=True):
                times.append(clock(partial(each.change, changes)))
        for point, times in zip(found, took, strict=True):
            late = times[len(times) // 10 :]  # the first ones warm up
            point[f"epoch of {changes}"] = {"median": statistics.median(late), "worst": max(late)}
    for each in every:
        each.close()
    return found


# ------------------------------------------------------------------------------------------- moving


def move(rows: int) -> dict[str, Any]:
    """What it costs to open a directory with the other runtime."""
    random = np.random.default_rng(1)
    state = tempfile.mkdtemp(prefix="everview-")
    found: dict[str, Any] = {"rows": rows}
    with ev.connect(state) as db:
        o = db.table("orders", {"customer": int, "amount": int})
        c = db.table("customers", {"id": int, "country": int})
        db.view("revenue", o.join(c, o.customer == c.id).group_by("country").agg(total=col.amount.sum()))
        c.insert({"id": np.arange(rows), "country": random.integers(0, 200, rows)})
        o.insert({"customer": random.integers(0, rows, rows), "amount": random.integers(0, 1000, rows)})
        expected = sorted(db["revenue"].rows())
    for name, where in (
        ("embedded, as it was", state),
        ("to shards", inprocess.session()),
        ("on shards, as it was", inprocess.session()),
        ("to embedded", state),
    ):
        began = time.process_time()
        db = ev.connect(where) if where is state else ev.connect(where, state=state)
        found[name] = time.process_time() - began
        assert sorted(db["revenue"].rows()) == expected
        db.close()
    shutil.rmtree(state)
    return found


# ------------------------------------------------------------------------------------------- bounds


def churn(rows: int, epochs: int, history: int, changes: int = 5000) -> dict[str, Any]:
    """What epochs cost, and what they leave, that replace rows of a table."""
    state = Path(tempfile.mkdtemp(prefix="everview-"))

    def part(start: int, end: int) -> dict[str, np.ndarray]:
        ids = np.arange(start, end)
        return {"id": ids, "k": ids % 997, "x": ids % 1013}

    with ev.connect(inprocess.session(1), state=str(state), shards=2, history=history) as db:
        t = db.table("t", {"id": int, "k": int, "x": int})
        db.view("v", t.group_by("k").agg(s=col.x.sum()))
        t.insert(part(0, rows))
        found: dict[str, Any] = {"history": history, "epochs": epochs, "MB, loaded": megabytes(state)}
        began = time.process_time()
        for i in range(0, epochs * changes, changes):
            with db.transaction():
                t.delete(part(i, i + changes))
                t.insert(part(rows + i, rows + i + changes))
        found["CPU ms per epoch"] = 1000 * (time.process_time() - began) / max(epochs, 1)
        found["updates held"] = sum(ref.rows for ref in core_of(db).runtime.backing.store.manifest.refs())
        found["MB"] = megabytes(state)
    shutil.rmtree(state)
    return found


def megabytes(folder: Path) -> float:
    return round(sum(file.stat().st_size for file in folder.glob("**/*") if file.is_file()) / 1e6, 1)


# ------------------------------------------------------------------------------------------- memory


class Memory:
    """The highest resident memory of this process's descendants, by what they are; sampled by a thread."""

    def __init__(self) -> None:
        self.peaks: dict[str, float] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.2):
            kinds: dict[str, list[float]] = {}
            for pid in descendants(os.getpid()):
                kind, resident = describe(pid)
                kinds.setdefault(kind, []).append(resident)
            workers = kinds.get("python worker", [0.0])
            self._note("largest Python worker", max(workers))
            self._note("Python workers together", sum(workers))
            for kind in ("driver JVM", "executor JVM", "driver"):
                self._note(kind, max(kinds.get(kind, [0.0])))

    def _note(self, name: str, megabytes: float) -> None:
        self.peaks[name] = round(max(self.peaks.get(name, 0.0), megabytes))


def descendants(pid: int) -> list[int]:
    """A process and all that it started."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(entry.name))
    found = [pid]
    for each in found:
        found += children.get(each, [])
    return found


def describe(pid: int) -> tuple[str, float]:
    """(what a process is, its own resident megabytes: pages of mapped files belong to the page cache)."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_text()
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return "gone", 0.0
    resident = sum(int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon")) / 1024
    if pid == os.getpid():
        return "driver", resident
    if "CoarseGrainedExecutorBackend" in command:
        return "executor JVM", resident
    if "pyspark" in command and "python" in command.split("\0")[0]:
        return "python worker", resident
    return ("driver JVM" if "SparkSubmit" in command else "other"), resident


def load(spark: Any, rows: int, pieces: int) -> dict[str, Any]:
    """A load of so many rows in some transactions, then one change, then a worker that starts anew."""
    state = tempfile.mkdtemp(prefix="everview-")
    random = np.random.default_rng(1)
    found: dict[str, Any] = {"rows": rows, "pieces": pieces}
    amounts = 0
    with Memory() as memory, ev.connect(spark, state=state, shards=2) as db:
        t = db.table("orders", {"id": int, "country": int, "amount": int})
        db.view("revenue", t.group_by("country").agg(total=col.amount.sum(), n=ev.count()))
        took = []
        for part in np.array_split(np.arange(rows), pieces):
            amount = random.integers(0, 1000, len(part))
            amounts += int(amount.sum())
            block = {"id": part, "country": random.integers(0, 200, len(part)), "amount": amount}
            took.append(clock(lambda block=block: t.insert(block)))
        found["load"] = sum(took)
        found["slowest piece"] = max(took)
        found["one change"] = statistics.median(clock(lambda i=i: t.insert([(rows + i, 0, 0)])) for i in range(9))
        answer = db["revenue"].rows()
        assert sum(n for _, _, n in answer) == rows + 9 and sum(s for _, s, _ in answer) == amounts
        found["state MB"] = round(core_of(db).runtime.backing.store.size() / 1e6)
    found["peak MB"] = memory.peaks
    shutil.rmtree(state)
    return found


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--part", choices=("size", "load", "move", "churn"), required=True)
    options.add_argument("--rows", default="")
    options.add_argument("--pieces", type=int, default=20)
    options.add_argument("--epochs", type=int, default=400)
    options.add_argument("--worker-memory", default="")
    given = options.parse_args()
    result: dict[str, Any] = {"benchmark": f"spark_state {given.part}", "load average": os.getloadavg()[0]}
    if given.part == "move":
        result["move"] = move(int(given.rows or 1_000_000))
        print(json.dumps(result, indent=2))
        return
    if given.part == "churn":
        result["churn"] = [churn(int(given.rows or 1_000_000), given.epochs, history) for history in (0, 50)]
        print(json.dumps(result, indent=2))
        return
    if given.part == "size":
        sizes = [int(n) for n in (given.rows or "1000000,10000000").split(",")]
        spark = local_session(f"local[{1 + len(sizes)}]")  # a slot for each to keep its task, and a free one
        points = size(spark, sizes, min(given.epochs, 200))
        result["points"] = points
        for name in ("epoch of 1", "epoch of 1000"):
            result[f"ratio, {name}"] = points[-1][name]["median"] / points[0][name]["median"]
    else:
        conf = {"spark.executor.memory": "2g", "spark.executor.cores": "2"}
        if given.worker_memory:
            conf["spark.executor.pyspark.memory"] = given.worker_memory
        os.environ["SPARK_HOME"] = str(home(Path(tempfile.mkdtemp(prefix="everview-"))))
        spark = local_session("local-cluster[1,2,2048]", **conf)
        result["load"] = load(spark, int(given.rows or 20_000_000), given.pieces)
    result["load average at the end"] = os.getloadavg()[0]
    print(json.dumps(result, indent=2))
    spark.stop()


if __name__ == "__main__":
    main()
