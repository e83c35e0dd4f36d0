"""Nothing that was parsed is ignored: tracks which parts of a statement were read.

sqlglot parses far more SQL than is supported here, and a clause that was parsed but not looked at would silently change
a statement's meaning, which is worse than refusing it. Every node of a parsed statement therefore keeps its parts in a
dictionary that records which of them are read. Binding a statement reads all that it understands; then, before the
statement is executed, the whole tree is walked, and an unread part is refused with its position.

Reading means accessing a part by name (`node.this`, `node.args.get("limit")`, `node.name`). Generic traversals (`walk`,
`find_all`, `copy`, comparison) do not count.

Hazards: whoever reads a part is responsible for it. Reads of a `node.copy()` are not recorded, and `node.sql()` reads
everything: bind the nodes themselves, and generate SQL from them for errors only. Parts that sqlglot sets by itself are
in `MEANINGLESS`. What sqlglot drops while parsing is detected in `everview.sql.text.tokens`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from sqlglot import exp

from everview.errors import InternalError
from everview.sql.text import tokens
from everview.sql.text.dialects import DEFAULT
from everview.sql.text.error_positions import Source

T = TypeVar("T")

MEANINGLESS: frozenset[tuple[type[exp.Expr], str]] = frozenset(
    {
        (exp.Identifier, "quoted"),  # names are found whatever the case of their letters
        (exp.Count, "big_int"),
        (exp.DataType, "nested"),  # int[] and array<int> are the same
        (exp.Array, "value_constructor"),
        (exp.TryCast, "safe"),  # is always meant
        (exp.Concat, "safe"),
        (exp.DPipe, "safe"),
        (exp.Window, "over"),
        (exp.Fetch, "direction"),  # FIRST and NEXT are the same
        (exp.LimitOptions, "rows"),
        (exp.CTE, "materialized"),  # how a query is computed is nobody's business here
        (exp.Table, "only"),  # no table has descendants
        (exp.Drop, "restrict"),  # is meant unless CASCADE is said
        (exp.PrimaryKey, "include"),  # always there; the parts of what it holds are looked at
        (exp.PrimaryKeyColumnConstraint, "include"),
        (exp.TimestampTrunc, "input_type_preserved"),  # these follow the dialect
        (exp.Substring, "zero_start"),
        (exp.Round, "casts_non_integer_decimals"),
        (exp.TryCast, "requires_string"),
        (exp.Coalesce, "is_null"),
        (exp.Bracket, "safe"),  # there is no element is always NULL
    }
)
"""Parts without a meaning here: sqlglot sets them for other dialects, or they make no difference."""


class Missing(KeyError):
    """A required part of a node is missing: sqlglot accepts `div(5)` and `map()`."""


class Parts(dict[str, Any]):
    """A node's parts, and which of them were read."""

    __slots__ = ("read",)

    def __init__(self, parts: dict[str, Any]) -> None:
        super().__init__(parts)
        self.read: set[str] = set()

    def get(self, key: str, default: Any = None) -> Any:
        self.read.add(key)
        return super().get(key, default)

    def __getitem__(self, key: str) -> Any:
        self.read.add(key)
        if key not in self:
            raise Missing(key)
        return super().__getitem__(key)


def recorded(tree: exp.Expr) -> exp.Expr:
    """Make a tree record what is read of it; returns the tree.

    >>> import sqlglot
    >>> select = recorded(sqlglot.parse_one("SELECT x LIMIT 3"))
    >>> [item.name for item in select.expressions], [part for _, part in unread(select)]
    (['x'], ['limit', 'expression', 'this'])
    """
    hash(tree)  # kept by every node: comparing nodes later must not count as reading them
    for node in tree.walk():
        node.args = Parts(node.args)
    return tree


def unread(tree: exp.Expr) -> Iterator[tuple[exp.Expr, str]]:
    """Unread parts, top-down."""
    for node in tree.walk(bfs=False):
        seen = node.args.read if isinstance(node.args, Parts) else node.args.keys()
        for part, value in node.args.items():
            if part not in seen and _says_something(node, part, value):
                yield node, part


def _says_something(node: exp.Expr, part: str, value: Any) -> bool:
    if value is None or value is False or value == [] or value == "":
        return False
    return not any((kind, part) in MEANINGLESS for kind in type(node).__mro__)


def read(node: exp.Expr) -> None:
    """Mark a node's own parts as read, not what is inside them."""
    if isinstance(node.args, Parts):
        node.args.read.update(node.args)


def understood(node: exp.Expr) -> None:
    """Mark all of a node as read: it is the same text as one that was bound."""
    for inner in node.walk():
        if isinstance(inner.args, Parts):
            inner.args.read.update(inner.args)


def whole(tree: exp.Expr, source: Source, bind: Callable[[], T]) -> T:
    """The result of binding a statement, if every part was read."""
    found = bind()
    for node, part in unread(tree):
        raise source.unread(node, part)
    for token in tokens.dropped(tree, source.tokens, texts=source.dialect == DEFAULT):
        raise source.error_at(token.start, "E_UNSUPPORTED", f"{token.text} is not expected here")
    return found


def _check_recording() -> None:
    """Verify that sqlglot's own accessors go through `Parts`; code compiled by mypyc need not."""
    node = recorded(exp.column("x"))
    if node.name != "x" or list(unread(node)):
        raise InternalError(
            "E_INTERNAL",
            "sqlglot reads statements in a way that is not noticed",
            "uninstall sqlglotc, its compiled form",
        )


_check_recording()
