"""Random tenants, policies and statements in one session, against an oracle that filters in Python.

The oracle has the rows of one table as a list, and each tenant's policy as a function of a row. After every statement
each tenant's view of the world is compared: by SQL, and by what its subscriptions have told so far, of the table and of
queries. `test_oracle_at_doors` does the same over every protocol.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

import everview as ev
from everview.session.rights.principal import Principal, acting
from everview.sql import statements_of

Row = tuple[int, str, int, str]

COLUMNS = "id, tenant, n, v"

POLICIES: list[tuple[str, Callable[[Row, dict[str, Any]], bool]]] = [
    ("tenant = current_setting('tenant')", lambda row, who: row[1] == who["tenant"]),
    ("tenant = current_setting('tenant') AND n < 5", lambda row, who: row[1] == who["tenant"] and row[2] < 5),
    ("tenant = current_setting('tenant') OR n = 9", lambda row, who: row[1] == who["tenant"] or row[2] == 9),
    ("n = current_setting('level')::int", lambda row, who: row[2] == who["level"]),
    ("tenant = current_setting('tenant') AND n = current_setting('level')::int",
     lambda row, who: row[1] == who["tenant"] and row[2] == who["level"]),
    ("tenant IN (SELECT m.tenant FROM member m WHERE m.who = current_user)",
     lambda row, who: row[1] in who["member of"]),
]  # fmt: skip

QUERIES: list[tuple[str, Callable[[list[Row]], list[tuple[Any, ...]]]]] = [
    ("SELECT * FROM doc", list),
    ("SELECT v, count(*) AS c FROM doc GROUP BY v", lambda rows: list(Counter(r[3] for r in rows).items())),
    ("SELECT a.id, b.id AS other FROM doc a JOIN doc b ON a.n = b.n AND a.id < b.id",
     lambda rows: [(a[0], b[0]) for a in rows for b in rows if a[2] == b[2] and a[0] < b[0]]),
    ("SELECT DISTINCT tenant FROM doc WHERE n > 2", lambda rows: list({(r[1],) for r in rows if r[2] > 2})),
    ("SELECT id FROM doc ORDER BY n DESC, id LIMIT 2",
     lambda rows: [(r[0],) for r in sorted(rows, key=lambda r: (-r[2], r[0]))[:2]]),
    ("SELECT id FROM doc d WHERE NOT EXISTS (SELECT 1 FROM doc e WHERE e.n > d.n)",
     lambda rows: [(r[0],) for r in rows if all(e[2] <= r[2] for e in rows)]),
]  # fmt: skip


@dataclass
class World:
    """The server's session, and what there should be."""

    db: Any
    random: random.Random
    rows: dict[int, Row] = field(default_factory=dict)
    tenants: list[tuple[Principal, dict[str, Any]]] = field(default_factory=list)
    policy: int = 0
    told: dict[tuple[int, int, str], Counter[Any]] = field(default_factory=dict)
    following: dict[tuple[int, int, str], Any] = field(default_factory=dict)

    def run(self, who: Principal | None, text: str) -> None:
        """Have somebody do something."""
        with acting(who):
            self.db.sql(text)

    def visible(self, who: dict[str, Any]) -> list[Row]:
        return [row for row in self.rows.values() if POLICIES[self.policy][1](row, who)]


def world(seed: int) -> World:
    db = ev.connect(files=False)
    db.sql("""
        CREATE TABLE doc (id int PRIMARY KEY, tenant text, n int, v text);
        CREATE TABLE member (who text, tenant text);
        CREATE ROLE app; GRANT SELECT, INSERT, UPDATE, DELETE ON doc TO app;
    """)
    made = World(db, random.Random(seed))
    for i, tenant in enumerate("abc"):
        level = made.random.randrange(4)
        db.sql(f"CREATE USER u{i} IN ROLE app; INSERT INTO member VALUES ('u{i}', '{tenant}'), ('u{i}', 'c')")
        who = Principal(f"u{i}", {"tenant": tenant, "level": level})
        made.tenants.append((who, {"tenant": tenant, "level": level, "member of": {tenant, "c"}}))
    made.policy = made.random.randrange(len(POLICIES))
    db.sql(f"CREATE POLICY p ON doc USING ({POLICIES[made.policy][0]}); ALTER TABLE doc ENABLE ROW LEVEL SECURITY")
    return made


def change(w: World) -> None:
    """A random statement of a random tenant, or of the owner; refused exactly where the policy says so."""
    r = w.random
    at = r.randrange(len(w.tenants) + 1)
    who, known = (None, None) if at == len(w.tenants) else w.tenants[at]
    allowed = (lambda row: True) if known is None else (lambda row: POLICIES[w.policy][1](row, known))
    key, row = r.randrange(12), (r.randrange(12), r.choice("abc"), r.choice([1, 2, 3, 6, 9]), r.choice("xyz"))
    kind = r.choice(["insert", "insert", "update", "delete", "upsert"])
    after = dict(w.rows)
    good = True
    if kind == "insert":
        text = f"INSERT INTO doc VALUES {row!r}"
        good = row[0] not in w.rows and allowed(row)
        after[row[0]] = row
    elif kind == "upsert":
        text = f"INSERT INTO doc VALUES {row!r} ON CONFLICT (id) DO UPDATE SET tenant = excluded.tenant, n = excluded.n"
        old = w.rows.get(row[0])
        good = allowed(row) if old is None else allowed(old) and allowed((old[0], row[1], row[2], old[3]))
        after[row[0]] = row if old is None else (old[0], row[1], row[2], old[3])
    elif kind == "update":
        text = f"UPDATE doc SET n = {row[2]}, tenant = '{row[1]}' WHERE id <= {key}"
        new = {i: (i, row[1], row[2], o[3]) for i, o in w.rows.items() if i <= key and allowed(o)}
        good = all(map(allowed, new.values()))
        after.update(new)
    else:
        text = f"DELETE FROM doc WHERE id >= {key}"
        after = {i: o for i, o in w.rows.items() if i < key or not allowed(o)}
    try:
        w.run(who, text)
    except ev.EverviewError as error:
        assert not good, (text, who, error)
        assert error.code in ("E_FORBIDDEN", "E_KEY")
    else:
        assert good, (text, who, w.rows)
        w.rows = after


def follow(w: World) -> None:
    """Some tenant begins to follow something, in some way; or stops."""
    key = w.random.randrange(len(w.tenants)), w.random.randrange(len(QUERIES)), w.random.choice(["default", "value"])
    if key in w.following:
        w.following.pop(key).close()
        del w.told[key]
        return
    who, _ = w.tenants[key[0]]
    sql = statements_of(w.db)
    with acting(who):
        w.db.sql(f"SET sharing = {key[2]}")
        w.following[key] = w.db.sql(f"SUBSCRIBE TO ({QUERIES[key[1]][0]})")
        w.db.sql("SET sharing = default")
    w.told[key] = Counter()
    assert sql.sharing is None


def check(w: World) -> None:
    everything = list(w.rows.values())
    assert sorted(w.db.sql("SELECT * FROM doc").rows()) == sorted(everything)
    for i, (who, known) in enumerate(w.tenants):
        own = w.visible(known)
        with acting(who):
            for text, answer in QUERIES if i == w.random.randrange(3) else QUERIES[:1]:
                assert Counter(w.db.sql(text).rows()) == Counter(answer(own)), (text, who)
    for key, subscription in w.following.items():
        told = w.told[key]
        for batch in subscription:
            for row, diff in batch.rows():
                told[row] += diff
        now = {row: n for row, n in told.items() if n}
        wanted = Counter(QUERIES[key[1]][1](w.visible(w.tenants[key[0]][1])))
        assert now == dict(wanted), (QUERIES[key[1]][0], key, POLICIES[w.policy][0])


def campaign(seed: int, steps: int) -> None:
    w = world(seed)
    try:
        for _ in range(steps):
            change(w)
            if w.random.random() < 0.3:
                follow(w)
            check(w)
        for subscription in w.following.values():
            subscription.close()
        assert not w.db._core.attached.get("trunks"), "what nobody follows is given back"
        assert [n for n in w.db._core.catalog.tables if "shared" in n] == []
    finally:
        w.db.close()


@pytest.mark.parametrize("seed", [2, 3, 5])
def test_random_tenants(seed: int) -> None:
    campaign(seed, 20)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 130))
def test_many_random_tenants(seed: int) -> None:
    campaign(seed, 60)
