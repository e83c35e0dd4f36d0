"""`db.limits` and `db.cancel`: whatever a call is busy with, it stops, has changed nothing, and the session goes on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import everview as ev
from everview import col
from everview.expr import evaluate
from everview.kernels.guarded_calls import CELL_LIMIT, CELL_TRACK_FROM, CELL_TRACKED_WORDS
from everview.kernels.memory import TRACKED_FROM, cell
from everview.session.local_shards import local_shards
from tests.inside import inside
from tests.oracle.test_what_if import files, images

Connect = Callable[[], ev.Session]
PAIRS = "SELECT a.x, b.x FROM t AS a CROSS JOIN t AS b"
COUNT = "SELECT count(*) FROM t AS a CROSS JOIN t AS b WHERE a.x + b.x > 7"


@pytest.fixture(params=["memory", "durable", "shards"])
def connect(request: pytest.FixtureRequest, tmp_path: Path) -> Connect:
    made: dict[str, Connect] = {
        "memory": ev.connect,
        "durable": lambda: ev.connect(tmp_path / "state"),
        "shards": lambda: local_shards(2),
    }
    return made[request.param]


@pytest.fixture(autouse=True)
def nothing_stays() -> Iterator[None]:
    yield
    deadline = time.monotonic() + 10
    while (cell[CELL_LIMIT], cell[CELL_TRACK_FROM]) != (0, TRACKED_FROM) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert (int(cell[CELL_LIMIT]), int(cell[CELL_TRACK_FROM])) == (0, TRACKED_FROM)


@pytest.fixture
def db(connect: Connect) -> Iterator[ev.Session]:
    with connect() as made:
        made.table("t", {"x": int}).insert({"x": range(100_000)})
        made.view("small", made["t"].filter(col.x < 5))
        yield made


def state(db: ev.Session) -> Any:
    return db.time, db.views, images(db), files(db)


def goes_on(db: ev.Session) -> None:
    now = db.time
    db["t"].insert([(3,)])
    assert db.time == now + 1 and sorted(db["small"].rows()) == [(0,), (1,), (2,), (3,), (3,), (4,)]
    db["t"].delete([(3,)])
    if "u" in db:  # inboxes keep the room that they once needed until rows go through them
        db["u"].insert([(1,)])
        db["u"].delete([(1,)])


def stopped(db: ev.Session, code: str, call: Callable[[], Any], **limits: Any) -> float:
    """Seconds after which a call has stopped; nothing has changed."""
    before, words = state(db), int(cell[CELL_TRACKED_WORDS])
    start = time.monotonic()
    with pytest.raises(ev.EverviewError) as caught, db.limits(**limits):
        call()
    took = time.monotonic() - start
    assert caught.value.code == code, caught.value
    assert isinstance(caught.value, ev.MemoryLimitError if code == "E_MEMORY" else ev.StoppedError)
    assert state(db) == before
    goes_on(db)
    assert int(cell[CELL_TRACKED_WORDS]) - words < 1_000_000, "memory comes back"
    return took


def test_a_cross_join(db: ev.Session) -> None:
    assert stopped(db, "E_TIMEOUT", lambda: db.sql(COUNT), seconds=0.3) < 20
    assert stopped(db, "E_TIMEOUT", lambda: db.sql(PAIRS), seconds="100ms") < 20
    stopped(db, "E_MEMORY", lambda: db.sql(PAIRS), memory="50MB")
    assert db.sql("SELECT count(*) FROM t").rows() == [(100_000,)]


def test_the_step_of_a_transaction(db: ev.Session) -> None:
    """A view that was small until now."""
    u = db.table("u", {"y": int})
    t = db["t"]
    v = db.view("v", t.join(u, t.x != u.y).select(x=col.x, y=col.y))
    rows = {"y": range(50_000)}
    stopped(db, "E_TIMEOUT", lambda: u.insert(rows), seconds=0.2)
    stopped(db, "E_MEMORY", lambda: u.insert(rows), memory=20_000_000)
    with db.limits(seconds=20, memory="1GB"):
        u.insert([(1,)])
    assert len(v) == 99_999


def test_a_join_that_keeps_no_pair(db: ev.Session) -> None:
    """Nothing is allocated, however long it takes: as an installing step, and as the step of a transaction."""
    t = db["t"]
    empty = t.join(t.select(y=col.x), t.x + col.y < 0).select(x=col.x)
    assert stopped(db, "E_TIMEOUT", lambda: db.view("empty", empty), seconds=0.3) < 20
    timer = threading.Timer(0.3, db.cancel)
    timer.start()
    assert stopped(db, "E_CANCELLED", lambda: db.view("empty", empty), seconds=60) < 20
    u = db.table("u", {"y": int})
    v = db.view("v", t.join(u, t.x + u.y < 0).select(x=col.x))
    assert stopped(db, "E_TIMEOUT", lambda: u.insert({"y": range(100_000)}), seconds=0.3) < 20
    assert len(v) == 0


@pytest.mark.parametrize("connect", ["memory"], indirect=True)
def test_a_join_of_three_that_keeps_nothing(db: ev.Session) -> None:
    """All rows of the join at once: they go through one hub, and none fulfils the condition."""
    db.sql("CREATE TABLE p (a int, b int); CREATE TABLE q (b int, c int); CREATE TABLE r (c int, d int)")
    for name in ("p", "r"):
        db[name].insert([(i, 0) if name == "p" else (0, i) for i in range(30_000)])
    db["q"].insert([(0, 0)])
    text = "CREATE VIEW w AS SELECT a, d FROM p JOIN q USING (b) JOIN r USING (c) WHERE a + d < 0"
    for plan in ("wco", "delta"):
        db.sql(f"SET plan = '{plan}'")
        assert stopped(db, "E_TIMEOUT", lambda: db.sql(text), seconds=0.3) < 20


def test_an_endless_loop(db: ev.Session) -> None:
    few = db["t"].filter(col.x < 3)
    endless = few.iterate(lambda v: v.select(x=col.x + 1).union_all(few).distinct())
    assert stopped(db, "E_TIMEOUT", lambda: db.view("endless", endless), seconds=0.3) < 20
    wide = db["t"].iterate(lambda v: v.select(x=col.x + 1).union_all(db["t"]).distinct())
    assert stopped(db, "E_TIMEOUT", lambda: db.view("wide", wide), seconds=0.3) < 20


def test_a_large_sort(db: ev.Session) -> None:
    """Of values that Python has to compare."""
    question = "SELECT x FROM t ORDER BY (x % 1000)::numeric, x DESC"
    assert stopped(db, "E_TIMEOUT", lambda: db.sql(question), seconds=0.05) < 10


@pytest.mark.parametrize("place", ["map", "udf", "reduce"])
def test_a_function_that_sleeps(db: ev.Session, place: str) -> None:
    t = db.table("s", {"x": int})

    def slow(*values: Any) -> Any:
        time.sleep(100)

    made = {
        "map": lambda: t.map(slow, {"y": int}),
        "udf": lambda: t.select(y=ev.udf(slow, returns=int)(col.x)),
        "reduce": lambda: t.group_by("x").reduce(slow, returns={"y": int}),
    }[place]()
    db.view("slow", made)
    assert stopped(db, "E_TIMEOUT", lambda: t.insert([(1,), (2,)]), seconds=0.2) < 20


@pytest.mark.parametrize("text", ["repeat(x::text, 3)", "upper(x::text)", "x::text"])
def test_functions_of_texts(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They stop between two rows, and what they return may not take all memory."""
    with ev.connect() as db:
        db.table("t", {"x": int}).insert({"x": range(1000)})
        question = f"SELECT max(length({text})) FROM t"

        def stops() -> None:
            calls.append(None)
            if len(calls) == 10:
                raise ev.StoppedError("E_CANCELLED", "stopped", "")

        calls: list[None] = []
        with monkeypatch.context() as patched, pytest.raises(ev.StoppedError):
            patched.setattr(evaluate, "poll", stops)
            db.sql(question)
        with monkeypatch.context() as patched, pytest.raises(ev.MemoryLimitError, match="texts that a function"):
            patched.setattr(evaluate, "LETTERS_PER_LOOK", 1000)
            patched.setattr(evaluate, "available", lambda: 1500)
            db.sql(question)
        assert db.sql(question).rows()[0][0] in (3, 9)


def test_a_function_beside_a_call_is_like_any_other(db: ev.Session) -> None:
    globals()["held"] = db  # a function whose meaning does not depend on it
    t = db.table("s", {"x": int})
    v = db.view("v", t.map(lambda x: (6 // x,), {"y": int}))
    w = db.view("w", t.map(lambda x: globals()["held"]["t"].insert([(x,)]) or x, {"y": int}))
    with db.limits(seconds=5):
        with pytest.raises(ev.UdfError, match="ZeroDivisionError"):
            t.insert([(0,)])
        with pytest.raises(ev.UdfError, match="cannot change the session"):
            t.insert([(1,)])
        w.drop()
        t.insert([(2,)])
    assert v.rows() == [(3,)]


# cancelling


def cancelled(db: ev.Session, call: Callable[[], Any], after: float = 0.2) -> float:
    """Seconds that a call takes to stop after another thread cancels it."""
    said: list[float] = []

    def cancel() -> None:
        time.sleep(after)
        while not db.cancel():
            time.sleep(0.01)
        said.append(time.monotonic())

    before = state(db)
    thread = threading.Thread(target=cancel)
    thread.start()
    with pytest.raises(ev.StoppedError) as caught:
        call()
    took = time.monotonic() - said[0] if said else 0.0
    thread.join(60)
    assert caught.value.code == "E_CANCELLED"
    assert state(db) == before
    goes_on(db)
    return took


def nap(x: int) -> int:
    time.sleep(0.02)
    return x


def test_cancelling(db: ev.Session) -> None:
    assert cancelled(db, lambda: db.sql(COUNT)) < 20
    few = db["t"].filter(col.x < 3)
    endless = few.iterate(lambda v: v.select(x=col.x + 1).union_all(few).distinct())
    assert cancelled(db, lambda: db.view("endless", endless)) < 20
    naps = db.table("s", {"x": int})
    db.view("naps", naps.map(nap, {"y": int}))
    assert cancelled(db, lambda: naps.insert({"x": range(5000)})) < 20
    assert cancelled(db, lambda: db.what_if(insert={"s": {"x": range(5000)}}).changes("naps")) < 20


def test_there_is_nothing_to_cancel(db: ev.Session) -> None:
    assert not db.cancel()
    t = db["t"]
    globals()["held"] = db
    v = db.view("v", t.filter(col.x < 2).map(lambda x: (x, int(globals()["held"].cancel())), {"x": int, "was": int}))
    assert sorted(v.rows()) == [(0, 0), (1, 0)], "a call does not cancel itself"
    for _ in range(50):  # what is cancelled between calls harms none
        db.cancel()
        t.insert([(1,)])
        t.delete([(1,)])
    goes_on(db)


def test_a_transaction_and_a_batch(db: ev.Session) -> None:
    t, u = db["t"], db.table("u", {"y": int})
    db.view("v", t.join(u, t.x != u.y).agg(n=ev.count()))
    before = state(db)
    for block in (db.transaction, db.batch):
        with pytest.raises(ev.StoppedError), db.limits(seconds=0.2), block():
            u.insert([(1,)])
            u.insert({"y": range(100_000)})
        assert state(db) == before
    goes_on(db)


# limits


def test_limits_are_a_threads_own_and_the_smaller_counts(db: ev.Session) -> None:
    with db.limits(seconds=60), db.limits(seconds=0.1, memory="1GB"), db.limits(seconds=30):
        with pytest.raises(ev.StoppedError, match=r"0\.1 s"):
            db.sql(COUNT)
        assert len(inside(db).limits) == 1
        other: list[Any] = []
        thread = threading.Thread(target=lambda: other.append(inside(db).limits.get(threading.get_ident())))
        thread.start()
        thread.join()
        assert other == [None]
    assert not inside(db).limits
    goes_on(db)
    for wrong in ({"seconds": -1}, {"seconds": "soon"}, {"memory": "much"}, {"memory": 0}, {"memory": -5}):
        with pytest.raises(ev.InputError):
            db.limits(**wrong)


def test_small_calls_are_not_held_up(db: ev.Session) -> None:
    with db.limits(seconds=5, memory="100MB"):
        for i in range(200):
            db["t"].insert([(i,)])
            db["t"].delete([(i,)])
    goes_on(db)


def test_other_sessions_are_not_harmed() -> None:
    """The word that refuses memory is the process's: steps of others are run again."""
    over = threading.Event()
    errors: list[BaseException] = []
    with ev.connect() as one, ev.connect() as two:
        one.table("t", {"x": int}).insert({"x": range(100_000)})
        t = two.table("t", {"x": int})
        v = two.view("v", t.group_by("x").agg(n=ev.count()))
        done = [0]

        def work() -> None:
            try:
                while not over.is_set():
                    t.insert({"x": range(20_000)})
                    done[0] += 1
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        try:
            for query, limits in ((COUNT, {"seconds": 0.2}), (PAIRS, {"memory": "50MB"}), (PAIRS, {"seconds": 0.1})):
                with pytest.raises(ev.EverviewError), one.limits(**limits):
                    one.sql(query)
        finally:
            over.set()
            thread.join(120)
        assert not errors and done[0]
        assert sorted(v.rows()) == [(x, done[0]) for x in range(20_000)]
