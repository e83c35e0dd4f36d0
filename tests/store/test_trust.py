"""Directories are data: opening one runs no code that the program has not given or said it trusts.

Hostile files: a pickle that leaves a mark when it is read is put in the place of every file of a directory and of every
part of its records, with checksums that are right. Whatever opening says of it, the mark is never there.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import os
import pickle
import subprocess
import sys
import tarfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import everview as ev
from everview import col
from everview.cli import app
from everview.expr import nodes as expr
from everview.expr.language import udf
from everview.language.relation import relation_of
from everview.plan import node_records, trust
from everview.plan import nodes as plan
from everview.plan.frontier import Frontier, StrongLabels
from everview.plan.pre_aggregation import Sent
from everview.plan.serialisation import Functions, freeze, thaw
from everview.store import records
from everview.types import INT
from tests.spark.inprocess import session
from tests.store.durably import die

PROGRAM = """
import sys
import tarfile
import everview as ev
from everview.expr.language import udf
from tests.inside import inside

def thrice(x):
    return 3 * x

def declare(db):
    t = db.table("t", {"x": int})
    db.function("twice", lambda x: 2 * x, returns=int)
    db.view("mapped", t.map(lambda x: x + 1, {"y": int}))
    db.view("called", t.select(z=udf(thrice, returns=int)(t.x)))
    db.sql("CREATE VIEW IF NOT EXISTS told AS SELECT twice(x) AS w FROM t")
    return t

if __name__ == "__main__":
    with ev.connect(sys.argv[1]) as db:
        t = declare(db)
        t.insert([(len(t.rows()),)])
        print([sorted(db[v].rows()) for v in ("mapped", "called", "told")])
        if len(sys.argv) > 2:
            inside(db).abandon()
"""


def run(where: Path, *more: str, program: str = PROGRAM) -> str:
    """What the program says, run in a process of its own."""
    found = subprocess.run(
        [sys.executable, "-c", program, str(where), *more],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": "src:."},
    )
    return found.stdout.strip() if found.returncode == 0 else found.stderr


def test_a_program_that_is_run_again_gives_its_functions_again(tmp_path: Path) -> None:
    for last in range(2):
        rows = range(last + 1)
        assert run(tmp_path) == str([[(x + 1,) for x in rows], [(3 * x,) for x in rows], [(2 * x,) for x in rows]])


def test_functions_that_nobody_has_given(tmp_path: Path) -> None:
    """What is there can be read; nothing can be changed until they are given."""
    run(tmp_path)
    with ev.connect(tmp_path) as db:
        assert db["mapped"].rows() == [(1,)] and db["t"].rows() == [(0,)]
        with pytest.raises(ev.StoreError, match=r"E_TRUST.*lambda.*thrice(.|\n)*functions=(.|\n)*trust=True"):
            db["t"].insert([(5,)])
        with pytest.raises(ev.StoreError, match="E_TRUST"):
            db.check()
        assert db["t"].rows() == [(0,)] and db.time == 1
        db.checkpoint()  # and nothing is lost by that
    with ev.connect(tmp_path, trust=True) as db:
        db["t"].insert([(5,)])
        assert sorted(db["mapped"].rows()) == [(1,), (6,)] and sorted(db["called"].rows()) == [(0,), (15,)]
        assert db.check() == []


def test_a_log_that_needs_them_waits_for_them(tmp_path: Path) -> None:
    """A transaction that only the log has is not taken for one that failed."""
    run(tmp_path, "die")
    for _ in range(2):
        with pytest.raises(ev.StoreError, match="E_TRUST"):
            ev.connect(tmp_path)
        with pytest.raises(ev.StoreError, match="E_TRUST"):
            ev.connect(tmp_path, read_only=True)
    with ev.connect(tmp_path, read_only=True, trust=True) as db:
        assert db["told"].rows() == [(0,)]
    with ev.connect(tmp_path, trust=True) as db:
        assert db["t"].rows() == [(0,)] and db.check() == []


NAMED = """
import sys
import tarfile
import everview as ev

def plus(x):
    return x + {k}

with ev.connect(sys.argv[1]{how}) as db:
    t = db.table("t", {{"x": int}})
    if "v" not in db:
        db.view("v", t.map(plus, {{"y": int}}))
    t.insert([(len(t.rows()),)])
    print(sorted(db["v"].rows()))
"""


def test_functions_are_given_by_name(tmp_path: Path) -> None:
    """Another function of the name is another view: it is computed again, with the one that was given."""
    assert run(tmp_path, program=NAMED.format(k=1, how="")) == "[(1,)]"
    assert "E_TRUST" in run(tmp_path, program=NAMED.format(k=7, how=""))
    assert run(tmp_path, program=NAMED.format(k=1, how="")) == "[(1,), (2,)]"  # the main module has it
    assert run(tmp_path, program=NAMED.format(k=7, how=", functions={'plus': plus}")) == "[(7,), (8,), (9,)]"


def test_nothing_but_the_main_modules_own_functions_are_found_by_name() -> None:
    for name, module in (("system", "os"), ("system", "__main__"), ("run", "subprocess"), ("pytest", "__main__")):
        assert trust.defined(name, module) is None


def test_options_are_looked_at(tmp_path: Path) -> None:
    for options in ({"trust": 1}, {"functions": 3}, {"functions": [3]}, {"functions": {1: len}}):
        with pytest.raises(ev.InputError, match="E_OPTION"):
            ev.connect(tmp_path, **options)


# hostile files


class Mark:
    """Unpickling it makes a file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return open, (self.path, "w")


def pickles(mark: Path) -> list[bytes]:
    return [pickle.dumps(Mark(str(mark)), protocol) for protocol in (0, 2, 5)]


def make(where: Path) -> None:
    """A directory with everything: files, versions, a log with a view, functions."""
    with ev.connect(where) as db:
        t = db.table("t", {"x": int, "s": str})
        db.view("m", t.map(lambda x, s: (x + 1, s), {"y": int, "s": str}))
        db.sql("CREATE VIEW recent AS SELECT s, count(*) AS n FROM t WHERE x > 1.5 GROUP BY s")
        t.insert([(i, f"word {i}") for i in range(3000)])
        db.checkpoint()
        db.view("u", t.select(z=udf(lambda x: x, returns=int)(t.x)))
        t.insert([(1, "more")])
        die(db)


def make_shards(where: Path) -> None:
    with ev.connect(session(), state=str(where), shards=2) as db:
        t = db.table("t", {"x": int})
        db.view("m", t.map(lambda x: x + 1, {"y": int}))
        t.insert([(i,) for i in range(3000)])


def replaced_parts(data: bytes, hostile: bytes) -> Iterator[bytes]:
    """The record with each of its parts replaced in turn, also inside parts that are records."""
    for start in (0, *(i for i in range(1, 40) if data[i : i + 4] == records.MAGIC)):
        if data[start : start + 4] != records.MAGIC:
            continue
        try:
            header, parts = records.decode(data[start:], "it")
        except ev.StoreError:
            continue
        for i, part in enumerate(parts):
            inner = bytes(part)
            prefix = inner[:1] if inner[1:5] == records.MAGIC else b""
            deeper = (prefix + r for r in replaced_parts(inner[len(prefix) :], hostile))
            for new in (hostile, prefix + hostile, *deeper):
                changed = [new if j == i else bytes(p) for j, p in enumerate(parts)]
                yield data[:start] + records.encode(header, changed)


def open_in_every_way(where: Path, sharded: bool) -> None:
    """What opening says is its own affair."""

    def attempt(opening: Callable[[], Any]) -> None:
        try:
            db = opening()
        except ev.EverviewError:
            return
        try:
            for name in (*db.tables, *db.views):
                db[name].rows()
        except ev.EverviewError:
            pass
        finally:
            db.close()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        attempt(lambda: ev.connect(where, read_only=True))
        CliRunner().invoke(app, ["check", str(where), "--deep"])
        if sharded:
            attempt(lambda: ev.connect(session(), state=str(where)))
        attempt(lambda: ev.connect(where))


@pytest.mark.parametrize("sharded", [False, True], ids=["embedded", "shards"])
def test_no_file_is_run(tmp_path: Path, sharded: bool, monkeypatch: Any) -> None:
    monkeypatch.setattr(trust, "_written", set())  # as if another process had written the directory
    origin, mark = tmp_path / "origin", tmp_path / "mark"
    (make_shards if sharded else make)(origin)
    trust._written.clear()
    files = [p.relative_to(origin) for p in origin.rglob("*") if p.is_file() and not p.is_symlink()]
    assert len(files) >= 3
    tried = 0
    for file in files:
        data = (origin / file).read_bytes()
        for hostile in pickles(mark):
            for changed in (hostile, *replaced_parts(data, hostile)):
                where = tmp_path / f"copy {tried}"
                subprocess.run(["cp", "-r", str(origin), str(where)], check=True)
                (where / file).write_bytes(changed)
                open_in_every_way(where, sharded)
                assert not mark.exists(), f"{file} was run"
                subprocess.run(["rm", "-r", str(where)], check=True)
                tried += 1
    assert tried > 3 * len(files), "parts of records were tried too"


def test_the_mark_works(tmp_path: Path) -> None:
    for data in pickles(tmp_path / "mark"):
        pickle.loads(data).close()
        (tmp_path / "mark").unlink()


# plans


def test_every_node_and_expression_can_be_written() -> None:
    def below(kind: type) -> set[type]:
        return {kind}.union(*map(below, kind.__subclasses__()))

    made_by_the_planner = {Frontier, Sent, StrongLabels}  # when a view is built: never in a catalog, and refused there
    nodes = {c for c in below(plan.Node) if c.__module__.startswith("everview.plan.")} - {plan.Node}
    nodes -= made_by_the_planner
    assert nodes == set(node_records.NODES.values())
    assert below(expr.Expr) - {expr.Expr} <= set(node_records.PARTS.values())


def plan_of(db: ev.Session) -> Any:
    t = db.table("t", {"x": int, "y": float, "s": str | None})
    return relation_of(t.filter(col.y > 1.5).group_by("s").agg(n=ev.count(), m=col.x.max())).node


def test_only_known_nodes_with_what_belongs_in_them_are_made() -> None:
    node = plan_of(ev.connect())
    data = json.loads(freeze(node, Functions()))
    assert thaw(json.dumps(data).encode(), Functions()) == node

    def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
        yield path
        items = enumerate(value) if isinstance(value, list) else value.items() if isinstance(value, dict) else ()
        for key, inner in items:
            yield from places(inner, (*path, key))

    strange: list[Any] = [None, -1, 10**6, "os.system", 1.5, [], {}, {"os": []}, {"#": 99}, {"fn": "f9"}, {"Call": [1]}]
    refused = 0
    for path in places(data):
        for value in strange:
            changed = json.loads(json.dumps({"all": data}))
            inside: Any = changed
            for key in ("all", *path)[:-1]:
                inside = inside[key]
            inside[("all", *path)[-1]] = value
            try:
                thaw(json.dumps(changed["all"]).encode(), Functions())
            except ev.StoreError as error:
                assert error.code in ("E_DAMAGED", "E_FORMAT")
                refused += 1
    assert refused > 500


def test_constants_come_back_as_they_were() -> None:
    db = ev.connect()
    values = [float("nan"), float("inf"), -0.0, 1e-320, 2**62, "ü\ud800", b"\x00\xff", Decimal("1.230"), True, None]
    values += [dt.date(2026, 1, 31), dt.datetime(2026, 1, 31, 12, 0, 0, 5), (1, "a", (2.5,))]
    exprs = tuple(expr.Literal(INT, v) for v in values)
    node = plan.Project(relation_of(db.table("t", {"x": int})).node, exprs)
    again = thaw(freeze(node, Functions()), Functions())
    assert again == node
    assert [repr(e.value) for e in again.exprs] == [repr(v) for v in values]  # type: ignore[attr-defined]


def test_checksums_are_right_in_what_was_changed() -> None:
    """Else the test above would test checksums."""
    data = records.encode({"a": 1}, [b"x", records.encode({}, [b"y"])])
    found = list(replaced_parts(data, b"hostile"))
    assert len(found) >= 5 and all(records.decode(each, "it") for each in found)


# directories of before


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """Two directories as commit 6676c30 wrote them, when catalogues were pickles. The embedded one's checkpoint left
    out what had been dropped, so that two of its views would have swapped their rows.
    """
    with tarfile.open(Path(__file__).with_name("written_by_6676c30.tar.gz")) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def check_old(db: ev.Session, xs: list[int]) -> None:
    assert sorted(x for x, _ in db["t"].rows()) == xs
    for name, k in (("b", 4), ("c", 3)):
        assert sorted(db[name].rows()) == sorted(Counter(int(math.fmod(x, k)) for x in xs).items())
    assert sorted(db["f"].rows()) == sorted((abs(x),) for x in xs)
    assert db.check() == []


@pytest.mark.parametrize("kind", ["embedded", "shards"])
def test_old_directories_are_refused_and_say_why(old: Path, kind: str) -> None:
    message = r"E_FORMAT.*older Everview(.|\n)*trust=True"
    for options in ({}, {"read_only": True}, {"functions": [abs]}):
        with pytest.raises(ev.StoreError, match=message):
            ev.connect(old / kind, **options)
    with pytest.raises(ev.StoreError, match=message):
        ev.connect(session(), state=str(old / kind))
    told = CliRunner().invoke(app, ["check", str(old / kind)])
    assert told.exit_code == 1 and "E_FORMAT" in told.output


def pickled(where: Path) -> bool:
    """Whether a catalogue, version or log has a plan that is a pickle."""
    files = [f for folder in ("log", "checkpoint", "wal") for f in (where / folder).glob("*")]
    return any(b"everview.plan.nodes" in f.read_bytes() for f in files)


def test_old_embedded_directories_are_written_anew(old: Path) -> None:
    where = old / "embedded"
    xs = sorted([*range(-2, 9), -50])
    assert pickled(where)
    with pytest.warns(UserWarning, match="computed again"), ev.connect(where, read_only=True, trust=True) as db:
        check_old(db, xs)
    with pytest.warns(UserWarning, match="computed again"), ev.connect(where, trust=True) as db:
        check_old(db, xs)
        assert sorted(x for x, _ in db["t"].as_of(1).rows()) == list(range(-3, 9))
    assert not pickled(where)
    with ev.connect(where, functions=[abs]) as db:
        check_old(db, xs)


def test_old_shards_are_written_anew(old: Path) -> None:
    where = old / "shards"
    with ev.connect(session(), state=str(where), trust=True) as db:
        check_old(db, list(range(-3, 9)))
    assert not pickled(where)
    with ev.connect(session(), state=str(where), functions=[abs]) as db:
        check_old(db, list(range(-3, 9)))
        db["t"].insert([(100, "more")])
    with ev.connect(where, functions=[abs]) as db:
        check_old(db, [*range(-3, 9), 100])


def test_old_shards_become_embedded(old: Path) -> None:
    with ev.connect(old / "shards", trust=True) as db:
        check_old(db, list(range(-3, 9)))
    assert not pickled(old / "shards")


def test_what_is_everviews_own_is_nobodys_code(tmp_path: Path, monkeypatch: Any) -> None:
    """Statistics, lists and ranges run in Python; a directory of SQL and Datalog alone needs no trust."""
    monkeypatch.setattr(trust, "_written", set())
    with ev.connect(tmp_path) as db:
        t = db.table("t", {"k": int, "x": float, "s": str})
        db.sql("CREATE VIEW a AS SELECT k, stddev(x) AS d, var_pop(x) AS v FROM t GROUP BY k")
        db.sql("CREATE VIEW b AS SELECT k, string_agg(s, ',') AS l, array_agg(x) AS m FROM t GROUP BY k")
        db.datalog("m(K, M) :- M = median(X), t(K, X, _). r(N) :- t(K, _, _), N = range(0, K).")
        t.insert([(2, 1.5, "a"), (2, 2.5, "b")])
        die(db)
    assert not trust._written
    with ev.connect(tmp_path) as db:
        assert sorted(db["r"].rows()) == [(0,), (1,)] and db["m"].rows() == [(2, 2.0)]
        assert db.check() == []


def test_shared_and_deep_expressions_are_written_once(tmp_path: Path) -> None:
    """An expression that doubles itself forty times has forty calls, not a million millions."""
    with ev.connect(tmp_path) as db:
        t = db.table("t", {"x": int})
        x = t.x
        for _ in range(40):
            x = x + x
        v = db.view("v", t.select(y=x))
        data = freeze(relation_of(v).node, Functions())
        assert len(data) < 20_000 and thaw(data, Functions()) == relation_of(v).node
        t.insert([(1,)])
        die(db)
    with ev.connect(tmp_path) as db:
        assert db["v"].rows() == [(2**40,)]
