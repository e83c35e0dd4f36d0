"""Prepared look-ups answer what the general way does: for all types, after changes, and where they must step aside."""

from __future__ import annotations

import datetime as dt
import random
import threading
import uuid
from decimal import Decimal
from typing import Any

import pytest

import everview as ev
from everview import col
from everview.errors import ClosedError, InputError, RowErrors
from everview.language.relation import relation_of
from everview.session.core import core_of
from everview.session.reads import keyed
from everview.session.reads.snapshot import first_columns, read_key

TYPED: dict[str, list[Any]] = {
    "int": [0, -5, 2**62, -(2**63) + 1],
    "str": ["", "pear", "ü\0"],
    "bytes": [b"", b"\xff"],
    "bool": [True, False],
    "date": [dt.date(1, 1, 1), dt.date(9999, 12, 31)],
    "timestamp": [dt.datetime(1, 1, 1), dt.datetime(2026, 11, 18, 1, 2, 3, 4)],
    "timestamptz": [dt.datetime(2026, 11, 18, tzinfo=dt.UTC)],
    "time": [dt.time(0), dt.time(23, 59, 59, 999999)],
    "decimal(10, 2)": [Decimal("1.50"), Decimal("-0.01")],
    "uuid": [uuid.UUID(int=7)],
    "json": [{"a": [1, None]}, [], "x"],
    "float": [0.0, -0.0, 1.5, float("inf")],
    "numeric": [Decimal("1.5"), Decimal("1234567890123456789012345")],
    "interval": [ev.Interval(months=1, days=2, microseconds=3)],
    "array(int)": [[1, 2], []],
    "tuple(int, str)": [(1, "a")],
}


def general(db: Any, of: Any, key: Any) -> list[Any]:
    """A look-up by the general way."""
    relation = relation_of(of)
    columns = getattr(relation, "index", ()) or getattr(relation, "key", ()) or first_columns(relation.codec, key)
    return read_key(core_of(db), relation.arrangement, relation.codec, columns, key)


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The answers of prepared look-ups, None for those that went the general way."""
    answers: list[Any] = []
    usual = keyed.looked_up

    def noted(*arguments: Any) -> Any:
        answers.append(usual(*arguments))
        return answers[-1]

    monkeypatch.setattr(keyed, "looked_up", noted)
    for leftover in ("helpers", "visitors", "hurried"):  # threads of other tests, which end late
        monkeypatch.setattr(keyed, leftover, set())
    return answers


@pytest.mark.parametrize("kind", TYPED)
def test_every_type_as_key_and_as_value(kind: str, prepared: list[Any]) -> None:
    with ev.connect() as db:
        by = db.table("by", {"x": f"{kind}?", "n": int})
        of = db.table("of", {"n": int, "x": f"{kind}?"})
        values = [*TYPED[kind], None]
        by.insert([(x, n) for n, x in enumerate(values)])
        of.insert([(n, x) for n, x in enumerate(values)])
        for n, x in enumerate(values):
            assert repr(of.lookup(n)) == repr(general(db, of, n)) == repr([(n, x)])
            assert of.lookup(n) == prepared.pop()
            found = by.lookup((x,))
            assert sorted(map(repr, found)) == sorted(map(repr, general(db, by, (x,))))
            assert repr((x, n)) in map(repr, found)


def test_random_changes_and_history(prepared: list[Any]) -> None:
    source = random.Random(19)
    with ev.connect() as db:
        t = db.table("t", {"k": int, "s": str, "n": int})
        views: list[Any] = [
            t,
            db.view("v", t.filter(col.n > 1)),
            db.view("w", t.filter(col.n > 1), index_by=["s", "k"]),
        ]
        views.append(db.view("g", t.group_by("k").agg(n=col.n.sum(), c=ev.count())))
        there: list[tuple[int, str, int]] = []
        for _ in range(300):
            if there and source.random() < 0.4:
                t.delete([there.pop(source.randrange(len(there)))])
            else:
                row = source.randrange(4), source.choice("ab"), source.randrange(4)
                t.insert([row])
                there.append(row)
            for view in views:
                key = (source.choice("ab"), source.randrange(5)) if view is views[2] else source.randrange(5)
                assert sorted(view.lookup(key)) == sorted(general(db, view, key))
    assert sum(found is not None for found in prepared) > 300, "most of them were prepared ones"


def test_prepared_look_ups_step_aside(prepared: list[Any]) -> None:
    db = ev.connect()
    t = db.table("t", {"k": int, "n": int})
    quotient = db.view("q", t.select(col.k, x=10 // col.n))
    t.insert([(1, 5), (2, 2)])
    assert quotient.lookup(1) == [(1, 2)] == prepared.pop()
    with db.batch():
        t.insert([(3, 1)])
        assert t.lookup(3) == [(3, 1)]
        assert prepared.pop() is None
    if_deleted = db.what_if(delete={"t": [(2, 2)]})
    assert if_deleted.changes("q") == [((2, 5), -1)]
    with db.transaction():
        t.insert([(4, 1)])
        assert t.lookup(4) == []
    t.insert([(5, 0)])
    with pytest.raises(RowErrors):
        quotient.lookup(1)
    t.delete([(5, 0)])
    assert quotient.lookup(1) == [(1, 2)]
    t.insert([(1, 5), (1, 5)])
    assert t.lookup(1) == [(1, 5)] * 3
    assert prepared.pop() is None
    for wrong in ((), (1, 2, 3), "x"):
        with pytest.raises(InputError):
            t.lookup(wrong)
    db.sql("ALTER TABLE t ADD COLUMN s text")
    assert db["t"].lookup(2) == [(2, 2, None)]
    db.sql("DROP VIEW q")
    with pytest.raises(ClosedError):
        quotient.lookup(1)
    db.close()
    with pytest.raises(ClosedError):
        t.lookup(1)


def test_threads_look_up_beside_a_writer() -> None:
    """A pair of rows is inserted and deleted in one transaction each: nobody sees one of them."""
    with ev.connect() as db:
        t = db.table("t", {"k": int, "n": int})
        t.insert([(1, 1), (1, 2)])
        stop, wrong = threading.Event(), list[Any]()

        def look() -> None:
            while not stop.is_set():
                found = t.lookup(1)
                if len(found) not in (0, 2):
                    wrong.append(found)

        readers = [threading.Thread(target=look) for _ in range(3)]
        for reader in readers:
            reader.start()
        for _ in range(200):
            t.delete([(1, 1), (1, 2)])
            t.insert([(1, 1), (1, 2)])
        stop.set()
        for reader in readers:
            reader.join()
        assert not wrong


def test_a_key_with_more_rows_than_fit() -> None:
    with ev.connect() as db:
        t = db.table("t", {"k": int, "n": int})
        for many in (100, 600, 6000):
            t.insert([(many, n) for n in range(many)])
            assert sorted(t.lookup(many)) == [(many, n) for n in range(many)]
        for n in range(700):  # one row with a long history
            t.insert([(1, n)])
            t.delete([(1, n)])
        assert t.lookup(1) == []
