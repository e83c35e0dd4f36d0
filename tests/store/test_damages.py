"""Every file of a directory damaged in every way: it opens with exactly what was acknowledged, or is E_DAMAGED.

The directories are of embedded sessions, with and without a checkpoint, closed and killed, and of shards in one
process. `EVERVIEW_DAMAGES=5000 pytest -m long tests/store/test_damages.py -s` is the long form; a failure
names its seed.
"""

from __future__ import annotations

import os
import random
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import everview as ev
from tests.spark import inprocess
from tests.store.damages import copied, damage
from tests.store.durably import die

NOTICED = {"E_DAMAGED", "E_TORN"}
"""What opening or reading may say instead of giving everything."""


def fill(db: Any, keep: Callable[[], None], checkpoints: tuple[int, ...]) -> None:
    """Some steps; `keep` copies the directory in between."""
    t = db.table("t", {"x": int, "s": str})
    db.view("v", t.group_by("s").agg(n=ev.count(), top=t.x.max()))
    for i in range(8):
        t.insert([(i, f"word {i % 3}")])
        if i == 4:
            t.insert({"x": np.arange(900) + 1000, "s": np.array([f"word {k % 50}" for k in range(900)])})
        if i in checkpoints:
            db.checkpoint()
        keep()


def contents(db: Any) -> Any:
    return db.time, sorted(db["t"].rows()), sorted(db["v"].rows())


def embedded(where: Path) -> Any:
    return ev.connect(where)


def reading(where: Path) -> Any:
    return ev.connect(where, read_only=True)


def sharded(where: Path) -> Any:
    return ev.connect(inprocess.session(), state=str(where), shards=2)


CHECKPOINTS = {"checkpoint": (5,), "checkpoints": (1, 3, 5, 7)}
"""After which steps versions are made."""


class Case:
    """A directory, older copies of it, and what it holds."""

    def __init__(self, tmp_path: Path, kind: str) -> None:
        self.where, self.kind = tmp_path / "db", kind
        self.opens = [sharded] if kind == "shards" else [embedded, reading]
        self.older: list[Path] = []
        db = self.opens[0](self.where)
        fill(db, self._keep, CHECKPOINTS.get(kind.split(",")[0], ()))
        self.wanted = contents(db)
        if "killed" in kind:
            die(db)
        else:
            db.close()
        self.work = tmp_path / "work"

    def _keep(self) -> None:
        self.older.append(copied(self.where, self.where.with_name(f"older{len(self.older)}")))

    def try_one(self, seed: int) -> str:
        """Damage a copy and open it; what came of it."""
        source = random.Random(seed)
        copied(self.where, self.work)
        done = damage(self.work, self.older, source)
        if done is None:
            return "nothing changed"
        opener = source.choice(self.opens)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                db = opener(self.work)
                try:
                    found = contents(db)
                finally:
                    db.close()
        except ev.EverviewError as error:
            assert error.code in NOTICED, (self.kind, seed, done, error)
            return "noticed"
        assert found == self.wanted, (self.kind, seed, done, opener.__name__, found[0], self.wanted[0])
        return "all there"


KINDS = ["log only,killed", "log only,closed", "checkpoint,killed", "checkpoints,closed", "shards"]


@pytest.mark.parametrize("kind", KINDS)
def test_some_damages(tmp_path: Path, kind: str) -> None:
    case = Case(tmp_path, kind)
    results = Counter(case.try_one(seed) for seed in range(15))
    assert results["noticed"] > 0


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kind", KINDS)
def test_many_damages(tmp_path: Path, kind: str) -> None:
    case = Case(tmp_path, kind)
    count = int(os.environ.get("EVERVIEW_DAMAGES", "5000")) // len(KINDS)
    results = Counter(case.try_one(seed) for seed in range(1000, 1000 + count))
    print(f"{kind}: {dict(results)}")
