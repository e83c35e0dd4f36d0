"""Window functions: OVER, WINDOW and QUALIFY.

Windows are computed after groups and HAVING and before the SELECT list. All calls with the same PARTITION BY and ORDER
BY become one `Window` node; its columns are appended to the relation's, and the scope maps calls to columns
(`Scope.placed`).

The relation is first narrowed to the columns that the query uses: a window stores whole rows, and ties in its order are
broken by them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from sqlglot import exp

from everview.errors import closest
from everview.expr import common_types, functions
from everview.expr.functions import call as make
from everview.expr.nodes import Expr
from everview.expr.nodes import Literal as Constant
from everview.plan import joins
from everview.plan.windows import TO_PEERS, WHOLE, Frame, Window, WindowCall, WindowKind
from everview.sql.scalar import constants
from everview.sql.scalar.scalars import Scalars
from everview.sql.scalar.type_names import in_words
from everview.sql.select import exact_sums, window_lists
from everview.sql.select.scopes import Relation, Scope, columns_of
from everview.sql.select.sort_keys import sort_keys
from everview.sql.select.variances import MOMENTS, moment
from everview.sql.text.call_names import all_names
from everview.types import FLOAT, INT, DataType

_RANKS: dict[type[exp.Expr], tuple[WindowKind, DataType]] = {
    exp.RowNumber: ("row_number", INT),
    exp.Rank: ("rank", INT),
    exp.DenseRank: ("dense_rank", INT),
    exp.PercentRank: ("percent_rank", FLOAT),
    exp.CumeDist: ("cume_dist", FLOAT),
    exp.Ntile: ("ntile", INT),
}
_VALUES: dict[type[exp.Expr], WindowKind] = {
    exp.Lag: "lag",
    exp.Lead: "lead",
    exp.FirstValue: "first_value",
    exp.LastValue: "last_value",
    exp.NthValue: "nth_value",
}
AGGREGATES: dict[type[exp.Expr], Literal["count", "sum", "avg", "min", "max"]] = {
    exp.Count: "count",
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.Min: "min",
    exp.Max: "max",
    exp.LogicalAnd: "min",
    exp.LogicalOr: "max",
}
"""Aggregates over groups and over frames: those of bools are extremes, false being less than true."""


@dataclass(frozen=True)
class _Wanted:
    """A call whose arguments are still expressions."""

    kind: WindowKind
    type: DataType
    arg: Expr | None = None
    frame: Frame = WHOLE
    number: int = 1
    default: Expr | None = None
    ignore_nulls: bool = False

    def placed(self, at: dict[Expr, int]) -> WindowCall:
        arg = None if self.arg is None else at[self.arg]
        default = None if self.default is None else at[self.default]
        return WindowCall(self.kind, self.type, arg, self.frame, self.number, default, self.ignore_nulls)


@dataclass(frozen=True)
class _Composed:
    """A call composed from others: the sum of values that are not codes, from the sums of their parts."""

    parts: tuple[_Wanted, ...]
    put: Callable[..., Expr]


Spec = tuple[tuple[Expr, ...], tuple[tuple[Expr, bool], ...]]
"""PARTITION BY and ORDER BY."""


def windows_in(node: exp.Expr) -> Iterator[exp.Window]:
    """The window calls in an expression, not in its subqueries."""
    todo = [node]
    while todo:
        part = todo.pop()
        if isinstance(part, exp.Window):
            yield part
        elif not isinstance(part, exp.Query):
            todo.extend(part.iter_expressions(reverse=True))


def narrow(scope: Scope, nodes: Iterable[exp.Expr], context: int) -> None:
    """Keep only the columns that the expressions name (`*`: all that can be named)."""
    relation = scope.relation
    used = set(range(context))
    for node in nodes:
        for column in node.find_all(exp.Column, exp.Star):
            if isinstance(column, exp.Column) and not isinstance(column.this, exp.Star):
                used |= {*scope.matches(column), *(columns_of(scope, column) if not column.table else ())}
            elif not isinstance(column.parent, exp.Count):
                used |= {i for i, f in enumerate(relation.fields) if f.name}
    used |= {column for placed in scope.placed.values() for column in placed.columns()}
    kept = sorted(used) or [0]
    scope.relation = Relation(joins.take(relation.node, kept), tuple(relation.fields[i] for i in kept))
    refs = {old: scope.relation.ref(new) for new, old in enumerate(kept)}
    scope.placed = {place: expr.remap({c: refs[c] for c in expr.columns()}) for place, expr in scope.placed.items()}


class Windows:
    """The window calls of one SELECT."""

    def __init__(self, select: exp.Select, scalars: Scalars, context: int) -> None:
        self.scalars = scalars
        self.source = scalars.source
        self.context = context
        self.named = {w.this.name.lower(): w for w in select.args.get("windows") or []}

    def place(self, calls: Sequence[exp.Window]) -> None:
        """Compute the calls and make them columns of the scope."""
        for base in map(self._complete, self.named.values()):
            self._frame(base, self._spec(base))  # unused ones must be valid, too
        by_spec: dict[Spec, list[tuple[exp.Window, _Wanted | _Composed]]] = {}
        for node in calls:
            base = self._complete(node)
            spec = self._spec(base)
            by_spec.setdefault(spec, []).append((node, self._call(node, base, spec)))
        for spec, wanted in by_spec.items():
            self._add(spec, wanted)

    def _add(self, spec: Spec, wanted: list[tuple[exp.Window, _Wanted | _Composed]]) -> None:
        scope = self.scalars.scope
        partition, order = spec
        calls = list(dict.fromkeys(p for _, w in wanted for p in (w.parts if isinstance(w, _Composed) else (w,))))
        args = [e for w in calls for e in (w.arg, w.default) if e is not None]
        exprs = [*partition, *(e for e, _ in order), *args]
        node, places = joins.with_columns(scope.relation.node, exprs)
        at = dict(zip(exprs, places, strict=True))
        keys = (*range(self.context), *(at[e] for e in partition))
        made = Window(
            node,
            tuple(dict.fromkeys(keys)),
            tuple((at[e], down) for e, down in order),
            tuple(w.placed(at) for w in calls),
        )
        columns = scope.append(made)[-len(calls) :]
        for found, call in wanted:
            if isinstance(call, _Composed):
                scope.placed[id(found)] = call.put(*(columns[calls.index(part)] for part in call.parts))
            else:
                scope.placed[id(found)] = columns[calls.index(call)]

    # ------------------------------------------------------------------------------------ the window

    def _complete(self, node: exp.Window) -> exp.Window:
        """With the definition of the window it refers to: OVER w, OVER (w ROWS ...)."""
        self.source.only(node, "this", "partition_by", "order", "spec", "alias", "over")
        name = node.alias
        if not name:
            return node
        base = self.named.get(name.lower())
        if base is None:
            raise self.source.error(node, "E_WINDOW", f"there is no window {name}", f"add WINDOW {name} AS (...)")
        base = self._complete(base)
        made = exp.Window(this=node.this)
        for part in ("partition_by", "order", "spec"):
            made.args[part] = node.args.get(part) or base.args.get(part)
        return made

    def _spec(self, node: exp.Window) -> Spec:
        partition = [joins.canonical(self.scalars.bind(e)) for e in node.args.get("partition_by") or []]
        order: list[tuple[Expr, bool]] = []
        for ordered in node.args["order"].expressions if node.args.get("order") else []:
            key = self.scalars.bind(ordered.this)
            if key.type.kind not in common_types.ORDERED:
                raise self.source.error(ordered, "E_TYPE", f"{in_words(key.type)} has no order")
            order += sort_keys(joins.canonical(key), ordered)
        constant = [e for e, _ in order if isinstance(e, Constant)]
        return tuple(partition), tuple((e, down) for e, down in order if e not in constant)

    def _frame(self, node: exp.Window, spec: Spec) -> Frame:
        clause = node.args.get("spec")
        if clause is None:
            return TO_PEERS if node.args.get("order") else WHOLE
        excluded = clause.args.get("exclude")
        exclude = excluded.name.lower() if excluded is not None else "no others"
        unit = str(clause.args["kind"]).lower()
        if unit != "rows" and not spec[1]:
            unit = "rows" if _unbounded(clause) else unit
        start = self._bound(node, clause, "start", unit, spec)
        end = self._bound(node, clause, "end", unit, spec) if clause.args.get("end") else 0
        return Frame(unit, start, end, exclude)  # type: ignore[arg-type]

    def _bound(self, node: exp.Window, clause: exp.Expr, part: str, unit: str, spec: Spec) -> int | float | None:
        given, side = clause.args[part], str(clause.args.get(f"{part}_side") or "").lower()
        if given is None:
            raise self.source.error(node, "E_SYNTAX", "a bound of a frame is missing", "ROWS 1 PRECEDING")
        if isinstance(given, str):
            if given.upper() not in ("UNBOUNDED", "CURRENT ROW"):
                raise self.source.refuse(node, f"{given} is not a bound of a frame")
            return None if given.upper() == "UNBOUNDED" else 0
        amount = self._range_offset(node, given, spec) if unit == "range" else self._constant(given, "a frame's bound")
        if amount < 0:
            raise self.source.error(given, "E_RANGE", "a frame's bound cannot be negative")
        return -amount if side == "preceding" else amount

    def _range_offset(self, node: exp.Window, given: exp.Expr, spec: Spec) -> int | float:
        """The difference as the code of the order's column has it."""
        keys = [e for e, _ in spec[1]][-1:]
        if not keys or len(node.args["order"].expressions) != 1:
            raise self.source.error(node, "E_WINDOW", "RANGE with an offset needs exactly one ORDER BY column")
        declared = keys[0].type
        if isinstance(given, exp.Literal) and given.is_string and declared.kind in ("date", "timestamp"):
            given = exp.Interval(this=given)
        if isinstance(given, exp.Interval):
            months, microseconds = constants.interval(given, self.source)
            if months or declared.kind not in ("date", "timestamp"):
                raise self.source.refuse(
                    given, f"this interval is not a distance between values of {in_words(declared)}"
                )
            if declared.kind == "date" and microseconds % constants.DAY:
                raise self.source.refuse(given, "dates are whole days apart", "order by a timestamp")
            return microseconds // constants.DAY if declared.kind == "date" else microseconds
        value = self.scalars.bind(given)
        if not isinstance(value, Constant) or value.value is None or declared.kind not in common_types.NUMBERS:
            raise self.source.error(
                given, "E_LITERAL", f"a distance between values of {in_words(declared)} is a constant"
            )
        if value.type.kind not in common_types.NUMBERS:
            what = f"{in_words(value.type)} is not a distance between values of {in_words(declared)}"
            raise self.source.error(given, "E_TYPE", what, "write a number")
        if declared.kind == "float":
            return float(value.value)
        scaled = value.value * 10**declared.scale
        if scaled != int(scaled):
            raise self.source.error(
                given, "E_TYPE", f"{value.value} is not a distance between values of {in_words(declared)}"
            )
        return int(scaled)

    def _constant(self, node: exp.Expr, what: str) -> int:
        value = self.scalars.bind(node)
        if not isinstance(value, Constant) or value.type.kind != "int" or value.value is None:
            raise self.source.error(node, "E_LITERAL", f"{what} must be a constant whole number")
        return int(value.value)

    # ----------------------------------------------------------------------------------------- calls

    def _call(self, node: exp.Window, base: exp.Window, spec: Spec) -> _Wanted | _Composed:
        inner = node.this
        condition = None
        if isinstance(inner, exp.Filter):
            inner, condition = inner.this, inner.expression.this
        nulls = inner if isinstance(inner, (exp.IgnoreNulls, exp.RespectNulls)) else None
        if nulls is not None:
            inner = nulls.this
            if type(inner) not in _VALUES:
                word = "IGNORE NULLS" if isinstance(nulls, exp.IgnoreNulls) else "RESPECT NULLS"
                hint = "it belongs to lag, lead, first_value, last_value and nth_value"
                raise self.source.refuse(node, f"{word} has no meaning for {self.source.written(inner)}", hint)
        kind = type(inner)
        if kind in AGGREGATES:
            return self._aggregate(inner, condition, self._frame(base, spec))
        if kind in MOMENTS:
            return self._moment(inner, condition, self._frame(base, spec))
        if window_lists.is_list(inner):
            return self._list(inner, condition, self._frame(base, spec))
        if condition is not None:
            raise self.source.refuse(node, "FILTER belongs to aggregates")
        if kind in _RANKS:
            return self._rank(inner)
        if kind in _VALUES:
            wanted = self._value(inner, self._frame(base, spec))
            return replace(wanted, ignore_nulls=isinstance(nulls, exp.IgnoreNulls))
        written = self.source.written(inner)
        close = closest(written, all_names(), alike=0.7) if written not in all_names() else []
        if isinstance(inner, exp.Anonymous) and close:
            raise self.source.refuse(node, f"there is no function {written}", f"did you mean {close[0]!r}?")
        raise self.source.refuse(
            node,
            f"{written} is not supported as a window function",
            "ranks, lag, lead, count, sum, avg, min, max, stddev, array_agg, string_agg ... are",
        )

    def _rank(self, node: exp.Expr) -> _Wanted:
        kind, made = _RANKS[type(node)]
        if kind != "ntile":
            if any(node.args.values()):
                raise self.source.error(node, "E_ARITY", f"{kind} takes no argument")
            return _Wanted(kind, made)
        if node.this is None:
            raise self.scalars.no_argument(node)
        number = self._constant(node.this, "the number of parts")
        if number < 1:
            raise self.source.error(node, "E_RANGE", "ntile needs at least one part")
        return _Wanted(kind, made, number=number)

    def _value(self, node: exp.Expr, frame: Frame) -> _Wanted:
        self.source.only(node, "this", "offset", "default")
        kind, arg = _VALUES[type(node)], self.scalars.bind(node.this)
        offset = node.args.get("offset")
        number = 1 if offset is None else self._constant(offset, f"the offset of {kind}")
        if kind in ("first_value", "last_value"):
            return _Wanted(kind, arg.type.optional(arg.type.nullable or not _has_itself(frame)), arg, frame)
        if kind == "nth_value":
            if number < 1:
                raise self.source.error(node, "E_RANGE", "nth_value counts from 1")
            return _Wanted(kind, arg.type.optional(), arg, frame, number)
        default = None
        if node.args.get("default") is not None:
            default = self.scalars.coerced(self.scalars.bind(node.args["default"]), arg, node.args["default"])
            common = common_types.common_type([arg.type, default.type])
            if common is None:
                raise self.source.error(
                    node, "E_TYPE", f"{in_words(arg.type)} and {in_words(default.type)} have no type in common"
                )
            arg, default = functions.cast(arg, common), functions.cast(default, common)
        nullable = default is None or arg.type.nullable or default.type.nullable
        return _Wanted(kind, arg.type.optional(nullable), arg, WHOLE, number, default)

    def _aggregate(self, node: exp.Expr, condition: exp.Expr | None, frame: Frame) -> _Wanted | _Composed:
        self.source.only(node, "this", "big_int")
        if node.this is None:
            raise self.scalars.no_argument(node)
        kind: WindowKind = AGGREGATES[type(node)]
        if isinstance(node.this, exp.Star) and kind != "count":
            raise self.scalars.no_argument(node)
        if isinstance(node.this, (exp.Distinct, exp.Order)):
            raise self.source.refuse(node, "DISTINCT and ORDER BY inside a window's aggregate are not supported")
        arg = None if isinstance(node.this, exp.Star) else self.scalars.bind(node.this)
        if condition is not None:
            value = Constant(INT, 1) if arg is None else arg
            arg = make("case", self.scalars.condition(condition), value, Constant(INT.optional(), None))
        if kind == "count":
            return _Wanted(kind, INT, arg if arg is not None and arg.type.nullable else None, frame)
        assert arg is not None
        if exact_sums.is_composed(kind, arg, self.source.dialect):
            return _composed(kind, arg, frame)
        if kind in ("sum", "avg") and arg.type.width and arg.type.kind == "int":
            arg = functions.cast(arg, INT)  # a sum of small ints is no small int
        wanted = common_types.NUMBERS if kind in ("sum", "avg") else common_types.ORDERED
        if isinstance(node, (exp.LogicalAnd, exp.LogicalOr)):
            wanted = frozenset({"bool"})
        if arg.type.kind not in wanted:
            name = self.source.written(node)
            raise self.source.error(node, "E_TYPE", f"there is no {name} of {in_words(arg.type)}", "cast it first")
        made = FLOAT if kind == "avg" else replace(arg.type, width=0) if kind == "sum" else arg.type
        return _Wanted(kind, made.optional(arg.type.nullable or not _has_itself(frame)), arg, frame)

    def _list(self, node: exp.Expr, condition: exp.Expr | None, frame: Frame) -> _Composed:
        """The values of frames as arrays, texts or JSON."""
        found = window_lists.listed(node, condition, self.scalars)
        wanted = _Wanted(found.kind, found.type, found.value, frame, default=found.condition)
        return _Composed((wanted,), found.put or (lambda column: column))

    def _moment(self, node: exp.Expr, condition: exp.Expr | None, frame: Frame) -> _Composed:
        """Variance or standard deviation over frames."""
        self.source.only(node, "this")
        if node.this is None:
            raise self.scalars.no_argument(node)
        if isinstance(node.this, (exp.Distinct, exp.Order)):
            raise self.source.refuse(node, "DISTINCT and ORDER BY inside a window's aggregate are not supported")
        arg = self.scalars.bind(node.this)
        if condition is not None:
            arg = make("case", self.scalars.condition(condition), arg, Constant(INT.optional(), None))
        if arg.type.kind not in common_types.NUMBERS | {"numeric"}:
            name = self.source.written(node)
            raise self.source.error(node, "E_TYPE", f"there is no {name} of {in_words(arg.type)}", "cast it first")
        value, summed, put = moment(type(node), joins.canonical(arg), self.source.dialect)
        nullable = value.type.nullable or not _has_itself(frame)
        count = _Wanted("count", INT, value if value.type.nullable else None, frame)
        sums = (_Wanted("sum", replace(p.type, width=0, nullable=nullable), p, frame) for p in summed)
        return _Composed((count, *sums), put)


def _composed(kind: WindowKind, arg: Expr, frame: Frame) -> _Composed:
    """sum and avg of numerics and intervals, avg of decimals."""
    parts, put = exact_sums.parts(arg), exact_sums.whole(arg.type)
    nullable = arg.type.nullable or not _has_itself(frame)
    sums = tuple(_Wanted("sum", replace(part.type, width=0, nullable=nullable), part, frame) for part in parts)
    if kind == "sum":
        return _Composed(sums, put)
    count = _Wanted("count", INT, arg if arg.type.nullable else None, frame)
    return _Composed((*sums, count), lambda *found: exact_sums.average(put(*found[:-1]), found[-1], arg.type))


def _has_itself(frame: Frame) -> bool:
    """Whether a row's frame certainly contains the row itself."""
    if frame.exclude in ("current row", "group"):
        return False
    return (frame.start is None or frame.start <= 0) and (frame.end is None or frame.end >= 0)


def _unbounded(clause: exp.Expr) -> bool:
    return all(str(clause.args.get(p) or "").upper() == "UNBOUNDED" for p in ("start", "end"))


def place_alias(scope: Scope, condition: exp.Expr, items: Iterable[exp.Expr], scalars: Scalars) -> None:
    """QUALIFY may refer to outputs: bind those names."""
    aliases = {i.alias.lower(): i.this for i in items if isinstance(i, exp.Alias)}
    for column in condition.find_all(exp.Column):
        if not column.table and not scope.matches(column) and column.name.lower() in aliases:
            scope.placed[id(column)] = scalars.bind(aliases[column.name.lower()])
