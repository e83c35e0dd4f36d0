"""A writer with live questions is killed, wherever it is: what the directory says is what loops say, and goes on."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import everview as ev
from everview.graph import Graph
from tests.inside import inside

SCHEMAS: dict[str, dict[str, Any]] = {
    "edge": {"src": int, "dst": int, "w": int},
    "source": {"node": int},
    "pair": {"a": int, "b": int},
}
BUDGET = 60_000


def questions(tables: Mapping[str, ev.Table], **how: Any) -> dict[str, tuple[ev.Collection, str | None]]:
    """Each form there is, and how its view is planned: trees, histories (some within a budget), pairs,
    strong components."""
    edge, source, pair = (tables[name] for name in SCHEMAS)
    g, lean = Graph(edge, weight="w"), Graph(edge, weight="w", memory="lean")
    tight = Graph(edge, weight="w", budget=BUDGET)
    return {
        "trees_cost": (g.sssp(source), None),
        "trees_part": (g.wcc(), None),
        "trees_wide": (g.widest(source), None),
        "lean_cost": (lean.sssp(source), None),
        "lean_rank": (Graph(edge, memory="lean").pagerank(3), None),
        "halves": (g.distance(pair), None),
        "strong": (g.scc(), None),
        "strong_edges": (g.scc_edges(), None),
        "tight": (tight.distance(pair), "whole"),
    }


def opened(path: Path | str) -> tuple[ev.Session, dict[str, ev.Table]]:
    """The directory's session; tables and views are made if it is new."""
    db = ev.connect(path)
    tables = {name: db.table(name, schema) for name, schema in SCHEMAS.items()}
    for name, (collection, plan) in questions(tables).items():
        db.view(name, collection, plan=plan)  # type: ignore[arg-type]
    return db, tables


def write(path: str, seed: int) -> None:
    """Change things until killed: edges, sources and pairs come and go, with a checkpoint now and then."""
    db, tables = opened(path)
    dice = random.Random(seed)
    held = {name: list(table.rows()) for name, table in tables.items()}
    draw = {
        "edge": lambda: (dice.randrange(40), dice.randrange(40), dice.randrange(4)),
        "source": lambda: (dice.randrange(40),),
        "pair": lambda: (dice.randrange(40), dice.randrange(40)),
    }
    most = {"edge": 120, "source": 3, "pair": 12}
    print("ready", flush=True)
    for number in range(10**9):
        with db.batch():
            for _ in range(dice.choice((1, 1, 3))):
                with db.transaction():
                    for _ in range(dice.randint(1, 5)):
                        name = dice.choices(list(SCHEMAS), (8, 1, 1))[0]
                        if len(held[name]) > most[name] * dice.random():
                            tables[name].delete([held[name].pop(dice.randrange(len(held[name])))])
                        else:
                            held[name].append(draw[name]())
                            tables[name].insert([held[name][-1]])
        if number % 9 == 4:
            db.checkpoint()


def agrees(db: ev.Session, tables: dict[str, ev.Table]) -> None:
    """All views say what ordinary loops over the same tables say."""
    plain = ev.connect()
    copies = {name: plain.table(name, schema) for name, schema in SCHEMAS.items()}
    for name, table in copies.items():
        table.insert(list(tables[name].rows()))
    for name, (collection, _) in questions(copies).items():
        view = plain.view(name, collection, plan="rounds")
        assert sorted(db[name].rows()) == sorted(view.rows()), name
    plain.close()


def lives(path: Path, count: int, seed: int, longest: float) -> int:
    """So many lives that end by SIGKILL, each after a while, and a look at what they left; transactions in all."""
    dice = random.Random(seed)
    time_reached = 0
    for life in range(count):
        run = [
            sys.executable,
            "-c",
            f"from tests.graph import test_killed_questions as t; t.write({str(path)!r}, {seed + life})",
        ]
        with subprocess.Popen(run, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]) as writer:
            assert writer.stdout is not None and writer.stdout.readline() == "ready\n"
            time.sleep(dice.random() * longest)
            writer.kill()
        db, tables = opened(path)
        kinds = {o.kind for o in inside(db).runtime.dataflow.operators()}
        assert {"trees", "histories", "halves", "components"} <= kinds
        assert db.check() == [] and db.time >= time_reached
        agrees(db, tables)
        tables["edge"].insert([(0, 50 + life, 1), (50 + life, 1, 0)])  # forms that were not written are grown
        tables["source"].insert([(0,)])
        assert db.check() == []
        agrees(db, tables)
        assert all(b.used <= b.limit for b in db.memory()["budgets"] if b.limit)
        tables["source"].delete([(0,)])
        tables["edge"].delete([(0, 50 + life, 1), (50 + life, 1, 0)])
        time_reached = db.time
        db.close()
    return time_reached


def test_a_writer_is_killed_with_every_form(tmp_path: Path) -> None:
    assert lives(tmp_path / "d", 2, 1, 0.4) > 0


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 900, 100))
def test_writers_are_killed_many_times(tmp_path: Path, seed: int) -> None:
    lives(tmp_path / "d", 12, seed, 1.0)
