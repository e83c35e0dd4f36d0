"""Group-by with any mix of aggregates, as plan nodes.

Arguments that are not plain columns are computed by a Project below the Reduce. Ordered `first` and `last` become a
TopK of one row per group; next to other aggregates their results are joined back by the group's key, NULL-safely,
because a group's key may be NULL.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from everview.errors import PlanError
from everview.expr import common_types, language, nodes
from everview.expr.resolve import Scope, resolve
from everview.plan import joins
from everview.plan.nodes import Aggregate, AggregateKind, Join, Node, Project, Reduce, TopK
from everview.types import FLOAT, INT, DataType

Order = tuple[tuple[nodes.Expr, bool], ...]


@dataclass(frozen=True)
class _Slot:
    """One aggregate: of an expression over the input (None: of rows); `order` for first and last only."""

    kind: AggregateKind
    arg: nodes.Expr | None
    type: DataType
    order: Order | None = None


class Aggregation:
    """Collects the aggregates that expressions need, then builds the plan that computes them after the keys."""

    def __init__(self, child: Node, keys: tuple[nodes.Expr, ...], scope: Scope) -> None:
        self.child = child
        self.keys = keys
        self.scope = scope
        self.slots: list[_Slot] = []

    def slot(self, call: language.AggregateCall) -> nodes.Expr:
        """The column that will hold this aggregate; equal aggregates share one."""
        wanted = self._slot(call)
        if wanted not in self.slots:
            self.slots.append(wanted)
        return nodes.ColumnRef(wanted.type, len(self.keys) + self.slots.index(wanted))

    def check_some(self) -> None:
        if not self.slots:
            raise PlanError(
                "E_AGGREGATE",
                "agg() has no aggregate in it",
                "use .count(), .sum(), .min() ..., or select(...).distinct()",
            )

    def node(self) -> Node:
        """The keys, then one column per slot."""
        plain = [s for s in self.slots if s.order is None]
        orders = list(dict.fromkeys(s.order for s in self.slots if s.order is not None))
        pieces = [(self._reduce(plain), plain)] if plain else []
        for order in orders:
            slots = [s for s in self.slots if s.order == order]
            pieces.append((self._first_row(slots, order), slots))
        node, order_of_slots = pieces[0]
        for piece, slots in pieces[1:]:
            node = self._beside(node, piece)
            order_of_slots = order_of_slots + slots
        positions = [len(self.keys) + order_of_slots.index(s) for s in self.slots]
        return joins.take(node, [*range(len(self.keys)), *positions])

    # -------------------------------------------------------------------------------- one aggregate

    def _slot(self, call: language.AggregateCall) -> _Slot:
        if call.arg is None:
            return _Slot("count", None, INT)
        arg = resolve(call.arg, self.scope)
        if call.kind in {"first", "last"}:
            order = tuple((resolve(o.expr, self.scope), o.descending) for o in call.by)
            return _Slot("min", arg, arg.type, order)
        kind: AggregateKind = call.kind  # type: ignore[assignment]
        if kind == "count" and not arg.type.nullable:
            return _Slot("count", None, INT) if isinstance(arg, nodes.ColumnRef) else _Slot("count", arg, INT)
        if kind == "count_distinct":
            arg = joins.canonical(arg)
        return _Slot(kind, arg, _result_type(kind, arg, call))

    # --------------------------------------------------------------------------- pieces of the plan

    def _reduce(self, slots: list[_Slot]) -> Node:
        exprs = [*self.keys, *(s.arg for s in slots if s.arg is not None)]
        if all(isinstance(e, nodes.ColumnRef) for e in exprs):
            child, at = joins.with_columns(self.child, exprs)
        else:
            distinct = tuple(dict.fromkeys(exprs))
            child, at = Project(self.child, distinct), tuple(distinct.index(e) for e in exprs)
        position = dict(zip(exprs, at, strict=True))
        aggregates = tuple(Aggregate(s.kind, None if s.arg is None else position[s.arg], s.type) for s in slots)
        return Reduce(child, at[: len(self.keys)], aggregates)

    def _first_row(self, slots: list[_Slot], order: Order) -> Node:
        args = [s.arg for s in slots if s.arg is not None]
        node, at = joins.with_columns(self.child, [*self.keys, *(e for e, _ in order), *args])
        keys, rest = at[: len(self.keys)], at[len(self.keys) :]
        ordered = tuple((i, descending) for i, (_, descending) in zip(rest, order, strict=False))
        return joins.take(TopK(node, keys, ordered, 1), [*keys, *rest[len(order) :]])

    def _beside(self, left: Node, right: Node) -> Node:
        """Both have one row per group, keys first: the left's columns, then the right's without its keys."""
        k = len(self.keys)
        left_keys = [e for ref in joins.refs(left.types[:k]) for e in joins.null_safe(ref)]
        right_keys = [e for ref in joins.refs(right.types[:k]) for e in joins.null_safe(ref)]
        l_node, l_at = joins.with_columns(left, left_keys)
        r_node, r_at = joins.with_columns(right, right_keys)
        start = len(l_node.types)
        kept = [*range(len(left.types)), *range(start + k, start + len(right.types))]
        return joins.take(Join(l_node, r_node, l_at, r_at), kept)


def _result_type(kind: AggregateKind, arg: nodes.Expr, call: language.AggregateCall) -> DataType:
    t = arg.type
    if kind in {"count", "count_distinct"}:
        return INT
    if kind in {"sum", "avg"}:
        if t.kind not in common_types.NUMBERS:
            raise PlanError("E_TYPE", f"{call!r}: {t!r} has no {kind}", "cast it to a number first: .cast(int)")
        return FLOAT.optional(t.nullable) if kind == "avg" else replace(t, width=0)  # a sum may be larger
    if t.kind not in common_types.ORDERED:
        raise PlanError("E_TYPE", f"{call!r}: {t!r} has no order", "take an item of it: col.t[0]")
    return t
