"""Binds SQL expressions as typed expressions of plans.

There is one function per SQL construct, found by the class of sqlglot's node; each is in the module of its topic and
takes the current `Scalars`. Where SQL and `everview.expr.functions` differ, SQL's semantics are composed there: % and
div round towards zero, casts to int round. Differences between dialects follow the text's dialect
(`everview.sql.text.dialects`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from everview.errors import PlanError
from everview.expr import functions
from everview.expr.nodes import Expr, Literal
from everview.sql.answers.parameters import Learned
from everview.sql.scalar import (
    arithmetic,
    array_forms,
    calls,
    casts,
    comparisons,
    constants,
    dialect_forms,
    division,
    interval_arithmetic,
    json_forms,
    lambdas,
    leaves,
    logic,
    moment_forms,
    moments_elsewhere,
    named_functions,
    roundings,
    row_forms,
    session_functions,
    text_forms,
    zones,
)
from everview.sql.scalar.handlers import Forms
from everview.sql.scalar.operands import OPERANDS, PARTS, SIMPLE
from everview.sql.scalar.type_names import in_words
from everview.sql.select.scopes import Scope, is_outside
from everview.sql.text import consumed_parts, dialects
from everview.sql.text.error_positions import SqlError, has_query
from everview.types import BOOL

if TYPE_CHECKING:
    from everview.sql.select.compiler import Compiler
    from everview.sql.select.query import Env

FORMS: Forms = {
    **leaves.FORMS,
    **session_functions.FORMS,
    **named_functions.FORMS,
    **arithmetic.FORMS,
    **division.FORMS,
    **comparisons.FORMS,
    **logic.FORMS,
    **casts.FORMS,
    **moments_elsewhere.FORMS,
    **text_forms.FORMS,
    **moment_forms.FORMS,
    **zones.FORMS,
    **interval_arithmetic.FORMS,
    **array_forms.FORMS,
    **row_forms.FORMS,
    **json_forms.FORMS,
    **lambdas.FORMS,
    **dialect_forms.FORMS,
    **roundings.FORMS,
}
"""Handlers by class of node."""


_OF_WINDOWS = frozenset({
    "row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile", "lag", "lead", "nth_value",
})  # fmt: skip
"""Functions that are only called over windows."""

Bound = dict[int, tuple[exp.Expr, Expr]]
"""What nodes were bound to, by their ids; the nodes are kept, so that no other node gets the same id."""


class Scalars:
    """Binds expressions in one scope; subqueries are joined to the scope's relation."""

    def __init__(self, compiler: Compiler, scope: Scope, env: Env) -> None:
        self.compiler = compiler
        self.scope = scope
        self.env = env
        self.source = compiler.source
        self._remembered: Bound | None = None
        self._has_no_query = False

    @contextmanager
    def remembering(self, known: Bound) -> Iterator[None]:
        """Bind each node once meanwhile: for expressions that have no subqueries."""
        before, self._remembered = self._remembered, known
        try:
            yield
        finally:
            self._remembered = before

    @contextmanager
    def looking_for_queries(self, node: exp.Expr) -> Iterator[bool]:
        """Whether there is a subquery in an expression, which is not looked for again inside of it meanwhile."""
        before = self._has_no_query
        self._has_no_query = before or not has_query(node)
        try:
            yield not self._has_no_query
        finally:
            self._has_no_query = before

    def bind(self, node: exp.Expr) -> Expr:
        """The typed expression over the positions of the scope's relation."""
        if not isinstance(node, exp.Expr):  # sqlglot puts False where an optional argument is not given
            raise consumed_parts.Missing
        if self._remembered is not None and id(node) in self._remembered:
            return self._remembered[id(node)][1]
        try:
            found = self.scope.placed.get(id(node)) or self.special(node)
            if found is not None:
                return found
            if is_outside(node):
                return self.scope.lent(node.this if isinstance(node, exp.Filter) else node)
            found = self._bind(node)
            found = self.call("not", found) if node.args.get("negate") else found  # NOT LIKE, IS NOT NULL
            if self._remembered is not None:
                self._remembered[id(node)] = (node, found)
            return found
        except SqlError:
            raise
        except PlanError as error:
            raise self.source.placed(error, node) from None

    def is_known(self, node: exp.Expr) -> bool:
        return id(node) in self.scope.placed or self.special(node) is not None

    def special(self, node: exp.Expr) -> Expr | None:
        """The contextual meaning of an expression (a group's key, an aggregate), if any."""
        return None

    def condition(self, node: exp.Expr) -> Expr:
        """An expression that must be true or false."""
        found = self.bind(node)
        if isinstance(found, Literal) and found.value is None:
            return Literal(BOOL.optional(), None)
        if found.type.kind != "bool":
            raise self.source.error(
                node,
                "E_TYPE",
                f"a condition must be true or false, but this is {in_words(found.type)}",
                "compare it with something",
            )
        return found

    def call(self, op: str, *args: Expr) -> Expr:
        return constants.folded(functions.call(op, *args), self.compiler.interner)

    def _bind(self, node: exp.Expr) -> Expr:
        kind = type(node)
        if kind in SIMPLE:
            op, operands = SIMPLE[kind]
            self.source.only(node, *operands)
            return self.call(op, *[self.bind(node.args[p]) for p in operands if node.args.get(p) is not None])
        if kind in comparisons.COMPARISONS:
            return comparisons.comparison(self, node, comparisons.COMPARISONS[kind])
        handler = FORMS.get(kind)
        if handler is not None:
            self.source.only(node, *PARTS.get(kind, OPERANDS))
        try:
            return handler(self, node) if handler is not None else self._of_other_dialect(node)
        except consumed_parts.Missing:
            what = f"{self.source.written(node)} lacks an argument"
            raise self.source.error(node, "E_ARITY", what, "see docs/sql.md for what it takes") from None

    def _of_other_dialect(self, node: exp.Expr) -> Expr:
        made = calls.of_node(node, self)
        return made if made is not None else self.bind(self.in_our_words(node))

    def in_our_words(self, node: exp.Expr) -> exp.Expr:
        """A function of another dialect in terms of ours, or the error that it is unknown."""
        if any(part.error_messages() for part in node.walk()):
            raise consumed_parts.Missing
        found = dialects.in_our_words(node) if isinstance(node, exp.Func) else None
        if found is None:
            raise self.refused(node)
        consumed_parts.read(node)
        for part in node.iter_expressions():
            if part.parent is node:  # constants, which are in the other words too
                consumed_parts.understood(part)
        if "start" in node.meta:
            found.meta.setdefault("start", node.meta["start"])
        found.meta[moment_forms.TRANSLATED] = True
        return found

    def no_argument(self, node: exp.Expr) -> SqlError:
        """Return the error for a missing argument that sqlglot accepts."""
        name = self.source.written(node)
        return self.source.error(node, "E_ARITY", f"{name} has no argument", "count(*) counts rows" * (name == "count"))

    def refused(self, node: exp.Expr) -> SqlError:
        if isinstance(node, exp.Window):
            return self.source.error(
                node, "E_WINDOW", "a window function is not allowed here", "they belong in SELECT, QUALIFY and ORDER BY"
            )
        if isinstance(node, exp.AggFunc):
            if isinstance(node, (exp.Count, exp.Sum, exp.Avg, exp.Min, exp.Max, exp.AnonymousAggFunc)):
                return self.source.error(
                    node,
                    "E_AGGREGATE",
                    f"{self.source.written(node)} is not allowed here",
                    "aggregates belong in SELECT, HAVING and ORDER BY",
                )
            return self.source.refuse(
                node,
                f"the aggregate {self.source.written(node)} is not supported",
                "count, sum, avg, min, max, bool_and, stddev, string_agg, median, percentile_cont and others are",
            )
        what = self.source.written(node)
        if what in _OF_WINDOWS:
            return self.source.error(node, "E_WINDOW", f"{what} needs a window", f"{what}(...) OVER (ORDER BY ...)")
        return self.source.refuse(node, f"{what} is not supported here")

    def pair(self, left: exp.Expr, right: exp.Expr) -> tuple[Expr, Expr]:
        """Two operands: quoted constants and parameters take the other's type."""
        a, b = self.typed_pair(left, right)
        return zones.in_one_zone(self, self.coerced(a, b, left), self.coerced(b, a, right))

    def typed_pair(self, left: exp.Expr, right: exp.Expr) -> tuple[Expr, Expr]:
        for one, other in ((left, right), (right, left)):
            if self.compiler.parameters.lacks_type(one) and not self.compiler.parameters.lacks_type(other):
                raise Learned(one.name, self.bind(other).type)
        return self.bind(left), self.bind(right)

    def coerced(self, expr: Expr, beside: Expr, at: exp.Expr) -> Expr:
        """A quoted constant parsed as its neighbour's type."""
        if (
            isinstance(expr, Literal)
            and expr.type.kind == "str"
            and beside.type.kind != "str"
            and expr.value is not None
        ):
            if isinstance(beside, Literal) and beside.value is None:
                return expr
            if beside.type.kind == "char":  # a longer one differs, and is no error
                width = max(beside.type.width, len(expr.value.rstrip(" ")))
                return constants.text_as(expr.value, replace(beside.type, width=width), at, self.source)
            if beside.type.kind in ("decimal", "numeric"):
                return constants.number_as(expr.value, beside.type, at, self.source)
            return constants.text_as(expr.value, beside.type, at, self.source)
        return expr
