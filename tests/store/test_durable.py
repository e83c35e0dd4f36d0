"""Durable sessions: what was acknowledged is there when the directory is opened again, and only that."""

from __future__ import annotations

import datetime as dt
import threading
import warnings
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import everview as ev
from everview import col, durable
from everview.durable import DurableSession
from everview.expr.language import udf
from tests.store.disk import full_disk


def die(db: ev.Session) -> None:
    """Leave the directory as kill -9 would."""
    assert isinstance(db, DurableSession)
    db._let_go()


def reach(edge: Any, root: Any) -> ev.Collection:
    def step(found: Any) -> ev.Collection:
        return found.join(edge, found.node == edge.src).select(node=edge.dst).union_all(root).distinct()

    return root.iterate(step)


# what comes back


def test_everything_comes_back(tmp_path: Path) -> None:
    with ev.connect(tmp_path) as db:
        edge = db.table("edge", {"src": int, "dst": int})
        root = db.table("root", {"node": int})
        view = db.view("reach", reach(edge, root), index_by="node", history=7)
        with db.transaction():
            root.insert([(1,)])
            edge.insert([(1, 2), (2, 3), (3, 4), (4, 2)])
        edge.delete([(1, 2)])
        expected = (sorted(view.changes(since=0)), sorted(view.as_of(1).rows()), view.rows(), db.time)
    for ending in (die, DurableSession.close, DurableSession.checkpoint):
        db = ev.connect(tmp_path)
        view = db["reach"]
        assert (sorted(view.changes(since=0)), sorted(view.as_of(1).rows()), view.rows(), db.time) == expected
        assert view.lookup(1) == [(1,)] and view.lookup(2) == []
        assert db.tables == ("edge", "root") and db.views == ("reach",)
        ending(db)
        die(db)


def test_every_type_comes_back(tmp_path: Path) -> None:
    schema = {
        "i": int, "f": float, "b": bool, "s": str | None, "y": bytes, "d": dt.date, "t": dt.datetime,
        "m": Decimal, "p": tuple[int, str],
    }  # fmt: skip
    row = (
        1, 2.5, True, "pear", b"\0x", dt.date(2026, 11, 16), dt.datetime(2026, 11, 16, 1, 2, 3, tzinfo=dt.UTC),
        Decimal("1.5"), (3, "fig"),
    )  # fmt: skip
    rows = [row, (*row[:3], None, *row[4:])]
    for fold in (False, True):
        where = tmp_path / str(fold)
        with ev.connect(where) as db:
            db.table("t", schema, key=["i", "s"] if not fold else None).insert(rows)
            expected = sorted(db["t"].rows(), key=repr)
            if fold:
                db.checkpoint()
        with ev.connect(where) as db:
            assert sorted(db["t"].rows(), key=repr) == expected
            assert [c.type for c in db["t"]._columns] == [
                ev.connect().table("t", schema)._node.types[i] for i in range(9)
            ]


def test_upserts_batches_and_marks_come_back(tmp_path: Path) -> None:
    with ev.connect(tmp_path) as db:
        stock = db.table("stock", {"item": str, "n": int}, key="item")
        total = db.view("total", stock.group_by().agg(n=col.n.sum()))
        stock.upsert([("pear", 3), ("fig", 1)])
        with db.batch():
            for i in range(5):
                with db.transaction():
                    stock.upsert([("pear", i)])
                    db._mark("offset", str(i))
        stock.clear()
        stock.upsert([("plum", 8)])
        expected = sorted(total.changes(since=0)), db.time
        die(db)
    db = ev.connect(tmp_path)
    assert (sorted(db["total"].changes(since=0)), db.time) == expected
    assert db["stock"].rows() == [("plum", 8)] and db._marks == {"offset": "4"}
    db["stock"].upsert([("plum", 9)])
    db.close()
    db = ev.connect(tmp_path)
    assert db["stock"].lookup("plum") == [("plum", 9)] and db._marks == {"offset": "4"}
    db.close()


def test_sql_and_datalog_come_back(tmp_path: Path) -> None:
    program = "path(X, Y) :- edge(X, Y). path(X, Z) :- path(X, Y), edge(Y, Z)."
    with ev.connect(tmp_path) as db:
        db.sql("CREATE TABLE sale (shop text, amount int)")
        db.sql("CREATE VIEW total AS SELECT shop, sum(amount) AS amount FROM sale GROUP BY shop")
        db.sql("CREATE VIEW everything AS SELECT count(*) AS n FROM sale")
        db.sql("INSERT INTO sale VALUES ('north', 5), ('south', 2); BEGIN; INSERT INTO sale VALUES ('west', 1); COMMIT")
        db.table("edge", {"src": int, "dst": int}).insert([(1, 2), (2, 3)])
        db.datalog(program)
        db.sql("SELECT * FROM total WHERE amount > (SELECT min(amount) FROM total)").rows()
        die(db)
    for fold in (True, False):
        with ev.connect(tmp_path) as db:
            assert sorted(db["total"].rows()) == [("north", 5), ("south", 2), ("west", 1)]
            assert db["everything"].rows() == [(3,)]
            assert sorted(db["path"].rows()) == [(1, 2), (1, 3), (2, 3)]
            db.sql("CREATE TABLE sale (shop text, amount int)")
            db.sql("CREATE VIEW total AS SELECT shop, sum(amount) AS amount FROM sale GROUP BY shop")
            db.sql("CREATE OR REPLACE VIEW everything AS SELECT count(*) AS n FROM sale")
            assert sorted(db.datalog(program).path.rows()) == [(1, 2), (1, 3), (2, 3)]
            with pytest.raises(ev.EverviewError, match="E_NAME"):
                db.sql("CREATE TABLE sale (shop text, amount int)")
            if fold:
                db.checkpoint()


def test_subscribers_hear_of_what_comes_after(tmp_path: Path) -> None:
    with ev.connect(tmp_path) as db:
        t = db.table("t", {"x": int})
        db.view("v", t.distinct())
        t.insert([(1,), (1,)])
    with ev.connect(tmp_path) as db:
        heard: list[Any] = []
        db["v"].subscribe(lambda batch: heard.append((batch.time, batch.rows())))
        db["t"].insert([(2,)])
        assert heard == [(1, [((1,), 1)]), (2, [((2,), 1)])]


def test_history_that_is_gone_stays_gone(tmp_path: Path) -> None:
    with ev.connect(tmp_path, history=2) as db:
        t = db.table("t", {"x": int})
        v = db.view("v", t.distinct())
        for i in range(10):
            t.insert([(i,)])
        db.checkpoint()
        with pytest.raises(ev.CompactedError):
            v.as_of(5)
    with ev.connect(tmp_path, history=1000) as db:
        with pytest.raises(ev.CompactedError, match="history starts at 8"):
            db["v"].as_of(5)
        assert len(db["v"].as_of(8).rows()) == 8
        db["t"].insert([(99,)])
        assert len(db["v"].as_of(8).rows()) == 8
        assert db["v"].changes(since=9) == [((9,), 10, 1), ((99,), 11, 1)]


def test_views_dropped_and_tables_dropped_stay_dropped(tmp_path: Path) -> None:
    with ev.connect(tmp_path) as db:
        a, b = db.table("a", {"x": int}), db.table("b", {"x": int})
        db.view("one", a.distinct())
        db.view("two", a.join(b, a.x == b.x).select(x=a.x))
        db.view("three", b.distinct())
        a.insert([(1,), (2,)])
        b.insert([(2,)])
        db["one"].drop()
        with pytest.raises(ev.PlanError, match="E_IN_USE"):
            a.drop()
        b.drop(cascade=True)
        die(db)
    for _ in range(2):
        with ev.connect(tmp_path) as db:
            assert (db.tables, db.views, sorted(db["a"].rows())) == (("a",), (), [(1,), (2,)])
            db.checkpoint()
    with ev.connect(tmp_path) as db:
        b = db.table("b", {"x": str})
        b.insert([("new",)])
    with ev.connect(tmp_path) as db:
        assert db["b"].rows() == [("new",)]


def test_indexes_made_for_lookups_come_back(tmp_path: Path) -> None:
    with ev.connect(tmp_path) as db:
        t = db.table("t", {"x": int, "y": int})
        view = db.view("v", t.select("x", "y").distinct(), index_by="y")
        t.insert([(1, 5), (2, 5), (3, 6)])
        assert sorted(view.lookup(5)) == [(1, 5), (2, 5)]
        other = db.view("w", t.select("y", "x").distinct())
        assert other.lookup((5, 1)) == [(5, 1)]
        db.checkpoint()
        operators = db.stats()["operators"]
    with ev.connect(tmp_path) as db:
        assert db.stats()["operators"] == operators
        db["t"].insert([(4, 5)])
        assert sorted(db["v"].lookup(5)) == [(1, 5), (2, 5), (4, 5)]


def test_python_functions_come_back(tmp_path: Path) -> None:
    def setup(db: ev.Session, factor: int) -> None:
        t = db.table("t", {"x": int})
        times = udf(lambda x: factor * x, returns=int)
        db.view("times", t.select(y=times(t.x)))
        db.view("twice", db["times"].select(z=times(col.y)))
        db.view("parts", t.flat_map(lambda x: range(x), {"part": int}))

    with ev.connect(tmp_path) as db:
        setup(db, 3)
        db["t"].insert([(2,)])
        db.checkpoint()
    with ev.connect(tmp_path) as db:
        db["t"].insert([(1,)])
        setup(db, 3)
        assert sorted(db["times"].rows()) == [(3,), (6,)] and sorted(db["twice"].rows()) == [(9,), (18,)]
        assert sorted(db["parts"].rows()) == [(0,), (0,), (1,)]
    with ev.connect(tmp_path) as db, pytest.raises(ev.PlanError, match="'times' exists with another definition"):
        setup(db, 4)


def test_a_function_that_cannot_be_saved_makes_no_view(tmp_path: Path) -> None:
    lock = threading.Lock()
    with ev.connect(tmp_path) as db:
        t = db.table("t", {"x": int})
        with pytest.raises(ev.StoreError, match=r"E_FUNCTION.*view 'v'.*cannot be saved"):
            db.view("v", t.map(lambda x: int(lock.locked()) + x, {"y": int}))
        assert db.views == () and db.stats()["operators"] == 1
        db.view("v", t.map(lambda x: x + 1, {"y": int}))
        t.insert([(1,)])
    with ev.connect(tmp_path) as db:
        assert db["v"].rows() == [(2,)]


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


# what must not come back


def test_what_was_refused_is_not_in_the_log(tmp_path: Path) -> None:
    armed = tmp_path / "armed"

    def fragile(x: int) -> int:
        if armed.exists():
            raise ValueError("boom")
        return x

    db = ev.connect(tmp_path / "db")
    t = db.table("t", {"x": int})
    db.view("v", t.map(fragile, {"y": int}))
    t.insert([(1,)])
    size = (tmp_path / "db" / "wal" / f"{0:020d}").stat().st_size
    armed.touch()
    with pytest.raises(ev.UdfError):
        t.insert([(2,)])
    with pytest.raises(ev.InputError, match="E_ABSENT"), db.transaction():
        t.delete([(7,)])
    with pytest.raises(RuntimeError), db.transaction():
        t.insert([(3,)])
        raise RuntimeError
    armed.unlink()
    assert (tmp_path / "db" / "wal" / f"{0:020d}").stat().st_size == size
    assert (db.time, db["v"].rows()) == (1, [(1,)])
    t.insert([(4,)])
    die(db)
    db = ev.connect(tmp_path / "db")
    assert (db.time, sorted(db["v"].rows())) == (2, [(1,), (4,)])
    db.close()


def test_a_record_that_was_being_taken_back_when_the_process_died(tmp_path: Path) -> None:
    db = ev.connect(tmp_path)
    t = db.table("t", {"x": int})
    t.insert([(1,)])
    db._wal.cut = lambda size: None  # type: ignore[attr-defined, method-assign]
    with pytest.raises(ev.InputError, match="E_ABSENT"):
        t.delete([(2,)])
    die(db)
    with pytest.warns(UserWarning, match="refused and is taken out"):
        db = ev.connect(tmp_path)
    assert (db.time, db["t"].rows()) == (1, [(1,)])
    db["t"].insert([(5,)])
    die(db)
    with ev.connect(tmp_path) as db:
        assert (db.time, sorted(db["t"].rows())) == (2, [(1,), (5,)])


def test_an_interrupt_after_the_step_was_complete_keeps_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    db = ev.connect(tmp_path)
    t = db.table("t", {"x": int})
    run = db._graph.run

    def interrupted(epochs: int) -> None:
        run(epochs)
        raise KeyboardInterrupt

    monkeypatch.setattr(db._graph, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        t.insert([(1,)])
    monkeypatch.undo()
    t.insert([(2,)])
    assert (db.time, sorted(t.rows())) == (2, [(1,), (2,)])
    die(db)
    with ev.connect(tmp_path) as db:
        assert (db.time, sorted(db["t"].rows())) == (2, [(1,), (2,)])


# versions


def test_a_long_log_makes_a_version_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable, "LOG_BYTES", 20_000)
    with ev.connect(tmp_path) as db:
        t = db.table("t", {"x": int, "s": str})
        v = db.view("v", t.group_by("s").agg(n=ev.count()))
        for i in range(2000):
            t.insert([(i % 10, f"word {i % 50}")])
            if i >= 10:
                t.delete([(i % 10, f"word {(i - 10) % 50}")])
        expected = v.rows(), db.time
        assert (tmp_path / "log").exists()
        assert sum(p.stat().st_size for p in (tmp_path / "wal").iterdir()) < 100_000
        die(db)
    size = sum(p.stat().st_size for p in tmp_path.rglob("*") if p.is_file())
    assert size < 600_000, size
    with ev.connect(tmp_path) as db:
        assert (db["v"].rows(), db.time) == expected


def test_a_version_made_within_a_transaction_has_its_marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable, "LOG_BYTES", 0)
    monkeypatch.setattr(DurableSession, "_set_limit", lambda self: setattr(self, "_limit", 0))
    db = ev.connect(tmp_path)
    for i in range(3):
        db._mark("i", str(i))
    assert db._store.manifest.version >= 3  # type: ignore[attr-defined]
    die(db)
    with ev.connect(tmp_path) as db:
        assert (db._marks, db.time) == ({"i": "2"}, 3)


def test_batches_that_did_not_change_are_not_written_again(tmp_path: Path) -> None:
    with ev.connect(tmp_path) as db:
        t = db.table("t", {"x": int})
        t.insert({"x": np.arange(50_000)})
        db.checkpoint()
        before = {p.name: p.stat().st_ino for p in (tmp_path / "batches").iterdir()}
        t.insert([(7,)])
        db.checkpoint()
        after = {p.name: p.stat().st_ino for p in (tmp_path / "batches").iterdir()}
    assert before and after == before
    with ev.connect(tmp_path) as db:
        assert len(db["t"].rows()) == 50_001


def test_files_no_version_needs_are_gone(tmp_path: Path) -> None:
    with ev.connect(tmp_path, history=0) as db:
        t = db.table("t", {"x": int})
        for i in range(20):
            t.clear()
            t.insert({"x": np.arange(i, 5000 + i)})
            db.checkpoint()
        files = {p.name: p.stat().st_size for p in (tmp_path / "batches").iterdir()}
        assert set(files) == {ref.file for ref in db._store.manifest.refs()}  # type: ignore[attr-defined]
        assert sum(files.values()) < 500_000
        assert len(list((tmp_path / "log").iterdir())) == 0 and len(list((tmp_path / "wal").iterdir())) == 1


def test_views_made_and_dropped_for_ever_leave_no_history(tmp_path: Path) -> None:
    with ev.connect(tmp_path) as db:
        t = db.table("t", {"x": int})
        keep = db.view("keep", t.map(lambda x: x + 1, {"y": int}))
        for i in range(60):
            db.view(f"v{i}", t.filter(t.x > i).distinct()).drop()
        t.insert([(1,), (2,)])
        db.checkpoint()
        assert len(db._store.manifest.commands) == 2  # type: ignore[attr-defined]
        db.view("more", keep.distinct())
        t.insert([(3,)])
        die(db)
    with ev.connect(tmp_path) as db:
        assert sorted(db["keep"].rows()) == sorted(db["more"].rows()) == [(2,), (3,), (4,)]


def test_another_versions_operators_are_computed_again_with_a_warning(tmp_path: Path, monkeypatch: Any) -> None:
    with ev.connect(tmp_path) as db:
        edge, root = db.table("my edge", {"src": int, "dst": int}), db.table("root", {"node": int})
        db.view("gone", edge.distinct()).drop()
        db.view("reach", reach(edge, root))
        db.sql("CREATE VIEW n AS SELECT count(*) AS n FROM root")
        root.insert([(1,)])
        edge.insert([(1, 2), (2, 3)])
        monkeypatch.setattr(durable.saved, "fingerprints", lambda graph: FINGERPRINTS(graph)[:-1])
        db.checkpoint()
        edge.insert([(3, 4)])
        die(db)
    monkeypatch.undo()
    with pytest.warns(UserWarning, match="views are computed again"):
        db = ev.connect(tmp_path)
    assert sorted(db["reach"].rows()) == [(1,), (2,), (3,), (4,)] and db["n"].rows() == [(1,)]
    assert db.time == 3 and sorted(db["my edge"].rows()) == [(1, 2), (2, 3), (3, 4)]
    db["my edge"].delete([(2, 3)])
    db.checkpoint()
    die(db)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        db = ev.connect(tmp_path)
    assert sorted(db["reach"].rows()) == [(1,), (2,)] and db.time == 4
    db.close()


FINGERPRINTS = durable.saved.fingerprints


# disks


def test_a_full_disk_refuses_transactions_and_nothing_else(tmp_path: Path) -> None:
    db = ev.connect(tmp_path)
    t = db.table("t", {"x": int, "s": str})
    v = db.view("v", t.group_by("s").agg(n=ev.count()))
    t.insert([(1, "a")])
    size = (tmp_path / "wal" / f"{0:020d}").stat().st_size
    with full_disk(size):
        with pytest.raises(ev.StoreError, match="E_DISK"):
            t.insert([(2, "new text")])
        with pytest.raises(ev.StoreError, match="E_DISK"), db.batch():
            t.insert([(3, "b")])
            t.insert([(4, "c")])
        with pytest.raises(ev.StoreError, match="E_DISK"):
            db.table("other", {"x": int})
        with pytest.raises(ev.StoreError, match="E_DISK"):
            db.view("w", t.distinct())
        with pytest.raises(ev.StoreError, match="E_DISK"):
            v.drop()
        with pytest.raises(ev.StoreError, match="E_DISK"):
            db.checkpoint()
        assert (db.time, v.rows(), db.tables, db.views) == (1, [("a", 1)], ("t",), ("v",))
    t.insert([(2, "new text")])
    assert db.sql("SELECT 1 AS one").rows() == [(1,)]
    other = db.table("other", {"x": int})
    other.insert([(1,)])
    assert sorted(v.rows()) == [("a", 1), ("new text", 1)]
    die(db)
    with ev.connect(tmp_path) as db:
        assert sorted(db["v"].rows()) == [("a", 1), ("new text", 1)] and db.time == 3
        assert db["other"].rows() == [(1,)]


def test_a_full_disk_while_a_version_is_made_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable, "LOG_BYTES", 5_000)
    db = ev.connect(tmp_path)
    t = db.table("t", {"x": int})
    db.view("v", t.flat_map(lambda x: [100 * x + i for i in range(20)], {"y": int}))
    with pytest.warns(UserWarning, match="no new version could be written"), full_disk(60_000):
        t.insert({"x": np.arange(1000)})  # the log has room, the view's batch has not
        for i in range(10):
            t.insert([(1000 + i,)])
        assert (len(db["v"]), db.time) == (20_200, 11)
    die(db)
    with ev.connect(tmp_path) as db:
        assert (len(db["v"]), db.time) == (20_200, 11)
        db.checkpoint()
    with ev.connect(tmp_path) as db:
        assert (len(db["v"]), db.time) == (20_200, 11)


@pytest.mark.filterwarnings("ignore:.*unfinished record")
def test_a_log_cut_anywhere_opens_at_a_time_before(tmp_path: Path) -> None:
    db = ev.connect(tmp_path)
    t = db.table("t", {"x": int, "s": str})
    db.view("v", t.group_by("s").agg(n=ev.count()))
    for i in range(8):
        t.insert([(i, f"s{i % 3}")])
    die(db)
    path = tmp_path / "wal" / f"{0:020d}"
    good = path.read_bytes()
    times = set()
    for size in range(len(good), 0, -61):
        path.write_bytes(good[:size])
        db = ev.connect(tmp_path)
        times.add(db.time)
        if "v" in db:
            counts = [sum(1 for i in range(db.time) if i % 3 == k) for k in range(3)]
            assert sorted(db["v"].rows()) == [(f"s{k}", n) for k, n in enumerate(counts) if n]
        die(db)
    assert times == set(range(9))


def test_damage_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    with ev.connect(tmp_path) as db:
        t = db.table("t", {"x": int})
        t.insert({"x": np.arange(5000)})
        db.checkpoint()
        t.insert([(1,)])
        t.insert([(2,)])
        die(db)
    log = tmp_path / "wal" / f"{1:020d}"
    [batch] = (tmp_path / "batches").iterdir()
    for path in (log, batch):
        good = path.read_bytes()
        path.write_bytes(good[:40] + bytes([good[40] ^ 1]) + good[41:])
        with pytest.raises(ev.StoreError, match=f"E_DAMAGED.*{path.name}"):
            ev.connect(tmp_path)
        path.write_bytes(good)
    batch.rename(batch.with_name("elsewhere"))
    with pytest.raises(ev.StoreError, match=f"{batch.name} is missing"):
        ev.connect(tmp_path)
    batch.with_name("elsewhere").rename(batch)
    with ev.connect(tmp_path) as db:
        assert len(db["t"].rows()) == 5002


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
    with pytest.raises(ev.InputError, match=r"E_TARGET.*sync"):
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


# all kinds of views


def test_prepared_queries_go_on(tmp_path: Path) -> None:
    text = "SELECT sku, sum(price) AS total FROM orders WHERE customer = $customer GROUP BY sku"
    with ev.connect(tmp_path) as db:
        orders = db.table("orders", {"customer": str, "sku": str, "price": int})
        bill = db.prepare("bill", text)
        orders.insert([("Ann", "pear", 3), ("Bob", "fig", 2)])
        assert bill("Ann").rows() == [("pear", 3)]
        db.checkpoint()
        assert bill("Bob").rows() == [("fig", 2)]
        die(db)
    with ev.connect(tmp_path) as db:
        bill = db.prepare("bill", text)
        time = db.time
        assert bill("Ann").rows() == [("pear", 3)] and bill("Bob").rows() == [("fig", 2)]
        assert db.time == time  # the values were known
        db["orders"].insert([("Ann", "pear", 4)])
        assert bill("Ann").rows() == [("pear", 7)] and bill("Cleo").rows() == []
        bill.drop()
    with ev.connect(tmp_path) as db:
        assert "bill" not in db and db.stats()["operators"] == 1


@pytest.mark.parametrize("choice", ["binary", "delta", "wco"])
def test_joins_of_many_inputs_come_back(tmp_path: Path, choice: Any) -> None:
    def triangles(db: ev.Session) -> ev.Collection:
        edge: Any = db["edge"]
        b, c = edge.alias("b"), edge.alias("c")
        joined = edge.join(b, edge.dst == b.src).join(c, (b.dst == c.dst) & (edge.src == c.src))
        return joined.select(x=edge.src, y=edge.dst, z=b.dst)

    with ev.connect(tmp_path) as db:
        edge = db.table("edge", {"src": int, "dst": int})
        view = db.view("triangle", triangles(db), plan=choice)
        edge.insert([(1, 2), (2, 3), (1, 3), (2, 4)])
        plan = [line for line in view.explain().split("\n") if line.startswith("  ")]
        db.checkpoint()
        edge.insert([(1, 4)])
        die(db)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        db = ev.connect(tmp_path)
    assert sorted(db["triangle"].rows()) == [(1, 2, 3), (1, 2, 4)]
    view = db.view("triangle", triangles(db), plan=choice)
    assert len([line for line in view.explain().split("\n") if line.startswith("  ")]) == len(plan)
    db["edge"].insert([(3, 4)])
    db["edge"].delete([(1, 2)])
    assert sorted(view.rows()) == [(1, 3, 4), (2, 3, 4)]
    db.close()


def test_sql_that_orders_joins_by_size_is_known_again_when_sizes_have_changed(tmp_path: Path) -> None:
    view = "CREATE VIEW v AS SELECT a.x, c.z FROM a JOIN b ON a.x = b.x JOIN c ON b.y = c.y"
    other = view.replace("a.x, c.z", "a.x, c.y")
    text = "SELECT c.z FROM a JOIN b ON a.x = b.x JOIN c ON b.y = c.y WHERE a.k = $k"

    def declare(db: ev.Session, view: str) -> Any:
        for table in ("a (x int, k int)", "b (x int, y int)", "c (y int, z int)"):
            db.sql(f"CREATE TABLE {table}")
        db.sql(view)
        return db.prepare("p", text)

    with ev.connect(tmp_path) as db:
        declare(db, view)
        db["a"].insert({"x": np.arange(20_000), "k": np.arange(20_000)})
        db["b"].insert({"x": np.arange(100), "y": np.arange(100)})
        db["c"].insert([(5, 50)])
        db.sql(f"CREATE VIEW w AS {view[17:]}")
    with ev.connect(tmp_path) as db:
        assert declare(db, view)(k=5).rows() == [(50,)]
        assert db["v"].rows() == db["w"].rows() == [(5, 50)]
        assert db["v"]._node != db["w"]._node  # declared today, it would be another plan
        db["a"].clear()
        db.sql(f"CREATE VIEW w AS {view[17:]}")
    with ev.connect(tmp_path) as db:
        declare(db, view)
        db.sql(f"CREATE VIEW w AS {view[17:]}")
    with ev.connect(tmp_path) as db, pytest.raises(ev.PlanError, match=r"E_NAME.*another definition"):
        declare(db, other)


def test_why_joins_are_binary_comes_back(tmp_path: Path) -> None:
    """A cycle through different tables is binary because of its shape, not because somebody asked."""
    cycle = "SELECT x.a FROM e x, f y, g z WHERE x.b = y.a AND y.b = z.a AND z.b = x.a"
    db = ev.connect(tmp_path)
    for name in "efg":
        db.sql(f"CREATE TABLE {name} (a int NOT NULL, b int NOT NULL)")
    db.sql(f"CREATE VIEW chosen AS {cycle}")
    db.sql(f"CREATE VIEW asked AS {cycle.replace('SELECT x.a', 'SELECT /*+ plan(binary) */ y.a, y.b')}")
    db.prepare("given", f"{cycle} AND x.a > $least")
    said = {name: db[name].explain() for name in db.views}
    assert "binary, because the query has a cycle through different tables" in said["chosen"]
    assert "binary, because the query has a cycle through different tables" in said["given"]
    assert "binary, because that was asked for" in said["asked"]
    die(db)
    with ev.connect(tmp_path) as again:
        assert {name: again[name].explain() for name in again.views} == said
        again.checkpoint()
    with ev.connect(tmp_path) as again:
        assert {name: again[name].explain() for name in again.views} == said


def test_replacing_a_view_by_itself_keeps_it(tmp_path: Path) -> None:
    """A program that says CREATE OR REPLACE VIEW and is run again does not compute the view again."""
    text = "CREATE OR REPLACE VIEW total AS SELECT sum(x) AS s FROM t"
    with ev.connect(tmp_path) as db:
        db.sql("CREATE TABLE t (x int); INSERT INTO t VALUES (1)")
        db.sql(text)
        db.sql("INSERT INTO t VALUES (2)")
    with ev.connect(tmp_path) as db:
        assert sorted(db.sql(text).changes(since=1)) == [((1,), 2, -1), ((3,), 2, 1)]
        assert db.sql("CREATE OR REPLACE VIEW total AS SELECT count(*) AS n FROM t").rows() == [(2,)]
    with ev.connect(tmp_path) as db:
        assert db["total"].rows() == [(2,)]
