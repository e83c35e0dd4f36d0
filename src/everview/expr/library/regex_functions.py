"""Regular expression functions with PostgreSQL's semantics; `everview.expr.library.regex_matches` finds the matches.

Flags: `g` all matches, `i` ignores case, `n` or `m` ^ and $ match at lines, `s` a dot matches a newline (which it does
anyway, as in PostgreSQL), `c` respects case.
"""

from __future__ import annotations

import re
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from everview.expr.library.regex_matches import Match, matches
from everview.expr.library.signatures import Shelf
from everview.expr.string_functions import RowFailure
from everview.kernels.expressions.scalars import ERROR_DOMAIN

SHELF = Shelf()


@lru_cache(256)
def in_re2(pattern: str) -> str:
    r"""Translate PostgreSQL's word boundary escapes to RE2.

    >>> print(in_re2(r"\yab\Y\\y"))
    \bab\B\\y
    """
    return re.sub(r"\\(.)", lambda found: {"y": r"\b", "Y": r"\B"}.get(found[1], found[0]), pattern, flags=re.DOTALL)


@lru_cache(256)
def with_flags(pattern: str, flags: str) -> str:
    """A pattern in RE2 syntax with its flags; fails for unknown flags.

    >>> with_flags("a.b", "i")
    '(?is)a.b'
    """
    if set(flags) - set("gicnmsp"):
        raise RowFailure(ERROR_DOMAIN)
    lines = "n" in flags or "m" in flags
    letters = ("i" if "i" in flags else "") + ("m" if lines else "s")
    return f"(?{letters}){in_re2(pattern)}"


def _from(text: str, pattern: str, start: int, flags: str) -> list[Match]:
    """Matches from character `start` on (from 1)."""
    if start < 1:
        raise RowFailure(ERROR_DOMAIN)
    return matches(text[start - 1 :], with_flags(pattern, flags)) if start <= len(text) + 1 else []


def _expanded(match: Match, by: str) -> str:
    """Expand a replacement for a match."""

    def part(found: re.Match[str]) -> str:
        sign = found[1]
        if sign == "&" or sign == "0":
            return match.group(0) or ""
        if sign.isdecimal():
            return (match.group(int(sign)) or "") if int(sign) < len(match.spans) else ""
        return "\\" if sign == "\\" else f"\\{sign}"

    return re.sub(r"\\(.)", part, by, flags=re.DOTALL)


def _regexp_replace(
    text: str, pattern: str, by: str, start_or_flags: int | str = "", n: int | None = None, flags: str = ""
) -> str:
    """All forms: (s, p, r[, flags]), (s, p, r, start[, N[, flags]]); N = 0 are all."""
    if isinstance(start_or_flags, str):
        start, chosen, flags = 1, (0 if "g" in start_or_flags else 1), start_or_flags
    else:
        start, chosen = start_or_flags, (0 if "g" in flags else 1) if n is None else n
    if chosen < 0:
        raise RowFailure(ERROR_DOMAIN)
    result, last = [text[: max(start - 1, 0)]], 0
    rest = text[max(start - 1, 0) :]
    for number, match in enumerate(_from(text, pattern, start, flags), 1):
        if chosen in (0, number):
            result += [rest[last : match.start], _expanded(match, by)]
            last = match.end
    return "".join(result) + rest[last:]


def _regexp_count(text: str, pattern: str, start: int = 1, flags: str = "") -> int:
    return len(_from(text, pattern, start, flags))


def _nth(text: str, pattern: str, start: int, n: int, flags: str, group: int) -> Match | None:
    if n < 1 or group < 0:
        raise RowFailure(ERROR_DOMAIN)
    found = _from(text, pattern, start, flags)
    if n > len(found):
        return None
    match = found[n - 1]
    if len(match.spans) == 1 and group == 1:  # a pattern without groups is its own first group, as in PostgreSQL
        return Match(match.text, match.spans * 2)
    return match if group < len(match.spans) else None


def _regexp_substr(text: str, pattern: str, start: int = 1, n: int = 1, flags: str = "", group: int = 0) -> str | None:
    found = _nth(text, pattern, start, n, flags, group)
    return None if found is None else found.group(group)


def _regexp_instr(
    text: str, pattern: str, start: int = 1, n: int = 1, end: int = 0, flags: str = "", group: int = 0
) -> int:
    found = _nth(text, pattern, start, n, flags, group)
    if end not in (0, 1):
        raise RowFailure(ERROR_DOMAIN)
    span = None if found is None else found.spans[group]
    return 0 if span is None else start + span[end]


def _regexp_like(text: str, pattern: str, flags: str = "") -> bool:
    try:
        return bool(pc.match_substring_regex(pa.array([text]), pattern=with_flags(pattern, flags))[0].as_py())
    except pa.ArrowInvalid:
        raise RowFailure(ERROR_DOMAIN) from None


def _substring(text: str, pattern: str) -> str | None:
    """substring(s from pattern): the first group, or the whole match if there is none."""
    found = _from(text, pattern, 1, "")
    return found[0].group(min(1, len(found[0].spans) - 1)) if found else None


def split(text: str, pattern: str, flags: str = "") -> list[str]:
    """The text between matches; empty matches at the ends, or directly after another, do not split (as in PostgreSQL).

    >>> split("a1b22c", "[0-9]+"), split("abc", "")
    (['a', 'b', 'c'], ['a', 'b', 'c'])
    """
    parts, last = [], 0
    for match in _from(text, pattern, 1, flags):
        if match.start == match.end and match.start in (0, last, len(text)):
            continue
        parts.append(text[last : match.start])
        last = match.end
    return [*parts, text[last:]]


def captured(match: Match) -> list[str | None]:
    """The groups of a match, or the whole match if it has none."""
    return [match.group(i) for i in range(min(1, len(match.spans) - 1), len(match.spans))]


def _regexp_match(text: str, pattern: str, flags: str = "") -> list[str | None] | None:
    if "g" in flags:
        raise RowFailure(ERROR_DOMAIN)
    found = _from(text, pattern, 1, flags)
    return captured(found[0]) if found else None


def all_captured(text: str, pattern: str, flags: str = "") -> list[list[str | None]]:
    """The groups of the first match, or with flag g of all."""
    found = _from(text, pattern, 1, flags)
    return [captured(m) for m in (found if "g" in flags else found[:1])]


def similar(pattern: str, escape: str = "\\") -> str:
    """The regular expression of a SIMILAR TO pattern, anchored at both ends.

    >>> similar("a(b|c)%"), similar("x_y.")
    ('^(?:a(?:b|c).*)$', '^(?:x.y\\\\.)$')
    """
    result, i = "", 0
    while i < len(pattern):
        sign = pattern[i]
        if escape and sign == escape and i + 1 < len(pattern):
            i += 1
            result += re.escape(pattern[i])
        elif sign == "[":
            end = pattern.find("]", i + 2)
            if end < 0:
                raise RowFailure(ERROR_DOMAIN)
            result += pattern[i : end + 1].replace("\\", "\\\\")
            i = end
        else:
            plain = sign if sign in "|*+?{},0123456789)" else re.escape(sign)
            result += {"%": ".*", "_": ".", "(": "(?:"}.get(sign, plain)
        i += 1
    return f"^(?:{result})$"


def like(text: str, pattern: str, escape: str = "\\") -> bool:
    """LIKE with an escape character: % matches any characters, _ one. Takes at most len(text) * len(pattern) steps.

    >>> like("a%c", r"a\\%_"), like("abc", r"a\\%_"), like("mississippi", "%s%pi")
    (True, False, True)
    """
    wanted: list[str] = []
    letters = iter(pattern)
    for letter in letters:
        if escape and letter == escape:
            following = next(letters, None)
            if following is None:
                raise RowFailure(ERROR_DOMAIN)
            wanted.append(following)
        else:
            wanted.append({"%": "many", "_": "one"}.get(letter, letter))
    at = place = 0
    back, resumed = -1, 0
    while at < len(text):
        if place < len(wanted) and wanted[place] == "many":
            back, resumed, place = place, at, place + 1
        elif place < len(wanted) and wanted[place] in ("one", text[at]):
            at, place = at + 1, place + 1
        elif back >= 0:  # let the last % match one more character
            resumed += 1
            at, place = resumed, back + 1
        else:
            return False
    return all(w == "many" for w in wanted[place:])


_add = SHELF.add
_add("like_pattern", "text text [text] -> bool", like, "whether a is like the pattern b, with the escape c")
_add(
    "regexp_replace",
    "text text text [text] -> text|text text text int [int] [text] -> text",
    _regexp_replace,
    "the first match of b in a (with flag g all) replaced by c",
)
_add("regexp_count", "text text [int] [text] -> int", _regexp_count, "how often b is found in a")
_add(
    "regexp_substr",
    "text text [int] [int] [text] [int] -> text",
    _regexp_substr,
    "the d-th match of b in a from c on, or its group f",
    maybe=True,
)
_add(
    "regexp_instr",
    "text text [int] [int] [int] [text] [int] -> int",
    _regexp_instr,
    "where the d-th match of b in a begins (e = 1: ends), or 0",
)
_add("regexp_match", "text text [text] -> texts", _regexp_match, "the groups of the first match of b in a", maybe=True)
_add("regexp_split_to_array", "text text [text] -> texts", split, "what lies between matches of b in a")
_add("regexp_like", "text text [text] -> bool", _regexp_like, "whether b is found in a")
_add("regexp_substring", "text text -> text", _substring, "the first match of b in a, or its first group", maybe=True)
