"""`make soak MINUTES=60`, or `python -m tests.soak --minutes 60 [--seed 1]`: the run.

Prints a line of JSON for every window, in the end one with everything, and a table; ends with 1 if something was wrong
or not flat. Latency is measured in CPU time, because a machine that is busy with something else says nothing about a
leak, and in units of a yardstick (`flat`), because CPU time depends on the machine's other work, too. Wall times and
plain CPU times are told, not judged.

Memory is told in parts, so that a leak can be told from what grows by design and from what the allocators keep:

    resident (anonymous pages) = heap (malloc's; dictionary and indexes are in it) + unused (freed, kept by malloc)
        + pages of Python's and Arrow's allocators, which come and go by megabytes

A leak is a heap or a number of Python's objects that rises; both are level to a few per mille otherwise.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from everview.dataflow.allocator import used_memory
from tests.soak.flat import Bound, Verdict, Yardstick, table, verdict
from tests.soak.load import Load

WINDOWS = 40
LEAST = 20
"""Calls in a window, however busy the machine is."""

WARM_UP = {"edges": 1100, "event": 600, "churn": 800, "select": 300, "upsert": 50, "subscribe": 50, "reopen": 8}
"""Calls before the first window: histories reach their length, and the caches of parsed texts are full."""

CALLS_PER_MEASURE = 5
"""Calls between two looks at the yardstick."""

MEMORY = Bound(0.02, 3.0)
"""Megabytes that the process has and malloc has not freed may rise by 2 %, or by 3 MB: what other allocators keep."""

HEAP = Bound(0.02, 1.0)
"""Megabytes that malloc has given out, indexes and dictionary among them."""

RESIDENT = Bound(0.05, 8.0)
"""Megabytes of anonymous memory, holes of malloc included."""

DICTIONARY = Bound(0.5, 1.0)
"""Megabytes: it grows between two openings that forget, by design."""

INDEXES = Bound(0.2, 1.0)

BLOCKS = Bound(0.02, 0.0)
"""Thousands of objects that Python has."""

LATENCY = Bound(0.15, 0.05)
"""Milliseconds of CPU, by the yardstick, of the median call may rise by 15 %."""

DISK = Bound(0.25, 1.0)
"""Megabytes of state on disk: versions and logs come and go."""

BOUNDS = {
    "memory MB": MEMORY, "heap MB": HEAP, "resident MB": RESIDENT, "dictionary MB": DICTIONARY, "indexes MB": INDEXES,
    "blocks k": BLOCKS, "disk MB": DISK,
}  # fmt: skip


class Measures:
    """What one window has seen of every kind of call, and the series over all windows."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.series: dict[str, list[float]] = defaultdict(list)
        self._cpu: dict[str, list[float]] = defaultdict(list)
        self._wall: dict[str, list[float]] = defaultdict(list)
        self._yardstick = Yardstick()
        self._yards: list[float] = []

    def run(self, load: Load, kind: str) -> None:
        if self.calls.total() % CALLS_PER_MEASURE == 0:
            self._yards.append(self._yardstick.measure())
        wall, cpu = time.perf_counter(), time.process_time()
        load.do(kind)
        self._cpu[kind].append(1000 * (time.process_time() - cpu))
        self._wall[kind].append(1000 * (time.perf_counter() - wall))
        self.calls[kind] += 1

    def close_window(self, load: Load, state: Path) -> dict[str, float]:
        """The window's figures; a kind that was not called has none."""
        gc.collect()
        yard = statistics.median(self._yards)
        for kind, cpu in self._cpu.items():
            taken = statistics.median(cpu)
            self.series[f"cpu {kind}"].append(taken / yard)
            self.series[f"ms {kind}"].append(taken)
            self.series[f"wall ms {kind}"].append(statistics.median(self._wall[kind]))
        self.series["ms yardstick"].append(yard)
        for measured in (self._cpu, self._wall, self._yards):
            measured.clear()
        held = load.db.memory()
        resident = anonymous()
        self.series["memory MB"].append(resident - held["unused"] / 1e6)
        self.series["heap MB"].append(used_memory() / 1e6)
        self.series["resident MB"].append(resident)
        self.series["unused MB"].append(held["unused"] / 1e6)
        self.series["dictionary MB"].append(held["dictionary"] / 1e6)
        self.series["indexes MB"].append(sum(a["bytes"] for a in held["arrangements"]) / 1e6)
        self.series["blocks k"].append(sys.getallocatedblocks() / 1e3)
        self.series["disk MB"].append(sum(p.stat().st_size for p in state.rglob("*") if p.is_file()) / 1e6)
        return {name: round(values[-1], 3) for name, values in self.series.items() if not name.startswith("wall")}

    def verdicts(self) -> dict[str, Verdict]:
        """Is it flat? A call's CPU is judged in milliseconds of a machine on which the yardstick never changes."""
        found: dict[str, Verdict] = {}
        yard = statistics.median(self.series["ms yardstick"])
        for name, values in sorted(self.series.items()):
            if name.startswith("cpu "):
                found[f"{name} ms"] = verdict([yard * v for v in values], LATENCY)
            elif not name.startswith(("wall", "ms ")) or name == "ms yardstick":
                found[name] = verdict(values, BOUNDS.get(name))
        return found


def anonymous() -> float:
    """Megabytes of this process that no file has: the system takes pages of files back as it likes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon:")) * 1024 / 1e6


def soak(
    seconds: float,
    seed: int,
    work: Path,
    windows: int = WINDOWS,
    show: bool = True,
    warm_up: Mapping[str, int] = WARM_UP,
) -> dict[str, Any]:
    """Run the load for so long; gives the report. Raises AssertionError as soon as something is not as in the model."""
    load = Load(work, seed)
    for kind, count in warm_up.items():
        for _ in range(count):
            load.do(kind)
    measures = Measures()
    start = time.monotonic()
    checks = 0
    for window in range(1, windows + 1):
        least = measures.calls.total() + LEAST
        while time.monotonic() < start + seconds * window / windows or measures.calls.total() < least:
            measures.run(load, load.choose())
        load.do("reopen")  # so that all windows are measured in the same state
        load.check()
        checks += 1
        figures = measures.close_window(load, work / "state")
        if show:
            print(json.dumps({"window": window, "seconds": round(time.monotonic() - start), **figures}), flush=True)
    load.close()
    verdicts = measures.verdicts()
    walls = {name: round(statistics.median(v), 3) for name, v in measures.series.items() if name.startswith("wall")}
    return {
        "seconds": round(time.monotonic() - start, 1),
        "seed": seed,
        "calls": dict(measures.calls),
        "checks": checks,
        "measured": {name: {**vars(found), "flat": found.flat} for name, found in verdicts.items()},
        **walls,
        "flat": all(found.flat for found in verdicts.values()),
        "table": table(verdicts),
    }


def main() -> None:
    asked = argparse.ArgumentParser(prog="soak", description=__doc__)
    asked.add_argument("--minutes", type=float, default=60)
    asked.add_argument("--seed", type=int, default=1)
    given = asked.parse_args()
    with tempfile.TemporaryDirectory() as work:
        report = soak(60 * given.minutes, given.seed, Path(work))
    lines = report.pop("table")
    print(json.dumps(report))
    print(*lines, sep="\n")
    sys.exit(0 if report["flat"] else 1)


if __name__ == "__main__":
    main()
