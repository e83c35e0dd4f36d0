"""The reference: Rust crates of our own (`benchmarks/rust`), run in turns with Everview on the same files.

`rust/differential` is the differential-dataflow crate through its own API, `rust/dbsp` the dbsp crate for joins and
aggregates; both with one worker, in release builds for this machine's processor. A benchmark that has rivals there
(`Workload.rivals`) writes its rows, its changes and the right answer into a directory (`--export`). The crate reads
them, does the same load, single changes and batches, and writes its answer, which must be equal to ours.

Turns alternate, so a machine that becomes slower slows both down. Each figure is the best of its turns, theirs as much
as ours. No figure is copied from anywhere: without `--reference` there are no ratios.

Needs cargo and, for the first build, the crates' registry. The build directory is `.cache/rust` (or CARGO_TARGET_DIR).
dbsp has 450 dependencies: its first build takes 15 minutes of CPU time; `differential` takes two.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import common

CRATES = ("differential", "dbsp")
WORKSPACE = Path(__file__).resolve().parent / "rust"
ROOT = WORKSPACE.parent.parent


class Missing(Exception):
    """The reference cannot be built here; says why."""


def build(crate: str) -> Path:
    """The program of a crate ("differential" or "dbsp"), built if it is not up to date."""
    if shutil.which("cargo") is None:
        raise Missing("cargo is not installed (https://rustup.rs)")
    target = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / ".cache" / "rust")
    command = ["nice", "-n", "10", "cargo", "build", "--release", "--locked", "-j1", "-p", f"reference-{crate}"]
    built = subprocess.run(
        command, cwd=WORKSPACE, env=os.environ | {"CARGO_TARGET_DIR": str(target)}, stderr=subprocess.PIPE, check=False
    )
    if built.returncode:
        raise Missing(f"reference-{crate} was not built: {built.stderr.decode()[-2000:]}")
    return target / "release" / f"reference-{crate}"


def versions() -> dict[str, str]:
    """The crates that are measured, as the lock file has them."""
    locked = tomllib.loads((WORKSPACE / "Cargo.lock").read_text())["package"]
    return {p["name"]: p["version"] for p in locked if p["name"] in ("differential-dataflow", "dbsp")}


def export(workload: common.Workload, sizes: common.Sizes, answer: common.Ints, directory: Path) -> None:
    """Write what a rival needs: rows and changes as words, the right answer, and how much is measured."""
    directory.mkdir(parents=True, exist_ok=True)
    tables = dict(workload.statics) | {"rows": workload.rows, "old": workload.stream.old, "new": workload.stream.new}
    for name, rows in (tables | {"expected": answer}).items():
        (directory / f"{name}.i64").write_bytes(np.ascontiguousarray(rows, dtype="<i8").tobytes())
    task = {
        "rivals": [list(rival) for rival in workload.rivals],
        "columns": len(workload.columns),
        "sizes": [sizes.warm_up, sizes.singles, sizes.batch, sizes.batches],
        "k": workload.k,
    }
    (directory / "task.json").write_text(json.dumps(task))


def run(program: Path, workload: str, directory: Path, timeout: float) -> dict[str, Any]:
    """One turn of theirs; stops with an error if its answer is not the right one."""
    task = json.loads((directory / "task.json").read_text())
    arguments = [workload, str(directory), f"rows:{task['columns']}", *map(str, task["sizes"]), str(task["k"])]
    done = subprocess.run([str(program), *arguments], capture_output=True, text=True, timeout=timeout, check=False)
    if done.returncode:
        raise SystemExit(f"{program.name} {workload} failed: {done.stderr.strip()[-2000:]}")
    if (directory / "answer.i64").read_bytes() != (directory / "expected.i64").read_bytes():
        raise SystemExit(f"{program.name} {workload}: its answer is not the right one")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def figures(report: Mapping[str, Any]) -> dict[str, float]:
    """What is compared, of one turn's report (ours and theirs have the same names)."""
    return {
        "load_cpu_s": report["install"]["cpu_s"] + report["load"]["cpu_s"],
        "single_ms": report["single"]["cpu_ms_median"],
        "single_p99_ms": report["single"]["cpu_ms_p99"],
        "batch_per_s": report["batch"]["changes_per_cpu_s"],
        "net_mb": report["memory"]["net_mb"],
        "peak_mb": report["memory"]["peak_mb"],
    }


def best(turns: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The best of several turns, figure by figure.

    >>> best([{"load_cpu_s": 2.0, "batch_per_s": 5.0}, {"load_cpu_s": 3.0, "batch_per_s": 6.0}])
    {'load_cpu_s': 2.0, 'batch_per_s': 6.0}
    """
    return {name: (max if name == "batch_per_s" else min)(turn[name] for turn in turns) for name in turns[0]}


def ratios(ours: Mapping[str, float], theirs: Mapping[str, float]) -> dict[str, float]:
    """How many times as good as theirs (above 1: better), but for memory: how many times as much."""
    return {
        "load_times_as_fast": theirs["load_cpu_s"] / ours["load_cpu_s"],
        "single_times_as_fast": theirs["single_ms"] / ours["single_ms"],
        "batch_times_as_fast": ours["batch_per_s"] / theirs["batch_per_s"],
        "peak_memory_times_as_much": ours["peak_mb"] / theirs["peak_mb"],
        "net_memory_times_as_much": ours["net_mb"] / theirs["net_mb"],
    }


def section(
    rows: Sequence[tuple[str, str, Mapping[str, Any]]], machine: Mapping[str, Any], loads: str
) -> dict[str, Any]:
    """What RESULTS.md shows of a run: (case, crate, its comparison) one below the other."""
    names = ("load", "single", "batch")
    found = versions()
    return {
        "title": "Against differential dataflow and dbsp in Rust",
        "question": "Times as fast as the Rust crates in the same run: same files, same question, turns alternating,"
        " CPU time, one thread, the best turn of each. Above 1 is faster here. In brackets: here / there.",
        "date": machine["when"][:10],
        "commit": machine["commit"],
        "script": "run.py --reference",
        "load_average": loads,
        "columns": [
            "workload",
            "crate",
            "load, s",
            "1 change, median ms",
            "batches, changes/s",
            "net memory, times as much",
        ],
        "rows": [
            [
                case,
                f"{crate} {found['differential-dataflow' if crate == 'differential' else crate]}",
                *(
                    _pair(one, part, key)
                    for part, key in zip(names, ("load_cpu_s", "single_ms", "batch_per_s"), strict=True)
                ),
                _short(one["ratio"]["net_memory_times_as_much"]),
            ]
            for case, crate, one in rows
        ],
        "reading": "Both keep the answer readable after every step. The crate runs the algorithms of its examples and"
        " library, with prioritized labels where it has them (also against scc-hashed and wcc-library); Everview keeps"
        " monotone loops as trees instead of differences of rounds. Net memory leaves out interpreter, libraries"
        " and, of theirs, the benchmark's own rows.",
    }


def _pair(one: Mapping[str, Any], part: str, key: str) -> str:
    ratio, here, there = one["ratio"][f"{part}_times_as_fast"], one["ours"][key], one["theirs"][key]
    return f"{_short(ratio)} ({_short(here)} / {_short(there)})"


def _short(value: float) -> str:
    """Two digits, and thousands apart.

    >>> _short(0.0123), _short(1.25), _short(123456.0)
    ('0.012', '1.2', '120,000')
    """
    return f"{float(f'{value:.2g}'):,.10g}"
