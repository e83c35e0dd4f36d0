"""Statements that differ in their constants only: `INSERT INTO t VALUES (7, 'x')` as `... VALUES ($1 , $2 )`.

Clients of the simple protocol write values into the text, so each text is new, and yet one of few *shapes*. A shape is
the text with parameters in place of its constants. It can be bound once (`everview.sql.dml.bound_changes`), and that
form is used for every text of the shape.

Only plain integers and quoted texts are taken out. They keep the types that they have in a text: a number is an int, a
quoted constant a text that its column parses.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from everview.types import INT, STR, DataType

MOST_CONSTANTS, LONGEST = 200, 10_000
"""Statements with more constants or letters are bound as they are."""

MOST_DIGITS = 18
"""Longer numbers are not ints."""

_TOKEN = re.compile(
    r"""
      "(?:[^"]|"")*"                                  # a quoted name
    | '(?P<text>(?:[^']|'')*)'(?P<more>\s*')?         # a standard string: a backslash is a backslash
    | [^\W\d][\w$]*(?P<prefix>['&])?                  # a word; E'...' is another kind of string
    | (?:(?<=[(,=])(?P<blank>\s*)(?P<sign>-))?(?P<number>\.?\d[\w.]*)
    | (?P<unsure>--|/\*|\$)                           # comments, parameters
    """,
    re.VERBOSE,
)


class Shape(NamedTuple):
    """A text without its constants."""

    text: str
    types: dict[str, DataType]
    values: dict[str, int | str]


def shape_of(text: str) -> Shape | None:
    """The shape of a statement, and its constants; None if it has none, or cannot be told for sure.

    >>> shape_of("INSERT INTO t VALUES (-7, 'it''s', x2)")
    Shape(text='INSERT INTO t VALUES ($1 , $2 , x2)', types={'1': int, '2': str}, values={'1': -7, '2': "it's"})
    >>> shape_of("DELETE FROM t WHERE a = E'x'"), shape_of("DELETE FROM t"), shape_of("DELETE FROM t -- 1")
    (None, None, None)
    """
    if len(text) > LONGEST:
        return None
    values: dict[str, int | str] = {}
    types: dict[str, DataType] = {}
    unsure = False

    def named(declared: DataType, value: int | str) -> str:
        name = str(len(values) + 1)
        types[name], values[name] = declared, value
        return f"${name} "

    def token(found: re.Match[str]) -> str:
        nonlocal unsure
        number, quoted = found["number"], found["text"]
        if found["unsure"] or found["prefix"] or found["more"]:
            unsure = True
        elif quoted is not None:
            return named(STR, quoted.replace("''", "'"))
        elif number is not None and number.isdecimal() and len(number) <= MOST_DIGITS:
            return (found["blank"] or "") + named(INT, int((found["sign"] or "") + number))
        return found[0]

    made = _TOKEN.sub(token, text)
    return Shape(made, types, values) if not unsure and 0 < len(values) <= MOST_CONSTANTS else None
