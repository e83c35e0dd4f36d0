"""Privileges on columns, privileges that are passed on, and rules over tables with policies, in one session."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

import everview as ev
from everview.session.core import core_of
from everview.session.rights.principal import Principal, acting
from everview.session.rights.roles import Grant, read_rights
from tests.server.tenants.asking import ANN, BOB, refused, rows

CAT = Principal("cat", {"tenant": "a"})

SETUP = """
CREATE TABLE doc (id int PRIMARY KEY, tenant text, v text, salary int);
INSERT INTO doc VALUES (1, 'a', 'one', 4711), (2, 'b', 'two', 4712), (3, 'a', 'three', 4713);
CREATE USER ann; CREATE USER bob; CREATE USER cat;
"""

POLICY = """
CREATE POLICY mine ON doc USING (tenant = current_setting('tenant'));
ALTER TABLE doc ENABLE ROW LEVEL SECURITY;
"""


@pytest.fixture
def db() -> Iterator[Any]:
    with ev.connect() as session:
        session.sql(SETUP)
        yield session


# columns


@pytest.fixture
def columns(db: Any) -> Any:
    db.sql("GRANT SELECT (id, tenant, v), INSERT, UPDATE, DELETE ON doc TO ann")
    return db


def test_columns_that_were_not_granted_do_not_exist(columns: Any) -> None:
    assert rows(columns, "SELECT id, v FROM doc WHERE tenant = 'a'") == [(1, "one"), (3, "three")]
    assert rows(columns, "SELECT * FROM doc WHERE id = 1") == [(1, "a", "one")]
    assert rows(columns, "TABLE doc")[0] == (1, "a", "one")
    assert rows(columns, "SELECT to_jsonb(doc) AS j FROM doc WHERE id = 1") == [({"id": 1, "tenant": "a", "v": "one"},)]
    assert rows(columns, "SELECT count(*) AS n FROM doc") == [(3,)]
    assert rows(columns, "SELECT d.id FROM doc d JOIN doc e ON e.id = d.id + 2") == [(1,)]
    assert rows(columns, "WITH w AS (SELECT * FROM doc) SELECT max(id) AS m FROM w") == [(3,)]
    assert rows(columns, "SELECT id FROM doc AS OF 1") == [(1,), (2,), (3,)]
    assert [r[0] for r in rows(columns, "DESCRIBE doc")] == ["id", "tenant", "v"]
    for text in (
        "SELECT salary FROM doc",
        "SELECT doc.salary FROM doc",
        "SELECT d.salary FROM doc AS d",
        "SELECT id FROM doc WHERE salary > 4000",
        "SELECT id FROM doc ORDER BY salary",
        "SELECT max(salary) FROM doc",
        "SELECT v FROM doc GROUP BY v, salary",
        "SELECT a.id FROM doc a JOIN doc b ON a.salary = b.salary",
        "SELECT (SELECT max(e.salary) FROM doc e)",
        "EXPLAIN SELECT salary FROM doc",
        "DESCRIBE SELECT salary FROM doc",
        "SUBSCRIBE TO (SELECT salary FROM doc)",
    ):
        assert "salary" in refused(columns, text, code="E_COLUMN")
    assert rows(columns, "SELECT salary FROM doc WHERE id = 1", None) == [(4711,)]


def test_what_needs_all_columns_is_refused(columns: Any) -> None:
    for text in (
        "UPDATE doc SET v = 'x'",
        "UPDATE doc SET v = salary::text",
        "DELETE FROM doc WHERE salary = 4711",
        "DELETE FROM doc RETURNING *",
        "INSERT INTO doc VALUES (9, 'a', '', 1) RETURNING salary",
        "INSERT INTO doc VALUES (1, 'a', '', 1) ON CONFLICT (id) DO UPDATE SET v = doc.salary::text",
        "MERGE INTO doc USING (SELECT 1 AS k) s ON doc.id = s.k WHEN MATCHED THEN DELETE",
        "SUBSCRIBE TO doc",
        "WHY doc (1, 'a', 'one', 1)",
        "COPY doc TO 'x.csv'",
    ):
        refused(columns, text)
    with acting(ANN), pytest.raises(ev.EverviewError) as error:
        columns.datalog("p(X) :- doc(X, T, V, S).")
    assert error.value.code == "E_FORBIDDEN" and "all columns" in str(error.value)
    with acting(ANN), pytest.raises(ev.EverviewError) as error:
        columns.datalog("p(X) :- `doc/salary`(K, X).")
    assert error.value.code == "E_FORBIDDEN"
    rows(columns, "INSERT INTO doc VALUES (9, 'a', 'nine', 1)")
    assert rows(columns, "SELECT id FROM doc", None) == [(1,), (2,), (3,), (9,)]


def test_columns_below_policies(columns: Any) -> None:
    """The condition of a policy may read what its readers may not."""
    columns.sql("CREATE POLICY poor ON doc USING (salary < 4713); ALTER TABLE doc ENABLE ROW LEVEL SECURITY")
    assert rows(columns, "SELECT id FROM doc") == [(1,), (2,)]
    columns.sql("GRANT CREATE ON SCHEMA public TO ann")
    rows(columns, "CREATE VIEW w AS SELECT tenant, count(*) AS n FROM doc GROUP BY tenant")
    assert rows(columns, "SELECT * FROM w") == [("a", 1), ("b", 1)]


def test_columns_come_and_go(columns: Any) -> None:
    assert "has no column nothing" in refused(columns, "GRANT SELECT (nothing) ON doc TO bob", None, "E_COLUMN")
    refused(columns, "GRANT UPDATE (v) ON doc TO bob", None, "E_UNSUPPORTED")
    columns.sql("REVOKE SELECT (v) ON doc FROM ann")
    assert rows(columns, "SELECT * FROM doc WHERE id = 1") == [(1, "a")]
    refused(columns, "ALTER TABLE doc RENAME COLUMN tenant TO t", None, "E_IN_USE")
    refused(columns, "ALTER TABLE doc DROP COLUMN tenant", None, "E_IN_USE")
    columns.sql("ALTER TABLE doc DROP COLUMN salary")
    columns.sql("GRANT SELECT ON doc TO ann")
    assert rows(columns, "SELECT * FROM doc WHERE id = 1") == [(1, "a", "one")]
    columns.sql("REVOKE SELECT ON doc FROM ann")  # takes the columns back, too
    refused(columns, "SELECT id FROM doc")


# passing on


def test_privileges_are_passed_on_by_those_who_may(db: Any) -> None:
    db.sql("GRANT SELECT ON doc TO ann WITH GRANT OPTION; GRANT INSERT ON doc TO ann")
    refused(db, "GRANT INSERT ON doc TO bob")
    refused(db, "GRANT SELECT, INSERT ON doc TO bob")
    refused(db, "GRANT DELETE ON doc TO bob")
    refused(db, "ALTER TABLE doc OWNER TO ann")
    rows(db, "GRANT ALL ON doc TO bob")  # as much of it as she may
    assert len(rows(db, "SELECT id FROM doc", BOB)) == 3
    refused(db, "INSERT INTO doc VALUES (9, 'b', '', 0)", BOB)
    refused(db, "GRANT SELECT ON doc TO cat", BOB)
    refused(db, "SELECT id FROM doc", CAT)
    refused(db, "GRANT SELECT ON doc TO public WITH GRANT OPTION", None, "E_OPTION")


def test_what_was_passed_on_goes_with_what_it_came_from(db: Any) -> None:
    db.sql("GRANT SELECT ON doc TO ann WITH GRANT OPTION")
    rows(db, "GRANT SELECT ON doc TO bob WITH GRANT OPTION")
    rows(db, "GRANT SELECT ON doc TO cat", BOB)
    rows(db, "GRANT SELECT ON doc TO ann WITH GRANT OPTION", BOB)  # a circle holds up nothing
    refused(db, "REVOKE SELECT ON doc FROM ann", None, "E_IN_USE")
    refused(db, "REVOKE GRANT OPTION FOR SELECT ON doc FROM ann RESTRICT", None, "E_IN_USE")
    assert len(rows(db, "SELECT id FROM doc", CAT)) == 3
    db.sql("REVOKE GRANT OPTION FOR SELECT ON doc FROM ann CASCADE")
    assert len(rows(db, "SELECT id FROM doc")) == 3
    refused(db, "SELECT id FROM doc", BOB)
    refused(db, "SELECT id FROM doc", CAT)
    refused(db, "GRANT SELECT ON doc TO bob")


def test_one_takes_back_what_one_gave(db: Any) -> None:
    db.sql("GRANT SELECT ON doc TO ann WITH GRANT OPTION; GRANT SELECT ON doc TO bob")
    rows(db, "GRANT SELECT ON doc TO bob, cat")
    rows(db, "REVOKE SELECT ON doc FROM bob, cat")
    assert len(rows(db, "SELECT id FROM doc", BOB)) == 3, "the owner gave it, too"
    refused(db, "SELECT id FROM doc", CAT)
    rows(db, "GRANT SELECT ON doc TO cat")
    db.sql("DROP ROLE ann")
    refused(db, "SELECT id FROM doc", CAT)


def test_rights_of_older_directories_are_read() -> None:
    text = {"owner": "ann", "grants": {"bob": ["SELECT", "INSERT"]}, "row_security": True, "forced": False,
            "policies": [], "bound": {}}  # fmt: skip
    found = read_rights(json.dumps(text))
    assert found.given == (Grant("bob", "SELECT"), Grant("bob", "INSERT")) and found.owner == "ann"


# rules


@pytest.fixture
def rules(db: Any) -> Any:
    db.sql(POLICY)
    db.sql("CREATE ROLE app; GRANT app TO ann, bob, cat; GRANT SELECT ON doc TO app")
    db.sql("GRANT CREATE ON SCHEMA public TO app; CREATE TABLE secret (x int)")
    return db


def test_rules_see_what_policies_show(rules: Any) -> None:
    with acting(ANN):
        rules.datalog("mine(X, V) :- doc(X, T, V, S). owns(V) :- `doc/v`(K, V). none(X) :- mine(X, V), !owns(V).")
    with acting(BOB):
        rules.datalog("his(X) :- doc(X, T, V, S).")
    assert rows(rules, "SELECT * FROM mine") == [(1, "one"), (3, "three")]
    assert rows(rules, "SELECT * FROM owns") == [("one",), ("three",)]
    assert rows(rules, "SELECT * FROM none") == []
    assert rows(rules, "SELECT * FROM his", BOB) == [(2,)]
    refused(rules, "SELECT * FROM mine", BOB)
    rules.sql("INSERT INTO doc VALUES (4, 'a', 'four', 0), (5, 'b', 'five', 0)")
    assert len(rows(rules, "SELECT * FROM mine")) == 3 and rows(rules, "SELECT * FROM his", BOB) == [(2,), (5,)]


def test_rules_of_one_are_for_those_who_have_the_same_attributes(rules: Any) -> None:
    """One role, two tenants: what tokens of the same role differ in is not shared."""
    one, other = Principal("app", {"tenant": "a"}), Principal("app", {"tenant": "b"})
    with acting(one):
        rules.datalog("mine(X) :- doc(X, T, V, S).")
        rules.datalog("again(X) :- mine(X).")
    for name in ("mine", "again"):
        assert rows(rules, f"SELECT * FROM {name}", one) == [(1,), (3,)]
        refused(rules, f"SELECT * FROM {name}", other)
    with acting(other), pytest.raises(ev.EverviewError) as error:
        rules.datalog("theirs(X) :- again(X).")
    assert error.value.code == "E_FORBIDDEN"
    with acting(one):
        registered = rules.register("later(X) :- doc(X, T, V, S).")
    assert list(registered) == ["later"]
    with acting(other), pytest.raises(ev.EverviewError) as error:
        rules.datalog("theirs(X) :- later(X).")
    assert error.value.code == "E_FORBIDDEN"


def test_rules_tell_what_is_hidden_and_what_is_not_there_alike(rules: Any) -> None:
    said = []
    for name in ("secret", "absent", "`secret/x`", "`absent/x`"):
        with acting(ANN), pytest.raises(ev.EverviewError) as error:
            rules.datalog(f"p(X) :- {name}(X, Y).")
        assert error.value.code == "E_FORBIDDEN"
        said.append(str(error.value).replace(name.strip("`"), "it"))
    assert len(set(said)) == 1, said
    assert "secret" in rules.tables and core_of(rules).access.roles


# constraints


def test_constraints_tell_nothing_of_hidden_rows(db: Any) -> None:
    """A row of Bob's goes along with one of Ann's, and breaks a condition of his table, which she may not see."""
    db.sql("CREATE TABLE note (id int PRIMARY KEY, doc int REFERENCES doc ON DELETE SET NULL, tenant text, n int, "
           "CONSTRAINT private CHECK (doc IS NOT NULL OR n < 10))")  # fmt: skip
    db.sql("INSERT INTO note VALUES (4714, 1, 'b', 4715)")
    db.sql("CREATE TABLE other (id int PRIMARY KEY, doc int REFERENCES doc, CONSTRAINT private2 CHECK (id > 0))")
    db.sql("INSERT INTO other VALUES (4716, 3)")
    db.sql("GRANT SELECT, DELETE, UPDATE ON doc TO ann")
    for row in (1, 3):
        said = refused(db, f"DELETE FROM doc WHERE id = {row}", ANN, "E_CHECK" if row == 1 else "E_FOREIGN_KEY")
        assert "note" not in said and "other" not in said and "private" not in said
    db.sql("CREATE POLICY mine ON note USING (tenant = current_setting('tenant'))")
    db.sql("ALTER TABLE note ENABLE ROW LEVEL SECURITY; GRANT SELECT ON note TO ann")
    assert "private" in refused(db, "DELETE FROM doc WHERE id = 1", ANN, "E_CHECK")
    with pytest.raises(ev.EverviewError) as error:
        db.sql("DELETE FROM doc WHERE id = 1")
    assert "4715" in str(error.value), "who may do everything is told which row it was"


def test_on_conflict_reads_the_row_that_is_there(db: Any) -> None:
    db.sql("GRANT INSERT, UPDATE ON doc TO ann")
    text = "INSERT INTO doc VALUES (1, 'a', '', 0) ON CONFLICT (id) DO UPDATE SET v = doc.salary::text"
    refused(db, text)
    db.sql("GRANT SELECT ON doc TO ann")
    rows(db, text)
    assert rows(db, "SELECT v FROM doc WHERE id = 1") == [("4711",)]
