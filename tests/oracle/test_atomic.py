"""A step is atomic: whatever goes wrong in it, the session stays at the last complete time, its views right and usable.

Every test breaks a step in some way, then checks that time, tables and views are what they were, that nothing was told
to subscribers, and that the next transactions give the right answers.
"""

from __future__ import annotations

import _thread
import os
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import everview as ev
from everview.expr.language import col, count, lit, udf
from everview.kernels.build.native import DEBUG
from everview.kernels.guarded_calls import CELL_LIVE_BLOCKS
from everview.kernels.memory import cell
from everview.kernels.run import executor
from everview.session.local_shards import local_shards
from tests.inside import inside
from tests.oracle import graphs
from tests.oracle.harness import Runtime


class Bomb:
    """A function that fails for one value while it is armed."""

    def __init__(self, error: type[BaseException] = ValueError) -> None:
        self.error = error
        handle, self.fuse = tempfile.mkstemp()  # a file: copies of the function on workers see it too
        os.close(handle)

    def defuse(self) -> None:
        os.unlink(self.fuse)

    def __call__(self, x: int) -> int:
        if x == 13 and os.path.exists(self.fuse):
            raise self.error("boom")
        return x * 2


class World:
    """A session with tables and views of every kind that must survive."""

    def __init__(self, runtime: Runtime) -> None:
        self.db = runtime.connect()
        self.edge = self.db.table("edge", {"src": int, "dst": int})
        self.root = self.db.table("root", {"node": int})
        self.views = [
            self.db.view("reach", graphs.reach(self.edge, self.root)),
            self.db.view("degree", self.edge.group_by("src").agg(n=count(), far=col.dst.max())),
            self.db.view("strong", graphs.strong_edges(self.edge.distinct())),
            self.db.view("targets", self.edge.select("dst").distinct()),
        ]
        self.heard: list[int] = []
        self.views[0].subscribe(lambda batch: self.heard.append(batch.time))
        with self.db.transaction():
            self.edge.insert([(1, 2), (2, 3), (3, 1), (3, 4)])
            self.root.insert([(1,)])

    def state(self) -> Any:
        tables = [sorted(t.rows()) for t in (self.edge, self.root)]
        return self.db.time, tables, [sorted(v.rows()) for v in self.views], list(self.heard)

    @contextmanager
    def unharmed(self, *errors: type[BaseException], code: str | None = None) -> Iterator[None]:
        """The block raises one of the errors and nothing has changed, nor leaked, afterwards."""
        before, blocks = self.state(), int(cell[CELL_LIVE_BLOCKS])
        with pytest.raises(errors) as caught:
            yield
        if code is not None:
            assert isinstance(caught.value, ev.EverviewError) and caught.value.code == code, caught.value
        assert self.state() == before
        assert not DEBUG or abs(int(cell[CELL_LIVE_BLOCKS]) - blocks) <= 64, "a failed step leaks"
        self.works()

    def works(self) -> None:
        """Changes give right answers, and are taken back again."""
        now = self.db.time
        before = self.state()[1:3]
        with self.db.transaction():
            self.edge.insert([(4, 5), (5, 3)])
            self.edge.delete([(1, 2)])
        assert sorted(self.views[0].rows()) == [(1,)]
        assert sorted(self.views[2].rows()) == [(3, 4), (4, 5), (5, 3)]
        with self.db.transaction():
            self.edge.insert([(1, 2)])
            self.edge.delete([(4, 5), (5, 3)])
        assert self.db.time == now + 2
        assert self.state()[1:3] == before


@pytest.fixture
def world(runtime: Runtime) -> Iterator[World]:
    made = World(runtime)
    made.works()
    yield made
    made.db.close()


# ---- functions of users


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("place", ["select", "filter", "flat_map", "reduce", "loop", "vectorized"])
def test_a_function_that_raises(runtime: Runtime, world: World, place: str, error: type[BaseException]) -> None:
    if runtime.name in ("stored", "spark") and error is not ValueError:
        pytest.skip("ends the worker there, and Spark's retries take over")
    bomb = Bomb(error)
    double = udf(bomb, returns=int)
    every = udf(lambda xs: [bomb(x) for x in xs.to_pylist()], returns=int, vectorized=True)
    edge = world.edge
    collection = {
        "select": lambda: edge.select(x=double(col.src)),
        "filter": lambda: edge.filter(double(col.src) > 2),
        "flat_map": lambda: edge.flat_map(lambda a, b: [(bomb(a), b)], returns={"a": int, "b": int}),
        "reduce": lambda: edge.group_by("src").reduce(lambda key, rows: [(bomb(key[0]),)], returns={"y": int}),
        "loop": lambda: edge.select(x=col.src).iterate(
            lambda v: v.select(x=double(col.x) % 7).union_all(edge.select(x=col.src)).distinct()
        ),
        "vectorized": lambda: edge.select(x=every(col.src)),
    }[place]()
    view = world.db.view("view", collection)
    expected = sorted(view.rows())
    caught: Any = (ev.UdfError,) if error is ValueError else (error,)
    with world.unharmed(*caught, code="E_UDF" if error is ValueError else None):
        world.edge.insert([(8, 9), (13, 9)])
    assert sorted(view.rows()) == expected
    bomb.defuse()
    world.edge.insert([(13, 9)])
    assert len(view.rows()) > len(expected)


@pytest.mark.parametrize("position", [0, 2])
def test_a_function_that_raises_in_one_transaction_of_a_batch(world: World, position: int) -> None:
    double = udf(Bomb(), returns=int)
    world.db.view("view", world.edge.select(x=double(col.src)))
    with world.unharmed(ev.UdfError, code="E_UDF"), world.db.batch():
        for i in range(3):
            world.edge.insert([(13 if i == position else i, 9)])


def test_a_view_that_cannot_be_installed(world: World) -> None:
    bomb = Bomb()
    world.edge.insert([(13, 14)])
    with world.unharmed(ev.UdfError, code="E_UDF"):
        world.db.view("view", graphs.closure(world.edge).select(x=udf(bomb, returns=int)(col.src)))
    assert "view" not in world.db
    bomb.defuse()
    view = world.db.view("view", world.edge.select(x=udf(bomb, returns=int)(col.src)))
    assert (26,) in view.rows()


def test_a_function_that_gives_the_wrong_type(world: World) -> None:
    wrong = udf(lambda x: "text" if x == 13 else x, returns=int)
    world.db.view("view", world.edge.select(x=wrong(col.src)))
    with world.unharmed(ev.EverviewError):
        world.edge.insert([(13, 1)])


# ---- bad input


@pytest.mark.parametrize(
    ("rows", "code"),
    [
        ([(1, 2), (1, "x")], "E_TYPE"),
        ([(1, 2), (1, 2, 3)], "E_WIDTH"),
        ([(1, 2), (1, None)], "E_NULL"),
        ([(1, 2), (1, 2**63)], "E_RANGE"),
        ([{"src": 1, "dst": 2}, {"src": 1, "dest": 2}], "E_COLUMN"),
    ],
)
@pytest.mark.parametrize("many", [1, 40], ids=["few", "bulk"])
def test_one_bad_row_refuses_the_transaction(world: World, rows: list, code: str, many: int) -> None:
    with world.unharmed(ev.InputError, code=code), world.db.transaction():
        world.root.insert([(7,)])
        world.edge.insert(rows[:1] * many + rows)


def test_deleting_what_is_not_there(world: World) -> None:
    with world.unharmed(ev.InputError, code="E_ABSENT"):
        world.edge.delete([(9, 9)])
    with world.unharmed(ev.InputError, code="E_ABSENT"):
        world.edge.delete([(1, 2), (1, 2)])
    with world.unharmed(ev.InputError, code="E_ABSENT"), world.db.transaction():
        world.root.insert([(5,)])
        world.edge.delete([(9, 9)])
    with world.unharmed(ev.InputError, code="E_ABSENT"):
        world.edge.delete([(1, i) for i in range(100, 500)])


def test_deleting_before_inserting_is_fine_if_it_nets_out(world: World) -> None:
    with world.db.transaction():
        world.edge.delete([(9, 9)])
        world.edge.insert([(9, 9), (9, 9)])
    assert world.edge.rows().count((9, 9)) == 1


def test_deleting_what_is_not_there_yet_in_a_batch(world: World) -> None:
    time, rows = world.db.time, sorted(world.edge.rows())
    with pytest.raises(ev.InputError) as caught, world.db.batch():
        world.edge.insert([(6, 6)])
        world.edge.delete([(7, 7)])
        world.edge.insert([(7, 7)])
    assert caught.value.code == "E_ABSENT"
    assert world.db.time - time in (0, 1), "transactions before the bad one may stay, none after it"
    assert sorted(world.edge.rows()) == sorted(rows + [(6, 6)] * (world.db.time - time))


def test_an_exception_in_a_transaction_rolls_back(world: World) -> None:
    with world.unharmed(RuntimeError), world.db.transaction():
        world.edge.insert([(6, 6)])
        raise RuntimeError


def test_an_exception_in_a_nested_transaction_rolls_back_both(world: World) -> None:
    with world.unharmed(RuntimeError), world.db.transaction():
        world.edge.insert([(6, 6)])
        with world.db.transaction():
            world.root.insert([(6,)])
            raise RuntimeError


# ---- loops that do not end


def counting(world: World, limit: int | None = None) -> Any:
    """A loop that counts up for ever from the nodes above 10."""
    start = world.edge.filter(col.src > 10).select(n=col.src)
    return start.iterate(lambda x: x.select(n=col.n + 1).union_all(start).distinct(), max_rounds=limit)


def test_a_loop_beyond_its_round_limit(world: World) -> None:
    view = world.db.view("up", counting(world, 50))
    with world.unharmed(ev.LoopError, code="E_LOOP_LIMIT"):
        world.edge.insert([(11, 1)])
    assert view.rows() == []


def test_a_loop_beyond_its_round_limit_when_installed(world: World) -> None:
    world.edge.insert([(11, 1)])
    with world.unharmed(ev.LoopError, code="E_LOOP_LIMIT"):
        world.db.view("up", counting(world, 50))
    assert "up" not in world.db


@pytest.mark.parametrize("inner", [False, True])
def test_a_nested_loop_that_diverges(world: World, inner: bool) -> None:
    start = world.edge.filter(col.src > 10).select(n=col.src)

    def grow(x: Any) -> Any:
        return x.select(n=col.n + 1).union_all(start).distinct()

    def outer(x: Any) -> Any:
        if inner:
            return x.iterate(lambda y: y.select(n=col.n + 1).union_all(x).distinct(), max_rounds=20)
        return grow(x.iterate(lambda y: y.union_all(x).distinct(), max_rounds=20))

    view = world.db.view("up", start.iterate(outer, max_rounds=30))
    with world.unharmed(ev.LoopError, code="E_LOOP_LIMIT"):
        world.edge.insert([(11, 1)])
    assert view.rows() == []


@pytest.mark.parametrize("inner", [False, True])
def test_a_loop_that_diverges_is_named(runtime: Runtime, inner: bool) -> None:
    """Which view's, which of its loops, and that loop's limit: on shards too, where the loop is found by its place."""
    with runtime.connect() as db:
        t = db.table("t", {"n": int})
        db.view("fine", t.iterate(lambda x: x.select(n=(col.n + 1) % 5).union_all(t).distinct(), max_rounds=40))

        def grow(x: Any, base: Any) -> Any:
            return x.select(n=col.n + 1).filter(col.n < 1000).union_all(base).distinct()

        def outer(x: Any) -> Any:
            if inner:
                return x.iterate(lambda y: grow(y, x), max_rounds=20)
            return grow(x.iterate(lambda y: y.union_all(x).distinct(), max_rounds=20), t)

        db.view("up", t.iterate(outer, max_rounds=30))
        with pytest.raises(ev.LoopError) as caught:
            t.insert([(1,)])
        loop, limit = ("loop 2", 20) if inner else ("loop 1", 30)
        assert caught.value.message == f"view 'up': {loop} did not converge within its limit of {limit} rounds"
        t.insert([(995,)])
        assert (995,) in db["up"].rows() and len(db["fine"].rows()) >= 5


def test_a_function_that_a_step_calls_cannot_change_the_session(runtime: Runtime) -> None:
    """Where the function cannot take the session along, as on Spark, that is said instead."""
    with runtime.connect() as db:
        t = db.table("t", {"x": int})
        t.insert([(1,)])
        meddle = ev.udf(lambda x: (t.insert([(2,)]), x)[1], returns=int)
        with pytest.raises(ev.EverviewError, match=r"E_REENTRANT|E_FUNCTION") as caught:
            db.view("v", t.select(x=meddle(col.x)))
        assert caught.value.code == "E_FUNCTION" or runtime.name in ("embedded", "threads", "sharded", "spilled")
        t.insert([(3,)])
        assert sorted(t.rows()) == [(1,), (3,)]


@pytest.mark.parametrize("rounds", [1, 2, 3, 4, 6])
def test_the_limit_counts_applications_of_the_body(runtime: Runtime, rounds: int) -> None:
    """A chain of 3 edges is complete after 3 applications; the next must find nothing new."""
    with runtime.connect() as db:
        edge = db.table("edge", {"src": int, "dst": int})
        edge.insert([(1, 2), (2, 3), (3, 4)])
        first = edge.filter(col.src == 1).select(node=col.src)

        def grow(x: Any) -> Any:
            return x.join(edge, x.node == edge.src).select(node=edge.dst).union_all(x).distinct()

        stopped = db.view("stopped", first.iterate(grow, max_rounds=rounds, at_limit="stop"))
        assert sorted(stopped.rows()) == [(n,) for n in range(1, min(rounds, 3) + 2)]
        if rounds < 3:
            with pytest.raises(ev.LoopError) as caught:
                db.view("limited", first.iterate(grow, max_rounds=rounds))
            assert caught.value.code == "E_LOOP_LIMIT"
        if rounds > 3:
            assert len(db.view("limited", first.iterate(grow, max_rounds=rounds)).rows()) == 4


# ---- Ctrl-C


class Interrupting:
    """Ctrl-C after a moment, and again every two seconds until `heard`: an interrupt that comes while Python runs a
    finaliser is printed and forgotten, as people know who press Ctrl-C twice.
    """

    def __init__(self, how: str) -> None:
        self._how = how
        self._before = signal.signal(signal.SIGINT, signal.default_int_handler)  # shells make `&` ignore it
        self._heard = threading.Event()
        self._thread = threading.Thread(target=self._send, daemon=True)
        self._thread.start()

    def _send(self) -> None:
        for seconds in (0.2, 2.0, 2.0, 2.0):
            if self._heard.wait(seconds):
                return
            if self._how == "signal":
                signal.raise_signal(signal.SIGINT)
            else:
                _thread.interrupt_main()

    def heard(self) -> None:
        self._heard.set()
        self._thread.join()
        signal.signal(signal.SIGINT, self._before)


@pytest.mark.parametrize("how", ["signal", "interrupt_main"])
def test_ctrl_c_in_a_long_loop(world: World, how: str) -> None:
    """The loop would run for a very long time; the interrupt is heard, and the step undone."""
    view = world.db.view("up", counting(world))
    with world.unharmed(KeyboardInterrupt):
        interrupting = Interrupting(how)
        try:
            world.edge.insert([(11, 1)])
            pytest.fail("the loop ended before it was interrupted")
        finally:
            interrupting.heard()
    assert view.rows() == []


@pytest.mark.parametrize("moment", ["before", "after"])
def test_an_interrupt_at_the_edges_of_a_step(monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    """Heard by Python just before the executor is called, or just after it has committed the step."""
    with ev.connect() as db:
        t = db.table("t", {"n": int})
        total = db.view("total", t.group_by().agg(n=ev.count()))
        heard: list[Any] = []
        total.subscribe(heard.append, snapshot=False)
        t.insert([(1,)])
        real = executor.step

        def step(*words: int) -> int:
            answer = 0 if moment == "before" else real(*words)
            raise KeyboardInterrupt(answer)

        monkeypatch.setattr(executor, "step", step)
        with pytest.raises(KeyboardInterrupt):
            t.insert([(2,)])
        monkeypatch.undo()
        happened = moment == "after"
        assert db.time == 1 + happened
        assert t.rows() == [(1,), (2,)][: 1 + happened]
        t.insert([(3,)])
        assert total.rows() == [(2 + happened,)]
        assert sorted(t.rows()) == [(1,), (2,), (3,)] if happened else [(1,), (3,)]
        assert [batch.time for batch in heard] == list(range(1, db.time + 1)), "every complete time, once"


def test_ctrl_c_while_a_view_is_installed(runtime: Runtime, world: World) -> None:
    if runtime.name == "sharded":
        pytest.skip("a stand-in for workers, which get no signals; on a busy machine the only one may be lost there")
    world.edge.insert([(11, 1)])
    with world.unharmed(KeyboardInterrupt):
        interrupting = Interrupting("signal")
        try:
            world.db.view("up", counting(world))
        finally:
            interrupting.heard()
    assert "up" not in world.db


# ---- subscribers


def test_an_exception_in_a_subscriber_is_its_own_and_the_time_is_complete(world: World) -> None:
    def fail(batch: Any) -> None:
        raise RuntimeError("not my day")

    stop = world.views[0].subscribe(fail, snapshot=False)
    now = world.db.time
    world.edge.insert([(4, 9)])
    assert str(stop.error) == "not my day"
    assert world.db.time == now + 1
    assert (9,) in world.views[0].rows()
    assert world.heard[-1] == now + 1, "the other subscriber was told"
    stop()
    world.edge.delete([(4, 9)])
    world.works()


# ---- what is gone


def test_tables_in_use_and_dropped_things(world: World) -> None:
    with world.unharmed(ev.PlanError, code="E_IN_USE"):
        world.root.drop()
    view = world.db.view("extra", world.edge.select(x=col.src))
    view.drop()
    with world.unharmed(ev.ClosedError, code="E_DROPPED"):
        view.rows()
    other = world.db.table("other", {"x": int})
    plan = other.filter(col.x > lit(1))
    other.drop()
    with world.unharmed(ev.PlanError, code="E_DROPPED"):
        world.db.view("late", plan)
    with world.unharmed(ev.ClosedError, code="E_DROPPED"):
        other.insert([(1,)])


def test_dropping_a_table_with_its_views(world: World) -> None:
    world.root.drop(cascade=True)
    assert world.db.views == ("degree", "strong", "targets")
    world.edge.insert([(4, 1)])
    assert sorted(world.views[2].rows()) == sorted(world.edge.rows())


def test_times_that_were_compacted_and_times_to_come(runtime: Runtime) -> None:
    with runtime.connect(history=5) as db:
        t = db.table("t", {"x": int})
        v = db.view("v", t.distinct())
        for i in range(50):
            t.insert([(i,)])
        for read in (lambda: v.as_of(3).rows(), lambda: v.changes(since=3)):
            with pytest.raises(ev.CompactedError) as caught:
                read()
            assert caught.value.code == "E_COMPACTED"
        with pytest.raises(ev.InputError) as late:
            v.as_of(51)
        assert late.value.code == "E_FUTURE"
        assert len(v.as_of(45).rows()) == 45
        assert v.changes(since=48) == [((48,), 49, 1), ((49,), 50, 1)]
        held = v.as_of(46)
        for i in range(50, 90):
            t.insert([(i,)])
        assert len(held.rows()) == 46


def test_a_closed_session(runtime: Runtime) -> None:
    db = runtime.connect()
    t = db.table("t", {"x": int})
    v = db.view("v", t.distinct())
    t.insert([(1,)])
    db.close()
    db.close()
    for use in (lambda: t.insert([(1,)]), v.rows, lambda: db.table("u", {"x": int}), lambda: db.view("w", t)):
        with pytest.raises(ev.ClosedError) as caught:
            use()
        assert caught.value.code == "E_CLOSED"


def test_a_session_that_was_given_up_can_be_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    db = local_shards(shards=2)
    t = db.table("t", {"x": int})

    def fails(*_: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(inside(db).runtime, "_committed", fails)
    with pytest.raises(MemoryError):
        t.insert([(1,)])
    db.close()  # what the shards have committed cannot be taken over, so that it is closed already
    with pytest.raises(ev.ClosedError):
        t.rows()
