"""Nothing that was parsed is ignored: a record of which parts of a statement were read.

sqlglot understands far more SQL than is supported here, and a clause that its parser took but nobody looked at would
change a statement's meaning silently, which is worse than refusing it. So every node of a parsed statement keeps its
parts in a dictionary that notes which of them are asked for. Binding a statement (finding its tables, columns and
types) reads all that it understands; then, before the statement does anything, the whole tree is walked, and a part
that is there and was never read is refused at its place.

Reading is asking for a part by name (`node.this`, `node.args.get("limit")`, `node.name`). Going through a tree without
asking what a part is (`walk`, `find_all`, `copy`, comparing) reads nothing.

Hazards: whoever reads a part answers for it. `node.copy()` gives nodes of which nobody learns that they were read, and
`node.sql()` reads everything: bind the nodes themselves, and write SQL from them for errors only. Parts that sqlglot
sets without anybody having written them are in `MEANINGLESS`. What sqlglot itself drops while it parses is looked for
in `everview.sql.text.tokens`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from sqlglot import exp

from everview.errors import InternalError
from everview.sql.text import tokens
from everview.sql.text.dialects import DEFAULT
from everview.sql.text.places import Source

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
        (exp.Drop, "restrict"),  # is meant unless CASCADE is said
        (exp.PrimaryKey, "include"),  # always there; the parts of what it holds are looked at
        (exp.PrimaryKeyColumnConstraint, "include"),
    }
)
"""Parts that say nothing here: sqlglot sets them for other dialects, or they make no difference."""


class Missing(KeyError):
    """A part that a node of its kind needs is not there: sqlglot lets `div(5)` and `map()` pass."""


class Parts(dict[str, Any]):
    """A node's parts, and which of them were asked for."""

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
    """The tree itself, which from now on notes what is read of it.

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
    """Parts that are there and that nobody has read, in the order of the tree from above."""
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
    """Count a node's own parts as read, not what is inside them."""
    if isinstance(node.args, Parts):
        node.args.read.update(node.args)


def understood(node: exp.Expr) -> None:
    """Count all of a node as read: it is the same text as one that was bound."""
    for inner in node.walk():
        if isinstance(inner.args, Parts):
            inner.args.read.update(inner.args)


def whole(tree: exp.Expr, source: Source, bind: Callable[[], T]) -> T:
    """What binding a statement gives, if it has read every part of it."""
    found = bind()
    for node, part in unread(tree):
        raise source.unread(node, part)
    for token in tokens.dropped(tree, source.tokens, texts=source.dialect == DEFAULT):
        raise source.error_at(token.start, "E_UNSUPPORTED", f"{token.text} is not expected here")
    return found


def _check_recording() -> None:
    """sqlglot's own accessors must go through `Parts`; code compiled by mypyc need not."""
    node = recorded(exp.column("x"))
    if node.name != "x" or list(unread(node)):
        raise InternalError(
            "E_INTERNAL",
            "sqlglot reads statements in a way that is not noticed",
            "uninstall sqlglotc, its compiled form",
        )


_check_recording()
