"""Words that no row has any more are forgotten when a directory is opened, and nothing else is."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import everview as ev
from everview.codes.interner import Interner
from everview.spark.driver import cluster
from everview.store import Image, Store, dictionary_gc
from tests.inside import inside
from tests.spark.inprocess import session


@pytest.fixture(autouse=True)
def look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dictionary_gc, "UNUSED_ENTRIES", 500)
    monkeypatch.setattr(cluster, "COLLECT_GRACE", 0.0)


def embedded(where: Path, **options: Any) -> Any:
    return ev.connect(where, **options)


def shards(where: Path, **options: Any) -> Any:
    return ev.connect(session(), state=str(where), shards=2, **options)


def known(db: Any) -> int:
    return sum(ref.rows for ref in inside(db).runtime.backing.store.manifest.dictionary)


def texts(where: Path) -> int:
    return sum(file.stat().st_size for file in where.glob("batches/words-*"))


@pytest.mark.parametrize("connect", [embedded, shards])
def test_words_of_deleted_rows_go(connect: Callable[..., Any], tmp_path: Path) -> None:
    for day in range(6):
        with connect(tmp_path, history=0) as db:
            t = db.table("t", {"id": int, "name": str})
            v = db.view("v", t.select(n=t.name.upper()))
            assert known(db) < 4500
            gone = {"id": np.arange(3000), "name": [f"name {day} {i}" for i in range(3000)]}
            t.insert([(day, f"stays {day}")])
            t.insert(gone)
            t.delete(gone)
            for i in range(40):  # for lists to be merged
                (t.delete if i % 2 else t.insert)([(-1, "now and then")])
            if connect is embedded:
                db.checkpoint()
            assert sorted(v.rows()) == [(f"STAYS {d}",) for d in range(day + 1)]
    with connect(tmp_path, history=0) as db:
        assert known(db) < 4500
        assert texts(tmp_path) < 4500 * 60
        assert sorted(db["t"].rows()) == [(d, f"stays {d}") for d in range(6)]


@pytest.mark.parametrize("connect", [embedded, shards])
def test_a_word_of_a_definition_is_stored_again_when_a_row_has_it(
    connect: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is known from building the view, but was forgotten in the store."""
    monkeypatch.setattr(dictionary_gc, "UNUSED_ENTRIES", -1)
    with connect(tmp_path) as db:
        t = db.table("t", {"name": str})
        db.view("v", t.filter(t.name == "only here"))
        t.insert([("another",)])
        if connect is embedded:
            db.checkpoint()
    with connect(tmp_path) as db:
        assert b"only here" not in stored(db)
        db["t"].insert([("only here",)])
        assert db["v"].rows() == [("only here",)]
        db["v"].drop()
        if connect is embedded:
            db.checkpoint()
        assert b"only here" in stored(db)
    with connect(tmp_path) as db:
        assert sorted(db["t"].rows()) == [("another",), ("only here",)]


def stored(db: Any) -> set[bytes]:
    dictionary = inside(db).runtime.backing.store.manifest.dictionary
    return {
        value
        for ref in dictionary
        for value in inside(db).runtime.backing.store.get_dictionary(ref)["value"].to_pylist()
    }


def test_a_worker_that_knew_a_word_tells_it_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers outlive sessions; what a function makes there must reach the driver, known or not."""
    monkeypatch.setattr(dictionary_gc, "UNUSED_ENTRIES", -1)
    spark = session(1)
    for _ in range(3):
        with ev.connect(spark, state=str(tmp_path), shards=2, history=0) as db:
            t = db.table("t", {"name": str})
            v = db.view("v", t.select(n=t.name.upper()))
            assert b"LOUD" not in stored(db)
            t.insert([("loud",)])
            assert v.rows() == [("LOUD",)]
            t.delete([("loud",)])
            for i in range(40):
                (t.delete if i % 2 else t.insert)([("now and then",)])


def test_a_log_that_is_not_empty_keeps_its_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rows are in no batch yet; they are put there first."""
    monkeypatch.setattr(dictionary_gc, "UNUSED_ENTRIES", -1)
    with ev.connect(tmp_path / "a", history=0) as db:
        t = db.table("t", {"name": str})
        t.insert([("early",), ("gone",)])
        t.delete([("early",), ("gone",)])
        db.checkpoint()
        t.insert([("early",), ("late",)])
        shutil.copytree(tmp_path / "a", tmp_path / "b", ignore=shutil.ignore_patterns("owner"))  # as kill -9 leaves it
    with ev.connect(tmp_path / "b") as db:
        assert sorted(db["t"].rows()) == [("early",), ("late",)]
        assert stored(db) == {b"early", b"late"}
        db["t"].insert([("gone",)])
    with ev.connect(tmp_path / "b") as db:
        assert sorted(db["t"].rows()) == [("early",), ("gone",), ("late",)]


@pytest.mark.parametrize("connect", [embedded, shards])
def test_readers_go_on(connect: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with connect(tmp_path) as db:
        t = db.table("t", {"name": str})
        t.insert([("a",), ("b",)])
        t.delete([("a",)])
        if connect is embedded:
            db.checkpoint()
    with ev.connect(tmp_path, read_only=True) as reader:
        assert reader["t"].rows() == [("b",)]
        monkeypatch.setattr(dictionary_gc, "UNUSED_ENTRIES", -1)
        with connect(tmp_path) as db:
            db["t"].insert([("c",), ("a",)])
            reader.refresh()
            assert sorted(reader["t"].rows()) == [("a",), ("b",), ("c",)]
            assert sorted(reader["t"].as_of(1).rows()) == [("a",), ("b",)]


def kept(where: Path, interner: Interner, codes: list[int]) -> set[bytes]:
    """The dictionary of a store that has these codes in a batch."""
    with Store(where) as store:
        batch = store.put(Image.of(np.array([[7] * len(codes), codes], dtype=np.int64), 1, 1))
        store.commit(1, adds=[(0, 0, batch)], dictionary=(store.put_dictionary(interner.export()),))
        dictionary_gc.forget(store)
        found = {v for ref in store.manifest.dictionary for v in store.get_dictionary(ref)["value"].to_pylist()}
        assert dictionary_gc.due(store.manifest) is False
        return found


def test_words_inside_of_tuples_stay(tmp_path: Path) -> None:
    interner = Interner()
    outer = interner.id(("pear", ("fig", 1, None), 2.5))
    interner.id(("plum", "quince"))
    found = kept(tmp_path, interner, [outer])
    assert {b"pear", b"fig"} <= found and not {b"plum", b"quince"} & found and len(found) == 4


def test_everything_may_go(tmp_path: Path) -> None:
    interner = Interner()
    interner.encode(["a", "b"])
    assert kept(tmp_path, interner, [3]) == set()


def test_nothing_goes_if_ids_depend_on_who_came_first(tmp_path: Path) -> None:
    """Among hashes of six bits some are equal; the later word has another id than it would have by itself."""
    interner = Interner(hash_bits=6)
    codes = interner.encode([f"w{i}" for i in range(60)])
    assert len(kept(tmp_path, interner, codes[30:].tolist())) == 60


def test_pieces_of_the_dictionary_stay_few(tmp_path: Path) -> None:
    """Each step brings a word; readers and workers that follow know them all."""
    with shards(tmp_path) as db:
        t = db.table("t", {"name": str})
        v = db.view("v", t.select(n=t.name.upper()))
        t.insert([("word 0",)])
        with ev.connect(tmp_path, read_only=True) as reader:
            for i in range(1, 150):
                t.insert([(f"word {i}",)])
                assert len(inside(db).runtime.backing.store.manifest.dictionary) < 30
                if i % 50 == 0:
                    reader.refresh()
                    assert len(reader["v"].rows()) == i + 1
        assert known(db) == 300
        assert sorted(v.rows()) == sorted((f"WORD {i}",) for i in range(150))
    with shards(tmp_path) as db:
        assert sorted(db["v"].rows()) == sorted((f"WORD {i}",) for i in range(150))
