"""What rules can say means the same in shards, and in a directory that is opened again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import everview as ev
from everview.session.local_shards import local_shards

PROGRAM = """
    staff(S, N) :- shop(S), N = count : { pay(_, S, _) }.
    best(S, M) :- shop(S), M = max P : { pay(_, S, P) } default -1.
    middle(S, median(P), variance_pop(P)) :- pay(_, S, P).
    number(S, X) :- staff(S, N), X = range(0, N).
    pair([S, X]) :- number(S, X).
    second(X) :- pair([_, X]).
    rich() :- pay(_, _, P), P > 10.
    bits(P band 3) :- pay(_, _, P).
    top(S, P) :- pay(_, S, P).
    top(S, A) <= top(S, B) :- A < B.
    .decl pick(s, w) choice-domain s
    pick(S, W) :- pay(W, S, _).
    total(S, sum(P)) :- (pay(N, S, P) ; pay(N, S, P), P > 7), N != "zoe".
    some(S) :- shop(S), pay(_, _, P), P > 10.
"""

EXPECTED: dict[str, list[Any]] = {
    "staff": [("north", 2), ("west", 0)],
    "best": [("north", 12), ("west", -1)],
    "middle": [("north", 8.0, 16.0), ("south", 7.0, 0.0)],
    "number": [("north", 0), ("north", 1)],
    "pair": [(("north", 0),), (("north", 1),)],
    "second": [(0,), (1,)],
    "rich": [(True,)],
    "bits": [(0,), (3,)],
    "top": [("north", 12), ("south", 7)],
    "pick": [("north", "ann"), ("south", "cleo")],
    "total": [("north", 16), ("south", 7)],
    "some": [("north",), ("west",)],
}


def opened(db: ev.Session) -> dict[str, list[Any]]:
    """The rows of all relations in a session with the tables and the program."""
    db.table("shop", {"s": str})
    db.table("pay", {"w": str, "s": str, "p": int})
    rules = db.datalog(PROGRAM)
    return {name: sorted(rules[name].rows()) for name in rules}


def change(db: ev.Session) -> dict[str, list[Any]]:
    """Rows come and go."""
    db["shop"].insert([("north",), ("west",)])
    db["pay"].insert([("ann", "north", 12), ("bob", "north", 12), ("cleo", "south", 7)])
    db["pay"].delete([("bob", "north", 12)])
    db["pay"].insert([("dan", "north", 4)])
    return {name: sorted(db[name].rows()) for name in EXPECTED}


@pytest.mark.parametrize("shards", [0, 1, 3])
def test_in_shards(shards: int) -> None:
    db = local_shards(shards=shards) if shards else ev.connect()
    opened(db)
    assert change(db) == EXPECTED
    db.close()


def test_in_a_directory(tmp_path: Path) -> None:
    with ev.connect(str(tmp_path / "state")) as db:
        opened(db)
        assert change(db) == EXPECTED
    with ev.connect(str(tmp_path / "state")) as db:
        assert opened(db) == EXPECTED
        db["pay"].insert([("eve", "west", 100)])
        assert sorted(db["best"].rows()) == [("north", 12), ("west", 100)] and db["rich"].rows() == [(True,)]
        assert sorted(db["pick"].rows()) == [("north", "ann"), ("south", "cleo"), ("west", "eve")]
