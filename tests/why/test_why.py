"""Explanations as people see them, for every kind of plan."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import everview as ev
from everview import col
from tests.why.checker import own_ancestors


@pytest.fixture
def db() -> Iterator[ev.Session]:
    with ev.connect() as session:
        yield session


RULES = """
    reach(X)     :- root(X).
    reach(Y)     :- reach(X), edge(X, Y).
    orphan(X)    :- edge(X, _), not reach(X).
    fanout(X, N) :- edge(X, Y), N = count(Y).
    tri(A, B, C) :- edge(A, B), edge(B, C), edge(A, C).
"""


def graph(db: ev.Session) -> Any:
    edge = db.table("edge", {"src": str, "dst": str})
    root = db.table("root", {"node": str})
    rules = db.datalog(RULES)
    root.insert([("a",)])
    edge.insert([("a", "b"), ("b", "c"), ("a", "c"), ("c", "b"), ("x", "y")])
    return rules


def test_rules_stand_beside_their_rows(db: ev.Session) -> None:
    rules = graph(db)
    assert str(rules.reach.why(("c",))) == (
        "reach('c')  by reach(Y) :- reach(X), edge(X, Y).\n"
        "├─ reach('a')  by reach(X) :- root(X).\n"
        "│  └─ root('a')\n"
        "└─ edge('a', 'c')"
    )
    assert rules.reach.why("c").leaves() == {("root", ("a",)), ("edge", ("a", "c"))}


def test_negation_says_what_is_not_there(db: ev.Session) -> None:
    rules = graph(db)
    found = rules.orphan.why(("x",))
    assert found.leaves() == {("edge", ("x", "y"))}
    assert found.absences() == [("reach", ("x",))]
    assert "no row reach('x')" in str(found)


def test_aggregates_and_joins_of_rules(db: ev.Session) -> None:
    rules = graph(db)
    assert rules.fanout.why(("a", 2)).leaves() == {("edge", ("a", "b")), ("edge", ("a", "c"))}
    found = rules.tri.why(("a", "b", "c"))
    assert [(c.source, c.row) for c in found.children] == [
        ("edge", ("a", "b")),
        ("edge", ("b", "c")),
        ("edge", ("a", "c")),
    ]
    assert found.rule.startswith("tri(A, B, C) :-")


def test_views_on_views_are_named(db: ev.Session) -> None:
    sales = db.table("sales", {"shop": str, "amount": int})
    total = db.view("total", sales.group_by("shop").agg(amount=col.amount.sum()))
    large = db.view("large", total.filter(col.amount > 5).select("shop"))
    sales.insert([("north", 4), ("north", 3)])
    found = large.why(("north",))
    (child,) = found.children
    assert (child.source, child.row, child.kind) == ("total", ("north", 7), "view")
    assert found.leaves() == {("sales", ("north", 3)), ("sales", ("north", 4))}


def test_of_large_groups_some_rows_are_shown(db: ev.Session) -> None:
    sales = db.table("sales", {"shop": str, "amount": int})
    total = db.view("total", sales.group_by("shop").agg(n=ev.count(), best=col.amount.max()))
    sales.insert([("north", i) for i in range(100)])
    found = total.why(("north", 100, 99))
    assert found.of == 100 and len(found.children) == 6
    assert ("sales", ("north", 99)) in found.leaves()
    assert "6 of 100 rows shown" in str(found)


def test_outer_joins_say_what_has_no_partner(db: ev.Session) -> None:
    db.sql("CREATE TABLE l (a int); CREATE TABLE r (a int, b int); INSERT INTO l VALUES (1), (2)")
    db.sql("INSERT INTO r VALUES (1, 5)")
    view = db.sql("CREATE MATERIALIZED VIEW v AS SELECT l.a, r.b FROM l LEFT JOIN r ON l.a = r.a")
    assert view.why((1, 5)).leaves() == {("l", (1,)), ("r", (1, 5))}
    found = view.why((2, None))
    assert found.leaves() == {("l", (2,))} and found.absences() == [("r", (2, None))]


def test_first_rows_and_windows(db: ev.Session) -> None:
    db.sql("CREATE TABLE t (k text, x int); INSERT INTO t VALUES ('a', 1), ('a', 2), ('a', 3), ('b', 9)")
    numbered = db.sql("CREATE MATERIALIZED VIEW w AS SELECT k, x, sum(x) OVER (PARTITION BY k ORDER BY x) AS s FROM t")
    assert numbered.why(("a", 3, 6)).leaves() == {("t", ("a", x)) for x in (1, 2, 3)}
    top = db.view("top", db["t"].group_by("k").top(2, col.x.desc()))
    found = top.why(("a", 2))
    assert found.leaves() == {("t", ("a", 2))} and "number 2 of 3" in found.how


def test_subqueries_and_set_operations(db: ev.Session) -> None:
    db.sql(
        "CREATE TABLE a (x int); CREATE TABLE b (x int); INSERT INTO a VALUES (1), (2), (3); INSERT INTO b VALUES (2)"
    )
    within = db.sql("CREATE MATERIALIZED VIEW i AS SELECT x FROM a WHERE x IN (SELECT x FROM b)")
    assert within.why((2,)).leaves() == {("a", (2,)), ("b", (2,))}
    without = db.sql("CREATE MATERIALIZED VIEW n AS SELECT x FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.x = a.x)")
    assert without.why((3,)).absences() == [("b", (3,))]
    scalar = db.sql("CREATE MATERIALIZED VIEW s AS SELECT x FROM a WHERE x > (SELECT max(x) FROM b)")
    assert scalar.why((3,)).leaves() == {("a", (3,)), ("b", (2,))}
    difference = db.sql("CREATE MATERIALIZED VIEW d AS SELECT x FROM a EXCEPT SELECT x FROM b")
    assert difference.why((1,)).absences() == [("b", (1,))]


def test_functions_are_gone_through(db: ev.Session) -> None:
    table = db.table("t", {"text": str})

    @ev.udf(returns=str)
    def shout(text: str) -> str:
        return text.upper()

    loud = db.view("loud", table.select(text=shout(col.text)))
    words = db.view("words", table.flat_map(lambda text: [(w,) for w in text.split()], returns={"word": str}))
    table.insert([("good day",), ("day off",)])
    assert loud.why(("DAY OFF",)).leaves() == {("t", ("day off",))}
    assert words.why(("good",)).leaves() == {("t", ("good day",))}


def test_windows_of_time_name_their_table(db: ev.Session) -> None:
    start = dt.datetime(2026, 1, 1)
    db.advance(start)
    db.sql("CREATE TABLE readings (sensor text, value int)")
    view = db.sql(
        "CREATE MATERIALIZED VIEW last AS SELECT sensor, value FROM readings [size 1 tuple partition by sensor]"
    )
    db.sql("INSERT INTO readings VALUES ('s', 1); INSERT INTO readings VALUES ('s', 2)")
    found = view.why(("s", 2))
    assert found.leaves() == {("readings", ("s", 2))}
    assert "everview." not in str(found)


def test_earlier_times_as_far_as_history_reaches(db: ev.Session) -> None:
    rules = graph(db)
    now = db.time
    db["edge"].delete([("a", "c")])
    assert rules.reach.why(("c",)).leaves() == {("root", ("a",)), ("edge", ("a", "b")), ("edge", ("b", "c"))}
    assert rules.reach.why(("c",), time=now).leaves() == {("root", ("a",)), ("edge", ("a", "c"))}
    with pytest.raises(ev.InputError) as error:
        rules.reach.why(("c",), time=now + 100)
    assert error.value.code == "E_FUTURE"


def test_times_that_are_forgotten_are_refused() -> None:
    with ev.connect(history=1) as db:
        table = db.table("t", {"x": int})
        view = db.view("v", table.distinct())
        for i in range(6):
            table.insert([(i,)])
        with pytest.raises(ev.CompactedError) as error:
            view.why((0,), time=1)
        assert error.value.code == "E_COMPACTED"


def test_rows_that_are_not_there_are_refused(db: ev.Session) -> None:
    rules = graph(db)
    with pytest.raises(ev.InputError) as error:
        rules.reach.why(("y",))
    assert error.value.code == "E_ABSENT" and "why_not" in error.value.hint
    with pytest.raises(ev.InputError):
        rules.reach.why(("y", "z"))
    with pytest.raises(ev.InputError):
        rules.reach.why((3,))
    with pytest.raises(ev.InputError) as error:
        rules.reach.why(("c",), all=0)
    assert error.value.code == "E_TYPE"


def test_nothing_stays_and_no_time_passes(db: ev.Session) -> None:
    rules = graph(db)
    before, time = db.stats(), db.time
    for _ in range(3):
        rules.reach.why(("c",))
        rules.reach.why_not(("a b c",))
        rules.reach.why(("c",), all=3)
    assert db.time == time
    after = db.stats()
    assert after["arrangements"] == before["arrangements"] and after["operators"] == before["operators"]


def test_the_same_question_has_the_same_answer(db: ev.Session) -> None:
    rules = graph(db)
    first = [str(rules[name].why(row)) for name in rules for row in sorted(rules[name].rows())]
    assert first == [str(rules[name].why(row)) for name in rules for row in sorted(rules[name].rows())]
    with ev.connect() as other:
        again = graph(other)
        assert first == [str(again[name].why(row)) for name in again for row in sorted(again[name].rows())]


def test_questions_beside_a_writer(db: ev.Session) -> None:
    edge = db.table("edge", {"src": int, "dst": int})
    rules = db.datalog("path(X, Y) :- edge(X, Y). path(X, Z) :- path(X, Y), edge(Y, Z).")
    edge.insert([(0, 1), (1, 2), (2, 0)])
    stop = threading.Event()

    def write() -> None:
        n = 3
        while not stop.is_set():
            edge.insert([(n % 7, (n + 3) % 7)])
            edge.delete([(n % 7, (n + 3) % 7)])
            n += 1

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for _ in range(30):
            assert not own_ancestors(rules.path.why((0, 0)))
    finally:
        stop.set()
        thread.join()


def test_trees_for_programs_and_notebooks(db: ev.Session) -> None:
    found = graph(db).reach.why(("c",))
    plain = found.to_dict()
    assert plain["source"] == "reach" and plain["row"] == ("c",) and plain["rule"].startswith("reach(Y)")
    assert [c["source"] for c in plain["children"]] == ["reach", "edge"]
    picture = found._repr_html_()
    assert picture.startswith("<svg") and picture.count("<text") == 4
    assert "everview" not in str(found) and repr(found) == "<why reach('c')>"


def test_rows_beside_failed_ones_are_explained(db: ev.Session) -> None:
    table = db.table("t", {"x": int, "y": int})
    view = db.view("v", table.select(q=col.x // col.y))
    table.insert([(6, 2), (1, 0)])
    assert view.errors()
    assert view.why((3,)).leaves() == {("t", (6, 2))}
    assert "division by zero" in str(view.why_not((7,)))
