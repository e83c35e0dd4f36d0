"""Constraints against a real PostgreSQL: the same random transactions, compared after every statement and commit.

Compared are the rows of all tables after each transaction, the rows of RETURNING, and of every error its SQLSTATE. A
view of each table, made before the data, must say what the table says.
"""

from __future__ import annotations

import os
import random
import re
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import everview as ev
from everview.server.pg.sqlstates import state_of
from everview.session.local_shards import local_shards
from tests.sql.postgres import Postgres, PostgresError
from tests.sql.random_constraints import CREATE, TABLES, Transactions


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that the server may read, whoever it runs as."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def _state(postgres: Postgres, text: str) -> tuple[str, Counter[tuple[str | None, ...]]]:
    """What PostgreSQL says: the SQLSTATE, and the rows of RETURNING."""
    try:
        found = postgres.run(text)
    except PostgresError as error:
        state = re.match(r"(?:ERROR|FATAL): +(\w{5})", str(error))
        assert state is not None, str(error)
        return state.group(1), Counter()
    rows = [tuple(v or None for v in line.split("|")) for line in found.splitlines()] if "RETURNING" in text else []
    return "00000", Counter(rows)


def _ours(db: ev.Session, text: str) -> tuple[str, Counter[tuple[str | None, ...]], str]:
    try:
        found = db.sql(text)
    except ev.EverviewError as error:
        return state_of(error), Counter(), str(error)
    rows = found.rows() if "RETURNING" in text else []
    return "00000", _texts(rows), ""


def _kind(state: str) -> str:
    """The class of an SQLSTATE; of several rows that break constraints each system names another one. That there is no
    such savepoint, and that a transaction has failed, is one code here; so is that a key is there, or is given twice.
    """
    return {"3B": "25", "21": "23"}.get(state[:2], state[:2])


def _texts(rows: list[tuple[Any, ...]]) -> Counter[tuple[str | None, ...]]:
    return Counter(tuple(None if v is None else str(v) for v in row) for row in rows)


def _compared(postgres: Postgres, db: ev.Session, folder: Path, seed: int, transactions: int) -> Counter[str]:
    """Do as many transactions on both; gives how often each SQLSTATE came."""
    postgres.run("\\set VERBOSITY verbose")
    for text in CREATE:
        postgres.run(text)
        db.sql(text)
    for name, columns in TABLES.items():
        db.sql(f"CREATE VIEW {name}_view AS SELECT {columns} FROM {name}")
    made, done, states = Transactions(random.Random(seed), folder), list[str](), Counter[str]()
    for _ in range(transactions):
        for text in made.transaction():
            done.append(text)
            wanted, rows = _state(postgres, text)
            state, found, problem = _ours(db, text)
            history = "\n".join([*done[-12:], f"PostgreSQL: {wanted}, here: {state} {problem}"])
            if state != "25000" or (text, wanted) != ("COMMIT", "00000"):  # psql is told ROLLBACK, we raise
                one_row = text.startswith("INSERT") and text.count("(") == 2 and "SELECT" not in text
                assert _kind(state) == _kind(wanted) and (state == wanted or not one_row or state == "25000"), history
            assert found == rows, history
            states[state] += 1
        for name, columns in TABLES.items():
            query = f"SELECT {columns} FROM {name}"
            wanted_rows = Counter(postgres.rows(query))
            history = "\n".join(done[-12:])
            assert _texts(db.sql(query).rows()) == wanted_rows, f"{name}\n{history}"
            assert _texts(db[f"{name}_view"].rows()) == wanted_rows, f"{name}_view\n{history}"
    assert db.check() == []
    return states


@pytest.mark.parametrize("shards", [0, 2])
def test_transactions_do_what_postgresql_does(postgres: Postgres, folder: Path, shards: int) -> None:
    db = local_shards(shards=shards) if shards else ev.connect()
    try:
        states = _compared(postgres, db, folder, 7 + shards, 25 if shards else 60)
    finally:
        postgres.run("\\set VERBOSITY default")
    assert states["00000"] > 40


COUNT = int(os.environ.get("EVERVIEW_CONSTRAINTS", "3"))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(COUNT))
def test_many_transactions_do_what_postgresql_does(postgres: Postgres, folder: Path, seed: int) -> None:
    try:
        states = _compared(postgres, ev.connect(), folder, 100 + seed, 200)
    finally:
        postgres.run("\\set VERBOSITY default")
    assert {"23505", "23503", "23514"} <= set(states)
