"""A join below an aggregate has only the columns that the aggregate reads, by whatever plan it is built.

A view that is created after such a join has changed its plan may read the columns that it left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import everview as ev
from everview.expr.nodes import ColumnRef
from everview.optimiser.adaptive import Policy
from everview.optimiser.replanning import living_joins
from everview.plan import nodes as plan
from tests.inside import inside
from tests.optimiser.test_adaptive import Restless
from tests.optimiser.test_chosen import shop
from tests.optimiser.test_replanned import change, in_shards
from tests.store.durably import die

FROM = """FROM orders o JOIN customers c ON o.cust = c.id JOIN nations n ON c.nation = n.id
JOIN items i ON o.item = i.id
WHERE i.p < n.zone + 20"""
COUNTED = f"CREATE VIEW counted AS SELECT c.id, count(*) AS n {FROM} GROUP BY c.id"
LATER = (
    f"CREATE VIEW same AS SELECT c.id, sum(o.id) AS n {FROM} GROUP BY c.id",
    f"CREATE VIEW zones AS SELECT n.zone, max(i.p) AS n, count(DISTINCT o.id) AS d {FROM} GROUP BY n.zone",
    f"CREATE VIEW whole AS SELECT o.id, o.item, c.id AS cust, c.nation, n.zone, i.p {FROM}",
)
"""Views that read more columns of the same join."""


def assert_same(db: ev.Session, twin: ev.Session) -> None:
    assert db.views == twin.views
    for name in twin.views:
        assert Counter(db[name].rows()) == Counter(twin[name].rows()) != Counter(), name


def both(sessions: tuple[ev.Session, ...], text: str) -> None:
    for each in sessions:
        each.sql(text)


def joins(db: ev.Session, name: str) -> list[plan.Node]:
    view = db[name]
    assert isinstance(view, ev.View)
    return [living.node for living in living_joins(inside(db), view)]


def test_another_plan_does_not_carry_what_the_aggregate_does_not_read() -> None:
    with shop() as db:
        both((db,), COUNTED)
        (join,) = joins(db, "counted")
        assert len(join.types) == 1
        db["counted"].replan("binary")
        target = inside(db).runtime.builder.chosen[join]
        sides = [side for node in target.walk() if isinstance(node, plan.Join) for side in (node.left, node.right)]
        between = [side for side in sides if any(isinstance(node, plan.Join) for node in side.walk())]
        # the condition reads two columns, a join to come one or two, the aggregate one: never all eight
        assert between and all(len(side.types) <= 4 for side in between)


@pytest.mark.parametrize("place", [shop, in_shards])
@pytest.mark.parametrize("way", ["binary", "delta"])
def test_later_views_read_what_the_join_left_out(place: Callable[[], ev.Session], way: str) -> None:
    with place() as db, shop() as twin:
        both((db, twin), COUNTED)
        assert db["counted"].replan(way) == 1
        for step, text in enumerate(LATER):
            both((db, twin), text)
            assert_same(db, twin)
            for each in (db, twin):
                change(each, step)
            assert_same(db, twin)
        for step, name in enumerate(("zones", "counted", "whole", "same")):
            db[name].replan(("delta", "written", "wco", "binary")[step])
            for each in (db, twin):
                change(each, 10 + step)
            assert_same(db, twin)
        db["counted"].drop()
        twin["counted"].drop()
        for each in (db, twin):
            change(each, 20)
        assert_same(db, twin)
        assert db.check() == []


@pytest.mark.parametrize("ending", ["close", "die"])
def test_a_directory_with_a_narrow_plan_gets_later_views(tmp_path: Path, ending: str) -> None:
    with shop() as twin:
        with shop(tmp_path) as db:
            both((db, twin), COUNTED)
            db["counted"].replan("binary")
        for step, text in enumerate(LATER):
            db = ev.connect(str(tmp_path))
            assert len(inside(db).runtime.builder.chosen) == 1
            both((db, twin), text)
            for each in (db, twin):
                change(each, step)
            assert_same(db, twin)
            assert db.check() == []
            db.close() if ending == "close" else die(db)
        with ev.connect(str(tmp_path)) as db:
            assert_same(db, twin)


@pytest.mark.parametrize("place", [shop, in_shards])
def test_views_that_share_a_join_each_switch_at_every_epoch(place: Callable[[], ev.Session]) -> None:
    with place() as db, shop() as twin:
        both((db, twin), COUNTED)
        made = Restless(inside(db), Policy(every=0, trial=0))
        inside(db).attached["adaptive"] = made
        for step in range(6):
            if step % 2 == 0:
                both((db, twin), LATER[step // 2])
            for each in (db, twin):
                change(each, step)
            assert_same(db, twin)
        assert made.switches > 12 and db.check() == []


def test_a_plan_of_the_join_with_all_its_columns_can_still_be_replaced() -> None:
    """Directories of earlier versions have such plans: there, the join below an aggregate had all its columns."""
    with shop() as db, shop() as twin:
        both((db, twin), COUNTED)
        core = inside(db)
        (known,) = joins(db, "counted")
        (wide,) = known.children()
        core.definitions.plans.replan(wide, _mirrored(wide), "an earlier version")
        for step, way in enumerate(("delta", "wco", "written", "binary")):
            for each in (db, twin):
                change(each, step)
            assert_same(db, twin)
            for each in (db, twin):
                each["counted"].replan(way)
            assert_same(db, twin)
            assert db.stats()["operators"] == twin.stats()["operators"], way  # nothing of the earlier plan is left
        assert db.check() == []


def _mirrored(node: plan.Node) -> plan.Node:
    """The same join with its sides exchanged."""
    below: list[plan.Node] = [node]
    while not isinstance(below[-1], plan.Join):
        below.append(below[-1].children()[0])
    join = below.pop()
    assert isinstance(join, plan.Join)
    other = plan.Join(join.right, join.left, join.right_keys, join.left_keys)
    width, left = len(join.right.types), len(join.left.types)
    places = [*range(width, width + left), *range(width)]
    made: plan.Node = plan.Project(other, tuple(ColumnRef(other.types[i], i) for i in places))
    for above in reversed(below):
        assert isinstance(above, plan.Filter)
        made = plan.Filter(made, above.predicate)
    return made
