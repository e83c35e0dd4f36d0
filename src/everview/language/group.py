"""Groups of rows, and the operations on them: aggregates, the first rows of each, or any reduction in Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from everview.errors import PlanError
from everview.expr import common_types, language, nodes
from everview.expr.resolve import Scope, resolve
from everview.language.collection import Collection, Column, Output, columns_of, project, refuse_duplicates, scope_of
from everview.language.relation import relation_of
from everview.plan import joins
from everview.plan.aggregates import Aggregation
from everview.plan.nodes import PythonReduce, TopK


class Grouping:
    """Rows in groups; created by `group_by` and consumed by agg, top or reduce."""

    def __init__(self, collection: Collection, keys: Sequence[Output]) -> None:
        self._collection = collection
        self._keys = [replace(k, expr=joins.canonical(k.expr)) for k in keys]

    def __repr__(self) -> str:
        return f"Grouping({self._collection!r} by {', '.join(k.name for k in self._keys)})"

    def agg(self, *unnamed: Any, **aggregates: Any) -> Collection:
        """One row per group: the keys, then the aggregates, which can be combined: `mean=col.x.sum() /
        col.x.count()`."""
        if unnamed:
            raise PlanError(
                "E_NAME", f"agg({unnamed[0]!r}): the column has no name", f"give it one: agg(total={unnamed[0]!r})"
            )
        if not aggregates:
            raise PlanError(
                "E_EMPTY", "agg() has nothing to compute", "give it n=ev.count(), or use select(keys).distinct()"
            )
        c = self._collection
        refuse_duplicates([*(k.name for k in self._keys), *aggregates], "agg")
        keys = tuple(k.expr for k in self._keys)
        work = Aggregation(relation_of(c).node, keys, scope_of(c))
        columns = tuple(columns_of(self._keys))
        hint = "aggregate it, e.g. col.x.max(), or add it to group_by"
        scope = Scope(columns, "the result of agg()", work.slot, hint)
        outputs = [Output(name, resolve(value, scope)) for name, value in aggregates.items()]
        work.check_some()
        node = work.node()
        key_refs = joins.refs(node.types[: len(keys)])
        node = project(node, [*key_refs, *(o.expr for o in outputs)])
        return c._derive(node, [*columns, *columns_of(outputs)])

    def top(self, k: int, by: Any, offset: int = 0) -> Collection:
        """The first k rows of each group in the order of `by`, after `offset` rows; ties: by the other columns."""
        if not isinstance(k, int) or k < 0 or not isinstance(offset, int) or offset < 0:
            raise PlanError("E_RANGE", f"top({k!r}, offset={offset!r})", "both are whole numbers, 0 or more")
        c = self._collection
        order = [(_order_key(resolve(o.expr, scope_of(c)), o), o.descending) for o in language.orderings(by)]
        node, at = joins.with_columns(relation_of(c).node, [*(key.expr for key in self._keys), *(e for e, _ in order)])
        keys, columns = at[: len(self._keys)], at[len(self._keys) :]
        ordered = tuple((i, descending) for i, (_, descending) in zip(columns, order, strict=True))
        node = TopK(node, keys, ordered, k, offset)
        return c._derive(joins.take(node, range(len(relation_of(c).columns))), relation_of(c).columns)

    def reduce(self, function: Callable[..., Any], returns: Mapping[str, Any]) -> Collection:
        """Apply any reduction: `function(key, [(row, count), ...])` returns the group's output rows, without the key.

        Keys and rows are tuples; a row is the collection's columns, then computed keys. The function must depend on its
        arguments alone: it is called again whenever the group changes.
        """
        language.check_callable(function, "reduce")
        language.check_schema(returns, "reduce")
        c = self._collection
        types = tuple(language.declared(t) for t in returns.values())
        node, keys = joins.with_columns(relation_of(c).node, [k.expr for k in self._keys])
        columns = [*columns_of(self._keys), *(Column(n, t) for n, t in zip(returns, types, strict=True))]
        refuse_duplicates([col.name for col in columns], "reduce")
        return c._derive(PythonReduce(node, keys, function, types), columns)


def _order_key(expr: nodes.Expr, given: language.Ordering) -> nodes.Expr:
    if expr.type.kind not in common_types.ORDERED:
        raise PlanError(
            "E_TYPE", f"{given.expr!r} is {expr.type!r}, which has no order", "order by its items: col.t[0]"
        )
    return expr
