"""Sessions killed with kill -9 at random moments: after each death the views equal a computation from scratch over
exactly the acknowledged transactions, or those and the one (or the batch) that was under way, and a sink has every
change once.

Input is a function of the transaction's number (`killing`): the test knows what every prefix of it gives. The long form
counts EVERVIEW_KILLS deaths (1,000 if nobody says) from EVERVIEW_SEED on, in directories with different settings.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import everview as ev
from tests.inside import inside
from tests.store.killing import Edge, Nursery, at_once, lines, present, wait_until_ready

SEED = int(os.environ.get("EVERVIEW_SEED", "1"))
KILLS = int(os.environ.get("EVERVIEW_KILLS", "1000"))
SETTINGS = [(3_000, "normal"), (1_000_000, "normal"), (10_000, "full")]


def reachable(found: list[Edge]) -> set[int]:
    reached, todo = {0}, [0]
    while todo:
        node = todo.pop()
        for src, dst, _ in found:
            if src == node and dst not in reached:
                reached.add(dst)
                todo.append(dst)
    return reached


def check(where: Path | str, acknowledged: int, out: str = "") -> int:
    """Open what was left behind and compare it; gives the number of transactions that are there. A sink is allowed to
    catch up first.
    """
    with ev.connect(where) as db:
        offsets = inside(db).runtime.offsets
        attached = sum(name.startswith("sink/") for name in offsets)  # which is a step of its own
        count = db.time - attached
        assert count in (acknowledged, acknowledged + at_once(acknowledged))
        assert int(offsets.get("number", 0)) == count
        if "labels" not in db:
            assert count == 0
            return count
        now = present(count)
        assert sorted(db["edge"].rows()) == sorted(now)
        assert {n for (n,) in db["reach"].rows()} == (reachable(now) if count else set())
        tops: dict[str, int] = {}
        for _, dst, label in now:
            tops[label] = max(dst, tops.get(label, -1))
        amounts = Counter(label for *_, label in now)
        assert sorted(db["labels"].rows()) == sorted((label, n, tops[label]) for label, n in amounts.items())
        assert db.check() == []
        if out:
            check_sink(db, out, count)
        return count


def check_sink(db: Any, out: str, count: int) -> None:
    """Nothing twice before the sink catches up, and after it what it holds sums up to the view."""
    assert set(written(out).values()) <= {1}
    db["labels"].write_to(ev.io.json(out))
    changes = written(out)
    assert set(changes.values()) <= {1}
    sums: Counter[Any] = Counter()
    for row, at, diff in changes:
        assert 1 < at <= db.time
        sums[row] += diff
    assert {row: n for row, n in sums.items() if n} == Counter(db["labels"].rows())
    assert len({at for _, at, _ in changes}) == count, "every transaction changes the view"


def written(out: str) -> Counter[Any]:
    """The changes that the sink holds: (row, time, diff), and how often."""
    texts = (path.read_text() for path in Path(out).glob("changes-*.json"))
    found = (json.loads(line) for text in texts for line in text.splitlines())
    return Counter(((c["label"], c["n"], c["top"]), c["_time"], c["_diff"]) for c in found)


def kill_again_and_again(where: Path | str, deaths: int, log_bytes: int, sync: str, seed: int, out: str = "") -> int:
    """Gives the number of transactions in the end."""
    source = random.Random(seed)
    acknowledged = 0
    said = Path(os.environ.get("TMPDIR", "/tmp")) / f"everview-said-{os.getpid()}"
    with Nursery() as nursery:
        for _ in range(deaths):
            said.unlink(missing_ok=True)
            pid = nursery.start(where, out, log_bytes, sync, said)
            try:
                if source.random() < 0.8:  # else it may die while it is opening
                    wait_until_ready(said, pid)
                    time.sleep(source.random() * 0.3)
                else:
                    time.sleep(source.random() * 0.3)
            finally:
                os.kill(pid, signal.SIGKILL)
                status = nursery.wait(pid)
            assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, "nothing else ended it"
            told = [int(line) for line in lines(said) if line != "ready"]
            acknowledged = check(where, max([acknowledged, *told]), out)
    said.unlink(missing_ok=True)
    return acknowledged


def test_two_deaths(tmp_path: Path) -> None:
    assert kill_again_and_again(tmp_path / "state", 2, 30_000, "normal", 3, str(tmp_path / "out")) > 0


@pytest.mark.slow
@pytest.mark.parametrize(("log_bytes", "sync"), [(3_000, "normal"), (1_000_000, "normal"), (10_000, "full")])
def test_many_deaths(tmp_path: Path, log_bytes: int, sync: str) -> None:
    assert kill_again_and_again(tmp_path / "state", 8, log_bytes, sync, log_bytes, str(tmp_path / "out")) > 20


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(7200)
def test_a_thousand_deaths(tmp_path: Path) -> None:
    """Twenty-five in every directory, so that there are young ones, too."""
    done = transactions = 0
    while done < KILLS:
        log_bytes, sync = SETTINGS[done // 25 % len(SETTINGS)]
        work = tmp_path / str(done)
        deaths = min(25, KILLS - done)
        transactions += kill_again_and_again(work / "state", deaths, log_bytes, sync, SEED + done, str(work / "out"))
        done += deaths
        print(f"{done} deaths, {transactions} transactions", flush=True)
