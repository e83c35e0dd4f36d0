"""Detects what sqlglot drops while it parses.

sqlglot parses many dialects leniently. It accepts a trailing comma, and some functions drop unknown arguments
(`array_agg(x, y)`), leaving no trace in the tree, where `everview.sql.text.consumed_parts` would find them unread. The
text's tokens are therefore compared with the tree:

- a comma stands between two things;
- GROUP BY, PARTITION BY and DISTINCT ON are followed by something;
- every name, number and quoted text is found in the tree: at its place, or as a word that some node keeps.

Words out of order are in `everview.sql.text.word_order`.

Hazard: a dropped *keyword* is not detected here, since most of them (AS, INNER, BY) rightly leave no trace.
`tests/sql/test_tokens.py` removes each token from many statements and pins those that make no difference.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

from sqlglot import Dialect, Token, TokenType, exp
from sqlglot.parser import Parser

_CONTENT = {TokenType.VAR, TokenType.IDENTIFIER, TokenType.STRING, TokenType.NUMBER}

_KEYWORDS = frozenset({
    "AT", "BY", "CASCADE", "CHAIN", "CONFLICT", "CORRESPONDING", "EXCLUDE", "FIRST", "IDENTITY", "IF", "IGNORE",
    "ISOLATION", "LAST", "LEVEL", "MATERIALIZED", "NO", "NULLS", "PLACING", "RESPECT", "RESTRICT", "SEARCH", "TIES",
    "TO", "TTL", "UESCAPE", "WITHIN", "ZONE",
})  # fmt: skip
"""Words that are no names where sqlglot understands them, and leave a trace of another name."""

_OPENING = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.COMMA, TokenType.SELECT, TokenType.FROM, TokenType.VALUES}
_QUANTIFIERS = {TokenType.ALL, TokenType.DISTINCT}
_CLOSING = {
    TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.COMMA, TokenType.FROM, TokenType.WHERE, TokenType.GROUP_BY,
    TokenType.HAVING, TokenType.ORDER_BY, TokenType.LIMIT, TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT,
    TokenType.SEMICOLON, TokenType.RETURNING, TokenType.QUALIFY, TokenType.FETCH,
}  # fmt: skip


STOOD_FOR = "everview words"
"""Where a node that was put in the place of another keeps the words of that one."""

_OWN_WORDS: dict[type[exp.Expr], tuple[str, ...]] = {
    exp.Version: ("SYSTEM_TIME",),
    **dict.fromkeys((exp.Transaction, exp.Commit, exp.Rollback), ("WORK",)),
    exp.UnloggedProperty: ("UNLOGGED",),
    exp.GeneratedAsIdentityColumnConstraint: ("GENERATED", "ALWAYS", "INCREMENT", "MINVALUE", "MAXVALUE"),
    exp.ComputedColumnConstraint: ("GENERATED", "ALWAYS", "STORED"),
    exp.SequenceProperties: ("INCREMENT", "MINVALUE", "MAXVALUE", "CYCLE", "CACHE"),
    exp.Reference: ("ACTION", "INITIALLY", "DEFERRED", "IMMEDIATE", "SIMPLE"),
    exp.Extract: (*(unit for unit in Dialect.DATE_PART_MAPPING if len(unit) > 1), "ISO_WEEK", "ISOWK", "ISOWW", "QQ"),
}
"""Words that say nothing but that a node is there."""


_TRAILING = {
    "duckdb": {TokenType.FROM, TokenType.R_PAREN},
    "risingwave": {TokenType.R_PAREN},
    "bigquery": {TokenType.FROM},
    "snowflake": {TokenType.FROM},
}
"""What a list may end before with a comma, in a dialect."""


def stray_commas(tokens: Sequence[Token], dialect: str = "") -> Iterator[Token]:
    """Commas with nothing on one side."""
    allowed = _TRAILING.get(dialect, set())
    for i, token in enumerate(tokens):
        if token.token_type == TokenType.COMMA:
            before = tokens[i - 1].token_type if i else TokenType.COMMA
            if before in _QUANTIFIERS and i > 1 and tokens[i - 2].token_type == TokenType.SELECT:
                before = TokenType.SELECT  # SELECT ALL, x
            after = tokens[i + 1].token_type if i + 1 < len(tokens) else TokenType.COMMA
            if before in _OPENING or (after in _CLOSING and after not in allowed):
                yield token


_LISTING = {TokenType.GROUP_BY, TokenType.PARTITION_BY}


def empty_lists(tokens: Sequence[Token]) -> Iterator[Token]:
    """GROUP BY and PARTITION BY with nothing behind them, and the bracket of DISTINCT ON ()."""
    for i, token in enumerate(tokens):
        after = tokens[i + 1].token_type if i + 1 < len(tokens) else TokenType.SEMICOLON
        if token.token_type in _LISTING and after in _CLOSING:
            yield token
        elif (
            token.token_type == TokenType.DISTINCT and "".join(t.text.upper() for t in tokens[i + 1 : i + 4]) == "ON()"
        ):
            yield tokens[i + 2]


_UNITS = frozenset({"YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND"})


def stray_units(tokens: Sequence[Token]) -> Iterator[Token]:
    """Units behind quoted numbers that are no intervals, and no names either: `interval '1' + '1' month`."""
    for i in range(1, len(tokens) - 1):
        is_text = tokens[i].token_type == TokenType.STRING and tokens[i - 1].token_type != TokenType.INTERVAL
        if is_text and tokens[i + 1].text.upper() in _UNITS and tokens[i + 1].token_type != TokenType.IDENTIFIER:
            yield tokens[i + 1]


_TYPES = Parser.TYPE_TOKENS - {TokenType.INTERVAL, TokenType.RANGE}


def typed_numbers(tokens: Sequence[Token]) -> Iterator[Token]:
    """Numbers behind a type's name, which the parser reads as casts: `VALUES (int 5)`, `ORDER BY text 1`."""
    for before, token in itertools.pairwise(tokens):
        if token.token_type == TokenType.NUMBER and before.token_type in _TYPES:
            yield token


MOST_NESTED = {"arrays or types": 10, "casts": 7, "rows": 100}
"""Brackets of each kind that may be open at once; arrays of PostgreSQL have six dimensions."""

_TRIED = frozenset({"TRY_CAST", "SAFE_CAST", "TRY_CONVERT"})
_ALL_TRIED = ("spark", "spark2", "databricks", "hive")
"""Dialects in which every CAST that fails is NULL."""


def deep_brackets(tokens: Sequence[Token], dialect: str) -> Iterator[tuple[Token, str]]:
    """Words whose brackets are nested too deeply, and what they are. The cost of a level is twice that of the next in

    - arrays and types, ARRAY[ARRAY[...]], date(date(...)): the parser reads what is inside as a type's size first;
    - casts that are NULL where they fail: each asks whether the value can be cast, and casts it.

    Of rows, ROW(ROW(...)), each has a type that spells out that of the next: n of them take n**3 steps.
    """
    tried = _TRIED | {"CAST"} if dialect in _ALL_TRIED else _TRIED
    opened: list[str] = []
    for before, token in itertools.pairwise(tokens):
        if token.token_type in (TokenType.L_PAREN, TokenType.L_BRACKET):
            word = before.text.upper()
            kind = "rows" if word == "ROW" else "casts" if word in tried else ""
            opened.append(kind or ("arrays or types" if before.token_type in Parser.TYPE_TOKENS else ""))
            if opened[-1] and opened.count(opened[-1]) > MOST_NESTED[opened[-1]]:
                yield before, opened[-1]
        elif token.token_type in (TokenType.R_PAREN, TokenType.R_BRACKET) and opened:
            opened.pop()


def stray_words(tokens: Sequence[Token]) -> Iterator[Token]:
    """DEFAULT at the end of CREATE, and AS MATERIALIZED before a query without brackets: the parser skips them."""
    if not tokens or tokens[0].token_type != TokenType.CREATE:
        return
    for i, token in enumerate(tokens):
        after = tokens[i + 1].token_type if i + 1 < len(tokens) else TokenType.SEMICOLON
        is_first = tokens[i - 1].token_type == TokenType.ALIAS and token.text.upper() == "MATERIALIZED"
        is_last = token.token_type == TokenType.DEFAULT and after == TokenType.SEMICOLON
        if is_last or (is_first and after != TokenType.L_PAREN):
            yield token


def dropped(tree: exp.Expr, tokens: Sequence[Token], texts: bool = True) -> Iterator[Token]:
    """Names, numbers and (by default) texts that have no trace in the tree.

    >>> import sqlglot
    >>> text = "SELECT array_agg(x, y), lower(z) FROM t"
    >>> [t.text for t in dropped(sqlglot.parse_one(text, read="postgres"), sqlglot.tokenize(text, read="postgres"))]
    ['y']
    """
    starts: set[int] = set()
    words: set[str] = {"MATCHED", "TARGET"} if isinstance(tree, exp.Merge) else set()  # WHEN NOT MATCHED BY TARGET
    for node in tree.walk():
        if "start" in node.meta:
            starts.add(node.meta["start"])
            if type(node) is exp.Literal:
                continue  # it is the token that begins there, and in a long list there are thousands
        words.update(_words(node))
    for i, token in enumerate(tokens):
        if token.token_type not in _CONTENT or token.start in starts:
            continue
        if token.token_type == TokenType.STRING and not texts:
            continue
        if i + 1 < len(tokens) and tokens[i + 1].token_type == TokenType.L_PAREN and token.token_type == TokenType.VAR:
            continue  # a function's name: the tree has a class for it
        if token.token_type == TokenType.VAR and token.text.upper() in _KEYWORDS:
            continue
        if not set(re.split(r"\W+", token.text.upper())) - {""} <= words:
            yield token


def words_of(tree: exp.Expr) -> list[str]:
    """All words that a tree keeps, or is."""
    return [word for node in tree.walk() for word in _words(node)]


def _words(node: exp.Expr) -> Iterator[str]:
    """Words that a node keeps, or is."""
    yield from re.findall("[A-Z]+", type(node).__name__.upper())
    yield from _OWN_WORDS.get(type(node), ())
    yield from node.meta.get(STOOD_FOR, ())
    for part, value in node.args.items():
        if value:
            yield from part.upper().split("_")
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, exp.DType):
                yield item.name
            elif isinstance(item, str):
                yield from re.split(r"\W+", item.upper())
