"""Groups: rows of keys and values reduced to one row per group.

Most aggregates are the engine's own. Variance and standard deviation are computed from sums (`everview.expr.variance`),
so a change costs the same for groups of any size; a median is found in Python among all values of a changed group. Each
of these is a separate reduction, joined with the others by the group's keys.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from everview.datalog.syntax import SPREADS, Place
from everview.errors import PlanError
from everview.expr import common_types, functions, language, nodes, variance
from everview.expr.resolve import Column, Scope
from everview.plan import joins
from everview.plan.aggregates import Aggregation
from everview.plan.nodes import Aggregate, Node, Project, PythonReduce, Reduce
from everview.types import FLOAT, INT

_MOMENTS: dict[str, variance.Moment] = {
    "variance": variance.var_samp,
    "variance_pop": variance.var_pop,
    "stddev": variance.stddev_samp,
    "stddev_pop": variance.stddev_pop,
}


def aggregated(node: Node, kinds: Sequence[str | None], place: Place) -> Node:
    """One row per group; `kinds` gives the aggregate of each column (None: it groups)."""
    try:
        return _Groups(node, kinds).node()
    except PlanError as error:
        raise place.placed(error) from None


class _Groups:
    def __init__(self, child: Node, kinds: Sequence[str | None]) -> None:
        names = [f"c{i}" for i in range(len(kinds))]
        scope = Scope(tuple(Column(n, t) for n, t in zip(names, child.types, strict=True)))
        refs = joins.refs(child.types)
        self.child = child
        self.kinds = kinds
        self.keys = [i for i, kind in enumerate(kinds) if kind is None]
        self.work = Aggregation(child, tuple(joins.canonical(refs[i]) for i in self.keys), scope)
        self.names = names

    def node(self) -> Node:
        """The columns in order."""
        plain = [i for i, kind in enumerate(self.kinds) if kind is not None and kind not in (*SPREADS, "median")]
        others = [i for i, kind in enumerate(self.kinds) if kind is not None and i not in plain]
        place: dict[int, nodes.Expr] = {}
        found: Node | None = None
        if plain:
            slots = [self.work.slot(self._call(i)) for i in plain]
            found = self.work.node()
            place = dict(zip(plain, slots, strict=True))
        for i in others:
            piece = self._median(i) if self.kinds[i] == "median" else self._spread(i, str(self.kinds[i]))
            found = piece if found is None else self.work._beside(found, piece)
            place[i] = nodes.ColumnRef(found.types[-1], len(found.types) - 1)
        assert found is not None
        refs = joins.refs(found.types)
        place |= {i: refs[k] for k, i in enumerate(self.keys)}
        exprs = tuple(place[i] for i in range(len(self.kinds)))
        return found if exprs == refs else Project(found, exprs)

    def _call(self, i: int) -> language.AggregateCall:
        return language.AggregateCall(self.kinds[i], language.Named(self.names[i]))  # type: ignore[arg-type]

    def _number(self, i: int) -> nodes.Expr:
        value = joins.refs(self.child.types)[i]
        if value.type.kind not in common_types.NUMBERS:
            raise PlanError("E_TYPE", f"{value.type!r} has no {self.kinds[i]}", "cast it to a number first: .cast(int)")
        return functions.cast(value, FLOAT)

    def _median(self, i: int) -> Node:
        value = self._number(i)
        below = Project(self.child, (*self.work.keys, value))
        keys = tuple(range(len(self.keys)))
        return PythonReduce(below, keys, Median(len(keys)), (FLOAT.optional(value.type.nullable),))

    def _spread(self, i: int, kind: str) -> Node:
        value = self._number(i)
        below = Project(self.child, (*self.work.keys, *variance.parts(value)))
        k = len(self.keys)
        sums = [Aggregate("sum", k + j, below.types[k + j]) for j in range(4)]
        reduced = Reduce(below, tuple(range(k)), (Aggregate("count", k, INT), *sums))
        refs = joins.refs(reduced.types)
        return Project(reduced, (*refs[:k], nodes.Udf(FLOAT.optional(), _MOMENTS[kind], refs[k:], False)))


@dataclass(frozen=True)
class Median:
    """The middle value of a group, or the mean of the two middle ones: a reduction for `PythonReduce`.

    >>> Median(1)(("k",), [(("k", 1.0), 1), (("k", 4.0), 2), (("k", None), 1)])
    [(4.0,)]
    >>> Median(0)((), [((1.0,), 1), ((2.0,), 1)])
    [(1.5,)]
    """

    keys: int

    @property
    def __name__(self) -> str:
        return "median"

    def __call__(self, key: tuple[Any, ...], group: list[tuple[tuple[Any, ...], int]]) -> list[tuple[Any, ...]]:
        values = [row[self.keys] for row, n in group if row[self.keys] is not None for _ in range(n)]
        return [(statistics.median(values) if values else None,)]
