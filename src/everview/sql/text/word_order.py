"""Words that the parser lets stand anywhere, or be absent.

sqlglot accepts the clauses of a SELECT in any order, `CASE WHEN a 'x' END`, and `CREATE VIEW v SELECT ...`. PostgreSQL
does not, and neither do people who read such a text: `LIMIT 3 ORDER BY x` looks as if it took any three rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sqlglot import Token, TokenType

_CLAUSES = {
    TokenType.JOIN: 1,
    TokenType.WHERE: 2,
    TokenType.GROUP_BY: 3,
    TokenType.HAVING: 4,
    TokenType.ORDER_BY: 5,
    TokenType.LIMIT: 6,
}
"""The order of clauses. OFFSET and WINDOW are also names of columns, and are left out."""

_LAST = _CLAUSES[TokenType.ORDER_BY]
"""From here on clauses belong to all of a UNION."""

_SETS = {TokenType.UNION, TokenType.INTERSECT}
"""EXCEPT is also written behind a star."""

_AFRESH = {TokenType.SELECT, TokenType.EXCEPT, TokenType.RETURNING, *_SETS}


class Misplaced(NamedTuple):
    """A word that stands where it must not, or before which another one is missing."""

    token: Token
    what: str
    hint: str


def misplaced(tokens: Sequence[Token]) -> Iterator[Misplaced]:
    """All that is out of order.

    >>> import sqlglot
    >>> [found.hint for found in misplaced(sqlglot.tokenize("SELECT a FROM t LIMIT 3 ORDER BY a", read="postgres"))]
    ['ORDER BY stands before LIMIT']
    """
    yield from _clauses(tokens)
    yield from _without_then(tokens)
    yield from _without_as(tokens)


def _clauses(tokens: Sequence[Token]) -> Iterator[Misplaced]:
    """Clauses of one SELECT in another order than they are read."""
    last: list[Token | None] = [None]  # the last clause of each bracket that is open
    asked = [False]  # whether there is a SELECT in it
    for i, token in enumerate(tokens):
        kind = token.token_type
        if kind == TokenType.L_PAREN:
            last.append(None)
            asked.append(False)
        elif kind == TokenType.R_PAREN and len(last) > 1:
            last.pop()
            asked.pop()
        elif kind in _SETS and (before := last[-1]) is not None and _CLAUSES[before.token_type] >= _LAST:
            hint = f"put the SELECT with {before.text.upper()} in brackets"
            yield Misplaced(token, f"{token.text} is not expected here", hint)
        elif kind in _AFRESH or token.text.upper() == "CONFLICT":
            last[-1], asked[-1] = None, kind != TokenType.RETURNING and kind in _AFRESH
        elif kind in _CLAUSES and asked[-1] and not (i and tokens[i - 1].token_type == TokenType.DOT):
            before = last[-1]
            if before is not None and _CLAUSES[before.token_type] > _CLAUSES[kind]:
                hint = f"{token.text.upper()} stands before {before.text.upper()}"
                yield Misplaced(token, f"{token.text} is not expected here", hint)
            last[-1] = token


def _without_then(tokens: Sequence[Token]) -> Iterator[Misplaced]:
    """WHEN without THEN."""
    waiting: list[Token] = []
    for token in tokens:
        if token.token_type == TokenType.WHEN:
            waiting.append(token)
        elif token.token_type == TokenType.THEN and waiting:
            waiting.pop()
    for token in waiting:
        yield Misplaced(token, f"THEN is missing after {token.text}", "WHEN condition THEN ...")


def _without_as(tokens: Sequence[Token]) -> Iterator[Misplaced]:
    """CREATE ... SELECT without AS."""
    depth = 0
    for i, token in enumerate(tokens if tokens and tokens[0].token_type == TokenType.CREATE else ()):
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        if depth == 0 and token.token_type == TokenType.SELECT:
            if not any(t.token_type == TokenType.ALIAS for t in tokens[:i]):
                yield Misplaced(token, f"AS is missing before {token.text}", "CREATE VIEW v AS SELECT ...")
            return
