"""What a process pays before it is useful: import and first query with compiled kernels at hand; compiling them all."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from typing import Any

import common

FIRST_QUERY = """
import time
import everview as ev
from everview import col
imported = time.process_time()
with ev.connect() as db:
    edge = db.table("edge", {"src": int, "dst": int})
    degree = db.view("degree", edge.group_by("src").agg(n=ev.count()))
    edge.insert([(1, 2), (1, 3), (2, 3)])
    assert sorted(degree.rows()) == [(1, 2), (2, 1)]
plain = time.process_time()
with ev.connect() as db:
    edge, root = db.table("edge", {"src": int, "dst": int}), db.table("root", {"node": int})
    def step(reached):
        return reached.join(edge, reached.node == edge.src).select(node=edge.dst).union_all(root).distinct()
    reach = db.view("reach", root.iterate(step))
    root.insert([(1,)])
    edge.insert([(1, 2), (2, 3)])
    assert sorted(reach.rows()) == [(1,), (2,), (3,)]
print(imported, plain, time.process_time())
"""
BARS = {"warm_cpu_s": 1.5, "cold_cpu_s": 90.0}


def warm_start(runs: int) -> dict[str, Any]:
    """CPU seconds of fresh interpreters, the cache being warm: medians."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # a user's second start finds compiled modules
    lines = [
        subprocess.run(
            [sys.executable, "-c", FIRST_QUERY], env=environment, capture_output=True, text=True, check=True
        ).stdout
        for _ in range(runs + 1)
    ][1:]
    imported, plain, recursive = zip(*(map(float, line.split()) for line in lines), strict=True)
    return {
        "runs": runs,
        "import_cpu_s": statistics.median(imported),
        "import_and_first_query_cpu_s": statistics.median(plain),
        "and_first_recursive_query_cpu_s": statistics.median(recursive),
        "bar_cpu_s": BARS["warm_cpu_s"],
    }


def cold_compile() -> dict[str, Any]:
    """CPU and wall seconds of `python -m everview.warm` with an empty cache directory."""
    with tempfile.TemporaryDirectory() as empty:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "EVERVIEW_CACHE_DIR": empty}
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        wall, _ = common.once(
            lambda: subprocess.run(
                [sys.executable, "-m", "everview.warm"], env=environment, check=True, capture_output=True
            )
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"cpu_s": cpu, "wall_s": wall["wall_s"], "bar_cpu_s": BARS["cold_cpu_s"]}


if __name__ == "__main__":
    parser = common.arguments(__doc__)
    parser.add_argument("--cold", action="store_true", help="compile everything too (a minute or more)")
    options = parser.parse_args()
    found: dict[str, Any] = {"benchmark": "start", "warm": warm_start(1 if options.quick else 5)}
    if options.cold and not options.quick:
        found["cold"] = cold_compile()
    common.report(found, options)
