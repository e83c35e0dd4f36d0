"""Conditions of policies are bound for the system itself: so their authors must see all of what these read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import everview as ev
from tests.server.tenants.asking import ANN, BOB, refused, rows
from tests.server.tenants.conftest import SETUP


@pytest.fixture
def db() -> Iterator[Any]:
    """Ann has a table of her own, which Bob may read."""
    with ev.connect() as session:
        session.sql(SETUP + "GRANT CREATE ON SCHEMA public TO app; INSERT INTO secret VALUES (471)")
        for text in (
            "CREATE TABLE own (x int); INSERT INTO own VALUES (1); GRANT SELECT ON own TO bob",
            "ALTER TABLE own ENABLE ROW LEVEL SECURITY; ALTER TABLE own FORCE ROW LEVEL SECURITY",
            "CREATE FUNCTION one() RETURNS bigint LANGUAGE SQL AS 'SELECT 1'",
        ):
            rows(session, text)
        yield session


POLICY = "CREATE POLICY p ON own USING ({})"


def test_a_policy_cannot_ask_for_what_is_hidden_from_its_author(db: Any) -> None:
    """With a condition that she may choose, whether her own row is there told Ann any row of any table."""
    said = {refused(db, POLICY.format(f"EXISTS (SELECT 1 FROM {t} s WHERE s.y = 471)")).replace(t, "it")
            for t in ("secret", "absent")}  # fmt: skip
    assert len(said) == 1  # the column that is missing is not told, either
    for condition in (
        "EXISTS (SELECT 1 FROM secret WHERE secret.x = 471)",
        "EXISTS (SELECT 1 FROM doc WHERE doc.tenant = 'b')",
        "x = (SELECT n FROM total WHERE tenant = 'b')",
    ):
        refused(db, POLICY.format(condition))
    rows(db, POLICY.format("true"))
    for change in ("USING", "WITH CHECK"):
        refused(db, f"ALTER POLICY p ON own {change} (EXISTS (SELECT 1 FROM doc WHERE doc.tenant = 'b'))")
    assert rows(db, "SELECT * FROM own") == rows(db, "SELECT * FROM own", BOB) == [(1,)]


def test_a_function_that_is_replaced_cannot_ask_for_it_either(db: Any) -> None:
    rows(db, POLICY.format("one() = 1"))
    assert rows(db, "SELECT * FROM own", BOB) == [(1,)]
    replace = "CREATE OR REPLACE FUNCTION one() RETURNS {} LANGUAGE SQL AS $$ SELECT {} $$"
    for returns, body in (("bigint", "count(*) FROM doc WHERE tenant = 'b'"), ("text", "'a'")):
        rows(db, replace.format(returns, body))
        for text in ("SELECT * FROM own", "SUBSCRIBE TO own"):
            refused(db, text)
            refused(db, text, BOB)
    rows(db, replace.format("bigint", "1"))
    assert rows(db, "SELECT * FROM own", BOB) == [(1,)]


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE member OWNER TO bob",
        "REVOKE SELECT ON granted FROM ann",
        "ALTER TABLE granted ENABLE ROW LEVEL SECURITY",
        "REVOKE SELECT ON granted FROM ann; GRANT SELECT (who) ON granted TO ann",
        "DROP ROLE ann",
    ],
)
def test_a_policy_ends_with_what_its_author_sees(db: Any, change: str) -> None:
    rows(db, "CREATE TABLE member (who text); INSERT INTO member VALUES ('bob')")
    db.sql("CREATE TABLE granted (who text); INSERT INTO granted VALUES ('bob'); GRANT SELECT ON granted TO ann")
    condition = "current_user IN (SELECT who FROM member) AND current_user IN (SELECT who FROM granted)"
    rows(db, POLICY.format(f"{condition} AND coalesce(current_setting('town', true), 'Oslo') = 'Oslo'"))
    assert rows(db, "SELECT * FROM own", BOB) == [(1,)] and rows(db, "SELECT * FROM own") == []
    rows(db, "CREATE VIEW above AS SELECT x FROM own", BOB)
    assert rows(db, "SELECT * FROM above", BOB) == [(1,)]
    if change.startswith("DROP ROLE"):
        db.sql("REASSIGN OWNED BY ann TO bob")
    db.sql(change)
    for name in ("own", "above"):  # what was computed before does not go on, either
        refused(db, f"SELECT * FROM {name}", BOB)
    with pytest.raises(ev.EverviewError, match="a policy of own reads"):
        rows(db, "INSERT INTO own VALUES (2)", BOB if change.startswith("DROP") else ANN)


def test_for_whom_a_policy_is_may_be_changed_by_a_new_owner(db: Any) -> None:
    """The conditions stay those of their author; who writes them anew vouches for them."""
    db.sql("CREATE POLICY p ON own USING (EXISTS (SELECT 1 FROM secret WHERE secret.x = 471))")
    rows(db, "ALTER POLICY p ON own TO bob; ALTER POLICY p ON own RENAME TO q")
    assert rows(db, "SELECT * FROM own", BOB) == [(1,)]
    refused(db, "ALTER POLICY q ON own USING (EXISTS (SELECT 1 FROM secret WHERE secret.x > 471))")
    rows(db, "ALTER POLICY q ON own USING (x = 1)")
    assert rows(db, "SELECT * FROM own", BOB) == [(1,)]
