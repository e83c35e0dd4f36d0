"""Which loops are kept as trees: every one that is, gives what loops give; those that are not monotone never are."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

import everview as ev
from everview import col, fixpoint, when
from tests.graph.twins import Tables, Twins, kept_as, random_step

SCHEMAS: dict[str, dict[str, Any]] = {"edge": {"src": int, "dst": int, "w": int}, "start": {"node": int, "x": int}}


def loop(t: Tables, dice: random.Random) -> tuple[ev.Collection, bool]:
    """A random loop over (node, x), and whether it is of the form that trees keep."""
    e, start = t["edge"], t["start"]
    least = dice.random() < 0.6
    values: list[tuple[Any, bool]] = [
        (lambda x: x.x, True),
        (lambda x: x.x + e.w, least),
        (lambda x: e.w + x.x, least),
        (lambda x: x.x + 1, least),
        (lambda x: ev.greatest(x.x, e.w), least),
        (lambda x: ev.least(x.x, e.w), not least),
        (lambda x: x.x - e.w, False),
        (lambda x: x.x * 2, False),
        (lambda x: 5 - x.x, False),
        (lambda x: when(e.w > 1, x.x).otherwise(3), False),
        (lambda x: e.w, False),
        (lambda x: x.node, False),
    ]
    filters: list[tuple[Any, bool]] = [
        (lambda x: None, True),
        (lambda x: e.w != 2, True),
        (lambda x: (e.w > 0) & (e.src != 3), True),
        (lambda x: x.node != 2, True),
        (lambda x: x.x < 4, least),
        (lambda x: x.x >= 1, not least),
        (lambda x: x.x != 2, False),
        (lambda x: x.x > e.w, False),
    ]
    good = dice.random() < 0.5
    value, fits = dice.choice([v for v in values if v[1] or not good])
    condition, allowed = dice.choice([f for f in filters if f[1] or not good])
    monotone = fits and allowed
    backwards = dice.random() < 0.2
    near, far = (e.dst, e.src) if backwards else (e.src, e.dst)
    moved = not good and dice.random() < 0.1
    begins = dice.choice(("start", "start", "nothing", "nothing" if good else "elsewhere"))
    monotone = monotone and not moved and begins != "elsewhere"

    def body(x: ev.Collection) -> ev.Collection:
        joined = x.join(e, x.node == near)
        test = condition(x)
        joined = joined if test is None else joined.filter(test)
        on = joined.select(node=far + 1 if moved else far, x=value(x))
        groups = on.union_all(start).group_by("node")
        return groups.agg(x=col.x.min()) if least else groups.agg(x=col.x.max())

    if begins == "nothing":
        return fixpoint(body, SCHEMAS["start"]), monotone
    return (start if begins == "start" else e.select(node=e.dst, x=e.w)).iterate(body), monotone


def test_random_loops() -> None:
    """No loop is taken for monotone that is not. Those that are, and come to rest, give what loops give."""
    random_loops(range(60))


@pytest.mark.slow
@pytest.mark.long
def test_many_random_loops() -> None:
    random_loops(range(1000, 2000))


def random_loop(seed: int) -> tuple[bool, str]:
    """Whether a random loop is monotone, and how it is kept; if as trees, they are compared with the loop."""
    monotone: list[bool] = []

    def views(db: ev.Session, t: Tables) -> Mapping[str, ev.Collection]:
        found, is_monotone = loop(t, random.Random(seed))
        monotone.append(is_monotone)
        return {"found": found}

    twins = Twins(SCHEMAS, views)
    (how,) = kept_as(twins.views[0]["found"])
    if how == "trees":
        assert monotone[0], twins.views[0]["found"].explain()
        stir(twins, seed, 8)
    twins.close()
    return monotone[0], how


def random_loops(seeds: range) -> None:
    kept: Counter[tuple[bool, str]] = Counter()
    for seed in seeds:
        monotone, how = random_loop(seed)
        kept[monotone, how] += 1
    assert kept[False, "trees"] == 0 and kept[True, "trees"] > len(seeds) // 10 and kept[False, "rounds"] > 0
    assert kept[True, "rounds"] == 0, "what is of the form is recognised"


CASES: dict[str, tuple[str, str]] = {
    "reach": (
        "trees",
        "WITH RECURSIVE r(node) AS (SELECT node FROM start UNION SELECT dst FROM r JOIN edge ON r.node = edge.src) "
        "SELECT * FROM r",
    ),
    "closure": (
        "trees",
        "WITH RECURSIVE r(a, b) AS (SELECT src, dst FROM edge UNION "
        "SELECT r.a, e.dst FROM r, edge e WHERE e.src = r.b) SELECT * FROM r",
    ),
    "filtered": (
        "trees",
        "WITH RECURSIVE r(node) AS (SELECT node FROM start WHERE x > 1 UNION "
        "SELECT dst FROM r JOIN edge ON r.node = edge.src WHERE w < 3 AND dst <> 4) SELECT * FROM r",
    ),
    "least": (
        "trees",
        "WITH RECURSIVE r(node, cost) AS (SELECT node, min(cost) FROM (SELECT node, x AS cost FROM start UNION ALL "
        "SELECT dst, cost + w FROM r JOIN edge ON r.node = edge.src) AS s GROUP BY node) SELECT * FROM r",
    ),
    "both ways": (
        "trees",
        "WITH RECURSIVE r(node) AS (SELECT node FROM start UNION SELECT dst FROM r JOIN edge ON r.node = edge.src "
        "UNION SELECT src FROM r JOIN edge ON r.node = edge.dst) SELECT * FROM r",
    ),
    "two columns": (
        "rounds",
        "WITH RECURSIVE r(node, n) AS (SELECT node, 0 FROM start UNION "
        "SELECT dst, n + 1 FROM r JOIN edge ON r.node = edge.src WHERE n < 3) SELECT * FROM r",
    ),
    "with itself": (
        "trees",
        "WITH RECURSIVE r(a, b) AS (SELECT src, dst FROM edge UNION SELECT r.a, s.b FROM r, r AS s WHERE r.b = s.a) "
        "SELECT * FROM r",
    ),
    "with itself, weighted": (
        "trees",
        "WITH RECURSIVE r(a, b, x) AS (SELECT a, b, min(x) FROM (SELECT src AS a, dst AS b, w AS x FROM edge UNION ALL "
        "SELECT r.a, s.b, r.x + s.x FROM r, r AS s WHERE r.b = s.a) AS t GROUP BY a, b) SELECT * FROM r",
    ),
    "with itself, bounded": (  # a part of a path may pass where the whole does not
        "rounds",
        "WITH RECURSIVE r(a, b, x) AS (SELECT a, b, min(x) FROM (SELECT src AS a, dst AS b, w AS x FROM edge UNION ALL "
        "SELECT r.a, s.b, r.x + s.x FROM r, r AS s WHERE r.b = s.a AND r.x < 3) AS t GROUP BY a, b) SELECT * FROM r",
    ),
    "with itself, crossed": (  # the new end is the other's start
        "rounds",
        "WITH RECURSIVE r(a, b) AS (SELECT src, dst FROM edge UNION SELECT r.a, s.a FROM r, r AS s WHERE r.b = s.b) "
        "SELECT * FROM r",
    ),
    "OR": (
        "trees",
        "WITH RECURSIVE r(node) AS (SELECT node FROM start UNION "
        "SELECT CASE WHEN r.node = src THEN dst ELSE src END FROM r JOIN edge ON r.node = src OR r.node = dst) "
        "SELECT * FROM r",
    ),
    "IN": (
        "trees",
        "WITH RECURSIVE r(node) AS (SELECT node FROM start UNION "
        "SELECT dst FROM edge WHERE w < 3 AND src IN (SELECT node FROM r)) SELECT * FROM r",
    ),
    "a small relation": (
        "trees",
        "WITH RECURSIVE r(node) AS (SELECT node FROM start UNION SELECT e.dst FROM r JOIN edge e ON r.node = e.src "
        "JOIN start s ON s.node = e.dst AND s.x < e.w) SELECT * FROM r",
    ),
    "a small relation at the near end": (
        "trees",
        "WITH RECURSIVE r(node, v) AS (SELECT node, min(v) FROM (SELECT node, x AS v FROM start UNION ALL "
        "SELECT e.dst, r.v + s.x FROM r JOIN start s ON s.node = r.node JOIN edge e ON e.src = r.node) AS t "
        "GROUP BY node) SELECT * FROM r",
    ),
    "every pair": (
        "rounds",
        "WITH RECURSIVE r(node) AS (SELECT node FROM start UNION SELECT e.dst FROM r JOIN edge e ON r.node = e.src "
        "CROSS JOIN start s WHERE s.x > 1) SELECT * FROM r",
    ),
    "both ways, as a union": (
        "trees",
        "WITH RECURSIVE b(src, dst) AS (SELECT src, dst FROM edge UNION SELECT dst, src FROM edge), "
        "r(node, v) AS (SELECT node, min(v) FROM (SELECT src AS node, src AS v FROM b UNION ALL "
        "SELECT b.dst, r.v FROM r JOIN b ON r.node = b.src) AS t GROUP BY node) SELECT * FROM r",
    ),
    "counted": (
        "rounds",
        "WITH RECURSIVE (RETURN AT RECURSION LIMIT 2) r(node) AS (SELECT node FROM start UNION "
        "SELECT dst FROM r JOIN edge ON r.node = edge.src) SELECT * FROM r",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_recursion_in_sql(name: str) -> None:
    how, text = CASES[name]

    def views(db: ev.Session, t: Tables) -> Mapping[str, ev.Collection]:
        db.sql(f"CREATE VIEW asked AS {'/*+ plan(rounds) */' if db is not first[0] else ''} {text}")
        return {}

    first: list[ev.Session] = [ev.connect()]
    twins = Twins(SCHEMAS, views, first[0], ev.connect())
    twins.views = [{"asked": db["asked"]} for db in twins.dbs]
    assert kept_as(twins.views[0]["asked"]) == [how]
    assert kept_as(twins.views[1]["asked"]) == ["rounds"]
    stir(twins, 17, 25)
    twins.close()


def test_recursion_in_datalog() -> None:
    text = (
        "reach(X) :- start(X, _). reach(Y) :- reach(X), edge(X, Y, _). "
        "path(X, Y) :- edge(X, Y, _). path(X, Z) :- path(X, Y), edge(Y, Z, W), W < 3."
    )
    twins = Twins(SCHEMAS, lambda db, t: {})
    twins.views = []
    for db, plan in zip(twins.dbs, (None, "rounds"), strict=True):
        rules = db.datalog(text, plan=plan)  # type: ignore[arg-type]
        twins.views.append({name: rules[name] for name in ("reach", "path")})
    assert [kept_as(twins.views[0][name]) for name in ("reach", "path")] == [["trees"], ["trees"]]
    assert [kept_as(twins.views[1][name]) for name in ("reach", "path")] == [["rounds"], ["rounds"]]
    stir(twins, 3, 25)
    twins.close()


def stir(twins: Twins, seed: int, steps: int) -> None:
    dice = random.Random(seed)
    draw = {
        "edge": lambda: (dice.randrange(6), dice.randrange(6), dice.randrange(4)),
        "start": lambda: (dice.randrange(6), dice.randrange(4)),
    }
    for _ in range(steps):
        twins.step(random_step(twins, dice, draw, 10))


def test_paths_of_floats_after_paths_stay_rounds() -> None:
    """(a + b) + c is not a + (b + c): what a path costs would depend on where it was put together."""
    with ev.connect() as db:
        db.table("road", {"a": int, "b": int, "x": float})
        view = db.sql(
            "CREATE VIEW far AS WITH RECURSIVE r(a, b, x) AS (SELECT a, b, min(x) FROM ("
            "SELECT a, b, x FROM road UNION ALL "
            "SELECT r.a, s.b, r.x + s.x FROM r, r AS s WHERE r.b = s.a) AS t GROUP BY a, b) SELECT * FROM r"
        )
        assert kept_as(view) == ["rounds"]
