"""Conditions on now() as values: in SELECT lists, CASE, OR, FILTER, and with months.

The truth of a comparison with now() changes at moments that are expressions over the row; see
`everview.session.clock.flags`. Such a comparison (an *atom*) becomes an expression of flags, which say whether each of
these moments is in the future. Most atoms have one moment. One with months has up to seven: `now() - interval '1
month'` passes the last day of a short month up to four times, on the 28th to the 31st of the next one, so that a row of
that day satisfies `ts > now() - interval '1 month'` again after each midnight. The result at any moment is
PostgreSQL's.

The day itself, current_date, or date_trunc(unit, now()), is also a value that changes at known moments: it is read from
a table of one row (`Ticks`), and everything computed from it changes with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from everview.expr import functions
from everview.expr.functions import call
from everview.expr.nodes import Expr, Literal
from everview.language.relation import relation_of
from everview.plan import nodes as plan
from everview.session.clock.flags import UNITS, ClockFlags, Ticks
from everview.sql.clock import temporal_tables
from everview.sql.scalar import constants
from everview.sql.select import base_tables
from everview.types import BOOL, DATE, INT, STR, TIMESTAMP

if TYPE_CHECKING:
    from everview.session.table import Table
    from everview.sql.scalar.scalars import Scalars
    from everview.sql.select.compiler import Compiler

COMPARED = (exp.LT, exp.LTE, exp.GT, exp.GTE, exp.EQ, exp.Between)
LONGEST = 3
"""Maximum difference in length between months, in days."""


@dataclass(frozen=True)
class Truth:
    """An atom: the moments of a row that decide, and its truth value from the flags of those in the future."""

    moments: tuple[Expr, ...]
    of: Callable[..., Expr]


def outside_queries(node: exp.Expr) -> Iterator[exp.Expr]:
    """A node and all below it outside subqueries."""
    yield node
    for child in node.iter_expressions():
        if not isinstance(child, exp.Query):
            yield from outside_queries(child)


def reads_clock(node: exp.Expr) -> bool:
    """Whether an expression reads the clock, ignoring its subqueries."""
    return any(isinstance(n, temporal_tables.CLOCK_CALLS) for n in outside_queries(node))


def atoms(node: exp.Expr) -> Iterator[exp.Expr]:
    """The comparisons with the clock in an expression."""
    if isinstance(node, exp.Query):
        return
    if isinstance(node, COMPARED) and reads_clock(node):
        yield node
        return
    for child in node.iter_expressions():
        yield from atoms(child)


def ticks(node: exp.Expr) -> Iterator[tuple[exp.Expr, str]]:
    """The parts of an expression that read the day, or the start of another unit."""
    if isinstance(node, exp.Query):
        return
    unit = _unit(node)
    if unit is not None:
        yield node, unit
        return
    for child in node.iter_expressions():
        yield from ticks(child)


def _unit(node: exp.Expr) -> str | None:
    if isinstance(node, exp.CurrentDate):
        return "day"
    if isinstance(node, exp.Cast) and _is_now(node.this) and node.to.this == exp.DataType.Type.DATE:
        return "day"
    if isinstance(node, (exp.TimestampTrunc, exp.DateTrunc)) and _is_now(node.this):
        unit = node.text("unit").lower()
        return unit if unit in UNITS else None
    return None


def _is_now(node: exp.Expr) -> bool:
    return isinstance(node.unnest(), (exp.CurrentTimestamp, exp.Localtimestamp))


def tick_value(start: Expr, node: exp.Expr) -> Expr:
    """The value of such a part, from the table of ticks."""
    return start if isinstance(node, (exp.TimestampTrunc, exp.DateTrunc)) else functions.cast(start, DATE)


def tick_table(compiler: Compiler, unit: str) -> Table:
    """The table with the start of the current unit."""
    core = compiler.core
    found = next((f for f in core.clock.followers if isinstance(f, Ticks) and f.unit == unit), None)
    if found is None:
        found = Ticks(core, unit)
        core.definitions.follow(found)
    compiler.used[relation_of(found.mirror).label] = None
    return found.mirror


def flagged(compiler: Compiler, node: plan.Node, moments: tuple[Expr, ...], at: exp.Expr) -> plan.Node:
    """The node with a flag column for each of some moments: whether it is in the future."""
    base, wanted = base_tables.over_table(node, moments)
    table = base_tables.base_table(compiler, base)
    if table is None:
        raise compiler.source.refuse(
            at, "now() is compared with something that is not a column of a base table", "compare in a derived table"
        )
    core = compiler.core
    there = (f for f in core.clock.agenda.of(table) if isinstance(f, ClockFlags) and f.moments == tuple(wanted))
    found = next(there, None)
    if found is None:
        found = ClockFlags(core, table, tuple(wanted))
        core.definitions.follow(found)
    compiler.used[relation_of(found.mirror).label] = None
    return base_tables.rebuilt(node, relation_of(found.mirror).node, len(moments))


# ------------------------------------------------------------------------------------------------- atoms


def truth(node: exp.Expr, scalars: Scalars) -> Truth:
    """What decides an atom."""
    if isinstance(node, exp.Between):
        low = exp.GTE(this=node.this, expression=node.args["low"])
        high = exp.LTE(this=node.this, expression=node.args["high"])
        return _both(_side(low, scalars), _side(high, scalars))
    if isinstance(node, exp.EQ) and temporal_tables.is_a_day(node, scalars):
        both = (kind(this=node.this, expression=node.expression) for kind in (exp.GTE, exp.LTE))
        return _both(*(_side(part, scalars) for part in both))
    return _side(node, scalars)


def has_months(node: exp.Expr, scalars: Scalars) -> bool:
    """Whether a comparison moves the clock by months."""
    return any(isinstance(n, exp.Interval) and constants.interval(n, scalars.source)[0] for n in outside_queries(node))


def _both(a: Truth, b: Truth) -> Truth:
    split = len(a.moments)
    return Truth((*a.moments, *b.moments), lambda *flags: call("and", a.of(*flags[:split]), b.of(*flags[split:])))


def _side(node: exp.Expr, scalars: Scalars) -> Truth:
    if not temporal_tables.mentions_now(node):
        raise scalars.source.refuse(node, "only one end of this BETWEEN follows the clock", "write two comparisons")
    compared = temporal_tables.compared(node, scalars)
    if compared.months:
        return _with_months(compared)
    (term,) = temporal_tables.plain_terms(compared)
    return Truth((term.expr,), lambda flag: flag if term.side == "until" else call("not", flag))


def _with_months(compared: temporal_tables.Compared) -> Truth:
    """value OP now() + months + a remainder, with nonzero months."""
    op, x = compared.op, temporal_tables.moved(compared.moment, -compared.shift)
    if op in (exp.GTE, exp.LT):  # x >= f is x + 1 > f, and x < f its opposite
        x = temporal_tables.moved(x, 1)
    day = functions.cast(call("date_trunc", Literal(STR, "day"), x), TIMESTAMP)
    if compared.by_day:
        late = temporal_tables.moved(
            call("date_trunc", Literal(STR, "day"), temporal_tables.moved(x, -1)), constants.DAY
        )
        greater = Truth((_first_day(late, compared.months),), lambda flag: flag)
    else:
        greater = _repeatedly(x, day, compared.months)
    if op in (exp.GT, exp.GTE):
        return greater
    return Truth(greater.moments, lambda *flags: call("not", greater.of(*flags)))


def _months(moment: Expr, by: int) -> Expr:
    return call("add_months", moment, Literal(INT, by))


def _first_day(day: Expr, months: int) -> Expr:
    """The first day that, shifted by this many months, is not before a day."""
    there = _months(day, -months)
    next_month = _months(call("date_trunc", Literal(STR, "month"), there), 1)
    return call("case", call("ge", _months(there, months), day), there, next_month)


def _repeatedly(x: Expr, day: Expr, months: int) -> Truth:
    """Whether x is greater than now() shifted by months: until it is reached, and again on days clamped to its."""
    first = _first_day(day, months)
    since = call("timestamp_diff", x, day)
    exact = call("eq", _months(first, months), day)
    moments = [call("timestamp_add", first, call("case", exact, since, Literal(INT, 0)))]
    nothing = Literal(TIMESTAMP.optional(), None)
    for i in range(1, LONGEST + 1):
        again = temporal_tables.moved(first, i * constants.DAY)
        cut = call("and", exact, call("eq", _months(again, months), day))
        moments.append(call("case", cut, again, nothing))
        moments.append(call("case", cut, call("timestamp_add", again, since), nothing))

    def of(*flags: Expr) -> Expr:
        found = flags[0]
        for begins, ends in zip(flags[1::2], flags[2::2], strict=True):
            inside = call("and", call("not", begins), ends)
            found = call("or", found, call("coalesce", inside, Literal(BOOL, False)))
        return found

    return Truth(tuple(moments), of)
