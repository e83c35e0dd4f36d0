"""Provenance expressions: in which worlds a row exists, as a function of rows of tables.

An expression contains its diagram's nodes and the rows of its variables: it needs no session, and can be sent to
clients (`Expression.written`, `Expression.read`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from everview.codes.values import with_one_nan
from everview.errors import InputError
from everview.why.bdd import FALSE, TRUE, Diagrams

SHOWN = 8
"""Number of witnesses in its display."""


class BaseRow(NamedTuple):
    """A row of a table: a variable of expressions."""

    table: str
    row: tuple[Any, ...]

    def __str__(self) -> str:
        return f"{self.table}({', '.join(map(repr, self.row))})"


class Expression:
    """In which worlds a row of a view exists: a Boolean function of possibly missing rows of tables.

    >>> import everview as ev
    >>> db = ev.connect()
    >>> edge = db.table("edge", {"src": str, "dst": str})
    >>> view = db.view("v", edge.select("src").distinct(), provenance="bdd")
    >>> edge.insert([("a", "b"), ("a", "c")])
    >>> found = view.provenance(("a",))
    >>> print(found)
    edge('a', 'b') | edge('a', 'c')
    >>> found.without({"edge": [("a", "b")]}).witnesses()
    [(BaseRow(table='edge', row=('a', 'c')),)]
    >>> found.probability({"edge": 0.5}), found.size
    (0.75, 2)
    """

    def __init__(self, diagrams: Diagrams, root: int, labels: list[int], rows: list[BaseRow]) -> None:
        self._diagrams = diagrams
        self._root = root
        self._labels = labels
        self._rows = rows
        """the variable of each level, and its row"""

    @property
    def code(self) -> int:
        """The number in the view's column for this expression: equal exactly for equal expressions."""
        known = {FALSE: 0, TRUE: 1}
        for node in self._diagrams.below(self._root):
            label = self._labels[self._diagrams.level[node]]
            known[node] = code_of(label, known[self._diagrams.low[node]], known[self._diagrams.high[node]])
        return known[self._root]

    @property
    def size(self) -> int:
        """The number of nodes of its diagram."""
        return len(self._diagrams.below(self._root))

    @property
    def is_true(self) -> bool:
        """Whether the row exists whatever the tables hold."""
        return self._root == TRUE

    @property
    def is_false(self) -> bool:
        """Whether no derivation of the row is left."""
        return self._root == FALSE

    def variables(self) -> list[BaseRow]:
        """The rows of tables that it depends on, in the order of the diagram."""
        levels = sorted({self._diagrams.level[n] for n in self._diagrams.below(self._root)})
        return [self._rows[level] for level in levels]

    def holds(self, present: Iterable[tuple[str, tuple[Any, ...]]]) -> bool:
        """Whether the row exists if only these variables do: pairs of a table's name and a row."""
        there = {BaseRow(table, with_one_nan(tuple(row))) for table, row in present}
        at = self._root
        while at > TRUE:
            is_there = self._rows[self._diagrams.level[at]] in there
            at = self._diagrams.high[at] if is_there else self._diagrams.low[at]
        return at == TRUE

    def without(self, rows: Mapping[str, Any]) -> Expression:
        """The expression with some table rows removed: given by table, as rows or as a predicate."""
        return self._restricted(rows, gone=True)

    def given(self, rows: Mapping[str, Any]) -> Expression:
        """The expression with some table rows certain."""
        return self._restricted(rows, gone=False)

    def _restricted(self, rows: Mapping[str, Any], *, gone: bool) -> Expression:
        chosen = _chosen(rows)
        levels = {level for level, row in enumerate(self._rows) if chosen(row)}
        made = Diagrams(len(self._diagrams) + 3)
        left = {FALSE: FALSE, TRUE: TRUE}
        for node in self._diagrams.below(self._root):
            low, high = left[self._diagrams.low[node]], left[self._diagrams.high[node]]
            level = self._diagrams.level[node]
            if level in levels:
                left[node] = low if gone else high
            else:
                left[node] = made.node(level, low, high)
        return Expression(made, left[self._root], self._labels, self._rows)

    def witnesses(self, most: int | None = None) -> list[tuple[BaseRow, ...]]:
        """The minimal sufficient sets of rows: all, or the first so many, shortest first."""
        known: dict[int, list[frozenset[int]]] = {FALSE: [], TRUE: [frozenset()]}
        for node in self._diagrams.below(self._root):
            fewer = known[self._diagrams.low[node]]
            level = self._diagrams.level[node]
            more = [w | {level} for w in known[self._diagrams.high[node]] if not any(f <= w for f in fewer)]
            known[node] = fewer + more
        found = [tuple(self._rows[level] for level in sorted(w)) for w in known[self._root]]
        return sorted(found, key=lambda rows: (len(rows), [str(row) for row in rows]))[:most]

    def probability(self, chances: Mapping[str, Any]) -> float:
        """The probability of the row if each table row exists independently with a probability: by table, one number, a
        mapping of rows, or a function of a row. Tables and rows that are not named are certain.
        """
        said = {table: _by_row(of) if isinstance(of, Mapping) else of for table, of in chances.items()}
        of = [_chance(said.get(row.table, 1.0), row) for row in self._rows]
        return self._diagrams.probability(self._root, of)

    def written(self) -> dict[str, Any]:
        """An expression as data: its variables (label, table, row), its nodes (variable, low, high) bottom-up, where 0
        and 1 are false and true and node n is n + 2, and its root.
        """
        diagrams = self._diagrams
        nodes = list(diagrams.below(self._root))
        levels = sorted({diagrams.level[n] for n in nodes})
        at = {FALSE: FALSE, TRUE: TRUE} | {n: place + 2 for place, n in enumerate(nodes)}
        place_of = {level: place for place, level in enumerate(levels)}
        return {
            "variables": [(self._labels[level], *self._rows[level]) for level in levels],
            "nodes": [[place_of[diagrams.level[n]], at[diagrams.low[n]], at[diagrams.high[n]]] for n in nodes],
            "root": at[self._root],
        }

    @classmethod
    def read(
        cls, variables: Sequence[tuple[int, str, tuple[Any, ...]]], nodes: Sequence[Sequence[int]], root: int
    ) -> Expression:
        """Inverse of `written`."""
        made = Diagrams(len(nodes) + 3)
        at = [FALSE, TRUE]
        for level, low, high in nodes:
            at.append(made.node(level, at[low], at[high]))
        rows = [BaseRow(table, with_one_nan(tuple(row))) for _, table, row in variables]
        return cls(made, at[root], [label for label, _, _ in variables], rows)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expression) and self.code == other.code

    def __hash__(self) -> int:
        return self.code

    def __bool__(self) -> bool:
        return not self.is_false

    def __repr__(self) -> str:
        return f"<Expression of {len(self.variables())} rows, {self.size} nodes>"

    def __str__(self) -> str:
        if self._root <= TRUE:
            return "true" if self.is_true else "false"
        found = self.witnesses(SHOWN + 1)
        parts = [" & ".join(map(str, w)) for w in found[:SHOWN]]
        alone = len(parts) == 1
        text = " | ".join(p if alone or len(w) == 1 else f"({p})" for p, w in zip(parts, found, strict=False))
        return f"{text} | ..." if len(found) > SHOWN else text

    def to_dict(self) -> dict[str, Any]:
        """As plain data: the witnesses, and the size of the diagram."""
        witnesses = [[{"table": r.table, "row": list(r.row)} for r in w] for w in self.witnesses()]
        return {"code": self.code, "nodes": self.size, "witnesses": witnesses}


def code_of(label: int, low: int, high: int) -> int:
    """The code of a node, as kernels compute it (`everview.kernels.provenance.nodes.code_of`).

    >>> code_of(1 << 36, 0, 1)
    5741711719721061527
    """
    h = _mixed(_mixed(_mixed(0x45565052, label), low), high) & 0x7FFFFFFFFFFFFFFF
    return h if h >= 16 else h + 16


def _mixed(a: int, b: int) -> int:
    word = (1 << 64) - 1
    h = (a * -7046029254386353131 + b) & word
    h ^= h >> 30
    h = (h * -4658895280553007687) & word
    h ^= h >> 27
    h = (h * -7723592293110705685) & word
    return h ^ (h >> 31)


def _chosen(rows: Mapping[str, Any]) -> Callable[[BaseRow], bool]:
    """Whether a row is one of those given by table."""
    if not isinstance(rows, Mapping):
        raise InputError("E_TYPE", f"{rows!r} names no tables", 'give rows by table: {"edge": [(1, 2)]}')
    tests: dict[str, Callable[[tuple[Any, ...]], bool]] = {}
    for table, some in rows.items():
        if callable(some):
            tests[table] = some
        elif some is ...:
            tests[table] = lambda row: True
        else:
            tests[table] = set(_by_row(dict.fromkeys(some))).__contains__
    return lambda row: row.table in tests and bool(tests[row.table](row.row))


def _by_row(some: Mapping[Any, Any]) -> dict[tuple[Any, ...], Any]:
    """A mapping of rows, by comparable keys."""
    return {with_one_nan(r if isinstance(r, tuple) else (r,)): of for r, of in some.items()}


def _chance(of: Any, row: BaseRow) -> float:
    if isinstance(of, Mapping):
        of = of.get(row.row, 1.0)
    elif callable(of):
        of = of(row.row)
    if isinstance(of, bool) or not isinstance(of, int | float) or not 0 <= of <= 1:
        raise InputError("E_RANGE", f"probability: {of!r}, of {row}, is not a probability", "give 0 to 1")
    return float(of)
