"""The oracle itself: what the PostgreSQL of the tests is asked comes back exactly."""

from __future__ import annotations

import pytest

from tests.sql.postgres import Postgres, PostgresError


def test_rows_come_back_exactly(postgres: Postgres) -> None:
    postgres.run("CREATE TABLE t (x int, s text)")
    postgres.run("INSERT INTO t VALUES (1, E'tab\\there\\nline \\\\N'), (2, NULL), (3, '')")
    assert postgres.rows("SELECT * FROM t ORDER BY x") == [("1", "tab\there\nline \\N"), ("2", None), ("3", "")]
    assert postgres.rows("SELECT x FROM t WHERE x > 5") == []


def test_an_error_is_raised_and_the_next_test_starts_anew(postgres: Postgres) -> None:
    with pytest.raises(PostgresError, match="division by zero"):
        postgres.rows("SELECT 1 / 0")
    with pytest.raises(PostgresError, match="does not exist"):
        postgres.rows("SELECT * FROM t")
    assert postgres.rows("SELECT timestamptz '2026-01-31 12:00+01', interval '1 month'") == [
        ("2026-01-31 11:00:00+00", "1 mon")
    ]
