"""Roles, rights and policies in one session: what is allowed, what is not, and that it is there after reopening."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

import everview as ev
from everview.session.core import core_of
from everview.session.rights.principal import Principal, acting
from tests.server.tenants.asking import ANN, BOB, refused, rows

SETUP = """
CREATE TABLE doc (id int PRIMARY KEY, tenant text, v text);
INSERT INTO doc VALUES (1, 'a', '1'), (2, 'b', 'x'), (3, 'a', '5');
CREATE TABLE secret (x int);
INSERT INTO secret VALUES (42);
CREATE VIEW total AS SELECT count(*) AS n FROM secret;
CREATE FUNCTION twice(n int) RETURNS int LANGUAGE SQL AS 'SELECT 2 * n';
CREATE INDEX by_x ON secret (x);
CREATE ROLE app LOGIN;
CREATE USER ann PASSWORD 'pw' IN ROLE app;
CREATE USER bob IN ROLE app;
GRANT SELECT, INSERT, UPDATE, DELETE ON doc TO app;
CREATE POLICY mine ON doc USING (tenant = current_setting('tenant'));
ALTER TABLE doc ENABLE ROW LEVEL SECURITY;
"""


@pytest.fixture
def db() -> Iterator[Any]:
    with ev.connect() as session:
        session.sql(SETUP)
        yield session


STATEMENTS = [
    "SELECT * FROM secret",
    "SELECT * FROM total",
    "SELECT 1 WHERE EXISTS (SELECT * FROM secret)",
    "SELECT (SELECT max(x) FROM secret)",
    "WITH s AS (SELECT * FROM secret) SELECT * FROM s",
    "SELECT * FROM doc JOIN secret ON true",
    "SELECT * FROM secret AS OF 1",
    "TABLE secret",
    "SELECT twice(2)",
    "INSERT INTO secret VALUES (1)",
    "INSERT INTO doc SELECT x, 'a', '' FROM secret",
    "UPDATE secret SET x = 1",
    "UPDATE doc SET v = (SELECT max(x)::text FROM secret)",
    "DELETE FROM secret",
    "DELETE FROM doc USING secret WHERE true",
    "MERGE INTO secret USING doc ON x = id WHEN MATCHED THEN DELETE",
    "TRUNCATE secret",
    "TRUNCATE doc",
    "WITH d AS (DELETE FROM secret RETURNING *) SELECT * FROM d",
    "CREATE TABLE mine (x int)",
    "CREATE TABLE mine AS SELECT * FROM doc",
    "CREATE VIEW mine AS SELECT * FROM doc",
    "CREATE VIEW mine AS SELECT * FROM secret",
    "CREATE FUNCTION f(n int) RETURNS int LANGUAGE SQL AS 'SELECT n'",
    "CREATE INDEX i ON doc (v)",
    "CREATE INDEX i ON secret (x)",
    "CREATE TYPE mood AS ENUM ('a')",
    "CREATE SCHEMA s",
    "CREATE SOURCE s FROM 'x.csv'",
    "CREATE SINK s FROM doc INTO 'x.csv'",
    "CREATE ROLE eve",
    "CREATE TOKEN t FOR ROLE ann",
    "CREATE POLICY p ON doc USING (true)",
    "ALTER ROLE ann SUPERUSER",
    "ALTER ROLE ann SET tenant = 'b'",
    "ALTER ROLE ann QUOTA (views 1000)",
    "ALTER TABLE doc ADD COLUMN z int",
    "ALTER TABLE doc RENAME TO d",
    "ALTER TABLE doc RENAME COLUMN v TO w",
    "ALTER TABLE doc DISABLE ROW LEVEL SECURITY",
    "ALTER TABLE doc OWNER TO ann",
    "ALTER TABLE secret DROP COLUMN x",
    "ALTER POLICY mine ON doc USING (true)",
    "DROP TABLE doc",
    "DROP TABLE secret CASCADE",
    "DROP VIEW total",
    "DROP FUNCTION twice",
    "DROP INDEX by_x",
    "DROP POLICY mine ON doc",
    "DROP ROLE bob",
    "COMMENT ON TABLE doc IS 'mine'",
    "COMMENT ON TABLE secret IS 'mine'",
    "GRANT SELECT ON secret TO ann",
    "GRANT ALL ON doc TO ann",
    "GRANT CREATE ON SCHEMA public TO ann",
    "GRANT EXECUTE ON FUNCTION twice TO ann",
    "GRANT app TO bob",
    "REVOKE SELECT ON doc FROM bob",
    "REASSIGN OWNED BY bob TO ann",
    "SET ROLE bob",
    "EXPLAIN SELECT * FROM secret",
    "EXPLAIN WHY SELECT * FROM secret",
    "EXPLAIN ALTERNATIVES SELECT * FROM doc a, doc b, doc c WHERE a.id = b.id AND b.id = c.id",
    "WHY total (1)",
    "WHY NOT total (2)",
    "DESCRIBE secret",
    "SHOW COLUMNS FROM secret",
    "SUBSCRIBE TO secret",
    "SUBSCRIBE TO (SELECT * FROM secret)",
    "COPY secret TO 'x.csv'",
    "COPY secret FROM 'x.csv'",
    "SELECT * FROM 'x.csv'",
    "SELECT * FROM ev.views",
    "SELECT * FROM nothing_at_all",
]
"""One of each kind of statement, of which Ann may do nothing."""


@pytest.fixture(scope="module")
def quiet() -> Iterator[Any]:
    """A session that nothing is changed in."""
    with ev.connect() as session:
        session.sql(SETUP)
        yield session


@pytest.mark.parametrize("text", STATEMENTS)
def test_every_kind_of_statement_is_refused(text: str, quiet: Any) -> None:
    db = quiet
    before = sorted(db.sql("SELECT * FROM doc").rows()), db.tables, db.views, core_of(db).access.roles
    message = refused(db, text)
    assert "42" not in message and "'x'" not in message, "an error tells nothing that is hidden"
    assert before == (sorted(db.sql("SELECT * FROM doc").rows()), db.tables, db.views, core_of(db).access.roles)


def test_what_is_hidden_and_what_is_not_there_are_told_alike(db: Any) -> None:
    hidden, missing = refused(db, "SELECT * FROM secret"), refused(db, "SELECT * FROM absent")
    assert hidden.replace("secret", "absent") == missing
    assert rows(db, "SHOW TABLES") == [("doc",)] and rows(db, "SHOW VIEWS") == [] == rows(db, "SHOW INDEXES")
    assert rows(db, "SHOW FUNCTIONS") == []
    said = []
    for name in ("total", "absent"):
        with acting(ANN), pytest.raises(ev.EverviewError) as error:
            db.sql(f"EXPLAIN {name}")
        said.append(str(error.value).replace(name, "it"))
    assert said[0].partition("\n")[0] == said[1].partition("\n")[0]


def test_policies_hold_in_every_statement(db: Any) -> None:
    assert rows(db, "SELECT * FROM doc") == [(1, "a", "1"), (3, "a", "5")]
    assert rows(db, "SELECT * FROM doc", BOB) == [(2, "b", "x")]
    assert rows(db, "SELECT count(*) AS n, max(id) AS m FROM doc", BOB) == [(1, 2)]
    assert rows(db, "SELECT d.id FROM doc d JOIN doc e ON d.id <> e.id") == [(1,), (3,)]
    assert rows(db, "SELECT id FROM doc AS OF 1") == [(1,), (3,)]
    assert rows(db, "SELECT * FROM doc WHERE id = 2") == []
    refused(db, "INSERT INTO doc VALUES (9, 'b', '')")
    refused(db, "UPDATE doc SET tenant = 'b' WHERE id = 1")
    refused(db, "INSERT INTO doc VALUES (2, 'a', '') ON CONFLICT (id) DO UPDATE SET v = 'taken'")
    rows(db, "UPDATE doc SET v = 'y'")
    rows(db, "DELETE FROM doc WHERE id = 2")
    assert rows(db, "DELETE FROM doc WHERE id = 3 RETURNING id") == [(3,)]
    assert rows(db, "SELECT * FROM doc", None) == [(1, "a", "y"), (2, "b", "x")]


def test_a_row_of_another_breaks_nothing(db: Any) -> None:
    """Bob's value cannot be cast; Ann does not hear of it, and Bob is not shown whose row it was."""
    assert rows(db, "SELECT v::int AS n FROM doc WHERE v::int > 0") == [(1,), (5,)]
    with acting(BOB), pytest.raises(ev.RowErrors) as error:
        db.sql("SELECT v::int AS n FROM doc")
    assert "example" not in str(error.value)


def test_policies_join_by_or_and_restrictive_ones_by_and(db: Any) -> None:
    db.sql("CREATE POLICY also ON doc FOR SELECT USING (v = 'x')")
    assert [r[0] for r in rows(db, "SELECT id FROM doc")] == [1, 2, 3]
    db.sql("CREATE POLICY small ON doc AS RESTRICTIVE USING (id < 3)")
    assert [r[0] for r in rows(db, "SELECT id FROM doc")] == [1, 2]
    rows(db, "DELETE FROM doc")  # of those that it sees, only its own: `also` is about SELECT
    assert rows(db, "SELECT id FROM doc", None) == [(2,), (3,)]
    db.sql("DROP POLICY mine ON doc; DROP POLICY also ON doc")
    assert rows(db, "SELECT * FROM doc") == []


def test_a_policy_may_ask_tables_that_nobody_may_read(db: Any) -> None:
    db.sql("CREATE TABLE member (who text, tenant text); INSERT INTO member VALUES ('bob', 'a'), ('bob', 'b')")
    db.sql("ALTER POLICY mine ON doc USING (tenant IN (SELECT m.tenant FROM member m WHERE m.who = current_user))")
    assert [r[0] for r in rows(db, "SELECT id FROM doc", BOB)] == [1, 2, 3]
    assert rows(db, "SELECT id FROM doc") == []
    rows(db, "INSERT INTO doc VALUES (7, 'a', '')", BOB)
    refused(db, "INSERT INTO doc VALUES (8, 'a', '')")
    refused(db, "SELECT * FROM member", BOB)


def test_a_reader_cannot_put_another_table_before_one_that_a_policy_reads(db: Any) -> None:
    db.sql("CREATE TABLE member (who text, tenant text); INSERT INTO member VALUES ('ann', 'a')")
    db.sql("ALTER POLICY mine ON doc USING (tenant IN (SELECT m.tenant FROM member m WHERE m.who = current_user))")
    db.sql("CREATE SCHEMA s; GRANT CREATE, USAGE ON SCHEMA s TO ann")
    rows(db, "CREATE TABLE s.member (who text, tenant text); INSERT INTO s.member VALUES ('ann', 'a'), ('ann', 'b')")
    path = "SET search_path = s, public; "
    assert rows(db, path + "SELECT id FROM doc") == [(1,), (3,)]
    with acting(ANN):
        told = db.sql(path + "SUBSCRIBE TO (SELECT id FROM doc)")
    assert sorted(row for batch in told for row, _ in batch.rows()) == [(1,), (3,)]
    told.close()
    refused(db, path + "INSERT INTO doc VALUES (8, 'b', '')")
    refused(db, path + "UPDATE doc SET tenant = 'b'")
    assert rows(db, path + "DELETE FROM doc WHERE id = 2 RETURNING id") == []


def test_a_policy_says_where_what_it_reads_is(db: Any) -> None:
    db.sql("CREATE SCHEMA s; CREATE TABLE s.member (tenant text); INSERT INTO s.member VALUES ('b')")
    text = "ALTER POLICY mine ON doc USING (tenant IN (SELECT tenant FROM {}member))"
    assert "s.member" in refused(db, "SET search_path = s, public; " + text.format(""), None, "E_TABLE")
    db.sql("SET search_path = public; " + text.format("s."))
    assert rows(db, "SELECT id FROM doc") == [(2,)]


def test_a_condition_on_new_rows_is_bound_anew_when_what_it_reads_has_changed(db: Any) -> None:
    db.function("admitted", lambda tenant: tenant == "a", returns=bool)
    db.sql("ALTER POLICY mine ON doc USING (true) WITH CHECK (admitted(tenant))")
    rows(db, "INSERT INTO doc VALUES (10, 'a', '')")
    db.function("admitted", lambda tenant: tenant == "b", returns=bool)
    refused(db, "INSERT INTO doc VALUES (11, 'a', '')")
    rows(db, "INSERT INTO doc VALUES (12, 'b', '')")


def test_an_attribute_that_is_missing_shows_nothing(db: Any) -> None:
    refused(db, "SELECT * FROM doc", Principal("ann"))


def test_a_view_of_ones_own_rows_is_for_those_who_have_the_same(db: Any) -> None:
    db.sql("GRANT CREATE ON SCHEMA public TO app")
    rows(db, "CREATE VIEW vs AS SELECT v FROM doc")
    rows(db, "GRANT SELECT ON vs TO app")
    assert rows(db, "SELECT * FROM vs") == [("1",), ("5",)]
    assert rows(db, "SELECT * FROM vs", Principal("bob", {"tenant": "a"})) == [("1",), ("5",)]
    refused(db, "SELECT * FROM vs", BOB)
    rows(db, "DROP VIEW vs")


def test_members_owners_and_set_role(db: Any) -> None:
    db.sql("CREATE ROLE boss; GRANT SELECT ON secret TO boss; GRANT boss TO ann")
    assert rows(db, "SELECT x FROM secret") == [(42,)]
    refused(db, "SELECT x FROM secret", BOB)
    db.sql("SET ROLE bob")
    with pytest.raises(ev.EverviewError):
        db.sql("SELECT x FROM secret")
    assert db.sql("SELECT current_user AS u").rows() == [("bob",)]
    db.sql("RESET ROLE")
    assert db.sql("SELECT x FROM secret").rows() == [(42,)]
    with pytest.raises(ev.EverviewError) as error:
        db.sql("GRANT ann TO boss")
    assert error.value.code == "E_ROLE"
    db.sql("ALTER TABLE secret OWNER TO bob")
    with pytest.raises(ev.EverviewError) as error:
        db.sql("DROP ROLE bob")
    assert error.value.code == "E_IN_USE"
    rows(db, "DROP TABLE secret CASCADE", None)
    db.sql("DROP ROLE bob")


def test_a_schema_is_ones_own_room(db: Any) -> None:
    db.sql("CREATE SCHEMA a; GRANT CREATE, USAGE ON SCHEMA a TO ann")
    rows(db, "CREATE TABLE a.notes (x int)")
    rows(db, "INSERT INTO a.notes VALUES (1)")
    refused(db, "SELECT * FROM a.notes", BOB)
    rows(db, "GRANT SELECT ON a.notes TO bob")
    refused(db, "SELECT * FROM a.notes", BOB)  # the schema is not open to him
    db.sql("GRANT USAGE ON SCHEMA a TO bob")
    assert rows(db, "SELECT * FROM a.notes", BOB) == [(1,)]


def test_functions_are_called_by_whom_they_were_granted_to(db: Any) -> None:
    db.sql("GRANT EXECUTE ON FUNCTION twice TO ann")
    assert rows(db, "SELECT twice(id) AS t FROM doc") == [(2,), (6,)]
    refused(db, "SELECT twice(1)", BOB)


def test_rows_staged_by_a_program_for_somebody_are_compared_too(db: Any) -> None:
    with acting(ANN):
        db["doc"].insert([(10, "a", "")])
        for change in (
            lambda: db["doc"].insert([(11, "b", "")]),
            lambda: db["doc"].upsert([(2, "a", "")]),
            lambda: db["doc"].delete(keys=[2]),
            lambda: db["doc"].delete([(2, "b", "x")]),
            lambda: db["doc"].clear(),
            lambda: db["secret"].insert([(1,)]),
        ):
            with pytest.raises(ev.EverviewError) as error:
                change()
            assert error.value.code == "E_FORBIDDEN"
    assert rows(db, "SELECT id FROM doc", None) == [(1,), (2,), (3,), (10,)]


def test_all_of_it_is_there_after_reopening(tmp_path: pathlib.Path) -> None:
    with ev.connect(str(tmp_path / "d")) as db:
        db.sql(SETUP)
        (token,) = db.sql("CREATE TOKEN ci FOR ROLE ann WITH (tenant = 'a')").rows()[0]
        kept = core_of(db).access.roles, core_of(db).access.rights
    for checkpoint in (False, True):
        with ev.connect(str(tmp_path / "d")) as db:
            assert (core_of(db).access.roles, core_of(db).access.rights) == kept
            assert rows(db, "SELECT id FROM doc", BOB) == [(2,)]
            if checkpoint:
                db.checkpoint()
    with ev.connect(str(tmp_path / "d")) as db:
        db.sql("ALTER TABLE doc RENAME TO docs")
    with ev.connect(str(tmp_path / "d")) as db:
        assert rows(db, "SELECT id FROM docs", BOB) == [(2,)]
        db.sql("DROP TABLE docs; DROP ROLE ann")
    with ev.connect(str(tmp_path / "d")) as db:
        assert "ann" not in core_of(db).access.roles and ("relation", "docs") not in core_of(db).access.rights
    for file in (tmp_path / "d").rglob("*"):
        if file.is_file():
            data = file.read_bytes()
            assert token.encode() not in data and b"'pw'" not in data


def test_a_group_that_policies_do_not_apply_to_exempts_nobody(db: Any) -> None:
    """Only a role's own BYPASSRLS counts, and after SET ROLE the group's."""
    db.sql("CREATE ROLE auditors BYPASSRLS; GRANT auditors TO ann; GRANT SELECT ON doc TO auditors")
    assert [row[0] for row in rows(db, "SELECT id FROM doc")] == [1, 3]
    assert [row[0] for row in rows(db, "SET ROLE auditors; SELECT id FROM doc")] == [1, 2, 3]
    db.sql("RESET ROLE")


@pytest.mark.parametrize("maker", [ANN, None])
def test_a_row_that_cannot_be_computed_is_not_shown(db: Any, maker: Principal | None) -> None:
    """Not even one's own: it may have been joined with another's, or have columns that are hidden."""
    db.sql("INSERT INTO doc VALUES (4, 'a', 'q471'); GRANT CREATE ON SCHEMA public TO app")
    rows(db, "CREATE VIEW numbers AS SELECT id, 1 / (id - 4) AS n FROM doc; GRANT SELECT ON numbers TO app", maker)
    for ask in (lambda: db.sql("SELECT * FROM numbers").rows(), lambda: db["numbers"].rows()):
        with acting(ANN), pytest.raises(ev.RowErrors) as error:
            ask()
        assert "471" not in str(error.value) and "example" not in str(error.value)
    if maker is None:
        with pytest.raises(ev.RowErrors, match="471"):
            db["numbers"].rows()


def test_reasons_are_shown_if_all_their_rows_are(db: Any) -> None:
    db.sql("CREATE VIEW ids AS SELECT id, tenant FROM doc; GRANT SELECT ON ids TO app")
    assert "doc(1" in str(rows(db, "WHY ids (1, 'a')"))
    for text in ("WHY ids (2, 'b')", "EXPLAIN WHY SELECT id FROM ids"):
        assert "'x'" not in refused(db, text)
    with acting(ANN), pytest.raises(ev.EverviewError) as error:
        db["ids"].why((2, "b"))
    assert error.value.code == "E_FORBIDDEN"
