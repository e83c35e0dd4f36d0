"""Executors that come, go and die while a stream runs: the table has every row once, the views are those of its rows,
and the sink has every change once. In one process (`inprocess_gang`), so hundreds of lives take minutes; with the
processes of a real cluster: `test_killed`.

EVERVIEW_LIVES and EVERVIEW_SEED say how many lives the long form tries, and which.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import everview as ev
from everview.expr.language import count, udf
from everview.spark.driver import gang, placement
from tests.inside import inside
from tests.spark import inprocess_gang

SEED = int(os.environ.get("EVERVIEW_SEED", "1"))
LIVES = int(os.environ.get("EVERVIEW_LIVES", "200"))
KEYS = 6


class Life:
    """A pipeline from files through views into a sink, on slots whose number changes."""

    def __init__(self, work: Path, seed: int) -> None:
        self.work = work
        self.draw = random.Random(seed)
        self.rows: list[tuple[int, int]] = []
        self.files = self.deaths = self.refused = self.moves = 0
        self.fuse = work / "fuse"
        self.fuse.write_text("")
        (work / "in").mkdir()
        self.context: Any = None

    def open(self) -> Any:
        """A session on some slots, whose steps all run in gangs."""
        spark = inprocess_gang.session(self.draw.randrange(1, 5))
        self.context = spark.sparkContext
        db = ev.connect(spark, state=str(self.work / "state"), shards=4, alone_rows=0, linger=60.0)
        self.declare(db)
        return db

    def declare(self, db: Any) -> None:
        fuse = self.fuse

        def burn(x: int) -> int:
            """Ends its worker in the middle of a step, as often as is left."""
            if left := fuse.read_text():
                fuse.write_text(left[1:])
                inprocess_gang.die()
            return x

        t = db.source("t", ev.io.json(self.work / "in"), schema={"k": int, "x": int})
        hop = t.select(a=t.k, b=udf(burn, returns=int)(t.x)).distinct()

        def further(v: Any) -> Any:
            return v.join(hop, v.b == hop.a).select(a=v.a, b=hop.b).union_all(hop).distinct()

        db.view("paths", hop.iterate(further))
        totals = db.view("totals", t.group_by("k").agg(n=count(), s=t.x.sum()))
        totals.write_to(ev.io.json(self.work / "out"))

    def put(self) -> None:
        """Another file; in some, one key has grown hot."""
        hot = self.draw.random() < 0.3
        new = [(0 if hot else self.draw.randrange(KEYS), self.draw.randrange(KEYS)) for _ in range(8)]
        self.rows += new
        text = "".join(json.dumps({"k": k, "x": x}) + "\n" for k, x in new)
        (self.work / "in" / f"{self.files:04d}.json").write_text(text)
        self.files += 1

    def step(self, db: Any) -> None:
        """Slots come or go, or workers are to die; then the stream goes on. Spark may give up, and is asked again."""
        if self.draw.random() < 0.5:
            self.context.resize(self.draw.randrange(1, 5))
            self.moves += 1
        self.put()
        deaths = self.draw.choice((0, 0, 0, 1, 2, 30))
        self.fuse.write_text("x" * deaths)
        try:
            db.run(until="caught_up")
        except ev.EverviewError as error:
            if error.code != "E_JOB":
                raise
            self.refused += 1
            self.fuse.write_text("")
            db.run(until="caught_up")
        self.deaths += deaths > 0

    def check(self, db: Any) -> None:
        held: Counter[tuple[int, int]] = Counter(self.rows)
        assert Counter(db["t"].rows()) == held
        assert sorted(db["totals"].rows()) == self.totals()
        paths = set(held)
        while more := {(a, d) for a, b in paths for c, d in paths if b == c} - paths:
            paths |= more
        assert set(db["paths"].rows()) == paths

    def totals(self) -> list[tuple[int, int, int]]:
        found: dict[int, list[int]] = {}
        for k, x in self.rows:
            found.setdefault(k, []).append(x)
        return sorted((k, len(xs), sum(xs)) for k, xs in found.items())

    def check_sink(self) -> None:
        """No change is there twice, and together they are the view."""
        lines = [line for file in (self.work / "out").glob("changes-*.json") for line in file.read_text().splitlines()]
        changes = Counter((c["k"], c["n"], c["s"], c["_time"], c["_diff"]) for c in map(json.loads, lines))
        assert set(changes.values()) == {1}
        sums: Counter[tuple[int, int, int]] = Counter()
        for *row, _, diff in changes:
            sums[tuple(row)] += diff
        assert sorted(row for row, n in sums.items() if n) == self.totals() and set(sums.values()) <= {0, 1}

    def run(self, steps: int) -> None:
        db = self.open()
        for _ in range(steps):
            self.step(db)
            self.check(db)
            if self.draw.random() < 0.15:  # another driver, whose workers hold nothing yet
                db.close()
                db = self.open()
        assert db.check() == []
        db.close()
        self.check_sink()


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slots are counted at each step, and who does not come is not waited for."""
    monkeypatch.setattr(placement, "SLOTS_SECONDS", -1.0)
    monkeypatch.setattr(gang, "MISSING_SECONDS", 0.1)


@pytest.mark.parametrize("seed", range(SEED, SEED + 2))
def test_a_life_of_12_files(tmp_path: Path, seed: int) -> None:
    life = Life(tmp_path, seed)
    life.run(12)
    assert life.moves > 2 and life.deaths > 2


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(6000)
def test_many_lives(tmp_path: Path) -> None:
    refused = 0
    for seed in range(SEED, SEED + LIVES):
        work = tmp_path / str(seed)
        work.mkdir()
        life = Life(work, seed)
        try:
            life.run(12)
        except BaseException as error:
            error.add_note(f"in the life of seed {seed}")
            raise
        refused += life.refused
    assert refused > LIVES // 4


def test_the_gang_is_as_large_as_the_slots(tmp_path: Path) -> None:
    """Else lives say little: shards do move between steps of one session."""
    life = Life(tmp_path, 1)
    db = life.open()
    seen = set()
    for slots in (1, 3, 2, 4):
        life.context.resize(slots)
        life.put()
        db.run(until="caught_up")
        seen.add(inside(db).runtime.cluster._submitter.gang.members)
    assert seen == {0, 2, 3, 4}, "with one slot a single task runs the steps"
    life.check(db)
    db.close()
