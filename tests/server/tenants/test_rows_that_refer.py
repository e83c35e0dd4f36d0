"""Rows of hidden tables that refer to others: they follow these, and errors do not name their tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import everview as ev
from tests.server.tenants.asking import ANN, BOB, refused, rows
from tests.server.tenants.conftest import Tenants


@pytest.fixture
def db() -> Iterator[Any]:
    with ev.connect() as session:
        session.sql("CREATE ROLE app; CREATE USER ann IN ROLE app; CREATE USER bob IN ROLE app")
        session.sql("CREATE TABLE par (id int PRIMARY KEY); INSERT INTO par VALUES (1), (2), (3), (4)")
        session.sql("GRANT SELECT, INSERT, UPDATE, DELETE ON par TO app")
        yield session


NULLS = "p int NOT NULL REFERENCES par (id) ON {} SET NULL"


@pytest.mark.parametrize(
    ("column", "text", "code"),
    [
        (NULLS.format("DELETE"), "DELETE FROM par WHERE id = 1", "E_FOREIGN_KEY"),
        (NULLS.format("UPDATE"), "UPDATE par SET id = 9 WHERE id = 1", "E_FOREIGN_KEY"),
        ("p int REFERENCES par (id)", "DELETE FROM par WHERE id = 1", "E_FOREIGN_KEY"),
        ("p int REFERENCES par (id)", "UPDATE par SET id = 9 WHERE id = 1", "E_FOREIGN_KEY"),
        ("p int CHECK (p < 9) REFERENCES par (id) ON UPDATE CASCADE", "UPDATE par SET id = 9 WHERE id = 1", "E_CHECK"),
        ("p int REFERENCES par (id) ON UPDATE CASCADE, UNIQUE (p, x)", "UPDATE par SET id = id + 9", ""),
    ],
)
@pytest.mark.parametrize("block", ["{}", "BEGIN; {}; COMMIT"])
def test_an_error_does_not_name_the_table_that_refers(db: Any, column: str, text: str, code: str, block: str) -> None:
    db.sql(f"CREATE TABLE hidden471 (x int PRIMARY KEY, {column}); INSERT INTO hidden471 VALUES (471, 1)")
    if code:
        assert "hidden" not in refused(db, block.format(text), ANN, code)
        assert db.sql("SELECT * FROM hidden471").rows() == [(471, 1)]
        db.sql("GRANT SELECT ON hidden471 TO ann")
        with pytest.raises(ev.EverviewError, match="hidden471"):
            rows(db, block.format(text))
    else:
        rows(db, block.format(text))
        assert db.sql("SELECT * FROM hidden471").rows() == [(471, 10)]


def test_what_refers_to_a_row_follows_it_whoever_sees_that(db: Any) -> None:
    """As in PostgreSQL, and as deletions did before: who may change the parent needs no right to the child."""
    cascade = "REFERENCES par (id) ON DELETE CASCADE ON UPDATE CASCADE"
    db.sql(f"CREATE TABLE c (x int PRIMARY KEY, p int {cascade}); INSERT INTO c VALUES (1, 1), (2, 2), (3, 3)")
    db.sql(f"CREATE TABLE d (x int PRIMARY KEY {cascade.replace('par', 'c').replace('id', 'x')})")
    db.sql("INSERT INTO d VALUES (1); ALTER TABLE c ENABLE ROW LEVEL SECURITY")
    rows(db, "UPDATE par SET id = id + 10 WHERE id < 3", BOB)
    rows(db, "DELETE FROM par WHERE id = 11")
    assert sorted(db.sql("SELECT * FROM c").rows()) == [(2, 12), (3, 3)] and db.sql("SELECT * FROM d").rows() == []
    refused(db, "SELECT * FROM c")


def test_a_default_asks_for_the_tenant_who_inserts(tenants: Tenants) -> None:
    """The author of the table has no such attribute."""
    tenants.sql("CREATE TABLE note (id int PRIMARY KEY, v int, tenant text DEFAULT current_setting('tenant'))")
    tenants.sql("GRANT SELECT, INSERT ON note TO app")
    with tenants.psycopg("ann") as ann, tenants.psycopg("bob") as bob, tenants.psycopg("admin") as admin:
        for number in range(7):
            for at, db in enumerate((ann, bob)):
                db.execute("INSERT INTO note (id, v) VALUES (%s, %s)", (10 * number + at, 1), prepare=True)
            for at, who in enumerate(("ann", "bob")):  # one connection, whose changes are bound once
                admin.execute(f"SET ROLE {who}")
                key = 1000 + 10 * number + at
                admin.execute("INSERT INTO note (id, v) VALUES (%s, %s)", (key, 1), prepare=True)
                admin.execute("RESET ROLE")
        with tenants.http("bob") as http:
            for body, kind in (
                ('{"id": 2001, "v": 1}\n{"id": 2011, "v": 1, "tenant": "b"}\n[2021, 1, "b"]', "application/json"),
                ("id,v\n2031,1\n", "text/csv"),
            ):
                pushed = http.post("/v1/tables/note/rows", content=body, headers={"content-type": kind})
                assert pushed.status_code == 200, pushed.text
        assert ann.execute("SELECT id % 10, tenant, count(*) FROM note GROUP BY 1, 2 ORDER BY 1").fetchall() == [
            (0, "a", 14),
            (1, "b", 18),
        ]


def test_psql_shows_ones_attributes(tenants: Tenants) -> None:
    """The catalogue answers what has no table, and knew settings only."""
    with tenants.psycopg("ann") as ann:
        ann.execute("SET app.tenant = 'b'")  # a setting of the connection: no policy reads it
        for text in (
            "SELECT current_setting('tenant')",
            "SHOW tenant",
            "SELECT DISTINCT current_setting('tenant') FROM doc",
        ):
            assert ann.execute(text).fetchall() == [("a",)]
        assert ann.execute("SELECT current_setting('town', true), current_setting('TimeZone')").fetchall() == [
            (None, "UTC")
        ]
