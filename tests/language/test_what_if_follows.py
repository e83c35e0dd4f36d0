"""`db.what_if` with what follows from a change: constraints that act, sequences, plans that change; and in one line,
beside other threads' transactions.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

import everview as ev
from everview import col
from everview.session.local_shards import local_shards
from tests.oracle.test_what_if import images

Connect = Callable[[], ev.Session]


@pytest.fixture(params=["memory", "shards"])
def connect(request: pytest.FixtureRequest) -> Connect:
    made: dict[str, Connect] = {"memory": ev.connect, "shards": lambda: local_shards(3)}
    return made[request.param]


@pytest.mark.parametrize("action", ["CASCADE", "SET NULL"])
def test_rows_that_refer_to_one_that_goes(connect: Connect, action: str) -> None:
    db = connect()
    db.sql("CREATE TABLE p (id INT PRIMARY KEY)")
    db.sql(f"CREATE TABLE c (id INT PRIMARY KEY, p INT REFERENCES p (id) ON DELETE {action})")
    db.sql("CREATE MATERIALIZED VIEW n AS SELECT p, count(*) AS n FROM c GROUP BY p")
    db.sql("INSERT INTO p VALUES (1), (2)")
    db.sql("INSERT INTO c VALUES (10, 1), (11, 1), (12, 2)")
    asked = db.what_if(delete={"p": [(1,)]})
    told = {name: sorted(asked.changes(name), key=repr) for name in ("p", "c", "n")}
    with db.what_if() as w:
        db["p"].delete([(1,)])
        assert {name: sorted(w.changes(name), key=repr) for name in told} == told
    now = db.time
    db["p"].delete([(1,)])
    did = {n: sorted(((r, d) for r, _, d in db[n].changes(since=now)), key=repr) for n in told}
    assert told == did and len(did["c"]) == (2 if action == "CASCADE" else 4)
    db.close()


def test_a_constraint_that_would_be_broken(connect: Connect) -> None:
    db = connect()
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, n INT CHECK (n > 0))")
    db.sql("INSERT INTO t VALUES (1, 1)")
    before = images(db)
    with pytest.raises(ev.ConstraintError) as caught:
        _ = db.what_if(insert={"t": [(2, -5)]}).changed
    assert "(-5, 2) breaks CHECK" in str(caught.value)
    assert images(db) == before
    db.sql("INSERT INTO t VALUES (2, 5)")
    db.close()


def test_numbers_of_sequences_that_were_only_supposed(connect: Connect) -> None:
    db = connect()
    db.sql("CREATE TABLE t (id serial, x INT)")
    db.sql("INSERT INTO t (x) VALUES (1)")
    for _ in range(2):
        with db.what_if() as w:
            db.sql("INSERT INTO t (x) VALUES (2), (3)")
            assert sorted(w.changes("t")) == [((2, 2), 1), ((3, 3), 1)]
    db.sql("INSERT INTO t (x) VALUES (4)")
    assert sorted(db["t"].rows()) == [(1, 1), (2, 4)]
    db.close()


def test_an_answer_about_a_table_that_was_altered_since(connect: Connect) -> None:
    db = connect()
    t = db.table("t", {"x": int})
    db.view("v", t.distinct())
    t.insert([(1,)])
    asked = db.what_if(delete={"t": [(1,)]})
    assert asked.changed == ("t", "v")
    db.sql("ALTER TABLE t ADD COLUMN y INT")
    with pytest.raises(ev.InputError) as caught:
        asked.changes("v")
    assert caught.value.code == "E_WHAT_IF"
    assert db.what_if(delete={"t": [(1, None)]}).changed == ("t", "v")
    db.close()


def test_in_one_line_nobody_is_waited_for() -> None:
    """Another thread's transaction is open: what it has staged is not there yet."""
    db = ev.connect()
    t = db.table("t", {"x": int})
    view = db.view("v", t.agg(n=ev.count()))
    t.insert([(1,), (2,)])
    opened, done = threading.Event(), threading.Event()

    def other() -> None:
        with db.transaction():
            t.insert([(3,)])
            opened.set()
            assert done.wait(30)

    thread = threading.Thread(target=other)
    thread.start()
    assert opened.wait(30)
    try:
        assert sorted(db.what_if(delete={"t": [(1,)]}).changes("v")) == [((1,), 1), ((2,), -1)]
    finally:
        done.set()
        thread.join(30)
    assert view.rows() == [(3,)]
    db.close()


@pytest.mark.parametrize("rows", [1, 40, 5000])
def test_functions_and_many_rows_in_one_line(connect: Connect, rows: int) -> None:
    """Answers with little and much room, of steps that need Python, from rows given as tuples and as columns."""
    db = connect()
    t = db.table("t", {"x": int})
    triple = ev.udf(lambda x: 3 * x, returns=int)
    db.view("v", t.select(y=triple(col.x)))
    db.view("sums", t.group_by(k=col.x % 7).agg(s=col.x.sum(), n=ev.count()))
    t.insert({"x": list(range(6000))})
    gone = [(x,) for x in range(rows)]
    for given in (gone, {"x": list(range(rows))}):
        before = images(db)
        asked = db.what_if(delete={"t": given})
        told = {name: sorted(asked.changes(name)) for name in ("t", "v", "sums")}
        assert images(db) == before
        now = db.time
        t.delete(gone)
        assert told == {n: sorted((r, d) for r, _, d in db[n].changes(since=now)) for n in told}
        t.insert(gone)
    db.close()
