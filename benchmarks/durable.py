"""What durability costs: a single change in memory, in a directory (sync normal and full), and opening it again."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import common
import numpy as np

import everview as ev
from everview import col


def run(options: Any) -> dict[str, Any]:
    """The same changes to the same views in three sessions, in turns, so that all see the same machine."""
    rows, changes, turns = (2_000, 200, 3) if options.quick else (options.rows, 1_000, 10)
    with ev.connect() as warm:
        _load(warm, 1000)
        _changes(warm, 1000, 0, 10)
    where = Path(tempfile.mkdtemp(prefix="everview-durable-", dir=options.directory))
    try:
        sessions = {
            "memory": ev.connect(),
            "normal": ev.connect(where / "normal"),
            "full": ev.connect(where / "full", sync="full"),
        }
        loads = {name: _seconds(lambda db=db: _load(db, rows)) for name, db in sessions.items()}
        times: dict[str, list[float]] = {name: [] for name in sessions}
        for turn in range(turns):
            for name, db in sessions.items():
                count = changes if name != "full" else changes // 10
                times[name] += _changes(db, rows, turn * changes, count)
        micros = {name: float(np.median(found)) * 1e6 for name, found in times.items()}
        durable = sessions["normal"]
        checkpoint = _seconds(durable.checkpoint)  # type: ignore[attr-defined]
        _changes(durable, rows, turns * changes, 1)
        again = _seconds(durable.checkpoint)  # type: ignore[attr-defined]
        expected = common.sorted_rows(durable["sums"])
        for db in sessions.values():
            db.close()
        size = sum(p.stat().st_size for p in (where / "normal").rglob("*") if p.is_file())
        start = time.perf_counter()
        with ev.connect(where / "normal") as db:
            opened = time.perf_counter() - start
            check = common.compare(common.sorted_rows(db["sums"]), expected)
        return {
            "benchmark": "durable",
            "rows": rows,
            "load_s": loads,
            "single_change_us": micros,
            "normal_to_memory": micros["normal"] / micros["memory"],
            "checkpoint_s": checkpoint,
            "checkpoint_after_one_change_s": again,
            "open_s": opened,
            "open_to_load": opened / loads["memory"],
            "directory_mb": size / 1e6,
            "check": check,
        }
    finally:
        shutil.rmtree(where)


def _load(db: ev.Session, rows: int) -> None:
    table = db.table("t", {"k": int, "v": int})
    db.view("sums", table.group_by("k").agg(n=ev.count(), total=col.v.sum()))
    name = db.table("name", {"k": int, "label": int})
    db.view("labels", table.join(name, table.k == name.k).select(label=name.label, v=table.v))
    keys = np.arange(rows) % max(rows // 10, 1)
    name.insert({"k": np.arange(max(rows // 10, 1)), "label": np.arange(max(rows // 10, 1)) % 7})
    table.insert({"k": keys, "v": np.arange(rows)})


def _changes(db: ev.Session, rows: int, first: int, count: int) -> list[float]:
    table: Any = db["t"]
    found = []
    for i in range(count):
        row = [(i % max(rows // 10, 1), rows + first + i)]
        start = time.perf_counter()
        table.insert(row)
        found.append(time.perf_counter() - start)
    return found


def _seconds(function: Any) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


if __name__ == "__main__":
    parser = common.arguments(__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--directory", default=None, help="where to put the directories (a real disk)")
    chosen = parser.parse_args()
    common.report(run(chosen), chosen)
