"""Clock-dependent tables: conditions on now(), windows on tables, times to live.

In a SELECT, now() is a constant. In a view it moves, and a condition such as

    ts > now() - interval '5 minutes'

is rearranged to `ts + 5 minutes > now()`: each row has a moment at which the condition's truth changes, and a queue of
these moments is kept (`everview.session.clock`). That requires the table's own rows, so the condition must be about
columns of one base table, possibly through filters and projections. Everything else that changes with the clock is
refused in views.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from everview.errors import did_you_mean
from everview.expr import functions
from everview.expr.nodes import Expr, Literal
from everview.language.relation import relation_of
from everview.plan import joins
from everview.plan import nodes as plan
from everview.session.clock.filters import Term
from everview.sql.ddl import schemas
from everview.sql.scalar import constants, names
from everview.sql.scalar.type_names import in_words
from everview.sql.select.scopes import Relation
from everview.sql.text.annotations import TableWindow
from everview.sql.text.error_positions import SqlError
from everview.types import INT, STR, TIMESTAMP

if TYPE_CHECKING:
    from everview.session.table import Table
    from everview.sql.scalar.scalars import Scalars
    from everview.sql.select.compiler import Compiler

CLOCK_CALLS = (exp.CurrentTimestamp, exp.Localtimestamp, exp.CurrentDate)
_FLIPPED: dict[type[exp.Expr], type[exp.Expr]] = {exp.LT: exp.GT, exp.LTE: exp.GTE, exp.GT: exp.LT, exp.GTE: exp.LTE}
_OPPOSITE: dict[type[exp.Expr], type[exp.Expr]] = {exp.LT: exp.GTE, exp.LTE: exp.GT, exp.GT: exp.LTE, exp.GTE: exp.LT}

HINT = "in a view, compare it (<, <=, >, >=, BETWEEN) with columns of one table, or use current_date"


def mentions_now(node: exp.Expr) -> bool:
    """Whether an expression reads the clock."""
    return node.find(*CLOCK_CALLS) is not None


def terms(node: exp.Expr, scalars: Scalars) -> list[Term]:
    """A condition on now() as a conjunction of terms."""
    inner = node.unnest() if isinstance(node, exp.Paren) else node
    if isinstance(inner, exp.Not) and type(inner.this.unnest()) in _OPPOSITE:
        inner = _as(_OPPOSITE[type(inner.this.unnest())], inner.this.unnest())
    if isinstance(inner, exp.EQ) and is_a_day(inner, scalars):  # that day: neither before nor after
        both = (_as(exp.GTE, inner), _as(exp.LTE, inner))
        return [term for part in both for term in _bound(part, scalars)]
    if isinstance(inner, exp.Between):
        low = exp.GTE(this=inner.this, expression=inner.args["low"])
        high = exp.LTE(this=inner.this, expression=inner.args["high"])
        return [*_bound(low, scalars), *_bound(high, scalars)]
    return _bound(inner, scalars)


def _as(kind: type[exp.Expr], node: exp.Expr) -> exp.Expr:
    """The same two sides compared in another way."""
    return kind(this=node.this, expression=node.expression)


@dataclass(frozen=True)
class Compared:
    """A comparison with the clock: `moment op now() + months + shift` (microseconds), or with the current day."""

    op: type[exp.Expr]
    moment: Expr
    by_day: bool
    months: int
    shift: int


def compared(node: exp.Expr, scalars: Scalars) -> Compared:
    """Parse a comparison with now() plus a constant, on the right."""
    node = constants.without_difference(node) if type(node) in _FLIPPED and isinstance(node, exp.Binary) else node
    op, value, now = type(node), node.this, node.args.get("expression")
    if op not in _FLIPPED or now is None or mentions_now(value) == mentions_now(now):
        raise scalars.source.refuse(node, *_why_not(node))
    if mentions_now(value):
        op, value, now = _FLIPPED[op], now, value
    by_day, months, shift = _shift(now, scalars)
    bound = scalars.bind(value)
    if isinstance(bound, Literal) and bound.type.kind == "str" and bound.value is not None:
        bound = constants.text_as(bound.value, TIMESTAMP, value, scalars.source)
    if bound.type.kind not in ("date", "timestamp", "timestamptz"):
        raise scalars.source.error(
            node, "E_TYPE", f"now() is compared with a date or timestamp, not {in_words(bound.type)}"
        )
    return Compared(op, functions.cast(bound, TIMESTAMP), by_day, months, shift)


def plain_terms(found: Compared) -> list[Term]:
    """A comparison without months as terms."""
    op, moment = found.op, moved(found.moment, -found.shift)
    if found.by_day:
        return [_by_day(op, moment)]
    if op in (exp.GTE, exp.LT):
        moment = moved(moment, 1)
    return [Term(moment, "until" if op in (exp.GT, exp.GTE) else "from")]


def _bound(node: exp.Expr, scalars: Scalars) -> list[Term]:
    found = compared(node, scalars)
    if found.months:
        raise scalars.source.refuse(node, "months differ in length, so they cannot be turned round here", "use days")
    return plain_terms(found)


def is_a_day(node: exp.EQ, scalars: Scalars) -> bool:
    """Whether an equality compares with today, or a day so many days from it."""
    sides = [side for side in (node.this, node.expression) if mentions_now(side)]
    if len(sides) != 1 or not _is_shift(sides[0]):
        return False
    return _shift(sides[0], scalars)[0]


def _is_shift(node: exp.Expr) -> bool:
    """Whether it is now(), its day, or moved from it."""
    inner = node.unnest()
    if isinstance(inner, (exp.Add, exp.Sub, exp.Cast)):
        return _is_shift(inner.this)
    return isinstance(inner, CLOCK_CALLS)


def _why_not(node: exp.Expr) -> tuple[str, str]:
    """Why a condition with now() is not supported, and what is."""
    if isinstance(node, exp.Or):
        return "now() stands in an OR", "UNION a query for each side, or make it a condition of its own"
    if isinstance(node, (exp.EQ, exp.NEQ)):
        return "an equality with now() holds for a moment only", "compare with <, <=, >, >= or BETWEEN, or days with ="
    return "this condition changes with the clock", HINT


def _by_day(op: type[exp.Expr], moment: Expr) -> Term:
    """Compared with the start of today: the truth changes at midnight."""
    if op in (exp.GT, exp.LTE):
        moment = moved(moment, -1)
    day = functions.call("date_trunc", Literal(STR, "day"), moment)
    return Term(moved(day, constants.DAY), "until" if op in (exp.GT, exp.GTE) else "from")


def refuse_precision(node: exp.Expr, scalars: Scalars) -> None:
    """Refuse now(3), which would round to milliseconds."""
    if node.this is not None:
        raise scalars.source.refuse(node.this, "now() has no precision", "date_trunc('second', now())")


def moved(moment: Expr, by: int) -> Expr:
    """A number of microseconds later."""
    return functions.call("timestamp_add", moment, Literal(INT, by)) if by else moment


def _shift(node: exp.Expr, scalars: Scalars) -> tuple[bool, int, int]:
    """now() plus or minus a constant: whether only its day matters, months, and microseconds."""
    if isinstance(node, exp.Paren):
        return _shift(node.this, scalars)
    if isinstance(node, (exp.CurrentTimestamp, exp.Localtimestamp)):
        refuse_precision(node, scalars)
        return False, 0, 0
    if isinstance(node, exp.CurrentDate):
        return True, 0, 0
    if isinstance(node, exp.Cast) and names.data_type(node.to, scalars.source).kind == "date":
        by_day, months, shift = _shift(node.this, scalars)
        if by_day or (months, shift) == (0, 0):
            return True, months, shift
    if isinstance(node, (exp.Add, exp.Sub)) and mentions_now(node.this) and not mentions_now(node.expression):
        by_day, months, shift = _shift(node.this, scalars)
        sign = 1 if isinstance(node, exp.Add) else -1
        more, distance = _distance(node.expression, by_day, scalars)
        if more and (months or shift):
            raise scalars.source.refuse(
                node, "months are added to now() first, and once", "now() - interval '1 month 1 day'"
            )
        return by_day, months + sign * more, shift + sign * distance
    raise scalars.source.refuse(node, "this is not a constant distance from now()", HINT)


def _distance(node: exp.Expr, by_day: bool, scalars: Scalars) -> tuple[int, int]:
    """Months and microseconds."""
    if isinstance(node, exp.Interval):
        return constants.interval(node, scalars.source)
    value = scalars.bind(node)
    if by_day and isinstance(value, Literal) and value.type.kind == "int" and value.value is not None:
        return 0, int(value.value) * constants.DAY
    if isinstance(value, Literal) and value.type.kind == "interval" and value.value is not None:
        return value.value.months, value.value.days * constants.DAY + value.value.microseconds
    raise scalars.source.refuse(node, "this is not a constant distance from now()", HINT)


# ------------------------------------------------------------------------------------ tables that follow


def passing(compiler: Compiler, node: plan.Node, wanted: tuple[Term, ...], at: exp.Expr) -> plan.Node:
    """The node over only those rows of its base table that satisfy the terms (over the node's columns)."""
    if isinstance(node, plan.Filter):
        return plan.Filter(passing(compiler, node.child, wanted, at), node.predicate)
    if isinstance(node, plan.Project):
        mapping = dict(enumerate(node.exprs))
        below = tuple(Term(t.expr.remap(mapping), t.side) for t in wanted)
        return plan.Project(passing(compiler, node.child, below, at), node.exprs)
    table = compiler.core.catalog.table_of(node) if isinstance(node, plan.Table) else None
    if table is None or relation_of(table).origin is not None:
        raise compiler.source.refuse(
            at,
            "now() is compared with something that is not a column of a base table",
            "filter the table itself by now()",
        )
    mirror = compiler.core.clock.passing(table, wanted)
    compiler.used[relation_of(mirror).label] = None
    return relation_of(mirror).node


def window(compiler: Compiler, node: exp.Table, relation: Relation, spec: TableWindow) -> Relation:
    """The rows of a base table in a window, e.g. `readings [size 300 time]`."""
    table = compiler.core.catalog.tables.get(
        schemas.found(compiler.core, schemas.written(node), compiler.session.tables)
    )
    if table is None or relation.node != relation_of(table).node:
        raise compiler.source.refuse(node, "windows are on base tables", "apply it to the tables of the view")
    if not compiler.standing:
        raise compiler.source.refuse(
            node, "a window on a table begins when a view asks for it", "CREATE VIEW ... and read that"
        )
    if spec.tuples:
        mirror = compiler.core.clock.latest(table, spec.tuples, _positions(compiler, node, table, spec.partition))
    else:
        mirror = compiler.core.clock.aging(table, spec.microseconds)
    compiler.used[relation_of(mirror).label] = None
    return Relation(joins.take(relation_of(mirror).node, range(len(relation.fields))), relation.fields)


def _positions(compiler: Compiler, node: exp.Table, table: Table, given: tuple[str, ...]) -> tuple[int, ...]:
    have = [c.name for c in relation_of(table).columns]
    found = [names.spelled(name, have) for name in given]
    for name in found:
        if name not in have:
            raise compiler.source.error(
                node, "E_COLUMN", f"{relation_of(table).label} has no column {name}", did_you_mean(name, have)
            )
    return tuple(dict.fromkeys(have.index(name) for name in found))


def refused(node: exp.Expr, scalars: Scalars) -> SqlError:
    """Return the error for an unsupported now()."""
    return scalars.source.refuse(
        node,
        "views cannot depend on the clock in this way",
        f"{HINT}; for an outer join or an aggregate, in a derived table",
    )
