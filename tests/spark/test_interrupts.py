"""Ctrl-C while tasks run: the prompt comes back, nothing goes on in the workers, and the session goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import everview as ev
from everview import col, lit
from tests.inside import inside

pytestmark = pytest.mark.spark


def endless(db: Any) -> tuple[Any, Any]:
    """A view that counts for a very long time from the rows of a table on."""
    start = db.table("start", {"n": int})
    below = start.filter(col.n < 100)  # only these begin to count
    up = below.iterate(lambda v: v.select(n=(v.n + 1) % lit(10**9)).union_all(below).distinct(), max_rounds=10**9)
    return start, db.view("up", up)


def ticks(root: int) -> int:
    """CPU ticks that a process's descendants in Python have taken so far."""
    parents: dict[int, int] = {}
    taken: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                name, _, rest = (entry / "stat").read_text().rpartition(")")
            except OSError:
                continue
            fields = rest.split()
            parents[int(entry.name)] = int(fields[1])
            if "python" in name:
                taken[int(entry.name)] = int(fields[11]) + int(fields[12])

    def below(pid: int) -> bool:
        while pid in parents and pid != root:
            pid = parents[pid]
        return pid == root

    return sum(used for pid, used in taken.items() if pid != root and below(pid))


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="resident"),
        pytest.param({"linger": 0}, id="a job"),
        pytest.param({"alone_rows": 0}, id="a gang", marks=pytest.mark.slow),
    ],
)
def test_an_endless_step_is_interrupted(spark: Any, tmp_path: Path, options: dict[str, Any]) -> None:
    with ev.connect(spark, state=str(tmp_path), shards=2, **options) as db:
        start, up = endless(db)
        start.insert([(1000,)])
        before = signal.signal(signal.SIGINT, signal.default_int_handler)  # Spark's own would cancel all jobs
        threading.Timer(3.0, os.kill, (os.getpid(), signal.SIGINT)).start()
        began = time.monotonic()
        try:
            with pytest.raises(KeyboardInterrupt):
                start.insert([(1,)])
        finally:
            signal.signal(signal.SIGINT, before)
        assert time.monotonic() - began < 10
        assert (db.time, up.rows(), start.rows()) == (1, [], [(1000,)])
        start.insert([(1001,)])  # the session goes on
        assert sorted(start.rows()) == [(1000,), (1001,)]
        deadline = time.monotonic() + 20
        while spark.sparkContext.statusTracker().getActiveJobsIds() and time.monotonic() < deadline:
            time.sleep(0.1)
        while time.monotonic() < deadline:
            used = ticks(os.getpid())
            time.sleep(1.0)
            if ticks(os.getpid()) - used < 0.3 * os.sysconf("SC_CLK_TCK"):
                break
        else:
            pytest.fail("a worker is still busy")
    with ev.connect(spark, state=str(tmp_path)) as db:
        assert (db.time, db["up"].rows()) == (2, [])


def test_an_interrupt_while_the_step_is_committed(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is heard when the step is complete."""
    with ev.connect(spark, state=str(tmp_path), shards=2) as db:
        t = db.table("t", {"x": int})
        v = db.view("v", t.distinct())
        real = inside(db).runtime.backing.store.files.create

        def create(name: str, data: Any) -> bool:
            made = real(name, data)
            signal.raise_signal(signal.SIGINT)
            return bool(made)

        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        monkeypatch.setattr(inside(db).runtime.backing.store.files, "create", create)
        try:
            with pytest.raises(KeyboardInterrupt):
                t.insert([(1,)])
        finally:
            monkeypatch.undo()
            signal.signal(signal.SIGINT, before)
        assert (db.time, v.rows()) == (1, [(1,)])
        t.insert([(2,)])
        assert (db.time, sorted(v.rows())) == (2, [(1,), (2,)])


@pytest.mark.slow
def test_an_interrupt_while_spark_starts_leaves_no_jvm_behind() -> None:
    program = "from everview.spark import local_session; local_session(); print('started', flush=True)"
    driver = subprocess.Popen(
        [sys.executable, "-c", program],
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # shells ignore it in the background
    )
    try:
        wait_until(lambda: any("spark.deploy.SparkSubmit" in command for command in running(driver.pid)))
        driver.send_signal(signal.SIGINT)
        assert driver.wait(120) != 0
        wait_until(lambda: not running(driver.pid))
    finally:
        with suppress(ProcessLookupError):
            os.killpg(driver.pid, signal.SIGKILL)


def running(group: int) -> list[str]:
    """The commands of a process group that are running."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has just ended
            if os.getpgid(int(path.name)) == group and "zombie" not in (path / "status").read_text():
                found.append((path / "cmdline").read_text())
    return found


def wait_until(true: Callable[[], bool], seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)
