"""Column privileges under policies, against an oracle that filters rows and columns in Python.

Tenants have some columns of one table, which are granted and revoked as it goes. Whatever a statement reads must be
granted; the others do not exist: an error about one is the same as about a name that nobody ever gave.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import everview as ev
from everview.session.rights.principal import acting
from tests.server.tenants.test_oracle import POLICIES, World, world

NAMES = ("id", "tenant", "n", "v")


def _row(w: World) -> tuple[int, str, int, str]:
    r = w.random
    return r.randrange(30), r.choice("abc"), r.choice([1, 2, 3, 6, 9]), r.choice("xyz")


def _change(w: World) -> None:
    """The owner changes rows."""
    row = _row(w)
    if w.random.random() < 0.7:
        w.run(None, f"INSERT INTO doc VALUES {row!r} ON CONFLICT (id) DO UPDATE SET n = excluded.n")
        old = w.rows.get(row[0])
        w.rows[row[0]] = row if old is None else (old[0], old[1], row[2], old[3])
    else:
        w.run(None, f"DELETE FROM doc WHERE id % 7 = {row[0] % 7}")
        w.rows = {i: o for i, o in w.rows.items() if i % 7 != row[0] % 7}


def _grant(w: World, granted: list[set[str]]) -> None:
    """A tenant gets a column, or loses one; what it follows with it ends."""
    who = w.random.randrange(len(granted))
    column = w.random.choice(NAMES[1:])
    if column in granted[who]:
        w.run(None, f"REVOKE SELECT ({column}) ON doc FROM u{who}")
        granted[who].discard(column)
        for key in [k for k in w.following if k[0] == who]:
            w.following.pop(key).close()
            del w.told[key]
    else:
        w.run(None, f"GRANT SELECT ({column}) ON doc TO u{who}")
        granted[who].add(column)


SHAPES = (
    "SELECT {} FROM doc",
    "SELECT {} FROM doc ORDER BY {o} LIMIT 100",
    "SELECT {} FROM doc d WHERE d.{o} IS NOT NULL",
    "SELECT {} FROM doc WHERE EXISTS (SELECT e.{o} FROM doc e WHERE e.{o} = doc.{o})",
    "SELECT {} FROM (SELECT * FROM doc) AS x",
    "SELECT {} FROM doc GROUP BY {}",
    "WITH x AS (TABLE doc) SELECT {} FROM x",
)


def _text(shape: str, columns: list[str], other: str) -> str:
    return shape.replace("{}", ", ".join(columns)).replace("{o}", other)


def _asked(w: World, number: int, granted: set[str]) -> None:
    """A random question of a tenant, answered exactly if it reads nothing else than what is granted."""
    who, known = w.tenants[number]
    r = w.random
    shape, columns, other = r.choice(SHAPES), r.sample(NAMES, r.randint(1, 3)), r.choice(NAMES)
    reads = {*columns, other} if "{o}" in shape else {*columns}
    text = _text(shape, columns, other)
    own = [tuple(row[NAMES.index(c)] for c in columns) for row in w.visible(known)]
    with acting(who):
        if reads <= granted:
            wanted = Counter({*own}) if "GROUP" in shape else Counter(own)
            assert Counter(w.db.sql(text).rows()) == wanted, (text, granted)
            return
        with pytest.raises(ev.EverviewError) as refused:
            w.db.sql(text)
        hidden = [c if c in granted else "nothing" for c in columns]
        with pytest.raises(ev.EverviewError) as unknown:
            w.db.sql(_text(shape, hidden, other if other in granted else "nothing"))
        assert refused.value.code == unknown.value.code == "E_COLUMN", (text, granted)


def _followed(w: World, number: int, granted: set[str]) -> None:
    who, _ = w.tenants[number]
    if (number, 0, "") in w.following:
        return
    with acting(who):
        w.following[number, 0, ""] = w.db.sql(f"SUBSCRIBE TO (SELECT {', '.join(sorted(granted))} FROM doc)")
    w.told[number, 0, ""] = Counter()


def _check(w: World, granted: list[set[str]], at_begin: dict[int, tuple[str, ...]]) -> None:
    for number, (who, known) in enumerate(w.tenants):
        have = [c for c in NAMES if c in granted[number]]
        own: list[tuple[Any, ...]] = [tuple(row[NAMES.index(c)] for c in have) for row in w.visible(known)]
        with acting(who):
            assert Counter(w.db.sql("SELECT * FROM doc").rows()) == Counter(own)
    for (number, _, _), subscription in w.following.items():
        told = w.told[number, 0, ""]
        for batch in subscription:
            for row, diff in batch.rows():
                told[row] += diff
        columns = at_begin[number]
        rows = [tuple(row[NAMES.index(c)] for c in columns) for row in w.visible(w.tenants[number][1])]
        assert {row: n for row, n in told.items() if n} == dict(Counter(rows)), (number, POLICIES[w.policy][0])


def campaign(seed: int, steps: int) -> None:
    """Rows, grants and questions, in turn."""
    w = world(seed)
    w.db.sql("REVOKE SELECT ON doc FROM app")
    granted: list[set[str]] = []
    for number in range(len(w.tenants)):
        columns = {"id", *w.random.sample(NAMES[1:], w.random.randint(0, 2))}
        w.db.sql(f"GRANT SELECT ({', '.join(sorted(columns))}) ON doc TO u{number}")
        granted.append(columns)
    at_begin: dict[int, tuple[str, ...]] = {}
    with w.db:
        for _ in range(steps):
            _change(w)
            if w.random.random() < 0.3:
                _grant(w, granted)
            number = w.random.randrange(len(w.tenants))
            if w.random.random() < 0.3 and (number, 0, "") not in w.following:
                _followed(w, number, granted[number])
                at_begin[number] = tuple(sorted(granted[number]))
            for each in range(len(w.tenants)):
                _asked(w, each, granted[each])
            _check(w, granted, at_begin)


@pytest.mark.parametrize("seed", [1, 4])
def test_random_columns(seed: int) -> None:
    campaign(seed, 15)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200, 220))
def test_many_random_columns(seed: int) -> None:
    campaign(seed, 60)
