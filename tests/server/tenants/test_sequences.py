"""Sequences by name: whose numbers a tenant may take and set."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import everview as ev
from everview.session.rights.principal import acting
from tests.server.tenants.asking import ANN, rows

SETUP = """
CREATE ROLE app; CREATE USER ann IN ROLE app;
CREATE SEQUENCE secret471;
CREATE TABLE hidden (id serial PRIMARY KEY, v text);
CREATE TABLE open (id serial PRIMARY KEY, v text, n int DEFAULT nextval('secret471'));
GRANT INSERT, SELECT ON open TO app;
GRANT CREATE ON SCHEMA public TO app;
"""


@pytest.fixture
def db() -> Iterator[Any]:
    with ev.connect() as session:
        session.sql(SETUP)
        yield session


@pytest.mark.parametrize("sequence", ["secret471", "hidden_id_seq"])
@pytest.mark.parametrize(
    "statement",
    [
        "SELECT nextval('{}')",
        "SELECT currval('{}')",
        "SELECT setval('{}', 900)",
        "ALTER SEQUENCE {} RESTART WITH 900",
        "INSERT INTO open VALUES (nextval('{}'), 'x')",
        "CREATE TABLE mine (id int DEFAULT nextval('{}'))",
    ],
)
def test_sequences_of_others_are_not_there(db: Any, sequence: str, statement: str) -> None:
    db.sql("SELECT nextval('secret471')")
    said = refused_about(db, statement.format(sequence))
    assert said == refused_about(db, statement.format("nothing")).replace("nothing", sequence)
    assert db.sql("SELECT nextval('secret471')").rows() == [(2,)]
    db.sql("INSERT INTO hidden (v) VALUES ('x')")
    assert db.sql("SELECT id FROM hidden").rows() == [(1,)]


def refused_about(db: Any, text: str) -> str:
    """What is said of a statement that is refused."""
    with acting(ANN), pytest.raises(ev.EverviewError) as error:
        db.sql(text)
    assert error.value.code == "E_FORBIDDEN", error.value
    return str(error.value).split("\n")[0]


def test_numbers_come_by_themselves_and_by_name_from_ones_own_tables(db: Any) -> None:
    rows(db, "INSERT INTO open (v) VALUES ('a')")
    assert rows(db, "SELECT id, n FROM open") == [(1, 1)]
    assert rows(db, "SELECT nextval('open_id_seq')") == [(2,)]
    assert rows(db, "SELECT currval('open_id_seq')") == [(2,)]
    refused_about(db, "SELECT setval('open_id_seq', 9)")
    rows(db, "CREATE TABLE mine (id serial, v text)")
    rows(db, "SELECT setval('mine_id_seq', 41)")
    rows(db, "INSERT INTO mine (v) VALUES ('x')")
    assert rows(db, "SELECT id FROM mine") == [(42,)]
    rows(db, "ALTER SEQUENCE mine_id_seq RESTART")


def test_sequences_are_granted(db: Any) -> None:
    db.sql("GRANT USAGE ON SEQUENCE secret471 TO app")
    assert rows(db, "SELECT nextval('secret471')") == [(1,)]
    refused_about(db, "SELECT setval('secret471', 900)")
    db.sql("REVOKE USAGE ON SEQUENCE secret471 FROM app; GRANT UPDATE ON SEQUENCE secret471 TO app")
    assert rows(db, "SELECT setval('secret471', 7)") == [(7,)]
    db.sql("DROP TABLE open; DROP SEQUENCE secret471; CREATE SEQUENCE secret471")
    refused_about(db, "SELECT nextval('secret471')")


@pytest.mark.parametrize("text", ["DROP SCHEMA hidde", "DROP FUNCTION hidde", "SELECT hidde(1)", "DROP SEQUENCE hidde"])
def test_hints_do_not_name_what_is_hidden(db: Any, text: str) -> None:
    db.sql("CREATE SCHEMA hidden; CREATE FUNCTION hidden(x int) RETURNS int LANGUAGE SQL AS 'SELECT x'")
    db.sql("CREATE SEQUENCE hidde1")
    with acting(ANN), pytest.raises(ev.EverviewError) as error:
        db.sql(text)
    assert "hidden" not in str(error.value) and "hidde1" not in str(error.value)
