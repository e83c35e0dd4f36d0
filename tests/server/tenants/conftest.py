"""A server with two tenants, on all ports, in a thread of the test's process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import psycopg
import pytest

import everview as ev
from everview.server.pg.listener import PgListener
from everview.server.server_process import Server
from everview.server.settings import Settings
from everview.server.threaded_server import Beside

SECRET = "a secret that signs JWTs, of more than 32 bytes"

SETUP = """
CREATE TABLE doc (id int PRIMARY KEY, tenant text, v text);
INSERT INTO doc VALUES (1, 'a', '1'), (2, 'b', 'x'), (3, 'a', '5');
CREATE TABLE secret (x int);
INSERT INTO secret VALUES (42);
CREATE VIEW total AS SELECT tenant, count(*) AS n FROM doc GROUP BY tenant;
CREATE ROLE app LOGIN;
CREATE USER ann PASSWORD 'pw of ann' IN ROLE app;
ALTER ROLE ann SET tenant = 'a';
CREATE USER bob PASSWORD 'pw of bob' IN ROLE app;
ALTER ROLE bob SET tenant = 'b';
CREATE USER tok IN ROLE app;
GRANT SELECT, INSERT, UPDATE, DELETE ON doc TO app;
GRANT SELECT ON total TO app;
CREATE POLICY mine ON doc USING (tenant = current_setting('tenant'));
CREATE POLICY mine ON total USING (tenant = current_setting('tenant'));
ALTER TABLE doc ENABLE ROW LEVEL SECURITY;
ALTER VIEW total ENABLE ROW LEVEL SECURITY;
"""


@dataclass
class Tenants:
    """The server."""

    beside: Beside
    tokens: dict[str, str]

    @property
    def pg(self) -> int:
        """The port of PostgreSQL's protocol."""
        return next(one.port for one in self.beside.server.listeners if isinstance(one, PgListener))

    def http(self, who: str) -> httpx.Client:
        """A client of HTTP."""
        headers = {"authorization": f"Bearer {self.tokens[who]}"}
        return httpx.Client(base_url=self.beside.url, headers=headers, timeout=30)

    def psycopg(self, who: str, **options: Any) -> psycopg.Connection[Any]:
        """A connection of PostgreSQL's."""
        user, password = ("everview", self.tokens["admin"]) if who == "admin" else (who, f"pw of {who}")
        found: psycopg.Connection[Any] = psycopg.connect(
            host="127.0.0.1", port=self.pg, user=user, password=password, autocommit=True, **options
        )
        return found

    def client(self, who: str) -> Any:
        """Everview's own client."""
        return ev.connect(self.beside.address, token=self.tokens[who])

    def sql(self, text: str) -> Any:
        """Have the server itself do something."""
        return self.beside.do(lambda db: found.rows() if hasattr(found := db.sql(text), "rows") else None)


@pytest.fixture
def tenants() -> Iterator[Tenants]:
    session = ev.connect(files=False)
    session.sql(SETUP)
    tokens = {"admin": "the server's own token"}
    for who, role, tenant in (("ann", "ann", "a"), ("bob", "bob", "b"), ("tok", "tok", "a")):
        made = session.sql(f"CREATE TOKEN t_{who} FOR ROLE {role} WITH (tenant = '{tenant}')")
        (tokens[who],) = made.rows()[0]
    server = Server(session, Settings(http=0, pg=0, token=tokens["admin"], jwt_key=SECRET))
    with Beside(server).start() as beside:
        yield Tenants(beside, tokens)
