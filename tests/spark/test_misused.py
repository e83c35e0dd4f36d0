"""Sessions on Spark, and what Spark is given, with arguments that make no sense: the errors are ours.

One session serves all calls, because opening one takes seconds; it answers afterwards as before.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import everview as ev
from tests.misuse.calling import Call, Scene, methods, misuse, odd

pytestmark = pytest.mark.spark

LEFT_OUT = {"close", "advance", "run", "source", "write_to", "to_spark", "clear"}

OPTIONS: dict[str, list[Any]] = {
    "state": ["", None, 5, "/dev/null", "/proc/x", "a\0b", "\ud800", "nope://x", b"state", [], Path("/dev/null/x")],
    "shards": [0, -1, 5000, "2", 1.5, True],
    "alone_rows": [-1, "x", 1.5, True],
    "alone_bytes": [-1, "1GB", 1.5, True],
    "linger": [-1, "x", None, float("nan")],
    "forget": [-1, "x", float("nan")],
    "read_only": [None, "yes", 1],
    "trust": [None, "yes", 1],
    "functions": [5, "x", {"f": 1}, [None]],
    "history": [-1, "x", 1.5, None],
    "until": ["caught_up", "x", -1, [], float("nan")],
    "key": ["x", "no such", [], 5, ["x", "x"], [None]],
    "mode": ["append", "upsert", "changes", "snapshot", "no such", 5],
    "schema": [{"x": int}, {"x": str}, {}, {"x": 5}, 5, {"z": int}],
    "max_rows_per_step": [0, "x", 5, None],
    "url": ["jdbc:nope:x", "", None, 5, "\0"],
    "table": ["v", "", None, 5, "no such; drop"],
    "servers": ["127.0.0.1:1", "", None, 5],
    "topic": ["t", "", None, 5],
    "changes": [True, False, None, "x"],
}


class OnSpark(Scene):
    """Tables, views and frames, on one session for all."""

    each = 10**9
    spark: Any = None
    held: Any = None

    def session(self) -> ev.Session:
        db: ev.Session = self.held
        if "t" not in db:
            t = db.table("t", {"x": int, "y": str})
            t.insert([(1, "a"), (2, "b")])
        if "v" not in db:
            db.view("v", db["t"].group_by("x").agg(n=ev.count()))
        self.frames = [self.spark.range(3), self.spark.createDataFrame([(1, "a")], "x int, y string")]
        return db

    def odd(self, rng: random.Random, parameter: str) -> Any:
        if parameter in OPTIONS and rng.random() < 0.9:
            return rng.choice(OPTIONS[parameter])
        return rng.choice([odd(rng, self.db), *self.frames, self.spark])

    def calls(self) -> Iterable[Call]:
        db, spark, view = self.db, self.spark, self.db["v"]
        number = len(db.tables)
        named = {
            "state": "odd",
            "shards": 2,
            "trust": False,
            "read_only": False,
            "functions": (),
            "linger": 1,
            "forget": 1,
        }
        for _ in range(4):
            yield Call("connect", self._connect, (spark,), named)
            yield Call("source", db.source, (f"s{number}", self.frames[1]), then=lambda t: db.run(until="caught_up"))
            yield Call("to_spark", view.to_spark, (spark,), then=lambda frame: frame.columns)
        yield Call("jdbc", ev.io.jdbc, (spark, "jdbc:nope:x", "v"), then=self._write)
        yield Call("delta", ev.io.delta, (spark, "/dev/null/x"), then=self._write)
        yield Call("kafka", ev.io.kafka, (spark, "127.0.0.1:1", "t"), {"key": "x"}, then=self._write)
        yield from methods([db, db["t"], view], LEFT_OUT)

    def _connect(self, *args: Any, **named: Any) -> None:
        """Only calls that are to fail: another session on Spark would take seconds."""
        right = all(named.get(name) is value for name, value in (("shards", 2), ("linger", 1), ("state", "odd")))
        if not (right and args and args[0] is self.spark):
            ev.connect(*args, **named).close()

    def _write(self, sink: Any) -> None:
        self.db["v"].write_to(sink).stop()

    def whole(self) -> bool:
        return "t" in self.db and "v" in self.db

    def close(self) -> None:
        self.session()
        self.db["t"].insert([(7, "still here")])
        assert (7, "still here") in self.db["t"].rows()


def many(spark: Any, folder: Path, seed: int, count: int) -> Counter[str]:
    with ev.connect(spark, state=str(folder / "state"), shards=2) as db:
        scene = type("Here", (OnSpark,), {"spark": spark, "held": db})
        return misuse(seed, count, scene)


def test_misused_calls_on_spark(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert many(spark, tmp_path, 1, 60) == Counter()


@pytest.mark.slow
@pytest.mark.long
def test_many_misused_calls_on_spark(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert sum((many(spark, tmp_path / str(seed), seed, 200) for seed in range(2, 7)), Counter[str]()) == Counter()
