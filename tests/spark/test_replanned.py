"""Another plan for an existing view on Spark: a command like any other, and the directory has it.

Everything runs on shards whose tasks run in this process, with many seeds; and some of it on Spark itself.
"""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import everview as ev
from everview.language.relation import relation_of
from tests.datalog.test_multiway import with_tables
from tests.inside import inside
from tests.optimiser.test_adaptive import datalog_switches, random_plans_that_switch, restless, tpch_switches
from tests.optimiser.test_chosen import TABLES, shop
from tests.optimiser.test_replanned import (
    EVERYWHERE,
    as_before_or_after,
    change,
    joins_replanned,
    killed_at,
    said,
    views,
)
from tests.oracle.harness import Runtime
from tests.spark.clusters import ROOT
from tests.spark.dying import SHORT_LIVED, run_program
from tests.spark.inprocess import session
from tests.sql import test_tpch as tpch


def _agree(place: Any, where: Path, steps: int) -> None:
    with shop() as twin:
        with ev.connect(place(), state=str(where), shards=2) as db:
            with db.transaction():
                for name, columns in TABLES.items():
                    db.table(name, dict.fromkeys(columns, int)).insert(twin[name].rows())
            others, mine = views(twin), views(db)
            for step, plan in enumerate(("delta", "best", "wco", "written", "delta")[:steps]):
                for view in (mine[0], mine[2]):
                    view.replan(plan)
                for each in (db, twin):
                    change(each, step)
                for one, other in zip(mine, others, strict=True):
                    assert Counter(one.rows()) == Counter(other.rows()), (plan, one)
                    assert said(one, 1) == said(other, 1)
            chosen = dict(inside(db).runtime.builder.chosen)
        with ev.connect(str(where), read_only=True) as reader:
            for other in others:
                assert Counter(reader[relation_of(other).label].rows()) == Counter(other.rows())
        with ev.connect(place(), state=str(where)) as db:
            assert inside(db).runtime.builder.chosen == chosen != {}
            for each in (db, twin):
                change(each, 77)
            for other in others:
                assert Counter(db[relation_of(other).label].rows()) == Counter(other.rows())
            db["rows"].replan("written")
            for each in (db, twin):
                change(each, 78)
            for other in others:
                assert Counter(db[relation_of(other).label].rows()) == Counter(other.rows())


def test_a_plan_for_every_epoch(tmp_path: Path) -> None:
    _agree(lambda: session(workers=2), tmp_path, 5)


@pytest.mark.spark
@pytest.mark.slow
def test_on_spark_itself(spark: Any, tmp_path: Path) -> None:
    _agree(lambda: spark, tmp_path, 1)


def test_a_switch_at_every_epoch(tmp_path: Path) -> None:
    with shop() as twin, ev.connect(session(workers=2), state=str(tmp_path), shards=2) as db:
        with db.transaction():
            for name, columns in TABLES.items():
                db.table(name, dict.fromkeys(columns, int)).insert(twin[name].rows())
        others, mine = views(twin), views(db)
        made = restless(db)
        for step in range(4):
            for each in (db, twin):
                change(each, step)
            for one, other in zip(mine, others, strict=True):
                assert Counter(one.rows()) == Counter(other.rows()), one
        assert made.switches >= 6


SEEDS = [3, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(200, 220))]


@pytest.mark.parametrize("seed", SEEDS)
def test_datalog_whose_joins_switch_at_every_epoch(tmp_path: Path, seed: int) -> None:
    with ev.connect(session(workers=2), state=str(tmp_path), shards=3) as db:
        assert datalog_switches(db, seed) > 5


@pytest.mark.parametrize("seed", SEEDS)
def test_random_joins_that_change_their_plan_at_every_epoch(tmp_path: Path, seed: int) -> None:
    with ev.connect(session(workers=2), state=str(tmp_path), shards=2) as db:
        joins_replanned(with_tables(db), seed)


@pytest.mark.slow
def test_random_plans_whose_joins_switch_at_every_epoch(tmp_path: Path) -> None:
    numbers = count()

    def connect(**options: Any) -> ev.Session:
        db = ev.connect(session(workers=2), state=str(tmp_path / str(next(numbers))), shards=2, **options)
        restless(db)
        return db

    random_plans_that_switch(Runtime("restless on Spark", connect, share=0.3))


@pytest.mark.slow
def test_tpch_whose_joins_switch_at_every_epoch(tmp_path: Path) -> None:
    with ev.connect(session(workers=2), state=str(tmp_path / "state"), shards=2) as db:
        assert tpch_switches(db, tpch._generated(tmp_path)) > 20


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_switches_on_spark_itself(spark: Any, tmp_path: Path) -> None:
    with ev.connect(spark, state=str(tmp_path / "rules"), shards=2) as db:
        assert datalog_switches(db, 5, steps=2) > 2
    for seed in (0, 7):
        with ev.connect(spark, state=str(tmp_path / str(seed)), shards=2) as db:
            joins_replanned(with_tables(db), seed, steps=3)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_tpch_on_spark_itself(spark: Any, tmp_path: Path) -> None:
    with ev.connect(spark, state=str(tmp_path / "state"), shards=2) as db:
        assert tpch_switches(db, tpch._generated(tmp_path), pieces=1) > 20


def _prepared(place: Any, where: Path) -> tuple[dict[str, Counter[Any]], list[Any]]:
    """A directory with views to be replanned: their rows, and the changes of one."""
    with shop() as twin, ev.connect(place, state=str(where), shards=2) as db:
        with db.transaction():
            for name, columns in TABLES.items():
                db.table(name, dict.fromkeys(columns, int)).insert(twin[name].rows())
        return {relation_of(view).label: Counter(view.rows()) for view in views(db)}, said(db["rows"], 1)


STORED = [f"{when} {what}" for what in ("Definitions.free_unused", "Catalog.note") for when in ("before", "after")]
"""A swap is stored with the superstep that does it; the driver tidies up and notes it in memory afterwards."""


@pytest.mark.parametrize("where", EVERYWHERE)
def test_killed_in_the_middle_of_a_swap(tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected, changed = _prepared(session(workers=2), tmp_path)
    killed_at(where, lambda: ev.connect(session(workers=2), state=str(tmp_path)), monkeypatch)
    with ev.connect(session(workers=2), state=str(tmp_path)) as db:
        as_before_or_after(db, expected, changed, where in STORED)


PROGRAM = """
import json, sys
import pytest
import everview as ev
from everview.spark import local_session
from tests.optimiser.test_replanned import STATIONS

where, station, settings = sys.argv[1:]
db = ev.connect(local_session("local[2]", **json.loads(settings)), state=where)
STATIONS[station](pytest.MonkeyPatch())
db["rows"].replan("delta")
"""


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("where", STORED[2:])
def test_drivers_killed_in_a_swap_on_spark_itself(spark: Any, tmp_path: Path, where: str) -> None:
    expected, changed = _prepared(spark, tmp_path)
    env = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    done = run_program(PROGRAM, [str(tmp_path), where, json.dumps(SHORT_LIVED)], env, tmp_path, 600)
    assert done.returncode == -signal.SIGKILL, done.stderr[-3000:]
    with ev.connect(spark, state=str(tmp_path)) as db:
        as_before_or_after(db, expected, changed, where in STORED)
