"""Doubles out of range: PostgreSQL's error (22003) where IEEE would continue with infinity or zero."""

from __future__ import annotations

import pytest

import everview as ev
from everview.session.local_shards import local_shards
from tests.sql.postgres import Postgres, PostgresError

NUMBERS = ("0", "1", "-1", "1e308", "-1e308", "1e-308", "5e-324", "710", "-750", "Infinity", "-Infinity", "NaN")
BINARY = ("a + b", "a - b", "a * b", "a / b", "power(a, b)")
UNARY = ("exp(a)", "-a", "abs(a)", "sqrt(a)")


def _theirs(postgres: Postgres, text: str) -> str:
    try:
        return str(postgres.rows(text)[0][0])
    except PostgresError as error:
        return "error" if "out of range" in str(error) else "other error"


def _ours(db: ev.Session, text: str) -> str:
    try:
        return str(db.sql(text).rows()[0][0])
    except ev.EverviewError as error:
        return "error" if "out of range" in str(error) else "other error"


@pytest.mark.parametrize("form", [*BINARY, *UNARY])
def test_each_pair_of_numbers_as_in_postgres(postgres: Postgres, form: str) -> None:
    db = ev.connect()
    setup = "CREATE TABLE n (a double precision, b double precision)"
    postgres.run(setup)
    db.sql(setup)
    for a in NUMBERS:
        for b in NUMBERS if "b" in form else ("0",):
            row = f"DELETE FROM n; INSERT INTO n VALUES ('{a}', '{b}')"
            postgres.run(row)
            db.sql(row)
            text = f"SELECT ({form})::text FROM n"
            theirs = _theirs(postgres, text)
            if theirs == "other error" or (form == "a / b" and b == "0"):
                continue  # division by zero, roots of negative numbers: tested elsewhere
            assert _ours(db, text) == theirs, (form, a, b)


@pytest.mark.parametrize("shards", [0, 2])
def test_a_view_has_an_error_until_the_row_is_gone(shards: int) -> None:
    db = local_shards(shards=shards) if shards else ev.connect()
    db.sql("CREATE TABLE n (id int PRIMARY KEY, x double precision)")
    squares = db.sql("CREATE VIEW squares AS SELECT id, CASE WHEN id > 1 THEN x * x ELSE 0 END AS y FROM n")
    db.sql("INSERT INTO n VALUES (1, 1e200), (2, 3)")
    assert sorted(squares.rows()) == [(1, 0.0), (2, 9.0)]
    db.sql("INSERT INTO n VALUES (3, 1e200)")
    with pytest.raises(ev.EverviewError, match="out of range"):
        squares.rows()
    db.sql("DELETE FROM n WHERE id = 3")
    assert sorted(squares.rows()) == [(1, 0.0), (2, 9.0)]
    db.close()


def test_rounding_a_large_number_leaves_it() -> None:
    assert ev.connect().sql("SELECT round(1e300::double precision, 15) AS x").rows() == [(1e300,)]
