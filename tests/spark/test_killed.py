"""kill -9 at random instants, on a real Spark: the driver's Python, its JVM, executors, Python workers.

After every death of a driver the directory is opened and compared with the model (`killing`): all that was acknowledged
is there, at most one transaction more, and views are those of the same moment; the sink has nothing twice. When the
last driver has ended in peace the sink has every change once. Seeds are fixed; to try others: EVERVIEW_SEED=17.
EVERVIEW_KILLS says how many kills the long form is to count.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import everview as ev
from tests.spark import clusters, killing

pytestmark = pytest.mark.spark

SEED = int(os.environ.get("EVERVIEW_SEED", "1"))
KILLS = int(os.environ.get("EVERVIEW_KILLS", "100"))
PATIENCE = 500.0
"""Seconds for a driver to start, or to end: a JVM takes minutes on a machine that is very busy."""


def processes() -> dict[int, tuple[int, bytes]]:
    """Parent and command of all processes."""
    found: dict[int, tuple[int, bytes]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                found[int(entry.name)] = parent, (entry / "cmdline").read_bytes()
    return found


def below(root: int) -> dict[int, tuple[int, bytes]]:
    """The processes that a process has started, and those have started."""
    known = processes()

    def is_below(pid: int) -> bool:
        while pid in known and pid != root:
            pid = known[pid][0]
        return pid == root

    return {pid: what for pid, what in known.items() if pid != root and is_below(pid)}


def victims(kind: str, driver: int) -> list[int]:
    """Processes of a kind that belong to a driver."""
    if kind == "driver":
        return [driver]
    family = below(driver)
    if kind == "jvm":
        return [pid for pid, (parent, command) in family.items() if parent == driver and b"java" in command]
    if kind == "executor":
        return [pid for pid, (_, command) in family.items() if b"CoarseGrainedExecutorBackend" in command]
    daemons = {pid for pid, (_, command) in family.items() if b"pyspark.daemon" in command}
    return [pid for pid in daemons if family[pid][0] in daemons]  # the daemon's children are the workers


class Life:
    """A driver from its start to its end."""

    def __init__(self, work: Path, master: str, env: dict[str, str], seed: int, alone_rows: int) -> None:
        self._errors = work / "errors"
        command = [sys.executable, "-m", "tests.spark.killing", master, str(work), str(seed), str(alone_rows)]
        with self._errors.open("a") as errors:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=errors, text=True, env=env, cwd=clusters.ROOT
            )
        self.told = 0
        self.refused = 0
        self.said: list[str] = []
        self._running = threading.Event()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            what, *numbers = line.split()
            self.said.append(what)
            if what == "done":
                self.told = int(numbers[0])
            elif what == "refused":
                self.refused += 1
            elif what == "running":
                self.told = int(numbers[1])
                self._running.set()
        self._running.set()

    def wait_until_running(self) -> None:
        assert self._running.wait(PATIENCE) and "running" in self.said, self.errors()

    def wait_for(self, told: int, seconds: float = PATIENCE) -> None:
        """Wait until it has told of a transaction."""
        until = time.monotonic() + seconds
        while self.told < told and self.process.poll() is None and time.monotonic() < until:
            time.sleep(0.02)
        assert self.told >= told or self.process.poll() is not None, f"{self.told} < {told}\n{self.errors()}"

    def kill(self, kind: str, draw: random.Random) -> bool:
        """Kill one process of a kind; waits for one, if there is none because another was killed a moment ago."""
        until = time.monotonic() + PATIENCE
        while self.process.poll() is None and time.monotonic() < until:
            found = victims(kind, self.process.pid)
            if found:
                with suppress(ProcessLookupError):
                    os.kill(draw.choice(sorted(found)), signal.SIGKILL)
                    return True
            time.sleep(0.02)
        return False

    def end(self) -> int:
        """Wait until all of it has ended; what lives on without its driver is ended, too."""
        family = below(self.process.pid)
        try:
            code = self.process.wait(PATIENCE)
        finally:
            until = time.monotonic() + 20
            while (left := self._left(family)) and time.monotonic() < until:
                time.sleep(0.1)
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self._listener.join(10)
        return code

    def _left(self, family: dict[int, tuple[int, bytes]]) -> list[int]:
        now = processes()
        return [pid for pid, (_, command) in family.items() if pid in now and now[pid][1] == command]

    def errors(self) -> str:
        return self._errors.read_text(errors="replace")[-4000:]


@contextmanager
def life(*arguments: Any) -> Iterator[Life]:
    made = Life(*arguments)
    try:
        yield made
    finally:
        if made.process.poll() is None:
            made.process.kill()
        made.end()


def check(work: Path, seed: int, told: int) -> int:
    """What a dead driver left; gives the number of transactions in it."""
    with ev.connect(work / "state", read_only=True) as db:
        if "paths" not in db.views:
            assert told == 0
            return 0
        n = killing.applied(db)
        assert told <= n <= told + 1, f"{told} transactions were acknowledged, {n} are there"
        assert killing.found(db) == killing.contents(seed, n)
    changes = killing.written(work / "out")
    assert set(changes.values()) <= {1}, [change for change, times in changes.items() if times > 1]
    return n


def check_sink(work: Path, seed: int, n: int) -> None:
    """All changes of all times, each once: their sums are the view at every time it had."""
    changes = killing.written(work / "out")
    assert set(changes.values()) == {1}
    sums: Counter[Any] = Counter()
    for row, _, diff in changes:
        sums[row] += diff
    assert {row: count for row, count in sums.items() if count} == killing.contents(seed, n)["totals"]
    times = sorted({time for _, time, _ in changes})
    expected = [
        m for m in range(1, n + 1) if killing.contents(seed, m)["totals"] != killing.contents(seed, m - 1)["totals"]
    ]
    assert len(times) == len(expected), "a time for every transaction that changed the view"


def killed(
    work: Path,
    master: str,
    env: dict[str, str],
    seed: int,
    lives: Callable[[random.Random, int], list[str] | None],
    spread: Callable[[random.Random], bool] = lambda draw: draw.random() < 0.25,
) -> Counter[str]:
    """Drivers, one after the other, each with the kills that `lives` says (the last of them ends it), until it says
    None; then one that ends in peace. Steps of those that are `spread` run in a gang, others in one task. Gives the
    number of kills by kind.
    """
    draw = random.Random(seed)
    count: Counter[str] = Counter()
    there = 0
    while (kinds := lives(draw, sum(count.values()))) is not None:
        alone_rows = 0 if spread(draw) else 1
        with life(work, master, env, seed, alone_rows) as driver:
            driver.wait_until_running()
            assert driver.told == there, "a new driver finds what was found without it"
            for kind in kinds:
                time.sleep(draw.random() * draw.choice((0.05, 0.5, 2.0)))  # in a step, or soon after another kill
                count[kind] += driver.kill(kind, draw)
                if kind not in ("driver", "jvm") and draw.random() < 0.7:
                    driver.wait_for(driver.told + draw.randrange(1, 4))  # it goes on
                if driver.process.poll() is not None:
                    assert kind in ("driver", "jvm"), f"it ended when a {kind} was killed\n{driver.errors()}"
                    break
            assert driver.end() != 0, "it was killed"
            there = check(work, seed, driver.told)
            print(f"{dict(count)}: {there} transactions", flush=True)
    with life(work, master, env, seed, 1) as driver:
        driver.wait_until_running()
        driver.wait_for(there + 5)
        (work / "stop").touch()
        assert driver.end() == 0 and driver.said[-1] == "stopped", driver.errors()
        there = check(work, seed, driver.told)
        assert there == driver.told
    check_sink(work, seed, there)
    return +count


def test_a_few_kills(tmp_path: Path) -> None:
    """Workers and their driver on local[2]: in one task, then in a gang."""
    plan, spread = iter([["worker", "worker", "driver"], ["worker", "worker", "driver"]]), iter([False, True])
    env = clusters.environment(clusters.home(tmp_path / "home"))
    count = killed(tmp_path, "local[2]", env, SEED, lambda draw, kills: next(plan, None), lambda draw: next(spread))
    assert count == {"worker": 4, "driver": 2}


@pytest.mark.parametrize("alone_rows", [1, pytest.param(0, marks=[pytest.mark.slow, pytest.mark.long])])
def test_a_dead_jvm_is_no_job_that_was_given_up(tmp_path: Path, alone_rows: int) -> None:
    """The driver says so, once, and ends; a resident task may run the steps, or a barrier stage."""
    env = clusters.environment(clusters.home(tmp_path / "home"))
    with life(tmp_path, "local[2]", env, SEED, alone_rows) as driver:
        driver.wait_until_running()
        driver.wait_for(2)
        assert driver.kill("jvm", random.Random(SEED))
        assert driver.process.wait(60) == 1 and driver.refused <= 1
        driver.end()
        assert "[E_SPARK] Spark's JVM has ended" in driver.errors(), driver.errors()
        check(tmp_path, SEED, driver.told)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(6000)
@pytest.mark.parametrize("master", ["local[2]", "local-cluster[2,1,1024]"])
def test_members_of_a_gang_killed_many_times(tmp_path: Path, master: str) -> None:
    """In one life of a driver, mostly in the middle of steps; with executors, where there are any."""
    kinds = ["worker", "executor"] if master.startswith("local-cluster") else ["worker"]
    plan = iter([[*(kinds[i % 7 == 6 and len(kinds) > 1] for i in range(KILLS)), "driver"]])
    env = clusters.environment(clusters.home(tmp_path / "home"))
    count = killed(tmp_path, master, env, SEED, lambda draw, kills: next(plan, None), lambda draw: True)
    assert sum(count.values()) >= 0.9 * KILLS and count["driver"] == 1, count


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(6000)
def test_many_kills(tmp_path: Path) -> None:
    """All kinds, on executors that are processes of their own."""

    def lives(draw: random.Random, kills: int) -> list[str] | None:
        if kills >= KILLS:
            return None
        few = [draw.choice(("worker", "worker", "executor")) for _ in range(draw.randrange(2, 8))]
        return [*few, draw.choice(("driver", "jvm"))]

    env = clusters.environment(clusters.home(tmp_path / "home"))
    count = killed(tmp_path, "local-cluster[2,1,1024]", env, SEED, lives)
    assert sum(count.values()) >= KILLS and set(count) == {"worker", "executor", "driver", "jvm"}, count
