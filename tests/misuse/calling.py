"""Calls with arguments that make no sense, and what is allowed to come out of them.

A scene (`Scene`) is a session with the things that a program holds, and the calls that can be made of them. Some calls
are given arguments that make sense, so that what is done with them later is reached too: one or two of these are taken
for odd ones. The others get odd arguments only.

What comes out is an answer or an error of Everview's that is not about a fault of ours. `TypeError` is allowed only
where Python itself raises it, because the number or the names of arguments do not fit a signature; what a function
raises that was among the arguments is its own.
"""

from __future__ import annotations

import datetime as dt
import inspect
import random
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import everview as ev
from everview import col, lit

HERE = str(Path(ev.__file__).parent)

OTHER = ev.connect().table("other", {"x": int, "y": int})

THEIRS = ("body(", "self._function(", "self._position()", "given()", "first(present)")
"""How lines look that call a function which was among the arguments."""

WRAPPERS = ("session/changes/turns.py", "session/reads/concurrent_reads.py", "dataflow/shield.py")
"""Files that pass calls on, with whatever arguments they were given."""


@dataclass(frozen=True)
class Call:
    """Something to call, with arguments that make sense, if any do; `then` is done with the answer."""

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...] | None = None
    named: Mapping[str, Any] = field(default_factory=dict)
    then: Callable[[Any], Any] | None = None


class Scene:
    """A session, and what can be called there. Subclasses say what."""

    each = 50
    """After so many calls everything is made anew"""

    def __init__(self) -> None:
        self.db = self.session()

    def session(self) -> ev.Session:
        raise NotImplementedError

    def calls(self) -> Iterable[Call]:
        """All calls that can be made now."""
        raise NotImplementedError

    def odd(self, rng: random.Random, parameter: str) -> Any:
        """A value that hardly anybody expects, for a parameter of this name ("" if it has none)."""
        return odd(rng, self.db)

    def whole(self) -> bool:
        """Whether everything is still there; what is gone was dropped, as was asked."""
        return True

    def check(self) -> None:
        """The session answers as before."""

    def close(self) -> None:
        self.db.close()


def odd(rng: random.Random, db: ev.Session) -> Any:
    """A value that hardly anybody expects."""
    return rng.choice(
        [
            None, 0, -1, 1, 2**63, 2**200, 1.5, float("nan"), "", "x", "t", "no such", "\ud800", "a\0b", b"\xff", True,
            [], [1], [()], [(1,)], [(1, 2, 3)], [None], ["x"], [{"x": 1}], [{}], {}, {"x": 1}, {"x": int}, {1: 2}, (),
            (1, 2), set(), object(), int, len, lambda *a: a, lambda: None, col.x, col.nope, lit(1), col.x > 1,
            *(db[name] for name in (*db.tables, *db.views)[:3]), ev.connect(), OTHER, Decimal("1.5"),
            dt.datetime(2026, 1, 1), dt.timedelta(0), range(3), iter([(1, 2)]), [[1, 2], [3]], "count", ["x", "x"],
        ]
    )  # fmt: skip


def methods(things: Iterable[Any], left_out: Iterable[str] = ()) -> Iterable[Call]:
    """All public methods of some objects."""
    for thing in things:
        for name in dir(type(thing)):
            if not name.startswith("_") and name not in left_out and inspect.isfunction(getattr(type(thing), name)):
                yield Call(f"{type(thing).__name__}.{name}", getattr(thing, name))


def ours(error: BaseException) -> bool:
    """Whether it is an error of Everview's, or Python's own about a signature, or of a function that was given."""
    if isinstance(error, ev.EverviewError):
        return error.code != "E_INTERNAL"
    trace = traceback.extract_tb(error.__traceback__)
    frames = [f for f in trace if f.filename.startswith(HERE)]
    if frames and any(words in str(frames[-1].line) for words in THEIRS):
        return True
    inside = [f for f in frames if not f.filename.endswith(WRAPPERS)]
    return isinstance(error, TypeError) and not inside


def arguments(scene: Scene, call: Call, rng: random.Random) -> tuple[list[Any], dict[str, Any]]:
    """Arguments for a call: odd ones, or those that make sense with one or two of them taken for odd ones."""
    try:
        parameters = [p for p in inspect.signature(call.function).parameters if p not in ("self", "args", "named")]
    except ValueError:
        parameters = []
    if call.args is None or rng.random() < 0.2:
        args = [scene.odd(rng, "") for _ in range(rng.randrange(4))]
        name = rng.choice(parameters) if parameters else ""
        return args, {name: scene.odd(rng, name)} if name and rng.random() < 0.5 else {}
    args, named = list(call.args), dict(call.named)
    for _ in range(rng.choice((1, 1, 1, 2, 0))):
        places = [*range(len(args)), *dict.fromkeys([*parameters[len(args) :], *named])]
        place = rng.choice(places) if places else 0
        if isinstance(place, str):
            named[place] = scene.odd(rng, place)
        elif args:
            args[place] = scene.odd(rng, parameters[place] if place < len(parameters) else "")
    return args, named


def misuse(seed: int, count: int, make: Callable[[], Scene], became: Counter[str] | None = None) -> Counter[str]:
    """Raw errors of so many calls, by where they come from; `became` counts what came out, answers and codes."""
    rng, raw = random.Random(seed), Counter[str]()
    became = Counter() if became is None else became
    scene = make()
    for number in range(count):
        if number % scene.each == scene.each - 1 or not scene.whole():
            scene.check()
            scene.close()
            scene = make()
        call = rng.choice(list(scene.calls()))
        args, named = arguments(scene, call, rng)
        try:
            answer = call.function(*args, **named)
            if inspect.isgenerator(answer):
                list(answer)
            if call.then is not None:
                call.then(answer)
            became["answer"] += 1
        except BaseException as error:
            became[getattr(error, "code", type(error).__name__)] += 1
            if not ours(error):
                raw[_said(call, error)] += 1
    scene.close()
    return raw


def _said(call: Call, error: BaseException) -> str:
    trace = traceback.extract_tb(error.__traceback__)
    ours = [f for f in trace if f.filename.startswith(HERE)] or trace
    return f"{call.name}: {type(error).__name__} at {Path(ours[-1].filename).name}:{ours[-1].lineno}: {error}"[:300]
