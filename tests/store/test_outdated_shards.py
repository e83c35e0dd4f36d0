"""Shards of a version that built other operators from the same views (here: one without `reductions.enough`)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import everview as ev
from everview import col, count
from everview.dataflow import reductions
from everview.dataflow.replica import Replica
from everview.language.collection import Collection
from tests.spark import inprocess, inprocess_gang

Open = Callable[[Path], Any]

WAYS: dict[str, Open] = {
    "embedded": ev.connect,
    "in files": lambda where: ev.connect(where, memory="1MB"),
    "shards": lambda where: ev.connect(inprocess.session(), state=str(where)),
    "more shards": lambda where: ev.connect(inprocess.session(), state=str(where), shards=5),
    "a gang": lambda where: ev.connect(inprocess_gang.session(2), state=str(where), alone_rows=0),
}

TRIANGLE = [(1, 2), (2, 3), (3, 1)]


@contextmanager
def an_earlier_version(*, named: bool = True) -> Iterator[None]:
    """One that had no such reduction in loops; unless `named`, it noted nothing but the operators' fingerprint."""
    described = Replica.described
    with patch.object(reductions, "enough", lambda *_: None):
        if named:
            yield
        else:
            with patch.object(Replica, "described", lambda replica: described(replica)[:1]):
                yield


def core_of(edges: Collection) -> Collection:
    """The edges between nodes that have two or more of these edges."""

    def peel(left: Collection) -> Collection:
        ends = left.select(node=left.src).union_all(left.select(node=left.dst))
        active = ends.group_by("node").agg(n=count()).filter(col.n >= 2).select("node")
        source, target = active.alias("source"), active.alias("target")
        inner = edges.join(source, edges.src == source.node).join(target, edges.dst == target.node)
        return inner.select(src=edges.src, dst=edges.dst)

    return edges.iterate(peel)


def write(where: Path, *, late: bool) -> None:
    """A directory in two shards: a table and its view, and `late` more tables that have operators before them."""
    with ev.connect(inprocess.session(), state=str(where), shards=2) as db:
        edge = db.table("edge", {"src": int, "dst": int})
        name = db.table("name", {"node": int, "name": str})
        edge.insert([*TRIANGLE, (3, 4)])
        name.insert([(1, "one"), (4, "four")])
        db.view("core", core_of(edge))
        if late:
            db.sql("CREATE TABLE gone (x int)")
            db.sql("INSERT INTO gone VALUES (1)")
            db.sql("DROP TABLE gone")
            db.sql("ALTER TABLE name RENAME TO names")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # earlier times cannot be read any more
                db.sql("ALTER TABLE names ADD COLUMN size int DEFAULT 3")
            db.sql("INSERT INTO names VALUES (5, 'five', 4)")
            db.sql("CREATE TABLE name (node int, name text)")
            db.sql("INSERT INTO name VALUES (3, 'three'), (3, 'III')")
            db.sql("CREATE VIEW called AS SELECT n.name FROM core c JOIN name n ON n.node = c.src")
        edge.insert([(4, 5)])


@pytest.mark.parametrize("way", WAYS)
def test_tables_are_kept_and_views_computed(tmp_path: Path, way: str) -> None:
    with an_earlier_version():
        write(tmp_path, late=True)
    with pytest.warns(UserWarning, match="computed again"):
        db = WAYS[way](tmp_path)
    with db:
        before = db.time
        assert sorted(db["names"].rows()) == [(1, "one", 3), (4, "four", 3), (5, "five", 4)]
        assert sorted(db["name"].rows()) == [(3, "III"), (3, "three")]
        assert sorted(db["edge"].as_of(before - 1).rows()) == sorted([*TRIANGLE, (3, 4)])
        assert sorted(db["core"].rows()) == TRIANGLE and sorted(db["called"].rows()) == [("III",), ("three",)]
        db["edge"].insert([(5, 4)])
        assert len(db["core"].rows()) == 6 and len(db["called"].rows()) == 4
        with pytest.raises(ev.InputError, match="E_ABSENT"):
            db["edge"].delete([(7, 7)])
        assert db.check() == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for again in (way, "embedded", "shards"):
            with WAYS[again](tmp_path) as db:
                assert len(db["core"].rows()) == 6 and db.time == before + 1


def test_whoever_only_reads_is_refused(tmp_path: Path) -> None:
    with an_earlier_version():
        write(tmp_path, late=False)
    with pytest.raises(ev.StoreError, match="E_VERSION") as caught:
        ev.connect(tmp_path, read_only=True)
    assert "open it once to write" in str(caught.value)


@pytest.mark.parametrize("way", ["embedded", "shards"])
def test_the_first_tables_are_found_though_nobody_noted_where(tmp_path: Path, way: str) -> None:
    with an_earlier_version(named=False):
        write(tmp_path, late=False)
    with pytest.warns(UserWarning, match="computed again"), WAYS[way](tmp_path) as db:
        assert sorted(db["core"].rows()) == TRIANGLE
        assert sorted(db["name"].rows()) == [(1, "one"), (4, "four")]


@pytest.mark.parametrize("way", ["embedded", "shards"])
def test_a_table_that_cannot_be_found_is_refused_and_nothing_changed(tmp_path: Path, way: str) -> None:
    with an_earlier_version(named=False):
        write(tmp_path, late=True)
    with pytest.raises(ev.StoreError, match=r"E_VERSION.*where the rows of 'names' are"):
        WAYS[way](tmp_path)
    with an_earlier_version(), WAYS["shards"](tmp_path) as db:
        assert sorted(db["core"].rows()) == TRIANGLE and len(db["name"].rows()) == 2


def test_a_name_that_was_given_again_says_nothing(tmp_path: Path) -> None:
    """The rows under the first number are those of a table that is no more."""
    with an_earlier_version(named=False), ev.connect(inprocess.session(), state=str(tmp_path), shards=2) as db:
        db.table("edge", {"src": int, "dst": int}).insert([(7, 7)])
        db["edge"].drop()
        edge = db.table("edge", {"src": int, "dst": int})
        db.view("core", core_of(edge))
        edge.insert(TRIANGLE)
    with pytest.raises(ev.StoreError, match=r"E_VERSION.*'edge'"):
        ev.connect(tmp_path)
