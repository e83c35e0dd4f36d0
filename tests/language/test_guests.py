"""Reads beside a running step: they return while it runs, with the last complete time; whatever the schedule, what is
read is the state at some time, complete, and never older than what the reader has seen.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

import everview as ev
from everview import col
from everview.once import evaluation
from everview.session.rights.principal import Principal, acting

WAIT = 60
"""Seconds after which something hangs."""


def slowly(k: int, v: int) -> int:
    """A function that waits, if it is told to; its meaning does not depend on that."""
    one = globals()["now_held"]
    if one.hold:
        one.inside.set()
        assert one.go_on.wait(WAIT)
    return k


class Held:
    """A session whose next step waits inside a function until it is let go."""

    def __init__(self) -> None:
        self.inside, self.go_on, self.hold = threading.Event(), threading.Event(), False
        self.failed: list[BaseException] = []
        globals()["now_held"] = self
        self.db = ev.connect()
        self.t = self.db.table("t", {"k": int, "v": int})
        self.sums = self.db.view("sums", self.t.group_by("k").agg(s=col.v.sum()))
        self.slow = self.db.view("slow", self.t.map(slowly, {"k": int}))
        self.t.insert([(1, 10), (2, 20)])
        self.t.insert([(1, 1)])

    def step(self, change: Callable[[], Any]) -> threading.Thread:
        """Begin a step that waits; returns when it does."""

        def run() -> None:
            try:
                change()
            except BaseException as error:
                self.failed.append(error)

        self.hold = True
        thread = threading.Thread(target=run)
        thread.start()
        assert self.inside.wait(WAIT)
        return thread

    def let_go(self, thread: threading.Thread) -> None:
        """End the step; a read that waited for it has made it fail meanwhile, and is found here."""
        self.hold = False
        self.go_on.set()
        thread.join(WAIT)
        assert not thread.is_alive()
        assert not self.failed, self.failed


def in_thread(function: Callable[[], Any]) -> Any:
    """What a function gives in another thread."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(function())
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(WAIT)
    assert found, "it waits"
    return found[0]


@pytest.fixture
def held() -> Iterator[Held]:
    one = Held()
    in_thread(one.sums.rows)  # from now on there is company
    yield one
    one.go_on.set()
    one.db.close()


def test_reads_return_while_a_step_runs(held: Held) -> None:
    db, t, sums = held.db, held.t, held.sums
    time = db.time
    thread = held.step(lambda: t.insert([(1, 100), (3, 30)]))
    assert sorted(sums.rows()) == [(1, 11), (2, 20)] and db.time == time
    assert sums.lookup(1) == [(1, 11)] and sums.lookup(3) == []
    assert len(t) == 3 and sorted(t.lookup(1)) == [(1, 1), (1, 10)]
    assert sums.to_arrow().num_rows == 2 and sums.head(1) == [(1, 11)]
    assert "2 rows at time" in str(sums)
    held.let_go(thread)
    assert sorted(sums.rows()) == [(1, 111), (2, 20), (3, 30)] and db.time == time + 1


def test_reads_return_while_a_step_with_limits_runs_a_function(held: Held) -> None:
    """Such a function runs in a thread of its own, which must not read; that concerns no other thread."""

    def change() -> None:
        with held.db.limits(seconds=10 * WAIT):
            held.t.insert([(1, 100)])

    thread = held.step(change)
    assert held.sums.lookup(1) == [(1, 11)] and len(held.t) == 3
    assert held.db.sql("SELECT sum(v) FROM t").rows() == [(31,)]
    held.let_go(thread)
    assert held.sums.lookup(1) == [(1, 111)]


def test_reads_return_beside_a_step_while_another_session_runs_a_function(held: Held) -> None:
    """It runs in a thread of its own too; one that was left behind there may run for ever."""
    inside, go_on = threading.Event(), threading.Event()

    def endless(k: int) -> int:
        inside.set()
        assert go_on.wait(WAIT)
        return k

    with ev.connect() as other:
        t = other.table("t", {"k": int})
        other.view("v", t.map(endless, {"k": int}))

        def change() -> None:
            with other.limits(seconds=10 * WAIT):
                t.insert([(1,)])

        changing = threading.Thread(target=change)
        changing.start()
        try:
            assert inside.wait(WAIT)
            thread = held.step(lambda: held.t.insert([(1, 100)]))
            assert held.sums.lookup(1) == [(1, 11)]
            held.let_go(thread)
        finally:
            go_on.set()
            changing.join(WAIT)
    assert held.sums.lookup(1) == [(1, 111)]


def test_a_step_that_is_undone(held: Held) -> None:
    """Guests have read beside it; it is cancelled, and all is as before."""
    before, found = sorted(held.sums.rows()), []

    def change() -> None:
        try:
            held.t.insert([(8, 8)])
        except ev.StoppedError as error:
            found.append(error.code)

    thread = held.step(change)
    assert sorted(held.sums.rows()) == before
    assert held.db.cancel()
    held.let_go(thread)
    assert found == ["E_CANCELLED"] and sorted(held.sums.rows()) == before
    held.t.insert([(8, 8)])
    assert held.sums.lookup(8) == [(8, 8)]


def test_a_guest_that_needs_a_turn_is_sent_away(held: Held) -> None:
    """It would wait for the step, which waits for its guests; a guest of a guest is the same guest."""
    lender = held.db._core.runtime.dataflow.lender
    assert lender is not None
    with lender:
        assert lender.visit(lambda: lender.visit(lambda: "both")) == "both"
        assert lender.visit(held.db.stats) is None
    assert lender.visit(lambda: "closed") is None
    assert held.db.stats()["views"] == 2


def test_a_guest_that_would_change_something_is_sent_away(held: Held) -> None:
    """Whatever way it changes it: the one who has the right to write waits for the guest."""

    def in_a_transaction() -> None:
        with held.db.transaction():
            held.t.insert([(7, 7)])

    def in_a_batch() -> None:
        with held.db.batch():
            held.t.insert([(7, 7)])

    def subscribing() -> None:
        with acting(Principal("app", {"k": 1})):
            held.db.sql("SUBSCRIBE TO (SELECT k, count(*) AS n FROM t GROUP BY k)")

    def following() -> None:
        with acting(Principal("app", {"k": 1})):
            held.db.sql("SUBSCRIBE TO t")

    held.db.sql("CREATE ROLE app LOGIN; GRANT SELECT ON t TO app; ALTER TABLE t ENABLE ROW LEVEL SECURITY")
    held.db.sql("CREATE POLICY own ON t USING (k = current_setting('k'))")
    lender, core = held.db._core.runtime.dataflow.lender, held.db._core
    assert lender is not None
    found: list[Any] = []
    ways = [
        in_a_transaction,
        in_a_batch,
        subscribing,
        following,
        lambda: held.t.insert([(7, 7)]),
        lambda: held.t.clear(),
    ]
    with lender, core.writing:  # which lets a guest go that waits
        for way in ways:
            guest = threading.Thread(target=lambda way=way: found.append(lender.visit(way)), daemon=True)
            guest.start()
            guest.join(5)
            assert not guest.is_alive(), f"{way} waits for ever"
    assert found == [None] * len(ways) and len(held.t.rows()) == 3


def test_a_door_that_was_left_open_is_closed_before_the_next_turn(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception that another thread raises may come as the door is closed; the step is undone then."""
    lender, before = held.db._core.runtime.dataflow.lender, sorted(held.t.rows())
    assert lender is not None
    close = lender.close
    cut = iter([True])

    def cut_off_at_first() -> None:
        if next(cut, False):
            raise KeyboardInterrupt
        close()

    monkeypatch.setattr(lender, "close", cut_off_at_first)
    with pytest.raises(KeyboardInterrupt):
        held.t.insert([(9, 9)])
    assert lender.visit(lambda: "open") is None
    assert sorted(held.t.rows()) == before


def test_a_select_beside_a_step(held: Held) -> None:
    thread = held.step(lambda: held.t.insert([(1, 100), (3, 30)]))
    assert held.db.sql("SELECT k, count(*) AS n, sum(v) AS s FROM t GROUP BY k ORDER BY k").rows() == [
        (1, 2, 11),
        (2, 1, 20),
    ]
    joined = "SELECT t.v, s.s FROM t JOIN sums AS s ON t.k = s.k WHERE t.k = 2"
    assert held.db.sql(joined).rows() == [(20, 20)]
    held.let_go(thread)
    assert held.db.sql(joined).rows() == [(20, 20)]
    with pytest.raises(ev.EverviewError, match="nothing"):
        held.db.sql("SELECT nothing FROM t")


def test_a_select_that_computes_does_not_hold_up_a_writer(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has copied what it reads; its answer is that of the time when it did."""
    computing, go_on = threading.Event(), threading.Event()
    answer = evaluation.Question.answer

    def slow_answer(*arguments: Any) -> Any:
        computing.set()
        assert go_on.wait(WAIT)
        return answer(*arguments)

    monkeypatch.setattr(evaluation.Question, "answer", slow_answer)
    found: list[Any] = []
    reader = threading.Thread(target=lambda: found.extend(held.db.sql("SELECT sum(v) FROM t").rows()))
    reader.start()
    assert computing.wait(WAIT)
    held.t.insert([(1, 1000)])
    held.t.delete([(2, 20)])
    go_on.set()
    reader.join(WAIT)
    assert found == [(31,)]
    assert held.db.sql("SELECT sum(v) FROM t").rows() == [(1011,)]


def test_limits_count_for_a_select_in_company(held: Held) -> None:
    held.db.table("n", {"x": int}).insert(pa.table({"x": range(3000)}))
    with held.db.limits(memory="1 MB"), pytest.raises(ev.MemoryLimitError):
        held.db.sql("SELECT a.x + b.x FROM n AS a, n AS b")
    with held.db.limits(seconds=0.001), pytest.raises(ev.StoppedError):
        held.db.sql("SELECT count(*) FROM n AS a, n AS b WHERE a.x + b.x > 5")


def test_a_view_with_failed_rows_waits_for_its_turn() -> None:
    one = Held()
    inverse = one.db.view("inverse", one.t.select(i=100 // col.v))
    in_thread(inverse.rows)
    one.t.insert([(5, 0)])
    thread = one.step(lambda: one.t.insert([(6, 1)]))
    reader = threading.Thread(target=lambda: in_thread(inverse.rows))
    reader.start()
    one.let_go(thread)
    reader.join(WAIT)
    with pytest.raises(ev.RowErrors):
        inverse.rows()
    one.db.close()


@pytest.mark.parametrize("seed", range(3))
def test_random_schedules(seed: int) -> None:
    """A writer moves amounts between accounts, in large and small transactions: whenever it is read, the sum is zero,
    views agree with tables, and time never goes back.
    """
    with ev.connect() as db:
        t = db.table("t", {"k": int, "v": int})
        sums = db.view("sums", t.group_by("k").agg(s=col.v.sum()))
        done = threading.Event()
        problems: list[str] = []

        def read(number: int) -> None:
            rng, last = random.Random(100 * seed + number), -1
            while not done.is_set() and not problems:
                now = sums._now()
                rows = now.rows()
                if sum(s for _, s in rows):
                    problems.append(f"at {now.time}: {rows}")
                if now.time < last:
                    problems.append(f"time went from {last} to {now.time}")
                last = now.time
                k = rng.randrange(40)
                if len(sums.lookup(k)) > 1 or sum(v for _, v in t.rows()):
                    problems.append(f"look-up of {k}")

        readers = [threading.Thread(target=read, args=(n,)) for n in range(2)]
        for reader in readers:
            reader.start()
        rng = random.Random(seed)
        moved: list[pa.Table] = []
        for _ in range(60):
            count = rng.choice([1, 3, 300, 3000])
            if moved and rng.random() < 0.4:
                t.delete(moved.pop(rng.randrange(len(moved))))
                continue
            ks, vs = [], []
            for _ in range(count):
                amount = rng.randint(1, 9)
                ks += [rng.randrange(40), rng.randrange(40)]
                vs += [amount, -amount]
            moved.append(pa.table({"k": ks, "v": vs}))
            t.insert(moved[-1])
        done.set()
        for reader in readers:
            reader.join(WAIT)
        assert not problems, problems
        assert sum(s for _, s in sums.rows()) == 0
