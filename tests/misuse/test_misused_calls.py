"""Every public call with arguments that make no sense: only Everview's own errors come out, and the session goes on.

How it is done, and what counts as an error of Everview's, is said in `tests.misuse.calling`.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import everview as ev
from everview import col
from tests.misuse.calling import Call, Scene, methods, misuse, odd

LEFT_OUT = {"to_spark", "run", "source", "write_to", "advance", "close"}
"""Calls that need a Spark, wait for ever, write files, or end the session; pipelines have a test of their own."""


OPTIONS: dict[str, list[Any]] = {
    "target": ["dir", "", "dir/t", "/dev/null", "/proc/x", "a\0b", "\ud800", "nope://x", Path("d"), b"d", "x" * 5000],
    "sync": ["normal", "full", "", None, 1, "no such", []],
    "read_only": [True, False, None, "yes"],
    "functions": [(), [len], {"f": len}, {"f": 1}, {1: len}, 5, "x", [None]],
    "trust": [True, False, None, "yes", 1],
    "threads": [1, 2, 3, 0, "2", None, True, 1.0],
    "merge_effort": [1, 64, 0, -1, "4", None, 2**70, 1.5],
    "history": [0, 1, -1, "4", None, 2**70, 1.5, True],
}  # fmt: skip


class Sessions(Scene):
    """A session with tables and a view."""

    def session(self) -> ev.Session:
        db = ev.connect()
        t = db.table("t", {"x": int, "y": str})
        db.table("k", {"id": int, "v": float | None}, key="id")
        db.view("v", t.group_by("x").agg(n=ev.count()))
        t.insert([(1, "a"), (2, "b")])
        self.result = db.sql("SELECT 1 AS x")
        return db

    def calls(self) -> Iterable[Call]:
        db = self.db
        held = [db, db["t"], db["k"], db["v"], db["t"].select("x"), db["t"].group_by("x"), db["v"].as_of(db.time)]
        yield from methods([*held, col.x, self.result], LEFT_OUT)
        for _ in range(5):
            directory = {"sync": "normal", "read_only": False, "trust": False, "functions": (), "files": True}
            yield Call("connect to a directory", ev.connect, ("dir",), directory, then=self._use)
        for name in ("lit", "udf", "when", "count", "greatest", "least", "tuple_", "decimal", "fixpoint", "connect"):
            yield Call(name, getattr(ev, name))

    def odd(self, rng: random.Random, parameter: str) -> Any:
        if parameter in OPTIONS and rng.random() < 0.7:
            return rng.choice(OPTIONS[parameter])
        return odd(rng, self.db)

    def _use(self, db: Any) -> None:
        with db:
            if "t" not in db:
                db.table("t", {"x": int}).insert([(1,)])
            assert db["t"].rows()

    def whole(self) -> bool:
        return {"t", "k", "v"} <= {*self.db.tables, *self.db.views}

    def check(self) -> None:
        if self.whole():
            self.db["t"].insert([(7, "still here")])
            assert (7, "still here") in self.db["t"].rows()


def test_500_misused_calls() -> None:
    assert misuse(1, 500, Sessions) == Counter()


@pytest.mark.slow
@pytest.mark.long
def test_10000_misused_calls() -> None:
    assert sum((misuse(seed, 1000, Sessions) for seed in range(2, 12)), Counter[str]()) == Counter()
