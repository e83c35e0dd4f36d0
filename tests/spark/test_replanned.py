"""Another plan for an existing view on Spark: a command like any other, and the directory has it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import everview as ev
from everview.language.relation import relation_of
from tests.inside import inside
from tests.optimiser.test_adaptive import restless
from tests.optimiser.test_chosen import TABLES, shop
from tests.optimiser.test_replanned import change, said, views
from tests.spark.inprocess import session


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
