"""Plans that share, plans that are deep, and long lists: what they cost follows their size.

A plan walked as a tree takes exponential time where it shares, and more than Python's stack where it is deep. None of
these tests would end, or end well, if one walk were written that way; the sizes are in their names.
"""

from __future__ import annotations

import functools
import operator

import pytest

import everview as ev
from everview import col
from everview.dataflow.extend import levels
from everview.plan import nodes as plan
from everview.types import INT


@pytest.fixture
def db():
    with ev.connect() as session:
        yield session


def numbers(db: ev.Session, *values: int) -> ev.Table:
    table = db.table("t", {"x": int})
    table.insert([(v,) for v in values])
    return table


def stacked(start, step, times: int):
    c = start
    for i in range(times):
        c = step(c, i)
    return c


# sharing


def test_50_self_unions_count_rows_2_to_the_50_times(db):
    t = numbers(db, 7)
    c = stacked(t, lambda c, i: c.union_all(c), 50)
    view = db.view("v", c.agg(n=ev.count()))
    assert view.rows() == [(2**50,)]
    t.delete([(7,)])
    assert view.rows() == []


def test_80_self_unions_are_refused(db):
    c = stacked(numbers(db, 7), lambda c, i: c.union_all(c), 80)
    with pytest.raises(ev.PlanError) as error:
        db.view("v", c)
    assert error.value.code == "E_OVERFLOW"
    assert db.view("w", db["t"].distinct()).rows() == [(7,)]


def test_a_collection_less_itself_is_empty_40_times_over(db):
    t = numbers(db, 1, 2)
    c = stacked(t, lambda c, i: c.union_all(c.negate()) if i % 2 == 0 else c.union_all(t), 41)
    view = db.view("v", c)
    t.insert([(3,)])
    assert view.rows() == []


def test_30_unions_of_filters_of_themselves(db):
    t = numbers(db, 3, 100)
    view = db.view("v", stacked(t, lambda c, i: c.union_all(c.filter(col.x != i)), 30).group_by("x").agg(n=ev.count()))
    assert sorted(view.rows()) == [(3, 2**29), (100, 2**30)]


def test_30_distincts_of_unions_with_themselves(db):
    t = numbers(db, 3)
    view = db.view("v", stacked(t, lambda c, i: c.union_all(c.select(x=col.x + 0)).distinct(), 30))
    assert view.rows() == [(3,)]


def test_10_joins_of_a_collection_with_itself(db):
    t = numbers(db, 3, 4)
    view = db.view("v", stacked(t, lambda c, i: c.join(c.alias("d"), "x"), 10))
    t.insert([(5,)])
    assert sorted(view.rows()) == [(3,), (4,), (5,)]


def test_an_expression_that_holds_itself_twice_40_times(db):
    e = stacked(col.x, lambda e, i: e + e, 40)
    assert db.view("v", numbers(db, 1).select(y=e)).rows() == [(2**40,)]


# depth


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (lambda c, i, t: c.filter(col.x != i), [(9000,)]),
        (lambda c, i, t: c.union_all(t), None),
        (lambda c, i, t: c.union_all(t.filter(col.x == -i)), [(1,), (9000,)]),
    ],
    ids=["filters", "unions", "unions_of_filters"],
)
@pytest.mark.parametrize("times", [1500, pytest.param(5000, marks=pytest.mark.slow)])
def test_1500_and_5000_stacked(db, step, expected, times):
    expected = expected or [(1,)] * (times + 1) + [(9000,)] * (times + 1)
    t = numbers(db, 1)
    first = db.view("first", stacked(t, lambda c, i: step(c, i, t), times))
    t.insert([(9000,)])
    assert sorted(first.rows()) == expected
    again = db.view("again", stacked(t, lambda c, i: step(c, i, t), times).filter(col.x > 1))  # equal, not the same
    assert sorted(again.rows()) == [row for row in expected if row[0] > 1]


def test_1200_stacked_projections_and_a_second_view_of_them(db):
    t = numbers(db, 1)
    c = stacked(t, lambda c, i: c.select(x=col.x + 1), 1200)
    assert db.view("v", c).rows() == [(1201,)]
    t.insert([(5,)])
    assert sorted(db.view("w", c.filter(col.x > 1201)).rows()) == [(1205,)]


def test_an_expression_5000_deep_is_refused(db):
    t = numbers(db, 1)
    for deep in (stacked(col.x, lambda e, i: e + 1, 5000), stacked(col.x, lambda e, i: -e, 300)):
        with pytest.raises(ev.PlanError) as error:
            t.select(y=deep)
        assert error.value.code == "E_DEPTH"


@pytest.mark.parametrize("join", [operator.and_, operator.or_])
def test_1200_conditions_in_one(db, join):
    t = numbers(db, 5, 3000)
    tests = [(col.x != i) if join is operator.and_ else (col.x == i) for i in range(1200)]
    assert db.view("v", t.filter(functools.reduce(join, tests))).rows() == [(3000 if join is operator.and_ else 5,)]


def test_1200_conditions_in_sql(db):
    numbers(db, 5, 3000)
    assert db.sql("SELECT x FROM t WHERE " + " OR ".join(f"x = {i}" for i in range(1200))).rows() == [(5,)]
    assert db.sql("SELECT x FROM t WHERE " + " AND ".join(f"x <> {i}" for i in range(1200))).rows() == [(3000,)]


def test_brackets_too_deep_for_the_parser_are_refused(db):
    for text in ("SELECT " + "(" * 20_000 + "1" + ")" * 20_000, "SELECT " + "- " * 20_000 + "1"):
        with pytest.raises(ev.EverviewError) as error:
            db.sql(text)
        assert error.value.code == "E_DEPTH"
    assert db.sql("SELECT 1").rows() == [(1,)]


# long lists


def test_500_constants_in_a_list(db):
    t = db.table("t", {"x": int | None, "s": str})
    t.insert([(i, str(i)) for i in range(10)] + [(None, "n"), (3, "3")])
    db.table("u", {"x": int}).insert([(2,), (20,)])
    even = ", ".join(str(i) for i in range(-10, 1000, 2))
    texts = ", ".join(f"'{i}'" for i in range(5, 505))

    def rows(condition: str) -> list[object]:
        return sorted(r[0] for r in db.sql(f"SELECT s FROM t WHERE {condition}").rows())

    assert rows(f"x IN ({even})") == ["0", "2", "4", "6", "8"]
    assert rows(f"x NOT IN ({even})") == rows(f"NOT (x IN ({even}))") == ["1", "3", "3", "5", "7", "9"]
    assert rows(f"s IN ({texts}) AND x < 7") == ["5", "6"]
    assert rows(f"x IN ({even}, NULL)") == ["0", "2", "4", "6", "8"]
    assert rows(f"x NOT IN ({even}, NULL)") == []
    assert rows(f"x IN ({even}, 3.0)") == ["0", "2", "3", "3", "4", "6", "8"]
    assert db.sql(f"SELECT t.s FROM t JOIN u ON t.x = u.x WHERE u.x IN ({even})").rows() == [("2",)]
    assert db.sql(f"SELECT count(CASE WHEN x IN ({even}) THEN 1 END) AS n FROM t").rows() == [(5,)]
    db.sql(f"CREATE VIEW v AS SELECT s FROM t WHERE x IN ({even})")
    db.sql(f"DELETE FROM t WHERE x IN ({even}) AND x > 2")
    assert sorted(db["v"].rows()) == [("0",), ("2",)]


def test_a_long_list_is_joined(db):
    t = numbers(db, 5, 70_000)
    view = db.view("v", t.filter(col.x.isin(range(50_000)), col.x > 1))
    assert view.rows() == [(5,)]
    assert "Constant" in view.explain()
    texts = db.table("s", {"s": str})
    texts.insert([("a7",), ("b",)])
    assert db.view("w", texts.filter(texts.s.isin([f"a{i}" for i in range(1000)]))).rows() == [("a7",)]


# orders of joins


def order_of(node: plan.MultiJoin, source: int) -> list[tuple[int, ...]]:
    return [level.variables for level in levels(node, source)]


@pytest.mark.parametrize("strategy", ["wco", "delta"])
def test_a_change_of_a_city_never_pairs_all_its_customers_with_all_its_shops(strategy):
    city, customer, shop, order, amount = range(5)
    inputs = ((city,), (customer, city), (shop, city), (order, customer), (order, shop, amount))
    tables = tuple(plan.Table(i, (INT,) * len(of)) for i, of in enumerate(inputs))
    node = plan.MultiJoin(tables, inputs, (INT,) * 5, strategy=strategy)
    for source in range(len(inputs)):
        bound = set(inputs[source])
        for level in order_of(node, source):
            if customer in bound and shop not in bound and shop in level:
                assert order in bound, source
            if shop in bound and customer not in bound and customer in level:
                assert order in bound, source
            bound |= set(level)
        assert bound == set(range(5))
