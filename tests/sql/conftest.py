"""Fixtures of the SQL tests: `postgres`, a PostgreSQL server of the tests' own (see `tests.sql.postgres`)."""

from tests.sql.postgres import postgres, postgres_server

__all__ = ["postgres", "postgres_server"]
