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


def session() -> ev.Session:
    db = ev.connect(files=False)
    for text in SCHEMA:
        db.sql(text)
    return db


def raw_errors(count: int, seed: int, each: int = 500) -> Counter[str]:
    """What came out that is not ours, of so many mutated statements."""
    rng = random.Random(seed)
    originals = statements()
    found: Counter[str] = Counter()
    for i in range(count):
        if i % each == 0:
            db = session()
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
            with contextlib.suppress(ev.EverviewError):
                db.sql("ROLLBACK")
            assert db.sql("SELECT 1 AS one").rows() == [(1,)]
    return found


def test_there_are_statements():
    assert len(statements()) > 100


def test_300_mutated_statements():
    assert raw_errors(300, seed=1, each=100) == Counter()


@pytest.mark.slow
@pytest.mark.long
def test_50000_mutated_statements():
    assert raw_errors(50_000, seed=2) == Counter()
