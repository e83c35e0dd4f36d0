"""Durable sessions: what was acknowledged is there when the directory is opened again."""

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
from everview import col
from everview.expr.language import udf
from everview.language.relation import relation_of
from tests.inside import inside
from tests.store.durably import die, reach

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
    for ending in (die, ev.Session.close, ev.Session.checkpoint):
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
            assert [c.type for c in relation_of(db["t"]).columns] == [
                relation_of(ev.connect().table("t", schema)).node.types[i] for i in range(9)
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
                    inside(db).transactions.set_offset("offset", str(i))
        stock.clear()
        stock.upsert([("plum", 8)])
        expected = sorted(total.changes(since=0)), db.time
        die(db)
    db = ev.connect(tmp_path)
    assert (sorted(db["total"].changes(since=0)), db.time) == expected
    assert db["stock"].rows() == [("plum", 8)] and inside(db).runtime.offsets == {"offset": "4"}
    db["stock"].upsert([("plum", 9)])
    db.close()
    db = ev.connect(tmp_path)
    assert db["stock"].lookup("plum") == [("plum", 9)] and inside(db).runtime.offsets == {"offset": "4"}
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
        assert relation_of(db["v"]).node != relation_of(db["w"]).node  # declared today, it would be another plan
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
    assert "binary, because you asked for it" in said["asked"]
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


def test_what_the_log_costs_is_told(tmp_path: Path) -> None:
    with ev.connect(tmp_path, sync="full") as db:
        t = db.table("t", {"x": int})
        before = db.stats()
        with db.batch():  # one record, and one wait for the disk
            for x in range(10):
                t.insert([(x,)])
        t.insert([(10,)])
        after = db.stats()
        assert after["log_records"] == before["log_records"] + 2
        assert after["log_bytes"] > before["log_bytes"] and after["log_seconds"] > before["log_seconds"]
    with ev.connect() as db:
        assert "log_records" not in db.stats()
