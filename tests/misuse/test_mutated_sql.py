"""SQL that somebody mistyped: whatever is dropped, doubled or swapped in a statement, the error is ours.

Statements are those of the tests in `tests/sql`, mutated token by token by a seeded generator and run one after the
other in one session, on tables of the tests' names. An answer is as good as an error here; an exception that is not
Everview's, or one that says the fault is ours, is not. The session answers afterwards as before.
"""

from __future__ import annotations

import contextlib
import random
import re
import sys
import traceback
from collections import Counter
from pathlib import Path

import pytest

import everview as ev

STATEMENTS = Path(__file__).parent.parent / "sql"
TOKEN = re.compile(r"'[^']*'|\"[^\"]*\"|\w+|<=|>=|<>|\|\||::|\s+|.", re.DOTALL)
ODD = [
    "(",
    ")",
    ",",
    "NULL",
    "''",
    "0",
    "-1",
    "9999999999999999999999",
    "1e999",
    "'\ud800'",
    "*",
    "SELECT",
    "FROM",
    "now()",
    "INTERVAL",
    "[",
    "]",
    "$p",
    "::",
    "AS",
    ";",
    "\x00",
    "x",
    "1.5",
    "true",
    "OVER ()",
    "LIMIT -1",
    "DISTINCT",
]


SCHEMA = [
    "CREATE TABLE t (a int, b int, s text, x double, m decimal(9,2), d date, p boolean)",
    "CREATE TABLE u (a int, c int, s text)",
    "CREATE TABLE v (a int not null, c int not null)",
    "CREATE TABLE e (src int not null, dst int not null, w int not null)",
    "CREATE TABLE z (a int, b int)",
    "INSERT INTO t VALUES (1, 2, 'a', 1.5, 2.25, '2026-01-31', true), (NULL, 0, NULL, NULL, NULL, NULL, NULL)",
    "INSERT INTO u VALUES (1, 2, 'a'), (2, 0, '')",
    "INSERT INTO v VALUES (1, 2)",
    "INSERT INTO e VALUES (1, 2, 3), (2, 1, 0)",
]
OTHERS = [
    "CREATE TABLE k (id int PRIMARY KEY, name text) ",
    "CREATE TABLE r (at timestamp, n int) TTL at + INTERVAL '5 minutes'",
    "CREATE VIEW w AS SELECT a, count(*) AS n FROM t WHERE d > now() - INTERVAL '1' DAY GROUP BY a",
    "CREATE OR REPLACE VIEW w AS SELECT s FROM u",
    "DROP VIEW IF EXISTS w",
    "DROP TABLE z CASCADE",
    "INSERT INTO u (a, s) SELECT a, s FROM t WHERE a > 0",
    "UPDATE u SET c = c + 1, s = upper(s) WHERE a IN (SELECT a FROM t)",
    "DELETE FROM u WHERE a = 2 OR s LIKE 'a%'",
    "TRUNCATE TABLE z",
    "BEGIN; INSERT INTO z VALUES (1, 1); COMMIT",
    "SET plan = 'delta'",
    "SHOW TABLES",
    "EXPLAIN SELECT t.a FROM t JOIN u ON t.a = u.a",
    "SELECT a FROM t AS OF 3",
    "SELECT a FROM u [size 1 tuple partition by a]",
    "CREATE SOURCE f FROM FILES 'x.csv' (format = 'csv')",
    "CREATE SINK g FROM u INTO FILES 'out' (format = 'csv')",
    "WITH RECURSIVE (RETURN AT RECURSION LIMIT 10) r(n) AS (SELECT 1 UNION SELECT n + 1 FROM r) SELECT n FROM r",
    "CREATE TABLE c1 (id serial PRIMARY KEY, n text NOT NULL UNIQUE, b int DEFAULT 3 CHECK (b > 0))",
    "CREATE TABLE c2 (a int REFERENCES c1 (id) ON DELETE CASCADE, t int GENERATED ALWAYS AS (a * 2) STORED)",
    "INSERT INTO c1 (n) VALUES ('x'), ('y') ON CONFLICT (n) DO UPDATE SET b = excluded.b RETURNING id, n",
    "INSERT INTO c2 (a) VALUES (1)",
    "UPDATE c1 SET b = b - 1, (n) = ('z') FROM u WHERE c1.id = u.a",
    "DELETE FROM c1 USING u WHERE c1.id = u.a RETURNING *",
    "MERGE INTO c1 USING u ON c1.id = u.a WHEN MATCHED THEN UPDATE SET b = u.c "
    "WHEN NOT MATCHED THEN INSERT (n) VALUES (u.s)",
    "ALTER TABLE c1 ADD COLUMN w int DEFAULT 4, DROP COLUMN b CASCADE",
    "ALTER TABLE u ALTER COLUMN c TYPE text USING c::text, RENAME COLUMN s TO q",
    "ALTER TABLE c1 ADD CONSTRAINT k CHECK (b < 99), DROP CONSTRAINT k",
    "ALTER TABLE v ADD PRIMARY KEY (a); ALTER TABLE v RENAME TO v9",
    "CREATE SEQUENCE q1 START 5 INCREMENT BY 2 MINVALUE 1 MAXVALUE 9 CYCLE",
    "SELECT nextval('q1'), currval('q1'), setval('q1', 3)",
    "CREATE ROLE app LOGIN PASSWORD 'x' CONNECTION LIMIT 3 VALID UNTIL '2030-01-01'",
    "GRANT SELECT, INSERT ON u TO app; REVOKE INSERT ON u FROM app",
    "CREATE POLICY own ON u FOR SELECT TO app USING (a = 1) WITH CHECK (c > 0)",
    "ALTER TABLE u ENABLE ROW LEVEL SECURITY; SET ROLE app; SELECT * FROM u; RESET ROLE",
    "ALTER ROLE app SET tenant = 'acme'; ALTER ROLE app QUOTA (views 10, rows NONE)",
    "CREATE TABLE m (k int, at timestamp, v int, WATERMARK FOR at AS at - INTERVAL '5 seconds')",
    "CREATE VIEW mw AS SELECT window_start, k, sum(v) AS s FROM TUMBLE(m, at, INTERVAL '1 minute') "
    "GROUP BY window_start, k EMIT ON WINDOW CLOSE",
    "CREATE VIEW j3 AS SELECT t.a FROM t JOIN u ON t.a = u.a JOIN v ON v.a = u.a; ALTER VIEW j3 SET (plan = delta)",
    "EXPLAIN ALTERNATIVES SELECT t.a FROM t JOIN u ON t.a = u.a JOIN v ON v.a = u.a",
    "CREATE FUNCTION twice(x int) RETURNS int LANGUAGE SQL AS $$ SELECT x * 2 $$; SELECT twice(a) FROM t",
    "CREATE TEMP TABLE tmp AS SELECT a FROM t; CREATE UNIQUE INDEX ON tmp (a); COMMENT ON TABLE tmp IS 'x'",
    "BEGIN; SAVEPOINT s; INSERT INTO u VALUES (9, 9, 'x'); ROLLBACK TO s; RELEASE s; COMMIT",
    "WITH gone AS (DELETE FROM u WHERE a = 9 RETURNING *) INSERT INTO u SELECT * FROM gone",
    "COPY (SELECT a FROM t) TO 'x.csv' WITH (FORMAT csv, HEADER)",
    "SET ask = 'view'; SET plan = 'best'; SET search_path = public; SET dialect = default; SET ask = default",
    "SHOW WATERMARKS; SHOW INDEXES FROM u; DESCRIBE u; EXPLAIN ANALYZE SELECT a FROM t",
    "SELECT * FROM ev.statistics; SELECT * FROM ev.plans",
    "TRUNCATE c1, c2 RESTART IDENTITY CASCADE",
]
"""What the files have none of: definitions and changes."""


def statements() -> list[str]:
    """The queries of all files, right and wrong ones, and the others."""
    found: list[str] = []
    for path in sorted(STATEMENTS.glob("*.slt")):
        for block in path.read_text().split("\n\n"):
            lines = [line for line in block.splitlines() if not line.startswith("#")]
            skipped = {"query": 1, "error": 2}.get(lines[0].split()[0] if lines and lines[0].split() else "", 0)
            text = "\n".join(lines[skipped:]).partition("\n----")[0]
            if skipped and text.strip():
                found.append(text)
    return found + OTHERS * 5


def mutated(text: str, rng: random.Random) -> str:
    """The statement with one to three tokens dropped, doubled, swapped, replaced or put in."""
    tokens = TOKEN.findall(text)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(tokens)) if tokens else 0
        other = rng.randrange(len(tokens)) if tokens else 0
        match rng.randrange(6):
            case 0:
                del tokens[at : at + 1]
            case 1:
                tokens[at:at] = [*tokens[at : at + 1], " "]
            case 2 if tokens:
                tokens[at], tokens[other] = tokens[other], tokens[at]
            case 3:
                tokens[at : at + 1] = [" ", rng.choice(ODD), " "]
            case 4:
                tokens[at:at] = [" ", rng.choice(ODD), " "]
            case _:
                del tokens[at:]
    return "".join(tokens)


def session(where: str | None = None) -> ev.Session:
    db = ev.connect(where, files=False)
    for text in SCHEMA:
        db.sql(text)
    return db


def raw_errors(count: int, seed: int, each: int = 500, folder: Path | None = None) -> Counter[str]:
    """What came out that is not ours, of so many mutated statements; every second session is in a directory, if there
    is a folder, and its directory can be opened again.
    """
    rng = random.Random(seed)
    originals = statements()
    found: Counter[str] = Counter()
    for i in range(count):
        if i % each == 0:
            where = str(folder / str(i)) if folder is not None and i // each % 2 else None
            db = session(where)
        text = mutated(rng.choice(originals), rng)
        try:
            db.sql(text)
        except ev.EverviewError as error:
            if error.code == "E_INTERNAL":
                found[f"{error.message} in {text!r}"] += 1
        except Exception as error:
            place = traceback.extract_tb(sys.exc_info()[2])[-1]
            found[f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}: {error} in {text!r}"] += 1
        if i % each == each - 1:
            for end in ("ROLLBACK", "RESET ROLE"):
                with contextlib.suppress(ev.EverviewError):
                    db.sql(end)
            assert db.sql("SELECT 1 AS one").rows() == [(1,)]
            if where is not None:
                there = {name: sorted(db[name].rows(), key=repr) for name in db.tables}
                db.close()
                with ev.connect(where) as again:
                    assert {name: sorted(again[name].rows(), key=repr) for name in again.tables} == there
    return found


def test_there_are_statements():
    assert len(statements()) > 100


def test_300_mutated_statements(tmp_path: Path) -> None:
    assert raw_errors(300, seed=1, each=100, folder=tmp_path) == Counter()


@pytest.mark.parametrize(
    "text",
    [
        "ALTER TABLE u ALTER COLUMN c TYPE text USING ",
        "ALTER TABLE u DROP COLUMN IF EXISTS",
        "ALTER TABLE u ADD CONSTRAINT k CHECK(c < 99) ) ,DROP CONSTRAINT k",
        "CREATE FUNCTION twice(",
        "SELECT * '' ev.plans",
        "SELECT MAP {: 1}",
        "SELECT ({'x' , : 1}) ] z FROM t",
    ],
)
def test_statements_that_end_too_soon_or_too_late(text: str) -> None:
    with pytest.raises(ev.EverviewError, match="E_SYNTAX"):
        session().sql(text)


LONG = "9" * 5000
"""More digits than Python reads."""


@pytest.mark.parametrize(
    "text",
    [
        *(f"SELECT setval('q1'{more}) AS x" for more in ("", ", 'x'", ", 1.5", ", -x", ", 2 + 1.5", ", 99")),
        *(f"SELECT setval('q1', 3, {more}) AS x" for more in ("5", "maybe", "true, 4")),
        *(f"SELECT {call} AS x" for call in ("nextval('q1', 2)", "lastval(3)", "random(3)", "gen_random_uuid(1)")),
        *(f"ALTER SEQUENCE q1 RESTART {number}" for number in ("1.5", "1e3", "99", "WITH -3", LONG)),
        *(f"SELECT a FROM t AS OF {number}" for number in ("\u00b2", LONG)),
        *(f"SELECT a FROM t {part} {LONG}" for part in ("LIMIT", "OFFSET", "ORDER BY", "GROUP BY")),
        f"SELECT setval('q1', {LONG})",
        f"CREATE SEQUENCE q2 START {LONG}",
        f"CREATE TABLE x (m char({LONG}))",
        f"SELECT a FROM t FETCH FIRST {LONG} ROWS ONLY",
        f"SELECT jsonb_path_query('[1]', 'strict $[{LONG}]')",
        "SELECT lpad('x', 99999999999) AS x",
        "SELECT rpad(s, 99999999999) AS x FROM t",
        "SELECT format('%99999999999s', 'x') AS x",
    ],
)
def test_numbers_that_are_none_or_too_large(text: str) -> None:
    db = session()
    db.sql("CREATE SEQUENCE q1 START 5 MINVALUE 1 MAXVALUE 9")
    with pytest.raises(ev.EverviewError) as raised:
        db.sql(text).rows()
    assert raised.value.code != "E_INTERNAL"
    assert db.sql("SELECT nextval('q1') AS x").rows() == [(5,)]


@pytest.mark.parametrize("over", ["", " OVER ()", " FILTER (WHERE a > 0) OVER ()", " FILTER (WHERE a > 0)"])
@pytest.mark.parametrize("name", ["max", "sum", "avg", "min", "bool_and", "first_value", "string_agg", "array_agg"])
def test_only_count_takes_a_star(name: str, over: str) -> None:
    with pytest.raises(ev.EverviewError):
        session().sql(f"SELECT {name}(*){over} AS x FROM t")


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(14400)
def test_50000_mutated_statements(tmp_path: Path) -> None:
    assert raw_errors(50_000, seed=2, folder=tmp_path) == Counter()
