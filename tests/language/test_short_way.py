"""The short way of a change and the long one give the same (`everview.session.changes.fast_path`)."""

from __future__ import annotations

import random
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest

import everview as ev
from everview import col
from everview.session.changes import fast_path, transactions
from everview.session.core import core_of
from tests.effort import calls

Told = list[Any]
SEEDS = range(8)


def history(seed: int) -> Told:
    """What a random history of changes tells: errors, times, contents and what subscribers heard, after each call."""
    chance = random.Random(seed)
    db = ev.connect()
    told: Told = []
    edge, node = db.table("edge", {"src": int, "dst": int}), db.table("node", {"id": int, "name": str}, key="id")
    db.sql("CREATE TABLE parent (id int PRIMARY KEY)")
    acting = "ON DELETE CASCADE" if seed % 4 == 3 else ""  # then nothing is usual
    db.sql(f"CREATE TABLE child (n serial, parent int REFERENCES parent {acting}, CHECK (parent < 6))")
    parent, child = db["parent"], db["child"]
    counts = db.view("counts", edge.group_by("src").agg(n=col.dst.count()))
    limited = seed % 3 == 1
    heard = (
        counts.subscribe(lambda batch: told.append(("heard", batch.time, sorted(batch.rows())))) if seed % 2 else None
    )

    def change() -> None:
        src, dst = chance.randrange(4), chance.randrange(4)
        (
            lambda: edge.insert([(src, dst)]),
            lambda: edge.delete([(src, dst)]),
            lambda: edge.insert([(src, dst), (dst, src)]),
            lambda: edge.insert([(src, "no number")]),
            lambda: node.insert([(src, "name")]),
            lambda: node.upsert([(src, f"name {dst}")]),
            lambda: node.delete(keys=[src]),
            lambda: parent.insert([(src,)]),
            lambda: parent.delete(keys=[src]),
            lambda: db.sql(f"INSERT INTO child (parent) VALUES ({src + dst})"),
        )[chance.randrange(10)]()

    def transaction() -> None:
        with db.transaction():
            for _ in range(chance.randrange(4)):
                change()
            if chance.random() < 0.2:
                raise KeyError("not ours")

    def batch() -> None:
        with db.batch():
            for _ in range(3):
                change()

    def stopped() -> None:
        if limited:
            with db.limits(seconds=60):
                change()
        else:
            db.cancel()
            change()

    kinds: tuple[Callable[[], None], ...] = (change, change, change, transaction, transaction, batch, stopped)
    for at in range(40):
        try:
            chance.choice(kinds)()
        except ev.EverviewError as error:
            told.append((error.code, error.message, error.hint))
        except KeyError as error:
            told.append(repr(error))
        if at == 30 and heard is not None:
            heard()
        told.append((db.time, dict(core_of(db).runtime.offsets)))
        told.append([sorted(t.rows()) for t in (edge, node, parent, child, counts)])
    told.append(counts.changes(since=0))
    db.close()
    return told


@pytest.mark.parametrize("seed", SEEDS)
def test_both_ways_tell_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "helpers", set())  # other tests leave functions behind, which end late
    short, asked = history(seed), [0, 0]
    usual = fast_path.usual
    monkeypatch.setattr(fast_path, "usual", lambda core: asked.__setitem__(usual(core), asked[usual(core)] + 1))
    assert history(seed) == short
    assert asked[0] > 0
    assert asked[1] > 0 or seed % 4 == 3


def test_what_is_not_usual() -> None:
    db = ev.connect()
    core = core_of(db)
    t = db.table("t", {"x": int})
    assert fast_path.usual(core)
    with db.batch():
        assert not fast_path.usual(core)
    with db.transaction():
        assert not fast_path.usual(core)
    with db.limits(seconds=9):
        assert not fast_path.usual(core)
    core.unsettled = True
    t.insert([(1,)])
    assert not core.unsettled
    assert fast_path.usual(core)
    db.sql("CREATE TABLE seen (at timestamp)")
    db.sql("CREATE VIEW late AS SELECT at FROM seen WHERE at < now()")
    assert not fast_path.usual(core)
    db.sql("DROP VIEW late")
    assert fast_path.usual(core)
    db.close()
    assert not fast_path.usual(core)


def test_a_table_that_is_dropped_while_a_change_waits() -> None:
    db = ev.connect()
    t = db.table("t", {"x": int})
    core, raised = core_of(db), []

    def insert() -> None:
        try:
            t.insert([(1,)])
        except ev.EverviewError as error:
            raised.append(error.code)

    with core.lock:
        other = threading.Thread(target=insert)
        other.start()
        while core.writing.acquire(False):  # until the other thread has it, and waits for the turn
            core.writing.release()
        core.definitions.tables.drop(t, False)
    other.join()
    assert raised == ["E_DROPPED"]
    assert db.time == 0


@pytest.mark.parametrize("whole", [False, True])
def test_a_signal_that_uses_the_session_waits(whole: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A handler that is called in the middle of a step finds the session between two steps."""
    db = ev.connect()
    t = db.table("t", {"x": int})
    seen = []
    step = core_of(db).runtime.step

    def disturbed(transactions: Any) -> Any:
        signal.raise_signal(signal.SIGALRM)
        outcome = step(transactions)
        signal.raise_signal(signal.SIGALRM)
        return outcome

    def handler(number: int, frame: Any) -> None:
        seen.append((db.time, t.rows()))

    before = signal.signal(signal.SIGALRM, handler)
    try:
        monkeypatch.setattr(core_of(db).runtime, "step", disturbed)
        if whole:
            with db.transaction():
                t.insert([(1,)])
        else:
            t.insert([(1,)])
    finally:
        signal.signal(signal.SIGALRM, before)
    assert seen == [(1, [(1,)])]


def test_polling_for_changes_is_short_when_there_are_none() -> None:
    """Programs poll between changes of a few microseconds. Whatever runs in between makes these slower, too."""
    db = ev.connect(history=1)
    sale = db.table("sale", {"shop": str, "amount": int, "parts": int})
    share = db.view("share", sale.select(shop=col.shop, each=col.amount / col.parts))  # rows may fail
    sale.insert([("north", 6, 2)])
    share.changes(since=0)
    none, some = calls(lambda: share.changes(since=db.time)), calls(lambda: share.changes(since=db.time - 1))
    assert 3 * none < 2 * some
