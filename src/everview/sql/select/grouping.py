"""GROUP BY and aggregates.

Aggregates are collected first, from SELECT, HAVING and ORDER BY; then one Reduce computes them; then the surrounding
expressions are bound over its result, where a grouped expression is its key.

Without GROUP BY there is one row even for empty input: for a context (see `everview.sql.select.subqueries`) without
rows, and for a whole query without rows, the aggregates of the empty set (0 for counts, else NULL) are added.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from sqlglot import exp

from everview.expr import common_types, functions
from everview.expr.functions import call
from everview.expr.nodes import Call, ColumnRef, Expr, Udf
from everview.expr.nodes import Literal as Constant
from everview.plan import joins
from everview.plan.joins import same_keys
from everview.plan.nodes import (
    ONE_ROW,
    Aggregate,
    AggregateKind,
    Node,
    Project,
    PythonReduce,
    Reduce,
    Threshold,
    Union,
)
from everview.sql.folds import Folding
from everview.sql.lists import Documents, Listing, told
from everview.sql.scalar.constants import EMPTY
from everview.sql.scalar.scalars import Bound, Scalars
from everview.sql.scalar.type_names import in_words
from everview.sql.select import exact_sums, named_aggregates
from everview.sql.select.scopes import HIDDEN_FIELD, Field, Relation, Scope, is_outside
from everview.sql.select.sort_keys import sort_keys
from everview.sql.select.variances import MOMENTS, moment
from everview.sql.select.windows import AGGREGATES, windows_in
from everview.sql.text import consumed_parts
from everview.sql.text.call_names import LISTS
from everview.sql.text.dialects import SPARKS
from everview.sql.text.error_positions import has_query
from everview.types import FLOAT, INT, JSON, STR, DataType, array


@dataclass(frozen=True)
class _Slot:
    """One aggregate over an expression of the input (None: over rows), or over the distinct values of `distinct`."""

    kind: AggregateKind
    arg: Expr | None
    distinct: tuple[Expr, ...]
    type: DataType


def _total(arg: Expr, distinct: tuple[Expr, ...]) -> _Slot:
    """A sum, which may have more digits than what is summed."""
    return _Slot("sum", arg, distinct, replace(arg.type, width=0))


@dataclass(frozen=True)
class _ListSlot:
    """An aggregate in Python: `exprs` are the condition if there is one, the values, and the sort keys."""

    function: Listing | Documents | Folding
    exprs: tuple[Expr, ...]
    type: DataType
    distinct: tuple[Expr, ...] = ()

    @property
    def kind(self) -> str:
        return self.function.__name__


Slot = _Slot | _ListSlot

NAMED = (exp.AnonymousAggFunc, exp.WithinGroup, exp.FirstValue, exp.LastValue)
"""Aggregates that are bound by name."""


class Grouped(Scalars):
    """Expressions over groups: keys and aggregates are columns, everything else is computed from them."""

    def __init__(
        self, below: Scalars, keys: Sequence[tuple[exp.Expr, Expr]], sets: Sequence[Sequence[int]], context: int
    ) -> None:
        super().__init__(below.compiler, below.scope, below.env)
        self.below = below
        self._of_rows: Bound = {}
        self._pure: dict[int, exp.Expr] = {}
        self.context = context
        self.keys = [*joins.refs(below.scope.relation.node.types[:context]), *(e for _, e in keys)]
        self.written = {node: context + i for i, (node, _) in enumerate(keys)}
        self.sets = [[*range(context), *(context + i for i in s)] for s in sets]
        self.slots: list[Slot] = []
        self.groupings: list[tuple[int, ...]] = []
        """The keys of each GROUPING(...): a column after the slots says which of them are not grouped by."""
        self.columns: dict[int, Callable[[], Expr]] = {}
        """The expression of each aggregate in the text, over the finished groups."""
        self.lent: list[exp.Expr] = []
        """The aggregates inside subqueries."""

    # ---------------------------------------------------------------------------------- collecting

    def collect(self, nodes: Iterable[exp.Expr]) -> None:
        """Find the aggregates in expressions and bind their arguments."""
        for node in nodes:
            for call_, condition in aggregates_in(node):
                self.columns[id(call_)] = self._aggregate(call_, condition)

    def collect_outside(self, found: Iterable[tuple[exp.Expr, exp.Expr | None]]) -> None:
        """Bind the aggregates inside subqueries that belong here."""
        self.lent = [call_ for call_, _ in found]
        for call_, condition in found:
            self.columns[id(call_)] = self._aggregate(call_, condition)

    def lend(self) -> None:
        """Make these columns of the finished groups, which subqueries find."""
        for call_ in self.lent:
            value = self.columns[id(call_)]()
            if not isinstance(value, ColumnRef):
                node = self.scope.relation.node
                value = self.scope.append(Project(node, (*joins.refs(node.types), value)))[-1]
            self.scope.placed[id(call_)] = value

    def _aggregate(self, node: exp.Expr, condition: exp.Expr | None) -> Callable[[], Expr]:
        """Create the slots an aggregate needs; return the value computed from them."""
        call_ = node.this if isinstance(node, exp.WithinGroup) else node
        inside = [*call_.iter_expressions(), *([node.expression] if call_ is not node else [])]
        if any(True for child in inside for _ in aggregates_in(child)):
            raise self.source.error(node, "E_AGGREGATE", "aggregates cannot be nested", "use a derived table")
        if isinstance(node, exp.Grouping):
            return self._grouping(node)
        test = self.below.condition(condition) if condition is not None else None
        if isinstance(node, exp.ArrayUniqueAgg):  # collect_set(x)
            node = exp.ArrayAgg(this=exp.Distinct(expressions=[node.this]), nulls_excluded=True)
        if isinstance(node, (exp.GroupConcat, exp.ArrayAgg)):
            return self._list(node, test)
        if isinstance(node, exp.AnonymousAggFunc) and node.name in LISTS:
            return self._column(self._document_slot(node, test))
        if isinstance(node, NAMED):
            return self._named(node, test)
        if type(node) not in AGGREGATES and type(node) not in MOMENTS:
            return self._aggregate(self.in_our_words(node), condition)
        self.source.only(node, "this", "big_int")
        given, distinct = node.this, False
        if given is None or (isinstance(given, exp.Distinct) and not given.expressions):
            raise self.no_argument(node)
        if isinstance(given, exp.Distinct):
            distinct = True
            items = [i for e in given.expressions for i in (e.expressions if isinstance(e, exp.Tuple) else [e])]
            if len(items) > 1 or isinstance(given.expressions[0], exp.Tuple):
                return self._column(self._count_rows(node, items, given, test))
            given = items[0]
            if isinstance(given, exp.Star):
                hint = "count(DISTINCT (a, b)) counts distinct rows of columns"
                raise self.source.error(given, "E_STAR", "DISTINCT needs columns, not *", hint)
        if isinstance(given, exp.Column) and isinstance(given.this, exp.Star) and self.source.dialect in SPARKS:
            what = f"{given.sql('postgres')} is its columns here: rows with a NULL in one of them do not count"
            raise self.source.refuse(given, what, "count(*) counts rows")
        if isinstance(given, exp.Order):
            raise self.source.refuse(node, "ORDER BY inside this aggregate has no meaning")
        arg = None if isinstance(given, exp.Star) else self.below.bind(given)
        if arg is None and not isinstance(node, exp.Count):
            what = self.source.written(node)
            raise self.source.error(node, "E_ARITY", f"{what}: only rows can be counted with *", "name a column")
        if not is_outside(node):
            self._refuse_outer(node, arg)
        if test is not None:
            arg = call("case", test, Constant(INT, 1) if arg is None else arg, Constant(INT.optional(), None))
        if arg is not None and exact_sums.is_composed(AGGREGATES.get(type(node)), arg, self.source.dialect):
            return self._composed(node, arg, distinct)
        if isinstance(node, (exp.Sum, exp.Avg)) and arg is not None and arg.type.width and arg.type.kind == "int":
            arg = functions.cast(arg, INT)  # a sum of small ints is no small int
        if type(node) in MOMENTS:
            return self._moment(node, arg, distinct)
        return self._column(self._typed(AGGREGATES[type(node)], arg, node, distinct))

    def _named(self, node: exp.Expr, test: Expr | None) -> Callable[[], Expr]:
        """Aggregates by name: counts and minima of another name, else folds."""
        call_ = named_aggregates.given(node, self)
        if call_.name in ("any_value", "approx_count_distinct", "count_if", "regr_count"):
            return self._renamed(call_, test)
        function, exprs, made = named_aggregates.fold(call_, test, self)
        for expr in exprs[test is not None :][: function.width]:
            self._refuse_outer(call_.node, expr)
        return self._column(_ListSlot(function, exprs, made))

    def _renamed(self, given: named_aggregates.Given, test: Expr | None) -> Callable[[], Expr]:
        """any_value(x): min(x); approx_count_distinct(x): count(DISTINCT x); count_if(c), regr_count(y, x): counts."""
        wanted = 2 if given.name == "regr_count" else 1
        if len(given.args) != wanted:
            what = self.source.written(given.node)
            raise self.source.error(given.node, "E_ARITY", f"{what} takes {wanted} argument{'s' * (wanted > 1)}")
        if given.name == "count_if":
            args = [self.below.condition(given.args[0])]
            tests = args
        else:
            args = [self.below.bind(a) for a in given.args]
            tests = [call("is_not_null", a) for a in args] if wanted == 2 else []
        self._refuse_outer(given.node, args[-1])
        tests = [*tests, *([test] if test is not None else [])]
        value = Constant(INT, 1) if given.name in ("count_if", "regr_count") else args[0]
        if tests:
            value = call("case", functions.conjunction(tests), value, Constant(INT.optional(), None))
        kind: AggregateKind = "min" if given.name == "any_value" else "count"
        return self._column(self._typed(kind, value, given.node, given.name == "approx_count_distinct"))

    def _refuse_outer(self, node: exp.Expr, arg: Expr | None) -> None:
        """An aggregate of only outer columns belongs to the outer query, not to this one."""
        outer = self.below.scope.outer
        if arg is None or outer is None or outer is self.compiler.parameters.outer or not arg.columns():
            return
        if max(arg.columns()) < self.context:
            raise self.source.error(
                node,
                "E_AGGREGATE",
                "this is an aggregate of the query around, which has no groups here yet",
                "aggregates belong in SELECT, HAVING and ORDER BY",
            )

    def _grouping(self, node: exp.Grouping) -> Callable[[], Expr]:
        """GROUPING(a, b): a bit for each key, the last one lowest; 1 where it is not grouped by."""
        bound = [self.below.bind(e) for e in node.expressions]
        if not bound or not all(e in self.keys[self.context :] for e in bound):
            raise self.source.error(node, "E_AGGREGATE", "GROUPING takes expressions of GROUP BY")
        self.groupings.append(tuple(self.context + self.keys[self.context :].index(e) for e in bound))
        index = len(self.groupings) - 1
        return lambda: self.scope.relation.ref(len(self.keys) + len(self.slots) + index)

    def _column(self, slot: Slot) -> Callable[[], Expr]:
        """The column that will hold a slot; equal slots share one."""
        if slot not in self.slots:
            self.slots.append(slot)
        return partial(self._at, self.slots.index(slot))

    def _at(self, index: int) -> Expr:
        return self.scope.relation.ref(len(self.keys) + index)

    def _typed(self, kind: AggregateKind, arg: Expr | None, node: exp.Expr, distinct: bool) -> _Slot:
        if kind == "count":
            if arg is None or (not distinct and not arg.type.nullable):
                return _Slot("count", None, (), INT)
            return _Slot("count_distinct" if distinct else "count", joins.canonical(arg) if distinct else arg, (), INT)
        assert arg is not None
        wanted = common_types.NUMBERS if kind in ("sum", "avg") else common_types.ORDERED
        if isinstance(node, (exp.LogicalAnd, exp.LogicalOr)):
            wanted = frozenset({"bool"})
        self._check_type(node, arg, wanted)
        kept = FLOAT.optional(arg.type.nullable) if kind == "avg" else arg.type
        kept = replace(kept, width=0) if kind == "sum" else kept  # a sum may have more digits
        if not distinct or kind in ("min", "max"):
            return _Slot(kind, arg, (), kept)
        value = joins.canonical(arg)
        return _Slot(kind, value, (value,), kept)

    def _check_type(self, node: exp.Expr, arg: Expr, wanted: frozenset[str]) -> None:
        if arg.type.kind not in wanted:
            raise self.source.error(
                node, "E_TYPE", f"there is no {self.source.written(node)} of {in_words(arg.type)}", "cast it first"
            )

    def _count_rows(self, node: exp.Expr, items: list[exp.Expr], given: exp.Distinct, test: Expr | None) -> _Slot:
        """count(DISTINCT a, b): distinct rows without NULLs; count(DISTINCT (a, b)): all distinct rows."""
        if not isinstance(node, exp.Count):
            raise self.source.refuse(node, "only count takes DISTINCT of several columns")
        exprs = [joins.canonical(self.below.bind(i)) for i in items]
        whole = isinstance(given.expressions[0], exp.Tuple)
        tests = [] if whole else [call("is_not_null", e) for e in exprs if e.type.nullable]
        tests += [test] if test is not None else []
        distinct = (*exprs, *([test] if test is not None else []))
        if not tests:
            return _Slot("count", None, distinct, INT)
        counted = call("case", functions.conjunction(tests), Constant(INT, 1), Constant(INT.optional(), None))
        return _Slot("count", counted, distinct, INT)

    def _moment(self, node: exp.Expr, arg: Expr | None, distinct: bool) -> Callable[[], Expr]:
        """Variance or standard deviation."""
        if arg is None:
            raise self.source.error(node, "E_TYPE", f"{node.key} needs a column")
        self._check_type(node, arg, common_types.NUMBERS | {"numeric"})
        value, summed, put = moment(type(node), joins.canonical(arg), self.source.dialect)
        of = (value,) if distinct else ()
        count = _Slot("count", value if value.type.nullable else None, of, INT)
        found = [self._column(s) for s in (count, *(_total(p, of) for p in summed))]
        return lambda: put(*(f() for f in found))

    def _composed(self, node: exp.Expr, arg: Expr, distinct: bool) -> Callable[[], Expr]:
        """sum and avg of values that are not codes: composed from the sums of their int parts."""
        of = (arg,) if distinct else ()
        put = exact_sums.whole(arg.type)
        found = [self._column(_total(part, of)) for part in exact_sums.parts(arg)]
        count = self._column(_Slot("count", arg if arg.type.nullable else None, of, INT))

        def made() -> Expr:
            total = put(*(f() for f in found))
            return total if isinstance(node, exp.Sum) else exact_sums.average(total, count(), arg.type)

        return made

    def _document_slot(self, node: exp.AnonymousAggFunc, test: Expr | None) -> _ListSlot:
        """jsonb_agg(x ORDER BY y), jsonb_object_agg(key, value ORDER BY y)"""
        given, order, distinct = list(node.expressions), [], False
        if given and isinstance(given[-1], exp.Order):
            given[-1], order = given[-1].this, given[-1].expressions
        if len(given) == 1 and isinstance(given[0], exp.Distinct):
            distinct, given = True, list(given[0].expressions)
        pairs = "object" in node.name
        if len(given) != 1 + pairs:
            wants = "a key and a value" if pairs else "one value"
            raise self.source.error(node, "E_ARITY", f"{node.name} takes {wants}")
        bound = [self.below.bind(g) for g in given]
        if pairs:
            value = call("json_array", functions.cast(bound[0], STR), bound[1])
        else:
            value = call("to_json", bound[0])
        keys = [k for o in order for k in sort_keys(self.below.bind(o.this), o)]
        if distinct and any(k.columns() != value.columns() for k, _ in keys):
            raise self.source.error(node, "E_ORDER", "with DISTINCT, the values can only be ordered by themselves")
        downs = tuple(down for _, down in keys)
        types = told([value.type, *(k.type for k, _ in keys)])
        function = Documents(len(self.keys), downs, None, distinct, test is not None, pairs, types)
        exprs = (*([test] if test is not None else []), value, *(k for k, _ in keys))
        return _ListSlot(function, exprs, JSON.optional())

    def _list(self, node: exp.Expr, test: Expr | None) -> Callable[[], Expr]:
        """array_agg and string_agg. Spark's array_agg (collect_list) leaves out NULLs, and is never NULL itself."""
        slot = self._list_slot(node, test)
        column = self._column(slot)
        if not node.args.get("nulls_excluded"):
            return column
        return lambda: call("coalesce", column(), Constant(slot.type.optional(False), EMPTY))

    def _list_slot(self, node: exp.Expr, test: Expr | None) -> _ListSlot:
        self.source.only(node, "this", "separator", "nulls_excluded")
        given, order, distinct, separator = node.this, [], False, None
        if isinstance(given, exp.Order):
            given, order = given.this, given.expressions
        if isinstance(given, exp.Distinct):
            if len(given.expressions) > 1:
                raise self.source.refuse(node, "only count takes DISTINCT of several columns")
            distinct, given = True, next(iter(given.expressions), None)
        if given is None:
            raise self.no_argument(node)
        value = self.below.bind(given)
        if isinstance(node, exp.GroupConcat):
            self._check_type(node, value, frozenset({"str"}))
            text = self.below.bind(node.args["separator"]) if node.args.get("separator") else Constant(STR, ",")
            if not isinstance(text, Constant) or text.type.kind != "str" or text.value is None:
                raise self.source.error(node, "E_LITERAL", "the separator must be a constant text")
            separator = str(text.value)
        if node.args.get("nulls_excluded") and value.type.nullable:
            present = call("is_not_null", value)
            test = present if test is None else call("and", test, present)
        keys = [k for o in order for k in sort_keys(self.below.bind(o.this), o)]
        if distinct and any(k.columns() != value.columns() for k, _ in keys):
            raise self.source.error(node, "E_ORDER", "with DISTINCT, the values can only be ordered by themselves")
        downs = tuple(down for _, down in keys)
        width = len(self.keys)
        types = told([value.type, *(k.type for k, _ in keys)])
        function = Listing(width, downs, separator, distinct, test is not None, types)
        exprs = (*([test] if test is not None else []), value, *(k for k, _ in keys))
        kind = STR if isinstance(node, exp.GroupConcat) else array(value.type)
        return _ListSlot(function, exprs, kind.optional())

    # ------------------------------------------------------------------------------------ the plan

    def reduce(self, one_row: bool) -> None:
        """Build the groups; `one_row`: there is no GROUP BY, so empty input is one group."""
        if not self.slots:
            self.slots.append(_Slot("count", None, (), INT))  # groups exist while they have rows
        keys = [joins.canonical(k) for k in self.keys]
        groups = [self._one_set(keys, s, one_row or not s[self.context :]) for s in self.sets]
        node = groups[0] if len(groups) == 1 else Union(tuple(groups))
        fields = [self._field(k) for k in self.keys]
        fields += [HIDDEN_FIELD] * (len(self.slots) + len(self.groupings))
        self.scope = Scope(Relation(node, tuple(fields)), self.source, self.scope.outer)

    def _field(self, key: Expr) -> Field:
        return self.below.scope.relation.fields[key.index] if isinstance(key, ColumnRef) else HIDDEN_FIELD

    def _one_set(self, keys: list[Expr], grouped: Sequence[int], one_row: bool) -> Node:
        """The groups by some of the keys, with NULL for the others, and the aggregates."""
        chosen = [keys[i] for i in grouped]
        node = self._aggregated(chosen)
        if one_row:
            node = self._with_nothing(node, len(chosen))
        if len(grouped) == len(keys) and not self.groupings:
            return node
        refs = joins.refs(node.types)
        outputs = [
            refs[list(grouped).index(i)] if i in grouped else Constant(k.type.optional(), None)
            for i, k in enumerate(keys)
        ]
        bits = ("".join("0" if k in grouped else "1" for k in several) for several in self.groupings)
        return Project(node, (*outputs, *refs[len(chosen) :], *(Constant(INT, int(b, 2)) for b in bits)))

    def _aggregated(self, keys: list[Expr]) -> Node:
        """Keys, then slots. Those of distinct values and lists are separate reductions, joined by the keys."""
        child = self.below.scope.relation.node
        pieces: list[tuple[Node, list[Slot]]] = []
        for distinct in dict.fromkeys(s.distinct for s in self.slots if isinstance(s, _Slot)):
            slots = [s for s in self.slots if isinstance(s, _Slot) and s.distinct == distinct]
            if not distinct:
                pieces.append((self._reduce(child, keys, slots), list(slots)))
                continue
            values = Threshold(Project(child, (*keys, *distinct)), "distinct")
            place = {e: ColumnRef(e.type, len(keys) + i) for i, e in enumerate(distinct)}
            moved = [replace(s, arg=None if s.arg is None else replaced(s.arg, place)) for s in slots]
            pieces.append((self._reduce(values, list(joins.refs(values.types[: len(keys)])), moved), list(slots)))
        for slot in self.slots:
            if isinstance(slot, _ListSlot):
                function = replace(slot.function, keys=len(keys))
                below = Project(child, (*keys, *slot.exprs))
                pieces.append((PythonReduce(below, tuple(range(len(keys))), function, (slot.type,)), [slot]))
        node, order = pieces[0]
        for piece, slots_ in pieces[1:]:
            node = self._beside(node, piece, len(keys))
            order = order + slots_
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
        """Add the aggregates of the empty set for every context (without one: once) that has none."""
        outer = self.scope.outer
        if outer is not None and outer.positions:
            every = self.compiler.context(outer).node
        else:
            every = ONE_ROW
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
            return self.columns[id(inner)]()
        if node in self.written:
            consumed_parts.understood(node)
            return self.scope.relation.ref(self.written[node])
        if isinstance(node, exp.Literal) or not self._is_of_rows(node):
            return None
        with self.below.remembering(self._of_rows):
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

    def _is_of_rows(self, node: exp.Expr) -> bool:
        """Whether an expression is one of rows alone, without aggregates, windows and subqueries; found out once for
        all its parts.
        """
        if id(node) in self._pure:
            return True
        if has_query(node) or any(aggregates_in(node)) or any(windows_in(node)):
            return False
        self._pure.update({id(part): part for part in node.walk()})
        return True


def replaced(expr: Expr, new: dict[Expr, ColumnRef]) -> Expr:
    """The expression with some of its parts replaced by columns."""
    if expr in new:
        return new[expr]
    if isinstance(expr, (Call, Udf)):
        return replace(expr, args=tuple(replaced(a, new) for a in expr.args))
    return expr


def aggregates_in(node: exp.Expr) -> Iterator[tuple[exp.Expr, exp.Expr | None]]:
    """The aggregates in an expression, not in its subqueries, with the conditions of their FILTERs."""
    todo = [node]
    while todo:
        part = todo.pop()
        if isinstance(part, exp.Query) or is_outside(part):
            continue
        if isinstance(part, exp.Window):
            todo.extend(reversed(_read_by_window(part)))
        elif isinstance(part, exp.Filter):
            yield part.this, part.expression.this
        elif isinstance(part, (exp.AggFunc, exp.WithinGroup)):
            yield part, None
        else:
            todo.extend(part.iter_expressions(reverse=True))


def _read_by_window(node: exp.Window) -> list[exp.Expr]:
    """What a window call reads, where aggregates may be; the call itself is none."""
    inner, read = node.this, []
    if isinstance(inner, exp.Filter):
        read.append(inner.expression)
        inner = inner.this
    if isinstance(inner, (exp.IgnoreNulls, exp.RespectNulls)):
        inner = inner.this
    read += [*inner.iter_expressions(), *(node.args.get("partition_by") or [])]
    return [*read, *([node.args["order"]] if node.args.get("order") else [])]


def grouping_sets(group: exp.Group | None) -> tuple[list[exp.Expr], list[list[int]]]:
    """All keys of a GROUP BY, and the grouping sets: one, unless there are ROLLUP, CUBE or GROUPING SETS.

    >>> import sqlglot
    >>> select = sqlglot.parse_one("SELECT 1 FROM t GROUP BY a, ROLLUP (b, c)", read="postgres")
    >>> keys, sets = grouping_sets(select.args["group"])
    >>> [k.name for k in keys], sets
    (['a', 'b', 'c'], [[0, 1, 2], [0, 1], [0]])
    """
    keys: list[exp.Expr] = []

    def index(key: exp.Expr) -> int:
        if key in keys:
            consumed_parts.understood(key)
        else:
            keys.append(key)
        return keys.index(key)

    def several(node: exp.Expr) -> list[int]:
        """The keys of (a, b); brackets inside it, (a, (b, c)), group nothing."""
        inner = node.unnest() if isinstance(node, exp.Paren) else node
        return [i for e in inner.expressions for i in several(e)] if isinstance(inner, exp.Tuple) else [index(inner)]

    def choices_of(item: exp.Expr) -> list[list[int]]:
        """The sets of one item of the list; GROUPING SETS may be nested."""
        if isinstance(item, exp.GroupingSets):
            return [chosen for inner in item.expressions for chosen in choices_of(inner)]
        if not isinstance(item, (exp.Rollup, exp.Cube)):
            return [several(item)]
        inside = [several(e) for e in item.expressions]
        if isinstance(item, exp.Rollup):
            return [[i for p in inside[:n] for i in p] for n in range(len(inside), -1, -1)]
        chosen = itertools.product((True, False), repeat=len(inside))
        return [[i for p, take in zip(inside, c, strict=True) if take for i in p] for c in chosen]

    given = [*group.expressions] if group is not None else []
    for arg in ("rollup", "cube"):  # WITH ROLLUP: of all that was listed
        for item in (group.args.get(arg) or []) if group is not None else []:
            given = [type(item)(expressions=given)]
    only = (group.args.get("grouping_sets") or []) if group is not None else []
    if only:  # Hive's GROUP BY a, b GROUPING SETS (a, b): the list names the keys, the sets what to group by
        for item in given:
            several(item)
        given = only
    choices = [choices_of(item) for item in given]
    return keys, [sorted({i for part in combination for i in part}) for combination in itertools.product(*choices)]
