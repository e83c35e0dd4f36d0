"""kill -9 at every step from source to sink: after a restart nothing is missing and nothing is there twice."""

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

import everview as ev

ROWS = 40

PROGRAM = """
import os, signal, sys
import everview as ev
from everview.io import feed, file_sink

work, where, count = sys.argv[1], sys.argv[2], int(sys.argv[3])

def die_in(owner, name, after=False):
    original, calls = getattr(owner, name), [0]
    def dying(*args, **kwargs):
        calls[0] += 1
        if calls[0] == count and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        result = original(*args, **kwargs)
        if calls[0] == count and after:
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    setattr(owner, name, dying)

with ev.connect(work + "/state") as db:
    db.source("t", ev.io.json(work + "/in"), key="k", schema={"k": int, "g": str, "n": int}, bad="quarantine",
              max_rows_per_step=4)
    v = db.sql("CREATE VIEW v AS SELECT g, count(*) AS c, sum(n) AS n FROM t GROUP BY g")
    if where == "commit":                  # rows and marks are staged, nothing is committed
        die_in(feed.Feed, "_commit")
    if where == "sink":                    # committed, the sink has nothing
        die_in(file_sink.FileSink, "write")
    if where == "rename":                  # committed, the sink's file is written but not in place
        die_in(file_sink.os, "replace")
    if where == "written":                 # committed and written, the source was not told
        die_in(file_sink.FileSink, "write", after=True)
    v.write_to(ev.io.parquet(work + "/out"))
    print("running", flush=True)
    db.run(until="caught_up")
    print("done", flush=True)
"""


def prepare(work: Path) -> dict[int, tuple[str, int]]:
    """Files with upserts and a bad line each; what the table must hold in the end."""
    (work / "in").mkdir(parents=True)
    table: dict[int, tuple[str, int]] = {}
    for number in range(4):
        lines = ["no JSON"]
        for i in range(ROWS // 4):
            k, g, n = (number * 7 + i * 3) % 25, "abc"[i % 3], number * 100 + i
            table[k] = (g, n)
            lines.append(json.dumps({"k": k, "g": g, "n": n}))
        path = work / "in" / f"{number}.json"
        path.write_text("\n".join(lines) + "\n")
        os.utime(path, (number, number))
    return table


def start(work: Path, where: str = "", count: int = 0) -> subprocess.Popen[str]:
    program = [sys.executable, "-c", PROGRAM, str(work), where, str(count)]
    return subprocess.Popen(program, stdout=subprocess.PIPE, text=True)


def check(work: Path, table: dict[int, tuple[str, int]]) -> None:
    """State and sink against a computation from scratch."""
    expected: Counter[Any] = Counter()
    for g in {g for g, _ in table.values()}:
        values = [n for h, n in table.values() if h == g]
        expected[g, len(values), sum(values)] = 1
    with ev.connect(work / "state") as db:
        assert {k: (g, n) for k, g, n in db["t"].rows()} == table
        assert Counter(db["v"].rows()) == expected
        assert [record for _, _, record in db["t_rejected"].rows()] == ["no JSON"] * 4
    reader = ev.connect()
    copy = reader.source("v", ev.io.parquet(work / "out"), mode="changes")
    reader.run(until="caught_up")
    assert Counter(copy.rows()) == expected, "each change is in the sink once"


MOMENTS = [("commit", 5), ("sink", 4), ("rename", 4)]
MORE = [("commit", 1), ("sink", 1), ("rename", 2), ("written", 3)]


@pytest.mark.parametrize("where, count", [*MOMENTS, *(pytest.param(*m, marks=pytest.mark.slow) for m in MORE)])
def test_killed_at_a_chosen_moment(tmp_path: Path, where: str, count: int) -> None:
    table = prepare(tmp_path)
    assert start(tmp_path, where, count).wait(120) == -signal.SIGKILL
    assert start(tmp_path).wait(120) == 0
    check(tmp_path, table)


@pytest.mark.slow
def test_killed_again_and_again(tmp_path: Path) -> None:
    table = prepare(tmp_path)
    for delay in (0.0, 0.002, 0.005, 0.01, 0.02, 0.03):
        process = start(tmp_path)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(delay)
        process.kill()
        process.wait(120)
    assert start(tmp_path).wait(120) == 0
    check(tmp_path, table)
