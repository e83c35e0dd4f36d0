"""The picture that stays: one HTML file with the part of the graph that leads to sanctioned accounts, and a slider.

The page holds differences: what there was at the first position, then what every position changed. Its script adds
them up when the slider goes forward and subtracts them when it goes back, as the views did.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from everview.demo import pages
from everview.demo.money.data import World
from everview.demo.money.program import DRAWN
from everview.demo.money.record import Check, Position, Singles

VIEWS = ("reaches", "step", *DRAWN)
"""Whose differences the page has, and `rings`, those of rings with drawn accounts."""


def write(path: Path, world: World, fed_by: str, singles: Singles, positions: list[Position]) -> Path:
    """Write the page; returns its path."""
    return pages.write(path, __package__, contents(world, fed_by, singles, positions))


def contents(world: World, fed_by: str, singles: Singles, positions: list[Position]) -> dict[str, Any]:
    """What the script gets. A difference is a row with its signed count at the end."""
    drawn = {row[1] for position in positions for row, _ in position.differences["case_account"]}
    names = {name for p in positions for view in ("case_account", "reaches") for (name, *_), _ in p.differences[view]}
    return {
        "origin": world.origin,
        "fedBy": fed_by,
        "shops": sorted(name for name in names if world.accounts.get(name) == "shop"),
        "single": {"ms": singles.median * 1e3, "count": len(singles.seconds)},
        "positions": [_position(position, drawn) for position in positions],
    }


def _position(position: Position, drawn: set[str]) -> dict[str, Any]:
    told = position.differences
    found: dict[str, Any] = {
        "at": position.at.isoformat(timespec="minutes"),
        "time": position.time,
        "told": position.told,
        "about": position.about,
        "words": [[sentence.text, sentence.tone] for sentence in position.sentences],
        "ms": round(position.seconds * 1e3, 3),
        "in": position.came_in,
        "out": position.came_out,
        "check": _check(position.check),
        "rings": [[*row, diff] for row, diff in told["ring"] if row[0] in drawn],
    }
    return found | {name: [[*row, diff] for row, diff in told[name]] for name in VIEWS}


def _check(check: Check | None) -> dict[str, Any] | None:
    if check is None:
        return None
    return {"ms": round(check.seconds * 1e3, 3), "payments": check.payments, "equal": check.equal}
