"""Every public call with arguments that make no sense: only Everview's own errors come out, and the session goes on.

Methods of the public classes are called with odd values in random places. `TypeError` is allowed only where Python
itself raises it, because the number or the names of arguments do not fit a signature.
"""

from __future__ import annotations

import datetime as dt
import inspect
import random
import traceback
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import everview as ev
from everview import col, lit

HERE = str(Path(ev.__file__).parent)

LEFT_OUT = {"to_spark", "run", "source", "write_to", "advance", "close"}
"""Calls that need a Spark, wait for ever, write files, or end the session."""


def odd(source: random.Random, db: ev.Session) -> Any:
    """A value that hardly anybody expects."""
    return source.choice(
        [
            None, 0, -1, 1, 2**63, 2**200, 1.5, float("nan"), "", "x", "t", "no such", "\ud800", "a\0b", b"\xff", True,
            [], [1], [()], [(1,)], [(1, 2, 3)], [None], ["x"], [{"x": 1}], [{}], {}, {"x": 1}, {"x": int}, {1: 2}, (),
            (1, 2), set(), object(), int, len, lambda *a: a, lambda: None, col.x, col.nope, lit(1), col.x > 1,
            db["t"], db["v"], ev.connect(), OTHER, Decimal("1.5"), dt.datetime(2026, 1, 1), dt.timedelta(0), range(3),
            iter([(1, 2)]), [[1, 2], [3]], "count", ["x", "x"],
        ]
    )  # fmt: skip


OTHER = ev.connect().table("other", {"x": int, "y": int})


def calls(db: ev.Session) -> list[tuple[str, Callable[..., Any]]]:
    """All public methods of what a program holds."""
    held = [db, db["t"], db["k"], db["v"], db["t"].select("x"), db["t"].group_by("x"), db["v"].as_of(db.time), col.x]
    found: list[tuple[str, Callable[..., Any]]] = []
    for thing in held:
        for name in dir(type(thing)):
            if not name.startswith("_") and name not in LEFT_OUT and inspect.isfunction(getattr(type(thing), name)):
                found.append((f"{type(thing).__name__}.{name}", getattr(thing, name)))
    for name in ("lit", "udf", "when", "count", "greatest", "least", "tuple_", "decimal", "fixpoint"):
        found.append((name, getattr(ev, name)))
    return found


def session() -> ev.Session:
    db = ev.connect()
    t = db.table("t", {"x": int, "y": str})
    db.table("k", {"id": int, "v": float | None}, key="id")
    db.view("v", t.group_by("x").agg(n=ev.count()))
    t.insert([(1, "a"), (2, "b")])
    return db


def ours(error: BaseException) -> bool:
    """Whether it is an error of Everview's, or Python's own about a signature."""
    if isinstance(error, ev.EverviewError):
        return True
    if "body(" in str(traceback.extract_tb(error.__traceback__)[-1].line):
        return True  # of the function that it was given
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith(HERE)]
    inside = [f for f in frames if not f.filename.endswith(("session/turns.py", "dataflow/shield.py"))]
    return isinstance(error, TypeError) and not inside


def misuse(seed: int, count: int) -> Counter[str]:
    """Raw errors, by where they come from."""
    source, raw = random.Random(seed), Counter[str]()
    db = session()
    for number in range(count):
        if number % 50 == 0:
            db.close()
            db = session()
        name, call = source.choice(calls(db))
        arguments = [odd(source, db) for _ in range(source.randrange(4))]
        named = {}
        try:
            parameters = [p for p in inspect.signature(call).parameters if p not in ("self", "args", "named")]
        except ValueError:
            parameters = []
        if parameters and source.random() < 0.5:
            keyword = source.choice(parameters)
            named = {keyword: odd(source, db)}
        try:
            answer = call(*arguments, **named)
            if inspect.isgenerator(answer):
                list(answer)
        except BaseException as error:
            if not ours(error):
                last = traceback.extract_tb(error.__traceback__)[-1]
                raw[f"{name}: {type(error).__name__} at {Path(last.filename).name}:{last.lineno}: {error}"[:200]] += 1
        if not {"t", "k", "v"} <= {*db.tables, *db.views}:  # dropped, as was asked
            db.close()
            db = session()
    db["t"].insert([(7, "still here")])
    assert (7, "still here") in db["t"].rows()
    return raw


def test_500_misused_calls() -> None:
    assert misuse(1, 500) == Counter()


@pytest.mark.slow
@pytest.mark.long
def test_10000_misused_calls() -> None:
    assert sum((misuse(seed, 1000) for seed in range(2, 12)), Counter[str]()) == Counter()
