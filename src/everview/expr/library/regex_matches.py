"""Positions and groups of regular expression matches: RE2's, through Arrow.

RE2 takes linear time for any pattern. Arrow exposes it for replacement and for the group positions of one match, but
not for the positions of all matches. Each match is therefore replaced by itself between two private-use characters. Two
things are missing in the marked text, and are found match by match:

- A group that did not participate is NULL, not empty. The match alone, with one character of context on each side, is
  matched again in full, and Arrow returns the groups' positions. One character is enough for `\\b`, `^` and `$`.
- RE2 skips an empty match directly after another one, which PostgreSQL reports.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from everview.expr.string_functions import RowFailure
from everview.kernels.expressions.scalars import ERROR_DOMAIN

_OPEN, _CLOSE = "\uf8f0", "\uf8f1"

Span = tuple[int, int] | None


class Match(NamedTuple):
    """A match: its text, and its positions in characters: the whole match, then its groups."""

    text: str
    spans: tuple[Span, ...]

    @property
    def start(self) -> int:
        return self.spans[0][0]  # type: ignore[index]  # the whole is always there

    @property
    def end(self) -> int:
        return self.spans[0][1]  # type: ignore[index]

    def group(self, number: int) -> str | None:
        """The text of a group (0: the whole match); None if it did not participate."""
        span = self.spans[number]
        return None if span is None else self.text[slice(*span)]


_SKIPPED = re.compile(r"\\.|\[\^?\]?(?:\\.|\[:\w+:\]|[^\]])*\]|\((?!\?)|\(\?P?<\w+>", re.DOTALL)
"""Atomic pieces of a pattern: an escaped character, a character class, the start of a group."""


@lru_cache(256)
def _named(pattern: str) -> tuple[str, int]:
    """The pattern with numbered group names, as Arrow requires, and the number of groups.

    >>> _named(r"(a)(?:b)[(](\\()(?P<x>c)")
    ('(?P<g1>a)(?:b)[(](?P<g2>\\\\()(?P<g3>c)', 3)
    """
    count = 0

    def piece(found: re.Match[str]) -> str:
        nonlocal count
        if not found[0].startswith("("):
            return found[0]
        count += 1
        return f"(?P<g{count}>"

    return _SKIPPED.sub(piece, pattern), count


def groups_of(pattern: str) -> int:
    """The number of capturing groups of a pattern.

    >>> groups_of(r"(a)(?:b)[(](\\()(?P<x>c)"), groups_of(r"([+-]?\\d+)(\\.?)")
    (3, 2)
    """
    return _named(pattern)[1]


@lru_cache(256)
def _may_be_empty(pattern: str) -> bool:
    """Whether it can match the empty text; assertions depend on context, so they may."""
    looks_around = re.search(r"[\^$]|\\[bBAz]", pattern) is not None
    return looks_around or bool(pc.match_substring_regex(pa.array([""]), pattern=pattern)[0].as_py())


def _marked(text: str, pattern: str) -> str:
    try:
        found = pc.replace_substring_regex(pa.array([text]), pattern=pattern, replacement=f"{_OPEN}\\0{_CLOSE}")
    except pa.ArrowInvalid:
        raise RowFailure(ERROR_DOMAIN) from None
    return str(found[0].as_py())


def _groups(text: str, pattern: str, start: int, end: int) -> tuple[Span, ...] | None:
    """Positions of the groups of a match at this place; None if there is none."""
    named, count = _named(pattern)
    before, after = min(start, 1), min(len(text) - end, 1)
    piece = text[start - before : end + after]
    whole = rf"\A{'(?s:.)' * before}(?P<g0>{named}){'(?s:.)' * after}\z"
    found = pc.extract_regex_span(pa.array([piece]), pattern=whole)[0].as_py()
    if found is None:
        return None
    letters = piece.encode()
    first = start - before

    def span(of: list[int] | None) -> Span:
        if of is None:
            return None
        left = first + len(letters[: of[0]].decode())
        return left, left + len(letters[of[0] : of[0] + of[1]].decode())

    return tuple(span(found[f"g{i}"]) for i in range(1, count + 1))


def matches(text: str, pattern: str) -> list[Match]:
    """All matches of a pattern (with its flags included), from the left.

    >>> [(m.group(0), m.group(1)) for m in matches("b ab", "(a)?b")]
    [('b', None), ('ab', 'a')]
    """
    marked = _marked(text, pattern)
    found: list[Match] = []
    before, *parts = marked.split(_OPEN)
    at, last = len(before), -1
    may_be_empty = bool(parts) and _may_be_empty(pattern)

    def add(start: int, end: int) -> bool:
        groups = _groups(text, pattern, start, end) if start == end or groups_of(pattern) else ()
        if groups is not None:
            found.append(Match(text, ((start, end), *groups)))
        return groups is not None

    for part in parts:
        inside, _, after = part.partition(_CLOSE)
        if may_be_empty and last >= 0 and at > last:
            add(last, last)
        add(at, at + len(inside))
        last = at + len(inside) if inside else -1
        at += len(inside) + len(after)
    if may_be_empty and last >= 0:
        add(last, last)
    return found
