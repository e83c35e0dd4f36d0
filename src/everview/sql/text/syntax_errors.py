"""Syntax error messages.

sqlglot's parser reports its internal expectation ("Invalid expression / Unexpected token", "Expecting )"), and its
tokenizer shows some text near where it gave up. Users are told which word is unexpected, what is missing, or which
quote is not closed.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_RULES: tuple[tuple[str, Callable[[re.Match[str], str], str]], ...] = (
    (r"Invalid expression / Unexpected token", lambda m, near: f"{near or 'this'} is not expected here"),
    (r"Expect(?:ed|ing) (?:token )?(.*?) (after|in) (.*)", lambda m, near: f"{_thing(m[1])} is missing {m[2]} {m[3]}"),
    (r"Expect(?:ed|ing) CTE to have alias", lambda m, near: "a query of WITH has no name"),
    (r"Expect(?:ed|ing) at least one argument", lambda m, near: "an argument is missing"),
    (r"Expect(?:ed|ing) (?:either |an? |token )?(.*)", lambda m, near: f"{_thing(m[1])} is missing"),
    (r"The number of provided arguments .*", lambda m, near: "there are too many arguments"),
    (r"No closing .* found", lambda m, near: "a quote is never closed"),
    (r"Invalid numeric interval literal: (.*)", lambda m, near: f"{m[1]} is not an interval"),
    (
        r"(?:Failed to|Cannot|Unable to) parse.*|No parser found.*|Unknown option.*|Maximum number.*|Unexpected.*"
        r"|.* does not support CTE|Required keyword.*|Invalid key.*|Unsupported.*",
        lambda m, near: f"{near or 'this'} is not understood here",
    ),
)


def in_our_words(what: str, near: str) -> str:
    """Rephrase the parser's error about the word `near`.

    >>> in_our_words("Invalid expression / Unexpected token", "FORM"), in_our_words("Expecting )", "")
    ('FORM is not expected here', "')' is missing")
    """
    for pattern, words in _RULES:
        found = re.fullmatch(pattern, what)
        if found is not None:
            return words(found, near)
    return what


def _thing(wanted: str) -> str:
    if wanted in ("table name", "database name"):
        return f"the name of a {wanted.removesuffix(' name')}"
    return wanted if re.search(r"\w", wanted) else repr(wanted)


_PIECE = re.compile(
    r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|--[^\n]*|/\*.*?\*/|(\$\w*\$).*?\1|/\*|\$\w*\$|[\s\S]""", re.DOTALL
)


def never_closed(text: str, start: int = 0) -> tuple[int, str]:
    """The position of an unclosed quote or comment, and a message; the start of the text if there is none.

    >>> never_closed("SELECT 'it''s', 'a"), never_closed("SELECT /* 1")
    ((16, "the quote ' is never closed"), (7, 'the comment is never closed'))
    """
    for piece in _PIECE.finditer(text, start):
        opened = piece.group()
        if opened in ("'", '"', "`") or (opened[0] == "$" and opened[1:] and piece.group(1) is None):
            return piece.start(), f"the quote {opened} is never closed"
        if opened == "/*":
            return piece.start(), "the comment is never closed"
    return start, "the text cannot be read"
