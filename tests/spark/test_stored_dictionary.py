"""Neither driver nor workers hold the dictionary: words are in the store, and found there."""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import everview as ev
from everview.recovery import stored_shards
from everview.spark.driver import cluster, compaction
from everview.spark.rows import encode
from everview.spark.workers import state
from everview.store import stored_dictionary
from tests.inside import inside
from tests.spark import inprocess


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> int:
    """Processes hold so few words that everything has to be looked up."""
    for module in (stored_dictionary, cluster, encode, state, stored_shards):
        monkeypatch.setattr(module, "RESIDENT_ENTRIES", 8)
    for module in (stored_dictionary, compaction, cluster):
        monkeypatch.setattr(module, "FILE_ENTRIES", 64)
    monkeypatch.setattr(stored_dictionary, "SMALL_ENTRIES", 4)
    return 8


def connect(spark: SimpleNamespace, path: Path) -> Any:
    return ev.connect(spark, state=str(path), shards=2)


@pytest.mark.parametrize("seed", range(3))
def test_words_that_nobody_holds(tmp_path: Path, few: int, seed: int) -> None:
    dice = random.Random(seed)
    rows: dict[tuple[int, str], int] = {}
    spark = inprocess.session(2)
    db = connect(spark, tmp_path)
    t = db.table("t", {"k": int, "name": str})
    db.view("loud", t.select(k=t.k, name=t.name.upper()))
    for step in range(30):
        fresh = [(dice.randrange(5), f"w{dice.randrange(200)}") for _ in range(dice.randrange(1, 25))]
        t.insert(fresh)
        for row in fresh:
            rows[row] = rows.get(row, 0) + 1
        gone = dice.sample(sorted(rows), min(3, len(rows)))
        t.delete(gone)
        for row in gone:
            rows[row] -= 1
            rows = {row: n for row, n in rows.items() if n}
        model = sorted(row for row, n in rows.items() for _ in range(n))
        assert sorted(db["t"].rows()) == model
        assert sorted(db["loud"].rows()) == sorted((k, name.upper()) for k, name in model)
        assert sorted(db["loud"].to_arrow()["name"].to_pylist()) == sorted(name.upper() for _, name in model)
        assert inside(db).interner.resident <= few + 50  # one step's words, and not those of all
        if step % 11 == 10:
            db.close()
            db = connect(inprocess.session(2) if dice.random() < 0.5 else spark, tmp_path)
            t = db["t"]
    assert len(inside(db).runtime.backing.store.manifest.dictionary) < 30  # they were merged
    db.close()
    with ev.connect(str(tmp_path)) as embedded:  # whose dictionary is in memory
        assert sorted(embedded["t"].rows()) == model


def test_words_of_a_frame_are_saved_as_they_come(tmp_path: Path, few: int) -> None:
    rows = pa.table({"k": range(100), "name": [f"n{i}" for i in range(100)]})
    with connect(inprocess.session(2), tmp_path) as db:
        source = inprocess.Script(rows.schema)
        t = db.source("t", source)
        source.waiting = [inprocess.Rows(rows.slice(0, 40), rows.slice(40))]
        db.run(until="caught_up")
        assert inside(db).interner.resident < few
        assert sorted(t.rows()) == [(i, f"n{i}") for i in range(100)]


@pytest.mark.parametrize("made", [2, 3])
def test_words_of_an_attempt_that_did_not_count_are_told_again(tmp_path: Path, made: int) -> None:
    """A worker made them, and its answer was lost: the driver has to hear of them from the next attempt."""
    spark = inprocess.session(1)
    with connect(spark, tmp_path) as db:
        t = db.table("t", {"name": str})
        db.view("loud", t.select(name=t.name.upper()))
        spark.sparkContext.attempts = lambda job: made
        t.insert([("fig",)])
        assert db["loud"].rows() == [("FIG",)]
        spark.sparkContext.attempts = lambda job: 1
        t.insert([("pear",)])
        assert sorted(db["loud"].rows()) == [("FIG",), ("PEAR",)]


def test_words_of_a_step_that_failed_are_told_with_the_next(tmp_path: Path) -> None:
    with connect(inprocess.session(1), tmp_path) as db:
        t = db.table("t", {"name": str, "n": int})
        db.view("loud", t.select(name=t.name.upper(), n=t.n))
        with pytest.raises(ev.errors.EverviewError), db.transaction():
            t.insert([("fig", 1)])
            t.delete([("absent", 1)])
        t.insert([("fig", 2)])
        assert db["loud"].rows() == [("FIG", 2)]
