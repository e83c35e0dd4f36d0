"""Expressions of SQL as the typed expressions of plans.

One method per form of SQL, found by the class of sqlglot's node. Where SQL and `everview.expr.functions` differ, SQL's
meaning is put together here: % and div round towards zero, casts to int round. What differs between dialects follows
the one that the text is written in (`everview.sql.text.dialects`).
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any
from typing import Literal as OneOf

from sqlglot import exp

from everview.errors import PlanError
from everview.expr import common_types, functions
from everview.expr.nodes import Expr, Literal, Udf
from everview.sql.answers.parameters import PARAMETER, Learned
from everview.sql.clock import timed
from everview.sql.ddl import defined
from everview.sql.rights import identity
from everview.sql.scalar import borrowed, calls, constants, lambdas, moment_forms, names, text_forms, time_windows
from everview.sql.scalar.forms import Forms
from everview.sql.scalar.typed import TypedScalars
from everview.sql.select import demand
from everview.sql.select.scopes import Scope, is_outside
from everview.sql.text import dialects, parts
from everview.sql.text.places import SqlError, has_query
from everview.types import BOOL, DATE, FLOAT, INT, INTERVAL, STR, TIMESTAMP, DataType

if TYPE_CHECKING:
    from everview.session.names.entries import FunctionMade
    from everview.sql.select.query import Compiler, Env

SIMPLE: dict[type[exp.Expr], tuple[str, tuple[str, ...]]] = {
    exp.Lower: ("lower", ("this",)),
    exp.Upper: ("upper", ("this",)),
    exp.Length: ("length", ("this",)),
    exp.Reverse: ("reverse", ("this",)),
    exp.Replace: ("replace", ("this", "expression", "replacement")),
    exp.SplitPart: ("split_part", ("this", "delimiter", "part_index")),
    exp.StrPosition: ("position", ("this", "substr")),
    exp.StartsWith: ("startswith", ("this", "expression")),
    exp.Contains: ("contains", ("this", "expression")),
    exp.Abs: ("abs", ("this",)),
    exp.Floor: ("floor", ("this",)),
    exp.Ceil: ("ceil", ("this",)),
    exp.Round: ("round", ("this", "decimals")),
    exp.Sqrt: ("sqrt", ("this",)),
    exp.Exp: ("exp", ("this",)),
    exp.Ln: ("ln", ("this",)),
    exp.Pow: ("pow", ("this", "expression")),
    exp.Sign: ("sign", ("this",)),
    exp.BitwiseAnd: ("band", ("this", "expression")),
    exp.BitwiseOr: ("bor", ("this", "expression")),
    exp.BitwiseXor: ("bxor", ("this", "expression")),
    exp.BitwiseNot: ("bnot", ("this",)),
    exp.BitwiseLeftShift: ("bshl", ("this", "expression")),
    exp.BitwiseRightShift: ("bshr", ("this", "expression")),
    exp.Cbrt: ("cbrt", ("this",)),
    exp.Year: ("year", ("this",)),
    exp.Month: ("month", ("this",)),
    exp.Day: ("day", ("this",)),
}
"""Functions that are one of ours: its name, and which arguments sqlglot's node keeps in which order."""

OPERANDS = ("this", "expression", "expressions", "negate", "safe", "typed", "coalesce", "is_string", "ignore_nulls")
"""Parts that every handler knows, or that only matter to other dialects."""

PARTS: dict[type[exp.Expr], tuple[str, ...]] = {
    exp.Column: ("this", "table"),
    exp.Alias: ("this", "alias"),
    exp.Interval: ("this", "unit"),
    exp.Between: ("this", "low", "high", "symmetric"),
    exp.In: ("this", "expressions", "query"),
    exp.Case: ("this", "ifs", "default"),
    exp.If: ("this", "true", "false"),
    **dict.fromkeys((exp.Cast, exp.TryCast), ("this", "to", "_type", "safe")),
    exp.Trim: ("this", "expression", "position"),
    exp.Substring: ("this", "start", "length"),
    **dict.fromkeys((exp.DateAdd, exp.DateSub, exp.TsOrDsAdd), ("this", "expression", "unit", "return_type")),
    exp.DateDiff: ("this", "expression", "unit", "date_part_boundary"),
    **dict.fromkeys((exp.TimeToStr, exp.StrToTime, exp.TsOrDsToDate, exp.StrToDate), ("this", "format", "safe")),
    exp.ConvertTimezone: ("source_tz", "target_tz", "timestamp"),
    exp.SubstringIndex: ("this", "delimiter", "count"),
    exp.Overlay: ("this", "expression", "from_", "for_"),
    exp.RegexpLike: ("this", "expression", "flag"),
    exp.Pad: ("this", "expression", "fill_pattern", "is_left"),
    exp.TimestampTrunc: ("this", "unit"),
    exp.DateTrunc: ("this", "unit"),
    exp.Subquery: ("this",),
    exp.AtTimeZone: ("this", "zone"),
    exp.MatchAgainst: ("this", "expressions", "modifier"),
    exp.Map: ("keys", "values"),
    exp.Bracket: ("this", "expressions", "_type", "offset", "safe"),
    exp.Array: ("expressions", "value_constructor", "bracket_notation", "_type"),
    exp.JSONExtract: ("this", "expression", "only_json_types"),
    exp.JSONExtractScalar: ("this", "expression", "only_json_types"),
}
"""The parts of a node that its handler knows, if not `OPERANDS`; any other part is refused."""

FORMS: Forms = {**text_forms.FORMS, **moment_forms.FORMS, **lambdas.FORMS}
"""Forms whose functions have files of their own."""

COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "eq",
    exp.NEQ: "ne",
    exp.LT: "lt",
    exp.LTE: "le",
    exp.GT: "gt",
    exp.GTE: "ge",
}


READ_NOW = frozenset(
    {
        "date",
        "timestamp",
        "timestamptz",
        "time",
        "interval",
        "uuid",
        "json",
        "enum",
        "array",
        "struct",
        "numeric",
        "bool",
    }
)
"""Types as which a quoted constant is read when it is bound, so that a mistake has its place."""

CHAIN = 16
"""Conditions joined by AND or OR up to which they stay as they are written."""


class Scalars(TypedScalars):
    """Binds expressions in one scope; subqueries in them are joined to the scope's relation."""

    def __init__(self, compiler: Compiler, scope: Scope, env: Env) -> None:
        self.compiler = compiler
        self.scope = scope
        self.env = env
        self.source = compiler.source

    def bind(self, node: exp.Expr) -> Expr:
        """The expression, typed, over the positions of the scope's relation."""
        if node is None:
            raise parts.Missing
        try:
            found = self.scope.placed.get(id(node)) or self.special(node)
            if found is not None:
                return found
            if is_outside(node):
                return self.scope.lent(node.this if isinstance(node, exp.Filter) else node)
            found = self._bind(node)
            return self.call("not", found) if node.args.get("negate") else found  # NOT LIKE, IS NOT NULL
        except SqlError:
            raise
        except PlanError as error:
            raise self.source.placed(error, node) from None

    def _is_known(self, node: exp.Expr) -> bool:
        return id(node) in self.scope.placed or self.special(node) is not None

    def special(self, node: exp.Expr) -> Expr | None:
        """What this expression is by its place (a group's key, an aggregate), if anything."""
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
                f"a condition must be true or false, but this is {found.type!r}",
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
            return self.call(op, *(self.bind(node.args[p]) for p in operands if node.args.get(p) is not None))
        if kind in COMPARISONS:
            return self._comparison(node, COMPARISONS[kind])
        handler: Callable[[Any], Expr] | None = getattr(self, f"on_{kind.__name__.lower()}", None)
        if handler is None and kind in FORMS:
            handler = partial(FORMS[kind], self)
        if handler is None:
            made = borrowed.of_node(node, self)
            return made if made is not None else self.bind(self.in_our_words(node))
        self.source.only(node, *PARTS.get(kind, OPERANDS))
        try:
            return handler(node)
        except parts.Missing:
            what = f"{self.source.written(node)} lacks an argument"
            raise self.source.error(node, "E_ARITY", what, "see docs/sql.md for what it takes") from None

    def in_our_words(self, node: exp.Expr) -> exp.Expr:
        """A function of another dialect as one of ours, or the error that there is none."""
        found = dialects.in_our_words(node) if isinstance(node, exp.Func) else None
        if found is None:
            raise self._refused(node)
        parts.read(node)
        for part in node.iter_expressions():
            if part.parent is node:  # constants, which are in the other words too
                parts.understood(part)
        if "start" in node.meta:
            found.meta.setdefault("start", node.meta["start"])
        found.meta[moment_forms.TRANSLATED] = True
        return found

    def no_argument(self, node: exp.Expr) -> SqlError:
        """The error for a function of nothing, where sqlglot lets it pass."""
        name = self.source.written(node)
        return self.source.error(node, "E_ARITY", f"{name} has no argument", "count(*) counts rows" * (name == "count"))

    def _refused(self, node: exp.Expr) -> SqlError:
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
        return self.source.refuse(node, f"{what} is not supported here")

    # ------------------------------------------------------------------------------ names, constants

    def on_column(self, node: exp.Column) -> Expr:
        if isinstance(node.this, exp.Star):
            raise self.source.error(node, "E_STAR", "* is not allowed here", "name the column")
        return self.scope.column(node)

    def on_literal(self, node: exp.Literal) -> Expr:
        if node.is_string:
            return Literal(STR, node.name)
        try:
            return constants.number(node)
        except ArithmeticError:  # sqlglot takes .1.25 for one
            raise self.source.error(node, "E_SYNTAX", f"{node.name} is not a number") from None

    def on_null(self, node: exp.Null) -> Expr:
        return Literal(INT.optional(), None)

    def on_boolean(self, node: exp.Boolean) -> Expr:
        return Literal(BOOL, bool(node.this))

    def on_paren(self, node: exp.Paren) -> Expr:
        return self.bind(node.this)

    def on_alias(self, node: exp.Alias) -> Expr:
        return self.bind(node.this)

    # ------------------------------------------------------------------------------------ arithmetic

    def on_add(self, node: exp.Add) -> Expr:
        left, right = node.this, node.expression
        if isinstance(left, exp.Interval):
            left, right = right, left
        if isinstance(right, exp.Interval):
            a = self.bind(left)
            if a.type.kind == "str":  # a quoted moment
                return self._moved(a, right, 1)
            day = None if moment_forms.TRANSLATED in node.meta else moment_forms.whole_days(self, a, right, 1)
            if day is not None:
                return day
            b = self.bind(right)
        else:
            a, b = self._beside_moment(left, right)
        found = self.added(a, b)
        if found is not None:
            return found
        if a.type.kind == "int" and b.type.kind == "date":
            a, b = b, a
        if a.type.kind == "date" and b.type.kind == "int":
            return self.call("date_add_days", a, b)
        return self.call("add", a, b)

    def on_sub(self, node: exp.Sub) -> Expr:
        if isinstance(node.expression, exp.Interval):
            a = self.bind(node.this)
            if a.type.kind == "str":
                return self._moved(a, node.expression, -1)
            is_ours = moment_forms.TRANSLATED in node.meta
            day = None if is_ours else moment_forms.whole_days(self, a, node.expression, -1)
            if day is not None:
                return day
            b = self.bind(node.expression)
        else:
            a = self.bind(node.this)
            found = self.without(a, self.bind(node.expression), node)
            if found is not None:
                return found
            a, b = self._beside_moment(node.this, node.expression)
        found = self.subtracted(a, b)
        if found is not None:
            return found
        kinds = (a.type.kind, b.type.kind)
        if kinds == ("date", "int"):
            return self.call("date_add_days", a, self.call("neg", b))
        if kinds == ("date", "date"):
            return self.call("date_diff_days", a, b)
        return self.call("sub", a, b)

    def _beside_moment(self, left: exp.Expr, right: exp.Expr) -> tuple[Expr, Expr]:
        """Two sides of + or -; a quoted constant beside a moment is an interval, as in PostgreSQL."""
        a, b = self._typed_pair(left, right)
        for one, other, at in ((a, b, left), (b, a, right)):
            if isinstance(one, Literal) and _is_quoted(one) and other.type.kind in ("interval", "time"):
                read = constants.text_as(one.value, INTERVAL, at, self.source)
                return (read, b) if one is a else (a, read)
        return self.coerced(a, b, left), self.coerced(b, a, right)

    def _moved(self, moment: Expr, by: exp.Interval, sign: int) -> Expr:
        """A date or timestamp moved by an interval: a timestamp."""
        months, microseconds = constants.interval(by, self.source)
        if months:
            moment = self.call("add_months", moment, Literal(INT, sign * months))
        moment = self.cast_to(moment, TIMESTAMP)
        if microseconds:
            moment = self.call("timestamp_add", moment, Literal(INT, sign * microseconds))
        return moment

    def on_mul(self, node: exp.Mul) -> Expr:
        a, b = self.pair(node.this, node.expression)
        return self.multiplied(a, b) or self.call("mul", a, b)

    def on_div(self, node: exp.Div) -> Expr:
        """Of integers whole, or exact, as the dialect has it; by zero NULL or an error of the row."""
        a, b = self.pair(node.this, node.expression)
        if node.args.get("safe"):
            b = self._not_zero(b)
        if node.args.get("typed") and a.type.kind == b.type.kind == "int":
            return self.quotient(a, b)
        return self.divided(a, b) or self.call("div", a, b)

    def _not_zero(self, divisor: Expr) -> Expr:
        return self.call("nullif", divisor, Literal(INT, 0))

    def on_mod(self, node: exp.Mod) -> Expr:
        a, b = self.pair(node.this, node.expression)
        if dialects.is_safe(self.source.dialect):
            b = self._not_zero(b)
        if "float" in (a.type.kind, b.type.kind):
            return self._fmod(a, b)
        rest = self.call("mod", a, b)
        return self.call("case", self._rounded_down(a, b, rest), self.call("sub", rest, b), rest)

    def _fmod(self, a: Expr, b: Expr) -> Expr:
        """C's remainder, which has the dividend's sign. That of the magnitudes is exact; adding a divisor to it, to
        change its sign, would round.
        """
        rest = self.call("mod", self.call("abs", a), self.call("abs", b))
        return self.call("case", self.call("lt", a, Literal(INT, 0)), self.call("neg", rest), rest)

    def on_intdiv(self, node: exp.IntDiv) -> Expr:
        a, b = self.pair(node.this, node.expression)
        return self.quotient(a, self._not_zero(b) if dialects.is_safe(self.source.dialect) else b)

    def quotient(self, a: Expr, b: Expr) -> Expr:
        """a / b rounded towards zero."""
        quotient = self.call("floordiv", a, b)
        one = Literal(INT, 1)
        return self.call(
            "case", self._rounded_down(a, b, self.call("mod", a, b)), self.call("add", quotient, one), quotient
        )

    def _rounded_down(self, a: Expr, b: Expr, rest: Expr) -> Expr:
        """Whether division rounded away from zero: there is a rest and the signs differ."""
        zero = Literal(INT, 0)
        signs = self.call("ne", self.call("lt", a, zero), self.call("lt", b, zero))
        return self.call("and", self.call("ne", rest, zero), signs)

    def on_neg(self, node: exp.Neg) -> Expr:
        inner = node.this
        if isinstance(inner, exp.TryCast) and isinstance(inner.this, exp.Literal) and inner.this.is_number:
            made = inner.copy()  # -128Y: Spark's smallest tinyint, where 128Y is none
            made.set("this", exp.Neg(this=inner.this.copy()))
            parts.understood(inner)
            return self.bind(made)
        return self.call("neg", self.bind(inner))

    # ------------------------------------------------------------------------------------ comparison

    def on_parameter(self, node: exp.Parameter) -> Expr:
        constant = self.compiler.parameters.constant(node)
        if constant is not None:
            return constant
        self.compiler.parameters.check(node, self.source)
        return self.scope.column(exp.column(node.name, table=PARAMETER))

    def pair(self, left: exp.Expr, right: exp.Expr) -> tuple[Expr, Expr]:
        """Two expressions beside each other: quoted constants and parameters have the other's type."""
        a, b = self._typed_pair(left, right)
        return self.in_one_zone(self.coerced(a, b, left), self.coerced(b, a, right))

    def _typed_pair(self, left: exp.Expr, right: exp.Expr) -> tuple[Expr, Expr]:
        for one, other in ((left, right), (right, left)):
            if self.compiler.parameters.lacks_type(one) and not self.compiler.parameters.lacks_type(other):
                raise Learned(one.name, self.bind(other).type)
        return self.bind(left), self.bind(right)

    def coerced(self, expr: Expr, beside: Expr, at: exp.Expr) -> Expr:
        """A quoted constant as what stands beside it."""
        if (
            isinstance(expr, Literal)
            and expr.type.kind == "str"
            and beside.type.kind != "str"
            and expr.value is not None
        ):
            if isinstance(beside, Literal) and beside.value is None:
                return expr
            if beside.type.kind in ("decimal", "numeric"):
                return constants.number_as(expr.value, beside.type, at, self.source)
            return constants.text_as(expr.value, beside.type, at, self.source)
        return expr

    def compare(self, op: str, a: Expr, b: Expr) -> Expr:
        """A comparison; a date beside a constant midnight stays a date, which indexes and joins can use."""
        a, b = _as_date(a, b), _as_date(b, a)
        return self.call(op, a, b)

    def _comparison(self, node: exp.Expr, op: str) -> Expr:
        found = self.any_or_all(node, op)
        if found is not None:
            return found
        if isinstance(node.expression, (exp.Any, exp.All)):
            return self.compiler.subqueries(self.scope, self.env).quantified(node, op)
        if self._is_row(node.this) or self._is_row(node.expression):
            return self._tuples(node, op)
        plain = constants.without_difference(node) if isinstance(node, exp.Binary) else node
        return self.compare(op, *self.pair(plain.this, plain.expression))

    def _tuples(self, node: exp.Expr, op: str) -> Expr:
        """Two rows of values, compared as SQL does: NULL if a NULL decides it."""
        left, right = node.this, node.expression
        if not (self._is_row(left) and self._is_row(right)):
            if isinstance(left, exp.Tuple) or isinstance(right, exp.Tuple):
                raise self.source.refuse(node, "rows can only be compared with rows")
            return self.compare(op, *self.pair(left, right))  # ROW(...) beside a column of rows
        if len(left.expressions) != len(right.expressions):
            raise self.source.error(node, "E_WIDTH", "the rows have different numbers of values")
        pairs = [self.pair(a, b) for a, b in zip(left.expressions, right.expressions, strict=True)]
        if op in ("eq", "ne"):
            equal = functions.conjunction([self.compare("eq", a, b) for a, b in pairs])
            return equal if op == "eq" else self.call("not", equal)
        found = self.compare(op, *pairs[-1])
        strictly = {"le": "lt", "ge": "gt"}.get(op, op)
        for a, b in reversed(pairs[:-1]):  # (a, b) < (c, d): a < c, or a = c and b < d
            tie = self.call("and", self.compare("eq", a, b), found)
            found = self.call("or", self.compare(strictly, a, b), tie)
        return found

    def _is_row(self, node: exp.Expr) -> bool:
        """Whether it is a row of values as it is written: (a, b), or PostgreSQL's ROW(a, b)."""
        if isinstance(node, exp.Tuple):
            return True
        is_row = isinstance(node, exp.Anonymous) and node.name.lower() == "row"
        return is_row and bool(node.expressions) and self.source.dialect == "postgres"

    def on_nullsafeeq(self, node: exp.NullSafeEQ) -> Expr:
        return self.same(*self.pair(node.this, node.expression))

    def on_nullsafeneq(self, node: exp.NullSafeNEQ) -> Expr:
        return self.call("not", self.on_nullsafeeq(node))  # type: ignore[arg-type]

    def same(self, a: Expr, b: Expr) -> Expr:
        """IS NOT DISTINCT FROM."""
        a_null, b_null = self.call("is_null", a), self.call("is_null", b)
        both = self.call("and", a_null, b_null)
        return self.call("coalesce", self.call("or", both, self.compare("eq", a, b)), Literal(BOOL, False))

    def on_between(self, node: exp.Between) -> Expr:
        low = self.compare("ge", *self.pair(node.this, node.args["low"]))
        high = self.compare("le", *self.pair(node.this, node.args["high"]))
        if not node.args.get("symmetric"):
            return self.call("and", low, high)
        below = self.compare("le", *self.pair(node.this, node.args["low"]))
        above = self.compare("ge", *self.pair(node.this, node.args["high"]))
        return self.call("or", self.call("and", low, high), self.call("and", below, above))

    def on_collate(self, node: exp.Collate) -> Expr:
        """text COLLATE "C": letters are compared by their numbers, as everything here does."""
        if node.expression.name.upper() not in names.COLLATIONS:
            raise self.source.refuse(node.expression, f"the collation {node.expression.name} is not known", 'use "C"')
        return self.bind(node.this)

    def on_in(self, node: exp.In) -> Expr:
        if node.args.get("query") is not None:
            return self.compiler.subqueries(self.scope, self.env).is_in(node)
        if not node.expressions:
            raise self.source.refuse(node, "this form of IN is not supported", "list the values: IN (1, 2)")
        if isinstance(node.this, exp.Tuple):
            tests = [self._tuples(exp.EQ(this=node.this, expression=v), "eq") for v in node.expressions]
        else:
            tests = [self.compare("eq", *self.pair(node.this, v)) for v in node.expressions]
        return functions.conjunction(tests, "or")

    def on_is(self, node: exp.Is) -> Expr:
        value, what = self.bind(node.this), node.expression
        if isinstance(what, exp.Null):
            return self.call("is_null", value)
        if isinstance(what, exp.Boolean):
            return self.call("coalesce", self.call("eq", value, Literal(BOOL, bool(what.this))), Literal(BOOL, False))
        raise self.source.refuse(node, "IS is followed by NULL, TRUE, FALSE or [NOT] DISTINCT FROM")

    # ----------------------------------------------------------------------------------------- logic

    def on_and(self, node: exp.And) -> Expr:
        return self._all_of("and", node)

    def on_or(self, node: exp.Or) -> Expr:
        return self._all_of("or", node)

    def _all_of(self, op: OneOf["and", "or"], node: exp.Connector) -> Expr:
        """A chain of one connector, which sqlglot nests to the left; a long one becomes a shallow tree."""
        parts: list[exp.Expr] = []
        left: exp.Expr = node
        while type(left) is type(node) and (left is node or not self._is_known(left)):
            self.source.only(left, *OPERANDS)
            parts.append(left.expression)
            left = left.this
        bound: list[Expr] = []
        for part in (left, *reversed(parts)):
            before = [b if op == "and" else demand.unless(b) for b in bound] if has_query(part) else []
            with demand.only_where(self.scope, *before):
                bound.append(self.condition(part))
        if len(bound) > CHAIN:
            return functions.conjunction(bound, op)
        found = bound[0]
        for one in bound[1:]:
            found = self.call(op, found, one)
        return found

    def on_not(self, node: exp.Not) -> Expr:
        return self.call("not", self.condition(node.this))

    def on_case(self, node: exp.Case) -> Expr:
        tests: list[Expr] = []
        given: list[exp.Expr] = []
        values: list[Expr] = []
        lazy = has_query(node)
        for branch in node.args["ifs"]:
            if node.this is None:
                tests.append(self.condition(branch.this))
            else:
                tests.append(self.compare("eq", *self.pair(node.this, branch.this)))
            given.append(branch.args["true"])
            with demand.only_where(self.scope, *([*map(demand.unless, tests[:-1]), tests[-1]] if lazy else [])):
                values.append(self.bind(given[-1]))
        default = node.args.get("default")
        if default:
            given.append(default)
            with demand.only_where(self.scope, *(map(demand.unless, tests) if lazy else ())):
                values.append(self.bind(default))
        values = self._alike(values, given)
        parts = [part for pair in zip(tests, values, strict=False) for part in pair]
        return self.call("case", *parts, values[-1] if default else Literal(INT.optional(), None))

    def _alike(self, values: list[Expr], given: list[exp.Expr]) -> list[Expr]:
        """Values of which quoted constants are read as what the others are."""
        known = next((v for v in values if not _is_quoted(v) and not _is_null(v)), None)
        if known is None:
            return values
        return [self.coerced(v, known, at) for v, at in zip(values, given, strict=True)]

    def on_if(self, node: exp.If) -> Expr:
        test, default = self.condition(node.this), node.args.get("false")
        with demand.only_where(self.scope, demand.unless(test)):
            otherwise = self.bind(default) if default else Literal(INT.optional(), None)
        with demand.only_where(self.scope, test):
            return self.call("case", test, self.bind(node.args["true"]), otherwise)

    def on_coalesce(self, node: exp.Coalesce) -> Expr:
        return self.call("coalesce", *self._like_the_first([node.this, *node.expressions], lazy=True))

    def _like_the_first(self, given: list[exp.Expr], lazy: bool = False) -> list[Expr]:
        args: list[Expr] = []
        for arg in given:
            with demand.only_where(self.scope, *(self.call("is_null", a) for a in args if lazy and has_query(arg))):
                args.append(self.bind(arg))
        return [self.coerced(a, args[0], at) for a, at in zip(args, given, strict=True)]

    def on_nullif(self, node: exp.Nullif) -> Expr:
        return self.call("nullif", *self.pair(node.this, node.expression))

    def on_greatest(self, node: exp.Greatest) -> Expr:
        return self._extreme("greatest", node)

    def on_least(self, node: exp.Least) -> Expr:
        return self._extreme("least", node)

    def _extreme(self, op: str, node: exp.Expr) -> Expr:
        """The largest or smallest; NULLs are passed over, or make it NULL, as the dialect has it."""
        args = self._like_the_first([node.this, *node.expressions])
        found = self.call(op, *args)
        nulls = [self.call("is_null", a) for a in args if a.type.nullable]
        if node.args.get("ignore_nulls") or not nulls:
            return found
        return self.call("case", functions.conjunction(nulls, "or"), Literal(found.type.optional(), None), found)

    # ----------------------------------------------------------------------------------------- casts

    def on_cast(self, node: exp.Cast) -> Expr:
        if isinstance(node.this, exp.IntDiv):
            return self.bind(node.this)  # sqlglot wraps div(a, b) into a cast
        if self.compiler.parameters.lacks_type(node.this):
            raise Learned(node.this.name, names.data_type(node.to, self.source))
        value = self.bind(node.this)
        target = names.data_type(node.to, self.source)
        if isinstance(value, Literal) and _is_quoted(value) and _reads_now(value.value, target):
            return constants.text_as(value.value, target, node.this, self.source)
        if (value.type.kind, target.kind) == ("time", "timestamp"):
            raise self.source.error(node, "E_TYPE", "a time has no date", "add it to one: date + time")
        is_number = value.type.kind in common_types.NUMBERS and not _is_null(value)
        if is_number and target.kind in ("timestamp", "timestamptz", "date"):
            return self._moment_of_number(value, target, node)
        return self._cut(self.cast_to(value, target), node.to)

    def on_trycast(self, node: exp.TryCast) -> Expr:
        """A cast that gives NULL where it fails; errors in its argument stay errors."""
        value = self.bind(node.this)
        target = names.data_type(node.to, self.source)
        is_cast = not node.args.get("safe")  # CAST, which fails nowhere in these dialects, not TRY_CAST
        is_text = value.type.kind == "str" and target.kind == "int"
        if is_cast and is_text and self.source.dialect in ("spark", "spark2", "hive"):
            return self._whole_part(value, target)
        try:
            made = self.on_cast(node)
        except SqlError:
            if not _is_quoted(value):
                raise
            return Literal(names.data_type(node.to, self.source).optional(), None)
        return made if isinstance(made, Literal) else self.call("attempt", made, value)

    def _whole_part(self, text: Expr, target: DataType) -> Expr:
        """A text cast to an int as Spark does: '1.23' is 1, what is no number is NULL."""
        cut = text
        for pattern, by in ((r"^\s*([+-]?\d+)\.\d*\s*$", r"\1"), (r"^\s*[+-]?\.\d+\s*$", "0")):
            given = [cut, Literal(STR, pattern), Literal(STR, by)]
            cut = calls.called("regexp_replace", given, exp.Null(), self)
        return self.call("attempt", functions.cast(cut, target.optional()), text)

    def _moment_of_number(self, value: Expr, target: DataType, node: exp.Cast) -> Expr:
        """A number is no moment in PostgreSQL; in Spark and Hive it is seconds since 1970."""
        if target.kind == "date" or self.source.dialect not in ("hive", "spark", "spark2", "databricks"):
            hint = "use to_timestamp(seconds)" if target.kind != "date" else "add days to a date: date '1970-01-01' + n"
            raise self.source.error(node, "E_TYPE", f"a number cannot be cast to {target.optional(False)!r}", hint)
        return calls.called("epoch_to_timestamp", [functions.cast(value, FLOAT)], node, self)

    def _cut(self, value: Expr, kind: exp.DataType) -> Expr:
        """A value that was cast to varchar(n): its first letters, as in PostgreSQL; DuckDB takes no notice of n."""
        inside = [d for d in kind.find_all(exp.DataType) if d is not kind and names.most_letters(d)]
        if inside:
            raise self.source.refuse(kind, "a cast cuts a varchar(n), not those inside of something", "write text")
        most = names.most_letters(kind)
        if most is None or self.source.dialect == "duckdb":
            return value
        return constants.folded(self.call("left", value, Literal(INT, most)), self.compiler.interner)

    def as_type(self, node: exp.Expr, target: DataType) -> Expr:
        """An expression as a value of a type; a quoted constant is read as one."""
        value = self.bind(node)
        if isinstance(value, Literal) and value.type.kind == "str" and value.value is not None and target.kind != "str":
            return constants.text_as(value.value, target, node, self.source)
        return self.cast_to(value, target)

    def cast_to(self, value: Expr, target: DataType) -> Expr:
        """A value cast as SQL does."""
        zoned = self.zoned_cast(value, target)
        if zoned is not None:
            return zoned
        if target.kind == "str" and value.type.kind in ("float", "timestamp"):
            return self.call(f"{value.type.kind}_text", value)  # as PostgreSQL prints them
        if target.kind == "int" and value.type.kind in {"float", "decimal"}:
            value = self.call("round", value)
        if target.kind == "bytes" and value.type.kind == "str" and self.source.dialect == "postgres":
            return constants.folded(self.call("text_bytes", value), self.compiler.interner)
        return constants.folded(functions.cast(value, target), self.compiler.interner)

    # ------------------------------------------------------------------------------------- logarithms

    def on_log(self, node: exp.Log) -> Expr:
        if node.args.get("expression") is None:
            return self.call("log10", self.bind(node.this))
        base = self.bind(node.this)
        op = {2: "log2", 10: "log10"}.get(base.value if isinstance(base, Literal) else 0)
        if op is None:
            return calls.called("log_base", [base, self.bind(node.expression)], node, self)
        return self.call(op, self.bind(node.expression))

    # --------------------------------------------------------------------------------- users' functions

    def on_anonymous(self, node: exp.Anonymous) -> Expr:
        found = self.compiler.core.functions.get(node.name.lower())
        if node.name.lower() == "current_setting":
            return identity.setting(node, self)
        if not self.compiler.trusted and (found is not None or node.name.lower() in self._written()):
            self.compiler.core.access.may_execute(node.name)
        if found is not None:
            args = tuple(self.bind(a) for a in node.expressions)
            return Udf(found.returns, found.function, args, found.vectorized)
        written = self._written().get(node.name.lower())
        if written is not None:
            return defined.inlined(node, written, self)
        known = calls.bound(node, self)
        if known is None and node.name.lower() in time_windows.NAMES:
            return time_windows.bound(node, self)
        if known is None and node.name.lower() in time_windows.IN_FROM:
            raise time_windows.refused(node, self)
        if known is None:
            raise calls.unknown(node, self)
        return known

    def _written(self) -> dict[str, FunctionMade]:
        return self.compiler.core.catalog.sql_functions

    def on_currentuser(self, node: exp.CurrentUser) -> Expr:
        return identity.user(node, self)

    def on_sessionuser(self, node: exp.SessionUser) -> Expr:
        return identity.user(node, self)

    # ----------------------------------------------------------------------------------------- the clock

    def on_currenttimestamp(self, node: exp.CurrentTimestamp) -> Expr:
        if self.compiler.standing:
            raise timed.refused(node, self)
        timed.refuse_precision(node, self)
        return Literal(TIMESTAMP, self._now())

    def on_localtimestamp(self, node: exp.Localtimestamp) -> Expr:
        return self.on_currenttimestamp(node)  # type: ignore[arg-type]

    def on_currentdate(self, node: exp.CurrentDate) -> Expr:
        if self.compiler.standing:
            raise timed.refused(node, self)
        return Literal(DATE, self._now().date())

    def _now(self) -> dt.datetime:
        return self.source.now(lambda: self.compiler.session.now)

    # ------------------------------------------------------------------------------------ subqueries

    def on_exists(self, node: exp.Exists) -> Expr:
        return self.compiler.subqueries(self.scope, self.env).exists(node)

    def on_subquery(self, node: exp.Subquery) -> Expr:
        return self.compiler.subqueries(self.scope, self.env).scalar(node)


def _as_date(expr: Expr, beside: Expr) -> Expr:
    if (
        beside.type.kind == "date"
        and isinstance(expr, Literal)
        and expr.type.kind == "timestamp"
        and expr.value is not None
    ):
        value: dt.datetime = expr.value
        if value.time() == dt.time():
            return Literal(beside.type.optional(False), value.date())
    return expr


def _reads_now(text: str, target: DataType) -> bool:
    """Whether a quoted constant is read when it is bound: '1e3' as a decimal too, which compiled casts do not know."""
    return target.kind in READ_NOW or (
        target.kind == "decimal" and re.fullmatch(r"[-+.\d]+[eE][-+]?\d+", text) is not None
    )


def _is_quoted(value: Expr) -> bool:
    return isinstance(value, Literal) and value.type.kind == "str" and value.value is not None


def _is_null(value: Expr) -> bool:
    return isinstance(value, Literal) and value.value is None


def sort_keys(key: Expr, ordered: exp.Expr) -> list[tuple[Expr, bool]]:
    """One key of an order as the engine sorts: NULLs come last there, so NULLS FIRST is a key of its own."""
    down = bool(ordered.args.get("desc"))
    first = bool(ordered.args.get("nulls_first"))
    if key.type.kind in ("interval", "enum"):
        key = functions.call("interval_order" if key.type.kind == "interval" else "enum_place", key)
    if first and key.type.nullable:
        return [(functions.call("is_null", key), True), (key, down)]
    return [(key, down)]


def conjuncts(node: exp.Expr | None) -> list[exp.Expr]:
    """The parts of a condition that must all hold."""
    found: list[exp.Expr] = []
    todo = [node] if node is not None else []
    while todo:  # no recursion: there may be thousands
        part = todo.pop()
        inner = part.unnest() if isinstance(part, exp.Paren) else part
        if isinstance(inner, exp.And):
            todo += [inner.expression, inner.this]
        else:
            found.append(part)
    return found
