"""The text of a dataclass that can be relied on, whatever happens while it is made.

What names an operator's state in a directory (`everview.dataflow.identity`) is a hash, of texts among others. The
`__repr__` that `dataclass` makes is not fit for that. It notes which objects are being written, to find those that hold
themselves; an exception that another thread raises at the wrong instant leaves the note behind, and from then on the
text of that object is `...`. A commit made after that carried a hash that nobody could make again, and the directory
could not be opened. This one notes nothing. The text is the same.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any


def spelled(self: Any) -> str:
    """To be a dataclass' `__repr__`; it must not hold itself.

    >>> from dataclasses import dataclass
    >>> @dataclass(repr=False)
    ... class Point:
    ...     x: int
    ...     y: int = 0
    ...     __repr__ = spelled
    >>> Point(1)
    Point(x=1, y=0)
    """
    parts = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if f.repr)
    return f"{type(self).__qualname__}({parts})"
