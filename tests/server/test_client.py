"""The contract of a session, once embedded and once through a client; and what only a client has."""

from __future__ import annotations

import asyncio
import datetime as dt
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import everview as ev
from everview import client, col, lit
from tests.server.running import TOKEN, Running


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with Running() as found:
        yield found


@pytest.fixture(params=["embedded", "client"])
def db(request: pytest.FixtureRequest, running: Running) -> Iterator[Any]:
    if request.param == "embedded":
        with ev.connect() as session:
            yield session
        return
    running.until_idle()
    running.clear()
    with ev.connect(running.address, token=TOKEN) as session:
        yield session


@pytest.fixture
def remote(running: Running) -> Iterator[Any]:
    running.until_idle()
    running.clear()
    with ev.connect(running.address, token=TOKEN) as session:
        yield session


def told(db: Any, stop: Any) -> None:
    """Until a subscriber knows of all there is."""
    if hasattr(stop, "wait_for"):
        stop.wait_for(db.time)


def test_tables_and_views(db: Any) -> None:
    edge = db.table("edge", {"src": int, "dst": int})
    edge.insert([(1, 2), (2, 3), (2, 3)])
    edge.delete([(2, 3)])
    assert (sorted(edge.rows()), db.time, edge.count()) == ([(1, 2), (2, 3)], 2, 2)
    far = edge.alias("far")
    two = db.view("two", edge.join(far, edge.dst == far.src).select(src=edge.src, dst=far.dst))
    degree = db.view("degree", edge.group_by("src").agg(n=ev.count(), last=col.dst.max()), index_by="n")
    edge.insert([(3, 4)])
    assert sorted(two.rows()) == [(1, 3), (2, 4)]
    assert sorted(degree.lookup(1)) == [(1, 1, 2), (2, 1, 3), (3, 1, 4)]
    assert two.changes(since=2) == [((2, 4), 3, 1)]
    assert two.as_of(2).rows() == [(1, 3)]
    assert (db.tables, db.views, "two" in db, "three" in db) == (("edge",), ("two", "degree"), True, False)
    assert db["two"].counts() == {(1, 3): 1, (2, 4): 1}
    assert "Join" in two.explain()
    assert two.stats()["rows"] == 2
    on_top = db.view("on_top", two.filter(col.src > 1))
    assert on_top.rows() == [(2, 4)]
    on_top.drop()
    two.drop()
    degree.drop()
    edge.drop()
    assert (db.tables, db.views) == ((), ())


def test_loops(db: Any) -> None:
    edge, root = db.table("edge", {"src": int, "dst": int}), db.table("root", {"node": int})
    start = root.select("node")
    reach = db.view(
        "reach",
        start.iterate(
            lambda seen: seen.join(edge, seen.node == edge.src).select(node=edge.dst).union_all(start).distinct()
        ),
    )
    with db.transaction():
        root.insert([(1,)])
        edge.insert([(1, 2), (2, 3), (4, 5)])
    assert (sorted(reach.rows()), db.time) == ([(1,), (2,), (3,)], 1)
    edge.delete([(1, 2)])
    assert reach.rows() == [(1,)]


def test_transactions(db: Any) -> None:
    t = db.table("t", {"x": int})
    with db.transaction():
        t.insert([(1,)])
        with pytest.raises(ValueError), db.transaction():
            t.insert([(2,)])
            raise ValueError
        t.insert([(3,)])
        assert db.sql("SELECT sum(x) AS s FROM t").rows() == [(4,)], "SQL sees what the transaction has changed"
    assert (sorted(t.rows()), db.time) == ([(1,), (3,)], 1)
    with pytest.raises(KeyError), db.transaction():
        t.insert([(4,)])
        raise KeyError
    assert (t.count(), db.time) == (2, 1)
    with db.transaction():
        t.clear()
        db.sql("INSERT INTO t VALUES (9)")
    assert (t.rows(), db.time) == ([(9,)], 2)


def test_keys(db: Any) -> None:
    stock = db.table("stock", {"item": str, "n": int}, key="item")
    stock.insert([("pear", 3), ("fig", 1)])
    with pytest.raises(ev.InputError) as found:
        stock.insert([("pear", 5)])
    assert found.value.code == "E_KEY"
    stock.upsert([("pear", 5), ("plum", 1)])
    stock.delete(keys=["fig"])
    assert sorted(stock.rows()) == [("pear", 5), ("plum", 1)]
    assert stock.lookup("pear") == [("pear", 5)]


def test_sql_and_datalog(db: Any) -> None:
    assert db.sql("CREATE TABLE sale (shop text, amount int)").rows() == []
    total = db.sql("CREATE VIEW total AS SELECT shop, sum(amount) AS amount FROM sale GROUP BY shop")
    assert db.sql("INSERT INTO sale VALUES ('north', 5), ('south', 2), ('north', 1)") is None
    found = db.sql("SELECT * FROM total ORDER BY shop")
    assert (found.columns, found.rows(), len(found)) == (["shop", "amount"], [("north", 6), ("south", 2)], 2)
    assert found.to_arrow().to_pydict() == {"shop": ["north", "south"], "amount": [6, 2]}
    rules = db.datalog("big(X) :- total(X, Y), Y > 3. small(X) :- total(X, _), not big(X).")
    assert (rules.big.rows(), rules.small.rows(), list(rules)) == ([("north",)], [("south",)], ["big", "small"])
    bill = db.prepare("bill", "SELECT sum(amount) AS s FROM sale WHERE shop = $shop")
    assert (bill(shop="north").rows(), bill("south").rows()) == ([(6,)], [(2,)])
    assert sorted(total.to_pandas()["amount"]) == [2, 6]


VALUES: list[tuple[Any, list[Any]]] = [
    (int, [0, -(2**63), 2**63 - 1]),
    (float, [0.1, float("inf"), -1e300]),
    (bool, [True, False]),
    (str, ["", "ä\u2028😀", "$x", '{"a": 1}']),
    (bytes, [b"", b"\x00\xff"]),
    (dt.date, [dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
    (dt.datetime, [dt.datetime(2026, 1, 31, 12, 0, 0, 1)]),
    (dt.time, [dt.time(23, 59, 59, 999999)]),
    (ev.decimal(2), [Decimal("1.50"), Decimal("-0.01")]),
    (uuid.UUID, [uuid.UUID(int=7)]),
    (tuple[int, str], [(1, "a")]),
    (list[int], [[1, None, 3], []]),
    ("json", [{"a": [1, {"b": None}]}, "text", 5]),
    (dt.timedelta, [dt.timedelta(days=1, microseconds=1)]),
]


@pytest.mark.parametrize(("kind", "values"), VALUES, ids=[str(k) for k, _ in VALUES])
def test_values_come_back_as_they_were(kind: Any, values: list[Any], running: Running, remote: Any) -> None:
    with ev.connect() as embedded:
        found: list[tuple[Any, ...]] = []
        for db in (embedded, remote):
            t = db.table("t", {"k": int, "x": kind, "y": _optional(kind)})
            t.insert([(i, v, None if i else v) for i, v in enumerate(values)])
            rows = sorted(t.rows())
            found.append((rows, [type(r[1]) for r in rows], t.lookup(0), t.changes(0), t.to_arrow().to_pydict()))
            heard: list[Any] = []
            stop = t.subscribe(heard.append)
            found[-1] = (*found[-1], sorted(heard[0].rows()))
            stop()
        assert repr(found[0]) == repr(found[1])


def _optional(kind: Any) -> Any:
    if isinstance(kind, ev.DataType):
        return kind.optional()
    return f"{kind}?" if False else (kind | None if not isinstance(kind, str) else ev.DataType("json", nullable=True))


@pytest.mark.parametrize(
    "rows",
    [
        [{"x": 1, "y": "a"}, {"y": "b", "x": 2}],
        {"x": [1, 2], "y": ["a", "b"]},
        pa.table({"y": ["a", "b"], "x": [1, 2]}),
        pd.DataFrame({"x": [1, 2], "y": ["a", "b"]}),
        pl.DataFrame({"x": [1, 2], "y": ["a", "b"]}),
        ((i, c) for i, c in ((1, "a"), (2, "b"))),
    ],
    ids=["dicts", "columns", "arrow", "pandas", "polars", "generator"],
)
def test_rows_come_in_many_shapes(rows: Any, remote: Any) -> None:
    t = remote.table("t", {"x": int, "y": str})
    t.insert(rows)
    assert sorted(t.rows()) == [(1, "a"), (2, "b")]


def test_tables_of_data(db: Any) -> None:
    assert db.table("city", [{"name": "Graz", "people": 300_000}]).rows() == [("Graz", 300_000)]
    assert sorted(db.table("t", {"x": [1, 2]}).rows()) == [(1,), (2,)]


@pytest.mark.parametrize(
    ("mistake", "code"),
    [
        (lambda db, t: t.insert([("one",)]), "E_TYPE"),
        (lambda db, t: t.insert([(1, 2)]), "E_WIDTH"),
        (lambda db, t: t.insert([(object(),)]), "E_TYPE"),
        (lambda db, t: t.insert(5), "E_TYPE"),
        (lambda db, t: t.delete([(99,)]), "E_ABSENT"),
        (lambda db, t: t.upsert([(1,)]), "E_NO_KEY"),
        (lambda db, t: db.sql("SELECT y FROM t"), "E_COLUMN"),
        (lambda db, t: db.sql("SELECT 1 +"), "E_SYNTAX"),
        (lambda db, t: db["nothing"], "E_NAME"),
        (lambda db, t: t.select("y"), "E_COLUMN"),
        (lambda db, t: t.as_of(99), "E_FUTURE"),
        (lambda db, t: db.table("t", {"x": int}), "E_NAME"),
        (lambda db, t: db.table("u", {}), "E_SCHEMA"),
        (lambda db, t: db.table("u", {"x": object}), "E_TYPE"),
        (lambda db, t: db.view("v", t.filter(col.x > 1), index_by="z"), "E_COLUMN"),
        (lambda db, t: db.view("v", 5), "E_TYPE"),
        (lambda db, t: db.datalog("p(X) :- q(X)."), "E_RELATION"),
        (lambda db, t: db.what_if(delete={"t": [(99,)]}).changes("t"), "E_ABSENT"),
        (lambda db, t: t.subscribe(7), "E_TYPE"),
    ],
)
def test_mistakes_have_the_same_codes(mistake: Callable[[Any, Any], Any], code: str, db: Any) -> None:
    t = db.table("t", {"x": int})
    t.insert([(1,)])
    with pytest.raises(ev.EverviewError) as found:
        mistake(db, t)
    assert found.value.code == code
    assert type(found.value).__name__ in ev.__all__ or isinstance(found.value, ev.PlanError | ev.InputError)
    assert t.rows() == [(1,)]


def test_row_errors(db: Any) -> None:
    t = db.table("t", {"x": int})
    v = db.view("v", t.select(y=6 // t.x))
    t.insert([(0,), (2,)])
    with pytest.raises(ev.RowErrors):
        v.rows()
    assert [n for _, n in v.errors()] == [1]
    t.delete([(0,)])
    assert v.rows() == [(3,)]


def test_subscribers(db: Any) -> None:
    t = db.table("t", {"x": int})
    v = db.view("v", t.select(y=col.x * lit(2)))
    t.insert([(1,)])
    heard: list[Any] = []
    stop = v.subscribe(heard.append)
    t.insert([(2,)])
    told(db, stop)
    t.delete([(1,)])
    told(db, stop)
    assert [(b.time, b.rows()) for b in heard] == [(1, [((2,), 1)]), (2, [((4,), 1)]), (3, [((2,), -1)])]
    assert heard[1].to_arrow().to_pydict() == {"y": [4], "_time": [2], "_diff": [1]}
    stop()
    t.insert([(5,)])
    assert len(heard) == 3


@pytest.mark.parametrize("kept", ["lazy", "bdd", ev.Provenance("bdd", nodes=50, beyond="lazy", order="arrival")])
def test_provenance_is_kept_and_read(db: Any, kept: Any) -> None:
    edge = db.table("edge", {"src": str, "dst": str | None, "w": float})
    two = edge.join(edge.rename(dst="src", to="dst", v="w"), on="dst").select("src", "to").distinct()
    hops = db.view("hops", two, provenance=kept)
    edge.insert([("a", "b", 1.0), ("b", "d", float("nan")), ("a", "c", 2.0), ("c", "d", 3.0), ("c", None, 4.0)])
    found = hops.provenance(("a", "d"))
    code = next(row[-1] for row in hops.rows() if row[:2] == ("a", "d"))
    assert found.code == code and hops.provenance(("a", "d", code)) == found
    assert len(found.witnesses()) == (1 if kept == "lazy" else 2)
    if kept != "lazy":
        assert found.probability({"edge": 0.5}) == 0.4375
        assert len(found.without({"edge": [("b", "d", float("nan"))]}).witnesses()) == 1
        assert found.without({"edge": ...}).is_false
    assert hops.provenances() == {("a", "d"): found, ("a", None): hops.provenance(("a", None))}
    assert found.to_dict()["code"] == code and str(hops.provenances()[("a", "d")]) == str(found)
    with pytest.raises(ev.EverviewError) as error:
        hops.provenance(("z", "z"))
    assert error.value.code == "E_ABSENT"
    with pytest.raises(ev.EverviewError) as error:
        db.view("none", edge.group_by("src").agg(n=ev.count()), provenance=kept)
    assert error.value.code == "E_MONOTONE"
    with pytest.raises(ev.EverviewError) as error:
        db.view("odd", two, provenance="all")
    assert error.value.code == "E_PROVENANCE"


def test_why_and_what_if(db: Any) -> None:
    edge = db.table("edge", {"src": str, "dst": str})
    rules = db.datalog('reach("a"). reach(Y) :- reach(X), edge(X, Y).')
    edge.insert([("a", "b"), ("b", "c"), ("c", "b")])
    d = rules.reach.why(("c",))
    assert d.leaves() == {("edge", ("a", "b")), ("edge", ("b", "c"))}
    assert str(d).startswith("reach('c')  by reach(Y) :- reach(X), edge(X, Y).")
    assert len(rules.reach.why(("b",), all=3)) >= 1
    assert rules.reach.why_not(("z",)).missing()
    assert not rules.reach.trust(("c",), without={"edge": [("b", "c")]})
    assert not rules.reach.trust(("c",), without="edge")
    assert rules.reach.trust(("b",), without={"edge": [("c", "b")]}) and rules.reach.trust(("a",), without=["edge"])
    assert float(rules.reach.probability(("c",), {"edge": 0.5})) == 0.25
    assert str(rules.reach.probability(("c",), {"edge": {("a", "b"): 0.5}})) == "0.5"
    with pytest.raises(ev.EverviewError, match="provenance"):
        rules.reach.provenance(("c",))
    with db.what_if() as w:
        edge.delete([("a", "b")])
        assert sorted(w.changes("reach")) == [(("b",), -1), (("c",), -1)]
        assert rules.reach.rows() == [("a",)]
        assert db.sql("SELECT count(*) AS n FROM edge").rows() == [(2,)]
    assert len(rules.reach.rows()) == 3
    assert db.what_if(insert={"edge": [("c", "d")]}).changes("reach") == [(("d",), 1)]
    assert db.time == 1


def test_memory_and_clock(db: Any) -> None:
    assert db.memory()["total"] > 0
    db.advance(dt.datetime(2026, 1, 31, 12, 0))
    seen = db.table("seen", {"who": str}, ttl=dt.timedelta(minutes=5))
    seen.insert([("Ada",)])
    db.advance(dt.datetime(2026, 1, 31, 12, 5))
    assert (seen.rows(), db.now) == ([], dt.datetime(2026, 1, 31, 12, 5))
    assert db.check() == []


def test_limits(db: Any) -> None:
    t = db.table("t", {"x": int})
    t.insert({"x": list(range(20_000))})
    cross = "SELECT count(*) FROM t AS a CROSS JOIN t AS b CROSS JOIN t AS c WHERE a.x + b.x > c.x"
    with pytest.raises(ev.StoppedError) as found, db.limits(seconds=0.2):
        db.sql(cross).rows()
    assert found.value.code == "E_TIMEOUT"
    assert t.count() == 20_000


# what only a client has


def test_a_call_is_cancelled_from_another_thread(remote: Any) -> None:
    t = remote.table("t", {"x": int})
    t.insert({"x": list(range(20_000))})
    found: list[ev.EverviewError] = []

    def ask() -> None:
        try:
            remote.sql("SELECT count(*) FROM t AS a CROSS JOIN t AS b CROSS JOIN t AS c WHERE a.x + b.x > c.x").rows()
        except ev.EverviewError as error:
            found.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    while thread.is_alive():
        remote.cancel()
        thread.join(0.02)
    assert [e.code for e in found] == ["E_CANCELLED"]


def test_functions_do_not_travel(remote: Any) -> None:
    t = remote.table("t", {"x": int})
    for collection in (t.map(lambda x: x + 1, {"y": int}), t.select(y=ev.udf(lambda x: x, returns=int)(col.x))):
        with pytest.raises(ev.InputError) as found:
            remote.view("v", collection)
        assert found.value.code == "E_FUNCTION"
    for name in ("function", "source", "run", "read"):
        with pytest.raises(ev.InputError) as found:
            getattr(remote, name)
        assert found.value.code == "E_UNSUPPORTED"


def test_collections_of_other_sessions_are_refused(remote: Any) -> None:
    with ev.connect() as other, pytest.raises(ev.PlanError) as found:
        remote.view("v", other.table("t", {"x": int}).filter(col.x > 1))
    assert found.value.code == "E_SESSION"


def test_a_plan_over_what_is_not_there_any_more(remote: Any) -> None:
    t = remote.table("t", {"x": int})
    query = t.filter(col.x > 1)
    t.drop()
    with pytest.raises(ev.PlanError) as found:
        remote.view("v", query)
    assert found.value.code == "E_NAME"
    remote.table("t", {"x": str})
    with pytest.raises(ev.PlanError) as found:
        remote.view("v", query)
    assert found.value.code == "E_SCHEMA"


@pytest.mark.parametrize(
    "plan", ["", "x", "[]", "[1]", '[["Table", 0]]', '[["Loop"]]', "gASVAAAA", '[["Udf",{"fn":"f0"}]]']
)
def test_plans_of_strangers_are_refused(plan: str, remote: Any) -> None:
    with pytest.raises(ev.EverviewError) as found:
        remote._call("view", {"name": "v", "columns": ["x"], "plan": plan, "names": {}})
    assert found.value.code == "E_MESSAGE"


def test_a_wrong_token_and_a_wrong_address(running: Running) -> None:
    with pytest.raises(ev.InputError) as found:
        ev.connect(running.address, token="wrong")
    assert found.value.code == "E_AUTH"
    for address in ("everview://", "everview://x:y", f"everview://user:{TOKEN}@127.0.0.1:1", "everview://h:1/db"):
        with pytest.raises(ev.InputError) as found:
            ev.connect(address)
        assert found.value.code == "E_TARGET"
        assert TOKEN not in str(found.value)
    with pytest.raises(ev.StoreError) as missing:
        ev.connect("everview://127.0.0.1:1", token="x")
    assert missing.value.code == "E_SERVER"
    with pytest.raises(ev.InputError) as found:
        ev.connect(running.address, token=TOKEN, history=5, shards=2)
    assert found.value.code == "E_OPTION"


def test_a_closed_client(running: Running) -> None:
    db = ev.connect(running.address, token=TOKEN)
    db.close()
    with pytest.raises(ev.ClosedError):
        db.sql("SELECT 1")
    db.close()


def test_a_query_is_followed(remote: Any) -> None:
    t = remote.table("t", {"x": int})
    heard: list[Any] = []
    stop = remote.subscribe("SELECT sum(x) AS s FROM t", heard.append)
    t.insert([(1,), (2,)])
    stop.wait_for(1)
    assert heard[-1].rows()[-1] == ((3,), 1)
    stop()
    with pytest.raises(ev.PlanError):
        remote.subscribe("SELECT nothing FROM t", heard.append)


def test_the_asynchronous_face(running: Running, remote: Any) -> None:
    async def main() -> None:
        async with await client.connect_async(running.address, token=TOKEN) as db:
            sale = await db.table("sale", {"shop": str, "amount": int})
            total = await db.view("total", sale.collection.group_by("shop").agg(amount=col.amount.sum()))
            found = []
            following = db.follow("total")
            waiting = asyncio.ensure_future(anext(following))
            await db.together([("sale", "insert", [("north", 5)]), ("sale", "insert", [("north", 1)])])
            found.append((await waiting).rows())
            assert found == [[(("north", 6), 1)]]
            await following.aclose()
            assert await total.rows() == [("north", 6)]
            assert (await db.sql("SELECT count(*) AS n FROM sale")).rows() == [(2,)]
            assert await db.get("time") == 1
            assert await (await db.get("total")).lookup("north") == [("north", 6)]
            with pytest.raises(ev.InputError):
                await sale.insert([(1, 2)])

    asyncio.run(asyncio.wait_for(main(), 60))


def test_importing_a_client_loads_no_engine(running: Running) -> None:
    code = f"""
import sys, everview as ev
from everview import col
db = ev.connect({running.address!r}, token={TOKEN!r})
t = db.table("thin", {{"x": int}})
t.insert([(1,), (5,)])
v = db.view("thick", t.filter(col.x > 2).group_by("x").agg(n=ev.count()))
assert v.rows() == [(5, 1)], v.rows()
heard = []
stop = v.subscribe(heard.append)
assert heard
stop()
allowed = {{"everview.kernels", "everview.kernels.build", "everview.kernels.build.no_compiler"}}
heavy = ("numba", "llvmlite", "sqlglot", "lark", "starlette", "uvicorn", "pandas", "polars", "everview.dataflow",
         "everview.runtime", "everview.kernels", "everview.sql", "everview.datalog", "everview.server")
print(sorted(m for m in sys.modules if m.startswith(heavy) and m not in allowed))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "[]", done.stderr
