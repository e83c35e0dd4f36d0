"""Views that come and go: whatever was made and dropped before a directory was closed, every view that is opened again
says what its own definition says.

Random histories of CREATE and DROP VIEW, changes, checkpoints, ends with and without notice, embedded and in shards.
After each opening every view is compared with a model in plain Python and with a computation from scratch
(`Session.check`).
"""

from __future__ import annotations

import random
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import everview as ev
from everview import col
from everview.cli import app
from everview.dataflow import saved_state
from everview.language.relation import relation_of
from everview.recovery.directory import Directory
from tests.inside import inside
from tests.spark.inprocess import session
from tests.store.durably import die, reach

Rows = list[tuple[int, int]]
Model = Callable[[Rows], list[tuple[Any, ...]]]
Make = Callable[[ev.Session, str], Any]


def grouped(k: int) -> tuple[Make, Model]:
    def make(db: ev.Session, name: str) -> Any:
        return db.sql(f"CREATE VIEW {name} AS SELECT x % {k} AS g, count(*) AS n FROM t GROUP BY x % {k}")

    return make, lambda rows: list(Counter(x % k for x, _ in rows).items())


def largest(k: int) -> tuple[Make, Model]:
    def make(db: ev.Session, name: str) -> Any:
        return db.sql(f"CREATE VIEW {name} AS SELECT y, max(x + {k}) AS m, sum(x) AS s FROM t GROUP BY y")

    def model(rows: Rows) -> list[tuple[Any, ...]]:
        return [
            (g, max(x for x, y in rows if y == g) + k, sum(x for x, y in rows if y == g)) for g in {y for _, y in rows}
        ]

    return make, model


def added(k: int) -> tuple[Make, Model]:
    """With a Python function, which closes over a number."""

    def make(db: ev.Session, name: str) -> Any:
        return db.view(name, db["t"].map(lambda x, y: x + k * y, {"z": int}))

    return make, lambda rows: [(x + k * y,) for x, y in rows]


def joined(k: int) -> tuple[Make, Model]:
    def make(db: ev.Session, name: str) -> Any:
        return db.sql(f"CREATE VIEW {name} AS SELECT a.x, b.x AS z FROM t a JOIN t b ON a.x = b.y WHERE b.x > {k}")

    return make, lambda rows: [(x, z) for x, _ in rows for z, w in rows if x == w and z > k]


def first(k: int) -> tuple[Make, Model]:
    def make(db: ev.Session, name: str) -> Any:
        return db.sql(f"CREATE VIEW {name} AS SELECT DISTINCT x, y FROM t ORDER BY x, y LIMIT {k}")

    return make, lambda rows: sorted(set(rows))[:k]


def reached(k: int) -> tuple[Make, Model]:
    """In a loop, from one root."""

    def make(db: ev.Session, name: str) -> Any:
        t: Any = db["t"]
        return db.view(name, reach(t.select(src=col.x, dst=col.y), t.filter(col.x == k).select(node=col.x)))

    def model(rows: Rows) -> list[tuple[Any, ...]]:
        found = {x for x, _ in rows if x == k}
        while more := {y for x, y in rows if x in found} - found:
            found |= more
        return [(node,) for node in found]

    return make, model


KINDS = [grouped, grouped, grouped, largest, added, joined, first, reached]


class Churn:
    """A directory, what should be in it, and a session that changes both."""

    def __init__(self, where: Path, seed: int, *, shards: bool = False, kinds: Sequence[Any] = KINDS) -> None:
        self.where = where
        self.kinds = kinds
        self.fate = random.Random(seed)
        self.shards = shards
        self.rows: Rows = []
        self.views: dict[str, Model] = {}
        self.made = 0
        self.open()
        self.db.table("t", {"x": int, "y": int})

    def open(self) -> None:
        embedded = not self.shards or self.fate.random() < 0.3
        self.db: Any = ev.connect(self.where) if embedded else ev.connect(session(), state=str(self.where), shards=2)

    def create(self) -> None:
        make, model = self.fate.choice(self.kinds)(self.fate.randrange(1, 5))
        name = f"v{self.made}"
        self.made += 1
        make(self.db, name)
        self.views[name] = model

    def drop(self) -> None:
        if self.views:
            name = self.fate.choice(list(self.views))
            self.db[name].drop()
            del self.views[name]

    def come_and_go(self) -> None:
        """So many that the next version leaves out what was dropped."""
        for _ in range(25):
            grouped(7)[0](self.db, "tmp")
            self.db["tmp"].drop()

    def change(self) -> None:
        new = [(self.fate.randrange(8), self.fate.randrange(8)) for _ in range(self.fate.randrange(1, 6))]
        old = self.fate.sample(self.rows, min(len(self.rows), self.fate.randrange(3)))
        with self.db.transaction():
            self.db["t"].insert(new)
            self.db["t"].delete(old)
        self.rows += new
        for row in old:
            self.rows.remove(row)

    def look(self) -> None:
        """A query that is gone when it is answered, and an index that stays."""
        k = self.fate.randrange(1, 5)
        assert self.db.sql(f"SELECT count(*) AS n FROM t WHERE x % {k} = 0").rows() == [
            (sum(x % k == 0 for x, _ in self.rows),)
        ]
        if self.views:
            view = self.db[self.fate.choice(list(self.views))]
            view.lookup(1)

    def again(self) -> None:
        if isinstance(inside(self.db).runtime.backing, Directory):
            if self.fate.random() < 0.7:
                self.come_and_go()
                self.db.checkpoint()
            die(self.db) if self.fate.random() < 0.3 else self.db.close()
        else:
            self.db.close()
        self.open()
        self.compare()

    def compare(self) -> None:
        assert sorted(self.db["t"].rows()) == sorted(self.rows)
        assert set(self.db.views) == set(self.views)
        for name, model in self.views.items():
            assert sorted(self.db[name].rows()) == sorted(model(self.rows)), name
        assert self.db.check() == []

    def run(self, steps: int) -> None:
        acts = [self.create] * 6 + [self.drop] * 5 + [self.change] * 3 + [self.look, self.again]
        for _ in range(steps):
            self.fate.choice(acts)()
        self.again()
        self.db.close()


@pytest.mark.parametrize("seed", range(4))
def test_embedded(tmp_path: Path, seed: int) -> None:
    Churn(tmp_path, seed).run(80)


@pytest.mark.parametrize("seed", range(4))
def test_views_that_look_alike(tmp_path: Path, seed: int) -> None:
    Churn(tmp_path, seed, kinds=[grouped]).run(60)


@pytest.mark.parametrize("seed", range(2))
def test_in_shards_and_moving(tmp_path: Path, seed: int) -> None:
    Churn(tmp_path, seed, shards=True).run(40)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 40))
def test_embedded_for_longer(tmp_path: Path, seed: int) -> None:
    Churn(tmp_path, seed).run(150)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 18))
def test_in_shards_for_longer(tmp_path: Path, seed: int) -> None:
    Churn(tmp_path, seed, shards=True).run(80)


def swapped(where: Path) -> None:
    """The shortest history after which two views had each other's rows."""
    with ev.connect(where) as db:
        t = db.table("t", {"x": int, "y": int})
        t.insert([(i, 1) for i in range(12)])
        make = {name: grouped(k)[0] for name, k in (("a", 3), ("b", 4), ("c", 3), ("tmp", 7))}
        for name in "abc":
            make[name](db, name)
        db.sql("DROP VIEW a")
        for _ in range(25):
            make["tmp"](db, "tmp")
            db.sql("DROP VIEW tmp")
        db.checkpoint()
        assert len(inside(db).runtime.backing.store.manifest.commands) == 3


def test_views_do_not_swap_their_contents(tmp_path: Path) -> None:
    swapped(tmp_path)
    with ev.connect(tmp_path) as db:
        assert sorted(db["b"].rows()) == [(k, 3) for k in range(4)]
        assert sorted(db["c"].rows()) == [(k, 4) for k in range(3)]


def test_state_that_is_not_found_is_computed_and_the_rest_is_kept(tmp_path: Path, monkeypatch: Any) -> None:
    """Of the two views only one has state that is known today; the other one's history begins anew."""
    with ev.connect(tmp_path) as db:
        t = db.table("t", {"x": int, "y": int})
        db.view("kept", t.group_by("x").agg(n=ev.count()))
        db.view("lost", t.group_by("y").agg(n=ev.count()))
        t.insert([(1, 2)])
        t.insert([(1, 3)])
        held = saved_state.held(inside(db).runtime.dataflow)
        lost = set(held) - {k for k in held if "by [0]" in k or k.startswith("table")}
        assert len(lost) == 2
        before = saved_state.fingerprint
        monkeypatch.setattr(saved_state, "fingerprint", lambda o: before(o) + "?" * (before(o) in lost))
        db.checkpoint()
        die(db)
    monkeypatch.undo()
    with pytest.warns(UserWarning, match="computed again"):
        db = ev.connect(tmp_path)
    assert db["kept"].as_of(1).rows() == [(1, 1)] and db["kept"].rows() == [(1, 2)]
    assert sorted(db["lost"].rows()) == [(2, 1), (3, 1)]
    with pytest.raises(ev.CompactedError):
        db["lost"].as_of(1)
    db.close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ev.connect(tmp_path).close()


def test_a_table_without_its_rows_is_refused(tmp_path: Path, monkeypatch: Any) -> None:
    with ev.connect(tmp_path) as db:
        db.table("t", {"x": int}).insert([(1,)])
        before = saved_state.fingerprints
        monkeypatch.setattr(saved_state, "fingerprints", lambda graph: tuple("?" for _ in before(graph)))
        db.checkpoint()
    monkeypatch.undo()
    with pytest.warns(UserWarning), pytest.raises(ev.StoreError, match=r"E_DAMAGED.*'t'"):
        ev.connect(tmp_path)


def test_check_finds_views_that_are_wrong(tmp_path: Path, monkeypatch: Any) -> None:
    """The file of a view's state is another view's: what the defect did, done by hand."""
    swapped(tmp_path)
    told = CliRunner().invoke(app, ["check", str(tmp_path), "--deep"])
    assert told.exit_code == 0 and "every view equals what recomputing it gives" in told.output, told.output
    with ev.connect(tmp_path) as db:
        views = db["b"], db["c"]
        a, b = (saved_state.fingerprint(relation_of(v).arrangement.operator) for v in views)
        before = saved_state.fingerprints
        monkeypatch.setattr(
            saved_state, "fingerprints", lambda graph: tuple({a: b, b: a}.get(text, text) for text in before(graph))
        )
        db.checkpoint()
    monkeypatch.undo()
    told = CliRunner().invoke(app, ["check", str(tmp_path), "--deep"])
    assert told.exit_code == 1
    assert "view 'b': (0, 3) is there 0 times, and should be 1 times" in told.output
    assert "view 'c': (3, 3) is there 1 times, and should be 0 times" in told.output
    assert CliRunner().invoke(app, ["check", str(tmp_path)]).exit_code == 0


def test_check_refuses_what_is_damaged(tmp_path: Path) -> None:
    with ev.connect(tmp_path) as db:
        db.table("t", {"x": int}).insert([(i,) for i in range(5000)])
        db.checkpoint()
    file = next((tmp_path / "batches").iterdir())
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    told = CliRunner().invoke(app, ["check", str(tmp_path)])
    assert told.exit_code == 1 and "E_DAMAGED" in told.output
