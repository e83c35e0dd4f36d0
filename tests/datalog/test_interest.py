"""Registered rules are built when somebody is interested; questions derive only what they need."""

from __future__ import annotations

import random
from typing import Any

import pytest

import everview as ev

PATHS = "path(X, Y) :- edge(X, Y). path(X, Z) :- path(X, Y), edge(Y, Z). loop(X) :- path(X, X)."


@pytest.fixture
def db() -> ev.Session:
    session = ev.connect()
    session.table("edge", {"src": int, "dst": int})
    return session


def test_registering_builds_nothing(db: ev.Session) -> None:
    operators = db.stats()["operators"]
    rules = db.register(PATHS)
    assert db.views == () and db.stats()["operators"] == operators
    with pytest.raises(ev.InputError, match="E_INTEREST"):
        _ = rules.path
    loop = rules.interest("loop")
    assert db.views == ("loop",) and rules.loop is loop  # type: ignore[comparison-overlap]
    db["edge"].insert([(1, 2), (2, 1)])
    assert sorted(loop.rows()) == [(1,), (2,)]
    assert rules.interest("loop") is loop
    rules.uninterest("loop")
    assert sorted(loop.rows()) == [(1,), (2,)]
    rules.uninterest("loop")
    assert db.views == () and db.stats()["operators"] == operators
    with pytest.raises(ev.InputError, match="nobody is interested"):
        rules.uninterest("loop")


def test_rules_over_registered_rules(db: ev.Session) -> None:
    db.register(PATHS)
    more = db.register("far(X, Y) :- path(X, Y), not edge(X, Y).")
    db["edge"].insert([(1, 2), (2, 3)])
    assert more.interest("far").rows() == [(1, 3)]
    assert db.views == ("far",)
    more.uninterest("far")
    more.interest("far", share=True)
    assert set(db.views) == {"path", "far"}
    more.uninterest("far")
    assert db.views == ()  # type: ignore[comparison-overlap]
    with pytest.raises(ev.PlanError, match="defined by other rules"):
        db.datalog("path(X) :- edge(X, _).")


def test_sharing_keeps_what_others_want(db: ev.Session) -> None:
    rules = db.register(PATHS)
    rules.interest("path")
    rules.interest("loop", share=True)
    rules.uninterest("loop")
    assert db.views == ("path",)


def test_an_interest_that_fails_leaves_nothing(db: ev.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = db.register(PATHS)
    view = db.view

    def refuse(name: str, *args: Any, **options: Any) -> Any:
        if name == "loop":
            raise RuntimeError("no room")
        return view(name, *args, **options)

    monkeypatch.setattr(db, "view", refuse)
    with pytest.raises(RuntimeError):
        rules.interest("loop", share=True)
    assert db.views == ()
    monkeypatch.undo()
    rules.interest("loop", share=True)
    assert db.views == ("path", "loop")  # type: ignore[comparison-overlap]


def test_dropped_rules_are_forgotten(db: ev.Session) -> None:
    db.register(PATHS).drop()
    assert db.datalog("path(X) :- edge(X, _).").path.rows() == []


PROGRAM = """
    path(X, Y) :- edge(X, Y).
    path(X, Z) :- edge(X, Y), path(Y, Z).
    sg(X, X) :- edge(_, X).
    sg(X, Y) :- edge(P, X), sg(P, Q), edge(Q, Y).
    even(X, X) :- edge(X, _).
    even(X, Z) :- odd(X, Y), edge(Y, Z).
    odd(X, Z) :- even(X, Y), edge(Y, Z).
    dist(X, Y, min(1)) :- edge(X, Y).
    dist(X, Z, min(D + 1)) :- dist(X, Y, D), edge(Y, Z), D < 9.
    fan(X, count(Y)) :- path(X, Y).
    deep(X, N) :- fan(X, N), N > 2, not path(X, X).
    near(X, Y) :- path(X, Y), (edge(Y, X) ; X < Y, sg(X, Y)).
    chain(X, N) :- fan(X, N), fan(Y, N), path(X, Y).
    fact(1, 2). fact(3, 4).
    fact(X, Y) :- even(X, Y), X > 2.
"""


@pytest.mark.parametrize("seed", range(3))
def test_questions_give_what_the_whole_relation_gives(db: ev.Session, seed: int) -> None:
    rng = random.Random(seed)
    rules = db.datalog(PROGRAM)
    asked = db.table("asked", {"x": int})
    both = db.table("both", {"y": int, "x": int})
    live = {n: db.view(f"live_{n}", rules.demand(n, asked)) for n in rules if n != "fact"}
    pairs = {n: db.view(f"pair_{n}", rules.demand(n, both)) for n in ("path", "sg", "near")}
    edges: set[tuple[int, int]] = set()
    for _ in range(4):
        new = {(rng.randrange(7), rng.randrange(7)) for _ in range(6)} - edges
        gone = set(rng.sample(sorted(edges), len(edges) // 3))
        with db.transaction():
            db["edge"].insert(sorted(new))
            db["edge"].delete(sorted(gone))
            asked.insert([(rng.randrange(7),)])
            both.insert([(rng.randrange(7), rng.randrange(7))])
        edges = (edges | new) - gone
        for name in rules:
            whole = rules[name].rows()
            width = len(rules[name].schema())
            args = [rng.choice([None, rng.randrange(7)]) for _ in range(width)]
            fits = sorted(r for r in whole if all(a in (None, v) for a, v in zip(args, r, strict=True)))
            assert sorted(rules.query(name, *args)) == fits, (name, args)
            if name in live:
                wanted = {x for (x,) in asked.rows()}
                assert sorted(live[name].rows()) == sorted(r for r in whole if r[0] in wanted), name
            if name in pairs:
                wanted_pairs = {(x, y) for y, x in both.rows()}
                assert sorted(pairs[name].rows()) == sorted(r for r in whole if r in wanted_pairs), name


def test_a_question_derives_only_what_it_needs(db: ev.Session) -> None:
    rules = db.register(PATHS)
    asked = db.table("asked", {"x": int})
    db["edge"].insert([(i, i + 1) for i in range(300)])
    answers = db.view("answers", rules.demand("path", asked))
    asked.insert([(297,)])
    assert sorted(answers.rows()) == [(297, 298), (297, 299), (297, 300)]
    edges = ("arrange edge", "arrange by [1]")  # trees read them in both directions
    held = sum(a["updates"] for a in answers.stats()["arrangements"] if a["name"] not in edges)
    assert held < 100  # the whole closure has 45,150 rows


def test_bad_questions(db: ev.Session) -> None:
    rules = db.register(PATHS)
    with pytest.raises(ev.InputError, match="path has 2 columns, not 1"):
        rules.query("path", 1)
    with pytest.raises(ev.InputError, match="no relation 'pat'"):
        rules.query("pat", 1)
    with pytest.raises(ev.InputError, match="no column 'z'"):
        rules.demand("path", db.table("asked", {"z": int}))
    with pytest.raises(ev.InputError, match="column 'x': 'one' is a str, not an int"):
        rules.query("path", "one", None)
    with pytest.raises(ev.InputError, match=r"path\.x is int, that of the questions str"):
        rules.demand("path", db.table("words", {"x": str}))


def test_answers_have_the_types_of_the_relation() -> None:
    """A question's values are taken as the relation's columns hold them, not the other way round."""
    db = ev.connect()
    db.table("price", {"item": str, "euro": float}).insert([("fig", 1.0), ("pear", 2.0)])
    [(item, euro)] = db.register("costs(I, E) :- price(I, E).").query("costs", None, 1)
    assert item == "fig" and isinstance(euro, float)


def test_answers_are_derived_without_asking_twice() -> None:
    """A rule that extends what was asked for needs no guard, and its answers are distinct already: two traces in the
    loop, one outside. Questions that come twice, and go, change nothing else.
    """
    db = ev.connect()
    edge, asked = db.table("edge", {"a": int, "b": int}), db.table("asked", {"x": int})
    rules = db.register("path(X, Y) :- edge(X, Y). path(X, Z) :- path(X, Y), edge(Y, Z).")
    answers = db.view("answers", rules.demand("path", asked), plan="rounds")
    kept = [(a["name"], a["scope"]) for a in answers.stats()["arrangements"]]
    assert kept.count(("reduce distinct", "outside")) == 1  # of the questions
    assert sum(scope != "outside" for _, scope in kept) == 2
    edge.insert([(1, 2), (2, 3), (3, 1), (4, 5)])
    asked.insert([(2,), (2,), (4,)])
    assert sorted(answers.rows()) == [(2, 1), (2, 2), (2, 3), (4, 5)]
    asked.delete([(2,)])
    edge.delete([(3, 1)])
    assert sorted(answers.rows()) == [(2, 3), (4, 5)]
    asked.delete([(2,)])
    assert answers.rows() == [(4, 5)]
