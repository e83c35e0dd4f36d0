"""What a session on Spark keeps in its directory, and what it makes of disks that are full and files that are torn.

Tasks run in this process (`inprocess`): what is tested is the store's part.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import everview as ev
from everview.cli import app
from everview.expr.language import udf
from everview.spark.driver import compaction
from everview.store.files import LocalFiles
from everview.store.witness import Witness
from tests.inside import inside
from tests.spark import inprocess
from tests.store.disk import full_disk


def connect(state: Path, **options: Any) -> Any:
    return ev.connect(inprocess.session(), state=str(state), **({"shards": 2} | options))


def declare(db: Any) -> tuple[Any, Any]:
    t = db.table("t", {"k": int, "v": int})
    return t, db.view("totals", t.group_by("k").agg(n=ev.count(), s=t.v.sum()))


def block(start: int, rows: int) -> dict[str, np.ndarray]:
    v = np.arange(start, start + rows)
    return {"k": v % 7, "v": v}


def totals(rows: int) -> list[tuple[int, int, int]]:
    return [(k, len(range(k, rows, 7)), sum(range(k, rows, 7))) for k in range(min(rows, 7))]


def test_views_with_functions_are_found_again(tmp_path: Path) -> None:
    """In what was built and in what was declared they are the same functions."""
    for time in (1, 2, 3):
        with connect(tmp_path) as db:
            t = db.table("t", {"x": int})
            double = udf(lambda x: 2 * x, returns=int)
            v = db.view("v", t.select(y=double(t.x)))
            w = db.view("w", t.filter(double(t.x) > 2).select(z=double(t.x)))
            t.insert([(time,)])
            assert sorted(v.rows()) == [(2,), (4,), (6,)][:time]
            assert sorted(w.rows()) == [(4,), (6,)][: time - 1]
    with ev.connect(str(tmp_path), read_only=True) as reader:
        assert sorted(reader["v"].rows()) == [(2,), (4,), (6,)]


def test_a_full_disk_refuses_steps_and_nothing_else(tmp_path: Path) -> None:
    rows = 200_000
    with connect(tmp_path) as db:
        t, view = declare(db)
        t.insert(block(0, 10))
        with full_disk(100_000), pytest.raises(ev.StoreError, match="E_DISK"):
            t.insert(block(10, rows))  # a task cannot write its batches
        with full_disk(0), pytest.raises(ev.StoreError, match="E_DISK"):
            t.insert([(0, 10)])  # the driver cannot commit
        with full_disk(0), pytest.raises(ev.StoreError, match="E_DISK"):
            db.view("late", t.filter(t.k == 1))
        assert (db.time, sorted(view.rows())) == (1, totals(10))
        t.insert(block(10, rows))
        late = db.view("late", t.filter(t.k == 1))
        assert (db.time, sorted(view.rows()), len(late.rows())) == (2, totals(rows + 10), len(range(1, rows + 10, 7)))
    with connect(tmp_path) as db:
        assert sorted(db["totals"].rows()) == totals(rows + 10)
        db["t"].insert([(0, 0)])
        assert len(db["t"].rows()) == rows + 11


def test_a_step_that_was_committed_counts_though_tidying_up_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Merging small batches and writing checkpoints come after the commit: they may fail and are tried again."""
    merges = []

    def merged(*args: Any) -> Any:
        merges.append(args)
        raise ev.StoreError("E_DISK", "no room", "free some")

    with connect(tmp_path) as db:
        t, view = declare(db)
        with monkeypatch.context() as broken:
            broken.setattr(compaction.Request, "run", merged)
            broken.setattr(type(inside(db).runtime.backing.store), "checkpoint", merged)
            for i in range(60):
                t.insert(block(i, 1))
            assert len(merges) > 1
            assert (db.time, sorted(view.rows())) == (60, totals(60))
        before = inside(db).runtime.backing.store.manifest.lists.copy()
        t.insert(block(60, 1))
        assert max(map(len, inside(db).runtime.backing.store.manifest.lists.values())) < max(map(len, before.values()))
    with connect(tmp_path) as db:
        assert (db.time, sorted(db["totals"].rows())) == (61, totals(61))


def test_a_torn_commit_never_was_and_damage_is_named(tmp_path: Path) -> None:
    rows = 200_000
    with connect(tmp_path) as db:
        t, _ = declare(db)
        t.insert(block(0, rows))
        for i in range(rows, rows + 3):
            t.insert(block(i, 1))
    last = max((tmp_path / "log").iterdir())
    whole = last.read_bytes()
    for size in (0, 1, len(whole) // 2, len(whole) - 1):
        last.write_bytes(whole[:size])
        with pytest.raises(ev.StoreError, match=r"E_DAMAGED\].*it was acknowledged"):
            connect(tmp_path)
        Witness(LocalFiles(tmp_path)).made(int(last.name) - 1)  # as if the driver had died before the step returned
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            with connect(tmp_path) as db:
                assert (db.time, sorted(db["totals"].rows())) == (3, totals(rows + 2))
        assert "was never finished: it is ignored" in str(said[0].message)
        Witness(LocalFiles(tmp_path)).made(int(last.name))
    last.write_bytes(whole)
    with connect(tmp_path) as db:
        db["t"].insert(block(rows + 3, 1))
        assert sorted(db["totals"].rows()) == totals(rows + 4)

    batch = max((tmp_path / "batches").iterdir(), key=lambda p: p.stat().st_size)
    content = batch.read_bytes()
    batch.write_bytes(content[: len(content) // 2])
    with connect(tmp_path) as db, pytest.raises(ev.StoreError, match=rf"E_DAMAGED\].*{batch.name}"):
        db["t"].insert(block(0, 1))
    batch.unlink()
    with connect(tmp_path) as db, pytest.raises(ev.StoreError, match=rf"E_DAMAGED\].*{batch.name} is missing"):
        db["t"].insert(block(0, 1))
    batch.write_bytes(content)
    with connect(tmp_path) as db:
        db["t"].insert(block(rows + 4, 1))
        assert sorted(db["totals"].rows()) == totals(rows + 5)


def test_a_second_driver_is_refused(tmp_path: Path) -> None:
    with connect(tmp_path), pytest.raises(ev.StoreError, match="E_LOCKED"):
        connect(tmp_path)


@pytest.mark.parametrize(
    "options",
    [{"linger": -1}, {"forget": "long"}, {"shards": 0}, {"shards": 2.5}, {"shards": True}, {"alone_rows": "all"}],
    ids=repr,
)
def test_options_that_make_no_sense(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(ev.InputError, match=rf"E_OPTION\] {next(iter(options))} is"):
        connect(tmp_path, **options)
    with connect(tmp_path, linger=0, forget=0) as db:
        db.table("t", {"x": int}).insert([(1,)])


def test_options_that_nobody_knows_are_named(tmp_path: Path) -> None:
    with pytest.raises(ev.InputError, match=r"(?s)E_OPTION\] .* no option 'shard'.*did you mean 'shards'"):
        connect(tmp_path, shard=2)
    with pytest.raises(ev.InputError, match=r"(?s)E_OPTION\] .* no option 'reed_only'.*did you mean 'read_only'"):
        ev.connect(tmp_path, reed_only=True)


def test_reading_along_can_be_asked_for_in_the_same_words(tmp_path: Path) -> None:
    with connect(tmp_path) as db:
        t, totals = declare(db)
        t.insert(block(0, 10))
        with connect(tmp_path, read_only=True) as reader:
            assert sorted(reader["totals"].rows()) == sorted(totals.rows())
            with pytest.raises(ev.InputError, match="E_READ_ONLY"):
                reader["t"].insert(block(0, 1))


def test_what_is_no_spark_session(tmp_path: Path) -> None:
    remote = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    context = type("SparkContext", (), {"__module__": "pyspark.core.context"})()
    stopped = type("SparkSession", (), {"__module__": "pyspark.sql.session"})()
    stopped.sparkContext = SimpleNamespace(_jsc=None)
    for given, words in ((remote, "Connect"), (context, "SparkContext is no"), (stopped, "has been stopped")):
        with pytest.raises(ev.InputError, match=rf"E_SPARK\] .*{words}"):
            ev.connect(given, state=str(tmp_path))


def test_what_a_dead_driver_left_is_collected_when_it_is_opened_again(tmp_path: Path) -> None:
    with connect(tmp_path) as db:
        t, totals_ = declare(db)
        for i in range(5):
            t.insert(block(i, 1))
        inside(db).runtime.backing.store.checkpoint()
        expected = sorted(totals_.rows())
    (tmp_path / "batches").mkdir(exist_ok=True)
    old, new = (tmp_path / "batches" / f"{9:020d}-0-0-{name}.arrow" for name in ("old", "new"))
    foreign = tmp_path / "batches" / "mine.arrow"
    for path in (old, new, foreign):
        path.write_bytes(b"of a task whose driver died")
    os.utime(old, (1e9, 1e9))
    os.utime(foreign, (1e9, 1e9))
    assert len(list((tmp_path / "log").iterdir())) > 1
    with connect(tmp_path) as db:
        assert not old.exists(), "nobody needs it"
        assert foreign.exists(), "nobody of us made it"
        assert new.exists(), "its task may be running still"
        assert len(list((tmp_path / "log").iterdir())) <= 1, "the checkpoint has it all"
        assert sorted(db["totals"].rows()) == expected


def test_check_finds_a_damaged_batch_that_no_step_has_read(tmp_path: Path) -> None:
    """A task notices when it reads one; `everview check` reads them all."""
    with connect(tmp_path) as db:
        t, _ = declare(db)
        t.insert(block(0, 100_000))
    assert CliRunner().invoke(app, ["check", str(tmp_path)]).exit_code == 0
    batches = sorted((tmp_path / "batches").glob("*.arrow"))
    assert len(batches) == 2, "one of each shard"
    for batch in batches:
        content = batch.read_bytes()
        for place in (0, len(content) // 3, len(content) // 2, len(content) - 1):
            batch.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
            result = CliRunner().invoke(app, ["check", str(tmp_path)])
            assert result.exit_code == 1 and "E_DAMAGED" in result.output and batch.name in result.output, result.output
        batch.unlink()
        result = CliRunner().invoke(app, ["check", str(tmp_path)])
        assert result.exit_code == 1 and "E_DAMAGED" in result.output and batch.name in result.output, result.output
        batch.write_bytes(content)
    assert CliRunner().invoke(app, ["check", str(tmp_path)]).exit_code == 0
