"""Functions with constants give what PostgreSQL gives, value by value.

Each line of `expressions/*.txt` is one expression, asked of both. Answers are compared as values: numbers by nine
digits (decimals keep their scale here, and PostgreSQL's floats print otherwise), everything else as PostgreSQL writes
it.
"""

from __future__ import annotations

import csv
import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import everview as ev
from everview.codes.intervals import Interval
from tests.sql.postgres import Postgres

FILES = sorted((Path(__file__).parent / "expressions").glob("*.txt"))

TEMPLATES = (
    "YYYY-MM-DD HH24:MI:SS.US", "Day, DD Month YYYY", "FMDay, FMDD FMMonth YYYY",
    "DY Dy dy MON Mon mon", "HH12:MI am", "HH:MI PM p.m.",
    "DDD DD D ID W WW IW IYYY Q CC J",
    "YYY YY Y Y,YYY I IY IYY", "SSSS MS US FF3",
    "FMHH12 FMMI", "FMDDth \"of\" FMMonth", "DDTH",
    "RM rm FMRM", "yyyy mm dd", "\"year\" YYYY\"!\"", "IDDD", "MONTH month Month DAY day",
)  # fmt: skip

MOMENTS = (
    "2026-01-31 15:04:05.678901",
    "2024-02-29 00:00:00",
    "1999-12-31 12:59:59",
    "2027-01-01 09:00:00",
    "2026-11-12 23:00:01",
)

FIGURES = (
    "999", "000", "9,999.99", "FM9,999.99", "FM999.00", "S999", "999S", "999MI", "SG999", "PL999", "999PR",
    "0.99", "FM0.99", "99.9",
    "FM99th", "9999TH", "RN", "FMRN", "FM999,999,990.00", "9 9 9", "$999", "999D99", "9G999",
)  # fmt: skip
AMOUNTS = ("0", "5", "-7", "12", "485", "-485", "1234.5", "0.5", "-0.45", "123456.789", "3.999")


def _value(text: str | None, beside: Any) -> Any:
    """What PostgreSQL has printed, as our value is."""
    if text is None or isinstance(beside, str):
        return text
    if isinstance(beside, bool):
        return text == "t"
    if isinstance(beside, (int, float, Decimal)):
        return float(f"{float(text):.9g}")
    if isinstance(beside, bytes):
        return bytes.fromhex(text.removeprefix("\\x"))
    if isinstance(beside, dt.time):
        return dt.time.fromisoformat(text)
    if isinstance(beside, list):
        return next(csv.reader([text.strip("{}")]))
    if isinstance(beside, Interval):
        return text
    return dt.datetime.fromisoformat(text) if isinstance(beside, dt.datetime) else dt.date.fromisoformat(text)


def _plain(value: Any) -> Any:
    if isinstance(value, Interval):
        return str(value)
    return float(f"{float(value):.9g}") if isinstance(value, (int, float, Decimal)) and value is not True else value


def _compare(postgres: Postgres, expressions: list[str]) -> None:
    db = ev.connect()
    wrong = []
    for each in expressions:
        expected = postgres.rows(f"SELECT {each}")[0][0]
        try:
            found = db.sql(f"SELECT {each} AS x").rows()[0][0]
        except ev.EverviewError as error:
            wrong.append(f"{each}: {error}")
            continue
        if _plain(found) != _plain(_value(expected, found)):
            wrong.append(f"{each}: {found!r}, PostgreSQL {expected!r}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("path", FILES, ids=[f.stem for f in FILES])
def test_functions_of_constants(postgres: Postgres, path: Path) -> None:
    _compare(postgres, path.read_text().splitlines())


def test_moments_by_templates(postgres: Postgres) -> None:
    _compare(postgres, [f"to_char(timestamp '{m}', '{t}')" for m in MOMENTS for t in TEMPLATES])


def test_numbers_by_templates(postgres: Postgres) -> None:
    _compare(postgres, [f"to_char({a}, '{t}')" for a in AMOUNTS for t in FIGURES])
