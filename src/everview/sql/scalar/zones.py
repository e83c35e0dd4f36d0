"""Time zones: a timestamptz is a moment.

Where a text, a day or a clock's reading is made of a moment or read as one, the session's zone counts (SET TIME ZONE,
UTC unless said), as it is when the statement is bound: a view keeps the zone in which it was made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp

from everview.expr import functions
from everview.expr.nodes import Expr, Literal
from everview.expr.wordings import zone_of
from everview.sql.scalar import constants
from everview.sql.scalar.forms import Forms
from everview.sql.text.places import Source
from everview.types import STR, TIMESTAMP, TIMESTAMPTZ

if TYPE_CHECKING:
    from everview.sql.scalar.scalars import Scalars


MOMENTS = ("date", "timestamp", "timestamptz")


def zone(scalars: Scalars) -> Literal:
    """The session's time zone."""
    return Literal(STR, scalars.source.zone)


def local(scalars: Scalars, moment: Expr) -> Expr:
    """A timestamptz as the session's clocks show it."""
    if moment.type.kind != "timestamptz":
        return moment
    if scalars.source.zone == "UTC":
        return constants.folded(functions.cast(moment, TIMESTAMP), scalars.compiler.interner)
    return scalars.call("zone_local", moment, zone(scalars))


def absolute(scalars: Scalars, moment: Expr) -> Expr:
    """A date or timestamp as a moment: when the session's clocks show it."""
    if moment.type.kind == "timestamptz":
        return moment
    plain = constants.folded(functions.cast(moment, TIMESTAMP), scalars.compiler.interner)
    if scalars.source.zone == "UTC":
        return constants.folded(functions.cast(plain, TIMESTAMPTZ), scalars.compiler.interner)
    return scalars.call("zone_moment", plain, zone(scalars))


def in_one_zone(scalars: Scalars, a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """A timestamp beside a timestamptz becomes one."""
    kinds = {a.type.kind, b.type.kind}
    if "timestamptz" in kinds and kinds & {"timestamp", "date"} and scalars.source.zone != "UTC":
        return absolute(scalars, a), absolute(scalars, b)
    return a, b


def on_attimezone(scalars: Scalars, node: exp.AtTimeZone) -> Expr:
    """moment AT TIME ZONE zone: what clocks there show; timestamp AT TIME ZONE zone: when they show that."""
    value, zone = scalars.bind(node.this), scalars.bind(node.args["zone"])
    if zone.type.kind != "str":
        raise scalars.source.error(node.args["zone"], "E_TYPE", "a time zone is a text", "AT TIME ZONE 'Europe/Oslo'")
    if isinstance(zone, Literal) and zone.value is not None:
        checked_zone(zone.value, node.args["zone"], scalars.source)
    if isinstance(value, Literal) and value.type.kind == "str" and value.value is not None:
        value = constants.text_as(value.value, TIMESTAMPTZ, node.this, scalars.source)
    if value.type.kind == "date":
        value = absolute(scalars, value)
    if value.type.kind not in MOMENTS:
        raise scalars.source.error(
            node.this, "E_TYPE", f"{value.type!r} has no time zone", "AT TIME ZONE is for timestamps"
        )
    return scalars.call("zone_local" if value.type.kind == "timestamptz" else "zone_moment", value, zone)


def checked_zone(name: Any, at: exp.Expr, source: Source) -> str:
    """The name of a time zone that there is."""
    try:
        zone_of(str(name))
    except ValueError:
        raise source.error(
            at, "E_TYPE", f"there is no time zone {str(name)!r}", "names are those of the IANA: 'Europe/Oslo', 'UTC'"
        ) from None
    return str(name)


FORMS: Forms = {
    exp.AtTimeZone: on_attimezone,
}
