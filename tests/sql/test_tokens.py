"""What sqlglot drops: each token is taken out of statements; those that make no difference to the tree are pinned."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlglot
from sqlglot.errors import SqlglotError

from everview.sql.text import tokens
from tests.sql import harness

WITHOUT_EFFECT = {
    "AS", "INNER", "OUTER", "ASC", "ALL", "ROWS", "ROW", "ONLY", "FIRST", "NEXT", "INTO", "TABLE", "BY", "DISTINCT",
    "NULLS", "LAST", "NULLS LAST", "BOTH", "(", ")", "RECURSIVE", "CROSS", "INTERVAL", "'", ";", "::", "BETWEEN", "TO",
    "ELSE", "NULL", "AND", "IN", "DATE", "TIMESTAMP", ",", "FROM", "FOR", "ESCAPE", "JOIN", "WHERE", "THEN", "1",
}  # fmt: skip
"""Words that may be left out somewhere without another meaning: INNER JOIN, AS, FILTER (WHERE ...), FROM 1 FOR 2."""

FILES = sorted(Path(__file__).parent.glob("*.slt"))


def _without_effect(text: str) -> set[str]:
    """Tokens whose absence sqlglot's tree does not show."""
    tree = sqlglot.parse_one(text, read="postgres")
    found: set[str] = set()
    for token in sqlglot.tokenize(text, read="postgres"):
        rest = f"{text[: token.start]} {text[token.end + 1 :]}"
        try:
            same = sqlglot.parse_one(rest, read="postgres") == tree
        except SqlglotError:
            continue
        if same:
            found.add(token.text.upper())
    return found


def _queries(path: Path) -> list[str]:
    """All that sqlglot can read: SESSION(...) is a keyword of its own, which our reader gives another name."""
    found = [b.ours for b in harness.blocks(path) if b.kind == "query" and "[" not in b.ours]
    return [text for text in found if "SESSION(" not in text.upper()]


def test_what_is_dropped_from_some_queries() -> None:
    found = set[str]().union(*(_without_effect(text) for f in FILES for text in _queries(f)[::15]))
    assert found <= WITHOUT_EFFECT


@pytest.mark.slow
def test_what_is_dropped_from_all_queries() -> None:
    found = set[str]().union(*(_without_effect(text) for f in FILES for text in _queries(f)))
    assert found <= WITHOUT_EFFECT


@pytest.mark.parametrize("text", [t for f in FILES for t in _queries(f)[::10]])
def test_nothing_is_missed_that_is_there(text: str) -> None:
    tree = sqlglot.parse_one(text, read="postgres")
    assert not list(tokens.dropped(tree, sqlglot.tokenize(text, read="postgres")))


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("SELECT array_agg(x, y) FROM t", ["y"]),
        ("SELECT array_agg(x, 17) FROM t", ["17"]),
        ("SELECT array_agg(x, 'seventeen') FROM t", ["'seventeen'"]),
        ("SELECT x FROM t", []),
    ],
)
def test_dropped(text: str, missing: list[str]) -> None:
    found = tokens.dropped(sqlglot.parse_one(text, read="postgres"), sqlglot.tokenize(text, read="postgres"))
    assert [text[t.start : t.end + 1] for t in found] == missing
