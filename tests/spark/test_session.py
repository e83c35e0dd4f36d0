"""Sessions on Spark: the same answers as embedded, whatever happens to tasks, drivers and directories."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import everview as ev
from everview import col, lit
from everview.expr.language import count, udf
from everview.runtime.sharded import ShardedRuntime
from tests.inside import inside
from tests.spark import inprocess

pytestmark = pytest.mark.spark


def program(db: Any) -> dict[str, Any]:
    """Tables and views of every kind: loops, cyclic joins outside and in one, totals, extremes, strings, a function in
    Python.
    """
    edge = db.table("edge", {"src": int, "dst": int, "kind": str})
    root = db.table("root", {"node": int})
    start = root.select(node=root.node)

    def reach(v: Any) -> Any:
        return v.join(edge, v.node == edge.src).select(node=edge.dst).union_all(start).distinct()

    def labels(v: Any) -> Any:
        both = edge.select(a=edge.src, b=edge.dst).union_all(edge.select(a=edge.dst, b=edge.src))
        heard = v.join(both, v.node == both.a).select(node=both.b, label=v.label)
        nodes = both.select(node=both.a, label=both.a)
        return heard.union_all(nodes).group_by("node").agg(label=col.label.min())

    nodes = edge.select(node=edge.src, label=edge.src).distinct()
    double = udf(lambda x: 2 * x, returns=int)
    db.view("reach", start.iterate(reach))
    db.view("wcc", nodes.iterate(labels))
    db.view("kinds", edge.group_by("kind").agg(n=count(), far=col.dst.max()))
    db.view("all", edge.group_by().agg(n=count(), least=col.src.min()))
    db.view("doubled", edge.select(x=double(edge.src), k=edge.kind.upper()))
    db.view("pairs", edge.select(a=edge.src).distinct().join(root, how="cross"))
    db.datalog("""
        triangle(A, B, C) :- edge(A, B, _), edge(B, C, _), edge(C, A, _).
        tied(A) :- root(A).
        tied(C) :- tied(A), edge(A, B, _), edge(B, C, _), edge(A, C, _).
    """)
    assert "cells of a grid" in db["triangle"].explain() or not isinstance(inside(db).runtime, ShardedRuntime)
    return {"edge": edge, "root": root}


def feed(db: Any, tables: dict[str, Any], seed: int, steps: int) -> None:
    """Random transactions, several per step now and then; deletes of what is there."""
    draw = random.Random(seed)
    have = [tuple(row) for row in sorted(tables["edge"].rows())]

    def one() -> None:
        with db.transaction():
            new = [(draw.randrange(30), draw.randrange(30), draw.choice("abc")) for _ in range(draw.randrange(1, 6))]
            tables["edge"].insert(new)
            have.extend(new)
            if len(have) > 20:
                old = [have.pop(draw.randrange(len(have))) for _ in range(draw.randrange(6))]
                tables["edge"].delete(old)
            if draw.random() < 0.3:
                tables["root"].insert([(draw.randrange(30),)])

    for _ in range(steps):
        if draw.random() < 0.3:
            with db.batch():
                one()
                one()
        else:
            one()


def contents(db: Any) -> dict[str, Counter[Any]]:
    return {name: Counter(db[name].rows()) for name in (*db.tables, *db.views)}


def embedded(*feeds: tuple[int, int]) -> dict[str, Counter[Any]]:
    with ev.connect() as db:
        tables = program(db)
        for seed, steps in feeds:
            feed(db, tables, seed, steps)
        return contents(db)


@pytest.mark.parametrize("alone_rows", [None, 0], ids=["one task", "a gang"])
def test_the_same_answers_as_embedded(spark: Any, tmp_path: Path, alone_rows: int | None) -> None:
    with ev.connect(spark, state=str(tmp_path), shards=3, alone_rows=alone_rows) as db:
        feed(db, program(db), 1, 8)
        assert contents(db) == embedded((1, 8))
        late = db.view("late", db["edge"].filter(col.src > 3).group_by("dst").agg(n=count()))
        expected = Counter(d for s, d, _ in db["edge"].rows() if s > 3)
        assert dict(late.rows()) == expected


def test_reopened_with_other_shards_and_read_from_elsewhere(spark: Any, tmp_path: Path) -> None:
    with ev.connect(spark, state=str(tmp_path), shards=2) as db:
        feed(db, program(db), 2, 5)
        with pytest.raises(ev.EverviewError) as refused:
            ev.connect(spark, state=str(tmp_path))
        assert refused.value.code == "E_LOCKED"
    with ev.connect(str(tmp_path), read_only=True) as reader:
        assert contents(reader) == embedded((2, 5))
        with ev.connect(spark, state=str(tmp_path), shards=5) as db:
            feed(db, program(db), 3, 5)
            assert contents(db) == embedded((2, 5), (3, 5))
            reader.refresh()
            assert contents(reader) == embedded((2, 5), (3, 5))


def test_functions_of_modules_that_workers_do_not_have(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_helper.py").write_text("def more(x):\n    return x + 1\n")
    (tmp_path / "own_rules.py").write_text("import own_helper\ndef rule(x):\n    return 2 * own_helper.more(x)\n")
    monkeypatch.syspath_prepend(tmp_path)
    from own_rules import rule  # type: ignore[import-not-found]

    state = str(tmp_path / "state")
    for time in (1, 2):  # the second time it is opened again and declared again
        with ev.connect(spark, state=state, shards=2) as db:
            t = db.table("t", {"x": int})
            v = db.view("v", t.select(y=udf(rule, returns=int)(t.x)))
            t.insert([(time,)])
            assert sorted(v.rows()) == [(4,), (6,)][:time]


def test_strings_that_one_task_makes_reach_the_others(spark: Any, tmp_path: Path) -> None:
    """In the step that makes them, and later: functions that read what functions on other shards have written."""

    def spell(x: int) -> str:
        return f"number {x}"

    with ev.connect(spark, state=str(tmp_path), shards=4, alone_rows=0) as db:
        t = db.table("t", {"x": int})
        spelled = t.select(s=udf(spell, returns=str)(t.x)).distinct()  # goes to the shard of the string
        db.view("again", spelled.select(n=udf(lambda s: int(s.split()[1]), returns=int)(spelled.s)))
        db.view("least", spelled.select(k=lit(0), s=spelled.s).group_by("k").agg(s=col.s.min()))
        for start in (0, 50):
            t.insert([(x,) for x in range(start, start + 50)])
            assert sorted(db["again"].rows()) == [(x,) for x in range(start + 50)]
        inside(db).runtime.cluster.placing.alone_rows = 1 << 40
        for x in (77, 0, 1):
            t.delete([(x,)])
        assert sorted(db["again"].rows()) == [(x,) for x in range(2, 100) if x != 77]
        assert db["least"].rows() == [(0, "number 10")]


def dies(fuse: Path, times: int) -> Any:
    """A function that ends its process so often, at 13."""
    fuse.write_text("x" * times)

    def function(x: int) -> int:
        left = fuse.read_text()
        if x == 13 and left:
            fuse.write_text(left[1:])
            os.kill(os.getpid(), signal.SIGKILL)
        return x + 1

    return udf(function, returns=int)


@pytest.mark.parametrize("alone_rows", [None, 0], ids=["one task", "a gang"])
def test_a_worker_that_dies_in_the_middle_of_a_step(spark: Any, tmp_path: Path, alone_rows: int | None) -> None:
    """In local mode Spark does not try again: the driver does, but not for ever."""
    with ev.connect(spark, state=str(tmp_path / "state"), shards=2, alone_rows=alone_rows) as db:
        t = db.table("t", {"x": int})
        v = db.view("v", t.select(y=dies(tmp_path / "fuse", 1)(t.x)))
        t.insert([(1,), (2,)])
        t.insert([(13,)])
        assert sorted(v.rows()) == [(2,), (3,), (14,)]
        if alone_rows is None:
            (tmp_path / "fuse").write_text("x" * 4)
            with pytest.raises(ev.EverviewError, match=r"E_JOB\] .*Python worker exited"):
                t.insert([(13,)])
            assert sorted(v.rows()) == [(2,), (3,), (14,)]
            t.insert([(13,)])
            assert sorted(v.rows()) == [(2,), (3,), (14,), (14,)]


DRIVER = """
import sys
sys.path.insert(0, sys.argv[2])
import everview as ev
from tests.spark import inprocess
db = ev.connect(inprocess.session(), state=sys.argv[1], shards=2)
t = db.table("t", {"x": int, "y": int})
v = db.view("v", t.group_by("x").agg(s=t.y.sum()))
print("ready", flush=True)
for i in range(db.time, 10**6):
    t.insert([(i % 5, i)])
    print(i, flush=True)
"""


def test_drivers_killed_at_any_moment(tmp_path: Path) -> None:
    """The directory holds exactly what was acknowledged, or one step more that was under way."""
    draw = random.Random(7)
    told = -1
    for _ in range(4):
        command = [sys.executable, "-c", textwrap.dedent(DRIVER), str(tmp_path), str(Path(__file__).parents[2])]
        driver = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert driver.stdout is not None and driver.stdout.readline() == "ready\n"
        for _ in range(draw.randrange(1, 40)):
            told = int(driver.stdout.readline())
        driver.kill()
        rest = driver.stdout.read().split()
        told = int(rest[-1]) if rest else told
        driver.wait()
    with ev.connect(inprocess.session(), state=str(tmp_path)) as db:
        count_of = db.time
        assert told + 1 <= count_of <= told + 2
        expected: Counter[int] = Counter()
        for i in range(count_of):
            expected[i % 5] += i
        assert dict(db["v"].rows()) == expected
        assert sorted(db["t"].rows()) == sorted((i % 5, i) for i in range(count_of))
