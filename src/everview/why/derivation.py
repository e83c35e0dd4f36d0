"""Derivations: why a row is present, as a tree of rows that ends at rows of tables.

A derivation has a row, the name of its relation, and the derivations it follows from. Shared parts occur once: the
tree's branches share them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from everview.codes.values import with_one_nan
from everview.why import drawing

Values = tuple[Any, ...]

Kind = Literal["table", "constant", "clock", "view", "loop", "group", "absent"]
"""The kind of a row: of a table, a constant, the time (the current day, a watermark), a view, a recursion, an
intermediate step over many rows; or that there is none (`absent`).
"""


@dataclass(frozen=True, eq=False)
class Derivation:
    """Why a row is present.

    >>> import everview as ev
    >>> db = ev.connect()
    >>> edge = db.table("edge", {"src": str, "dst": str})
    >>> rules = db.datalog('reach("a"). reach(Y) :- reach(X), edge(X, Y).')
    >>> edge.insert([("a", "b"), ("b", "c"), ("c", "b")])
    >>> d = rules.reach.why(("c",))
    >>> print(d)
    reach('c')  by reach(Y) :- reach(X), edge(X, Y).
    ├─ reach('b')  by reach(Y) :- reach(X), edge(X, Y).
    │  ├─ reach('a')  by reach("a").
    │  └─ edge('a', 'b')
    └─ edge('b', 'c')
    >>> sorted(d.leaves())
    [('edge', ('a', 'b')), ('edge', ('b', 'c'))]
    """

    row: Values
    """its values; for an absence: None for any value"""
    source: str
    """its view, table or relation, or the operation on many rows"""
    kind: Kind
    children: tuple[Derivation, ...] = ()
    """what it follows from"""
    columns: tuple[str, ...] = ()
    rule: str = ""
    """the rule of a program that derived it, as written"""
    how: str = ""
    """the operation, if it is not obvious"""
    round: int | None = None
    """for a recursion's row: the round in which it was derived, if known"""
    of: int | None = None
    """the number of rows of which the children are a sample"""

    def walk(self) -> Iterator[Derivation]:
        """This derivation and all below it, each once, top-down."""
        seen: set[int] = set()
        todo = [self]
        while todo:
            one = todo.pop()
            if id(one) not in seen:
                seen.add(id(one))
                yield one
                todo.extend(reversed(one.children))

    def leaves(self) -> set[tuple[str, Values]]:
        """The rows of tables that it follows from: {(table, row), ...}."""
        return {(d.source, with_one_nan(d.row)) for d in self.walk() if d.kind == "table"}

    def absences(self) -> list[tuple[str, Values]]:
        """What must be absent: [(view or table, row), ...], with None for any value."""
        return [(d.source, d.row) for d in self.walk() if d.kind == "absent"]

    def to_dict(self) -> dict[str, Any]:
        """The tree as dictionaries and lists; shared branches are the same dictionary."""
        made: dict[int, dict[str, Any]] = {}
        for d in reversed(list(self.walk())):
            made[id(d)] = _plain(d)
        for d in self.walk():
            made[id(d)]["children"] = [made[id(c)] for c in d.children]
        return made[id(self)]

    def __str__(self) -> str:
        return drawing.text(self)

    def __repr__(self) -> str:
        return f"<why {drawing.title(self)}>"

    def _repr_html_(self) -> str:
        return drawing.svg(self)


def _plain(d: Derivation) -> dict[str, Any]:
    found: dict[str, Any] = {"source": d.source, "row": d.row, "kind": d.kind, "columns": d.columns}
    found |= {name: value for name in ("rule", "how") if (value := getattr(d, name))}
    found |= {name: value for name in ("round", "of") if (value := getattr(d, name)) is not None}
    return found


@dataclass(frozen=True)
class Witnesses:
    """Several derivations of one row, none of whose sets of table rows contains another's.

    `truncated`: there may be more of them.
    """

    derivations: tuple[Derivation, ...]
    truncated: bool

    def __len__(self) -> int:
        return len(self.derivations)

    def __iter__(self) -> Iterator[Derivation]:
        return iter(self.derivations)

    def __getitem__(self, number: int) -> Derivation:
        return self.derivations[number]

    def leaves(self) -> set[tuple[str, Values]]:
        """The rows of tables that any of them needs."""
        return {leaf for d in self for leaf in d.leaves()}

    def to_dict(self) -> dict[str, Any]:
        """For programs."""
        return {"witnesses": [d.to_dict() for d in self], "truncated": self.truncated}

    def __str__(self) -> str:
        parts = [f"{n}. {d}" for n, d in enumerate(self, 1)]
        return "\n".join([*parts, *(["... there may be more"] if self.truncated else [])])

    def _repr_html_(self) -> str:
        more = "<p>... there may be more</p>" if self.truncated else ""
        return "".join(d._repr_html_() for d in self) + more
