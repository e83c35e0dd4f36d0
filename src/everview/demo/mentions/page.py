"""The picture that stays: one HTML file with the graph drawn and a slider of time, and nothing from the network.

The page holds differences, not windows: the first frame's contents, then what every slide changed. Its script adds
them up when the slider goes forward and subtracts them when it goes back, as the views did.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from everview.demo import pages
from everview.demo.mentions.data import TAGS, Mentions
from everview.demo.mentions.record import Act, Frame


def write(path: Path, mentions: Mentions, fed_by: str, acts: list[Act], frames: list[Frame]) -> Path:
    """Write the page; gives its path."""
    return pages.write(path, __package__, contents(mentions, fed_by, acts, frames))


def contents(mentions: Mentions, fed_by: str, acts: list[Act], frames: list[Frame]) -> dict[str, Any]:
    """What the script gets. A difference is a row with its signed count at the end."""
    return {
        "origin": mentions.origin,
        "fedBy": fed_by,
        "start": mentions.start,
        "slotSeconds": mentions.slot_seconds,
        "tags": TAGS,
        "acts": [{"title": act.title, "facts": act.facts()} for act in acts],
        "frames": [_frame(frame) for frame in frames],
    }


def _frame(frame: Frame) -> dict[str, Any]:
    slide = frame.slide
    found: dict[str, Any] = {
        "first": slide.window.first,
        "last": slide.window.last,
        "ms": round(slide.seconds * 1e3, 3),
        "in": slide.came_in,
        "out": slide.came_out,
        "slides": frame.slides,
    }
    return found | {name: [[*row, diff] for row, diff in rows] for name, rows in frame.differences.items()}
