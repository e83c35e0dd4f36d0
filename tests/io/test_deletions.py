"""Change feeds with a key delete by key, whatever else the record says; what finds nothing is counted or refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import everview as ev

SCHEMA = {"id": int, "v": str, "n": float}


def feed(db: Any, records: list[dict[str, Any]], **options: Any) -> Any:
    return db.source("t", ev.io.rows(records), mode="changes", key="id", **options)


def said(what: str, id: int, v: str | None, n: float | None = 0.0) -> dict[str, Any]:
    return {"id": id, "v": v, "n": n, "_change_type": what}


def test_the_key_alone_decides() -> None:
    db = ev.connect()
    t = feed(
        db,
        [
            *(said("insert", i, f"v{i}") for i in range(5)),
            said("delete", 0, None, None),  # the key alone
            said("delete", 1, "something else"),
            said("delete", 2, "v2", 17.5),
            said("delete", 3, "v3"),
        ],
    )
    run = db.run(until="caught_up")
    assert t.rows() == [(4, "v4", 0.0)]
    assert (run.missing, run.rejected) == ({}, {})


def test_a_deletion_after_its_row_came_in_the_same_chunk() -> None:
    db = ev.connect()
    t = feed(db, [said("insert", 1, None), said("insert", 1, "b"), said("delete", 1, None)])
    db.run(until="caught_up")
    assert t.rows() == []  # though (1, NULL) is what was replaced: it says delete


def test_updates_delete_nothing() -> None:
    """What was there before an update may be told late, twice, or be something else; a key that changes leaves."""
    db = ev.connect()
    t = feed(
        db,
        [
            said("insert", 1, "a"),
            said("update_postimage", 1, "b"),
            said("update_preimage", 1, "a"),  # late
            said("update_preimage", 1, "never seen"),
            said("insert", 2, "x"),
            said("update_preimage", 2, "x"),
            said("update_postimage", 3, "x"),  # the key was changed
            said("update_preimage", 9, "not there"),
            said("update_postimage", 9, "y"),
        ],
    )
    run = db.run(until="caught_up")
    assert sorted(t.rows()) == [(1, "b", 0.0), (3, "x", 0.0), (9, "y", 0.0)]
    assert run.missing == {}


def test_differences_in_any_order() -> None:
    """Everview's own files say +new and -old in any order: that is no deletion."""
    db = ev.connect()

    def row(id: int, v: str, diff: int) -> dict[str, Any]:
        return {"id": id, "v": v, "_diff": diff}

    t = feed(db, [row(1, "a", 1), row(2, "a", 1), row(1, "b", 1), row(1, "a", -1), row(2, "other", -1)])
    run = db.run(until="caught_up")
    assert t.rows() == [(1, "b")] and run.missing == {}


def test_what_goes_comes_first_in_files(tmp_path: Path) -> None:
    """So a copy by key that is read row by row is never short of a row."""
    db, other = ev.connect(), ev.connect()
    t = db.table("t", {"id": int, "v": str}, key="id")
    db.view("v", t.select(id=ev.col.id, v=ev.col.v)).write_to(ev.io.parquet(tmp_path / "out"))
    t.upsert([(i, "b") for i in range(5)])
    t.upsert([(i, "a" if i % 2 else "c") for i in range(5)])
    copy = other.source("t", ev.io.parquet(tmp_path / "out"), mode="changes", key="id", max_rows_per_step=1)
    assert other.run(until="caught_up").missing == {}
    assert sorted(copy.rows()) == sorted(t.rows())


MISSING = [said("insert", 1, "a"), said("delete", 1, "a"), said("delete", 1, "a"), said("delete", 7, None)]


def test_what_finds_nothing_is_counted() -> None:
    db = ev.connect()
    t = feed(db, MISSING)
    run = db.run(until="caught_up")
    assert (t.rows(), run.missing, run.rows) == ([], {"t": 2}, {"t": 4})
    assert "deletions that found nothing: t 2" in str(run)


def test_or_refused() -> None:
    db = ev.connect()
    t = feed(db, MISSING, missing="reject")
    with pytest.raises(ev.InputError, match=r"E_ABSENT.*table 't': cannot delete id 1: there is no such row"):
        db.run(until="caught_up")
    assert t.rows() == [] and db.time == 0


def test_or_set_aside() -> None:
    db = ev.connect()
    feed(db, MISSING, missing="reject", bad="quarantine")
    run = db.run(until="caught_up")
    assert (run.missing, run.rejected) == ({}, {"t": 2})
    letters = sorted(db["t_rejected"].rows())
    assert [(reason, record) for _, reason, record in letters] == [
        ("[E_ABSENT] deleted, but not there", '{"id": 1}'),
        ("[E_ABSENT] deleted, but not there", '{"id": 7}'),
    ]


def test_debezium() -> None:
    db = ev.connect()
    records = [
        {"op": "c", "before": None, "after": {"id": 1, "v": "a"}},
        {"op": "u", "before": {"id": 1, "v": "a"}, "after": {"id": 1, "v": "b"}},
        {"op": "u", "before": {"id": 2}, "after": {"id": 2, "v": "b"}},  # an update of what nobody told
        {"op": "d", "before": {"id": 1}, "after": None},
        {"op": "d", "before": {"id": 5}, "after": None},
    ]
    t = db.source("t", records, mode="changes", key="id", schema={"id": int, "v": str})
    run = db.run(until="caught_up")
    assert (t.rows(), run.missing) == ([(2, "b")], {"t": 1})


@pytest.mark.parametrize("options", [{"missing": "ignore"}, {"missing": "reject", "mode": "upsert"}])
def test_options_that_mean_nothing(options: Any) -> None:
    with pytest.raises(ev.InputError, match="E_OPTION"):
        ev.connect().source("t", [{"id": 1}], key="id", **options)
