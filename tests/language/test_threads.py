"""Calls from several threads at once: `tests.language.threading_along`, in a process of its own, and rules of turns."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from typing import Any

import pytest

import everview as ev


def along(seed: int, calls: int, where: str, threads: int = 4) -> None:
    program = [sys.executable, "-m", "tests.language.threading_along", str(seed), str(calls), where, str(threads)]
    run = subprocess.run(program, capture_output=True, text=True, timeout=590, check=False)
    assert run.returncode == 0, f"{program[3:]}: {run.returncode}\n{run.stdout[-1000:]}\n{run.stderr[-3000:]}"


@pytest.mark.parametrize("where", ["embedded", "two", "durable"])
def test_every_call_from_four_threads(where: str) -> None:
    along(21, 160, where)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_every_call_from_many_threads(seed: int) -> None:
    along(200 + seed, 3000, ["embedded", "durable", "two"][seed % 3], 4 + 4 * (seed % 2))


def in_threads(*functions: Any) -> list[BaseException]:
    errors: list[BaseException] = []

    def run(function: Any) -> None:
        try:
            function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(f,)) for f in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive(), "a deadlock"
    return errors


def test_a_snapshot_outlives_its_view(db: Any) -> None:
    t = db.table("t", {"x": int})
    v = db.view("v", t.select(y=t.x + 1))
    t.insert([(1,), (2,)])
    snapshot, contents = v.as_of(1), t.as_of(1)
    v.drop()
    t.drop()
    assert sorted(snapshot.rows()) == [(2,), (3,)] and len(contents) == 2
    db.table("u", {"x": int}).insert([(5,)])
    assert sorted(snapshot.rows()) == [(2,), (3,)]


def test_selects_do_not_wait_for_another_threads_transaction_nor_see_it(db: Any) -> None:
    t = db.table("t", {"x": int})
    t.insert([(1,)])
    db.sql("BEGIN")
    db.sql("INSERT INTO t VALUES (2)")
    found: list[Any] = []
    assert in_threads(lambda: found.extend(db.sql("SELECT x FROM t").rows())) == []
    assert found == [(1,)]
    failed = in_threads(lambda: db.sql("SELECT nothing FROM t"))
    assert [getattr(e, "code", e) for e in failed] == ["E_COLUMN"]
    db.sql("COMMIT")  # another thread's failure is not this transaction's
    assert sorted(db.sql("SELECT x FROM t").rows()) == [(1,), (2,)]


def test_a_subscriber_that_writes_while_another_thread_does(db: Any) -> None:
    """Told outside the locks: else each would wait for the other."""
    t, log = db.table("t", {"x": int}), db.table("log", {"x": int})
    v = db.view("v", t.distinct())
    v.subscribe(lambda batch: log.insert([row for row, _ in batch.rows()]))

    def write(first: int) -> None:
        for x in range(first, first + 50):
            t.insert([(x,)])
            with db.batch():
                t.insert([(1000 + x,)])
                v.rows()

    def ask() -> None:
        for _ in range(30):
            db.sql("SELECT x FROM v")

    assert in_threads(lambda: write(0), lambda: write(100), ask) == []
    assert sorted(log.rows()) == sorted(v.rows()) and len(v.rows()) == 200


def test_closing_while_others_work(db: Any) -> None:
    t = db.table("t", {"x": int})
    v = db.view("v", t.distinct())
    begun = threading.Barrier(3)

    def go(call: Any) -> None:
        begun.wait(10)
        while True:
            call()

    def close() -> None:
        begun.wait(10)
        v.rows()
        db.close()

    errors = in_threads(lambda: go(lambda: t.insert([(1,)])), lambda: go(v.rows), close)
    assert [getattr(e, "code", e) for e in errors] == ["E_CLOSED"] * 2
    db.close()


def test_what_a_subscriber_raises_stays_with_it(
    db: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("everview.subscribers"), "disabled", False)  # whatever ran before
    monkeypatch.setattr(logging.root.manager, "disable", logging.NOTSET)
    t = db.table("t", {"x": int})
    v = db.view("v", t.distinct())
    heard: list[int] = []

    def fail(batch: Any) -> None:
        heard.append(batch.time)
        raise ValueError("not today")

    stop = v.subscribe(fail)
    t.insert([(1,)])
    t.insert([(2,)])
    assert heard == [1, 2] and db.time == 2
    assert isinstance(stop.error, ValueError)
    assert "a subscriber of view 'v' failed at time 2" in caplog.text and "not today" in caplog.text
    stop()
    t.insert([(3,)])
    assert heard == [1, 2]
    with pytest.raises(ValueError, match="not today"):
        v.subscribe(fail)  # called here and now, with what is there


def test_a_transaction_of_a_closed_session_holds_up_nobody(db: Any) -> None:
    """A thread that learns inside its transaction that another has closed the session lets go of it."""
    t = db.table("t", {"x": int})
    begun, closed = threading.Event(), threading.Event()

    def change() -> None:
        db.sql("BEGIN")
        begun.set()
        closed.wait(30)
        db.sql("INSERT INTO t VALUES (1)")

    def wait() -> None:
        begun.wait(30)
        t.insert([(2,)])

    def close() -> None:
        begun.wait(30)
        db.close()
        closed.set()

    errors = in_threads(change, wait, close)
    assert [getattr(error, "code", error) for error in errors] == ["E_CLOSED", "E_CLOSED"]


@pytest.fixture(params=["embedded", "durable"])
def db(request: pytest.FixtureRequest, tmp_path: Any) -> Any:
    session = ev.connect() if request.param == "embedded" else ev.connect(tmp_path / "state")
    with session:
        yield session
