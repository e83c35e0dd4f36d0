"""What `db.datalog` gives, beside the rows: views among views, names, errors that leave nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest

import everview as ev
from everview.datalog import DatalogError


@pytest.fixture
def db() -> ev.Session:
    session = ev.connect()
    session.table("edge", {"src": int, "dst": int})
    session.table("t", {"k": int, "v": str | None}, key="k")
    return session


def test_relations_are_views_under_their_names(db: ev.Session) -> None:
    rules = db.datalog("path(X, Y) :- edge(X, Y). path(X, Z) :- path(X, Y), edge(Y, Z). one(1).")
    assert isinstance(rules.path, ev.View) and rules.path is db["path"] and list(rules) == ["path", "one"]
    assert rules.path.schema().keys() == {"x", "y"} and "path" in rules and "edge" not in rules
    db["edge"].insert([(1, 2), (2, 3)])
    assert rules.path.changes(since=0) and sorted(rules.path.as_of(0).rows()) == []
    assert rules["path"].lookup(1) and sorted(rules.path.lookup(1)) == [(1, 2), (1, 3)]


def test_sql_reads_rules_and_rules_read_sql(db: ev.Session) -> None:
    db.datalog("path(X, Y) :- edge(X, Y). path(X, Z) :- path(X, Y), edge(Y, Z).")
    db.sql("CREATE VIEW far AS SELECT x, count(*) AS n FROM path GROUP BY x")
    rules = db.datalog("wide(X) :- far(X, N), N > 1. named(X) :- far(n: N, x: X), N = 1.")
    db["edge"].insert([(1, 2), (2, 3)])
    assert rules.wide.rows() == [(1,)] and rules.named.rows() == [(2,)]
    assert db.sql("SELECT p.y FROM path p, wide w WHERE p.x = w.x ORDER BY y").rows() == [(2,), (3,)]
    db["edge"].delete([(2, 3)])
    assert rules.wide.rows() == [] and rules.named.rows() == [(1,)]


def test_unknown_relation_of_a_program(db: ev.Session) -> None:
    rules = db.datalog("path(X, Y) :- edge(X, Y).")
    with pytest.raises(ev.InputError, match="did you mean 'path'"):
        _ = rules.pathh
    assert not hasattr(rules, "nothing")


def test_a_program_that_fails_leaves_nothing(db: ev.Session) -> None:
    operators = db.stats()["operators"]
    for text in ("good(X) :- edge(X, _). bad(X) :- edge(Y, _).", "good(X) :- edge(X, _). good(X) :- t(_, X)."):
        with pytest.raises(DatalogError):
            db.datalog(text)
    assert db.views == () and db.stats()["operators"] == operators


def test_drop_takes_all_of_a_program_away(db: ev.Session) -> None:
    operators = db.stats()["operators"]
    rules = db.datalog("path(X, Y) :- edge(X, Y). path(X, Z) :- path(X, Y), edge(Y, Z). loop(X) :- path(X, X).")
    rules.drop()
    assert db.views == () and db.stats()["operators"] == operators
    db.datalog("path(X) :- edge(X, _).")


def test_null_equals_nothing(db: ev.Session) -> None:
    rules = db.datalog("""
        same(X, Y)  :- t(X, V), t(Y, V), X != Y.
        lonely(X)   :- t(X, V), not (t(Y, V), Y != X).
        unknown(X)  :- t(X, V), is_null(V).
        value(V)    :- t(_, V).
    """)
    db["t"].insert([(1, None), (2, None), (3, "a"), (4, "a"), (5, "b")])
    assert sorted(rules.same.rows()) == [(3, 4), (4, 3)]
    assert sorted(rules.lonely.rows()) == [(1,), (2,), (5,)]
    assert sorted(rules.unknown.rows()) == [(1,), (2,)]
    assert sorted(rules.value.rows(), key=str) == [("a",), ("b",), (None,)]


def test_a_row_that_cannot_be_computed_heals(db: ev.Session) -> None:
    rules = db.datalog("q(X, Q) :- edge(X, Y), Q = 10 // Y.")
    db["edge"].insert([(1, 5), (2, 0)])
    with pytest.raises(ev.RowErrors):
        rules.q.rows()
    db["edge"].delete([(2, 0)])
    assert rules.q.rows() == [(1, 2)]


def test_recursion_that_never_ends_is_stopped(db: ev.Session) -> None:
    db["edge"].insert([(1, 2)])
    with pytest.raises(ev.LoopError):
        db.datalog("n(X) :- edge(X, _). n(X + 1) :- n(X).")
    assert db.views == ()


def test_many_facts(db: ev.Session) -> None:
    rules = db.datalog(" ".join(f"f({i}, {i / 2})." for i in range(500)) + " sum_of(sum(X)) :- f(X, _).")
    assert rules.sum_of.rows() == [(sum(range(500)),)] and len(rules.f.rows()) == 500


def test_types_widen_through_recursion(db: ev.Session) -> None:
    db["edge"].insert([(8, 1)])
    rules = db.datalog("h(X) :- edge(X, _). h(Y) :- h(X), X > 1, Y = X / 2.")
    assert sorted(rules.h.rows()) == [(1.0,), (2.0,), (4.0,), (8.0,)]


def test_changes_of_several_epochs_in_one_step(db: ev.Session) -> None:
    rules = db.datalog("reach(1). reach(Y) :- reach(X), edge(X, Y).")
    edge = db["edge"]
    with db.batch():
        edge.insert([(1, 2)])
        edge.insert([(2, 3)])
        edge.delete([(1, 2)])
    assert sorted(rules.reach.changes(since=0)) == [((2,), 1, 1), ((2,), 3, -1), ((3,), 2, 1), ((3,), 3, -1)]


def test_functions_in_python(db: ev.Session) -> None:
    db.function("double", lambda x: 2 * x, returns=int)
    db.function("odd", lambda x: x % 2 == 1, returns=bool)
    rules = db.datalog("""
        twice(X, double(Y)) :- edge(X, Y), double(X) < 10.
        odds(X)  :- edge(X, _), odd(X).
        evens(X) :- edge(X, _), not odd(X), (odd(X) ; X > 0).
    """)
    db["edge"].insert([(1, 2), (2, 3), (7, 1)])
    assert sorted(rules.twice.rows()) == [(1, 4), (2, 6)]
    assert sorted(rules.odds.rows()) == [(1,), (7,)] and rules.evens.rows() == [(2,)]


def test_a_program_is_found_again_in_a_durable_session(tmp_path: Path) -> None:
    text = """
        triangle(A, B, C) :- edge(A, B), edge(B, C), edge(A, C).
        reach(1). reach(Y) :- reach(X), edge(X, Y).
    """
    for run in range(2):
        with ev.connect(str(tmp_path / "state")) as db:
            edge = db.table("edge", {"src": int, "dst": int})
            fact = db.attribute("likes", str, semantics="one")
            rules = db.datalog(text)
            if not run:
                edge.insert([(1, 2), (2, 3), (1, 3)])
                db.transact([(1, "likes", "figs")])
            else:
                db.transact([(1, "likes", "pears")])
                assert fact.rows() == [(1, "pears")]
            assert rules.triangle.rows() == [(1, 2, 3)] and sorted(rules.reach.rows()) == [(1,), (2,), (3,)]
    with ev.connect(str(tmp_path / "state")) as db:
        with pytest.raises(ev.EverviewError):
            db.datalog(text.replace("edge(A, C)", "edge(C, A)"))
        assert set(db.views) == {"triangle", "reach"}
        db["edge"].delete([(2, 3)])
        assert db["triangle"].rows() == []


def test_relations_may_be_called_like_functions_and_aggregates(db: ev.Session) -> None:
    for name in ("add", "sub", "mul", "div", "floordiv", "mod", "pow", "neg", "count", "sum", "min"):
        db.table(name, {"x": int}).insert([(1,), (2,)])
        rules = db.datalog(f"r_{name}(X) :- edge(X, _), {name}(X), X + 1 > 0.")
        db["edge"].insert([(2, 2)])
        assert rules[f"r_{name}"].rows() == [(2,)]


def test_a_pattern_that_cannot_be_read_is_refused_with_its_place(db: ev.Session) -> None:
    with pytest.raises(DatalogError, match=r"E_PATTERN. line 1, column 18(?s:.*)missing \]"):
        db.datalog('m(X) :- t(X, V), regexp_matches(V, "b.*[").')
    with pytest.raises(ev.PlanError, match="E_PATTERN"):
        db.sql("SELECT k FROM t WHERE v ~ 'b.*['")


def test_parts_of_a_body_that_share_nothing_are_not_multiplied_out(db: ev.Session) -> None:
    """Every combination would be 27 million rows."""
    rules = db.datalog("some(X) :- edge(X, X), edge(Y, Z), Y < Z, edge(V, W), W > 10 * V, not edge(0, _).")
    db["edge"].insert([(i, i) for i in range(1, 300)] + [(i, 20 * i) for i in range(1, 300)])
    assert len(rules.some.rows()) == 299
    db["edge"].delete([(i, 20 * i) for i in range(1, 300)])
    assert rules.some.rows() == []
    assert db.stats()["bytes"] < 1_000_000
