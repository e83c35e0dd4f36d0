"""Time windows as expressions; and TUMBLE in GROUP BY, as in Calcite, Flink and Feldera:

    SELECT TUMBLE_START(ts, INTERVAL '1' HOUR), TUMBLE_END(ts, INTERVAL '1' HOUR), count(*)
    FROM t GROUP BY TUMBLE(ts, INTERVAL '1' HOUR)

TUMBLE(ts, size [, offset]) is the start of a row's window, and an ordinary grouping key. TUMBLE_START is the same;
TUMBLE_END is one window size later. HOP and SESSION put a row into several windows, or into one that depends on other
rows: those change the rows that are grouped (`everview.sql.select.stream_windows`).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from everview.expr import functions
from everview.expr.functions import call
from everview.expr.nodes import Expr, Literal
from everview.sql.scalar import constants
from everview.sql.scalar.type_names import in_words
from everview.sql.text.annotations import SESSION
from everview.sql.text.error_positions import SqlError
from everview.types import INT, TIMESTAMP, TIMESTAMPTZ

if TYPE_CHECKING:
    from everview.sql.scalar.scalars import Scalars

EPOCH = Literal(TIMESTAMP, dt.datetime(1970, 1, 1))

NAMES = ("tumble", "tumble_start", "tumble_end", "tumble_rowtime")

IN_FROM = {f"{name}{part}": name for name in ("hop", "session", SESSION, "cumulate") for part in ("", "_start", "_end")}
"""Other windows, by the names that they have in GROUP BY."""


def bound(node: exp.Anonymous, scalars: Scalars) -> Expr:
    """TUMBLE, TUMBLE_START or TUMBLE_END of a row."""
    name, args = node.name.lower(), node.expressions
    if not 2 <= len(args) <= 3:
        raise scalars.source.error(node, "E_ARITY", f"{name}(ts, INTERVAL '1 hour' [, offset])")
    size = length(args[1], scalars)
    if name == "tumble_rowtime":  # the last millisecond
        end = scalars.bind(exp.Anonymous(this="tumble_end", expressions=args))
        return again(end, moved(functions.cast(end, TIMESTAMP), steps(-1000)))
    if name == "tumble_end":
        start = scalars.bind(exp.Anonymous(this="tumble_start", expressions=args))  # which may be grouped by
        return again(start, moved(functions.cast(start, TIMESTAMP), steps(size)))
    moment = scalars.bind(args[0])
    return again(moment, begin(plain(moment, args[0], scalars), size, offset(args, 2, scalars)))


def plain(moment: Expr, at: exp.Expr, scalars: Scalars) -> Expr:
    """The time of a window as a timestamp; a timestamptz in UTC, where windows begin whatever the session's zone is."""
    if moment.type.kind not in ("date", "timestamp", "timestamptz"):
        what = f"the time of a window is a date or timestamp, not {in_words(moment.type)}"
        raise scalars.source.error(at, "E_TYPE", what)
    return functions.cast(moment, TIMESTAMP)


def again(given: Expr, bound: Expr) -> Expr:
    """The start or end of a window in the type of its time argument."""
    return functions.cast(bound, TIMESTAMPTZ) if given.type.kind == "timestamptz" else bound


def refused(node: exp.Anonymous, scalars: Scalars) -> SqlError:
    """The error of HOP, SESSION and their bounds where the query is not grouped by the same window."""
    name = IN_FROM[node.name.lower()].replace(SESSION, "session").upper()
    hint = f"GROUP BY {name}(ts, ...) with these arguments has {name}_START; FROM {name}(t, ts, ...) has window_start"
    return scalars.source.refuse(node, f"the query is not grouped by this {name}", hint)


def length(node: exp.Expr, scalars: Scalars) -> int:
    """The size of a window in microseconds."""
    if not isinstance(node, exp.Interval):
        raise scalars.source.error(node, "E_LITERAL", "the length of a window is a constant interval")
    months, microseconds = constants.interval(node, scalars.source)
    if months or microseconds <= 0:
        raise scalars.source.refuse(node, "a window is some days, hours, minutes or seconds long")
    return microseconds


def offset(args: Sequence[exp.Expr], at: int, scalars: Scalars) -> int:
    """The offset of windows from 1970-01-01, in microseconds; the argument at a position, if given."""
    if len(args) <= at:
        return 0
    given = args[at]
    if not isinstance(given, exp.Interval):
        raise scalars.source.error(given, "E_LITERAL", "the offset of windows is a constant interval")
    months, microseconds = constants.interval(given, scalars.source)
    if months:
        raise scalars.source.refuse(given, "months differ in length", "use days")
    return microseconds


def steps(value: int) -> Literal:
    """A constant."""
    return Literal(INT, value)


def moved(moment: Expr, by: Expr) -> Expr:
    """A moment so many microseconds later."""
    return call("timestamp_add", moment, by)


def begin(moment: Expr, size: int, offset: int) -> Expr:
    """The start of the window of that size that contains a moment."""
    since = call("sub", call("timestamp_diff", moment, EPOCH), steps(offset))
    return moved(moment, call("neg", call("mod", since, steps(size))))
