"""Which word of a statement is misspelt.

A parser stops where a text no longer makes sense. That is often behind the mistake: in `FROM t WHRE a > 3`, WHRE is
read as an alias, and `a` is what is not expected. So words that are nearly keywords are replaced by those, one at a
time, nearest to that place first. If the statement can be read then, the mistake is found: the error names the word as
it is written, shows its place, and suggests the keyword.

Nothing is executed to find out, and the statement fails in any case: only the text of its error depends on it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from sqlglot import Token

from everview.sql.text.call_names import TYPED, all_names
from everview.sql.text.error_positions import Source, SqlError
from everview.sql.text.keywords import KEYWORDS, near

MOST_LETTERS = 4_000
"""of statements in which misspelt words are searched"""

STRAY_COMMA = "remove it"
"""what to do about a comma beside which nothing is listed: no word is misspelt then"""

MOST_TRIALS = 80
"""so many texts are read"""


@dataclass(frozen=True)
class Misspelt:
    """A word, and the keyword that it was meant to be."""

    token: Token
    keyword: str

    @property
    def hint(self) -> str:
        """What to tell people."""
        return f"did you mean {self.keyword!r}?"

    def error(self, source: Source) -> SqlError:
        """The error at the word."""
        return source.error_at(self.token.start, "E_SYNTAX", f"{self.token.text} is not expected here", self.hint)


def found(
    source: Source, at: int, reads: Callable[[str], bool], around: int | None = None, alike: float = 0.65
) -> Misspelt | None:
    """The misspelt word nearest to an offset of the text, if there is one; `reads` tries a text, and `around` limits
    the search to so many words before and behind that place.

    >>> source = Source("SELECT a FROM t WHRE a > 3")
    >>> found(source, 21, lambda text: " WHERE " in text).hint
    "did you mean 'WHERE'?"
    """
    text = source.text
    if len(text) > MOST_LETTERS:
        return None
    trials = 0
    near_by = [t for t in _nearest(source.tokens, at, around) if text[t.start : t.end + 1] == t.text]  # not quoted
    functions = {*all_names(), *TYPED}
    near_by = [t for t in near_by if t.text.lower() not in functions]  # called with too few arguments, say
    unknown = [t for t in near_by if t.text.upper() not in KEYWORDS]
    for token in [*unknown, *(t for t in near_by[:2] if t not in unknown)]:  # OR may be FOR
        for keyword in near(token.text, alike=alike if token in unknown else 0.8):
            trials += 1
            if trials > MOST_TRIALS:
                return None
            if reads(f"{text[: token.start]}{keyword}{text[token.end + 1 :]}"):
                return Misspelt(token, keyword)
    return None


def _nearest(tokens: Sequence[Token], at: int, around: int | None) -> Iterator[Token]:
    """The tokens around an offset: that one, the one before, the one behind, and so on."""
    here = next((i for i, token in enumerate(tokens) if token.end >= at), len(tokens) - 1)
    for distance in range(len(tokens) if around is None else around + 1):
        for i in dict.fromkeys((here - distance, here + distance)):
            if 0 <= i < len(tokens):
                yield tokens[i]


_ABOUT_WORDS = ("E_SYNTAX", "E_UNSUPPORTED", "E_TYPE", "E_COLUMN", "E_TABLE", "E_NAME", "E_FUNCTION", "E_JOIN")
_OF_NAMES = ("E_COLUMN", "E_TABLE", "E_JOIN", "E_AMBIGUOUS")
_JOINS = ("LEFT", "RIGHT", "FULL", "INNER", "CROSS", "NATURAL", "ASOF")


def explained(error: SqlError, source: Source, reads: Callable[[str], bool] | None) -> SqlError:
    """An error of a statement that could be read, with the keyword that was meant, if a word at its place or beside it
    is misspelt: `PRIMARRY KEY (id)` in a CREATE TABLE is a column of the type KEY. `reads` is None for statements that
    only their own readers understand: those name the misspelt word themselves.
    """
    if reads is None or error.code not in _ABOUT_WORDS or not error.line:
        return error
    if "did you mean" in error.hint or error.hint == STRAY_COMMA:
        return error
    if error.code == "E_TYPE" and not error.message.endswith(" no type"):
        return error  # the word at its place was understood, as a column of another type
    at = source.offset(error.line, error.column)
    word = before_join(source) or of_merge(source) if error.code in _OF_NAMES else None
    if word is None:
        word = found(source, at, reads, _reach(error, source, at), alike=0.8)
    if word is None or _is_qualified(source, word.token) or _is_relation(error, source, word.token):
        return error
    if not word.token.start <= at <= word.token.end:
        return word.error(source)
    error.hint = word.hint
    return error


def _reach(error: SqlError, source: Source, at: int) -> int | None:
    """How many words around its place may have caused an error; None for all of them."""
    if error.message.endswith(" is not supported here") and not error.hint and at <= source.tokens[0].start:
        return None  # no place is known for what was not understood
    if " is followed by " in error.message:
        return 3
    return 1 if error.code in ("E_SYNTAX", "E_JOIN") or ": there is no type" in error.message else 0


def of_merge(source: Source) -> Misspelt | None:
    """A misspelt USING of a MERGE, which is read as an alias."""
    words = source.tokens[:5]
    meant = [t for t in words[3:] if near(t.text, ("USING",), 1)] if words[0].text.upper() == "MERGE" else []
    return Misspelt(meant[0], "USING") if meant else None


def before_join(source: Source) -> Misspelt | None:
    """A misspelt LEFT, INNER ... before JOIN, which is read as an alias."""
    for token, following in itertools.pairwise(source.tokens):
        meant = near(token.text, _JOINS, 1) if following.text.upper() == "JOIN" else []
        if meant and token.text.upper() not in KEYWORDS and source.text[token.start : token.end + 1] == token.text:
            return Misspelt(token, meant[0])
    return None


def _is_relation(error: SqlError, source: Source, token: Token) -> bool:
    """Whether a word was understood as the name of a table that is there: `JOIN plain` is no misspelt PLAN."""
    before = next((t for t in reversed(source.tokens) if t.end < token.start), None)
    return error.code == "E_UNSUPPORTED" and before is not None and before.text.upper() in ("FROM", "JOIN", "INTO")


def _is_qualified(source: Source, token: Token) -> bool:
    """Whether a name is part of a longer one."""
    return "." in (source.text[token.start - 1 : token.start], source.text[token.end + 1 : token.end + 2])
