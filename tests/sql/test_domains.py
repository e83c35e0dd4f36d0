"""CREATE DOMAIN, and types that are in a schema: as pg_dump writes them. The answers are PostgreSQL's."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

import everview as ev
from everview.session.local_shards import local_shards

SCRIPT = """
    CREATE SCHEMA shop;
    CREATE TYPE shop.status AS ENUM ('new', 'paid');
    CREATE DOMAIN shop.price AS numeric(8, 2) DEFAULT 1 NOT NULL
        CHECK (VALUE >= 0) CONSTRAINT small CHECK (value < 1000);
    CREATE DOMAIN email text CHECK (VALUE ~ '@');
    CREATE DOMAIN work_email AS email CHECK (VALUE LIKE '%.com');
    CREATE TABLE shop.item (
        id int PRIMARY KEY, status shop.status DEFAULT 'new', price shop.price, high shop.price DEFAULT 5,
        mail public.work_email
    );
    CREATE VIEW shop.dear AS SELECT id, status, price + high AS p, status > 'new'::shop.status AS paid FROM shop.item;
    INSERT INTO shop.item (id, mail) VALUES (1, 'a@b.com'), (2, NULL);
    INSERT INTO shop.item VALUES (3, 'paid', 2.5, 7, 'c@d.com');
"""


@pytest.fixture(params=[ev.connect, lambda: local_shards(2)], ids=["embedded", "shards"])
def db(request: pytest.FixtureRequest) -> Iterator[ev.Session]:
    with request.param() as session:
        session.sql(SCRIPT)
        yield session


def test_columns_of_domains(db: ev.Session) -> None:
    assert sorted(db["shop.dear"].rows()) == [(1, "new", 6, False), (2, "new", 6, False), (3, "paid", 9.5, True)]
    db.sql("DELETE FROM shop.item WHERE id = 1; UPDATE shop.item SET price = 4 WHERE id = 2")
    assert sorted(db["shop.dear"].rows()) == [(2, "new", 9, False), (3, "paid", 9.5, True)]
    db.sql("ALTER TABLE shop.item ADD COLUMN second email")
    for columns, values, code in (
        ("id, price", "9, -1", "E_CHECK"),
        ("id, high", "9, 1000", "E_CHECK"),
        ("id, price", "9, NULL", "E_NULL"),
        ("id, mail", "9, 'a@b.org'", "E_CHECK"),
        ("id, mail", "9, 'b.com'", "E_CHECK"),
        ("id, second", "9, 'x'", "E_CHECK"),
        ("id, status", "9, 'lost'", "E_TYPE"),
    ):
        with pytest.raises(ev.EverviewError) as caught:
            db.sql(f"INSERT INTO shop.item ({columns}) VALUES ({values})")
        assert caught.value.code == code, values
    with pytest.raises(ev.EverviewError) as caught:
        db["shop.item"].insert([(9, "new", 1, 1, "nobody", None)])
    assert caught.value.code == "E_CHECK"


def test_names_of_types_follow_the_search_path(db: ev.Session) -> None:
    db.sql("CREATE TYPE status AS ENUM ('other'); CREATE TABLE a (s status); INSERT INTO a VALUES ('other')")
    db.sql("SET search_path = shop, public; CREATE TABLE b (s status, t public.status, m email)")
    db.sql("INSERT INTO shop.b VALUES ('paid', 'other', 'x@y')")
    with pytest.raises(ev.PlanError, match="not a valid enum"):
        db.sql("INSERT INTO shop.b VALUES ('other', 'other', NULL)")
    with pytest.raises(ev.PlanError, match="the schema shop holds"):
        db.sql("DROP SCHEMA shop")
    db.sql("DROP SCHEMA shop CASCADE; SET search_path = public")
    assert [name for (name,) in db.sql("SHOW TYPES").rows()] == ["email", "status", "work_email"]
    with pytest.raises(ev.PlanError, match="there is no type"):
        db.sql("CREATE TABLE c (p shop.price)")


def test_domains_are_kept(tmp_path: Path) -> None:
    with ev.connect(tmp_path / "db") as kept:
        kept.sql(SCRIPT)
    with ev.connect(tmp_path / "db") as kept:
        with pytest.raises(ev.ConstraintError):
            kept.sql("INSERT INTO shop.item (id, price) VALUES (9, -1)")
        kept.sql("CREATE TABLE t (m work_email)")
        kept.sql("DROP DOMAIN work_email; DROP DOMAIN IF EXISTS work_email")
        with pytest.raises(ev.ConstraintError):
            kept.sql("INSERT INTO t VALUES ('x')")


def test_casts_check(db: ev.Session) -> None:
    """A cast to a domain has its type; a row whose value violates its conditions fails until it is gone."""
    db.sql("CREATE DOMAIN pos AS int CHECK (VALUE > 0); CREATE TABLE said (id int PRIMARY KEY, mail text)")
    db.sql("CREATE VIEW mails AS SELECT id::pos + 1 AS n, mail::work_email AS mail FROM said")
    db.sql("INSERT INTO said VALUES (1, 'a@b.com'), (2, NULL)")
    assert sorted(db["mails"].rows()) == [(2, "a@b.com"), (3, None)]
    for row in ("(-3, 'c@d.com')", "(3, 'c@d.org')", "(3, 'd.com')"):
        db.sql(f"INSERT INTO said VALUES {row}")
        with pytest.raises(ev.EverviewError, match="cannot be cast"):
            db["mails"].rows()
        db.sql("DELETE FROM said WHERE id IN (3, -3)")
    assert sorted(db["mails"].rows()) == [(2, "a@b.com"), (3, None)]
    assert db.sql("SELECT NULL::email AS e, 12.345::shop.price AS p, '7'::pos AS n").rows() == [
        (None, Decimal("12.35"), 7)
    ]
    for wrong in ("NULL::shop.price", "1000::shop.price", "'x'::email", "0::pos"):
        with pytest.raises(ev.EverviewError, match="cannot be cast"):
            db.sql(f"SELECT {wrong} AS x").rows()


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("SELECT TRY_CAST('x' AS email)", "E_UNSUPPORTED", "for columns of tables and for casts"),
        ("CREATE DOMAIN email AS int", "E_NAME", "there already"),
        ("CREATE TYPE shop.price AS ENUM ('a')", "E_NAME", "there already"),
        ("CREATE DOMAIN nope.d AS int", "E_NAME", "no schema nope"),
        ("CREATE DOMAIN d", "E_SYNTAX", ""),
        ("CREATE DOMAIN d AS nope", "E_", "no type nope"),
        ("CREATE DOMAIN d AS int CHECK (VALUE ~ 'x')", "E_", ""),
        ("CREATE DOMAIN d AS int PRIMARY KEY", "E_SYNTAX", "DEFAULT, NOT NULL and CHECK"),
        ("CREATE DOMAIN d AS int REFERENCES shop.item (id)", "E_SYNTAX", "DEFAULT, NOT NULL and CHECK"),
        ("DROP DOMAIN nope", "E_TYPE", "there is no domain nope"),
    ],
)
def test_refused(text: str, code: str, words: str) -> None:
    with ev.connect() as db:
        db.sql(SCRIPT)
        with pytest.raises(ev.PlanError, match=words) as caught:
            db.sql(text)
        assert caught.value.code.startswith(code), caught.value


def test_a_key_of_using_is_a_key(db: ev.Session) -> None:
    """GROUP BY o.id allows all columns of o, also where USING (id) made one column of two."""
    db.sql("CREATE TABLE line (id int, n int); INSERT INTO line VALUES (1, 5), (1, 6), (7, 1)")
    db.sql("""
        CREATE VIEW counted AS
        SELECT o.id, o.status, count(l.*) AS n FROM shop.item o LEFT JOIN line l USING (id) GROUP BY o.id
    """)
    assert sorted(db["counted"].rows()) == [(1, "new", 2), (2, "new", 0), (3, "paid", 0)]
    db.sql("DELETE FROM line WHERE n = 5; DELETE FROM shop.item WHERE id = 3")
    assert sorted(db["counted"].rows()) == [(1, "new", 1), (2, "new", 0)]
