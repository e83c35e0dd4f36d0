"""A token reader for statements that sqlglot does not support.

    words = Words(statement)
    words.need("COPY")
    name = words.name("a table")

Anything unexpected is an error at its position.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlglot
from sqlglot import Token, TokenType

from everview.errors import did_you_mean
from everview.sql.text import keywords
from everview.sql.text.dialects import Everview
from everview.sql.text.error_positions import SqlError
from everview.sql.text.statement_reader import Statement

if TYPE_CHECKING:
    from everview.sql.statements import Statements

_NO_NAMES = {"STRING", "NUMBER", "COMMA", "SEMICOLON", "DOT", "EQ", "FROM", "TO", "ON", "IS", "SELECT", "WITH"}

_NAMES = tuple(k for k in TokenType if k.name.isalpha() and k.name not in _NO_NAMES)
"""Kinds of tokens that can be names: many words are keywords somewhere."""

TEXTS = (TokenType.STRING, TokenType.BYTE_STRING, TokenType.NATIONAL_STRING, TokenType.HEREDOC_STRING)
"""Kinds of tokens that are texts: 'x', E'x', N'x', $$x$$."""

_QUOTED = (*TEXTS, TokenType.IDENTIFIER)


class Words:
    """The tokens of a statement, taken one after the other."""

    def __init__(self, statement: Statement) -> None:
        self.text = statement.text
        self.shown = statement.shown or statement.text
        self.tokens: list[Token] = list(sqlglot.tokenize(statement.text, read=Everview))
        self.at = 0
        self.further: tuple[int, tuple[str, ...]] = (0, ())
        """How far forms of several words went that did not come next as a whole, and the words that they lacked."""

    def error(self, message: str, hint: str = "", code: str = "E_SYNTAX") -> SqlError:
        """An error at the present token."""
        start = self.tokens[min(self.at, len(self.tokens) - 1)].start if self.tokens else 0
        before = self.text[:start]
        return SqlError(code, message, hint, before.count("\n") + 1, start - before.rfind("\n"), self.shown)

    def _word(self, at: int) -> str:
        """A word in upper case; texts and names in quotes are none: IS 'NULL', DROP "column"."""
        if at >= len(self.tokens) or self.tokens[at].token_type in _QUOTED:
            return ""
        return self.tokens[at].text.upper()

    def next_is(self, *words: str) -> bool:
        """Take these words if they come next."""
        same = 0
        while same < len(words) and self._word(self.at + same) == words[same]:
            same += 1
        if same == len(words):
            self.at += same
            return True
        place, lacked = self.further
        if same and self.at + same >= place:
            self.further = self.at + same, (*(lacked if self.at + same == place else ()), words[same])
        return False

    def need(self, *words: str) -> None:
        """Take these words, which must come next."""
        if not self.next_is(*words):
            raise self._lacking() or self.error(f"{' '.join(words)} is missing here", self._meant(self.at, *words))

    def choose(self, *words: str, also: tuple[str, ...] = ()) -> str:
        """Take one of these words, which must come next; `also` has words that are read elsewhere, for the hint."""
        for word in words:
            if self.next_is(word):
                return word
        raise self.error(f"{' or '.join(words)} is missing here", self._meant(self.at, *words, *also))

    def is_word(self, word: str) -> bool:
        """Whether this word comes next."""
        return self._word(self.at) == word

    def unknown(self, what: str, hint: str, words: tuple[str, ...]) -> SqlError:
        """The error for a form that is none of those there are, which begin with these words."""
        return self._lacking() or self.error(what, self._meant(self.at, *words) or hint)

    def _meant(self, at: int, *words: str) -> str:
        """A hint if the word at a place is nearly one of these."""
        return keywords.did_you_mean(self._word(at), words)

    def _lacking(self) -> SqlError | None:
        """The error of a form that began at this place and went wrong further on: WITH GRANT OPTIN."""
        at, lacked = self.further
        hint = self._meant(at, *lacked) if at > self.at else ""
        if not hint:
            return None
        self.at = at
        return self.error(f"{' or '.join(dict.fromkeys(lacked))} is missing here", hint)

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
            word = self.tokens[self.at].text
            raise self._lacking() or self.error(f"{word!r} is not expected here", keywords.did_you_mean(word))


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
