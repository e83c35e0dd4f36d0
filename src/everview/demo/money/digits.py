"""Numbers three lines high, for the one figure that should be read from the back of the room."""

from __future__ import annotations

SHAPES = {
    "0": ("█▀█", "█ █", "▀▀▀"),
    "1": ("▄█ ", " █ ", "▀▀▀"),
    "2": ("▀▀█", "█▀▀", "▀▀▀"),
    "3": ("▀▀█", " ▀█", "▀▀▀"),
    "4": ("█ █", "▀▀█", "  ▀"),
    "5": ("█▀▀", "▀▀█", "▀▀▀"),
    "6": ("█▀▀", "█▀█", "▀▀▀"),
    "7": ("▀▀█", "  █", "  ▀"),
    "8": ("█▀█", "█▀█", "▀▀▀"),
    "9": ("█▀█", "▀▀█", "▀▀▀"),
    ",": (" ", " ", "▞"),
    ".": (" ", " ", "▀"),
    "×": ("   ", "▀▄▀", "▀ ▀"),
    " ": (" ", " ", " "),
}


def large(text: str) -> list[str]:
    """The three lines of a number.

    >>> print("\\n".join(large("20×")))
    ▀▀█ █▀█
    █▀▀ █ █ ▀▄▀
    ▀▀▀ ▀▀▀ ▀ ▀
    """
    shapes = [SHAPES[sign] for sign in text]
    return [" ".join(lines).rstrip() for lines in zip(*shapes, strict=True)]
