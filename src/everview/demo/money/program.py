"""The views of the story, written as anybody would write them: SQL, and the graph library where a query is a graph's.

    transfer ──> recent ──> link ──> linked ──> member ──> ring      who belongs together, and what they move
                   └──────> reaches ──> step                         who pays a sanctioned account, and by which way

Nothing here knows that payments arrive as a stream, are cancelled, or leave the window because time passes: each is a
change of a table, and every view follows. `case_account` and `case_flow` are for the page: the part of the graph that
is worth drawing.
"""

from __future__ import annotations

from dataclasses import dataclass

import everview as ev
from everview.graph import Graph

TABLES = """
    CREATE TABLE account (name text PRIMARY KEY, kind text NOT NULL);
    CREATE TABLE sanctioned (account text PRIMARY KEY);
    CREATE TABLE transfer (
        id int PRIMARY KEY, at timestamp NOT NULL, payer text NOT NULL, payee text NOT NULL,
        via text NOT NULL, amount int NOT NULL);
"""

WINDOW = """
    -- A window that slides with the session's clock: payments leave it by themselves.
    CREATE VIEW recent AS
    SELECT id, payer, payee, via, amount FROM transfer WHERE at > now() - INTERVAL '30 days';

    -- What ties accounts together: a card or phone that both used, or money between them. Everybody pays shops.
    CREATE VIEW link AS
    SELECT payer AS one, via AS other FROM recent
    UNION
    SELECT r.payer, r.payee FROM recent r JOIN account a ON a.name = r.payee WHERE a.kind <> 'shop';
"""

RINGS = """
    -- Cards and phones tie rings together, but only accounts are members.
    CREATE VIEW member AS
    SELECT a.name AS account, l.component AS ring FROM linked l JOIN account a ON a.name = l.node;

    CREATE VIEW ring AS
    SELECT size.ring, size.accounts, paid.moved
    FROM (SELECT ring, count(*) AS accounts FROM member GROUP BY ring) size
    JOIN (SELECT m.ring, sum(r.amount) AS moved FROM recent r JOIN member m ON m.account = r.payer GROUP BY m.ring) paid
    ON paid.ring = size.ring
    WHERE size.accounts >= 3;
"""

WAYS = """
    -- Where the money of an account that reaches a sanctioned one goes next: follow it, and you have the whole way.
    CREATE VIEW step AS
    SELECT DISTINCT ON (here.account) here.account, here.hops, r.payee AS next
    FROM reaches here
    JOIN recent r ON r.payer = here.account
    JOIN reaches there ON there.account = r.payee AND there.hops = here.hops - 1
    ORDER BY here.account, r.amount DESC, r.id;
"""

CASE = """
    -- For the picture: accounts that reach a sanctioned one, with their whole rings, and the money among them.
    CREATE VIEW suspect AS
    SELECT DISTINCT m.ring FROM member m JOIN reaches w ON w.account = m.account;

    CREATE VIEW case_account AS
    SELECT m.account, m.ring FROM member m JOIN suspect s ON s.ring = m.ring;

    CREATE VIEW case_flow AS
    SELECT r.payer, r.payee, sum(r.amount) AS amount, count(*) AS payments
    FROM recent r
    JOIN case_account one ON one.account = r.payer
    JOIN case_account other ON other.account = r.payee
    GROUP BY r.payer, r.payee;

    CREATE VIEW case_device AS
    SELECT DISTINCT r.payer AS account, r.via FROM recent r JOIN case_account c ON c.account = r.payer;
"""

HOPS = 6
"""As far as anybody asks."""

TOLD = ("member", "ring", "reaches", "step")
"""The answers of the story."""
DRAWN = ("case_account", "case_flow", "case_device")
"""What the page draws besides."""


@dataclass(frozen=True)
class Program:
    """A session with the story's tables and views, by the names above."""

    db: ev.Session

    def __getitem__(self, name: str) -> ev.View:
        view = self.db[name]
        assert isinstance(view, ev.View)
        return view

    @property
    def transfer(self) -> ev.Table:
        """All payments ever, but for cancelled ones."""
        return self.table("transfer")

    def table(self, name: str) -> ev.Table:
        """A table by its name."""
        table = self.db[name]
        assert isinstance(table, ev.Table)
        return table


def install(db: ev.Session) -> Program:
    """Make the tables and install the views."""
    db.sql(TABLES)
    db.sql(WINDOW)
    # Rings: what hangs together, in either direction.
    db.view("linked", Graph(db["link"], src="one", dst="other").wcc())
    db.sql(RINGS)
    # Against the money, from the sanctioned accounts: who pays them, or pays who pays them ..., in six hops at most.
    against = Graph(db["recent"], src="payee", dst="payer").k_hop(db["sanctioned"], HOPS)
    db.view("reaches", against.select(account=against.node, hops=against.hops))
    db.sql(WAYS)
    db.sql(CASE)
    return Program(db)
