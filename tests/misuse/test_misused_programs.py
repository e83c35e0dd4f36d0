"""Datalog's rules, prepared queries and facts with arguments that make no sense: the errors are ours."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

import everview as ev
from tests.misuse.calling import Call, Scene, methods, misuse, odd

PROGRAMS = [  # type: ignore[var-annotated]
    "", ".", "p(X) :- edge(X, _).", "p(X) :- no_such(X).", "p(X)", ":- edge(X, Y).", "path(X, Y) :- edge(X, Y).",
    "p(1). p(2).", "p(X) :- edge(X, Y), not p(X).", "\0", "\ud800", "p(X) :- edge(X, Y), Y = count(Z).",
    "edge(X, Y) :- edge(Y, X).", None, 5, "p(X) :- edge(X).", b"p(1).", [], "t(X) :- path(X, X).",
    "p(X, N) :- edge(X, Y), N = Y / 0.", 'p("a"). p(1).', "%", "/*", ".decl p(x: number)", ".comp", ".init x = Y",
    ".type T = A {x: number} | B {}", "[:find ?x :where [?x :name ?n]]",
]  # fmt: skip
QUERIES = [  # type: ignore[var-annotated]
    "", "SELECT 1", "SELECT * FROM edge WHERE src = $x", "SELECT $x",
    "SELECT src FROM edge WHERE src > $x AND dst < $y", "SELEC", "SELECT count(*) AS n FROM edge WHERE src = $x",
    "SELECT * FROM nope WHERE a = $x", "DROP TABLE edge", ";", "\0", None, 5, "SELECT * FROM edge WHERE src = $",
    "SELECT 1; SELECT 2", "SELECT src / $x AS q FROM edge", "SELECT $x::text AS a", b"SELECT 1", [],
    "SELECT sum(dst) AS s FROM edge WHERE src = $x AND dst > now()",
]  # fmt: skip
FACTS = [
    [], [(1, "name", "ann")], [(1, ":name", "ann")], [{"id": 1, "name": "ann"}], [{"name": "ann"}],
    [("retract", 1, "name", "x")], [(1, "no such", 1)], [(1, "name")], [(1, 2, 3)], [{1: 2}],
    [("no such", 1, "name", "x")], [None], None, 5, "x", [(None, "name", None)], [(1, "tag", "x")], [(1, "name", 5)],
    [("retract", 1, "tag", "x")], [{"id": 1, "name": [1]}], iter([(1, "name", "x")]),
]  # fmt: skip

OPTIONS: dict[str, list[Any]] = {
    "text": [*PROGRAMS, *QUERIES],
    "name": ["path", "q", "edge", "no such", "", None, 5, [], "p", "\0"],
    "plan": [None, "delta", "binary", "wco", "no such", 5, []],
    "keep": [0, 1, -1, None, 1.5, "1", True, 2**70],
    "share": [True, False, None, "x"],
    "changes": FACTS,
    "source": [None, "ann", "", 5, [], "\ud800"],
    "semantics": ["distinct", "one", "raw", "no such", None, 5, []],
    "entity": [int, str, float, None, "int", 5, object],
    "value": [int, str, str | None, None, "text", 5, object, []],
    "sources": [True, False, None, "x", 1],
}  # fmt: skip


class Programs(Scene):
    """A session with rules, a prepared query and attributes."""

    each = 20

    def session(self) -> ev.Session:
        db = ev.connect()
        edge = db.table("edge", {"src": int, "dst": int})
        edge.insert([(1, 2), (2, 3)])
        db.table("asked", {"x": int})
        db.attribute("name", str, semantics="one")
        db.attribute("tag", str, sources=True)
        self.rules = db.datalog("path(X, Y) :- edge(X, Y). path(X, Z) :- path(X, Y), edge(Y, Z).")
        self.later = db.register("two(X, Z) :- edge(X, Y), edge(Y, Z).")
        self.asks = db.prepare("ask", "SELECT dst FROM edge WHERE src = $x ORDER BY dst")
        return db

    def odd(self, rng: random.Random, parameter: str) -> Any:
        if parameter in OPTIONS and rng.random() < 0.9:
            return rng.choice(OPTIONS[parameter])
        return odd(rng, self.db)

    def calls(self) -> Iterable[Call]:
        db, rules, later, asks = self.db, self.rules, self.later, self.asks
        for _ in range(3):
            yield Call("datalog", db.datalog, (PROGRAMS[2],), then=self._drop)
            yield Call("register", db.register, (PROGRAMS[2],), then=self._drop)
            yield Call("prepare", db.prepare, ("q", QUERIES[2]), then=self._ask)
        for which in (rules, later):
            name = next(iter(which))
            yield Call("query", which.query, (name, 1, None))
            yield Call("interest", which.interest, (name,))
            yield Call("uninterest", which.uninterest, (name,))
            yield Call("demand", which.demand, (name, db["asked"]), then=self._install)
            yield Call("rules[]", which.__getitem__, (name,))
            yield Call("rules in", which.__contains__, (name,))
        yield Call("ask", asks, (1,))
        yield Call("ask by name", asks, (), {"x": 1})
        yield Call("forget", asks.forget, (1,))
        yield Call("attribute", db.attribute, ("age", int), then=lambda made: made.rows())
        for _ in range(2):
            yield Call("transact", db.transact, ([(1, "name", "ann")],))
        yield Call("retract_source", db.retract_source, ("ann",))
        yield Call("db[]", db.__getitem__, ("edge",))
        yield Call("db in", db.__contains__, ("edge",))
        yield from methods([rules, later, asks])

    def _ask(self, prepared: Any) -> None:
        try:
            prepared(*(1 for _ in prepared.parameters)).rows()
        finally:
            prepared.drop()

    def _drop(self, rules: Any) -> None:
        for name in list(rules):
            if name in rules:
                rules[name].rows()
        rules.drop()

    def _install(self, answer: Any) -> None:
        view = self.db.view("made", answer)
        view.rows()
        view.drop()

    def whole(self) -> bool:
        return {"edge", "path", "ask", "name"} <= {*self.db.tables, *self.db.views}

    def check(self) -> None:
        if self.whole():
            self.db["edge"].insert([(7, 8)])
            assert (7, 8) in self.db["path"].rows() and self.asks(7).rows() == [(8,)]
            assert self.db.check() == []


def test_400_misused_programs() -> None:
    assert misuse(1, 400, Programs) == Counter()


@pytest.mark.slow
@pytest.mark.long
def test_10000_misused_programs() -> None:
    assert sum((misuse(seed, 1000, Programs) for seed in range(2, 12)), Counter[str]()) == Counter()
