"""`everview run` as people run it: a process on Spark's local[2], files in, a sink out, Ctrl-C, and again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.spark.clusters import ROOT

pytestmark = pytest.mark.spark

PROGRAMS = {
    "pipeline.toml": """
        state = "state"

        [source.orders]
        format = "json"
        path = "in"
        key = "id"

        [view]
        revenue = "SELECT country, sum(amount) AS total FROM orders GROUP BY country"

        [sink.revenue]
        format = "json"
        path = "out"
    """,
    "pipeline.py": """
        import everview as ev

        def pipeline(db, spark):
            stream = spark.readStream.schema("id long, country string, amount long").json("in")
            orders = db.source("orders", stream, key="id")
            revenue = db.view("revenue", orders.group_by("country").agg(total=ev.col.amount.sum()))
            revenue.write_to(ev.io.json("out"))
    """,
    "pipeline.sql": """
        CREATE SOURCE orders (id bigint, country text, amount bigint, PRIMARY KEY (id)) FROM 'in' FORMAT json;
        CREATE VIEW revenue AS SELECT country, sum(amount) AS total FROM orders GROUP BY country;
        CREATE SINK FROM revenue INTO 'out' FORMAT json;
    """,
}


def put(work: Path, name: str, *records: tuple[int, str, int]) -> None:
    lines = (json.dumps(dict(zip(("id", "country", "amount"), record, strict=True))) for record in records)
    (work / name).write_text("".join(f"{line}\n" for line in lines))
    (work / "in").mkdir(exist_ok=True)
    (work / name).rename(work / "in" / name)


def start(work: Path, program: str, *options: str) -> subprocess.Popen[str]:
    state = [] if program.endswith(".toml") else ["--state", "state"]
    command = [sys.executable, "-m", "everview.cli", "run", program, *state, *options]
    env = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    with (work / "errors").open("a") as errors:
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, env=env, cwd=work, start_new_session=True
        )


def changes(work: Path) -> list[tuple[str, int, int, int]]:
    """All that is in the sink."""
    lines = [line for path in sorted((work / "out").glob("changes-*.json")) for line in path.read_text().splitlines()]
    return [(c["country"], c["total"], c["_time"], c["_diff"]) for c in map(json.loads, lines)]


def held(work: Path) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for country, total, _, diff in changes(work):
        found[country, total] += diff
    return Counter({row: n for row, n in found.items() if n})


def wait_for(work: Path, expected: dict[Any, int], driver: subprocess.Popen[str]) -> None:
    for _ in range(1200):
        if held(work) == expected:
            return
        assert driver.poll() is None, (work / "errors").read_text()[-3000:]
        time.sleep(0.1)
    raise AssertionError((held(work), (work / "errors").read_text()[-3000:]))


def interrupt(work: Path, driver: subprocess.Popen[str]) -> str:
    """Ctrl-C, which a terminal sends to the whole group: the JVM and its workers get it, too."""
    os.killpg(driver.pid, signal.SIGINT)
    said = driver.communicate(timeout=120)[0]
    assert driver.returncode == 0, (work / "errors").read_text()[-3000:]
    return said.splitlines()[-1]


@pytest.mark.parametrize(
    "program", ["pipeline.toml", *(pytest.param(p, marks=pytest.mark.slow) for p in ("pipeline.py", "pipeline.sql"))]
)
def test_files_in_ctrl_c_and_on(tmp_path: Path, program: str) -> None:
    (tmp_path / program).write_text("\n".join(line[8:] for line in PROGRAMS[program].splitlines()))
    put(tmp_path, "1.json", (1, "at", 5), (2, "ch", 7))
    driver = start(tmp_path, program)
    wait_for(tmp_path, {("at", 5): 1, ("ch", 7): 1}, driver)
    begun = [line for line in (tmp_path / "errors").read_text().splitlines() if not line.startswith("everview: time")]
    assert len(begun) == 1 and "runs on Spark, local[2], which took" in begun[0], "the JVM's chatter is in a file"
    put(tmp_path, "2.json", (1, "at", 6))
    wait_for(tmp_path, {("at", 6): 1, ("ch", 7): 1}, driver)
    assert interrupt(tmp_path, driver).endswith("(interrupt)")

    put(tmp_path, "3.json", (3, "ch", 1), (1, "at", 6))
    driver = start(tmp_path, program, "--until", "caught_up", "--no-progress")
    said = driver.communicate(timeout=300)[0]
    assert driver.returncode == 0, (tmp_path / "errors").read_text()[-3000:]
    assert said.splitlines()[-1].startswith("orders 2 rows in 1 step ") and said.rstrip().endswith("(caught_up)")
    assert held(tmp_path) == {("at", 6): 1, ("ch", 8): 1}
    assert set(Counter(changes(tmp_path)).values()) == {1}, "every change once"
    assert len(changes(tmp_path)) == 2 + 2 + 2
