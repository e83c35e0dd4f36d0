"""`db.what_if`: what is read inside, what fails, who sees what meanwhile, and that nothing has happened afterwards."""

from __future__ import annotations

import datetime as dt
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import everview as ev
from everview import col
from everview.session.core import core_of
from everview.session.local_shards import local_shards
from tests.inside import inside
from tests.oracle.test_what_if import files, images
from tests.store.durably import die, reach

Connect = Callable[[], ev.Session]


@pytest.fixture(params=["memory", "durable", "shards"])
def connect(request: pytest.FixtureRequest, tmp_path: Path) -> Connect:
    made: dict[str, Connect] = {
        "memory": ev.connect,
        "durable": lambda: ev.connect(tmp_path / "state"),
        "shards": lambda: local_shards(3),
    }
    return made[request.param]


class World:
    """Tables with and without keys, a loop, an aggregate, and somebody who listens."""

    def __init__(self, db: ev.Session) -> None:
        self.db = db
        self.edge = db.table("edge", {"src": int, "dst": int})
        self.root = db.table("root", {"node": int})
        self.stock = db.table("stock", {"item": str, "n": int}, key="item")
        self.reach = db.view("reach", reach(self.edge, self.root))
        self.degree = db.view("degree", self.edge.group_by("src").agg(n=ev.count()))
        self.many = db.view("many", self.stock.filter(col.n > 2).select("item"))
        self.heard: list[Any] = []
        for what in (self.reach, self.stock):
            what.subscribe(self.heard.append, snapshot=False)
        with db.transaction():
            self.edge.insert([(1, 2), (2, 3), (3, 4), (1, 3)])
            self.root.insert([(1,)])
            self.stock.insert([("fig", 3), ("pear", 1)])
        for name in (*db.tables, *db.views):
            db[name].rows()
        self.before = self.state()

    def state(self) -> Any:
        rows = {name: sorted(self.db[name].rows()) for name in (*self.db.tables, *self.db.views)}
        return self.db.time, rows, len(self.heard), images(self.db), files(self.db)

    def unharmed(self) -> None:
        """Nothing has happened, and what comes next is right."""
        assert self.state() == self.before
        self.edge.insert([(4, 5)])
        assert sorted(self.reach.rows()) == [(1,), (2,), (3,), (4,), (5,)]
        assert self.db.time == self.before[0] + 1


@pytest.fixture
def world(connect: Connect) -> Any:
    made = World(connect())
    yield made
    made.db.close()


def test_reads_inside_see_it(world: World) -> None:
    db, edge, reach = world.db, world.edge, world.reach
    with db.what_if() as w:
        edge.delete([(3, 4)])
        assert sorted(reach.rows()) == [(1,), (2,), (3,)]
        assert len(reach) == 3 and reach.lookup(4) == [] and reach.lookup(2) == [(2,)]
        assert w.changes("reach") == [((4,), -1)]
        edge.insert([(3, 7), (7, 8)])
        assert sorted(w.changes("reach")) == [((4,), -1), ((7,), 1), ((8,), 1)]
        assert reach.lookup(8) == [(8,)] and edge.lookup(7) == [(7, 8)]
        assert world.degree.lookup((3, 1)) == [(3, 1)]
        assert world.degree.lookup(7) == [(7, 1)]
        assert reach.counts()[(7,)] == 1
        assert sorted(reach.to_arrow().column("node").to_pylist()) == [1, 2, 3, 7, 8]
        assert reach.changes(since=db.time) == [((4,), 2, -1), ((7,), 2, 1), ((8,), 2, 1)]
        assert sorted(reach.as_of(db.time).rows()) == [(1,), (2,), (3,), (4,)]
        assert db.time == 1 and w.changed == ("edge", "reach", "degree")
    assert sorted(w.changes("reach")) == [((4,), -1), ((7,), 1), ((8,), 1)], "it knows afterwards, too"
    world.unharmed()


def test_in_one_line(world: World) -> None:
    db = world.db
    found = db.what_if(
        delete={"edge": [(3, 4)]}, insert={"edge": [(2, 9)], "root": []}, upsert={"stock": [("pear", 5)]}
    )
    assert sorted(found.changes("reach")) == [((4,), -1), ((9,), 1)]
    assert found.changes("many") == [(("pear",), 1)]
    assert sorted(found.changes("stock")) == [(("pear", 1), -1), (("pear", 5), 1)]
    assert found.changes("root") == [] and "root" not in found.changed
    assert "reach" in str(found) and "<table" in found._repr_html_() and "reach" in repr(found)
    world.unharmed()
    assert sorted(found.changes("reach")) == [((4,), -1), ((9,), 1)], "the answer is to when it was asked"


def test_given_and_then_changed(world: World) -> None:
    with world.db.what_if(delete={"edge": [(3, 4)]}) as w:
        assert w.changes("reach") == [((4,), -1)]
        world.edge.insert([(2, 4)])
        assert w.changes("reach") == []
    assert sorted(w.changes("edge")) == [((2, 4), 1), ((3, 4), -1)]
    world.unharmed()


def test_changes_by_key_and_by_sql(world: World) -> None:
    db, stock = world.db, world.stock
    with db.what_if() as w:
        stock.upsert([("pear", 7)])
        stock.delete(keys=["fig"])
        db.sql("INSERT INTO stock VALUES ('plum', 4)")
        db.sql("UPDATE stock SET n = n + 1 WHERE item = 'plum'")
        assert sorted(stock.rows()) == [("pear", 7), ("plum", 5)]
        assert db.sql("SELECT item FROM many ORDER BY item").rows() == [("pear",), ("plum",)]
        assert db.sql("SELECT count(*) FROM stock WHERE n > 6").rows() == [(1,)]
        with db.transaction():
            stock.insert([("kiwi", 9)])
        with pytest.raises(ValueError), db.transaction():
            stock.clear()
            raise ValueError
        db.sql("BEGIN; DELETE FROM stock; ROLLBACK")
        assert sorted(w.changes("many")) == [(("fig",), -1), (("kiwi",), 1), (("pear",), 1), (("plum",), 1)]
    world.unharmed()


def test_many_rows_at_once(world: World) -> None:
    """Bulk inserts go another way into a step."""
    found = world.db.what_if(insert={"edge": {"src": range(1, 3000), "dst": range(2, 3001)}})
    assert len(found.changes("reach")) == 2996
    world.unharmed()


# what fails


@pytest.mark.parametrize("read", [True, False])
def test_a_change_that_would_fail(world: World, read: bool) -> None:
    with pytest.raises(ev.InputError) as caught, world.db.what_if() as w:
        world.edge.delete([(8, 9)])
        if read:
            w.changes("reach")
    assert caught.value.code == "E_ABSENT" and "(8, 9)" in caught.value.message
    world.unharmed()


def test_a_change_that_fails_can_be_made_good_inside(world: World) -> None:
    with world.db.what_if() as w:
        world.edge.delete([(8, 9)])
        with pytest.raises(ev.InputError):
            world.reach.rows()
        world.edge.insert([(8, 9)])
        assert w.changes("reach") == []
        with pytest.raises(ev.InputError, match="already has a row with key"):
            world.stock.insert([("fig", 1)])
        with pytest.raises(ev.InputError, match="E_TYPE"):
            world.edge.insert([("x", 1)])
        assert w.changed == ()
    world.unharmed()


def test_an_exception_in_the_block(world: World) -> None:
    with pytest.raises(ZeroDivisionError), world.db.what_if() as w:
        world.edge.delete([(3, 4)])
        assert w.changes("reach") == [((4,), -1)]
        print(1 / 0)
    world.unharmed()


def test_loops_functions_and_sums_that_fail(connect: Connect) -> None:
    with connect() as db:
        a, b, c = (db.table(name, {"x": int}) for name in "abc")
        db.view("climb", a.iterate(lambda v: v.select(x=(v.x + 1) % 50).union_all(a).distinct(), max_rounds=20))
        db.view("f", b.map(lambda x: 6 // (x - 7), {"y": int}))
        db.view("s", c.agg(s=col.x.sum()))
        before = images(db)
        for name, rows, code in (
            ("a", [(1,)], "E_LOOP_LIMIT"),
            ("b", [(7,)], "E_UDF"),
            ("c", [(2**62,)] * 3, "E_ROWS"),
        ):
            for _ in range(2):
                with pytest.raises(ev.EverviewError) as caught:
                    db.what_if(insert={name: rows}).changes("s")
                assert caught.value.code == code
        assert images(db) == before and db.time == 0
        b.insert([(1,)])
        assert db["f"].rows() == [(-1,)]


def test_rows_that_could_not_be_computed(connect: Connect) -> None:
    with connect() as db:
        t = db.table("t", {"x": int})
        v = db.view("v", t.select(y=6 // t.x))
        t.insert([(2,)])
        with db.what_if() as w:
            t.insert([(0,), (3,)])
            assert w.errors("v") == v.errors() == [("division by zero", 1)]
            for ask in (lambda: w.changes("v"), v.rows, lambda: v.lookup(3), lambda: v.changes(since=0)):
                with pytest.raises(ev.RowErrors):
                    ask()
            t.delete([(0,)])
            assert w.changes("v") == [((2,), 1)] and v.errors() == []
        t.insert([(0,)])
        assert db.what_if(delete={"t": [(0,)]}).changes("v") == []
        assert v.errors() == [("division by zero", 1)]


def test_what_cannot_be_done_inside(world: World) -> None:
    db = world.db
    calls: list[Callable[[], Any]] = [
        lambda: db.table("new", {"x": int}),
        lambda: db.view("new", world.edge.distinct()),
        lambda: db.sql("CREATE VIEW new AS SELECT src FROM edge"),
        lambda: db.datalog("new(X) :- edge(X, _)."),
        lambda: db.prepare("new", "SELECT dst FROM edge WHERE src = $x"),
        lambda: world.degree.drop(),
        lambda: world.stock.drop(cascade=True),
        lambda: world.reach.subscribe(print),
        lambda: db.run(until="caught_up"),
        lambda: db.what_if(delete={"edge": [(1, 2)]}).changes("reach"),
        lambda: db.what_if().__enter__(),
    ]
    with db.what_if() as w:
        world.edge.delete([(3, 4)])
        for call in calls:
            with pytest.raises(ev.EverviewError) as caught:
                call()
            assert caught.value.code == "E_WHAT_IF", caught.value
        with pytest.raises(ev.InputError, match="E_TRANSACTION"):
            db.advance(dt.datetime(2040, 1, 1))
        assert w.changes("reach") == [((4,), -1)]
    with pytest.raises(ev.InputError, match="inside an open transaction"), db.transaction(), db.what_if():
        pass
    for wrong in ({"delete": {"edgee": [(1, 2)]}}, {"insert": {"reach": [(1,)]}}):
        with pytest.raises(ev.InputError, match="E_NAME"):
            db.what_if(**wrong)
    with pytest.raises(ev.InputError, match="E_TYPE"):
        db.what_if(delete=[(1, 2)])  # type: ignore[arg-type]
    with pytest.raises(ev.InputError, match="E_NAME"):
        db.what_if(delete={"edge": [(1, 2)]}).changes("reech")
    world.unharmed()


def test_after_what_a_batch_has_accepted(connect: Connect) -> None:
    with connect() as db:
        t = db.table("t", {"x": int})
        v = db.view("v", t.distinct())
        with db.batch():
            t.insert([(1,)])
            assert db.what_if(delete={"t": [(1,)]}).changes("v") == [((1,), -1)]
            t.insert([(2,)])
        assert sorted(v.rows()) == [(1,), (2,)] and db.time == 2


def test_a_prepared_query(connect: Connect) -> None:
    with connect() as db:
        edge = db.table("edge", {"src": int, "dst": int})
        edge.insert([(1, 2)])
        find = db.prepare("find", "SELECT dst FROM edge WHERE src = $x ORDER BY dst")
        assert find(x=1).rows() == [(2,)]
        with db.what_if():
            edge.insert([(1, 3)])
            assert find(x=1).rows() == [(2,), (3,)]
            with pytest.raises(ev.InputError, match="E_TRANSACTION"):
                find(x=2)
        assert find(x=1).rows() == [(2,)]


# the clock


def test_what_follows_the_clock(connect: Connect) -> None:
    """TTLs, windows and now() are part of the step; what they wait for is as it was."""
    noon = dt.datetime(2026, 1, 31, 12, 0)
    with connect() as db:
        db.advance(noon)
        seen = db.table("seen", {"who": str}, ttl=dt.timedelta(minutes=5))
        due = db.table("due", {"who": str, "at": dt.datetime})
        late = db.sql("CREATE VIEW late AS SELECT who FROM due WHERE at <= now()")
        last = db.sql("CREATE VIEW last AS SELECT who FROM seen [size 1 tuple]")
        seen.insert([("Ada",)])
        db.advance(noon + dt.timedelta(minutes=1))
        time, before = db.time, images(db)
        for _ in range(2):
            with db.what_if() as w:
                seen.insert([("Bob",)])
                due.insert([("Cid", noon), ("Dan", noon + dt.timedelta(minutes=2))])
                assert sorted(seen.rows()) == [("Ada",), ("Bob",)] and late.rows() == [("Cid",)]
                assert last.rows() == [("Bob",)] and w.changes("late") == [(("Cid",), 1)]
        assert images(db) == before and inside(db).clock.late(seen) == 0
        db.advance(noon + dt.timedelta(minutes=4))
        assert db.time == time, "nothing was due: Dan was only supposed"
        db.advance(noon + dt.timedelta(minutes=5))
        assert (db.time, seen.rows(), last.rows()) == (time + 1, [], [])


# threads, interrupts, death


def test_others_read_the_truth_meanwhile_and_wait_to_change_it(world: World) -> None:
    db, log = world.db, list[Any]()
    asked, go_on = threading.Event(), threading.Event()

    def other() -> None:
        asked.wait(60)
        log.append(sorted(world.reach.rows()))
        log.append(db.sql("SELECT count(*) FROM edge").rows())
        go_on.set()
        world.edge.insert([(4, 6)])
        log.append("changed")

    thread = threading.Thread(target=other)
    thread.start()
    with db.what_if() as w:
        world.edge.delete([(1, 2), (1, 3)])
        assert world.reach.rows() == [(1,)]
        asked.set()
        assert go_on.wait(60)
        assert world.reach.rows() == [(1,)]
        assert log == [[(1,), (2,), (3,), (4,)], [(4,)]]
    thread.join(60)
    assert log[2:] == ["changed"] and (6,) in world.reach.rows()
    assert sorted(w.changes("reach")) == [((2,), -1), ((3,), -1), ((4,), -1)]


def test_many_threads_ask_at_once(world: World) -> None:
    errors: list[BaseException] = []

    def ask(number: int) -> None:
        try:
            for i in range(20):
                found = world.db.what_if(insert={"edge": [(3, 100 + number)]}).changes("reach")
                assert found == [((100 + number,), 1)], (i, found)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not errors
    world.unharmed()


def test_another_thread_cannot_ask_inside(world: World) -> None:
    found: list[Any] = []

    def other(w: ev.WhatIf) -> None:
        try:
            w.changes("reach")
        except ev.InputError as error:
            found.append(error.code)

    with world.db.what_if() as w:
        world.edge.delete([(3, 4)])
        thread = threading.Thread(target=other, args=(w,))
        thread.start()
        thread.join(60)
    assert found == ["E_WHAT_IF"]


DEFINITIONS = [
    "GRANT SELECT ON t TO ann",
    "REVOKE INSERT ON t FROM ann",
    "CREATE ROLE bob",
    "ALTER ROLE ann SUPERUSER",
    "DROP ROLE ann",
    "CREATE POLICY p ON t USING (true)",
    "ALTER TABLE t ENABLE ROW LEVEL SECURITY",
    "ALTER TABLE t OWNER TO ann",
    "ALTER TABLE t ADD COLUMN b int",
    "ALTER TABLE t RENAME TO u",
    "ALTER TABLE t RENAME COLUMN a TO b",
    "ALTER TABLE t ALTER COLUMN a SET DEFAULT 3",
    "COMMENT ON TABLE t IS 'x'",
    "CREATE INDEX j ON t (a)",
    "DROP INDEX i",
    "CREATE TYPE mood AS ENUM ('sad')",
    "DROP TYPE size",
    "CREATE SEQUENCE r",
    "DROP SEQUENCE s",
]


def test_no_definition_is_changed_inside(connect: Connect) -> None:
    """What is not a row would stay: rights that were granted inside were there afterwards."""
    with connect() as db:
        db.sql("CREATE TABLE t (a int); CREATE INDEX i ON t (a); CREATE ROLE ann; GRANT INSERT ON t TO ann")
        db.sql("CREATE TYPE size AS ENUM ('s'); CREATE SEQUENCE s")

        def defined() -> list[Any]:
            access, shown = core_of(db).access, ("INDEXES", "TYPES", "TABLES")
            return [access.roles, access.rights, db["t"].schema(), *(db.sql(f"SHOW {s}").rows() for s in shown)]

        before = defined()
        for text in DEFINITIONS:
            with db.what_if():
                with pytest.raises(ev.EverviewError) as error:
                    db.sql(text)
                assert error.value.code == "E_WHAT_IF", (text, error.value)
        assert before == defined()


def test_an_interrupt_in_a_function_of_the_step(connect: Connect) -> None:
    with connect() as db:
        armed: list[int] = []

        def slow(x: int) -> int:
            if armed:
                signal.raise_signal(signal.SIGINT)
            return x

        t = db.table("t", {"x": int})
        v = db.view("v", t.map(slow, {"y": int}))
        t.insert([(1,)])
        before = images(db)
        usual = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            armed.append(1)
            with pytest.raises(KeyboardInterrupt), db.what_if():
                t.insert([(2,)])
                v.rows()
        finally:
            armed.clear()
            signal.signal(signal.SIGINT, usual)
        assert images(db) == before and db.time == 1
        t.insert([(3,)])
        assert sorted(v.rows()) == [(1,), (3,)]


def test_an_interrupt_in_the_block(world: World) -> None:
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), world.db.what_if():
            world.edge.delete([(3, 4)])
            world.reach.rows()
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, usual)
    world.unharmed()


def test_a_directory_that_is_only_read(tmp_path: Path) -> None:
    """That something changes can be supposed where nothing can be changed."""
    with ev.connect(tmp_path) as db:
        world = World(db)
        with ev.connect(tmp_path, read_only=True) as reader:
            before = files(db)
            found = reader.what_if(delete={"edge": [(3, 4)]}, upsert={"stock": [("pear", 9)]})
            assert found.changes("reach") == [((4,), -1)] and found.changes("many") == [(("pear",), 1)]
            assert files(db) == before
            with pytest.raises(ev.InputError, match="E_READ_ONLY"):
                reader["edge"].delete([(3, 4)])
        world.unharmed()


def test_what_follows_the_clock_in_a_directory_that_is_only_read(tmp_path: Path) -> None:
    """A reader replays what the writer's clock did; when it supposes something, it must do that itself."""
    noon = dt.datetime(2026, 1, 1, 12)
    with ev.connect(tmp_path) as db:
        db.advance(noon)
        db.sql("CREATE TABLE paid (id int PRIMARY KEY, at timestamp)")
        db.sql("CREATE VIEW recent AS SELECT id FROM paid WHERE at > now() - INTERVAL '1 day'")
        db.sql("INSERT INTO paid VALUES (1, '2026-01-01 11:00'), (2, '2025-12-01 11:00')")
        with ev.connect(tmp_path, read_only=True) as reader:
            delete = {"paid": [(1, noon - dt.timedelta(hours=1)), (2, dt.datetime(2025, 12, 1, 11))]}
            assert reader.what_if(delete=delete).changes("recent") == [((1,), -1)]
            db.sql("INSERT INTO paid VALUES (3, '2026-01-01 10:00')")
            reader.refresh()
            found = reader.what_if(delete={"paid": [(3, noon - dt.timedelta(hours=2))]}, insert={"paid": [(4, noon)]})
            assert sorted(found.changes("recent")) == [((3,), -1), ((4,), 1)]
            assert sorted(reader["recent"].rows()) == [(1,), (3,)]


def test_a_directory_that_shards_wrote_and_is_only_read(tmp_path: Path) -> None:
    from tests.spark import inprocess

    with ev.connect(inprocess.session(), state=str(tmp_path), shards=2) as db:
        t = db.table("t", {"x": int})
        v = db.view("v", t.distinct())
        t.insert([(1,)])
        assert db.what_if(insert={"t": [(2,)]}).changes("v") == [((2,), 1)]
        assert v.rows() == [(1,)] and db.time == 1
        with ev.connect(tmp_path, read_only=True) as reader:
            with pytest.raises(ev.InputError) as caught:
                reader.what_if(insert={"t": [(2,)]}).changes("v")
            assert caught.value.code == "E_READ_ONLY" and "shards" in caught.value.message


def test_words_that_were_only_supposed(tmp_path: Path) -> None:
    """They are in the dictionary, and with the next transaction in the log."""
    db = ev.connect(tmp_path)
    t = db.table("t", {"x": str})
    db.view("v", t.select(y=col.x.upper()))
    t.insert([("one",)])
    before = files(db)
    assert db.what_if(insert={"t": [("two",)]}).changes("v") == [(("TWO",), 1)]
    assert files(db) == before
    t.insert([("two",)])
    die(db)
    with ev.connect(tmp_path) as again:
        assert sorted(again["v"].rows()) == [("ONE",), ("TWO",)]


KILLED = """
import os, sys
import everview as ev
db = ev.connect(sys.argv[1])
t = db.table("t", {"x": int})
def last(x):
    if x == 13:
        os.kill(os.getpid(), 9)
    return x
db.view("v", t.distinct())
t.insert([(1,), (2,)])
if sys.argv[2] == "step":
    db.view("f", t.map(last, {"y": int}))
with db.what_if() as w:
    t.delete([(1,)])
    t.insert([(13,)])
    w.changes("v")
    os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("where", ["step", "block"])
def test_a_process_that_is_killed(tmp_path: Path, where: str) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), where], env=os.environ, check=False)
    assert done.returncode == -signal.SIGKILL
    with ev.connect(tmp_path, trust=True) as db:
        assert (db.time, sorted(db["v"].rows())) == (1, [(1,), (2,)])
