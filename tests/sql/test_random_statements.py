"""Random queries as views, under random changes, against PostgreSQL and DuckDB after every transaction.

Statements are made by `tests.sql.random_statements`, which says what is left out because the dialects differ. Both
systems are asked for texts of what they print alike: everything is cast to text in the query itself.

A query that PostgreSQL or DuckDB refuse is not compared with the one that does; how many those may be is asserted. One
that we refuse must say where and why, and is counted, too.

    EVERVIEW_SEEDS=1000 pytest -m long tests/sql/test_random_statements.py
"""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path

import duckdb
import pytest

import everview as ev
from everview.session.local_shards import local_shards
from tests.sql.postgres import Postgres, PostgresError
from tests.sql.random_statements import CREATE, TABLES, Queries

REFUSED_FULL = "FULL JOIN is only supported with merge-joinable or hash-joinable join conditions"


class Run:
    """One seed: views in a session, the same tables in PostgreSQL and DuckDB."""

    def __init__(self, seed: int, postgres: Postgres, shards: int = 0) -> None:
        self.made = Queries(random.Random(seed))
        self.postgres = postgres
        self.db = local_shards(shards=shards) if shards else ev.connect()
        self.duck = duckdb.connect()
        self.duck.execute("SET default_null_order = 'nulls_last_on_asc_first_on_desc'; SET threads = 1")
        for run in (self.db.sql, postgres.run, self.duck.execute):
            run(CREATE)
        self.views: dict[str, str] = {}
        self.counts: Counter[str] = Counter()

    def views_of(self, count: int) -> None:
        """Make so many views; what we refuse has a place and a reason."""
        for number in range(count):
            text, names = self.made.query()
            texts = ", ".join(f"q.{n}::text AS {n}" for n in names)
            asked = f"SELECT {texts} FROM ({text}) AS q"
            try:
                self.db.sql(f"CREATE VIEW v{number} AS {asked}")
            except ev.EverviewError as error:
                assert error.code in ("E_UNSUPPORTED", "E_CARDINALITY") and "line 1, column" in str(error), (
                    f"{error}\n{asked}"
                )
                self.counts["refused"] += 1
                continue
            self.views[f"v{number}"] = asked

    def change(self) -> None:
        """One transaction in both systems, which must agree whether it can be done."""
        statements = [self.made.change() for _ in range(self.made.r.choice([1, 1, 1, 2, 3]))]
        text = statements[0] if len(statements) == 1 else "; ".join(["BEGIN", *statements, "COMMIT"])
        try:
            self.db.sql(text)
            ours = ""
        except ev.EverviewError as error:
            ours = str(error)
        try:
            self.postgres.run(text)
            theirs = ""
        except PostgresError as error:
            theirs = str(error)
            self.postgres.run("ROLLBACK")
        assert bool(ours) == bool(theirs), f"{text}\nhere: {ours}\nPostgreSQL: {theirs}"
        self.counts["changes"] += 1
        for table in TABLES:
            rows = self.db[table].rows()
            listed = ", ".join(f"{c}::text" for c in TABLES[table])
            here = Counter(self.db.sql(f"SELECT {listed} FROM {table}").rows())
            assert here == Counter(self.postgres.rows(f"SELECT * FROM {table}")), f"{table} after {text}"
            self.duck.execute(f"DELETE FROM {table}")
            if rows:
                self.duck.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[0]))})", rows)

    def alter(self) -> None:
        """Alter a table, in steps, in both systems; the views that read it go on."""
        table, statements = self.made.alterations()
        for text in statements:
            self.db.sql(text)
            self.postgres.run(text)
            name = table if table in self.db else f"{table}_other"
            listed = ", ".join(f"{c}::text" for c in self.db[name].schema())
            theirs = Counter(self.postgres.rows(f"SELECT {listed} FROM {name}"))
            assert Counter(self.db.sql(f"SELECT {listed} FROM {name}").rows()) == theirs, text
            self.counts["alterations"] += 1

    def copy(self, where: Path) -> None:
        """PostgreSQL reads what COPY writes here, and the other way round."""
        table = self.made.r.choice([*TABLES])
        file = where / f"{table}.csv"
        self.db.sql(f"COPY {table} TO '{file}' WITH (FORMAT csv, HEADER)")
        rows = self.postgres.rows(f"SELECT * FROM {table}")
        self.postgres.run(f"CREATE TABLE copied (LIKE {table})")
        self.postgres.run(f"COPY copied FROM STDIN WITH (FORMAT csv, HEADER);\n{file.read_text()}\\.")
        assert Counter(self.postgres.rows("SELECT * FROM copied")) == Counter(rows), table
        file.write_text(self.postgres.run("COPY copied TO STDOUT WITH (FORMAT csv, HEADER)"))
        columns = ", ".join(f"{row[0]} {row[1]}" for row in self.db.sql(f"SHOW COLUMNS FROM {table}").rows())
        self.db.sql(f"CREATE TABLE copied ({columns}); COPY copied FROM '{file}' WITH (FORMAT csv, HEADER)")
        assert Counter(self.db["copied"].rows()) == Counter(self.db[table].rows()), table
        for run in (self.db.sql, self.postgres.run):
            run("DROP TABLE copied")
        self.counts["copies"] += 1

    def compare(self) -> None:
        """Every view with both."""
        for name, text in self.views.items():
            ours = Counter(self.db[name].rows())
            try:
                theirs = Counter(self.postgres.rows(text))
                assert ours == theirs, f"PostgreSQL differs:\n{text}\nhere {ours - theirs}\nthere {theirs - ours}"
                self.counts["PostgreSQL"] += 1
            except PostgresError as error:
                assert REFUSED_FULL in str(error) or "could not" in str(error), f"{error}\n{text}"
                self.counts["PostgreSQL refused"] += 1
            try:
                found = Counter(self.duck.execute(text).fetchall())
            except duckdb.Error:
                self.counts["DuckDB refused"] += 1
                continue
            assert ours == found, f"DuckDB differs:\n{text}\nhere {ours - found}\nthere {found - ours}"
            self.counts["DuckDB"] += 1


def run(seed: int, postgres: Postgres, views: int, steps: int, where: Path, shards: int = 0) -> Counter[str]:
    """Compare after every transaction; what was compared, and what was not."""
    one = Run(seed, postgres, shards)
    half = one.made.r.random() < 0.5
    for step in range(steps):
        if step == (steps // 2 if half else 0):
            one.views_of(views)  # before there are rows, or with some
        one.change()
        if one.made.r.random() < 0.2:
            one.alter()
        if one.made.r.random() < 0.2:
            one.copy(where)
        one.compare()
    assert one.db.check() == []
    one.db.close()
    return one.counts


@pytest.mark.parametrize(("seed", "shards"), [(1, 0), (2, 0), (3, 0), (4, 2)])
def test_random_views_under_random_changes(seed: int, shards: int, postgres: Postgres, tmp_path: Path) -> None:
    counts = run(seed, postgres, 12, 8, tmp_path, shards)
    assert counts["PostgreSQL"] > 2 * counts["PostgreSQL refused"] and counts["DuckDB"] > counts["DuckDB refused"]


@pytest.mark.slow
@pytest.mark.long
def test_many_random_views_under_random_changes(postgres: Postgres, tmp_path: Path) -> None:
    total: Counter[str] = Counter()
    for seed in range(1000, 1000 + int(os.environ.get("EVERVIEW_SEEDS", "40"))):
        postgres.fresh()
        total += run(seed, postgres, 20, 15, tmp_path, 2 if seed % 5 == 0 else 0)
    assert total["PostgreSQL"] > 10 * total["PostgreSQL refused"] and total["refused"] * 5 < total["DuckDB"], total
