"""`db.memory()`: what is counted is what the process has, shares add up, and dropping frees what was said."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import everview as ev
from everview import col
from everview.cli import app
from everview.session.local_shards import local_shards

PROGRAM = """
import gc, json, sys
import numpy as np, everview as ev
from everview import col
from everview.dataflow.allocator import give_back, used_memory
from everview.session.local_shards import local_shards

kind, rows = sys.argv[1], int(sys.argv[2])

def build(db, n):
    t = db.table("t", {"k": int, "x": int, "s": str})
    edge = db.table("edge", {"src": int, "dst": int})
    db.view("v", t.group_by("k").agg(s=col.x.sum(), m=col.x.max()))
    db.view("w", t.filter(col.x % 3 == 0).select("s").distinct())
    start = edge.filter(col.src == 0).select(node=col.src).distinct()
    step = lambda r: r.join(edge, r.node == edge.src).select(node=edge.dst).union_all(start).distinct()
    how = {"provenance": kind} if kind in ("lazy", "bdd") else {"plan": "rounds" if kind == "rounds" else None}
    db.view("reach", start.iterate(step), **how)
    x = np.arange(n)
    texts = [f"text number {i % (n // 4)}" for i in range(n)]
    t.insert({"k": x % 1000, "x": x, "s": texts})
    t.delete({"k": x[::10] % 1000, "x": x[::10], "s": texts[::10]})
    edge.insert({"src": x // 2, "dst": x})

def resident():
    return 1024 * int(next(l for l in open("/proc/self/status") if l.startswith("VmRSS")).split()[1])

connect = (lambda: local_shards(3)) if kind == "shards" else ev.connect
with connect() as db:
    build(db, 1000)
gc.collect(); give_back()
before = used_memory(), resident(), 0
db = connect()
build(db, rows)
gc.collect(); give_back()
found = db.memory()
print(json.dumps({"total": found["total"], "used": used_memory() - before[0], "resident": resident() - before[1]}))
"""


@pytest.mark.parametrize("kind", ["trees", "rounds", "shards", "lazy", "bdd"])
def test_the_sum_is_what_the_process_has(kind: str) -> None:
    rows = "70000" if kind in ("lazy", "bdd") else "300000"  # the last of them has just doubled the room for nodes
    command = [sys.executable, "-c", PROGRAM, kind, rows]
    told = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    if kind in ("rounds", "shards"):  # large blocks of trees and nodes are mapped: the allocator knows nothing of them
        assert told["total"] == pytest.approx(told["used"], rel=0.1), told
    if kind != "shards":  # their threads have heaps of their own, which are not given back
        assert told["total"] == pytest.approx(told["resident"], rel=0.1), told


def filled(db: ev.Session) -> None:
    t = db.table("t", {"k": int, "x": int, "s": str})
    db.view("v", t.group_by("k").agg(s=col.x.sum()))
    db.view("w", t.filter(col.x % 3 == 0).select("s").distinct())
    db.view("w2", db["w"].filter(col.s != "1"))
    t.insert([(i % 100, i, str(i % 500)) for i in range(5000)])


def held(found: Any) -> int:
    return sum(a["bytes"] for a in found["arrangements"])


@pytest.mark.parametrize("connect", [ev.connect, lambda: local_shards(2)], ids=["embedded", "shards"])
def test_shares_and_what_would_be_freed(connect: Any) -> None:
    with connect() as db:
        filled(db)
        while len(db.views):
            before = db.memory()
            assert sum(h["share"] for h in before["holders"]) == pytest.approx(held(before), abs=len(before["holders"]))
            holder = next(h for h in before["holders"] if h["kind"] == "view")
            db[holder["name"]].drop()
            assert held(before) - held(db.memory()) == holder["freed"], holder
        assert [h["name"] for h in db.memory()["holders"]] == ["t"]


def test_who_reads_what() -> None:
    with ev.connect() as db:
        filled(db)
        found = db.memory()
        table = next(a for a in found["arrangements"] if a["name"] == "arrange t")
        assert table["for"] == ["t", "v", "w", "w2"]
        assert {h["name"] for h in found["holders"]} == {"t", "v", "w", "w2"}
        assert found["dictionary"] > 500 * 8 and found["total"] >= held(found) + found["dictionary"]
        assert found["resident"] > found["total"] and found["peak"] >= found["resident"] - (1 << 20)
        text = str(found)
        assert "freed if dropped" in text and "arrange t" in text
        assert found._repr_html_().count("<table") == 2


@pytest.mark.parametrize("connect", [ev.connect, lambda: local_shards(2)], ids=["embedded", "shards"])
def test_what_the_last_step_needed(connect: Any) -> None:
    """A join of many pairs that are counted and thrown away needs them for a while; a small change needs little."""
    with connect() as db:
        t = db.table("t", {"k": int, "x": int})
        u = t.rename(k="k", y="x")
        db.view("pairs", t.join(u, on="k").group_by(p=(ev.col.x * 7919 + ev.col.y) % 200_000).agg(n=ev.count()))
        t.insert({"k": [i % 5 for i in range(1500)], "x": list(range(1500))})
        large = db.memory()["step"]
        t.insert([(99, 1)])
        small = db.memory()["step"]
        assert small * 20 < large, (small, large)
        assert 1_000_000 < large < 500_000_000
        assert "the last step needed" in str(db.memory())


def test_history_is_what_only_earlier_times_need() -> None:
    sizes = {}
    for history in (1000, 0):
        with ev.connect(history=history) as db:
            t = db.table("t", {"x": int})
            t.insert([(i,) for i in range(2000)])
            t.delete([(i,) for i in range(1000)])
            found = db.memory()
            sizes[history] = found["history"], held(found)
    assert sizes[0][0] == 0
    assert sizes[1000][0] == pytest.approx(sizes[1000][1] - sizes[0][1], rel=0.5) and sizes[1000][0] > 0


def test_two_sessions_of_a_process() -> None:
    with ev.connect() as one, ev.connect() as two:
        filled(one)
        before = one.memory()
        two.table("t", {"x": int}).insert({"x": range(500_000)})
        after = one.memory()
        assert held(after) == held(before) and held(two.memory()) > 4_000_000
        assert after["working"] - before["working"] < 500_000, "what another holds is not scratch space"


def test_on_stored_shards(tmp_path: Path) -> None:
    from tests.spark import inprocess

    with ev.connect(inprocess.session(), state=str(tmp_path), shards=2) as db:
        filled(db)
        db["v"].rows()
        found = db.memory()
        assert found["elsewhere"] == held(found) > 0 and found["copies"] > 0


def test_top(tmp_path: Path) -> None:
    with ev.connect(tmp_path) as db:
        filled(db)
        done = CliRunner(env={"COLUMNS": "160"}).invoke(app, ["top", str(tmp_path)])
        assert done.exit_code == 0, done.output
        assert "freed if dropped" in done.output and "arrange t" in done.output and "w2" in done.output
        db["t"].insert([(1, 1, "1")])
