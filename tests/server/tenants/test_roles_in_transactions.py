"""SET ROLE on a connection that is used again: it ends with the transaction where PostgreSQL says so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
import pytest

from tests.server.tenants.conftest import Tenants

WHO = "SELECT current_user, count(*) FROM doc"


@pytest.mark.parametrize(
    ("statements", "inside", "after"),
    [
        (["BEGIN", "SET LOCAL ROLE ann", "COMMIT"], "ann", "everview"),
        (["BEGIN", "SET LOCAL ROLE ann", "ROLLBACK"], "ann", "everview"),
        (["BEGIN", "SET ROLE ann", "ROLLBACK"], "ann", "everview"),
        (["BEGIN", "SET ROLE ann", "COMMIT"], "ann", "ann"),
        (["SET ROLE ann", "BEGIN", "RESET ROLE", "ROLLBACK"], "everview", "ann"),
        (["SET ROLE ann", "BEGIN", "SET LOCAL ROLE bob", "COMMIT"], "bob", "ann"),
        (["SET ROLE ann", "BEGIN", "SET LOCAL ROLE none", "COMMIT"], "everview", "ann"),
        (["SET ROLE TO ann", "BEGIN", "SET role = 'bob'", "ROLLBACK"], "bob", "ann"),
        (["SET ROLE ann", "BEGIN", "SET SESSION AUTHORIZATION DEFAULT", "COMMIT"], "everview", "everview"),
        (["SET LOCAL ROLE ann", "BEGIN", "COMMIT"], "everview", "everview"),
        (["SET ROLE ann", "BEGIN", "SET LOCAL ROLE bob", "RESET ALL", "COMMIT"], "bob", "ann"),
        (["SET ROLE ann", "RESET ALL", "BEGIN", "COMMIT"], "ann", "ann"),
        (["SET ROLE ann", "DISCARD ALL", "BEGIN", "COMMIT"], "everview", "everview"),
        (["SET ROLE ann", "BEGIN", "SAVEPOINT s", "RESET ROLE", "ROLLBACK TO s"], "everview", "ann"),
        (
            ["SET ROLE ann", "BEGIN", "SET LOCAL ROLE bob", "SAVEPOINT s", "RESET ROLE", "ROLLBACK TO s"],
            "everview",
            "bob",
        ),
        (["SET ROLE ann", "BEGIN", "SAVEPOINT s", "RESET ROLE", "RELEASE s"], "everview", "everview"),
        (["BEGIN", "SAVEPOINT s", "SET ROLE ann", "SAVEPOINT s", "SET ROLE bob", "ROLLBACK TO s"], "bob", "ann"),
        (
            ["BEGIN", "SAVEPOINT s", "SET ROLE ann", "SAVEPOINT t", "SET ROLE bob", "RELEASE t", "ROLLBACK TO s"],
            "bob",
            "everview",
        ),
    ],
)
def test_a_role_is_what_it_is_in_postgresql(
    tenants: Tenants, statements: Sequence[str], inside: str, after: str
) -> None:
    rows = {"everview": 3, "ann": 2, "bob": 1}
    with tenants.psycopg("admin") as db:
        for text in statements[:-1]:
            db.execute(text)
        assert db.execute(WHO).fetchone() == (inside, rows[inside])
        db.execute(statements[-1])
        assert db.execute(WHO).fetchone() == (after, rows[after])
        shown = db.execute("SHOW role").fetchone()
        assert shown == ("none" if after == "everview" else after,)
        if "SAVEPOINT" in str(statements):
            db.execute("ROLLBACK")
        db.execute("RESET ROLE")
        assert db.execute(WHO).fetchone() == ("everview", 3)


def test_a_failed_transaction_gives_the_role_back(tenants: Tenants) -> None:
    with tenants.psycopg("admin") as db:
        db.execute("SET ROLE bob")
        db.execute("BEGIN")
        db.execute("RESET ROLE")
        with pytest.raises(psycopg.Error):
            db.execute("SELECT 1 / 0")
        db.execute("COMMIT")  # which undoes it
        assert db.execute(WHO).fetchone() == ("bob", 1)


@pytest.mark.parametrize("way", ["SELECT set_config('role', 'ann', false)", "option"])
def test_a_role_that_is_set_in_another_way_is_refused(tenants: Tenants, way: str) -> None:
    """PostgreSQL would change to it: a client that believes so must not go on with all rights."""
    with pytest.raises(psycopg.Error, match="role is not set like other settings"):
        options: dict[str, Any] = {"options": "-c role=ann"} if way == "option" else {}
        with tenants.psycopg("admin", **options) as db:
            db.execute(way)


def test_a_connection_that_is_given_back_has_no_settings_of_its_user(tenants: Tenants) -> None:
    with tenants.psycopg("ann") as db:
        for text in ("SET sharing = 'value'", "SET dialect = 'duckdb'", "SET plan = 'binary'"):
            db.execute(text)
        assert db.execute("SHOW dialect").fetchone() == ("duckdb",)
        db.execute("DISCARD ALL")
        assert [db.execute(f"SHOW {name}").fetchone() for name in ("dialect", "plan")] == [("postgres",), ("default",)]
        lines = "\n".join(line for (line,) in db.execute("EXPLAIN SELECT v, count(*) FROM doc GROUP BY v").fetchall())
        assert "sharing: one dataflow for all values of tenant" in lines
