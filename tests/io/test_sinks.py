"""Sinks: what views write, exactly once, also when a sink fails or the process does."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

import everview as ev
from everview.io.sink import Sink
from tests.inside import inside


def setup(**options: Any) -> tuple[ev.Session, ev.Table, ev.View]:
    db = ev.connect(**options)
    t = db.table("t", {"k": str, "n": int | None})
    return db, t, db.view("v", t.group_by("k").agg(total=ev.col.n.sum()))


def read_back(source: Any) -> Counter[Any]:
    """What a directory of changes adds up to, by way of our own source."""
    db = ev.connect()
    t = db.source("t", source, mode="changes")
    db.run(until="caught_up")
    return Counter(t.rows())


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if not p.name.startswith("_"))


@pytest.mark.parametrize("kind", ["csv", "json", "parquet", "arrow"])
def test_changes_are_files_named_by_time_and_add_up(tmp_path: Path, kind: str) -> None:
    db, t, v = setup()
    t.insert([("a", 1), ("b", 2)])
    make = getattr(ev.io, kind)
    out = tmp_path / "out"
    outlet = v.write_to(make(out))
    first = db.time
    t.insert([("a", 5)])
    t.delete([("b", 2)])
    db.table("other", {"x": int}).insert([(1,)])
    assert names(out) == [f"changes-{time:020d}.{kind}" for time in (first, first + 1, first + 2)]
    assert read_back(make(out)) == Counter({("a", 6): 1})
    assert outlet.position == first + 2
    outlet.stop()
    t.insert([("c", 1)])
    assert len(names(out)) == 3


def test_changes_carry_time_and_diff(tmp_path: Path) -> None:
    _db, t, v = setup()
    v.write_to(ev.io.json(tmp_path / "out"))
    t.insert([("a", 1)])
    t.insert([("a", 1)])
    records = [json.loads(x) for p in sorted((tmp_path / "out").glob("c*")) for x in p.read_text().splitlines()]
    assert sorted(records, key=repr) == [
        {"k": "a", "total": 1, "_time": 2, "_diff": 1},
        {"k": "a", "total": 1, "_time": 3, "_diff": -1},
        {"k": "a", "total": 2, "_time": 3, "_diff": 1},
    ]


def test_snapshot_file_is_replaced(tmp_path: Path) -> None:
    _db, t, v = setup()
    out = tmp_path / "deep" / "v.parquet"
    v.write_to(str(out), mode="snapshot")
    for i in range(3):
        t.insert([("a", i)])
        assert pyarrow.parquet.read_table(out).to_pylist() == [{"k": "a", "total": sum(range(i + 1))}]
    assert [p.name for p in out.parent.iterdir()] == ["v.parquet"]


def test_snapshot_directory_keeps_the_newest(tmp_path: Path) -> None:
    db, t, v = setup()
    v.write_to(ev.io.csv(tmp_path / "out"), mode="snapshot")
    t.insert([("a", 1)])
    t.insert([("b", 1)])
    assert names(tmp_path / "out") == [f"contents-{db.time:020d}.csv"]


def test_snapshots_every_so_often_and_at_the_end_of_a_run(tmp_path: Path) -> None:
    db = ev.connect()
    t = db.source("t", [{"x": i} for i in range(5)], max_rows_per_step=1)
    v = db.view("v", t.distinct())
    written: list[int] = []

    class Counting(Sink):
        lasting = False

        def open(self, *_: Any) -> None:
            return None

        def replace(self, rows: Any, time: int) -> None:
            written.append(rows.num_rows)

    v.write_to(Counting(), mode="snapshot", every="1h")
    db.run(until="caught_up")
    assert written == [0, 5]


def test_a_function_as_sink_and_its_position() -> None:
    _db, t, v = setup()
    t.insert([("a", 1)])
    seen: list[tuple[int, Any]] = []
    v.write_to(lambda batch: seen.append((batch.time, batch.rows())))
    t.insert([("b", 1)])
    assert seen == [(1, [(("a", 1), 1)]), (2, [(("b", 1), 1)])]
    later: list[int] = []
    v.write_to(ev.io.foreach(lambda batch: later.append(batch.time), position=lambda: 1))
    assert later == [2], "what the function's effects hold is not given again"


class Failing(Sink):
    """Remembers what it was given; fails when told to."""

    lasting = False

    def __init__(self) -> None:
        self.taken: list[int] = []
        self.broken = False

    def open(self, *_: Any) -> int | None:
        return None

    def write(self, batch: ev.Batch) -> None:
        if self.broken:
            raise OSError("disk full")
        self.taken.append(batch.time)


def test_a_sink_that_failed_catches_up() -> None:
    db, t, v = setup()
    sink = Failing()
    outlet = v.write_to(sink)
    t.insert([("a", 1)])
    sink.broken = True
    for _ in range(2):
        with pytest.raises(OSError, match="disk full"):
            t.insert([("a", 1)])
    assert (db.time, sink.taken, outlet.position) == (3, [1], 1)
    sink.broken = False
    t.insert([("a", 1)])
    assert sink.taken == [1, 2, 3, 4]
    assert v.rows() == [("a", 4)]


def test_catching_up_beyond_the_views_history(tmp_path: Path) -> None:
    """The difference between what the sink and the view hold is written, at the present time."""
    for kind in ("csv", "json", "parquet"):
        _db, t, v = setup(history=2)
        make, out = getattr(ev.io, kind), tmp_path / kind
        outlet = v.write_to(make(out))
        t.insert([("a", 1), ("b", None)])
        outlet.stop()
        for _ in range(10):
            t.insert([("a", 1)])
        t.delete([("b", None)])
        v.write_to(make(out))
        assert len(names(out)) == 2
        assert read_back(make(out)) == Counter(v.rows()) == Counter({("a", 11): 1})


def test_a_view_installed_anew_goes_on_in_the_same_sink(tmp_path: Path) -> None:
    db, t, v = setup()
    v.write_to(ev.io.parquet(tmp_path / "out"))
    t.insert([("a", 1), ("b", 1)])
    v.drop()
    t.insert([("a", 1)])
    again = db.view("v", t.group_by("k").agg(total=ev.col.n.sum()))
    again.write_to(ev.io.parquet(tmp_path / "out"))
    t.insert([("c", 1)])
    assert read_back(ev.io.parquet(tmp_path / "out")) == Counter(again.rows())


def test_leftovers_of_a_crash_are_ignored_and_removed(tmp_path: Path) -> None:
    _db, _t, v = setup()
    out = tmp_path / "out"
    v.write_to(ev.io.json(out)).stop()
    (out / f"_tmp-changes-{7:020d}.json").write_text('{"half')
    v.write_to(ev.io.json(out))
    assert [p.name for p in out.iterdir()] == ["_everview.json"]


def refused(code: str, message: str, hint: str, call: Any) -> None:
    with pytest.raises(ev.InputError) as error:
        call()
    assert (error.value.code, error.value.message, error.value.hint) == (code, message, hint)


def test_refusals(tmp_path: Path) -> None:
    db, t, v = setup()
    out = str(tmp_path / "out")
    v.write_to(ev.io.json(out)).stop()
    other = "give another directory, or empty this one to start over"
    _, _, stranger = setup()
    refused(
        "E_SINK",
        f"{out} was written by another session or view",
        other,
        lambda: stranger.write_to(ev.io.json(out)),
    )
    refused(
        "E_SINK",
        f"{out} was written with mode='changes'",
        other,
        lambda: v.write_to(ev.io.json(out), mode="snapshot"),
    )
    v.drop()
    wider = db.view("v", t.distinct())
    refused(
        "E_SINK",
        f"{out} was written with other columns: {{'k': 'str', 'total': 'int?'}}",
        other,
        lambda: wider.write_to(ev.io.json(out)),
    )
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").touch()
    refused(
        "E_SINK",
        f"{tmp_path}/mine holds files that Everview did not write",
        "give an empty directory",
        lambda: wider.write_to(ev.io.csv(tmp_path / "mine")),
    )
    refused(
        "E_SINK",
        "cannot write to a pattern: 'out/*.csv'",
        "give a directory",
        lambda: wider.write_to(ev.io.csv("out/*.csv")),
    )
    refused(
        "E_SINK",
        "cannot write to int",
        'give ev.io.parquet("directory"), a function, or another sink',
        lambda: wider.write_to(7),
    )
    refused(
        "E_SINK",
        f"foreach print holds changes up to time 99, but it is {db.time} now",
        "it belongs to another session, or the state was set back: empty the sink, or restore the state",
        lambda: wider.write_to(ev.io.foreach(print, position=lambda: 99)),
    )
    with pytest.raises(ev.InputError, match=r"E_MODE.*mode='append' is not known"):
        wider.write_to(print, mode="append")  # type: ignore[arg-type]
    t.insert([("a", 1)])
    assert inside(db).attached["pipeline"].outlets == [], "a refused sink leaves no outlet behind"
