"""A pipeline on Spark from end to end (a stream of files, a view, a sink), its driver killed with kill -9 whenever it
pleases: after every death the directory is at a whole number of batches, with all that was acknowledged; in the end
the sink holds every change once.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import everview as ev
from tests.spark import clusters

pytestmark = [pytest.mark.spark, pytest.mark.slow]

FILES, ROWS, DEATHS = 24, 5, 3

PROGRAM = """
import sys
import everview as ev
from everview.spark import local_session

work = sys.argv[1]
spark = local_session("local[2]")
with ev.connect(spark, state=work + "/state", shards=2) as db:
    stream = spark.readStream.schema("file long, k long, n long").option("maxFilesPerTrigger", 1).json(work + "/in")
    t = db.source("t", stream)
    v = db.view("v", t.group_by("k").agg(c=ev.count(), s=t.n.sum()))
    v.write_to(ev.io.json(work + "/out"))
    print("running", flush=True)
    v.subscribe(lambda batch: print("files", batch.time - 1, flush=True))  # time 1 is when the sink was named
    db.run(until="caught_up")
print("done", flush=True)
spark.stop()
"""


def records(number: int) -> list[tuple[int, int, int]]:
    return [(number, (number + i) % 7, 10 * number + i) for i in range(ROWS)]


def totals(rows: list[tuple[int, int, int]]) -> Counter[tuple[int, int, int]]:
    count: Counter[int] = Counter(k for _, k, _ in rows)
    return Counter((k, c, sum(n for _, j, n in rows if j == k)) for k, c in count.items())


def put(folder: Path, number: int) -> None:
    path = folder / f"{number:03d}.json"
    lines = [json.dumps({"file": file, "k": k, "n": n}) for file, k, n in records(number)]
    path.write_text("\n".join(lines) + "\n")
    os.utime(path, (1e9 + number, 1e9 + number))  # the order in which they are taken


def start(work: Path) -> subprocess.Popen[str]:
    env = os.environ | {"PYTHONPATH": str(clusters.ROOT / "src")}
    with (work / "errors").open("a") as errors:
        command = [sys.executable, "-c", PROGRAM, str(work)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=env, cwd=work)


def whole(rows: list[Any]) -> int:
    """How many files a table's rows are; they must be whole ones, each once."""
    files = sorted({file for file, _, _ in rows})
    assert Counter(rows) == Counter(r for number in files for r in records(number))
    return len(files)


def check_state(work: Path, acknowledged: int) -> int:
    """What a dead driver left: a whole number of files, at least those it told of; the view says the same."""
    with ev.connect(work / "state", read_only=True) as db:
        if "v" not in db.views:
            assert acknowledged == 0
            return 0
        rows = db["t"].rows()
        assert Counter(db["v"].rows()) == totals(rows)
        found = whole(rows)
        assert found >= acknowledged, (found, acknowledged)
        return found


def check_sink(work: Path) -> None:
    """Every change is there once, and together they are the view."""
    expected = totals([r for number in range(FILES) for r in records(number)])
    files = [path.read_text() for path in (work / "out").glob("changes-*.json")]
    changes = [json.loads(line) for text in files for line in text.splitlines()]
    once = Counter((c["k"], c["c"], c["s"], c["_time"], c["_diff"]) for c in changes)
    assert set(once.values()) == {1}
    sums: Counter[Any] = Counter()
    for c in changes:
        sums[c["k"], c["c"], c["s"]] += c["_diff"]
    assert {row: n for row, n in sums.items() if n} == expected
    reader = ev.connect()
    copy = reader.source("v", ev.io.json(work / "out"), mode="changes")
    reader.run(until="caught_up")
    assert Counter(copy.rows()) == expected


def test_drivers_of_a_stream_killed_at_any_moment(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(FILES):
        put(tmp_path / "in", number)
    draw = random.Random(3)
    there = 0
    for _ in range(DEATHS):
        driver = start(tmp_path)
        assert driver.stdout is not None
        assert driver.stdout.readline() == "running\n", (tmp_path / "errors").read_text()[-3000:]
        told = 0
        for _ in range(draw.randrange(1, 6)):  # a few batches, then anywhere in the next
            told = max(told, int(driver.stdout.readline().split()[1]))
        time.sleep(draw.random() * 0.5)
        driver.send_signal(signal.SIGKILL)
        told = max([told, *(int(line.split()[1]) for line in driver.stdout if line.startswith("files"))])
        driver.wait()
        found = check_state(tmp_path, told)
        assert there < found < FILES, "it went on, and there is more to do"
        there = found
    driver = start(tmp_path)
    said = driver.communicate(timeout=400)[0].splitlines()
    assert (driver.returncode, said[-1]) == (0, "done"), (tmp_path / "errors").read_text()[-3000:]
    assert check_state(tmp_path, FILES) == FILES
    check_sink(tmp_path)
