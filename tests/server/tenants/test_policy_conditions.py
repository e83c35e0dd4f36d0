"""What a condition of a policy reads: its own table, the clock, functions of the current user."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

import everview as ev
from everview.session.rights.principal import acting
from everview.sql import statements_of
from everview.sql.rights import visible_relations
from everview.sql.rights.shares import Computed
from tests.server.tenants.asking import ANN, BOB, refused, rows


@pytest.fixture
def db() -> Iterator[Any]:
    with ev.connect() as session:
        session.sql("CREATE ROLE app; CREATE USER ann IN ROLE app; CREATE USER bob IN ROLE app")
        yield session


def policied(db: Any, columns: str, *policies: str) -> None:
    """A table t with policies."""
    db.sql(f"CREATE TABLE t ({columns}); GRANT SELECT, INSERT, UPDATE, DELETE ON t TO app")
    for number, policy in enumerate(policies):
        db.sql(f"CREATE POLICY p{number} ON t {policy}")
    db.sql("ALTER TABLE t ENABLE ROW LEVEL SECURITY")


# its own table


def test_a_condition_on_new_rows_reads_the_table_and_not_the_new_rows(db: Any) -> None:
    """Two rows for each owner: the new ones are not counted instead of those that are there."""
    policied(
        db,
        "id int PRIMARY KEY, owner text",
        "FOR SELECT USING (owner = current_user)",
        "FOR INSERT WITH CHECK ((SELECT count(*) FROM t x WHERE x.owner = t.owner) < 2)",
    )
    for who, name, first in ((ANN, "ann", 1), (BOB, "bob", 11)):
        for key in (first, first + 1):
            rows(db, f"INSERT INTO t VALUES ({key}, '{name}')", who)
        refused(db, f"INSERT INTO t VALUES ({first + 2}, '{name}')", who)
        with acting(who), pytest.raises(ev.EverviewError, match="not allowed by its policies"):
            db["t"].insert([(first + 3, name)])
    with acting(ANN), pytest.raises(ev.EverviewError), db.transaction():
        db.sql("DELETE FROM t WHERE id = 1")
        db.sql("INSERT INTO t VALUES (3, 'ann')")
        db.sql("INSERT INTO t VALUES (4, 'ann')")  # her own third: what the transaction has changed counts
    assert sorted(db["t"].rows()) == [(1, "ann"), (2, "ann"), (11, "bob"), (12, "bob")]


def test_a_free_place_is_looked_up_in_the_table(db: Any) -> None:
    policied(db, "id int PRIMARY KEY, place int", "WITH CHECK (NOT EXISTS (SELECT 1 FROM t x WHERE x.place = t.place))")
    rows(db, "INSERT INTO t VALUES (1, 5)")
    refused(db, "INSERT INTO t VALUES (2, 5)", BOB)
    rows(db, "INSERT INTO t VALUES (2, 6)", BOB)
    assert sorted(db["t"].rows()) == [(1, 5), (2, 6)]


def test_rows_below_ones_own_can_be_changed(db: Any) -> None:
    policied(
        db,
        "id int PRIMARY KEY, owner text, parent int",
        "USING (owner = current_user OR parent IN (SELECT x.id FROM t x WHERE x.owner = current_user))",
    )
    db.sql("INSERT INTO t VALUES (1, 'ann', NULL), (2, 'bob', 1), (3, 'bob', 2)")
    assert [row[0] for row in rows(db, "SELECT * FROM t")] == [1, 2]
    rows(db, "DELETE FROM t WHERE id = 2")
    rows(db, "INSERT INTO t VALUES (4, 'bob', 1)")
    refused(db, "INSERT INTO t VALUES (5, 'bob', 3)")
    with acting(ANN), pytest.raises(ev.EverviewError):
        db["t"].delete([(3, "bob", 2)])
    assert [row[0] for row in sorted(db["t"].rows())] == [1, 3, 4]


# the clock

START = dt.datetime(2026, 1, 1, 12)


@pytest.fixture
def timed(db: Any) -> Any:
    """Rows that are there for a while; the clock stands still until a test moves it."""
    db.advance(START)
    policied(db, "id int PRIMARY KEY, until timestamp", "USING (until > now())")
    db.sql("INSERT INTO t VALUES (1, TIMESTAMP '2026-01-01 12:30:00'), (2, TIMESTAMP '2026-01-01 13:30:00')")
    return db


def later(db: Any, hours: float = 1) -> None:
    db.advance(START + dt.timedelta(hours=hours))


def test_a_condition_on_new_rows_knows_what_time_it_is(timed: Any) -> None:
    with acting(ANN):
        timed["t"].insert([(3, START + dt.timedelta(minutes=30))])
    later(timed)
    with acting(ANN):
        for change in (
            lambda: timed["t"].insert([(4, START + dt.timedelta(minutes=30))]),
            lambda: timed["t"].delete([(3, START + dt.timedelta(minutes=30))]),
        ):
            with pytest.raises(ev.EverviewError, match="not allowed by its policies"):
                change()
    assert [row[0] for row in sorted(timed["t"].rows())] == [1, 2, 3]


def test_a_change_that_is_repeated_knows_what_time_it_is(timed: Any) -> None:
    """Bound once with slots for its values, it would go on with the time of its second execution."""
    sql = statements_of(timed)
    timed.sql("INSERT INTO t VALUES (5, TIMESTAMP '2026-01-01 12:30:00'), (6, TIMESTAMP '2026-01-01 12:30:00')")
    with acting(ANN):
        from everview.sql.answers.parameter_values import Given
        from everview.types import INT

        def delete(key: int) -> int | None:
            text, given = "DELETE FROM t WHERE id = $1", Given({"1": INT}, {"1": key})
            change = sql.bound_change(text, given)
            if change is not None:
                sql.run_again(change, text)
            else:
                sql.parameters = given
                sql.run(text)
                sql.parameters = None
            return sql.affected

        assert [delete(5), delete(6), delete(99)] == [1, 1, 0]
        later(timed)
        assert delete(1) == 0
    assert [row[0] for row in sorted(timed["t"].rows())] == [1, 2]


@pytest.mark.parametrize("query", ["", "SELECT * FROM t"])
def test_who_follows_it_hears_when_a_row_is_over(timed: Any, query: str) -> None:
    told: Counter[int] = Counter()

    def hear(batch: Any) -> None:
        for row, diff in batch.rows():
            told[row[0]] += diff

    with acting(ANN):
        sql = statements_of(timed)
        text = f"({query})" if query else "t"
        following = timed.sql(f"SUBSCRIBE TO {text}")
        following.listen(hear)
        seen = visible_relations.seen(timed, "t")
        assert isinstance(seen, Computed) and sorted(r[0] for r in seen.rows()) == [1, 2]
    for batch in following:
        hear(batch)
    assert +told == {1: 1, 2: 1}
    later(timed)
    timed.sql("INSERT INTO t VALUES (7, TIMESTAMP '2026-01-01 12:59:00'), (8, TIMESTAMP '2026-01-01 13:01:00')")
    for batch in following:
        hear(batch)
    assert {k for k, n in told.items() if n} == {2, 8} and sql is not None
    following.close()


def test_what_cannot_move_with_the_clock_is_refused(timed: Any) -> None:
    timed.sql("GRANT CREATE ON SCHEMA public TO app")
    with acting(ANN), pytest.raises(ev.EverviewError) as error:
        timed.datalog("p(X) :- t(X, _).")
    assert error.value.code == "E_UNSUPPORTED" and "clock" in str(error.value)
    rows(timed, "CREATE VIEW mine AS SELECT id FROM t")
    later(timed)
    assert rows(timed, "SELECT * FROM mine") == [(2,)]


# functions of the current user


@pytest.mark.parametrize("body", ["current_user", "current_setting('tenant')", "current_setting('tenant', true)"])
def test_functions_in_a_condition_are_about_the_reader(db: Any, body: str) -> None:
    """A function is bound with its author's rights, as the condition is; who asks is the reader all the same."""
    db.sql(f"CREATE FUNCTION me() RETURNS text LANGUAGE SQL AS $$ SELECT {body} $$")
    policied(db, "id int PRIMARY KEY, owner text", "USING (owner = me())")
    theirs = ("ann", "bob") if body == "current_user" else ("a", "b")
    db.sql(f"INSERT INTO t VALUES (1, '{theirs[0]}'), (2, '{theirs[1]}'), (3, 'everview')")
    for who, key, name in ((ANN, 1, theirs[0]), (BOB, 2, theirs[1])):
        assert rows(db, "SELECT * FROM t", who) == [(key, name)]
        refused(db, "INSERT INTO t VALUES (9, 'everview')", who)
        rows(db, f"INSERT INTO t VALUES ({key + 10}, '{name}')", who)
        for query in ("t", "(SELECT id FROM t WHERE id > 0)"):
            with acting(who):
                following = db.sql(f"SUBSCRIBE TO {query}")
            told = [row[0] for batch in following for row, _ in batch.rows()]
            assert sorted(told) == [key, key + 10], (who, query)
            following.close()
    db.sql("GRANT CREATE ON SCHEMA public TO app")
    rows(db, "CREATE VIEW mine AS SELECT id FROM t")
    db.sql("GRANT SELECT ON mine TO bob")
    assert [row[0] for row in rows(db, "SELECT * FROM mine")] == [1, 11]
    refused(db, "SELECT * FROM mine", BOB)


# earlier times

MEMBERS = (
    "CREATE TABLE member (who text, team text); INSERT INTO member VALUES ('ann', 'a'), ('ann', 'b'), ('bob', 'b')"
)
BY_MEMBER = "team IN (SELECT m.team FROM member m WHERE m.who = current_user)"


@pytest.mark.parametrize("form", ["subquery", "function"])
def test_the_past_is_for_those_who_have_rights_now(db: Any, form: str) -> None:
    """Ann was in two teams. AS OF, the rows are those of then, and the memberships those of now."""
    db.sql(MEMBERS)
    condition = BY_MEMBER
    if form == "function":
        body = "SELECT t IN (SELECT m.team FROM member m WHERE m.who = current_user)"
        db.sql(f"CREATE FUNCTION ours(t text) RETURNS boolean LANGUAGE SQL AS $$ {body} $$")
        condition = "ours(team)"
    policied(db, "id int, team text", f"USING ({condition})")
    db.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    then = db.time
    assert rows(db, "SELECT id FROM t") == [(1,), (2,)]
    db.sql("DELETE FROM member WHERE who = 'ann' AND team = 'b'; INSERT INTO member VALUES ('bob', 'a')")
    db.sql("DELETE FROM t")
    assert rows(db, "SELECT id FROM t") == []
    assert rows(db, f"SELECT id FROM t AS OF {then}") == [(1,)]
    assert rows(db, f"SELECT id FROM t AS OF {then}", BOB) == [(1,), (2,)]
    db.sql("DROP POLICY p0 ON t")
    assert rows(db, f"SELECT id FROM t AS OF {then}") == []
    db.sql("ALTER TABLE t DISABLE ROW LEVEL SECURITY")
    assert rows(db, f"SELECT id FROM t AS OF {then}") == [(1,), (2,)]


def test_a_table_that_decides_and_is_read_has_both_times(db: Any) -> None:
    """A policy about other rows of its own table, and a query that reads what the policy reads."""
    policied(
        db,
        "id int PRIMARY KEY, owner text, parent int",
        "USING (owner = current_user OR parent IN (SELECT x.id FROM t x WHERE x.owner = current_user))",
    )
    db.sql("INSERT INTO t VALUES (1, 'ann', NULL), (2, 'bob', 1), (3, 'bob', 4), (4, 'bob', NULL)")
    then = db.time
    db.sql("UPDATE t SET owner = 'bob' WHERE id = 1; UPDATE t SET owner = 'ann' WHERE id = 4")
    assert [row[0] for row in rows(db, "SELECT * FROM t")] == [3, 4]
    assert [row[0] for row in rows(db, f"SELECT * FROM t AS OF {then}")] == [1, 3]
    db.sql(MEMBERS + "; GRANT SELECT ON member TO app; CREATE TABLE u (team text); INSERT INTO u VALUES ('a'), ('b')")
    db.sql(
        f"GRANT SELECT ON u TO app; CREATE POLICY p ON u USING ({BY_MEMBER}); ALTER TABLE u ENABLE ROW LEVEL SECURITY"
    )
    then = db.time
    db.sql("DELETE FROM member WHERE who = 'ann' AND team = 'a'")
    assert rows(db, f"SELECT u.team, m.who FROM u JOIN member m ON m.team = u.team AND m.who = 'ann' AS OF {then}") == [
        ("b", "ann")
    ]
    assert rows(db, f"SELECT count(*) AS n FROM member AS OF {then}") == [(3,)]


# names that would mean something else

CAPTURED = [
    ("EXISTS (SELECT 1 FROM member WHERE who = current_user AND member.team = place)", "place"),
    ("EXISTS (SELECT 1 FROM member WHERE who = current_user AND member.team = PLACE)", "Place"),
    ("place IN (SELECT m.team FROM member m WHERE m.who = current_user AND place <> 'x')", "place"),
    ("in_team(place)", "p"),
]


@pytest.mark.parametrize(("condition", "column"), CAPTURED)
def test_a_new_column_does_not_change_what_a_condition_says(db: Any, condition: str, column: str) -> None:
    """`place` is the row's. A column of this name in `member` would be nearer, and equal to what its owner wants."""
    db.sql(MEMBERS + "; ALTER TABLE member OWNER TO bob")
    body = "SELECT EXISTS (SELECT 1 FROM member WHERE who = current_user AND team = p)"
    db.sql(f"CREATE FUNCTION in_team(p text) RETURNS boolean LANGUAGE SQL AS $$ {body} $$")
    policied(db, "id int, place text", f"USING ({condition})")
    db.sql("INSERT INTO t VALUES (1, 'a'), (2, 'c')")
    assert rows(db, "SELECT id FROM t") == [(1,)]
    text = f"ALTER TABLE member ADD COLUMN {column} text DEFAULT 'c'"
    for who in (BOB, None):
        assert "reads member, and a" in refused(db, text, who, "E_IN_USE")
    rows(db, "ALTER TABLE member ADD COLUMN since text", BOB)
    assert rows(db, "SELECT id FROM t") == [(1,)]
    db.sql("DROP POLICY p0 ON t")
    db.sql(text)


def test_what_a_replaced_function_reads_keeps_its_name(db: Any) -> None:
    db.sql(MEMBERS + "; CREATE TABLE other (who text); INSERT INTO other VALUES ('ann')")
    db.sql("CREATE FUNCTION inner_one() RETURNS boolean LANGUAGE SQL AS $$ SELECT true $$")
    db.sql("CREATE FUNCTION let_in() RETURNS boolean LANGUAGE SQL AS $$ SELECT inner_one() $$")
    policied(db, "id int", "USING (let_in())")
    db.sql("INSERT INTO t VALUES (1)")
    body = "SELECT EXISTS (SELECT 1 FROM other WHERE who = current_user)"
    db.sql(f"CREATE OR REPLACE FUNCTION let_in() RETURNS boolean LANGUAGE SQL AS $$ {body} $$")
    assert rows(db, "SELECT id FROM t") == [(1,)] and rows(db, "SELECT id FROM t", BOB) == []
    for text in ("DROP TABLE other", "ALTER TABLE other RENAME TO x", "DROP FUNCTION let_in"):
        refused(db, text, None, "E_IN_USE")
