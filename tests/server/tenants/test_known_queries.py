"""Queries that are bound once for many users: whoever follows one hears what is theirs, as if it were bound anew.

The reference is the same session without what is kept: each statement of a random sequence is run in both, and what
every follower is told, or the error that it gets, must be the same. Users have one role and different attributes, so
they share what is kept wherever that is allowed.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

import everview as ev
from everview.session.core import core_of
from everview.session.rights.principal import Principal, acting
from everview.sql.rights import known_queries, shared_queries
from everview.sql.statements import Statements
from tests.server.tenants.conftest import Tenants

TEXTS = [
    "SELECT v, count(*) AS c FROM doc GROUP BY v",
    "SELECT * FROM doc",
    "SELECT * FROM own_docs",
    "SELECT id, current_setting('tenant') AS t FROM doc",
    "SELECT id FROM doc WHERE v = current_setting('v', true)",
    "SELECT id, current_user AS me FROM doc",
    "SELECT count(*) AS c FROM ann_docs",
    "SELECT d.id FROM doc d JOIN doc e ON d.n = e.n AND d.id <= e.id",
    "SELECT DISTINCT twice(n) AS n FROM doc",
    "SELECT id FROM other.doc",
    "SELECT id, w FROM doc",
    "WITH RECURSIVE r (n) AS (SELECT n FROM doc UNION SELECT n + 1 FROM r WHERE n < 5) SELECT n FROM r",
]

POLICIES = [
    "tenant = current_setting('tenant')",
    "tenant = current_setting('tenant') AND n < current_setting('level')::int",
    "n = current_setting('level')::int",
    "tenant = current_setting('tenant') OR v = current_setting('v', true)",
    "true",
]

CHANGES = [
    *(f"ALTER POLICY p ON doc USING ({policy})" for policy in POLICIES),
    "REVOKE SELECT ON doc FROM app",
    "GRANT SELECT ON doc TO app",
    "REVOKE SELECT ON doc FROM app; GRANT SELECT (id, tenant, n, v) ON doc TO app",
    "CREATE SCHEMA other; CREATE TABLE other.doc (id int); INSERT INTO other.doc VALUES (7)",
    "GRANT USAGE ON SCHEMA other TO app; GRANT SELECT ON other.doc TO app",
    "ALTER TABLE doc ADD COLUMN IF NOT EXISTS w int",
    "ALTER TABLE doc DISABLE ROW LEVEL SECURITY",
    "ALTER TABLE doc ENABLE ROW LEVEL SECURITY",
]


class World:
    """One session, and what its followers have been told."""

    def __init__(self) -> None:
        self.db: Any = ev.connect()
        self.db.sql("""
            CREATE TABLE doc (id int PRIMARY KEY, tenant text, n int, v text);
            CREATE ROLE app LOGIN; GRANT SELECT ON doc TO app; GRANT CREATE ON SCHEMA public TO app;
            CREATE POLICY p ON doc USING (tenant = current_setting('tenant'));
            ALTER TABLE doc ENABLE ROW LEVEL SECURITY;
        """)
        self.db.function("twice", lambda n: 2 * n, returns=int)
        self.db.sql("GRANT EXECUTE ON FUNCTION twice TO app; CREATE VIEW own_docs AS SELECT * FROM doc")
        self.db.sql("GRANT SELECT ON own_docs TO app; ALTER VIEW own_docs ENABLE ROW LEVEL SECURITY")
        self.db.sql("CREATE POLICY q ON own_docs USING (tenant = current_setting('tenant'))")
        with acting(Principal("app", {"tenant": "a", "level": 3})):
            self.db.sql("CREATE VIEW ann_docs AS SELECT id FROM doc WHERE tenant = current_setting('tenant')")
        self.followed: list[Any] = []
        self.told: list[Counter[Any]] = []

    def run(self, who: Principal | None, text: str) -> str:
        """Have somebody do something; returns the error, if any."""
        try:
            with acting(who):
                self.db.sql(text)
        except ev.EverviewError as error:
            return str(error)
        return ""

    def follow(self, who: Principal, text: str) -> str:
        try:
            with acting(who):
                found = self.db.sql(f"SUBSCRIBE TO ({text})")
        except ev.EverviewError as error:
            return re.sub(r"\(shared \d+\)", "(shared)", str(error))  # they are counted in the whole process
        self.followed.append(found)
        self.told.append(Counter())
        return ",".join(found.columns)

    def heard(self) -> list[Counter[Any]]:
        """What each follower knows by now."""
        for told, found in zip(self.told, self.followed, strict=True):
            for batch in found:
                for row, diff in batch.rows():
                    told[row] += diff
        return [Counter({row: n for row, n in told.items() if n}) for told in self.told]

    def leave(self, at: int) -> None:
        self.followed.pop(at).close()
        del self.told[at]


@pytest.fixture
def forgetting(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[World]]:
    """Sessions in which nothing is found that was kept."""
    forgetful: list[World] = []
    find = known_queries.KnownQueries.find

    def finding(kept: Any, sql: Any, source: Any, who: Principal) -> Any:
        found = find(kept, sql, source, who)
        hits.append(found is not None)
        return None if any(sql.core is core_of(w.db) for w in forgetful) else found

    hits: list[bool] = []
    monkeypatch.setattr(known_queries.KnownQueries, "find", finding)
    yield forgetful
    assert any(hits), "nothing was found that was kept: the test compares nothing"


def somebody(r: random.Random) -> Principal:
    attributes: dict[str, Any] = {"tenant": r.choice("ab"), "level": r.choice([1, 3, "3", "many"])}
    if r.random() < 0.5:
        attributes["v"] = r.choice(["x", "y", "1", 1, True, 1.0])
    if r.random() < 0.1:
        del attributes[r.choice(["tenant", "level"])]
    return Principal("app", attributes)


def row(r: random.Random) -> str:
    return f"({r.randrange(1000)}, '{r.choice('ab')}', {r.randrange(1, 4)}, '{r.choice('xy')}')"


def campaign(seed: int, forgetting: list[World], steps: int) -> None:
    r, worlds = random.Random(seed), [World(), World()]
    forgetting.append(worlds[1])
    for _ in range(steps):
        kind, at = r.random(), r.randrange(1000)
        if kind < 0.35:
            text = f"INSERT INTO doc (id, tenant, n, v) VALUES {row(r)}"
            said = [w.run(None, text) for w in worlds]
        elif kind < 0.4:
            said = [w.run(None, f"DELETE FROM doc WHERE id < {at}") for w in worlds]
        elif kind < 0.45:
            text = r.choice(CHANGES)
            said = [w.run(None, text) for w in worlds]
        elif kind < 0.47:
            factor = r.randrange(1, 5)
            for w in worlds:
                w.db.function("twice", lambda n, by=factor: by * n, returns=int)
            said = ["", ""]
        elif kind < 0.55 and worlds[0].followed:
            for w in worlds:
                w.leave(at % len(w.followed))
            said = ["", ""]
        else:
            who, text = somebody(r), r.choice(TEXTS)
            said = [w.follow(who, text) for w in worlds]
        assert said[0] == said[1]
        assert worlds[0].heard() == worlds[1].heard()
    for w in worlds:
        for found in w.followed:
            found.close()
        assert not core_of(w.db).attached.get("trunks"), "what nobody follows is given back"
        w.db.close()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_random_followers_hear_the_same_as_if_bound_anew(seed: int, forgetting: list[World]) -> None:
    campaign(seed, forgetting, 60)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 120))
def test_many_random_followers(seed: int, forgetting: list[World]) -> None:
    campaign(seed, forgetting, 250)


def bound(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The queries that are bound from now on."""
    found: list[str] = []
    alone = shared_queries._alone

    def binding(sql: Any, tree: Any, source: Any) -> Any:
        found.append(source.text.strip())
        return alone(sql, tree, source)

    monkeypatch.setattr(shared_queries, "_alone", binding)
    return found


def test_a_query_is_bound_once_for_all_values_of_a_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    w = World()
    w.run(None, "INSERT INTO doc VALUES (1, 'a', 1, 'x'), (2, 'b', 1, 'x'), (3, 't9', 1, 'y')")
    found = bound(monkeypatch)
    for tenant in ("a", "b", *(f"t{i}" for i in range(20))):
        assert w.follow(Principal("app", {"tenant": tenant}), TEXTS[0]) == "v,c"
    assert len(found) == 1
    told = w.heard()
    assert told[:2] == [{("x", 1): 1}, {("x", 1): 1}] and told[11] == {("y", 1): 1} and not any(told[12:])


@pytest.mark.parametrize("text", [TEXTS[3], TEXTS[4], TEXTS[5]])
def test_attributes_in_the_text_are_everybodys_own(text: str) -> None:
    w = World()
    w.run(None, "INSERT INTO doc VALUES (1, 'a', 1, 'x'), (2, 'b', 1, 'y')")
    for _ in range(2):
        for tenant, v in (("a", "x"), ("b", "y"), ("b", "x"), ("a", "y")):
            w.follow(Principal("app", {"tenant": tenant, "v": v}), text)
    told = w.heard()
    assert told[:4] == told[4:]
    if text is TEXTS[3]:
        assert [list(t) for t in told[:4]] == [[(1, "a")], [(2, "b")], [(2, "b")], [(1, "a")]]
    if text is TEXTS[4]:
        assert [list(t) for t in told[:4]] == [[(1,)], [(2,)], [], []]


def test_claims_that_are_equal_in_python_are_different_attributes() -> None:
    w = World()
    w.run(None, "INSERT INTO doc VALUES (1, 'a', 1, 'x')")
    for _ in range(2):
        for claim in (True, 1, 1.0, "1", False, 0):
            w.follow(Principal("app", {"tenant": "a", "v": claim}), "SELECT current_setting('v') AS v FROM doc")
    assert [next(iter(t))[0] for t in w.heard()] == ["true", "1", "1.0", "1", "false", "0"] * 2


def test_attributes_whose_names_differ_by_a_dot_are_two() -> None:
    w = World()
    w.run(None, "ALTER POLICY p ON doc USING (tenant = current_setting('a.b') AND v = current_setting('a_b'))")
    w.run(None, "INSERT INTO doc VALUES (1, 'a', 1, 'x'), (2, 'b', 1, 'y'), (3, 'x', 1, 'a')")
    for one, other in (("a", "x"), ("x", "a"), ("b", "y"), ("a", "y")):
        assert w.follow(Principal("app", {"a.b": one, "a_b": other}), "SELECT DISTINCT id FROM doc") == "id"
    assert [list(t) for t in w.heard()] == [[(1,)], [(3,)], [(2,)], []]


def test_a_view_of_somebodys_attributes_is_not_shared() -> None:
    w = World()
    w.run(None, "INSERT INTO doc VALUES (1, 'a', 1, 'x')")
    ann, bob = Principal("app", {"tenant": "a", "level": 3}), Principal("app", {"tenant": "b", "level": 3})
    for _ in range(3):
        assert w.follow(ann, TEXTS[6]) == "c"
        assert "E_FORBIDDEN" in w.follow(bob, TEXTS[6])
    assert w.heard() == [{(1,): 1}] * 3


def test_a_row_that_cannot_be_computed_is_an_error_of_its_tenant_only() -> None:
    w = World()
    w.run(None, "INSERT INTO doc VALUES (1, 'a', 1, '5'), (2, 'b', 1, 'no number')")
    text = "SELECT id, v::int AS n FROM doc"
    for _ in range(3):
        assert w.follow(Principal("app", {"tenant": "a"}), text) == "id,n"
        assert "E_ROWS" in w.follow(Principal("app", {"tenant": "b"}), text)
    assert w.heard() == [{(1, 5): 1}] * 3


def test_hidden_tables_go_with_their_last_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    w = World()
    w.run(None, "CREATE TABLE day (d date); GRANT SELECT ON day TO app; INSERT INTO day VALUES ('2000-01-01')")
    found = bound(monkeypatch)
    for number in range(3):
        assert w.follow(Principal("app", {"tenant": "a"}), "SELECT d FROM day WHERE d < now()") == "d"
        assert len(found) == number + 1 and [len(t) for t in w.heard()] == [1]
        w.leave(0)


def test_the_next_client_of_the_wire_binds_nothing(tenants: Tenants, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither to tell the columns nor to follow; each is told what is theirs."""
    text = "SELECT v, count(*) AS c FROM doc GROUP BY v"
    told = []
    for number in range(3):
        with tenants.psycopg("ann") as ann, tenants.psycopg("bob") as bob:
            found = bound(monkeypatch) if number else []
            shapes = shaped(monkeypatch) if number else []
            for one in (ann, bob):
                one.execute("BEGIN")
                one.execute(f"DECLARE c CURSOR FOR SUBSCRIBE TO ({text})")
                told.append(sorted(row[2:] for row in one.execute("FETCH ALL c").fetchall()))
            assert not found and not shapes
    assert told == [[("1", 1), ("5", 1)], [("x", 1)]] * 3


def shaped(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The queries whose columns are looked for from now on."""
    found: list[str] = []
    shape = Statements._shape

    def looking(sql: Any, text: str, look: Any) -> Any:
        found.append(text)
        return shape(sql, text, look)

    monkeypatch.setattr(Statements, "_shape", looking)
    return found
