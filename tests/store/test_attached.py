"""Sessions that read a directory while another process writes it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import everview as ev
from everview import col
from everview.recovery import directory as durable
from everview.recovery.follower import Follower
from tests.inside import inside


def attach(path: Path) -> ev.Session:
    db = ev.connect(path, read_only=True)
    assert isinstance(inside(db).runtime.backing, Follower)
    return db


@pytest.fixture
def writer(tmp_path: Path) -> Any:
    db = ev.connect(tmp_path)
    t = db.table("t", {"k": int, "s": str})
    db.view("v", t.group_by("s").agg(n=ev.count(), m=col.k.max()))
    t.insert([(1, "a"), (2, "b")])
    yield db
    db.close()


def same(a: ev.Session, b: ev.Session) -> None:
    assert (a.time, a.tables, a.views, inside(a).runtime.offsets) == (
        b.time,
        b.tables,
        b.views,
        inside(b).runtime.offsets,
    )
    for name in (*a.tables, *a.views):
        assert sorted(a[name].rows()) == sorted(b[name].rows())
    for name in a.views:
        assert sorted(a[name].changes(since=0)) == sorted(b[name].changes(since=0))


def test_a_reader_follows_transactions_and_versions(writer: Any, tmp_path: Path) -> None:
    reader = attach(tmp_path)
    same(reader, writer)
    for i in range(20):
        with writer.transaction():
            writer["t"].insert([(i, f"word {i}")])
            inside(writer).transactions.set_offset("i", str(i))
        if i % 3 == 0:
            writer.checkpoint()
        if i % 4 == 0:
            assert reader.time < writer.time
            assert reader.refresh() == writer.time
            same(reader, writer)
        if i % 5 == 0:
            with attach(tmp_path) as other:
                same(other, writer)
    reader.refresh()
    same(reader, writer)
    reader.close()
    assert list((tmp_path / "pins").iterdir()) == []


def test_a_reader_follows_tables_and_views_that_come_and_go(writer: Any, tmp_path: Path) -> None:
    reader = attach(tmp_path)
    u = writer.table("u", {"x": int}, key="x")
    writer.view("w", u.select(y=u.x + 1).distinct())
    u.upsert([(1,), (2,)])
    writer.sql("CREATE VIEW n AS SELECT count(*) AS n FROM u")
    writer["v"].drop()
    reader.refresh()
    same(reader, writer)
    writer.checkpoint()
    u.drop(cascade=True)
    reader.refresh()
    same(reader, writer)
    assert "u" not in reader
    reader.close()


def test_a_reader_hears_of_every_time(writer: Any, tmp_path: Path) -> None:
    with attach(tmp_path) as reader:
        heard: list[Any] = []
        reader["v"].subscribe(lambda batch: heard.append((batch.time, sorted(batch.rows()))), snapshot=False)
        writer["t"].insert([(3, "c")])
        writer.checkpoint()
        writer["t"].insert([(4, "d")])
        assert heard == []
        reader.refresh()
        assert heard == [(2, [(("c", 1, 3), 1)]), (3, [(("d", 1, 4), 1)])]


def test_a_reader_queries_and_looks_up(writer: Any, tmp_path: Path) -> None:
    with attach(tmp_path) as reader:
        assert reader.sql("SELECT s FROM v WHERE m > 1").rows() == [("b",)]
        assert reader["v"].lookup("a") == [("a", 1, 1)] and reader["t"].lookup(2) == [(2, "b")]
        assert reader.table("t", {"k": int, "s": str}) is reader["t"]
        writer["t"].insert([(9, "a")])
        reader.refresh()
        assert sorted(reader.sql("SELECT s FROM v WHERE m > 1").rows()) == [("a",), ("b",)]
        assert len(reader["v"].as_of(1).rows()) == 2


def test_a_reader_changes_nothing(writer: Any, tmp_path: Path) -> None:
    def files() -> dict[str, int]:
        return {str(p): p.stat().st_size for p in tmp_path.rglob("*") if p.is_file() and p.parent.name != "pins"}

    before = files()
    with attach(tmp_path) as reader:
        t, v = reader["t"], reader["v"]
        for change in (
            lambda: t.insert([(1, "x")]),
            lambda: t.delete([(1, "a")]),
            lambda: t.clear(),
            lambda: t.drop(),
            lambda: v.drop(),
            lambda: reader.table("new", {"x": int}),
            lambda: reader.view("new", t.distinct()),
            lambda: reader.sql("INSERT INTO t VALUES (1, 'x')"),
            lambda: reader.sql("CREATE TABLE other (x int)"),
            lambda: inside(reader).transactions.set_offset("a", "b"),
        ):
            with pytest.raises(ev.InputError, match="E_READ_ONLY"):
                change()
        same(reader, writer)
    assert files() == before


def test_what_a_reader_needs_is_kept_for_it(writer: Any, tmp_path: Path) -> None:
    reader = attach(tmp_path)
    for i in range(5):
        writer["t"].insert({"k": np.arange(3000) + i, "s": [f"w{j}" for j in range(3000)]})
        writer.checkpoint()
    assert len(list((tmp_path / "wal").iterdir())) == 6
    reader.refresh()
    same(reader, writer)
    writer.checkpoint()
    assert len(list((tmp_path / "wal").iterdir())) == 2
    reader.close()
    writer.checkpoint()
    assert len(list((tmp_path / "wal").iterdir())) == 1


def test_a_reader_whose_pin_was_lost_is_told(writer: Any, tmp_path: Path) -> None:
    reader = attach(tmp_path)
    for pin in (tmp_path / "pins").iterdir():
        pin.unlink()
    for i in range(3):
        writer["t"].insert([(i, "z")])
        writer.checkpoint()
    with pytest.raises(ev.StoreError, match="E_STALE"):
        reader.refresh()
    reader.close()
    with attach(tmp_path) as reader:
        same(reader, writer)


def test_a_transaction_that_fails_is_never_seen(writer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record is in the log before it is run: a reader that comes by just then must not believe it."""
    reader = attach(tmp_path)
    run = inside(writer).runtime.dataflow.run

    def interrupted(*step: Any) -> None:
        assert reader.refresh() == 1
        raise KeyboardInterrupt

    monkeypatch.setattr(inside(writer).runtime.dataflow, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        writer["t"].insert([(5, "never")])
    inside(writer).runtime.dataflow.abort()
    monkeypatch.setattr(inside(writer).runtime.dataflow, "run", run)
    writer["t"].insert([(6, "after")])
    assert reader.refresh() == 2
    same(reader, writer)
    reader.close()


def test_nothing_to_read(tmp_path: Path) -> None:
    with pytest.raises(ev.StoreError, match="there is no Everview store"):
        ev.connect(tmp_path / "none", read_only=True)


WRITER = """
import sys
import everview as ev
from everview.recovery import directory as durable
durable.LOG_BYTES = 4000
db = ev.connect(sys.argv[1])
t = db.table("t", {"k": int, "s": str})
v = db.view("v", t.group_by("s").agg(n=ev.count()))
print("ready", flush=True)
sys.stdin.readline()
for i in range(3000):
    t.insert([(i, f"word {i % 40}")])
sys.stdin.read()
"""


def test_beside_a_writing_process(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": "src"},
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    reader = attach(tmp_path)
    assert process.stdin is not None
    print("go", file=process.stdin, flush=True)  # a writer that begins at once may be done before the reader is there
    seen = set()
    while reader.refresh() < 3000:
        seen.add(reader.time)
        assert sum(n for _, n in reader["v"].rows()) == reader.time == len(reader["t"].rows())
    assert len(seen) > 2 and len(reader["v"].rows()) == 40
    process.communicate("")
    reader.close()


def test_readers_of_a_directory_nobody_writes(tmp_path: Path) -> None:
    with ev.connect(tmp_path) as db:
        db.table("t", {"x": int}).insert([(1,)])
    with attach(tmp_path) as a, attach(tmp_path) as b:
        assert a["t"].rows() == b["t"].rows() == [(1,)]
    assert durable.LOG_BYTES > 1_000_000
