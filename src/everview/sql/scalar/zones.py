"""Time zones: a timestamptz is an instant.

Conversions between instants and texts, dates or local times use the session's zone (SET TIME ZONE, default UTC) as of
binding: a view keeps the zone in which it was created.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp

from everview.expr import functions
from everview.expr.moment_texts import zone_of
from everview.expr.nodes import Expr, Literal
from everview.sql.scalar import constants
from everview.sql.scalar.handlers import Forms
from everview.sql.scalar.type_names import in_words
from everview.sql.text.dialects import PRINTING
from everview.sql.text.error_positions import Source
from everview.types import STR, TIMESTAMP, TIMESTAMPTZ

if TYPE_CHECKING:
    from everview.sql.scalar.scalars import Scalars


MOMENTS = ("date", "timestamp", "timestamptz")


def zone(scalars: Scalars) -> Literal:
    """The session's time zone."""
    return Literal(STR, scalars.source.zone)


def local(scalars: Scalars, moment: Expr) -> Expr:
    """A timestamptz as local time of the session's zone."""
    if moment.type.kind != "timestamptz":
        return moment
    if scalars.source.zone == "UTC":
        return constants.folded(functions.cast(moment, TIMESTAMP), scalars.compiler.interner)
    return scalars.call("zone_local", moment, zone(scalars))


def absolute(scalars: Scalars, moment: Expr) -> Expr:
    """A date or timestamp as an instant, in the session's zone."""
    if moment.type.kind == "timestamptz":
        return moment
    plain = constants.folded(functions.cast(moment, TIMESTAMP), scalars.compiler.interner)
    if scalars.source.zone == "UTC":
        return constants.folded(functions.cast(plain, TIMESTAMPTZ), scalars.compiler.interner)
    return scalars.call("zone_moment", plain, zone(scalars))


def in_one_zone(scalars: Scalars, a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """Convert a timestamp next to a timestamptz."""
    kinds = {a.type.kind, b.type.kind}
    if "timestamptz" in kinds and kinds & {"timestamp", "date"} and scalars.source.zone != "UTC":
        return absolute(scalars, a), absolute(scalars, b)
    return a, b


def on_attimezone(scalars: Scalars, node: exp.AtTimeZone) -> Expr:
    """moment AT TIME ZONE zone: local time there; timestamp AT TIME ZONE zone: the instant of that local time."""
    value, zone = scalars.bind(node.this), scalars.bind(node.args["zone"])
    if zone.type.kind not in ("str", "interval"):
        raise scalars.source.error(node.args["zone"], "E_TYPE", "a time zone is a text", "AT TIME ZONE 'Europe/Oslo'")
    if zone.type.kind == "interval" or scalars.source.dialect in PRINTING:
        zone = constants.folded(scalars.call("at_zone", zone), scalars.compiler.interner)
    if isinstance(zone, Literal) and zone.value is not None:
        checked_zone(zone.value, node.args["zone"], scalars.source)
    if isinstance(value, Literal) and value.type.kind == "str" and value.value is not None:
        value = constants.text_as(value.value, TIMESTAMPTZ, node.this, scalars.source)
    if value.type.kind == "date":
        value = absolute(scalars, value)
    if value.type.kind not in MOMENTS:
        raise scalars.source.error(
            node.this, "E_TYPE", f"{in_words(value.type)} has no time zone", "AT TIME ZONE is for timestamps"
        )
    return scalars.call("zone_local" if value.type.kind == "timestamptz" else "zone_moment", value, zone)


def checked_zone(name: Any, at: exp.Expr, source: Source) -> str:
    """The name of an existing time zone."""
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
