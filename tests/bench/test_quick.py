"""Every benchmark runs at a tiny size, gives right answers, and reports what it promises."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
WORKLOADS = (
    *("arrange", "bfs", "reach", "wcc", "scc", "kcore", "sssp", "khop", "pagerank", "forest", "triangles", "join3"),
)
OTHERS = (
    *("start", "epochs", "install", "proportional", "sharing", "merge", "threads", "rules", "durable", "tpch"),
    "nexmark",
    "oneoff",
    "server",
    "pgwire",
    "values_sockets",
    *("ingest", "wide"),
    *("figure1", "interactive", "patterns", "provenance", "provenance_series", "shipping", "what_if", "why"),
    "lean",
    "scaling",
    "pairs",
    "questions",
)


def report_of(script: str, *arguments: str) -> dict[str, Any]:
    command = [sys.executable, str(FOLDER / f"{script}.py"), "--quick", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    report: dict[str, Any] = json.loads(done.stdout)
    return report


@pytest.mark.slow
@pytest.mark.parametrize("script", WORKLOADS)
def test_workload(script: str) -> None:
    report = report_of(script)
    assert report["check"]["equals_recompute"]
    assert {"load", "single", "batch", "memory", "peers", "machine"} <= report.keys()
    assert report["machine"]["calibration"]["numpy_sort_cpu_s"] > 0
    assert not any("failed" in peer for peer in report["peers"].values()), report["peers"]


@pytest.mark.slow
@pytest.mark.parametrize("script", OTHERS)
def test_other(script: str) -> None:
    assert report_of(script)["quick"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "arguments"),
    [("bfs", ("--spelling", "iterate")), ("wcc", ("--order", "plain", "--spelling", "fixpoint"))],
)
def test_other_spelling(script: str, arguments: tuple[str, ...]) -> None:
    assert report_of(script, *arguments)["check"]["equals_recompute"]


@pytest.mark.slow
@pytest.mark.parametrize("script", ["bfs", "join3"])
def test_a_rival_is_given_the_same_rows(script: str, tmp_path: Path) -> None:
    """What `--reference` gives the Rust programs: rows and changes as words, the right answer, what to measure."""
    report = report_of(script, "--no-peers", "--export", str(tmp_path))
    task = json.loads((tmp_path / "task.json").read_text())
    words = {path.stem: np.fromfile(path, dtype="<i8") for path in tmp_path.glob("*.i64")}
    assert ["differential", script] in task["rivals"]
    assert len(words["rows"]) == report["load"]["rows"] * task["columns"]
    assert len(words["old"]) == len(words["new"]) >= sum(task["sizes"][:2]) * task["columns"]
    assert len(words["expected"]) == 2 * report["check"]["rows"]


def test_every_script_is_run() -> None:
    listed = subprocess.run(
        [sys.executable, str(FOLDER / "run.py"), "--list"], capture_output=True, text=True, check=True
    ).stdout.split()
    assert all(any(name.startswith(script) for name in listed) for script in (*WORKLOADS, *OTHERS))
