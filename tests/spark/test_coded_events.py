"""Change feeds of any kind coded in tasks and finished on the shards, next to a session in memory that takes the same
records one after the other. Tasks run in this process; the same with Spark's own is in test_encode.py.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import everview as ev
from everview.spark.rows import encode as coding
from everview.spark.rows import encoded as coded
from tests.inside import inside
from tests.spark.inprocess import Rows, Script, parts, session


class Pair:
    """The same feed into shards, coded in tasks, and into a session in memory."""

    def __init__(self, state: Path, records: pa.Schema, **options: Any) -> None:
        self.records = records
        self.feeds = []
        self.missing: list[int] = []
        for db in (ev.connect(session(), state=str(state), shards=3), ev.connect()):
            source = Script(records)
            t = db.source("t", source, mode="changes", **options)
            v = db.view("v", t.group_by("name").agg(n=ev.count()))
            self.feeds.append((db, source, t, v))

    def take(self, records: list[dict[str, Any]]) -> None:
        tables = parts(records, self.records)
        for (db, source, _, _), rows in zip(self.feeds, (Rows(*tables), pa.concat_tables(tables)), strict=True):
            source.waiting = [rows]
            self.missing.append(db.run(until="caught_up").missing.get("t", 0))
            assert not source.waiting
        assert self.missing[-1] == self.missing[-2]
        for there, here in zip(*(f[2:] for f in self.feeds), strict=True):
            assert Counter(there.rows()) == Counter(here.rows())

    def rejected(self) -> list[Counter[Any]]:
        return [Counter(f[0]["t_rejected"].rows()) for f in self.feeds]

    def __enter__(self) -> Pair:
        return self

    def __exit__(self, *exc: object) -> None:
        db = self.feeds[0][0]
        left = inside(db).runtime.backing.store.files.list(coded.FOLDER)
        for feed in self.feeds:
            feed[0].close()
        assert left == [], "files of coded rows lie about"


DIFFS = pa.schema({"id": pa.int64(), "name": pa.string(), "_diff": pa.int64()})


@pytest.mark.parametrize("seed", range(4))
def test_counted_events(tmp_path: Path, seed: int) -> None:
    """Rows go before they come and are there several times; some are taken away too often and set aside."""
    draw = random.Random(seed)
    with Pair(tmp_path / "state", DIFFS, bad="quarantine") as pair:
        for _ in range(6):
            rows = [(draw.randrange(4), draw.choice(["a", "b", None])) for _ in range(draw.randrange(1, 30))]
            pair.take([{"id": id, "name": name, "_diff": draw.choice([-2, -1, 1, 2])} for id, name in rows])
            there, here = pair.rejected()
            assert there.keys() == here.keys() and there == here
        assert there, "nothing was set aside"


def test_a_row_that_is_not_there_is_named(tmp_path: Path) -> None:
    with Pair(tmp_path / "state", DIFFS) as pair:
        pair.take([{"id": 1, "name": "pear", "_diff": 2}])
        with pytest.raises(ev.InputError, match=r"E_ABSENT\] table 't': cannot delete \(1, 'pear'\): there is no such"):
            pair.take([{"id": 7, "name": "fig", "_diff": 1}, {"id": 1, "name": "pear", "_diff": -3}])
        _, source, t, _ = pair.feeds[0]
        assert t.rows() == [(1, "pear")] * 2 and source.waiting
        pair.take([{"id": 1, "name": "pear", "_diff": -2}, {"id": 7, "name": "fig", "_diff": 1}])


COLUMNS = {"id": int, "name": str | None, "n": int}
ENVELOPE = pa.schema({"value": pa.string()})


def envelope(draw: random.Random, stands: dict[int, dict[str, Any]], keyed: bool) -> dict[str, str | None]:
    """A Debezium record of something that may happen; with a key, a row may be told by its key alone."""
    if draw.random() < 0.03:
        stands.clear()
        return {"value": json.dumps({"op": "t", "before": None, "after": None})}
    if draw.random() < 0.1:
        return {"value": None}
    key = draw.randrange(10)
    before = stands.pop(key, None)
    after = None if before and draw.random() < 0.4 else {"id": key, "name": draw.choice("abc"), "n": draw.randrange(3)}
    if after is not None:
        if before is not None and draw.random() < 0.2:  # another key
            free = [k for k in range(10, 20) if k not in stands]
            after["id"] = draw.choice(free)
        stands[after["id"]] = after  # type: ignore[index]
    op = "d" if after is None else "u" if before is not None else "c"
    told = {"id": before["id"]} if before and keyed and draw.random() < 0.5 else before
    body = {"op": op, "before": told, "after": after}
    return {"value": json.dumps({"payload": body} if draw.random() < 0.5 else body)}


@pytest.mark.parametrize("key", ["id", None])
@pytest.mark.parametrize("seed", range(3))
def test_debezium(tmp_path: Path, key: str | None, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coding, "FLUSH_WORDS", 40)  # files are written before the table is emptied
    monkeypatch.setattr(coding, "ENCODE_ROWS", 5)
    draw = random.Random(seed)
    stands: dict[int, dict[str, Any]] = {}
    with Pair(tmp_path / "state", ENVELOPE, key=key, schema=COLUMNS, bad="quarantine") as pair:
        for batch in range(6):
            records = [envelope(draw, stands, key is not None) for _ in range(40)]
            records.insert(draw.randrange(40), {"value": "{" if batch % 2 else '{"op": "?"}'})
            pair.take(records)
            assert sorted(r[0] for r in pair.feeds[0][2].rows()) == sorted(stands)
        there, here = pair.rejected()
        assert there == here and there.total() == 6


SAID = pa.schema({"id": pa.int64(), "name": pa.string(), "_change_type": pa.string()})


def said(what: str, *ids: int) -> list[dict[str, Any]]:
    return [{"id": id, "name": None if what == "delete" else "x", "_change_type": what} for id in ids]


def test_deletions_that_find_nothing_are_counted(tmp_path: Path) -> None:
    with Pair(tmp_path / "state", SAID, key="id") as pair:
        pair.take(said("insert", *range(20)))
        pair.take(said("delete", *range(10, 30), 10, 11))
        assert pair.missing == [0, 0, 12, 12]
        assert sorted(row[0] for row in pair.feeds[0][2].rows()) == [*range(10)]


def test_or_refused_or_set_aside(tmp_path: Path) -> None:
    with Pair(tmp_path / "state", SAID, key="id", missing="reject") as pair:
        pair.take(said("insert", 1, 2, 3))
        with pytest.raises(ev.InputError, match=r"E_ABSENT\] table 't': cannot delete id 7: there is no such row"):
            pair.take(said("delete", 1, 7))
        assert len(pair.feeds[0][2].rows()) == 3
        pair.take(said("delete", 1))
    with Pair(tmp_path / "other", SAID, key="id", missing="reject", bad="quarantine") as pair:
        pair.take(said("insert", 1, 2, 3))
        pair.take(said("delete", 1, *range(5, 15)))
        there, here = ([*(record for _, _, record in c.elements())] for c in pair.rejected())
        assert sorted(there) == sorted(here) == sorted(f'{{"id": {i}}}' for i in range(5, 15))
        assert pair.missing == [0] * 4
