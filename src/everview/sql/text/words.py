"""The words of a statement that sqlglot does not know, taken one after the other.

    words = Words(statement)
    words.need("COPY")
    name = words.name("a table")

Whatever is not as it must be is an error at the word that stands there instead.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

import sqlglot
from sqlglot import Token, TokenType

from everview.errors import did_you_mean
from everview.sql.text.places import SqlError
from everview.sql.text.reading import Statement

if TYPE_CHECKING:
    from everview.sql.statements import Statements

_NO_NAMES = {"STRING", "NUMBER", "COMMA", "SEMICOLON", "DOT", "EQ", "FROM", "TO", "ON", "IS", "SELECT", "WITH"}

_NAMES = tuple(k for k in TokenType if k.name.isalpha() and k.name not in _NO_NAMES)
"""Kinds of tokens that can be names: many words are keywords somewhere."""


class Words:
    """The tokens of a statement, taken one after the other."""

    def __init__(self, statement: Statement) -> None:
        self.text = statement.text
        self.tokens: list[Token] = list(sqlglot.tokenize(statement.text, read="postgres"))
        self.at = 0

    def error(self, message: str, hint: str = "", code: str = "E_SYNTAX") -> SqlError:
        """An error at the present token."""
        start = self.tokens[min(self.at, len(self.tokens) - 1)].start if self.tokens else 0
        before = self.text[:start]
        return SqlError(code, message, hint, before.count("\n") + 1, start - before.rfind("\n"), self.text)

    def next_is(self, *words: str) -> bool:
        """Take these words if they come next."""
        here = [t.text.upper() for t in self.tokens[self.at : self.at + len(words)]]
        if here == list(words):
            self.at += len(words)
            return True
        return False

    def need(self, *words: str) -> None:
        """Take these words, which must come next."""
        if not self.next_is(*words):
            raise self.error(f"{' '.join(words)} is missing here")

    def choose(self, *words: str) -> str:
        """Take one of these words, which must come next."""
        for word in words:
            if self.next_is(word):
                return word
        here = self.tokens[self.at].text.upper() if self.at < len(self.tokens) else ""
        close = get_close_matches(here, words, 1, 0.6)
        raise self.error(f"{' or '.join(words)} is missing here", f"did you mean {close[0]!r}?" if close else "")

    def take(self, what: str, *kinds: TokenType) -> str:
        """Take whatever comes next, if it is of one of these kinds."""
        if self.at >= len(self.tokens) or (kinds and self.tokens[self.at].token_type not in kinds):
            raise self.error(f"{what} is missing here")
        self.at += 1
        return self.tokens[self.at - 1].text

    def brackets(self) -> str:
        """The text of brackets that come next, with them; empty if none do."""
        if self.at >= len(self.tokens) or self.tokens[self.at].token_type != TokenType.L_PAREN:
            return ""
        start, depth = self.at, 0
        while self.at < len(self.tokens):
            kind = self.tokens[self.at].token_type
            depth += (kind == TokenType.L_PAREN) - (kind == TokenType.R_PAREN)
            self.at += 1
            if depth == 0:
                return self.text[self.tokens[start].start : self.tokens[self.at - 1].end + 1]
        raise self.error("a bracket is not closed")

    def is_next(self, *kinds: TokenType) -> bool:
        """Whether a token of one of these kinds comes next."""
        return self.at < len(self.tokens) and self.tokens[self.at].token_type in kinds

    def name(self, what: str) -> str:
        """A name, with its schema before it if it has one."""
        taken = self.take(what, *_NAMES)
        while self.is_next(TokenType.DOT):
            self.at += 1
            taken = f"{taken}.{self.take(what, *_NAMES)}"
        return taken

    def end(self) -> None:
        """Refuse whatever comes next."""
        if self.at < len(self.tokens):
            raise self.error(f"{self.tokens[self.at].text!r} is not expected here")


def relation(sql: Statements, words: Words) -> str:
    """The table or view whose name comes next."""
    at = words.at
    written = words.name("a table or view")
    name = sql.spelled(written)
    if name not in sql.session:
        words.at = at
        hint = did_you_mean(written, [*sql.session.tables, *sql.session.views])
        raise words.error(f"there is no table or view {written}", hint, "E_TABLE")
    return name
