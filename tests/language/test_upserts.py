"""Tables with a key against a dictionary: one row, many rows, in transactions and batches, one key column or two."""

from __future__ import annotations

import contextlib
import random
from typing import Any

import pandas as pd
import pytest

import everview as ev
from everview import count
from everview.session.changes import current_rows as standing
from everview.session.local_shards import local_shards
from tests.inside import inside


def check(db: Any, table: Any, view: Any, expected: dict[Any, Any], width: int) -> None:
    rows = [(*key, value) if width == 2 else (key, value) for key, value in expected.items()]
    assert sorted(table.rows()) == sorted(rows)
    assert dict(view.rows()) == {v: list(expected.values()).count(v) for v in set(expected.values())}


@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize("read_per_key", [0, 500], ids=["key by key", "all at once"])
def test_upserts_are_a_dictionary(monkeypatch: Any, width: int, read_per_key: int) -> None:
    monkeypatch.setattr(standing, "READ_PER_KEY", read_per_key)
    draw = random.Random(width)
    schema = {"a": int, "v": int} if width == 1 else {"a": int, "b": str, "v": int}
    with ev.connect() as db:
        table = db.table("t", schema, key=list(schema)[:-1])
        view = db.view("v", table.group_by("v").agg(n=count()))
        expected: dict[Any, int] = {}

        def some(n: int) -> None:
            rows = []
            for _ in range(n):
                key = draw.randrange(80) if width == 1 else (draw.randrange(9), draw.choice("abcdefghi"))
                value = draw.randrange(5)
                expected[key] = value  # the last row of a key counts
                rows.append((key, value) if width == 1 else (*key, value))  # type: ignore[misc]
            table.upsert(rows)

        for _ in range(15):
            kind = draw.randrange(4)
            if kind == 0:
                some(1)
            elif kind == 1:
                some(300)
            elif kind == 2:
                with db.transaction():
                    some(draw.randrange(1, 300))
                    some(draw.randrange(1, 300))
            else:
                with db.batch():
                    some(draw.randrange(1, 300))
                    some(3)
            check(db, table, view, expected, width)
        some(0)
        check(db, table, view, expected, width)
        table.clear()
        assert table.rows() == view.rows() == []


def test_a_rolled_back_upsert_leaves_what_was_there() -> None:
    with ev.connect() as db:
        t = db.table("t", {"k": int, "v": int}, key="k")
        t.insert({"k": list(range(1000)), "v": [0] * 1000})
        with pytest.raises(RuntimeError), db.transaction():
            t.upsert({"k": list(range(500)), "v": [1] * 500})
            raise RuntimeError
        assert set(t.rows()) == {(k, 0) for k in range(1000)}


def test_a_change_by_key_repairs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction inside a turn is part of it, not a turn after one that was cut off: repairing reads the whole
    dataflow, ten times the work of a small change.
    """
    with ev.connect() as db:
        table = db.table("t", {"k": int, "v": int}, key="k")
        view = db.view("total", table.agg(v=ev.col.v.sum()))
        repaired: list[int] = []
        monkeypatch.setattr(inside(db).transactions, "settle", lambda: repaired.append(db.time))
        table.insert([(1, 10)])
        table.upsert([(1, 11), (2, 20)])
        table.delete(keys=[2])
        assert view.rows() == [(11,)]
        assert repaired == []


@pytest.mark.parametrize("key", ["b", ("c", "a")])
@pytest.mark.parametrize("shards", [0, 2], ids=["embedded", "shards"])
def test_a_few_rows_by_key_are_what_many_are(key: Any, shards: int) -> None:
    """A few rows are looked up in compiled code, whatever the order of the index; many go through columns."""
    draw = random.Random(5)
    names = ("a", "b", "c")
    key_columns = [names.index(c) for c in ([key] if isinstance(key, str) else key)]
    with local_shards(shards=shards) if shards else ev.connect() as db:
        few, many = (db.table(name, dict.fromkeys(names, int), key=key) for name in ("few", "many"))
        there: dict[Any, Any] = {}

        def key_of(row: Any) -> Any:
            found = tuple(row[c] for c in key_columns)
            return found[0] if len(found) == 1 else found

        def tried(change: Any) -> str | None:
            try:
                change()
            except ev.InputError as error:
                return error.message
            return None

        for _ in range(60):
            rows = [tuple(draw.randrange(4) for _ in names) for _ in range(draw.randrange(1, 4))]
            kind = draw.choice(["insert", "upsert", "delete", "staged"])
            with db.transaction() if kind == "staged" else contextlib.nullcontext():
                if kind == "staged":
                    for row in rows:
                        few.upsert([row])
                        many.upsert(pd.DataFrame([row], columns=names))
                elif kind == "delete":
                    keys = [key_of(rows[0])]
                    gone = [there.get(keys[0])]
                    assert (tried(lambda: few.delete(keys=keys)) is None) == (gone != [None])  # noqa: B023
                    if gone != [None]:
                        many.delete(gone)
                else:
                    frame = pd.DataFrame(rows, columns=names)
                    refused = tried(lambda: getattr(few, kind)(rows))  # noqa: B023
                    also = tried(lambda: getattr(many, kind)(frame))  # noqa: B023
                    assert (refused or "").replace("'few'", "'many'") == (also or "")
            there = {key_of(row): row for row in many.rows()}
            assert sorted(few.rows()) == sorted(many.rows())
            assert len(there) == len(many.rows())


@pytest.mark.parametrize("change", ["upsert", "insert", "delete"])
def test_changes_by_key_of_a_closed_session(change: str) -> None:
    """They look the key up before anything else: the memory in which they would is gone."""
    db = ev.connect()
    t = db.table("t", {"k": int, "v": int}, key="k")
    t.insert([(1, 1)])
    db.close()
    with pytest.raises(ev.EverviewError) as error:
        getattr(t, change)([(1, 1)])
    assert error.value.code == "E_CLOSED"
