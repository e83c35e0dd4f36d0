"""This checkout against another revision of Everview, in turns, as ratios of CPU time.

    python benchmarks/against.py 6676c30 --only bfs-a,wcc-prioritized-a,scc-a,join3,arrange-a,tpch-part
    python benchmarks/against.py 6676c30 --only spark-part --rounds 2
    python benchmarks/against.py HEAD~5 --rounds 5

Small changes are compared more precisely by `turns.py`.

`tpch-part` is seven queries at a tenth of the scale, `spark-part` small steps on a local Spark: the whole of either
takes hours in turns. On Spark seconds are those of the wall clock, because several processes work.

The other revision is checked out beside the project (`../everview-at-<revision>`, kept for the next time) and runs its
own benchmark scripts with its own kernels, so both must have the case. Old and new take turns, so that a machine that
becomes slower slows down both. Each figure is the best of its rounds; a ratio above 1 means that this checkout is
slower. Prints JSON.

Hazard: scripts may change what they measure. A ratio means something only where `git diff` shows that they did not.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from run import CASES, Case

ROOT = Path(__file__).resolve().parents[1]
CPU = re.compile(r"(cpu_s|cpu_ms_median|cpu_ms_mean|(?!duckdb)(?!.*_per_cpu_s).*_cpu_s|change_\d+_ms|planning_ms)$")
"""Names of figures that are our CPU time."""
WALL = re.compile(r"(load|first evaluation|epoch of .*|change of .*)$")
"""Those of steps on Spark: seconds that pass."""
PARTS = (
    Case("tpch-part", "tpch", ("--scale", "0.1", "--queries", "q01,q03,q05,q06,q10,q14,q18")),
    Case("spark-part", "spark_steps", ("--part", "join", "--rows", "100000")),
    Case("spark-loop-part", "spark_steps", ("--part", "wcc", "--nodes", "10000", "--edges", "30000")),
)
"""Parts of long benchmarks that end within minutes."""


def main(arguments: list[str]) -> int:
    """Compare; returns the number of cases that one of the two could not run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("revision")
    parser.add_argument("--only", default="bfs-a,wcc-prioritized-a,scc-a,join3,arrange-a,tpch-part")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="tiny sizes")
    options = parser.parse_args(arguments)
    other = checkout(options.revision)
    names = options.only.split(",")
    report = {c.name: compare(c, other, options.rounds, options.quick) for c in (*CASES, *PARTS) if c.name in names}
    print(json.dumps({"against": options.revision, "rounds": options.rounds, "cases": report}, indent=1))
    return sum("failed" in found for found in report.values())


def checkout(revision: str) -> Path:
    """A worktree of the revision, with compiled kernels."""
    place = ROOT.parent / f"everview-at-{revision.replace('/', '-')}"
    if not place.exists():
        subprocess.run(
            ["git", "-C", ROOT, "worktree", "add", "--detach", place, revision], check=True, stdout=sys.stderr
        )
    subprocess.run([sys.executable, "-m", "everview.warm"], check=True, env=environment(place), stdout=sys.stderr)
    return place


def environment(place: Path) -> dict[str, str]:
    """Variables with which Python finds the Everview of a checkout."""
    return {**os.environ, "PYTHONPATH": str(place / "src"), "EVERVIEW_CACHE_DIR": str(place / ".cache")}


def compare(case: Case, other: Path, rounds: int, quick: bool) -> dict[str, Any]:
    """Best figures of both, and their ratios."""
    best: dict[str, dict[str, float]] = {"old": {}, "new": {}}
    for _ in range(rounds):
        for which, place in (("old", other), ("new", ROOT)):
            found = figures(case, place, quick)
            if "failed" in found:
                return {"failed": f"{which}: {found['failed']}"}
            for name, value in found.items():
                best[which][name] = min(value, best[which].get(name, value))
    both = best["old"].keys() & best["new"].keys()
    ratios = {name: round(best["new"][name] / best["old"][name], 3) for name in sorted(both) if best["old"][name] > 0}
    return {"ratio": ratios, **best}


def figures(case: Case, place: Path, quick: bool) -> dict[str, Any]:
    """One run's CPU times by name."""
    on_spark = case.script.startswith("spark")  # these have their sizes as arguments
    flags = [] if on_spark else ["--no-peers", *(["--quick"] if quick else [])]
    command = [sys.executable, str(place / "benchmarks" / f"{case.script}.py"), *case.arguments, *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment(place), cwd=place)
    if done.returncode != 0:
        return {"failed": done.stderr.strip()[-500:]}
    return dict(times(json.loads(done.stdout), WALL if on_spark else CPU))


def times(report: Any, which: re.Pattern[str], name: str = "") -> list[tuple[str, float]]:
    """Every time in a report, wherever it stands, but for statistics of operators."""
    if isinstance(report, dict):
        parts = [(f"{name}.{key}", value) for key, value in report.items() if key not in ("stats", "machine")]
    elif isinstance(report, list):
        parts = [(f"{name}.{part['query']}", part) for part in report if isinstance(part, dict) and "query" in part]
    elif isinstance(report, float | int) and which.match(name.rpartition(".")[2]):
        return [(name.lstrip("."), float(report))]
    else:
        return []
    return [found for key, value in parts for found in times(value, which, key)]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
