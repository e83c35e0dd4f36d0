"""Several changes of one key in one chunk: they happen in the order in which they came, whatever they came in.

The model is a dict that is changed record by record. Chunks of all sizes are taken, so that a key's changes are in one
chunk, in several, or at the edges of two; and sometimes many chunks are in one `batch()`, where each transaction sees
what those before it have left.
"""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

import everview as ev
from tests.inside import inside

Record = tuple[str, int, int]
"""What happens (upsert, delete), the key, the value."""


def history(rng: random.Random, count: int) -> list[Record]:
    """Changes of few keys, so that each of them is changed often."""
    kinds = rng.choice((["upsert"], ["upsert", "upsert", "delete"]))
    return [(rng.choice(kinds), rng.randrange(4), i) for i in range(count)]


def left_by(records: list[Record]) -> list[tuple[int, int]]:
    model: dict[int, int] = {}
    for kind, key, value in records:
        if kind == "upsert":
            model[key] = value
        else:
            model.pop(key, None)
    return sorted(model.items())


def events(records: list[Record]) -> list[dict[str, Any]]:
    """The history as Debezium tells it: a delete may say the key alone."""
    told: list[dict[str, Any]] = []
    for kind, key, value in records:
        row = {"k": key, "v": value}
        told.append({"op": "c", "before": None, "after": row} if kind == "upsert" else {"op": "d", "before": row})
    return told


def changes(records: list[Record]) -> list[dict[str, Any]]:
    """The history with what happens in a column: what goes is told whole."""
    model: dict[int, int] = {}
    told: list[dict[str, Any]] = []
    for kind, key, value in records:
        if kind == "upsert":
            told.append({"k": key, "v": value, "_change_type": "update_postimage" if key in model else "insert"})
            model[key] = value
        elif key in model:
            told.append({"k": key, "v": model.pop(key), "_change_type": "delete"})
    return told


SCHEMA = {"k": int, "v": int}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("shape", [events, changes])
def test_changes_happen_in_their_order(shape: Any, seed: int) -> None:
    rng = random.Random(seed)
    records = [("upsert", 0, -1), *history(rng, 200)]
    db = ev.connect()
    limit = rng.choice((1, 2, 7, 500))
    t = db.source("t", ev.io.rows(shape(records)), key="k", mode="changes", schema=SCHEMA, max_rows_per_step=limit)
    total = db.view("total", t.agg(n=ev.count(), s=ev.col.v.sum()))
    db.run(until="caught_up")
    rows = left_by(records)
    assert sorted(t.rows()) == rows
    assert total.rows() == ([(len(rows), sum(v for _, v in rows))] if rows else [])


@pytest.mark.parametrize("seed", range(6))
def test_the_last_upsert_of_a_key_wins_in_files_and_tables(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    records = [("upsert", key, value) for _, key, value in history(rng, 120)]
    cuts = sorted(rng.sample(range(1, 120), 3))
    for number, (start, end) in enumerate(zip([0, *cuts], [*cuts, 120], strict=True)):
        path = tmp_path / f"{9 - number}.json"  # names against the order of arrival
        path.write_text("".join(json.dumps({"k": k, "v": v}) + "\n" for _, k, v in records[start:end]))
        os.utime(path, (1_000_000 + number, 1_000_000 + number))
    db = ev.connect()
    t = db.source("t", ev.io.json(tmp_path), key="k", max_rows_per_step=rng.choice((None, 1, 5)))
    db.run(until="caught_up")
    u = db.table("u", SCHEMA, key="k")
    with db.transaction():
        u.upsert([(k, v) for _, k, v in records[:60]])
        u.upsert([(k, v) for _, k, v in records[60:]])
    assert sorted(t.rows()) == sorted(u.rows()) == left_by(records)


@pytest.mark.parametrize("seed", range(6))
def test_transactions_of_a_batch_see_each_other_in_their_order(seed: int) -> None:
    rng = random.Random(seed)
    records = history(rng, 60)
    db = ev.connect()
    t = db.table("t", SCHEMA, key="k")
    v = db.view("v", t.distinct())
    with db.batch():
        model: dict[int, int] = {}
        for kind, key, value in records:
            if kind == "upsert":
                t.upsert([(key, value)])
                model[key] = value
            elif key in model:
                t.delete([(key, model.pop(key))])
    assert sorted(t.rows()) == sorted(v.rows()) == left_by(records)


def test_a_batch_is_one_record_of_the_log_and_is_there_whole(tmp_path: Path) -> None:
    """What docs/durability.md says of a batch that is not very long."""
    db = ev.connect(tmp_path / "state")
    t = db.table("t", {"x": int})
    v = db.view("v", t.distinct())
    t.insert([(0,)])
    steps: list[int] = []
    runtime = inside(db).runtime
    step = runtime.step
    runtime.step = lambda *args, **named: (steps.append(len(args[0])), step(*args, **named))[1]  # type: ignore[func-returns-value]
    with db.batch():
        for i in range(1, 6):
            t.insert([(i,)])
    assert steps == [5]
    times = [time for _, time, _ in v.changes(since=1)]
    db.close()
    with ev.connect(tmp_path / "state") as db:
        assert sorted(db["t"].rows()) == [(i,) for i in range(6)]
        assert times == [2, 3, 4, 5, 6] and db.time == 6
