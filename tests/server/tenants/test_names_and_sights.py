"""What policies read keeps its name, and a view shows no more than its owner may see."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import everview as ev
from everview.session.core import core_of
from everview.session.rights.principal import acting
from everview.session.rights.roles import Policy, read_rights, written
from tests.server.tenants.asking import ANN, BOB, refused, rows
from tests.server.tenants.conftest import Tenants

SETUP = """
CREATE ROLE app; CREATE USER ann IN ROLE app; CREATE USER bob IN ROLE app;
GRANT CREATE ON SCHEMA public TO app;
CREATE TABLE member (who text, tenant text);
INSERT INTO member VALUES ('ann', 'a'), ('bob', 'b');
CREATE VIEW grown AS SELECT who, tenant FROM member;
CREATE FUNCTION me() RETURNS text LANGUAGE SQL AS $$ SELECT current_user $$;
CREATE FUNCTION theirs(w text) RETURNS text LANGUAGE SQL AS $$ SELECT max(m.tenant) FROM member m WHERE m.who = w $$;
CREATE TABLE doc (id int PRIMARY KEY, tenant text, n int);
INSERT INTO doc VALUES (1, 'a', 471), (2, 'b', 471);
GRANT SELECT ON doc TO app;
"""


@pytest.fixture
def db() -> Iterator[Any]:
    with ev.connect() as session:
        session.sql(SETUP)
        yield session


def guard(db: Any, condition: str) -> None:
    db.sql(f"CREATE POLICY p ON doc USING ({condition}); ALTER TABLE doc ENABLE ROW LEVEL SECURITY")


# names

BY_MEMBER = "tenant IN (SELECT m.tenant FROM member m WHERE m.who = current_user)"
BY_VIEW = "tenant IN (SELECT m.tenant FROM grown m WHERE m.who = me())"
BY_FUNCTION = "tenant = theirs(current_user)"


@pytest.mark.parametrize(
    ("condition", "statement"),
    [
        (BY_MEMBER, "DROP TABLE member CASCADE"),
        (BY_MEMBER, "ALTER TABLE member RENAME TO other"),
        (BY_MEMBER, "ALTER TABLE member RENAME COLUMN who TO whose"),
        (BY_VIEW, "DROP VIEW grown"),
        (BY_VIEW, "DROP TABLE member CASCADE"),
        (BY_VIEW, "ALTER VIEW grown RENAME TO other"),
        (BY_VIEW, "DROP FUNCTION me"),
        (BY_FUNCTION, "DROP FUNCTION theirs CASCADE"),
        (BY_FUNCTION, "DROP TABLE member CASCADE"),
        (BY_FUNCTION, "ALTER TABLE member RENAME TO other"),
        ("n >= (SELECT max(d.n) FROM doc d) AND tenant = 'a'", "ALTER TABLE doc RENAME TO other"),
    ],
)
def test_what_a_policy_reads_cannot_be_replaced(db: Any, condition: str, statement: str) -> None:
    """Somebody who may create tables would else decide what the policy shows."""
    guard(db, condition)
    before = rows(db, "SELECT * FROM doc")
    assert [row[0] for row in before] == [1]
    said = refused(db, statement, None, "E_IN_USE")
    assert "the policy p on doc reads" in said and "DROP POLICY p ON doc" in said
    assert rows(db, "SELECT * FROM doc") == before
    db.sql("DROP POLICY p ON doc")
    db.sql(statement)


def test_a_table_goes_with_its_own_policies(db: Any) -> None:
    guard(db, "n >= (SELECT max(d.n) FROM doc d) AND tenant = 'a'")
    db.sql("DROP TABLE doc")
    assert ("relation", "doc") not in core_of(db).access.rights


def test_columns_that_a_policy_may_read_stay(db: Any) -> None:
    guard(db, BY_MEMBER)
    db.sql("DROP FUNCTION theirs; DROP VIEW grown")
    refused(db, "ALTER TABLE member DROP COLUMN who", None, "E_IN_USE")
    db.sql("ALTER TABLE member ADD COLUMN since int")
    assert [row[0] for row in rows(db, "SELECT * FROM doc")] == [1]


def test_the_owner_of_a_table_does_not_hear_whose_policy_reads_it(db: Any) -> None:
    db.sql("ALTER TABLE member OWNER TO ann; REVOKE SELECT ON doc FROM app")
    guard(db, BY_MEMBER)
    said = refused(db, "DROP TABLE member", ANN, "E_IN_USE")
    assert "a policy reads member" in said and "doc" not in said


def test_alter_policy_knows_what_it_reads_now(db: Any) -> None:
    guard(db, BY_MEMBER)
    db.sql("ALTER POLICY p ON doc USING (tenant = me())")
    db.sql("DROP TABLE member CASCADE")
    refused(db, "DROP FUNCTION me", None, "E_IN_USE")


def test_policies_of_older_directories_are_read_by_their_words(db: Any) -> None:
    old = Policy("p", using=BY_MEMBER)
    assert old.mentions("member") and old.mentions("s.member") and not old.mentions("grown")
    guard(db, BY_MEMBER)
    rights = core_of(db).access.rights["relation", "doc"]
    assert rights.policies[0].reads == ("member",) and read_rights(written(rights)) == rights


# views

CHANGES = [
    "ALTER TABLE doc ENABLE ROW LEVEL SECURITY",
    "REVOKE SELECT ON doc FROM app",
    "REVOKE app FROM ann",
    "ALTER POLICY q ON doc USING (n > 500)",
    "CREATE POLICY r ON doc AS RESTRICTIVE USING (n > 500)",
    "DROP POLICY q ON doc",
    "REVOKE SELECT ON doc FROM app; GRANT SELECT (id) ON doc TO app",
]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("way", ["sql", "view of a view", "rules"])
def test_a_view_ends_with_what_its_owner_might_see(db: Any, change: str, way: str) -> None:
    db.sql("CREATE POLICY q ON doc USING (n < 500)")
    if "ENABLE" not in change:
        db.sql("ALTER TABLE doc ENABLE ROW LEVEL SECURITY")
    name = {"sql": "mine", "view of a view": "above", "rules": "p"}[way]
    if way == "rules":
        with acting(ANN):
            db.datalog("p(X, Y, N) :- doc(X, Y, N).")
    else:
        rows(db, "CREATE VIEW mine AS SELECT * FROM doc")
    if way == "view of a view":
        rows(db, "CREATE VIEW above AS SELECT * FROM mine")
    with acting(ANN):
        db.sql(f"GRANT SELECT ON {name} TO bob")
    readers = (ANN,) if way == "rules" else (ANN, BOB)  # rules over policies are for their author's attributes
    assert [len(rows(db, f"SELECT * FROM {name}", who)) for who in readers] == [2] * len(readers)
    db.sql(change)
    for who in readers:
        for text in (f"SELECT * FROM {name}", f"SUBSCRIBE TO {name}"):
            assert "created" in refused(db, text, who)
    assert len(db.sql(f"SELECT * FROM {name}").rows()) == 2  # superusers see what is there
    with acting(ANN):
        db.sql(f"DROP VIEW {name}")


def test_what_does_not_concern_its_owner_leaves_a_view_alone(db: Any) -> None:
    db.sql("CREATE POLICY q ON doc USING (n < 500); ALTER TABLE doc ENABLE ROW LEVEL SECURITY")
    rows(db, "CREATE VIEW mine AS SELECT * FROM doc")
    db.sql("CREATE ROLE other; GRANT INSERT ON doc TO other; CREATE POLICY o ON doc TO other USING (false)")
    db.sql("ALTER TABLE doc RENAME TO paper; GRANT INSERT ON paper TO app; CREATE POLICY i ON paper FOR INSERT "
           "WITH CHECK (false)")  # fmt: skip
    assert len(rows(db, "SELECT * FROM mine")) == 2
    db.sql("CREATE USER boss SUPERUSER; ALTER VIEW mine OWNER TO boss; ALTER POLICY q ON paper USING (false)")
    db.sql("GRANT SELECT ON mine TO app")
    assert len(rows(db, "SELECT * FROM mine")) == 2  # a superuser shows it


def test_it_is_so_after_reopening(tmp_path: Path) -> None:
    with ev.connect(str(tmp_path / "d")) as db:
        db.sql(SETUP)
        guard(db, BY_MEMBER)
        rows(db, "CREATE VIEW mine AS SELECT * FROM doc")
        db.sql("ALTER TABLE doc RENAME TO paper")
        db.checkpoint()
    with ev.connect(str(tmp_path / "d")) as db:
        assert len(rows(db, "SELECT * FROM mine")) == 1
        refused(db, "DROP TABLE member CASCADE", None, "E_IN_USE")
        db.sql("ALTER POLICY p ON paper USING (false)")
        refused(db, "SELECT * FROM mine")


def test_streams_of_a_view_end_with_it(tenants: Tenants) -> None:
    """Over the wire: a stream of a view that Ann made, a look-up that she has prepared, a function that is replaced."""
    tenants.sql("GRANT CREATE ON SCHEMA public TO app; CREATE FUNCTION mine(t text) RETURNS boolean LANGUAGE SQL AS "
                "$$ SELECT t = current_setting('tenant') $$")  # fmt: skip
    tenants.sql("CREATE TABLE paper (id int PRIMARY KEY, tenant text); INSERT INTO paper VALUES (1, 'a'), (2, 'b')")
    tenants.sql("GRANT SELECT ON paper TO app; CREATE POLICY own ON paper USING (mine(tenant))")
    tenants.sql("ALTER TABLE paper ENABLE ROW LEVEL SECURITY")
    replace = "CREATE OR REPLACE FUNCTION mine(t text) RETURNS boolean LANGUAGE SQL AS $$ SELECT {} $$"

    def following(db: Any, what: str) -> None:
        db.execute("BEGIN")
        db.execute(f"DECLARE c CURSOR FOR SUBSCRIBE TO {what}")
        assert len(db.execute("FETCH ALL c").fetchall()) == 1

    with tenants.psycopg("ann") as ann, tenants.psycopg("ann") as other:
        following(ann, "paper")
        tenants.sql(replace.format("false"))
        with pytest.raises(psycopg.Error, match="rights to what is followed have changed"):
            ann.execute("FETCH ALL c WITH (timeout = '5s')").fetchall()
        ann.execute("ROLLBACK")
        tenants.sql(replace.format("t = current_setting('tenant')"))
        ann.execute("CREATE VIEW shown AS SELECT * FROM paper")
        following(ann, "shown")
        for _ in range(7):
            assert other.execute("SELECT id FROM shown WHERE id = %s", (1,), prepare=True).fetchall() == [(1,)]
        tenants.sql("REVOKE SELECT ON paper FROM app")
        with pytest.raises(psycopg.Error, match="when it was created"):
            other.execute("SELECT id FROM shown WHERE id = %s", (1,), prepare=True).fetchall()
        with pytest.raises(psycopg.Error, match="rights to what is followed have changed"):
            ann.execute("FETCH ALL c WITH (timeout = '5s')").fetchall()


LOOP = """WITH RECURSIVE r(a, b) AS (SELECT s, d FROM e UNION SELECT r.a, e.d FROM r JOIN e ON e.s = r.b)
          SELECT * FROM r WHERE a = 1"""


@pytest.mark.parametrize("way", ["loop", "provenance", "best plan"])
def test_a_plan_that_is_rewritten_is_still_for_its_creators_attributes(tenants: Tenants, way: str) -> None:
    """Ann grants a view of her rows to Bob, who has other attributes."""
    tenants.sql("GRANT CREATE ON SCHEMA public TO app; CREATE TABLE e (s int, d int, tenant text)")
    tenants.sql("GRANT SELECT ON e TO app; INSERT INTO e VALUES (1, 2, 'a'), (2, 3, 'a'), (7, 8, 'b')")
    tenants.sql("CREATE POLICY own ON e USING (tenant = current_setting('tenant'))")
    tenants.sql("ALTER TABLE e ENABLE ROW LEVEL SECURITY")
    client = tenants.client("ann")
    try:
        if way == "loop":
            client.sql(f"CREATE VIEW mine AS {LOOP}")
        elif way == "provenance":
            client.view("mine", client["e"].select("s"), provenance="lazy")
        else:
            one, two = client["e"], client["e"].rename(d="s", t="d")
            client.view("mine", one.join(two, on="d").select("s", "t"), plan="best")
        assert len(client["mine"].rows()) == {"loop": 2, "provenance": 2, "best plan": 1}[way]
    finally:
        client.close()
    with tenants.psycopg("ann") as ann, tenants.psycopg("bob") as bob:
        ann.execute("GRANT SELECT ON mine TO app")
        with pytest.raises(psycopg.Error, match="no table or view mine"):
            bob.execute("SELECT * FROM mine")
        assert len(ann.execute("SELECT * FROM mine").fetchall()) > 0
