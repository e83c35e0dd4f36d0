"""INSERT, UPDATE and DELETE with all their clauses, against DuckDB: the same rows come back, the same rows are left."""

from __future__ import annotations

import random
from collections.abc import Iterator

import duckdb
import pytest

import everview as ev
from tests.sql.harness import difference


@pytest.fixture
def db() -> Iterator[ev.Session]:
    with ev.connect() as session:
        session.sql("CREATE TABLE k (id int PRIMARY KEY, n int, s text); CREATE TABLE o (id int, x int)")
        session.sql("INSERT INTO k VALUES (1, 10, 'a'), (2, 20, NULL); INSERT INTO o VALUES (1, 5), (3, 7), (3, 7)")
        yield session


def _statement(r: random.Random) -> str:
    """One that DuckDB gives one answer to."""
    key, n = r.randint(0, 9), r.randint(-5, 5)
    conflict = r.choice(
        ["DO NOTHING", "(id) DO UPDATE SET n = k.n + excluded.n", "DO UPDATE SET n = 0, s = excluded.s"]
    )
    given = ", ".join(f"({i}, {r.randint(0, 9)}, {r.choice(['NULL', repr('x')])})" for i in r.sample(range(10), 3))
    return r.choice(
        [
            f"INSERT INTO k VALUES {given} ON CONFLICT {conflict} RETURNING id, n * 2 AS d",
            f"INSERT INTO k VALUES {given} ON CONFLICT (id) DO UPDATE SET n = excluded.n WHERE k.n < {n} RETURNING *",
            f"INSERT INTO o SELECT id, n FROM k WHERE n > {n} RETURNING x, id",
            f"UPDATE k SET n = q.m FROM (SELECT id, max(x) AS m FROM o GROUP BY id) q WHERE q.id = k.id AND k.n <> {n}",
            f"UPDATE k SET n = n + 1, s = 'y' WHERE id > {key} RETURNING id, s",
            f"UPDATE o SET x = k.n FROM k WHERE k.id = o.id AND o.x >= {n}",
            f"DELETE FROM o USING k WHERE k.id = o.id AND k.n > {n}",
            f"DELETE FROM k WHERE id = {key} RETURNING *",
            f"WITH q AS (SELECT {key} AS id) DELETE FROM o WHERE id IN (SELECT id FROM q) RETURNING id + 1 AS next",
            f"WITH q AS (SELECT {key} + 10 AS id) INSERT INTO o SELECT id, 1 FROM q",
        ]
    )


def _run(db: ev.Session, seed: int, count: int) -> None:
    r = random.Random(seed)
    other = duckdb.connect()
    other.execute("CREATE TABLE k (id int PRIMARY KEY, n int, s text); CREATE TABLE o (id int, x int)")
    other.execute("INSERT INTO k VALUES (1, 10, 'a'), (2, 20, NULL); INSERT INTO o VALUES (1, 5), (3, 7), (3, 7)")
    view = db.sql("CREATE VIEW joined AS SELECT k.id, n, x FROM k JOIN o ON o.id = k.id WHERE x > 0")
    for _ in range(count):
        text = _statement(r)
        answer = db.sql(text)
        theirs = other.execute(text).fetchall()
        if "RETURNING" in text:
            assert not difference(answer.rows(), theirs), text
        for table in ("k", "o"):
            assert not difference(db[table].rows(), other.execute(f"SELECT * FROM {table}").fetchall()), text
        expected = other.execute("SELECT k.id, n, x FROM k JOIN o ON o.id = k.id WHERE x > 0").fetchall()
        assert not difference(view.rows(), expected), text


def test_40_random_changes(db: ev.Session) -> None:
    _run(db, 7, 40)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_150_random_changes(db: ev.Session, seed: int) -> None:
    _run(db, seed, 150)


def test_returning_that_fails_changes_nothing(db: ev.Session) -> None:
    before = (db["k"].rows(), db.time)
    for text in (
        "INSERT INTO k VALUES (7, 0, 'x') RETURNING 1 / n",
        "UPDATE k SET n = 0 RETURNING 1 / n",
        "DELETE FROM k RETURNING 1 / (n - 10)",
        "INSERT INTO k VALUES (1, 0, 'x') ON CONFLICT DO UPDATE SET n = 0 RETURNING 1 / n",
    ):
        with pytest.raises(ev.EverviewError):
            db.sql(text)
    assert (db["k"].rows(), db.time) == before


def test_a_row_is_changed_once(db: ev.Session) -> None:
    with pytest.raises(ev.InputError, match="given twice"):
        db.sql("INSERT INTO k VALUES (5, 1, 'x'), (5, 2, 'y') ON CONFLICT DO UPDATE SET n = excluded.n")
    db.sql("INSERT INTO o VALUES (1, 6)")
    with pytest.raises(ev.InputError, match="two different ones"):
        db.sql("UPDATE k SET n = o.x FROM o WHERE o.id = k.id")
    assert sorted(db["k"].rows()) == [(1, 10, "a"), (2, 20, None)]


def test_rows_are_assigned(db: ev.Session) -> None:
    db.sql("UPDATE k SET (n, s) = (n + 1, 'z'), id = id + 10 WHERE id = 1")
    assert sorted(db["k"].rows()) == [(2, 20, None), (11, 11, "z")]
    with pytest.raises(ev.PlanError, match="row of values"):
        db.sql("UPDATE k SET (n, s) = (1)")


def test_the_aliases_of_targets(db: ev.Session) -> None:
    assert db.sql("UPDATE k AS w SET n = w.n + 1 WHERE w.id = 1 RETURNING w.*").rows() == [(1, 11, "a")]
    db.sql("INSERT INTO k AS w VALUES (1, 1, 'b') ON CONFLICT DO UPDATE SET n = w.n + excluded.n")
    assert (1, 12, "a") in db["k"].rows()
    with pytest.raises(ev.PlanError, match="no table k"):
        db.sql("UPDATE k AS w SET n = 1 WHERE k.id = 1")
