"""Questions that clients ask of the catalogue, and the answers they get.

`recorded.json` has statements that psql 15, SQLAlchemy 2.1 and pgjdbc 42.7 sent (recorded), and those that Grafana,
dbt, Npgsql, DBeaver and Metabase are known to send (not recorded, and not copied: written from memory). `answers.json`
has what is answered; `EVERVIEW_UPDATE=1 pytest tests/server/pg/test_catalogue.py` writes it anew.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.server.pg.conftest import SETUP, Running, running

psycopg = pytest.importorskip("psycopg")

HERE = Path(__file__).parent
RECORDED: list[dict[str, Any]] = json.loads((HERE / "recorded.json").read_text())
ANSWERS = HERE / "answers.json"
PLAIN = [(i, r) for i, r in enumerate(RECORDED) if not re.search(r"\$\d", r["sql"])]


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    made = running()
    made.do(lambda db: db.sql(f"{SETUP}; CREATE INDEX by_shop ON sale (shop); COMMENT ON TABLE sale IS 'sold'"))
    yield made
    made.stop()


def asked(db: Any, text: str) -> dict[str, Any]:
    cursor = db.execute(text.encode())
    return {
        "columns": [f"{c.name}:{c.type_code}" for c in cursor.description],
        "rows": [[None if v is None else str(v) for v in row] for row in cursor.fetchall()],
    }


def test_recorded_questions_are_answered_as_they_were(server: Running) -> None:
    with psycopg.connect(server.dsn, autocommit=True, connect_timeout=30) as db:
        found = {str(i): asked(db, r["sql"]) for i, r in PLAIN}
    if os.environ.get("EVERVIEW_UPDATE"):
        ANSWERS.write_text(json.dumps(found, indent=0, ensure_ascii=False) + "\n")
    wanted = json.loads(ANSWERS.read_text())
    for i, r in PLAIN:
        mine, theirs = found[str(i)], wanted[str(i)]
        assert mine["columns"] == theirs["columns"], (r["from"], r["sql"])
        assert sorted(map(str, mine["rows"])) == sorted(map(str, theirs["rows"])), (r["from"], r["sql"])


def test_numbers_of_things_stay(server: Running) -> None:
    with psycopg.connect(server.dsn, autocommit=True, connect_timeout=30) as db:
        before = db.execute("SELECT oid FROM pg_class WHERE relname = 'sale'").fetchone()
        db.execute("CREATE TABLE another (x int)")
        made = db.execute("SELECT 'another'::regclass::oid").fetchone()
        assert db.execute("SELECT oid FROM pg_class WHERE relname = 'sale'").fetchone() == before
        db.execute("DROP TABLE another")
        db.execute("CREATE TABLE another (x int)")
        assert db.execute("SELECT 'another'::regclass::oid").fetchone() != made
        db.execute("DROP TABLE another")


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("SELECT 'nowhere'::regclass", "42P01"),
        ("SELECT nope FROM pg_class", "42703"),
        ("SELECT * FROM pg_catalog.pg_nowhere", "42P01"),
        ("SELECT pg_nothing()", "42883"),
        ("SELECT * FROM pg_class WHERE relname ~ '('", "2201B"),
        ("WITH RECURSIVE r(x) AS (SELECT oid FROM pg_class UNION ALL SELECT x FROM r) SELECT count(*) FROM r", "57014"),
    ],
)
def test_what_cannot_be_answered_is_refused(server: Running, text: str, state: str) -> None:
    with psycopg.connect(server.dsn, autocommit=True, connect_timeout=30) as db:
        with pytest.raises(psycopg.Error) as error:
            db.execute(text)
        assert error.value.sqlstate == state
        assert db.execute("SELECT current_database()").fetchone() == ("everview",)


def test_names_of_users_are_not_taken_for_the_catalogues(server: Running) -> None:
    with psycopg.connect(server.dsn, autocommit=True, connect_timeout=30) as db:
        db.execute("CREATE TABLE version (pg_number int, current_user_name text)")
        db.execute("INSERT INTO version VALUES (1, 'me')")
        assert db.execute("SELECT pg_number, current_user_name FROM version").fetchall() == [(1, "me")]
        db.execute("DROP TABLE version")


def test_files_are_out_of_reach(server: Running) -> None:
    with psycopg.connect(server.dsn, autocommit=True, connect_timeout=30) as db:
        for text in ("SELECT pg_read_file('/etc/passwd')", "SELECT load_extension('x') FROM pg_class"):
            with pytest.raises(psycopg.Error):
                db.execute(text)
