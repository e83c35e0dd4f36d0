"""Statements of every kind with one typo: each error has our code, a place with a caret, and no word of the parser's.

What is understood in spite of the typo (a column of another name, a word too many that is an alias) may well run.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterator

import pytest
from sqlglot import exp

import everview as ev

TABLES = """
    CREATE TABLE t (a int, b int, s text);
    CREATE TABLE u (a int, c int);
    CREATE TABLE m (at timestamp, x int, WATERMARK FOR at AS at)
"""
STATEMENTS = [
    "SELECT a, sum(b) AS s FROM t WHERE a > 3 GROUP BY a HAVING sum(b) > 2 ORDER BY s LIMIT 3",
    "CREATE VIEW v AS\nSELECT t.a, count(*) AS n\nFROM t JOIN u ON t.a = u.a\nGROUP BY t.a",
    "INSERT INTO t (a, b, s) VALUES (1, 2, 'x'), (3, NULL, 'y') ON CONFLICT DO NOTHING RETURNING a",
    "UPDATE t SET b = b + 1, s = upper(s) WHERE a IN (1, 2) RETURNING a, b",
    "DELETE FROM t USING u WHERE t.a = u.a AND u.c BETWEEN 1 AND 5",
    "CREATE TABLE w (id int PRIMARY KEY, name text NOT NULL DEFAULT 'x', p numeric(8, 2) CHECK (p > 0), UNIQUE (name))",
    "ALTER TABLE t ADD COLUMN z int DEFAULT 3",
    "MERGE INTO t USING u ON t.a = u.a WHEN MATCHED THEN UPDATE SET b = u.c "
    "WHEN NOT MATCHED THEN INSERT (a, b) VALUES (u.a, u.c)",
    "SELECT CASE WHEN a = 1 THEN 'one' ELSE coalesce(s, 'none') END AS x, CAST(b AS double precision) FROM t",
    "SELECT a, row_number() OVER (PARTITION BY b ORDER BY a DESC) AS n, lag(b) OVER (ORDER BY a) FROM t",
    "WITH RECURSIVE r AS (SELECT 1 AS n UNION SELECT n + 1 FROM r WHERE n < 5) SELECT * FROM r",
    "SELECT date_trunc('month', DATE '2024-01-05') AS m, extract(year FROM now()) AS y, INTERVAL '1 day' AS i",
    "SELECT DISTINCT s FROM t LEFT JOIN u USING (a) WHERE EXISTS (SELECT 1 FROM u AS w WHERE w.a = t.a) "
    "UNION ALL SELECT 'z'",
    "CREATE INDEX i ON t (a, b)",
    "CREATE SEQUENCE q START WITH 5 INCREMENT BY 2",
    "COMMENT ON TABLE t IS 'words'",
    "EXPLAIN SELECT * FROM t",
    "SHOW TABLES",
    "TRUNCATE TABLE u",
    "CREATE TYPE mood AS ENUM ('a', 'b')",
    "CREATE FUNCTION f(x int) RETURNS int LANGUAGE SQL AS 'SELECT x + 1'",
    "SELECT window_start, count(*) FROM TUMBLE(m, at, INTERVAL '1 minute') GROUP BY window_start",
    "SELECT jsonb_build_object('a', a) ->> 'a' AS j, ARRAY[1, 2] AS r FROM t GROUP BY s, a",
]

CLASSES = {name for name, kind in vars(exp).items() if isinstance(kind, type) and re.search(r"[a-z][A-Z]", name)}
"""sqlglot's classes of two words: nobody writes those."""
KEYS = {re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower() for name in CLASSES}
PHRASES = ("Expect", "Required keyword", "Invalid expression", "Failed to parse", "Error tokenizing", "<class", "Token")


def typo(r: random.Random, text: str) -> str:
    """The text with one word misspelled, left out, doubled or replaced by another."""
    words = [*re.finditer(r"\w+|[^\w\s]", text)]
    place = r.choice(words)
    word, kind = place.group(), r.random()
    if kind < 0.25 and len(word) > 2:
        i = r.randrange(len(word) - 1)
        new = word[:i] + word[i + 1] + word[i] + word[i + 2 :]
    elif kind < 0.45 and len(word) > 1:
        i = r.randrange(len(word))
        new = word[:i] + word[i + 1 :]
    elif kind < 0.6:
        new = word + r.choice("xqz")
    elif kind < 0.75:
        new = ""
    elif kind < 0.85:
        new = f"{word} {word}"
    else:
        new = r.choice(words).group()
    return text[: place.start()] + new + text[place.end() :]


def complaints(text: str, error: ev.EverviewError) -> Iterator[str]:
    """What is wrong with an error."""
    words, written = set(re.findall(r"\w+", error.message)), set(re.findall(r"\w+", text.lower()))
    strange = (words & CLASSES) | ((words & KEYS) - written) | ({"COMMAND", "Anonymous"} & words - written)
    if strange:
        yield f"words of the parser's: {strange}"
    if any(phrase in error.message for phrase in PHRASES):
        yield "a phrase of the parser's"
    if not error.code.startswith("E_") or error.code == "E_INTERNAL":
        yield "no code"
    if not re.search(r"line \d+, column \d+", error.message) or "\n" not in str(error) or "^" not in str(error):
        yield "no place"


def tried(seed: int, count: int) -> int:
    """Try statements with typos; gives how many were refused."""
    r, refused = random.Random(seed), 0
    db = ev.connect()
    db.sql(TABLES)
    for number in range(count):
        if number % 100 == 99:
            db.close()
            db = ev.connect()
            db.sql(TABLES)
        text = typo(r, r.choice(STATEMENTS))
        try:
            db.sql(text)
        except ev.EverviewError as error:
            refused += 1
            if "is taken" not in error.message:  # the statement was right, and a typo of it has run before
                assert not [*complaints(text, error)], f"{text}\n{error}"
    return refused


def test_an_error_has_a_place_and_our_words() -> None:
    assert tried(1, 300) > 200


@pytest.mark.slow
def test_many_errors_have_a_place_and_our_words() -> None:
    count = int(os.environ.get("EVERVIEW_TYPOS", "3000"))
    assert tried(2, count) > count // 2


@pytest.mark.parametrize(
    ("text", "column", "says"),
    [
        ("SELECT 'it''s', 'a", 17, "the quote ' is never closed"),
        ('SELECT "a FROM t', 8, 'the quote " is never closed'),
        ("SELECT 1 /* more", 10, "the comment is never closed"),
        ("SELECT $$a", 8, "the quote $$ is never closed"),
        ("SELECT a b c FROM t", 12, "c is not expected here"),
        ("SELECT (a FROM t", 11, "')' is missing"),
    ],
)
def test_what_is_wrong_and_where(text: str, column: int, says: str) -> None:
    db = ev.connect()
    db.sql(TABLES)
    with pytest.raises(ev.EverviewError) as caught:
        db.sql(text)
    assert f"line 1, column {column}: {says}" in str(caught.value) and "^" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "place", "says", "hint"),
    [
        ("SELECT j -> d FROM q", (1, 8), "jsonb -> date does not exist", "cast"),
        ("CREATE VIEW v AS\nSELECT\n  j @> 3 FROM q", (3, 3), "jsonb @> int does not exist", "cast"),
        ("SELECT name -> 'k' FROM q", (1, 8), "text is not JSON", "x::jsonb"),  # the hint was RENAME
        ("SELECT -name FROM q", (1, 9), "- text does not exist", "cast"),
        ("SELECT n LIKE 'a' FROM q", (1, 8), "int LIKE text does not exist", "cast"),
        ("SELECT * FROM q WHERE name IS NUL", (1, 31), "IS is followed by NULL", "did you mean 'NULL'?"),
        ("UPDATE q SET n = 1 WHERE name IS NUL", (1, 34), "IS is followed by NULL", "did you mean 'NULL'?"),
        ('SELECT n FROM q WHERE name = "bob"', (1, 30), "there is no column bob", "single quotes: 'bob'"),
        ("SELECT count(*) FROM q GROUP n", (1, 30), "BY is missing after GROUP", "GROUP BY n"),
        ("SELECT n FROM q ORDER n", (1, 23), "BY is missing after ORDER", "ORDER BY n"),
        ("SELECT row_number() FROM q", (1, 8), "row_number needs a window", "OVER"),
        ("CREATE TABLE w (a int, b)", (1, 24), "the column b has no type", "int, text"),
        ("SELECT upper() FROM q", (1, 14), "upper lacks an argument", ""),
        ("DELETE q WHERE n = 1", (1, 8), "FROM or the table's name is missing", "DELETE FROM"),
    ],
)
def test_errors_say_what_was_written(text: str, place: tuple[int, int], says: str, hint: str) -> None:
    db = ev.connect()
    db.sql("CREATE TABLE q (n int, name text, j jsonb, d date)")
    with pytest.raises(ev.sql.SqlError) as caught:
        db.sql(text)
    error = caught.value
    assert (error.line, error.column) == place and says in error.message and hint in error.hint, error
