"""GROUP BY and aggregates.

Aggregates are collected first, from SELECT, HAVING and ORDER BY; then one Reduce computes them; then the expressions
around them are bound over its result, where an expression that is grouped by is its key.

Without GROUP BY there is one row even if nothing is aggregated: for a context (see `everview.sql.subqueries`) without
rows, and for a whole query without rows, the aggregates of nothing (0 for counts, else NULL) are added.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from everview.expr import functions
from everview.expr.functions import call
from everview.expr.nodes import ColumnRef, Expr
from everview.expr.nodes import Literal as Constant
from everview.plan import joins
from everview.plan.nodes import Aggregate, AggregateKind, Node, Project, Reduce, Threshold, Union
from everview.sql.scalars import Scalars, has_query
from everview.sql.scopes import HIDDEN, Field, Relation, Scope
from everview.sql.subqueries import same_keys
from everview.sql.windows import windows_in
from everview.types import FLOAT, INT, DataType

_KINDS: dict[type[exp.Expr], AggregateKind] = {
    exp.Count: "count",
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.Min: "min",
    exp.Max: "max",
    exp.LogicalAnd: "min",
    exp.LogicalOr: "max",
}


@dataclass(frozen=True)
class _Slot:
    """One aggregate over an expression of the input (None: over rows)."""

    kind: AggregateKind
    arg: Expr | None
    distinct: bool
    type: DataType


class Grouped(Scalars):
    """Expressions over groups: keys and aggregates are columns, everything else is computed from them."""

    def __init__(
        self, below: Scalars, keys: Sequence[tuple[exp.Expr, Expr]], sets: Sequence[Sequence[int]], context: int
    ) -> None:
        super().__init__(below.compiler, below.scope, below.env)
        self.below = below
        self.context = context
        self.keys = [*joins.refs(below.scope.relation.node.types[:context]), *(e for _, e in keys)]
        self.written = {node: context + i for i, (node, _) in enumerate(keys)}
        self.sets = [[*range(context), *(context + i for i in s)] for s in sets]
        self.slots: list[_Slot] = []
        self.columns: dict[int, int] = {}

    # ---------------------------------------------------------------------------------- collecting

    def collect(self, nodes: Iterable[exp.Expr]) -> None:
        """Find the aggregates in expressions and bind what they aggregate."""
        for node in nodes:
            for call_, condition in aggregates_in(node):
                slot = self._slot(call_, condition)
                if slot not in self.slots:
                    self.slots.append(slot)
                self.columns[id(call_)] = self.slots.index(slot)

    def _slot(self, node: exp.Expr, condition: exp.Expr | None) -> _Slot:
        kind = _KINDS.get(type(node))
        if kind is None:
            raise self._refused(node)
        self.source.only(node, "this", "big_int")
        given, distinct = node.this, False
        if isinstance(given, exp.Distinct):
            distinct = True
            if len(given.expressions) != 1 or isinstance(given.expressions[0], exp.Tuple):
                raise self.source.refuse(
                    node, "DISTINCT of several columns is not supported", "use a derived table with SELECT DISTINCT"
                )
            given = given.expressions[0]
        if isinstance(given, exp.Order):
            raise self.source.refuse(node, "ORDER BY inside this aggregate has no meaning")
        if any(aggregates_in(given)):
            raise self.source.error(node, "E_AGGREGATE", "aggregates cannot be nested", "use a derived table")
        arg = None if isinstance(given, exp.Star) else self.below.bind(given)
        if condition is not None:
            test = self.below.condition(condition)
            arg = call("case", test, Constant(INT, 1) if arg is None else arg, Constant(INT.optional(), None))
        return _Slot(*self._typed(kind, arg, node, distinct))

    def _typed(
        self, kind: AggregateKind, arg: Expr | None, node: exp.Expr, distinct: bool
    ) -> tuple[AggregateKind, Expr | None, bool, DataType]:
        if kind == "count":
            if arg is None or (not distinct and not arg.type.nullable):
                return "count", None, False, INT
            return ("count_distinct" if distinct else "count"), joins.canonical(arg) if distinct else arg, False, INT
        assert arg is not None
        name = node.sql_name().lower() if isinstance(node, exp.Func) else kind
        wanted = functions.NUMBERS if kind in ("sum", "avg") else functions.ORDERED
        if isinstance(node, (exp.LogicalAnd, exp.LogicalOr)):
            wanted = frozenset({"bool"})
        if arg.type.kind not in wanted:
            raise self.source.error(node, "E_TYPE", f"there is no {name} of {arg.type!r}", "cast it first")
        kept = FLOAT.optional(arg.type.nullable) if kind == "avg" else arg.type
        return kind, arg, distinct and kind in ("sum", "avg"), kept

    # ------------------------------------------------------------------------------------ the plan

    def reduce(self, one_row: bool) -> None:
        """Build the groups; `one_row`: there is no GROUP BY, so nothing still is one group."""
        if not self.slots:
            self.slots.append(_Slot("count", None, False, INT))  # groups exist while they have rows
        keys = [joins.canonical(k) for k in self.keys]
        parts = [self._one_set(keys, s, one_row or not s[self.context :]) for s in self.sets]
        node = parts[0] if len(parts) == 1 else Union(tuple(parts))
        fields = [self._field(k) for k in self.keys]
        self.scope = Scope(Relation(node, (*fields, *[HIDDEN] * len(self.slots))), self.source, self.scope.outer)

    def _field(self, key: Expr) -> Field:
        return self.below.scope.relation.fields[key.index] if isinstance(key, ColumnRef) else HIDDEN

    def _one_set(self, keys: list[Expr], grouped: Sequence[int], one_row: bool) -> Node:
        """The groups by some of the keys, with NULL for the others, and the aggregates."""
        chosen = [keys[i] for i in grouped]
        node = self._aggregated(chosen)
        if one_row:
            node = self._with_nothing(node, len(chosen))
        if len(grouped) == len(keys):
            return node
        refs = joins.refs(node.types)
        outputs = [
            refs[list(grouped).index(i)] if i in grouped else Constant(k.type.optional(), None)
            for i, k in enumerate(keys)
        ]
        return Project(node, (*outputs, *refs[len(chosen) :]))

    def _aggregated(self, keys: list[Expr]) -> Node:
        """Keys, then slots. Distinct sums are reductions of their own, joined by the keys."""
        child = self.below.scope.relation.node
        plain = [s for s in self.slots if not s.distinct]
        node = self._reduce(child, keys, plain) if plain else None
        order = list(plain)
        for slot in (s for s in self.slots if s.distinct):
            assert slot.arg is not None
            values = Threshold(Project(child, (*keys, joins.canonical(slot.arg))), "distinct")
            aggregate = Aggregate(slot.kind, len(keys), slot.type)
            piece = Reduce(values, tuple(range(len(keys))), (aggregate,))
            node = piece if node is None else self._beside(node, piece, len(keys))
            order.append(slot)
        assert node is not None
        return joins.take(node, [*range(len(keys)), *(len(keys) + order.index(s) for s in self.slots)])

    def _reduce(self, child: Node, keys: list[Expr], slots: list[_Slot]) -> Node:
        exprs = [*keys, *(s.arg for s in slots if s.arg is not None)]
        distinct = tuple(dict.fromkeys(exprs)) or (Constant(INT, 1),)
        if all(isinstance(e, ColumnRef) for e in exprs):
            below, at = joins.with_columns(child, exprs)
        else:
            below, at = Project(child, distinct), tuple(distinct.index(e) for e in exprs)
        position = dict(zip(exprs, at, strict=True))
        aggregates = tuple(Aggregate(s.kind, None if s.arg is None else position[s.arg], s.type) for s in slots)
        return Reduce(below, at[: len(keys)], aggregates)

    @staticmethod
    def _beside(left: Node, right: Node, keys: int) -> Node:
        pairs = [
            same_keys(a, b) for a, b in zip(joins.refs(left.types[:keys]), joins.refs(right.types[:keys]), strict=True)
        ]
        condition = joins.Condition(tuple(k for a, _ in pairs for k in a), tuple(k for _, b in pairs for k in b))
        joined = joins.inner(left, right, condition)
        width = len(left.types)
        return joins.take(joined, [*range(width), *range(width + keys, len(joined.types))])

    def _with_nothing(self, node: Node, keys: int) -> Node:
        """Add the aggregates of no rows for every context (without one: once) that has none."""
        outer = self.scope.outer
        if outer is not None and outer.positions:
            every = self.compiler.context(outer).node
        else:
            every = self.compiler.one_row()
        pairs = [same_keys(ColumnRef(every.types[i], i), ColumnRef(node.types[i], i)) for i in range(keys)]
        condition = joins.Condition(tuple(k for a, _ in pairs for k in a), tuple(k for _, b in pairs for k in b))
        alone = joins.join(every, node, condition, "anti")
        nothing = [
            Constant(INT, 0) if s.kind in ("count", "count_distinct") else Constant(s.type.optional(), None)
            for s in self.slots
        ]
        return Union((node, Project(alone, (*joins.refs(alone.types)[:keys], *nothing))))

    # ------------------------------------------------------------------------ expressions over groups

    def special(self, node: exp.Expr) -> Expr | None:
        inner = node.this if isinstance(node, exp.Filter) else node
        if id(inner) in self.columns:
            return self.scope.relation.ref(len(self.keys) + self.columns[id(inner)])
        if node in self.written:
            return self.scope.relation.ref(self.written[node])
        if isinstance(node, exp.Literal) or has_query(node) or any(aggregates_in(node)) or any(windows_in(node)):
            return None
        bound = self.below.bind(node)
        if bound in self.keys:
            return self.scope.relation.ref(self.keys.index(bound))
        if isinstance(node, exp.Column):
            raise self.source.error(
                node,
                "E_GROUP",
                f"{node.sql('postgres')} is neither grouped by nor aggregated",
                f"add it to GROUP BY, or use max({node.name})",
            )
        return None


def aggregates_in(node: exp.Expr) -> Iterator[tuple[exp.Expr, exp.Expr | None]]:
    """The aggregates in an expression, not in its subqueries, with the conditions of their FILTERs."""
    if isinstance(node, exp.Query):
        return
    if isinstance(node, exp.Window):  # the call itself is no aggregate, but what it reads may be
        inner = node.this
        if isinstance(inner, exp.Filter):
            yield from aggregates_in(inner.expression)
            inner = inner.this
        if isinstance(inner, (exp.IgnoreNulls, exp.RespectNulls)):
            inner = inner.this
        parts = [*inner.iter_expressions(), *(node.args.get("partition_by") or [])]
        for part in [*parts, *([node.args["order"]] if node.args.get("order") else [])]:
            yield from aggregates_in(part)
        return
    if isinstance(node, exp.Filter):
        yield node.this, node.expression.this
        return
    if isinstance(node, exp.AggFunc):
        yield node, None
        return
    for child in node.iter_expressions():
        yield from aggregates_in(child)


def grouping_sets(group: exp.Group | None) -> tuple[list[exp.Expr], list[list[int]]]:
    """All keys of a GROUP BY, and the sets of them to group by: one, unless there are ROLLUP, CUBE or GROUPING SETS.

    >>> import sqlglot
    >>> select = sqlglot.parse_one("SELECT 1 FROM t GROUP BY a, ROLLUP (b, c)", read="postgres")
    >>> keys, sets = grouping_sets(select.args["group"])
    >>> [k.name for k in keys], sets
    (['a', 'b', 'c'], [[0, 1, 2], [0, 1], [0]])
    """
    keys: list[exp.Expr] = []

    def index(key: exp.Expr) -> int:
        if key not in keys:
            keys.append(key)
        return keys.index(key)

    def several(node: exp.Expr) -> list[int]:
        inner = node.unnest() if isinstance(node, exp.Paren) else node
        return [index(e) for e in inner.expressions] if isinstance(inner, exp.Tuple) else [index(inner)]

    choices: list[list[list[int]]] = []
    given = [*group.expressions] if group is not None else []
    for arg in ("grouping_sets", "rollup", "cube"):
        given += (group.args.get(arg) or []) if group is not None else []
    for item in given:
        parts = (
            [several(e) for e in item.expressions] if isinstance(item, (exp.Rollup, exp.Cube, exp.GroupingSets)) else []
        )
        if isinstance(item, exp.Rollup):
            choices.append([[i for p in parts[:n] for i in p] for n in range(len(parts), -1, -1)])
        elif isinstance(item, exp.Cube):
            chosen = itertools.product((True, False), repeat=len(parts))
            choices.append([[i for p, take in zip(parts, c, strict=True) if take for i in p] for c in chosen])
        elif isinstance(item, exp.GroupingSets):
            choices.append(parts)
        else:
            choices.append([several(item)] if isinstance(item, exp.Tuple) else [[index(item)]])
    return keys, [sorted({i for part in combination for i in part}) for combination in itertools.product(*choices)]
