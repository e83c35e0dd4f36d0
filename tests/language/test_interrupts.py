"""Calls that are cut off, by Ctrl-C, by alarms and by other threads, leave the session as before or as after.

The work is done by `tests.language.interrupting`, in a process of its own: a double free ends that, not the tests.
"""

from __future__ import annotations

import asyncio
import ctypes
import datetime as dt
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import everview as ev
from everview import uninterruptible
from everview.dataflow import shield
from everview.dataflow.partitioning import HyperCube, Partitioning
from everview.dataflow.replica import Install
from everview.language.relation import relation_of
from everview.plan.frontier import Rule
from everview.plan.stable_repr import stable_repr
from everview.session.local_shards import local_shards
from everview.uninterruptible import Uninterruptible
from tests.inside import inside

HOW = ["signal", "unheard", "alarm", "thread", "places", "async", "kill"]


PATIENCE = float(os.environ.get("EVERVIEW_PATIENCE", "590"))
"""Seconds for one program; at the lowest priority of a busy machine it takes its time."""
INTERRUPTS = int(os.environ.get("EVERVIEW_INTERRUPTS", "1800"))


def interrupted(seed: int, count: int, where: str, how: str, program_of: str = "interrupting") -> None:
    program = [sys.executable, "-m", f"tests.language.{program_of}", str(seed), str(count), where, how]
    run = subprocess.run(program, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert run.returncode == 0, f"{program[3:]}: {run.returncode}\n{run.stdout[-1000:]}\n{run.stderr[-3000:]}"


@pytest.mark.parametrize("how", HOW)
def test_calls_cut_off_at_random_instants(how: str) -> None:
    interrupted(11, 60, "embedded", how)


@pytest.mark.parametrize("how", ["signal", "thread", "places"])
def test_calls_cut_off_at_random_instants_in_a_directory(how: str) -> None:
    interrupted(12, 30, "durable", how)


@pytest.mark.parametrize("how", ["signal", "places", "async"])
@pytest.mark.parametrize("where", ["shards", "spark"])
def test_calls_cut_off_at_random_instants_on_shards(where: str, how: str) -> None:
    """All of them in this process; `spark` is the driver of a session on Spark, with a stand-in for Spark."""
    interrupted(13, 25, where, how)


class Foreign(BaseException):
    """What another thread raises in this one."""


@pytest.mark.parametrize(
    "call", ["insert", "refused", "batch", "transaction", pytest.param("create", marks=pytest.mark.slow)]
)
def test_a_change_cut_off_at_every_place(call: str) -> None:
    interrupted(14, 0, "embedded", f"every:{call}")


def test_a_logged_change_cut_off_at_every_place() -> None:
    """What is undone must not stay in the log, nor what is complete be missing there."""
    interrupted(1, 0, "durable", "every:transaction")


def test_a_version_that_was_made_before_the_checkpoint_was_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old log would be written on, and never be read again."""
    db = ev.connect(tmp_path)
    t = db.table("t", {"x": int})
    t.insert([(1,)])
    store = inside(db).runtime.backing.store
    commit = store.commit

    def late(**brings: Any) -> None:
        commit(**brings)
        raise Foreign

    monkeypatch.setattr(store, "commit", late)
    with pytest.raises(Foreign):
        db.checkpoint()
    with pytest.raises(ev.ClosedError, match="E_CLOSED"):
        t.insert([(2,)])
    with ev.connect(tmp_path) as db:
        assert db["t"].rows() == [(1,)]
        db["t"].insert([(2,)])
        db.checkpoint()
    with ev.connect(tmp_path) as db:
        assert sorted(db["t"].rows()) == [(1,), (2,)]


def in_another_thread(*calls: Callable[[], Any]) -> list[Any]:
    """What calls give, or raise, in a thread that is not the main one."""
    said: list[Any] = []

    def work() -> None:
        for call in calls:
            try:
                said.append(call())
            except Foreign:
                said.append("cut off")
            except ev.ClosedError as error:
                said.append(error.code)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return said


def test_what_shards_have_computed_and_not_committed_is_thrown_away(monkeypatch: pytest.MonkeyPatch) -> None:
    db = local_shards(shards=2)
    t = db.table("t", {"x": int})
    v = db.view("v", t.distinct())
    cluster = inside(db).runtime.cluster
    step = cluster.step

    def late(*arguments: Any) -> None:
        step(*arguments)
        monkeypatch.undo()
        raise Foreign

    monkeypatch.setattr(cluster, "step", late)
    assert in_another_thread(lambda: t.insert([(1,)]), v.rows, t.rows) == ["cut off", [], []]
    t.insert([(2,)])
    assert (v.rows(), t.rows(), db.time) == ([(2,)], [(2,)], 1)


def test_what_shards_have_committed_is_there_though_the_caller_was_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    db = local_shards(shards=2)
    t = db.table("t", {"x": int})
    v = db.view("v", t.distinct())
    told: list[Any] = []
    v.subscribe(lambda batch: told.extend(batch.rows()))
    me = threading.get_ident()
    committed = inside(db).runtime._committed

    def slow(*arguments: Any) -> None:
        number = ctypes.c_ulong(me)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(number, ctypes.py_object(Foreign))
        time.sleep(0.2)  # the caller is woken by then
        committed(*arguments)

    monkeypatch.setattr(inside(db).runtime, "_committed", slow)
    with pytest.raises(Foreign):
        t.insert([(1,)])
    monkeypatch.undo()
    assert (v.rows(), t.rows(), db.time, told) == ([(1,)], [(1,)], 1, [((1,), 1)])


def test_a_commit_that_the_driver_could_not_follow_closes_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    db = local_shards(shards=2)
    t = db.table("t", {"x": int})
    v = db.view("v", t.distinct())

    def fail(*arguments: Any) -> None:
        raise Foreign

    monkeypatch.setattr(inside(db).runtime, "fill", fail)
    assert in_another_thread(lambda: t.insert([(1,)]), v.rows, v.rows) == ["cut off", "E_CLOSED", "E_CLOSED"]


def test_shards_that_would_build_something_else_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their rows go to operators by number: once such a fault wrote into other operators' memory."""
    with local_shards(shards=2) as db:
        t = db.table("t", {"x": int, "y": int})
        t.insert([(1, 2)])
        replica = inside(db).runtime.cluster._shards[1].replica
        build = replica.build

        def other(command: Any) -> Any:
            return build(
                replace(command, node=relation_of(t.select(x=t.x)).node) if isinstance(command, Install) else command
            )

        monkeypatch.setattr(replica, "build", other)
        with pytest.raises(ev.InternalError, match="shard 1 has built other operators"):
            db.view("v", t.group_by("x").agg(n=ev.count()))
        monkeypatch.undo()
        v = db.view("v", t.group_by("x").agg(n=ev.count()))
        t.insert([(1, 3)])
        assert v.rows() == [(1, 2)]


@pytest.mark.parametrize("made", ["table", "view", "index", "rename"])
def test_a_definition_is_noted_and_known_or_neither(tmp_path: Path, made: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception that comes out of noting it, when it is noted, must not take it back: what the directory has and the
    session has not could never be opened again.
    """
    db = ev.connect(tmp_path)
    t = db.table("t", {"x": int})
    catalog = inside(db).catalog
    note = catalog.note

    def late(*entries: Any, **named: Any) -> None:
        note(*entries, **named)
        monkeypatch.undo()
        raise Foreign

    calls: dict[str, Callable[[], Any]] = {
        "table": lambda: db.table("new", {"x": int}, ttl=dt.timedelta(days=1)),
        "view": lambda: db.view("new", t.distinct()),
        "index": lambda: db.sql("CREATE INDEX new ON t (x)"),
        "rename": lambda: db.sql("ALTER TABLE t RENAME TO new"),
    }
    monkeypatch.setattr(catalog, "note", late)
    with pytest.raises(Foreign):
        calls[made]()
    t.insert([(1,)])
    db.checkpoint()
    db.close()
    with ev.connect(tmp_path) as db:
        if made == "index":
            assert "new" in inside(db).catalog.indexes()
        else:
            assert "new" in (*db.tables, *db.views)
        if made == "table":
            db.table("new", {"x": int}, ttl=dt.timedelta(days=1))


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("how", HOW)
def test_ten_thousand_interrupts(how: str, seed: int) -> None:
    for where, count in {"embedded": 200, "durable": 100, "shards": 50, "spark": 50}.items():
        interrupted(100 + seed, count, where, how)


def test_pieces_of_uninterruptible_work_share_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread waits for more work, of any session; work inside work, and work at the same time, have their own."""
    one, other = Uninterruptible(), Uninterruptible()
    first = one.run(threading.get_ident)
    assert first != threading.get_ident()
    assert {one.run(threading.get_ident), other.run(threading.get_ident)} == {first}
    outer, inner, own = one.run(lambda: (threading.get_ident(), other.run(threading.get_ident), one.run(lambda: 7)))
    assert outer != inner and own == 7
    with pytest.raises(ZeroDivisionError):
        one.run(lambda: 1 // 0)
    assert one.run(lambda: 6 * 7) == 42


def test_uninterruptible_work_for_a_thread_that_has_just_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or that was lost when its giver was cut off: the caller notices that nobody has begun."""
    monkeypatch.setattr(uninterruptible, "IDLE_SECONDS", 0.01)
    done: list[int] = []
    for i in range(20):
        Uninterruptible().run(lambda: done.append(1))
        time.sleep(0.01 * (i % 3))
    monkeypatch.setattr(uninterruptible._Helper, "_serve", lambda self: None)
    lost = [uninterruptible._Helper() for _ in range(2)]
    for helper in lost:
        helper._started = True
    monkeypatch.undo()
    uninterruptible._idle.extend(lost)
    Uninterruptible().run(lambda: done.append(1))
    assert len(done) == 21 and not set(lost) & set(uninterruptible._idle)


def test_uninterruptible_work_in_a_forked_process() -> None:
    Uninterruptible().run(int)
    child = os.fork()
    if not child:
        os._exit(Uninterruptible().run(lambda: 3))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3


def test_an_interrupt_waits_for_the_call_and_comes_out_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes after the kernels have made something and before Python knows: the worst moment."""
    with ev.connect() as db:
        t = db.table("t", {"x": int})
        real = inside(db).runtime.dataflow.installed

        def installed() -> None:
            signal.raise_signal(signal.SIGINT)
            real()

        monkeypatch.setattr(inside(db).runtime.dataflow, "installed", installed)
        with pytest.raises(KeyboardInterrupt):
            db.view("v", t.distinct())
        monkeypatch.undo()
        assert db.views == ("v",)
        t.insert([(1,)])
        assert db["v"].rows() == [(1,)]


def raised_at_the_start_of(function: str) -> None:
    """Raise KeyboardInterrupt where a function of this name begins, once, as Python does for Ctrl-C."""

    def look(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_name == function:
            sys.setprofile(None)
            raise KeyboardInterrupt

    sys.setprofile(look)


@pytest.mark.parametrize("place", ["_leave", "end", "commit", "_run_transactions", "open", "__enter__"])
def test_a_block_cut_off_is_over_before_a_handler_runs(place: str) -> None:
    """The traceback holds its frames, and what they know: a transaction still open there would take in what the handler
    commits, and be undone later, with it.
    """
    with ev.connect() as db:
        t = db.table("t", {"x": int})
        caught: list[BaseException] = []
        try:
            raised_at_the_start_of(place)
            with db.transaction() as same:
                t.insert([(1,)])
        except KeyboardInterrupt as error:
            caught.append(error)
            t.insert([(2,)])
            with same if place not in ("open", "__enter__") else db.transaction():
                t.insert([(3,)])
        assert caught and sorted(t.rows()) in ([(2,), (3,)], [(1,), (2,), (3,)])
        assert in_another_thread(lambda: t.insert([(4,)]), t.rows)[1][-1] == (4,)


def test_a_block_inside_another_of_the_same_transaction_is_cut_off_alone() -> None:
    with ev.connect() as db:
        t = db.table("t", {"x": int})
        transaction = db.transaction()
        with transaction:
            t.insert([(1,)])
            try:
                with transaction:
                    t.insert([(2,)])
                    raised_at_the_start_of("_leave")
            except KeyboardInterrupt:
                t.insert([(3,)])
        assert sorted(t.rows()) == [(1,), (3,)]


def test_blocks_without_a_guard_defer_signals() -> None:
    with ev.connect() as db, ExitStack() as stack:
        t = db.table("t", {"x": int})
        stack.enter_context(db.transaction())
        assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
        t.insert([(1,)])
        stack.close()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        assert t.rows() == [(1,)]


def test_a_users_function_is_interrupted_at_once_and_the_step_undone() -> None:
    with ev.connect() as db:
        t = db.table("t", {"x": int})
        reached = []

        def slow(x: int) -> int:
            signal.raise_signal(signal.SIGINT)
            reached.append(x)
            return x

        v = db.view("v", t.map(slow, {"x": int}))
        with pytest.raises(KeyboardInterrupt):
            t.insert([(1,)])
        assert (reached, db.time, v.rows(), t.rows()) == ([], 0, [], [])


def test_handlers_are_as_they_were() -> None:
    """Of Ctrl-C, and of signals that the program handles itself; asyncio finds Python's own."""
    calls: list[int] = []

    def mine(number: int, frame: Any) -> None:
        calls.append(number)

    before = signal.signal(signal.SIGUSR1, mine)
    try:
        with ev.connect() as db:
            t = db.table("t", {"x": int})
            with db.transaction():
                t.insert([(1,)])
                signal.raise_signal(signal.SIGUSR1)
                assert calls == [signal.SIGUSR1], "heard at once where the program itself runs"
            with pytest.raises(ev.InputError), db.transaction():
                t.delete([(2,)])
            assert signal.getsignal(signal.SIGUSR1) is mine
            assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

            async def write() -> Any:
                t.insert([(3,)])
                return signal.getsignal(signal.SIGINT)

            assert asyncio.run(write()) is not signal.default_int_handler
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_ctrl_c_ends_the_wait_for_another_threads_transaction() -> None:
    with ev.connect() as db:
        t = db.table("t", {"x": int})
        inside, go = threading.Event(), threading.Event()

        def hold() -> None:
            with db.transaction():
                inside.set()
                go.wait(30)

        thread = threading.Thread(target=hold)
        thread.start()
        inside.wait(10)
        for wait in (lambda: t.insert([(1,)]), lambda: db.transaction().__enter__(), lambda: db.batch().__enter__()):
            threading.Thread(target=_kill_main, args=(0.2,)).start()
            began = time.monotonic()
            with pytest.raises(KeyboardInterrupt):
                wait()
            assert time.monotonic() - began < 10
        go.set()
        thread.join(10)
        t.insert([(2,)])
        assert t.rows() == [(2,)]


def _kill_main(delay: float) -> None:
    time.sleep(delay)
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)  # type: ignore[arg-type]


def test_shields_inside_each_other() -> None:
    said: list[str] = []

    @shield.shielded
    def inner() -> None:
        signal.raise_signal(signal.SIGINT)
        said.append("inner")

    @shield.shielded
    def outer() -> None:
        inner()
        said.append("outer")
        shield.openly(said.append, "open")
        shield.hear()
        said.append("not reached")

    with pytest.raises(KeyboardInterrupt):
        outer()
    assert said == ["inner", "outer", "open"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("kind", [Partitioning, HyperCube, Rule])
def test_texts_that_name_state_note_nothing(kind: type) -> None:
    """A text that notes what is being written is `...` for good after an exception at the wrong instant: a fingerprint
    that was made of it could not be made again, and the directory not be opened.
    """
    assert vars(kind)["__repr__"] is stable_repr


@pytest.mark.parametrize("before", [False, True])
def test_a_query_that_was_prepared_when_the_call_was_cut_off(before: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its table of values stays, because its view reads that; and what comes out is what cut it off."""
    db = ev.connect()
    db.sql("CREATE TABLE t (x int, y int); INSERT INTO t VALUES (1, 2)")
    make = type(db).view

    def late(self: Any, *arguments: Any, **named: Any) -> Any:
        if not before:
            make(self, *arguments, **named)
        raise Foreign

    monkeypatch.setattr(type(db), "view", late)
    with pytest.raises(Foreign):
        db.prepare("ready", "SELECT x FROM t WHERE y = $y")
    monkeypatch.undo()
    assert ("ready" in db.views) != before and len(inside(db).catalog.tables) == 1 + (not before)
    if not before:
        db["ready"].drop()
        db["everview.ready parameters"].drop()
    assert db.prepare("ready", "SELECT x FROM t WHERE y = $y")(2).rows() == [(1,)]


class Own(BaseException):
    """What a program's own handler of a signal raises."""


def test_a_script_that_is_cut_off_leaves_no_transaction_behind() -> None:
    """Whatever cuts it off: also what is no `Exception`."""
    db = ev.connect()
    db.sql("CREATE TABLE t (x int)")

    def cut(x: int) -> int:
        raise Own

    db.function("cut", cut, returns=int)
    with pytest.raises(Own):
        db.sql("BEGIN; INSERT INTO t VALUES (1); INSERT INTO t SELECT cut(x) FROM t; COMMIT")
    db.sql("BEGIN; INSERT INTO t VALUES (2); COMMIT")
    assert db["t"].rows() == [(2,)]


def test_an_interrupt_at_the_end_of_what_if_comes_out_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not out of the next call: the transaction inside leaves it to what is around it."""
    db = ev.connect()
    t = db.table("t", {"x": int})
    monkeypatch.setattr(inside(db).defaults, "recall", lambda memory: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt), db.what_if():
        t.insert([(1,)])
    monkeypatch.undo()
    t.insert([(2,)])
    assert t.rows() == [(2,)]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("way", "how"), [("embedded", "signal"), ("memory", "places"), ("shards", "places"), ("embedded", "async")]
)
def test_every_feature_cut_off(way: str, how: str) -> None:
    interrupted(7, 25, way, how, "interrupting_everything")


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(14400)
@pytest.mark.parametrize("how", ["signal", "alarm", "thread", "places", "async", "kill"])
@pytest.mark.parametrize("way", ["embedded", "memory", "shards"])
def test_every_feature_cut_off_many_times(way: str, how: str) -> None:
    for seed in range(4):
        interrupted(100 + seed, INTERRUPTS // 72, way, how, "interrupting_everything")
