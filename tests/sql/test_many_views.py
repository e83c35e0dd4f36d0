"""Sessions with many views: work follows the views that a change touches, and each of them stays right."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

import everview as ev
from everview.language.relation import relation_of
from everview.session.clock.follower import Follower
from tests.inside import inside

START = dt.datetime(2030, 1, 1)
WORDS = ["", "a", "ab", "Abba", "straße", "ÉTÉ", "n1%", "a_b", "back\\slash", "two\nlines", "ﬁne", "aXbXc"]
CONDITIONS = [
    "name LIKE 'a%'",
    "name LIKE '%b%'",
    "name LIKE '%b'",
    "name LIKE 'a%b%c'",
    "name LIKE 'a_b'",
    "name LIKE 'ab'",
    "name LIKE '%'",
    "upper(name) = 'STRASSE'",
    "upper(name) = 'ABBA' OR lower(name) = 'été'",
    "name ~ 'b+.'",
    "length(name) > 3 AND k < 3",
    "name > 'a' AND name <= 'b'",
    "coalesce(nick, name) LIKE '%n%'",
    "CASE WHEN k = 1 THEN name LIKE 'a%' ELSE nick LIKE '%1%' END",
    "trim(name) || 'x' = 'abx'",
    "ts > now() - INTERVAL '10 seconds'",
    "ts <= now() AND ts > now() - INTERVAL '7 seconds'",
    "ts > now() - INTERVAL '3 seconds' AND upper(name) LIKE 'A%'",
]


def _expected(rows: list[tuple[Any, ...]], condition: str, now: dt.datetime) -> list[tuple[Any, ...]]:
    """What a session says that gets all rows at once, after everything has come to pass."""
    with ev.connect() as db:
        db.sql("CREATE TABLE t (k BIGINT, name VARCHAR NOT NULL, nick VARCHAR, ts TIMESTAMP)")
        db.advance(now)
        db["t"].insert(rows * 20)  # whole columns
        db.sql(f"CREATE VIEW v AS SELECT k, name, nick FROM t WHERE {condition}")
        return sorted(db["v"].rows(), key=repr)[::20]


def test_rows_one_by_one_are_rows_together() -> None:
    chance = random.Random(5)
    db = ev.connect()
    db.sql("CREATE TABLE t (k BIGINT, name VARCHAR NOT NULL, nick VARCHAR, ts TIMESTAMP)")
    db.advance(START)
    for i, condition in enumerate(CONDITIONS):
        db.sql(f"CREATE VIEW v{i} AS SELECT k, name, nick FROM t WHERE {condition}")
    there: list[tuple[Any, ...]] = []
    now = START
    for step in range(60):
        now += dt.timedelta(seconds=chance.choice([0, 0, 1, 2]))
        db.advance(now)
        if there and chance.random() < 0.3:
            db["t"].delete([there.pop(chance.randrange(len(there)))])
        else:
            moment = now + dt.timedelta(seconds=chance.randrange(-12, 6))
            nick = chance.choice([None, "n1", "x"])
            there.append((chance.randrange(4), chance.choice(WORDS) + chance.choice(["", "b"]), nick, moment))
            db["t"].insert([there[-1]])
        if step % 20 == 19:
            for i, condition in enumerate(CONDITIONS):
                found = sorted(db[f"v{i}"].rows(), key=repr)
                assert found == _expected(there, condition, now), condition


def test_only_followers_that_are_touched_or_due_do_anything(monkeypatch: Any) -> None:
    db = ev.connect()
    db.advance(START)
    for name in ("quiet", "busy"):
        db.sql(f"CREATE TABLE {name} (k BIGINT, ts TIMESTAMP)")
    for i in range(40):
        table = "busy" if i < 2 else "quiet"
        db.sql(f"CREATE VIEW v{i} AS SELECT k FROM {table} WHERE ts > now() - INTERVAL '{i + 1} seconds'")
    db["quiet"].insert([(1, START)])
    asked: list[str] = []
    respond = Follower.respond

    def counting(self: Follower, *arguments: Any) -> Any:
        asked.append(relation_of(self.table).label)
        return respond(self, *arguments)

    monkeypatch.setattr(Follower, "respond", counting)
    db["busy"].insert([(1, START)])
    assert asked == ["busy"] * 2
    asked.clear()
    db.advance(START + dt.timedelta(seconds=2.5))  # the two of `busy` are due, no other is
    assert asked == ["busy"] * 2
    assert [len(db[f"v{i}"].rows()) for i in (0, 1, 2, 39)] == [0, 0, 1, 1]
    asked.clear()
    db.advance(START + dt.timedelta(seconds=5.5))
    assert asked == ["quiet"] * 3
    db["busy"].insert([(2, START + dt.timedelta(seconds=5))])
    assert [len(db[f"v{i}"].rows()) for i in (0, 1, 4, 5)] == [1, 1, 0, 1]


def test_a_step_that_fails_leaves_what_is_due_due() -> None:
    db = ev.connect()
    db.advance(START)
    db.sql("CREATE TABLE t (k BIGINT, ts TIMESTAMP)")
    for i in (1, 2):
        db.sql(f"CREATE VIEW v{i} AS SELECT k FROM t WHERE ts > now() - INTERVAL '{i} seconds'")
    db["t"].insert([(1, START)])
    clock = inside(db).clock
    clock.target = clock.now + 1_500_000
    try:
        db["t"].delete([(7, START)])  # refused, though v1's moment has come
    except ev.InputError as error:
        assert error.code == "E_ABSENT"
    finally:
        clock.target = None
    assert (db["v1"].rows(), db["v2"].rows()) == ([(1,)], [(1,)])
    db.advance(START + dt.timedelta(seconds=1.5))
    assert (db["v1"].rows(), db["v2"].rows()) == ([], [(1,)])


def test_few_rows_do_not_go_through_arrays(monkeypatch: Any) -> None:
    """Unless something needs them, in which case the answer is kept."""
    from everview.expr import row_interpreter

    calls: list[int] = []
    evaluate = row_interpreter.evaluate  # type: ignore[attr-defined]
    monkeypatch.setattr(row_interpreter, "evaluate", lambda *given: calls.append(given[2].shape[1]) or evaluate(*given))  # type: ignore[func-returns-value]
    db = ev.connect()
    db.sql("CREATE TABLE t (name VARCHAR)")
    db.sql("CREATE VIEW v AS SELECT upper(name) AS u FROM t WHERE name LIKE 'a%' AND name ~ 'b'")
    db["t"].insert([("ab",)])
    db["t"].insert([("äb",)])
    assert calls == []
    db["t"].insert([(f"ab{i}",) for i in range(row_interpreter.ONE_BY_ONE_ROWS + 1)])
    assert set(calls) == {row_interpreter.ONE_BY_ONE_ROWS + 1}
    assert len(db["v"].rows()) == row_interpreter.ONE_BY_ONE_ROWS + 2
