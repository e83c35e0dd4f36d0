"""Rows coded in tasks for tables whose rows leave by themselves, next to a session in memory that sees every row. Tasks
run in this process.
"""

from __future__ import annotations

import datetime as dt
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import everview as ev
from everview import col
from everview.spark.rows import encoded as coded
from everview.spark.rows import frames
from tests.inside import inside
from tests.spark.inprocess import Rows, Script, parts, session

START = dt.datetime(2026, 1, 1)
ROWS = pa.schema({"id": pa.int64(), "name": pa.string(), "ts": pa.timestamp("us")})
BY_TIME = "CREATE TABLE t (id BIGINT{}, name TEXT, ts TIMESTAMP) TTL ts + INTERVAL '60 seconds'"


def at(seconds: int) -> dt.datetime:
    return START + dt.timedelta(seconds=seconds)


def opened(state: Path, keyed: bool, ttl: dt.timedelta | None) -> list[Any]:
    """The same table on shards and in memory; by arrival if a time is given, else by its rows' own time."""
    made = []
    for db in (ev.connect(session(), state=str(state), shards=3), ev.connect()):
        db.advance(START)
        if ttl is None:
            db.sql(BY_TIME.format(" PRIMARY KEY" if keyed else ""))
        else:
            db.table("t", {"id": int, "name": str, "ts": dt.datetime}, ttl=ttl)
        made.append(db)
    return made


def records(draw: random.Random, now: int, mode: str) -> list[dict[str, Any]]:
    found = []
    for _ in range(draw.randrange(1, 25)):
        row = {"id": draw.randrange(6), "name": draw.choice("ab"), "ts": at(now - draw.randrange(0, 90, 10))}
        found.append(row | ({"_diff": 1} if mode == "changes" else {}))
    return found


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("mode", "keyed", "ttl"),
    [
        ("append", False, None), ("upsert", True, None), ("snapshot", True, None), ("snapshot", False, None),
        ("changes", True, None), ("changes", False, None), ("append", False, dt.timedelta(seconds=60)),
    ],
)  # fmt: skip
def test_as_if_every_row_had_been_seen(
    tmp_path: Path, mode: Any, keyed: bool, ttl: dt.timedelta | None, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames.FrameRows, "fetch", lambda self: pytest.fail("rows came to the driver"))
    draw = random.Random(seed)
    schema = ROWS.append(pa.field("_diff", pa.int64())) if mode == "changes" else ROWS
    sessions = opened(tmp_path / "state", keyed, ttl)
    sources, views = [], []
    for db in sessions:
        sources.append(Script(schema))
        t = db.source("t", sources[-1], mode=mode, key="id" if keyed else None)
        views.append(db.view("v", t.group_by("name").agg(n=ev.count())))
        db.view("recent", t.filter(col.id > 2))
    now, past, late = 0, [], []  # type: ignore[var-annotated]
    for _ in range(8):
        new = records(draw, now, mode)
        if mode == "changes" and not keyed:
            new, past = new + [row | {"_diff": -1} for row in past[:3]], [*past[3:], *new]  # some have left by then
        tables = parts(new, schema)
        runs = []
        for db, source, rows in zip(sessions, sources, (Rows(*tables), pa.concat_tables(tables)), strict=True):
            source.waiting = [rows]
            runs.append(db.run(until="caught_up"))
        if keyed:  # late rows that others of the same chunk replace count, where nobody sees the chunk whole
            assert runs[0].late.get("t", 0) >= runs[1].late.get("t", 0)
        else:
            assert runs[0].late == runs[1].late
        late.append(runs[0].late.get("t", 0))
        for name in ("t", "v", "recent"):
            assert Counter(sessions[0][name].rows()) == Counter(sessions[1][name].rows())
        now += draw.randrange(1, 50)
        for db in sessions:
            db.advance(at(now))
        assert Counter(sessions[0]["t"].rows()) == Counter(sessions[1]["t"].rows())
    assert (sum(late) > 0) == (ttl is None)
    assert inside(sessions[0]).runtime.backing.store.files.list(coded.FOLDER) == []
    for db in sessions:
        db.advance(at(now + 500))
        assert db["t"].rows() == [] and db["v"].rows() == []
        db.close()


def test_the_computers_clock(tmp_path: Path) -> None:
    """Rows are compared with the moment at which coding began, and leave on time."""
    with ev.connect(session(), state=str(tmp_path / "state"), shards=2) as db:
        db.sql(BY_TIME.format(""))
        source = Script(ROWS)
        t = db.source("t", source)
        now = dt.datetime.now(dt.UTC).replace(tzinfo=None)
        ages = [dt.timedelta(seconds=s) for s in (0, 30, 59.6, 70)]
        rows = [{"id": i, "name": "x", "ts": now - age} for i, age in enumerate(ages)]
        source.waiting = [Rows(*parts(rows, ROWS))]
        assert db.run(until="caught_up").late == {"t": 1}
        assert len(t.rows()) in (2, 3)
        db.advance(now + dt.timedelta(seconds=45))
        assert [row[0] for row in t.rows()] == [0]


def test_time_passes_by_itself(tmp_path: Path) -> None:
    """In a run that waits, and while the state was closed."""
    state = str(tmp_path / "state")
    with ev.connect(session(), state=state, shards=2) as db:
        t = db.table("t", {"id": int}, ttl=dt.timedelta(seconds=1))
        source = Script(pa.schema([("id", pa.int64())]))
        db.source("t", source)
        left: list[Any] = []
        db.view("v", t.distinct()).subscribe(lambda batch: left.extend(batch.rows()))
        source.waiting = [pa.table({"id": [1, 2]})]
        db.run(until="2500ms")
        assert t.rows() == [] and left[-2:] == [((1,), -1), ((2,), -1)]
        t.insert([(3,)])
        assert t.rows() == [(3,)]
    time.sleep(1.2)
    with ev.connect(session(), state=state) as db:
        assert db["t"].rows() == [] and db["v"].rows() == []
