"""Directories with every feature in them: closed, killed, damaged, cut off, and equal to a model afterwards.

`everything.Model` says what is done and what must be there. Embedded, with state in files (`memory=`), and in shards,
whose steps two processes' worth of memory take in turn. The long forms take EVERVIEW_SEED, and EVERVIEW_KILLS or
EVERVIEW_DAMAGES.
"""

from __future__ import annotations

import os
import random
import signal
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import everview as ev
from everview.kernels.build.native import DEBUG
from everview.kernels.guarded_calls import CELL_FAIL_IN, CELL_FAULTS, CELL_TRACK_FROM
from everview.kernels.memory import cell
from everview.runtime import spill
from tests.spark import inprocess
from tests.store.damages import copied, damage
from tests.store.durably import die
from tests.store.everything import Model, declare
from tests.store.killing import Nursery, lines, wait_until_ready

SEED = int(os.environ.get("EVERVIEW_SEED", "1"))
KILLS = int(os.environ.get("EVERVIEW_KILLS", "500"))
DAMAGES = int(os.environ.get("EVERVIEW_DAMAGES", "1000"))
WAYS = ["embedded", "shards"] if DEBUG else ["embedded", "memory", "shards"]
"""The bounds-checked build reads no memory but its own."""


def opened(where: Path, way: str, **more: Any) -> Any:
    if way == "shards":
        return ev.connect(inprocess.session(), state=str(where), shards=2)
    return ev.connect(where, memory="1MB" if way == "memory" else None, **more)


class Life:
    """A directory, its model, and a session."""

    def __init__(self, where: Path, seed: int, way: str) -> None:
        self.where, self.way = where, way
        self.fate = random.Random(seed)
        self.model = Model(seed)
        self._open()

    def _open(self) -> None:
        self.db = opened(self.where, self.way)
        declare(self.db)
        self.model.set_clock(self.db)

    def act(self) -> None:
        kind, call = self.model.act()
        try:
            call(self.db)
        except BaseException as error:
            error.add_note(f"act {self.model.number} of seed {self.model.seed}, {self.way}: {kind}")
            raise

    def again(self) -> None:
        """Another session, after an end with or without notice."""
        assert self.db.check() == []
        if self.way != "shards" and self.fate.random() < 0.6:
            die(self.db)
        else:
            self.db.close()
        self._open()
        self.model.compare(self.db)

    def run(self, acts: int, again: float) -> None:
        for _ in range(acts):
            self.act()
            self.model.compare(self.db)
            if self.fate.random() < again:
                self.again()
        self.again()
        self.db.close()


@pytest.mark.parametrize("way", WAYS)
def test_a_few_acts(tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spill, "SMALLEST", 1)
    Life(tmp_path / "state", 1, way).run(5, 0)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", range(SEED, SEED + 2))
def test_many_acts(tmp_path: Path, way: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spill, "SMALLEST", 1)
    Life(tmp_path / "state", seed, way).run(200, 0.04)


# kill -9


def kill_again_and_again(where: Path, seed: int, deaths: int, way: str, log_bytes: int) -> int:
    """Gives the number of acts in the end."""
    fate, model = random.Random(seed), Model(seed)
    said = where.with_name("said")
    where.parent.mkdir(parents=True, exist_ok=True)
    with Nursery() as nursery:
        for death in range(deaths):
            said.unlink(missing_ok=True)
            pid = nursery.start("everything", where, seed, model.number, way, log_bytes, said)
            try:
                if death == 0 or fate.random() < 0.85:  # else it may die while it is opening
                    wait_until_ready(said, pid)
                time.sleep(fate.random() * fate.choice([0.1, 0.5, 1.5]))
            finally:
                os.kill(pid, signal.SIGKILL)
                status = nursery.wait(pid)
            told = [line for line in lines(said) if line != "ready"]
            ended = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
            assert ended, f"it ended by itself, seed {seed}, act {model.number + len(told)}: {told[-1:]}"
            for _ in told:
                model.act()
            assert model.number == int(told[-1]) if told else True
            model = found_after(where, model, way)
    return model.number


def found_after(where: Path, model: Model, way: str) -> Model:
    """What a directory holds after a death: the model, or the model after one act more."""
    more = model.copy()
    kind, _ = more.act()
    with opened(where, way) as db:
        declare(db)
        try:
            model.compare(db)
            found = model
        except AssertionError as before:
            try:
                more.compare(db)
                found = more
            except AssertionError as after:
                what = f"seed {model.seed}, act {model.number}, then {kind}, {way}"
                raise AssertionError(f"{what}: neither before ({before}) nor after ({after})") from None
        assert db.check() == []
    return found


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_some_deaths(tmp_path: Path) -> None:
    assert kill_again_and_again(tmp_path / "state", 3, 6, "embedded", 30_000) > 0


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(14400)
def test_many_deaths(tmp_path: Path) -> None:
    """Twenty-five in every directory."""
    done = acts = 0
    while done < KILLS:
        deaths = min(25, KILLS - done)
        way, log_bytes = ("embedded", "memory")[done // 25 % 2], (3_000, 1_000_000, 30_000)[done // 25 % 3]
        acts += kill_again_and_again(tmp_path / str(done) / "state", SEED + done, deaths, way, log_bytes)
        done += deaths
        print(f"{done} deaths, {acts} acts", flush=True)


# no memory


class Starved(Life):
    """Allocations of kernels fail: the call is refused without a trace, and works when it is made again."""

    def __init__(self, where: Path, seed: int, way: str) -> None:
        super().__init__(where, seed, way)
        self.failures: Counter[str] = Counter()
        self._usual: Counter[str] = Counter()

    def act(self) -> None:
        after = self.model.copy()
        kind, call = after.act()
        for fail_in in (*(self.fate.randrange(1, 3 + int(1.3 * self._usual[kind])) for _ in range(3)), 1 << 40):
            cell[CELL_FAIL_IN] = fail_in
            try:
                call(self.db)
            except ev.MemoryLimitError as error:
                cell[CELL_FAIL_IN] = 0
                assert error.code == "E_MEMORY"
                self.failures[kind] += 1
                self._compare(kind, after)
                continue
            finally:
                left, cell[CELL_FAIL_IN] = int(cell[CELL_FAIL_IN]), 0
            self._usual[kind] = max(self._usual[kind], fail_in - left)
            break
        self.model = after
        assert cell[CELL_FAULTS] == 0

    def _compare(self, kind: str, after: Model) -> None:
        try:
            self.model.compare(self.db)
        except AssertionError:
            if kind != "ask":  # the value of a prepared query is kept, though its answer could not be read
                raise
            after.compare(self.db)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("way", [w for w in WAYS if w != "shards"])
def test_allocations_that_fail(tmp_path: Path, way: str) -> None:
    usual, cell[CELL_TRACK_FROM] = int(cell[CELL_TRACK_FROM]), 0
    try:
        life = Starved(tmp_path / "state", SEED, way)
        life.run(60, 0.04)
        assert life.failures.total() > 40
    finally:
        cell[CELL_TRACK_FROM] = usual


# damage


class Damaged:
    """A directory after some acts, older copies of it, and its model."""

    def __init__(self, tmp_path: Path, seed: int, way: str, acts: int = 60) -> None:
        self.way, self.work = way, tmp_path / "work"
        life = Life(tmp_path / "state", seed, way)
        self.older: list[Path] = []
        for number in range(acts):
            life.act()
            if number % 10 == 4:
                self.older.append(copied(life.where, tmp_path / f"older{number}"))
            if way != "shards" and number in (acts // 3, 2 * acts // 3):
                life.db.checkpoint()
        if way != "shards" and seed % 2:
            die(life.db)
        else:
            life.db.close()
        self.where, self.model = life.where, life.model

    def try_one(self, seed: int) -> str:
        """Damage a copy and open it; what came of it."""
        source = random.Random(seed)
        copied(self.where, self.work)
        done = damage(self.work, self.older, source)
        if done is None:
            return "nothing changed"
        more = {} if self.way == "shards" or source.random() < 0.6 else {"read_only": True}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                db = opened(self.work, "embedded" if more else self.way, **more)
                try:
                    self.model.compare_rows(db)
                finally:
                    db.close()
        except ev.EverviewError as error:
            assert error.code in ("E_DAMAGED", "E_TORN"), (self.way, seed, done, error)
            return "noticed"
        except AssertionError as error:
            raise AssertionError(f"{self.way}, seed {seed}, {done}, {more}: {error}") from None
        return "all there"


@pytest.mark.slow
@pytest.mark.parametrize("way", ["embedded", "shards"])
def test_some_damages(tmp_path: Path, way: str) -> None:
    case = Damaged(tmp_path, 3, way)
    assert Counter(case.try_one(seed) for seed in range(20))["noticed"] > 0


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(14400)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", [3, 4])
def test_many_damages(tmp_path: Path, way: str, seed: int) -> None:
    case = Damaged(tmp_path, seed, way)
    count = DAMAGES // (2 * len(WAYS))
    print(way, seed, dict(Counter(case.try_one(1000 * seed + n) for n in range(count))), flush=True)
