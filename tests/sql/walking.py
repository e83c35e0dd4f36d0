"""Expressions with every combination of edge values, against PostgreSQL; for `test_walked.py`.

A line of `walked/*.txt` is an expression in which `{int}`, `{t}` and the like stand for each of `VALUES`. PostgreSQL
computes a text, or fails; so do we. Numbers are compared by 13 digits, and without idle zeros. A mark before a line
says what may differ there, and docs/sql.md says why:

    ~   another value: a scale, an int of 64 bits, a text that belongs to a locale
    ?   refused, or a row error, where PostgreSQL has a value
    !   a value where PostgreSQL has an error
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path

import everview as ev
from tests.sql.postgres import Postgres

FOLDER = Path(__file__).with_name("walked")

VALUES: dict[str, Sequence[str]] = {
    "int": (
        "0",
        "1",
        "-1",
        "2",
        "7",
        "-13",
        "100",
        "NULL::int",
        "2147483647",
        "(-2147483648)",
    ),
    "big": (
        "0::bigint",
        "3::bigint",
        "(-5)::bigint",
        "9223372036854775807",
        "(-9223372036854775807-1)",
        "NULL::bigint",
    ),
    "small": (
        "0::smallint",
        "(-32768)::smallint",
        "32767::smallint",
        "NULL::smallint",
    ),
    "f": (
        "0::float8",
        "'-0'::float8",
        "1.5::float8",
        "(-2.25)::float8",
        "'NaN'::float8",
        "'Infinity'::float8",
        "'-Infinity'::float8",
        "1e308::float8",
        "1e-300::float8",
        "0.1::float8",
        "NULL::float8",
        "123456789.125::float8",
        "2.5::float8",
    ),
    "n": (
        "0::numeric",
        "1.50::numeric(10,2)",
        "(-2.25)::numeric(10,2)",
        "12345678901234567890.123456789::numeric(38,9)",
        "99999999999999999999999999999999999999::numeric(38,0)",
        "0.0000000000000000000000000000000000001::numeric(38,37)",
        "NULL::numeric",
        "2.5::numeric(4,1)",
        "(-7)::numeric(5,0)",
        "0.5::numeric(3,2)",
    ),
    "t": (
        "''",
        "'a'",
        "'abc'",
        "'Hello World'",
        "'ÆØÅ ñ'",
        "'日本語'",
        "'a,b,,c'",
        "'  pad '",
        "NULL::text",
        "'x''y\\z'",
        "'aXbXc'",
        "'😀k'",
    ),
    "c": (
        "'ab'::char(4)",
        "''::char(3)",
        "'abc '::char(5)",
        "NULL::char(2)",
        "'x'::char",
    ),
    "d": (
        "date '2024-02-29'",
        "date '0001-01-01'",
        "date '1900-03-01'",
        "date '2024-12-31'",
        "NULL::date",
        "date '1969-12-31'",
        "date '9999-12-31'",
        "date '2021-01-03'",
    ),
    "ts": (
        "timestamp '2024-02-29 12:34:56.789012'",
        "timestamp '2024-03-31 02:30:00'",
        "timestamp '1969-12-31 23:59:59.999999'",
        "timestamp '2024-10-27 02:30'",
        "NULL::timestamp",
        "timestamp '0001-01-01 00:00'",
        "timestamp '2023-12-31 23:59:59'",
        "timestamp '2000-01-01'",
    ),
    "tz": (
        "timestamptz '2024-02-29 12:34:56.789012+00'",
        "timestamptz '2024-03-31 01:30:00+00'",
        "timestamptz '1969-12-31 23:59:59.999999-05'",
        "timestamptz '2024-10-27 00:30+00'",
        "NULL::timestamptz",
        "timestamptz '2024-06-30 23:59:60+00'",
    ),
    "ti": (
        "time '00:00'",
        "time '23:59:59.999999'",
        "time '12:30:15.5'",
        "NULL::time",
        "time '24:00'",
    ),
    "iv": (
        "interval '0'",
        "interval '1 month'",
        "interval '-1 month 2 days'",
        "interval '1 day 02:03:04.5'",
        "interval '-5 hours'",
        "interval '1 year 13 months 40 days 30:00'",
        "NULL::interval",
        "interval '30 days'",
        "interval '100 years'",
        "interval '-00:00:00.000001'",
    ),
    "u": (
        "'550e8400-e29b-41d4-a716-446655440000'::uuid",
        "'00000000-0000-0000-0000-000000000000'::uuid",
        "'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid",
        "NULL::uuid",
    ),
    "j": (
        "'{}'::jsonb",
        "'[]'::jsonb",
        "'null'::jsonb",
        '\'{"a": 1, "b": {"c": [1, 2, {"d": null}]}, "a": 2}\'::jsonb',
        '\'[1, "x", null, true, 1.50, {"a": "b"}]\'::jsonb',
        "'12345678901234567890.5'::jsonb",
        "'\"str\"'::jsonb",
        "NULL::jsonb",
        '\'{"bb":1,"a":2,"é":"\\u00e9"}\'::jsonb',
        "'1e5'::jsonb",
        "true::text::jsonb",
        "'[[1,2],[3,4]]'::jsonb",
    ),
    "ia": (
        "'{}'::int[]",
        "ARRAY[1,2,3]",
        "ARRAY[NULL,2]::int[]",
        "ARRAY[3,1,2,1]",
        "NULL::int[]",
        "ARRAY[5]",
    ),
    "ia2": (
        "ARRAY[[1,2],[3,4]]",
        "'{{1,NULL},{3,4}}'::int[]",
        "'{{{1},{2}}}'::int[]",
    ),
    "ta": (
        "'{}'::text[]",
        "ARRAY['a','b']",
        "ARRAY['x y',NULL,'',E'q\"r']",
        "NULL::text[]",
        "ARRAY['NULL','null','{}']",
        "ARRAY['b','a','a']",
    ),
    "b": (
        "true",
        "false",
        "NULL::boolean",
    ),
    "by": (
        "'\\x'::bytea",
        "'\\xdeadbeef'::bytea",
        "'\\x00ff61'::bytea",
        "'abc'::bytea",
        "NULL::bytea",
    ),
    "m": (
        "'sad'::mood",
        "'ok'::mood",
        "'happy'::mood",
        "NULL::mood",
    ),
    "r": (
        "ROW(1,'a')",
        "ROW(NULL,NULL)",
        "ROW(1,NULL)",
        "ROW(2,'b')",
    ),
}

SETUP = "CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')"

TRIED = """
    CREATE FUNCTION tried(expression text) RETURNS text LANGUAGE plpgsql AS $f$
    DECLARE found text;
    BEGIN
        EXECUTE 'SELECT (' || expression || ')::text' INTO found;
        RETURN 'v' || coalesce(found, '<NULL>');
    EXCEPTION WHEN OTHERS THEN
        RETURN 'e' || SQLSTATE;
    END $f$
"""


@dataclass(frozen=True)
class Line:
    """A line of a file, and what may differ there."""

    text: str
    may: frozenset[str]

    def filled(self, most: int, seed: int) -> list[str]:
        """The line with values, at most so many combinations."""
        names = [name for name in re.findall(r"\{(\w+)\}", self.text) if name in VALUES]
        rows = list(itertools.islice(itertools.product(*(VALUES[n] for n in names)), 20_000))
        chosen = rows if len(rows) <= most else random.Random(f"{seed} {self.text}").sample(rows, most)
        return [self._with(row) for row in chosen]

    def _with(self, row: tuple[str, ...]) -> str:
        parts = iter(row)
        return re.sub(r"\{(\w+)\}", lambda m: next(parts) if m[1] in VALUES else m[0], self.text)


def lines(path: Path) -> Iterator[Line]:
    """The lines of a file."""
    for line in path.read_text().split("\n"):
        if line.strip():
            marks, _, text = line.partition("\t")
            yield Line(text, frozenset(marks))


@dataclass(frozen=True)
class Difference:
    """One expression that differs, and how: ~ a value, ? refused here, ! refused there, or `raw`."""

    kind: str
    line: Line
    expression: str
    ours: str
    theirs: str

    def __str__(self) -> str:
        return f"{self.kind} {self.expression}\n    here {self.ours[:200]!r}, PostgreSQL {self.theirs[:200]!r}"


def differences(db: ev.Session, postgres: Postgres, of: Sequence[Line], most: int, seed: int) -> list[Difference]:
    """What differs beyond what the lines allow."""
    asked = [(line, text) for line in of for text in line.filled(most, seed)]
    found = []
    for (line, text), theirs in zip(asked, _theirs(postgres, [t for _, t in asked]), strict=True):
        ours = _ours(db, text)
        kind = _compared(ours, theirs)
        if kind and kind not in line.may:
            found.append(Difference(kind, line, text, ours, theirs))
    return found


def _theirs(postgres: Postgres, expressions: Sequence[str]) -> list[str]:
    found: list[str] = []
    for k in range(0, len(expressions), 500):
        rows = ", ".join(f"({i}, {_quoted(e)})" for i, e in enumerate(expressions[k : k + 500]))
        answers = postgres.rows(f"SELECT i, tried(e) FROM (VALUES {rows}) AS asked(i, e) ORDER BY i")
        found += [str(answer) for _, answer in answers]
    return found


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _ours(db: ev.Session, expression: str) -> str:
    try:
        ((found,),) = db.sql(f"SELECT ({expression})::text").rows()
    except ev.EverviewError as error:
        return "e" + str(error)
    except Exception as error:  # whatever it is, nobody should see it
        return f"raw {type(error).__name__}: {error}"
    return "v" + ("<NULL>" if found is None else str(found))


def _compared(ours: str, theirs: str) -> str:
    if ours.startswith("raw"):
        return "raw"
    if ours[0] != theirs[0]:
        return "?" if ours[0] == "e" else "!"
    return "" if ours[0] == "e" or alike(ours[1:], theirs[1:]) else "~"


def alike(a: str, b: str) -> bool:
    """Whether two texts are the same, as numbers if they are numbers."""
    if a == b:
        return True
    try:
        x, y = Decimal(a), Decimal(b)
    except InvalidOperation:
        return False
    return x.is_finite() and y.is_finite() and abs(x - y) <= abs(y) * Decimal("1e-13")
