"""Opening a durable directory: declaring again what is there, options, one session at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

import everview as ev
from everview import col
from everview.dataflow import reductions

# declaring again


def test_what_is_there_is_declared_again_only_as_it_is(tmp_path: Path) -> None:
    with ev.connect(tmp_path) as db:
        t = db.table("t", {"x": int, "y": str}, key="x")
        db.view("v", t.group_by("y").agg(n=ev.count()), index_by="y")
    with ev.connect(tmp_path) as db:
        for schema, key in [({"x": int, "y": str}, None), ({"x": int}, "x"), ({"x": int, "z": str}, "x")]:
            with pytest.raises(ev.InputError, match=r"E_SCHEMA.*\(x int, y str, key x\)"):
                db.table("t", schema, key)
        t = db.table("t", {"x": int, "y": str}, key=["x"])
        assert t is db["t"]
        for plan, index in [
            (t.group_by("y").agg(m=ev.count()), "y"),
            (t.group_by("y").agg(n=col.x.max()), "y"),
            (t.group_by("y").agg(n=ev.count()), None),
        ]:
            with pytest.raises(ev.PlanError, match=r"E_NAME.*another definition"):
                db.view("v", plan, index_by=index)
        assert db.view("v", t.group_by("y").agg(n=ev.count()), index_by="y") is db["v"]
        with pytest.raises(ev.InputError, match=r"E_NAME.*taken"):
            db.table("t", {"x": int, "y": str}, key="x")
        with pytest.raises(ev.InputError, match=r"E_NAME.*taken"):
            db.view("v", t.group_by("y").agg(n=ev.count()), index_by="y")
    with ev.connect(tmp_path) as db, pytest.raises(ev.InputError, match=r"E_NAME.*taken"):
        db.table("v", {"x": int})


def test_views_of_views_and_explain_after_opening(tmp_path: Path) -> None:
    with ev.connect(tmp_path) as db:
        t = db.table("t", {"k": int, "x": int})
        sums = db.view("sums", t.group_by("k").agg(s=col.x.sum()))
        db.view("large", sums.filter(col.s > 10))
        t.insert([(1, 5), (1, 6), (2, 3)])
        before = db.stats()
        db.checkpoint()
    with ev.connect(tmp_path) as db:
        assert db.stats()["operators"] == before["operators"]
        assert "Table t" in db["large"].explain()
        top = db.view("top", db["sums"].filter(col.s > 2))
        db["t"].insert([(2, 4)])
        assert sorted(top.rows()) == [(1, 11), (2, 7)] and db["large"].rows() == [(1, 11)]


# being alone


def test_a_second_session_is_refused_until_the_first_is_closed(tmp_path: Path) -> None:
    with ev.connect(tmp_path) as db:
        with pytest.raises(ev.StoreError, match="E_LOCKED"):
            ev.connect(tmp_path)
        db.table("t", {"x": int})
    with ev.connect(tmp_path) as db:
        assert db.tables == ("t",)
    with pytest.raises(ev.ClosedError):
        db["t"].rows()


def test_options(tmp_path: Path) -> None:
    with pytest.raises(ev.InputError, match="E_OPTION"):
        ev.connect(tmp_path, sync="sometimes")
    with pytest.raises(ev.InputError, match="E_TARGET"):
        ev.connect(42)
    with pytest.raises(ev.InputError, match=r"E_OPTION.*sync"):
        ev.connect(sync="full")
    with ev.connect(tmp_path / "a" / "b", sync="full") as db:
        db.table("t", {"x": int}).insert([(1,)])
    with ev.connect(str(tmp_path / "a" / "b")) as db:
        assert db["t"].rows() == [(1,)]


def test_a_session_that_is_forgotten_lets_go(tmp_path: Path) -> None:
    db = ev.connect(tmp_path)
    db.table("t", {"x": int}).insert([(1,)])
    del db
    import gc

    gc.collect()
    with ev.connect(tmp_path) as db:
        assert db["t"].rows() == [(1,)]


# sums


def test_sums_of_a_directory_whose_writer_knew_no_errors_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They once refused the step, and had no operator for groups that are out of range."""
    large = 2**63 - 1
    with monkeypatch.context() as patched:
        patched.setattr(reductions, "_FALLIBLE", ())
        with ev.connect(tmp_path) as db:
            t = db.table("t", {"k": int, "i": int})
            db.view("v", t.group_by("k").agg(s=col.i.sum()))
            t.insert([(1, 5), (2, 7)])
            db.checkpoint()
            t.insert([(1, 1)])
    with pytest.warns(UserWarning, match="views are computed again"):
        db = ev.connect(tmp_path)
    assert (sorted(db["v"].rows()), db.check()) == ([(1, 6), (2, 7)], [])
    db["t"].insert([(1, large)])
    db.checkpoint()
    db.close()
    with ev.connect(tmp_path) as db:
        assert db["v"].errors() == [("the result is out of range", 1)]
        db["t"].delete([(1, large)])
        assert (sorted(db["v"].rows()), db.check()) == ([(1, 6), (2, 7)], [])
