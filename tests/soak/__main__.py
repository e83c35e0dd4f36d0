"""`make soak MINUTES=60`, or `python -m tests.soak --minutes 60 [--seed 1]`: the run.

Prints a line of JSON now and then, and in the end one with everything; ends with 1 if something was wrong or not flat.
Latency is measured in CPU time, because a machine that is busy with something else says nothing about a leak; wall
times are reported as well.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from tests.soak.flat import Bound, verdict
from tests.soak.load import Load

WINDOWS = 40
LEAST = 20
"""Calls in a window, however busy the machine is."""

MEMORY = Bound(0.03, 6.0)
"""Megabytes in use may rise by 3 %, or by 6 MB: the allocator's own ups and downs."""

LATENCY = Bound(0.25, 0.1)
"""Milliseconds of CPU of the median call may rise by a quarter."""

DISK = Bound(0.25, 2.0)
"""Megabytes of state on disk: versions and logs come and go."""


class Measures:
    """What one window has seen of every kind of call, and the series over all windows."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.series: dict[str, list[float]] = defaultdict(list)
        self._cpu: dict[str, list[float]] = defaultdict(list)
        self._wall: dict[str, list[float]] = defaultdict(list)

    def run(self, load: Load, kind: str) -> None:
        wall, cpu = time.perf_counter(), time.process_time()
        load.do(kind)
        self._cpu[kind].append(1000 * (time.process_time() - cpu))
        self._wall[kind].append(1000 * (time.perf_counter() - wall))
        self.calls[kind] += 1

    def close_window(self, state: Path) -> dict[str, float]:
        """The window's figures; a kind that was not called has none."""
        gc.collect()
        for kind, cpu in self._cpu.items():
            self.series[f"cpu ms {kind}"].append(statistics.median(cpu))
            self.series[f"wall ms {kind}"].append(statistics.median(self._wall[kind]))
        self._cpu.clear()
        self._wall.clear()
        self.series["memory MB"].append(resident())
        self.series["disk MB"].append(sum(p.stat().st_size for p in state.rglob("*") if p.is_file()) / 1e6)
        return {name: round(values[-1], 3) for name, values in self.series.items() if not name.startswith("wall")}

    def verdicts(self) -> dict[str, dict[str, Any]]:
        """Is it flat? Wall times are told, not judged."""
        found: dict[str, dict[str, Any]] = {}
        for name, values in sorted(self.series.items()):
            if name.startswith("wall"):
                continue
            bound = {"memory MB": MEMORY, "disk MB": DISK}.get(name, LATENCY)
            found[name] = verdict(values, bound)
        return found


def resident() -> float:
    """Megabytes of this process in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def soak(seconds: float, seed: int, work: Path, windows: int = WINDOWS, show: bool = True) -> dict[str, Any]:
    """Run the load for so long; gives the report. Raises AssertionError as soon as something is not as in the model."""
    load = Load(work, seed)
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
        figures = measures.close_window(work / "state")
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
        "measured": verdicts,
        **walls,
        "flat": all(v["flat"] for v in verdicts.values()),
    }


def main() -> None:
    asked = argparse.ArgumentParser(prog="soak", description=__doc__)
    asked.add_argument("--minutes", type=float, default=60)
    asked.add_argument("--seed", type=int, default=1)
    given = asked.parse_args()
    with tempfile.TemporaryDirectory() as work:
        report = soak(60 * given.minutes, given.seed, Path(work))
    print(json.dumps(report, indent=1))
    sys.exit(0 if report["flat"] else 1)


if __name__ == "__main__":
    main()
