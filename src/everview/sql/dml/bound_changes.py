"""Changes that are bound once and executed often: INSERT ... VALUES, and UPDATE and DELETE of a table.

Binding a statement of one row takes fifty times as long as inserting the row. A client that repeats a statement with
other values has it bound once, with *slots* in place of the values (`Slots`). The result is executed again and again,
until anything that binding depends on has changed: a definition, a right, the role, the time zone, the search path
(`binding_stamp`).

Is the bound form the same for all values? Binding may inspect a value: it parses quoted dates, folds constants, drops
conditions. Three rules exclude that:

- A statement has only parts of a fixed list (`_PARTS`): no calls, no casts, no subqueries, nothing that reads a clock.
- VALUES are not bound at all. Each value is converted on execution, as binding would.
- Everything else is bound twice, with different samples. If filling the slots of one plan with the samples of the other
  gives the other, values do not matter. NULL is an exception, because types depend on it.

What does not fit is bound anew each time, which also reports all errors in values.
"""

from __future__ import annotations

import datetime as dt
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from everview.errors import EverviewError
from everview.expr.nodes import Call, Expr, Literal
from everview.plan import nodes as plan
from everview.session.rights.principal import WHO
from everview.sql.answers.parameter_values import Given
from everview.sql.answers.parameters import Learned
from everview.sql.dml import volatile_functions
from everview.sql.select.binding_stamp import binding_stamp
from everview.sql.select.query import Query
from everview.sql.text import statement_reader

if TYPE_CHECKING:
    from everview.sql.statements import Do, Statements
    from everview.sql.text.error_positions import Source
    from everview.types import DataType

KEPT, KEPT_LETTERS = 64, 2_000
"""Statements that a connection keeps, and how long they may be."""

_FIRST = ("INSERT", "UPDATE", "DELETE")

_PARTS: tuple[type[exp.Expr], ...] = (
    exp.Insert, exp.Update, exp.Delete, exp.Table, exp.TableAlias, exp.Identifier, exp.Schema, exp.Values, exp.Tuple,
    exp.Parameter, exp.Literal, exp.Null, exp.Boolean, exp.Neg, exp.Column, exp.Var, exp.Star, exp.Where, exp.Paren,
    exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.And, exp.Or, exp.Not, exp.Is, exp.Add, exp.Sub, exp.Mul,
    exp.Returning, exp.OnConflict, exp.Ordered,
)  # fmt: skip
"""What a statement may be made of; also, below, by its exact class."""

_WORDS_OF_TIME = re.compile("now|today|tomorrow|yesterday|current", re.IGNORECASE)
"""Quoted constants that may mean another moment each time."""

_SAMPLES: dict[str, tuple[Any, Any]] = {
    "int": (1_000_003, 2_000_029),
    "str": ("one sample", "another sample"),
    "float": (1.25, 2.75),
    "decimal": (Decimal("1.25"), Decimal("2.75")),
    "numeric": (Decimal("1.25"), Decimal("2.75")),
    "bool": (True, False),
    "date": (dt.date(2001, 2, 3), dt.date(2004, 5, 6)),
    "timestamp": (dt.datetime(2001, 2, 3, 4, 5), dt.datetime(2006, 7, 8, 9, 10)),
}

_AS_IT_IS = ("int", "str", "float", "bool", "date", "timestamp")
"""Kinds whose values are stored in a column of the same kind without conversion."""


class Unfit(Exception):
    """Raised on binding: the statement cannot be bound for all values."""


class Slots(Given):
    """Parameters as places in a bound statement, whose values may change."""

    def __init__(self, types: Mapping[str, DataType], samples: Mapping[str, Any]) -> None:
        super().__init__(types, samples)
        self.queries: list[Query] = []
        """the plans that have slots"""
        self.rows: list[tuple[Any, ...]] | None = None
        """the current rows of VALUES"""
        self._cells: list[list[Callable[[], Any]]] = []
        self._made: dict[int, tuple[Literal, str]] = {}

    def constant(self, node: exp.Parameter) -> Literal | None:
        """The current value, remembered as a slot."""
        found = super().constant(node)
        assert found is not None
        self._made[id(found)] = found, node.name
        return found

    # VALUES

    def give(self, cells: list[list[Callable[[], Any]]]) -> None:
        """Take the rows of VALUES, each a list of functions that return a value."""
        if self._cells:
            raise Unfit
        self._cells = cells

    def cell(self, item: exp.Expr, declared: DataType, fitted: Callable[[Expr], Any]) -> Callable[[], Any]:
        """A parameter among VALUES. `fitted` converts a value to its column's type, and raises if that fails."""
        if not isinstance(item, exp.Parameter):
            raise Unfit
        name = item.name
        own = self.known[name]
        if own.kind == declared.kind and own.kind in _AS_IT_IS:
            return lambda: (self.values or {}).get(name)

        def converted() -> Any:
            value = (self.values or {}).get(name)
            return fitted(Literal(own.optional(value is None), value))

        return converted

    # plans

    def filled(self, query: Query) -> Query:
        """A query with the current values in its slots."""
        return replace(query, node=self._filled_node(query.node)) if self._made else query

    def _filled_node(self, node: plan.Node) -> plan.Node:
        if isinstance(node, plan.Filter):
            return plan.Filter(self._filled_node(node.child), self._filled(node.predicate))
        if isinstance(node, plan.Project):
            return plan.Project(self._filled_node(node.child), tuple(map(self._filled, node.exprs)))
        if isinstance(node, plan.Table):
            return node
        raise Unfit

    def _filled(self, expr: Expr) -> Expr:
        if isinstance(expr, Literal):
            slot = self._made.get(id(expr))
            return expr if slot is None else Literal(expr.type, (self.values or {}).get(slot[1]))
        if isinstance(expr, Call):
            args = tuple(map(self._filled, expr.args))
            same = all(a is b for a, b in zip(args, expr.args, strict=True))
            return expr if same else Call(expr.type, expr.op, args)
        if expr.children():
            raise Unfit
        return expr

    def set(self, values: Mapping[str, Any] | None) -> bool:
        """Fill the slots; False if these values need the statement to be bound anew."""
        self.values = values or {}
        if self.queries and None in self.values.values():
            return False
        try:
            self.rows = [tuple([cell() for cell in row]) for row in self._cells]
        except (EverviewError, Unfit):
            return False
        return True


@dataclass(frozen=True)
class BoundChange:
    """A bound statement."""

    statement: statement_reader.Statement
    do: Do
    slots: Slots


class BoundChanges:
    """The bound statements of one connection. Those that come once are not kept, those that do not fit are known."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[Any, ...], tuple[object, BoundChange | None]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def find(
        self, sql: Statements, text: str, given: Given, bind: Callable[[], BoundChange | None]
    ) -> BoundChange | None:
        """A statement with its slots filled, from its second execution on; None if it must be bound anew."""
        if len(text) > KEPT_LETTERS or not text.lstrip()[:6].upper().startswith(_FIRST):
            return None
        key, stamp = (text, *given.known.items()), (WHO.get(), *binding_stamp(sql))
        known = self._kept.get(key)
        if known is None or known[0] not in (stamp, None):
            self._keep(key, (None, None))  # it was here once
            return None
        if known[0] is None:
            known = stamp, bind()
            self._keep(key, known)
        change = known[1]
        return change if change is not None and change.slots.set(given.values) else None

    def _keep(self, key: tuple[Any, ...], state: tuple[object, BoundChange | None]) -> None:
        self._kept[key] = state
        self._kept.move_to_end(key)
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)


def bound(sql: Statements, text: str, given: Given, bind: Callable[[exp.Expr, Source], Do]) -> BoundChange | None:
    """A statement with slots, in a turn; None if it does not fit."""
    if volatile_functions.mentioned(text) or any(t.kind not in _SAMPLES for t in given.known.values()):
        return None
    before = sql.parameters
    try:
        found = list(statement_reader.statements(text, lambda: sql.dialect))
        if len(found) != 1 or found[0].first not in _FIRST:
            return None
        first, second = (_with_samples(sql, found[0], given, which, bind) for which in (0, 1))
        return first if _agree(first.slots, second.slots) and not found[0].notes.notices else None
    except (EverviewError, Learned, Unfit):
        return None  # the long way reports what is wrong
    finally:
        sql.parameters = before


def _with_samples(
    sql: Statements,
    statement: statement_reader.Statement,
    given: Given,
    which: int,
    bind: Callable[[exp.Expr, Source], Do],
) -> BoundChange:
    samples = {name: _SAMPLES[t.kind][which] for name, t in given.known.items()}
    slots = sql.parameters = Slots(given.known, samples)
    source = sql.placed(statement.source())
    node = statement_reader.parsed(source)
    if not all(map(_is_fit, node.walk())):
        raise Unfit
    return BoundChange(statement, bind(node, source), slots)


def _is_fit(node: exp.Expr) -> bool:
    if isinstance(node, exp.Literal) and node.is_string and _WORDS_OF_TIME.search(str(dict.get(node.args, "this"))):
        return False
    return type(node) in _PARTS


def _agree(first: Slots, second: Slots) -> bool:
    """Whether the plans of two samples differ in their slots only."""
    if len(first.queries) != len(second.queries):
        return False
    samples, first.values = first.values, second.values
    try:
        return all(
            first.filled(a).node == b.node and replace(a, node=b.node) == b
            for a, b in zip(first.queries, second.queries, strict=True)
        )
    finally:
        first.values = samples
