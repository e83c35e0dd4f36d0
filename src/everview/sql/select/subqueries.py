"""Subqueries in expressions, as joins.

As a conjunct of WHERE, `[NOT] EXISTS` and `IN` become semi- and anti-joins: the subquery's own conditions filter its
rows first, and those that also read the outer row become the join condition.

Anywhere else, and for subqueries with aggregates, limits or set operations, the value is computed for all outer rows at
once. The distinct values of the outer columns that the subquery reads (its *context*) are joined to the subquery's FROM
and carried through it as first columns: as grouping keys, and as part of DISTINCT. The result has at most one row per
context and is joined back to the outer rows, NULL-safely, as further columns.

    x IN (...)        three-valued: true if found, else NULL if x is NULL or a NULL is among a non-empty result
    x < ANY (...)     x < max; x < ALL (...): x < min; NULLs are handled likewise
    (SELECT ...)      refused unless it surely has at most one row: an aggregate without GROUP BY, or LIMIT 1
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from sqlglot import exp

from everview.expr import common_types
from everview.expr.functions import call
from everview.expr.nodes import Call, ColumnRef, Expr
from everview.expr.nodes import Literal as Constant
from everview.plan import joins
from everview.plan.joins import same_keys
from everview.plan.nodes import Aggregate, Filter, Node, Project, Reduce, Threshold
from everview.plan.nodes import Constant as Rows
from everview.sql.clock.temporal_tables import mentions_now
from everview.sql.scalar import comparisons
from everview.sql.scalar.scalars import Scalars
from everview.sql.select import demand, memberships, outputs
from everview.sql.select.conditions import conjuncts, outer_join, shifted
from everview.sql.select.from_clause import FromClause
from everview.sql.select.scopes import Correlated, Outer, PairScope, Scope
from everview.sql.select.sort_keys import sort_keys
from everview.sql.text.error_positions import has_query
from everview.types import BOOL, INT

if TYPE_CHECKING:
    from everview.sql.select.compiler import Compiler
    from everview.sql.select.query import Env, Query

_TRUE, _FALSE = Constant(BOOL, True), Constant(BOOL, False)
_UNKNOWN = Constant(BOOL.optional(), None)


class Subqueries:
    """The subqueries of one scope."""

    def __init__(self, compiler: Compiler, scope: Scope, env: Env) -> None:
        self.compiler = compiler
        self.scope = scope
        self.env = env
        self.source = compiler.source

    # ------------------------------------------------------------------------- conditions of their own

    def keep_where(self, condition: exp.Expr) -> None:
        """Only the scope's rows for which a condition with subqueries, or with a long list, holds."""
        if memberships.keep(condition, Scalars(self.compiler, self.scope, self.env)):
            return
        inner, negated = condition, False
        while isinstance(inner, (exp.Paren, exp.Not)):
            negated ^= isinstance(inner, exp.Not)
            inner = inner.this
        test = _as_in(inner)
        if isinstance(inner, exp.Exists) and self._keep_joined(inner.this, (), negated):
            return
        if (
            test is not None
            and not has_query(test.this)
            and self._keep_joined(_query_of(test), _items(test.this), negated)
        ):
            return
        self.scope.keep(Scalars(self.compiler, self.scope, self.env).condition(condition))

    def join_early(self, condition: exp.Expr, clause: FromClause) -> bool:
        """Make `x IN (query)` a leaf of a FROM, if the query is uncorrelated, so that few values come first. Likewise
        for a long list.
        """
        listed = memberships.long_list(condition)
        if listed is not None:
            return not listed[1] and self._join_list(listed[0], clause)
        test = _as_in(condition.unnest() if isinstance(condition, exp.Paren) else condition)
        if test is None or has_query(test.this):
            return False
        found = self._alone(_query_of(test), _items(test.this))
        if (
            found is None
            or demand.may_fail(found[0])
            or not all(_is_plain_equality(c, len(self.scope.relation.fields)) for c in found[1])
        ):
            return False
        return clause.also(Threshold(found[0], "distinct"), found[1])

    def _join_list(self, test: exp.In, clause: FromClause) -> bool:
        scalars = Scalars(self.compiler, self.scope, self.env)
        value = scalars.bind(test.this)
        table = memberships.table_of(test, value, scalars)
        if table is None:
            return False
        column = ColumnRef(table.types[0], len(self.scope.relation.fields))
        return clause.also(table, [scalars.call("eq", value, column)])

    def _keep_joined(self, query: exp.Expr, values: tuple[exp.Expr, ...], negated: bool) -> bool:
        """Semi- or anti-join with the subquery, if the condition is equivalent to one."""
        found = self._alone(query, values)
        if found is not None and demand.may_fail(found[0]):
            return False  # to be computed only if a row needs it
        found = found or self._side_by_side(query, values)
        if found is None:
            return False
        right, conditions = found
        if negated and values and any(c.type.nullable for c in conditions):
            return False  # NOT IN with NULLs is no anti-join
        how: Literal["semi", "anti"] = "anti" if negated else "semi"
        width = len(self.scope.relation.fields)
        node = outer_join(self.scope.relation.node, right, conditions, how)
        assert len(node.types) == width
        self.scope.relation = type(self.scope.relation)(node, self.scope.relation.fields)
        return True

    def _alone(self, query: exp.Expr, values: tuple[exp.Expr, ...]) -> tuple[Node, list[Expr]] | None:
        """Any uncorrelated subquery."""
        key = id(query), tuple((name, id(relation)) for name, relation in self.env.items())
        if key in self.compiler.alone:
            found = self.compiler.alone[key][0]
        else:
            try:
                found = self.compiler.query(query, self.env, Outer(self.scope))
            except Correlated as need:
                if need.scope is not self.scope:
                    raise
                return None
            self.compiler.alone[key] = found, query, self.env
        node = joins.take(found.node, range(found.width))
        width = len(self.scope.relation.fields)
        refs = [ColumnRef(t, width + i) for i, t in enumerate(node.types)]
        return node, self._equalities(values, Scalars(self.compiler, self.scope, self.env), refs, query)

    def _side_by_side(self, query: exp.Expr, values: tuple[exp.Expr, ...]) -> tuple[Node, list[Expr]] | None:
        """A correlated subquery with only FROM and WHERE: its rows, and the conditions on pairs of rows."""
        select = query.unnest() if isinstance(query, exp.Subquery) else query
        if not isinstance(select, exp.Select) or not _is_plain(select):
            return None
        try:
            env = self.compiler.with_clause(select, self.env)
            clause = FromClause.of(select, self.compiler, env, Outer(self.scope))
            pair = Scalars(self.compiler, PairScope(self.scope, clause.scope()), env)
            width = len(self.scope.relation.fields)
            crossing: list[Expr] = []
            where = select.args.get("where")
            for part in conjuncts(where.this if where else None):
                if has_query(part) or (self.compiler.standing and mentions_now(part)):
                    clause.where(part)
                    continue
                bound = pair.condition(part)
                if bound.columns() and min(bound.columns()) >= width:
                    clause.conditions.append(shifted(bound, -width))
                else:
                    crossing.append(bound)
            outputs = self._outputs(select, pair, Scalars(self.compiler, clause.scope(), env))
            inner = Scope(clause.joined(), self.source, Outer(self.scope))
            columns = len(inner.relation.fields)
            for part in clause.late:
                Subqueries(self.compiler, inner, env).keep_where(part)
        except Correlated as need:
            if need.scope is not self.scope:
                raise
            return None
        crossing += self._equalities(values, Scalars(self.compiler, self.scope, self.env), outputs, query)
        return joins.take(inner.relation.node, range(columns)), crossing

    def _outputs(self, select: exp.Select, pair: Scalars, own: Scalars) -> list[Expr]:
        """The outputs of a subquery with only FROM and WHERE. Its ORDER BY is checked, although it does not matter."""
        width = len(self.scope.relation.fields)
        found: list[Expr] = []
        for item in select.expressions:
            if outputs.is_star(item):
                found += [shifted(e, width) for _, e in outputs.star(self.compiler, item, own)]
            else:
                found.append(pair.bind(item))
        order = select.args.get("order")
        for ordered in order.expressions if order is not None else []:
            outputs.order_key(self.compiler, ordered.this, pair, [("", e) for e in found])
            sort_keys(Constant(BOOL, True), ordered)
        return found

    def _equalities(
        self, values: tuple[exp.Expr, ...], left: Scalars, outputs: Sequence[Expr], at: exp.Expr
    ) -> list[Expr]:
        if not values:
            return []
        if len(values) != len(outputs):
            raise self.source.error(at, "E_WIDTH", f"the subquery has {len(outputs)} columns, IN needs {len(values)}")
        return [comparisons.compare(left, "eq", left.bind(v), o) for v, o in zip(values, outputs, strict=True)]

    # ------------------------------------------------------------------------------ values anywhere

    def bound(self, query: exp.Expr, always: bool = False) -> tuple[Query, tuple[int, ...]]:
        """The subquery with its context as first columns, and the scope's context columns; `always`: it is needed,
        whatever the rows.
        """
        positions: tuple[int, ...] = ()
        needed: int | None = None
        while True:
            try:
                found = self.compiler.query(query, self.env, Outer(self.scope, positions, needed))
            except Correlated as need:
                if need.scope is not self.scope:
                    raise
                positions = (*positions, need.position)
                continue
            depends = bool(positions) and not self.scope.demands  # on the rows that there are
            if always or needed is not None or depends or not demand.may_fail(found.node):
                return (found if needed is None else replace(found, exactly_one=False)), positions
            needed = demand.column(self.scope)
            positions = (*positions, needed)

    def beside(self, right: Node, positions: tuple[int, ...], how: Literal["inner", "left"]) -> Node:
        """The scope's rows with the columns of the right that have the same context."""
        left = self.scope.relation
        pairs = [same_keys(left.ref(p), ColumnRef(right.types[i], i)) for i, p in enumerate(positions)]
        condition = joins.Condition(tuple(k for a, _ in pairs for k in a), tuple(k for _, b in pairs for k in b))
        return joins.join(left.node, right, condition, how)

    def scalar(self, node: exp.Subquery) -> Expr:
        """A scalar subquery: the one column of its only row, or NULL."""
        query, positions = self.bound(node.this)
        if query.width - len(positions) != 1:
            raise self.source.error(
                node,
                "E_WIDTH",
                f"a subquery in the place of a value has one column, not {query.width - len(positions)}",
            )
        right = joins.take(query.node, range(query.width))
        if not query.at_most_one and (positions or not _has_one_row(query.node)):
            return self._only_value(node, right, positions)
        added = self.scope.append(self.beside(right, positions, "inner" if query.exactly_one else "left"))
        return added[-1]

    def _only_value(self, node: exp.Subquery, rows: Node, positions: tuple[int, ...]) -> Expr:
        """The value of a subquery that may have several rows: then rows that need the value fail."""
        if rows.types[len(positions)].kind not in common_types.ORDERED:
            raise self.source.refuse(
                node,
                "this subquery may have more than one row",
                "aggregate it, e.g. max(...), or add ORDER BY ... LIMIT 1",
            )
        total, _, value = self._summary(rows, positions, ["min"])
        return call("case", call("gt", total, Constant(INT, 1)), call("only_row", value, total), value)

    def exists(self, node: exp.Exists) -> Expr:
        """Whether the subquery has rows, as a value."""
        inner = node.this.unnest() if isinstance(node.this, exp.Subquery) else node.this
        if isinstance(inner, exp.Select) and not inner.expressions:  # EXISTS (SELECT FROM t)
            inner.set("expressions", [exp.Literal.number(1)])
        query, positions = self.bound(node.this)
        right = Threshold(Project(query.node, (*_first(query.node, len(positions)), _TRUE)), "distinct")
        return call("is_not_null", self.scope.append(self.beside(right, positions, "left"))[-1])

    def is_in(self, node: exp.In) -> Expr:
        """IN as a value that may be NULL."""
        if isinstance(node.this, exp.Tuple):
            raise self.source.refuse(
                node, "IN with rows of values is only supported as a condition of its own, without NOT"
            )
        value = Scalars(self.compiler, self.scope, self.env).bind(node.this)
        query, positions = self._one_column(_query_of(node), node)
        context = len(positions)
        rows = joins.take(query.node, range(query.width))
        width = len(self.scope.relation.fields)
        scalars = Scalars(self.compiler, self.scope, self.env)
        equal = comparisons.compare(scalars, "eq", value, ColumnRef(rows.types[context], width + context))
        hits = Threshold(Project(rows, (*joins.refs(rows.types), _TRUE)), "distinct")
        keys = [
            same_keys(self.scope.relation.ref(p), ColumnRef(rows.types[i], width + i)) for i, p in enumerate(positions)
        ]
        conditions = [call("eq", a, b) for left, right in keys for a, b in zip(left, right, strict=True)]
        hit = self.scope.append(outer_join(self.scope.relation.node, hits, [*conditions, equal], "left"))[-1]
        total, known = self._summary(rows, positions, [])[:2]
        return call(
            "case",
            call("is_not_null", hit),
            _TRUE,
            call("is_null", total),
            _FALSE,
            call("or", call("is_null", value), call("lt", known, total)),
            _UNKNOWN,
            _FALSE,
        )

    def quantified(self, node: exp.Expr, op: str) -> Expr:
        """x op ANY (SELECT ...) and x op ALL (SELECT ...)."""
        quantifier = node.expression
        some = isinstance(quantifier, exp.Any)
        query_node = quantifier.this.this if isinstance(quantifier.this, exp.Subquery) else quantifier.this
        if not isinstance(query_node, exp.Query):
            raise self.source.refuse(node, "ANY and ALL are followed by a query")
        if (op, some) in (("eq", True), ("ne", False)):
            found = self.is_in(exp.In(this=node.this, query=exp.Subquery(this=query_node)))
            return found if some else call("not", found)
        value = Scalars(self.compiler, self.scope, self.env).bind(node.this)
        query, positions = self._one_column(query_node, node)
        low: Literal["min", "max"] = "max" if (op in ("lt", "le")) == some else "min"
        kinds: list[Literal["min", "max"]] = ["min", "max"] if op in ("eq", "ne") else [low]
        total, known, *extremes = self._summary(joins.take(query.node, range(query.width)), positions, kinds)
        scalars = Scalars(self.compiler, self.scope, self.env)
        if op in ("eq", "ne"):  # something differs from x if the smallest or the largest does
            differs = call("or", *(comparisons.compare(scalars, "ne", value, e) for e in extremes))
            decided = differs if some else call("not", differs)
        else:
            decided = comparisons.compare(scalars, op, value, extremes[0])
        clear, empty = (_TRUE, _FALSE) if some else (_FALSE, _TRUE)
        open_ = call("or", call("is_null", value), call("lt", known, total))
        return call(
            "case",
            call("is_null", total),
            empty,
            decided if some else call("not", decided),
            clear,
            open_,
            _UNKNOWN,
            empty,
        )

    def _one_column(self, query_node: exp.Expr, at: exp.Expr) -> tuple[Query, tuple[int, ...]]:
        query, positions = self.bound(query_node)
        if query.width - len(positions) != 1:
            raise self.source.error(
                at, "E_WIDTH", f"the subquery has {query.width - len(positions)} columns, one is needed"
            )
        return query, positions

    def _summary(
        self, rows: Node, positions: tuple[int, ...], extremes: list[Literal["min", "max"]]
    ) -> list[ColumnRef]:
        """Columns joined to the scope: how many rows the subquery has, how many are not NULL, and extremes."""
        context = len(positions)
        value = rows.types[context]
        aggregates = [Aggregate("count", None, INT), Aggregate("count", context, INT)]
        aggregates += [Aggregate(kind, context, value) for kind in extremes]
        summary = Reduce(rows, tuple(range(context)), tuple(aggregates))
        return self.scope.append(self.beside(summary, positions, "left"))[context:]


def _is_plain_equality(condition: Expr, width: int) -> bool:
    """Whether distinct values of a subquery's column (from `width` on) are distinct in the equality too."""
    if not isinstance(condition, Call) or condition.type.kind != "bool" or condition.op != "eq":
        return False
    own = [a for a in condition.args if isinstance(a, ColumnRef) and a.index >= width]
    return len(own) == 1 and own[0].type.kind != "float"


def _has_one_row(node: Node) -> bool:
    """Whether a plan can never have more than one row: (WITH q AS (SELECT 1) SELECT * FROM q)."""
    while isinstance(node, (Project, Filter)):
        node = node.child
    if isinstance(node, Rows):
        return len(node.rows) <= 1
    return isinstance(node, Reduce) and not node.keys


def _first(node: Node, count: int) -> tuple[Expr, ...]:
    return joins.refs(node.types)[:count]


def _as_in(node: exp.Expr) -> exp.In | None:
    """The IN with a query that a condition is: also written = ANY."""
    if isinstance(node, exp.In) and node.args.get("query") is not None:
        return node
    return None


def _query_of(node: exp.In) -> exp.Expr:
    query: exp.Expr = node.args["query"]
    return query.this if isinstance(query, exp.Subquery) else query


def _items(value: exp.Expr) -> tuple[exp.Expr, ...]:
    inner = value.unnest() if isinstance(value, exp.Paren) else value
    return tuple(inner.expressions) if isinstance(inner, exp.Tuple) else (inner,)


def _is_plain(select: exp.Select) -> bool:
    """Only FROM and WHERE matter: no groups, limits, windows."""
    if any(select.args.get(a) for a in ("group", "having", "limit", "offset", "qualify", "windows")):
        return False
    distinct = select.args.get("distinct")
    if distinct is not None and distinct.args.get("on") is not None:
        return False
    return not any(
        isinstance(n, (exp.AggFunc, exp.Window)) or (n is not e and isinstance(n, exp.Query))
        for e in select.expressions
        for n in e.walk()
    )
