"""A lexer for statement texts: splits them into statements, words and parameters like PostgreSQL.

A client's text must be inspected before parsing: where one statement ends, which kind it is, where its parameters ($1,
$2) are. That takes a scanner for quotes, dollar quotes and nested comments, and nothing else.

>>> [s.text for s in split("SELECT ';' -- no; end\\n; COMMIT;")]
["SELECT ';'", 'COMMIT']
>>> [w.text for w in words('FETCH 5 FROM "My c"')], parameters("SELECT $2, '$1', $tag$ $3 $tag$")
(['FETCH', '5', 'FROM', 'My c'], [(7, 9, 2)])
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from everview.server.pg.sqlstates import PgError

_TOKEN = re.compile(
    r"""(?P<space>\s+|--[^\n]*)
    | (?P<comment>/\*)
    | (?P<string>(?:[eE](?P<escaped>'(?:[^'\\]|\\.|'')*')) | (?:[bBxXnN]|[uU]&)?'(?:[^']|'')*')
    | (?P<quoted>(?:[uU]&)?"(?:[^"]|"")*")
    | (?P<parameter>\$\d+)
    | (?P<dollar>\$(?:[A-Za-z_\x80-\U0010ffff][\w]*)?\$)
    | (?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)
    | (?P<word>[A-Za-z_\x80-\U0010ffff][\w$]*)
    | (?P<mark>::|:=|=>|<=|>=|<>|!=|.)
    """,
    re.VERBOSE | re.DOTALL,
)


class Word(NamedTuple):
    """A word, quoted name, text, number or mark of a statement."""

    kind: str
    """word, quoted, string, number, parameter or mark"""
    text: str
    """without its quotes"""
    start: int
    end: int

    @property
    def upper(self) -> str:
        """In capitals, if it is a word or mark; a quoted name or text is never a keyword."""
        return self.text.upper() if self.kind in ("word", "mark", "number") else ""


class Piece(NamedTuple):
    """One statement of a text, and where it starts."""

    text: str
    start: int


def _tokens(text: str) -> Iterator[tuple[str, int, int]]:
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        assert found is not None
        kind, end = found.lastgroup or "", found.end()
        if kind == "escaped":
            kind = "string"
        if kind == "comment":
            end = _comment_end(text, end)
        elif kind == "dollar":
            close = text.find(found[0], end)
            if close < 0:
                raise _unfinished("a dollar-quoted text", at)
            kind, end = "string", close + len(found[0])
        elif kind == "mark" and found[0] in ("'", '"'):
            raise _unfinished("a quoted text", at)
        if kind not in ("space", "comment"):
            yield kind, at, end
        at = end


def _comment_end(text: str, at: int) -> int:
    depth = 1
    for found in re.compile(r"/\*|\*/").finditer(text, at):
        depth += 1 if found[0] == "/*" else -1
        if depth == 0:
            return found.end()
    raise _unfinished("a comment", at - 2)


class UnfinishedText(PgError):
    """A text that ends in the middle of something, and where that begins."""

    def __init__(self, what: str, start: int) -> None:
        super().__init__("E_SYNTAX", "42601", f"{what} is not closed", "close it")
        self.place = start


def _unfinished(what: str, start: int) -> UnfinishedText:
    return UnfinishedText(what, start)


def split(text: str) -> list[Piece]:
    """The statements of a text, without the semicolons between them."""
    pieces: list[Piece] = []
    first, last, depth, body = -1, 0, 0, False
    for kind, start, end in _tokens(text):
        said = text[start:end]
        if kind == "mark":
            depth += (said == "(") - (said == ")")
        if kind == "word" and said.upper() == "ATOMIC" and depth == 0:
            body = True  # BEGIN ATOMIC ... END: a function's body has semicolons of its own
        if body and kind == "word" and said.upper() == "END":
            body = False
        if kind == "mark" and said == ";" and depth <= 0 and not body:
            if first >= 0:
                pieces.append(Piece(text[first:last], first))
            first, depth = -1, 0
            continue
        first, last = (start if first < 0 else first), end
    if first >= 0:
        pieces.append(Piece(text[first:last], first))
    return pieces


def words(text: str, most: int | None = None) -> list[Word]:
    """The first words of a statement; all if it is not said how many."""
    found: list[Word] = []
    for kind, start, end in _tokens(text):
        found.append(Word(kind, _plain(kind, text[start:end]), start, end))
        if most is not None and len(found) == most:
            break
    return found


def _plain(kind: str, text: str) -> str:
    """A token without its quotes."""
    if kind == "quoted":
        return text[text.index('"') + 1 : -1].replace('""', '"')
    if kind != "string":
        return text
    if text.startswith("$"):
        mark = text[: text.index("$", 1) + 1]
        return text[len(mark) : -len(mark)]
    inside = text[text.index("'") + 1 : -1].replace("''", "'")
    if text[:1] in "eE":
        inside = re.sub(r"\\(.)", lambda m: {"n": "\n", "t": "\t", "r": "\r"}.get(m[1], m[1]), inside)
    return inside


def parameters(text: str) -> list[tuple[int, int, int]]:
    """Where parameters stand, from and to, and their numbers."""
    return [(start, end, int(text[start + 1 : end])) for kind, start, end in _tokens(text) if kind == "parameter"]


def spaced(text: str) -> str:
    """The text with a blank behind each parameter that has none, so that nobody takes `$1,$` for a quote.

    >>> spaced("VALUES ($1,$2)")
    'VALUES ($1 ,$2 )'
    """
    for _, end, _ in reversed(parameters(text)):
        text = f"{text[:end]} {text[end:]}"
    return text
