"""Random policies and statements of two roles: the same rows, refusals and contents as PostgreSQL's.

Each WHERE reads a column. One that reads none needs no SELECT in PostgreSQL, and changes rows that the user does not
see; here UPDATE and DELETE need it always.
"""

from __future__ import annotations

import os
import random

import pytest

import everview as ev
from everview.session.rights.principal import Principal, acting
from tests.sql.postgres import Postgres, PostgresError, postgres, postgres_server

__all__ = ["postgres", "postgres_server"]

CONDITIONS = [
    "owner = current_user", "n > 2", "true", "false", "n < 5", "owner = current_user OR n = 3", "id % 2 = 0",
    "n < (SELECT count(*) FROM limited l WHERE l.who = current_user)",
    "EXISTS (SELECT 1 FROM limited l WHERE l.who = owner)",
]  # fmt: skip

STATEMENTS = [
    "INSERT INTO t VALUES ({k} + 10, '{o}', {n})", "INSERT INTO t VALUES ({k} + 10, '{o}', {n}) RETURNING id",
    "UPDATE t SET n = {n} WHERE {w}", "UPDATE t SET owner = '{o}' WHERE {w}", "DELETE FROM t WHERE {w}",
    "UPDATE t SET owner = '{o}', n = {n} WHERE {w} RETURNING id", "DELETE FROM t WHERE {w} RETURNING id",
    "INSERT INTO t VALUES ({k}, '{o}', {n}) ON CONFLICT (id) DO UPDATE SET n = {n}",
    "INSERT INTO t VALUES ({k}, '{o}', {n}) ON CONFLICT (id) DO NOTHING", "SELECT id FROM t",
    "SELECT id FROM t WHERE {w}",
    "INSERT INTO t SELECT id + 20, owner, n FROM t WHERE {w}", "UPDATE t SET id = id + 50 WHERE {w}",
]  # fmt: skip

TABLES = """
CREATE TABLE t (id int PRIMARY KEY, owner text, n int);
INSERT INTO t VALUES (1, 'ann', 1), (2, 'bob', 2), (3, 'ann', 3), (4, 'bob', 4), (5, 'ann', 5);
CREATE TABLE limited (who text); INSERT INTO limited VALUES ('ann'), ('ann'), ('ann');
GRANT ALL ON t TO ann, bob; ALTER TABLE t ENABLE ROW LEVEL SECURITY;
"""


def policy(some: random.Random, number: int) -> str:
    command = some.choice(["ALL", "SELECT", "SELECT", "INSERT", "UPDATE", "DELETE"])
    using = f"USING ({some.choice(CONDITIONS)})" if command != "INSERT" else ""
    checked = command == "INSERT" or (command in ("ALL", "UPDATE") and some.random() < 0.5)
    check = f"WITH CHECK ({some.choice(CONDITIONS)})" if checked else ""
    kind, to = some.choice(["PERMISSIVE"] * 3 + ["RESTRICTIVE"]), some.choice(["PUBLIC", "PUBLIC", "ann", "bob"])
    return f"CREATE POLICY p{number} ON t AS {kind} FOR {command} TO {to} {using} {check};"


def statement(some: random.Random) -> str:
    k, o, n = some.randrange(1, 9), some.choice(["ann", "bob"]), some.randrange(7)
    w = some.choice([f"id = {k}", "n > -1", f"n > {n}", f"owner = '{o}'"])
    return some.choice(STATEMENTS).format(k=k, o=o, n=n, w=w)


def gives_rows(text: str) -> bool:
    return text.startswith("SELECT") or "RETURNING" in text


def there(postgres: Postgres, who: str, text: str) -> list[int] | str:
    try:
        postgres.run(f"BEGIN; SET LOCAL ROLE {who}")
        found = (
            sorted(int(row[0] or 0) for row in postgres.rows(text)) if gives_rows(text) else postgres.run(text) and []
        )
        postgres.run("COMMIT")
    except PostgresError:
        postgres.run("ROLLBACK")
        return "refused"
    return found or []


def here(db: ev.Session, who: str, text: str) -> list[int] | str:
    try:
        with acting(Principal(who)):
            found = db.sql(text)
        return sorted(row[0] for row in found.rows()) if gives_rows(text) else []
    except ev.EverviewError:
        return "refused"


def compared(postgres: Postgres, seed: int, statements: int) -> None:
    some = random.Random(seed)
    set_up = TABLES + "".join(policy(some, i) for i in range(some.randrange(1, 5)))
    postgres.run("DROP TABLE IF EXISTS t, limited; GRANT USAGE ON SCHEMA public TO ann, bob;" + set_up)
    postgres.run("GRANT SELECT ON limited TO ann, bob")  # there, who reads asks what a policy reads
    with ev.connect() as db:
        db.sql("CREATE USER ann; CREATE USER bob;" + set_up)
        for _ in range(statements):
            who, text = some.choice(["ann", "bob"]), statement(some)
            assert here(db, who, text) == there(postgres, who, text), (seed, who, text, set_up)
            kept = sorted((int(i or 0), o, int(n or 0)) for i, o, n in postgres.rows("SELECT * FROM t"))
            assert sorted(db["t"].rows()) == kept, (seed, who, text, set_up)


@pytest.fixture
def roles(postgres: Postgres) -> Postgres:
    for role in ("ann", "bob"):
        postgres.run(f"DO $$ BEGIN CREATE ROLE {role}; EXCEPTION WHEN duplicate_object THEN NULL; END $$")
    return postgres


def test_policies_are_postgresqls(roles: Postgres) -> None:
    for seed in range(25):
        compared(roles, seed, 6)


@pytest.mark.slow
@pytest.mark.long
def test_many_policies_are_postgresqls(roles: Postgres) -> None:
    for seed in range(100, 100 + int(os.environ.get("EVERVIEW_SEEDS", "300"))):
        compared(roles, seed, 8)
