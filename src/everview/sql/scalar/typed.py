"""Expressions of arrays, JSON, rows, maps, intervals and time zones; see `everview.sql.scalar.scalars`.

Time zones: a timestamptz is a moment. Where a text, a day or a clock's reading is made of it or read as one, the
session's zone counts (SET TIME ZONE, UTC unless said), as it is when the statement is bound: a view keeps the zone in
which it was made.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from everview.codes.intervals import Interval, unit_name
from everview.expr import amounts, common_types, functions
from everview.expr.jsonpath_reading import PathSyntax, compiled
from everview.expr.nodes import Expr, Literal
from everview.expr.wordings import zone_of
from everview.sql.answers.parameters import Learned
from everview.sql.scalar import constants
from everview.sql.select import array_queries
from everview.sql.text import dialects
from everview.sql.text.places import Source, SqlError
from everview.types import (
    FLOAT,
    INT,
    INTERVAL,
    JSON,
    STR,
    TIMESTAMP,
    TIMESTAMPTZ,
    DataType,
    array,
    numeric,
    struct,
)

if TYPE_CHECKING:
    from everview.sql.select.query import Compiler

MOMENTS = ("date", "timestamp", "timestamptz")
STRS = array(STR)
TIME_PARTS = ("hour", "minute", "second", "epoch", "milliseconds", "microseconds")
ZONED = ("timestamp", "date", "time", "str")


class TypedScalars:
    """Binds what needs types that the compiled machine does not know; `Scalars` has the rest."""

    source: Source
    compiler: Compiler

    if TYPE_CHECKING:

        def bind(self, node: exp.Expr) -> Expr: ...

        def call(self, op: str, *args: Expr) -> Expr: ...

        def _refused(self, node: exp.Expr) -> SqlError: ...

        def coerced(self, expr: Expr, beside: Expr, at: exp.Expr) -> Expr: ...

        def pair(self, left: exp.Expr, right: exp.Expr) -> tuple[Expr, Expr]: ...

        def cast_to(self, value: Expr, target: DataType) -> Expr: ...

    # ------------------------------------------------------------------------------------ time zones

    @property
    def zone(self) -> Literal:
        """The session's time zone."""
        return Literal(STR, self.source.zone)

    def local(self, moment: Expr) -> Expr:
        """A timestamptz as the session's clocks show it."""
        if moment.type.kind != "timestamptz":
            return moment
        if self.source.zone == "UTC":
            return constants.folded(functions.cast(moment, TIMESTAMP), self.compiler.interner)
        return self.call("zone_local", moment, self.zone)

    def absolute(self, moment: Expr) -> Expr:
        """A date or timestamp as a moment: when the session's clocks show it."""
        if moment.type.kind == "timestamptz":
            return moment
        plain = constants.folded(functions.cast(moment, TIMESTAMP), self.compiler.interner)
        if self.source.zone == "UTC":
            return constants.folded(functions.cast(plain, TIMESTAMPTZ), self.compiler.interner)
        return self.call("zone_moment", plain, self.zone)

    def in_one_zone(self, a: Expr, b: Expr) -> tuple[Expr, Expr]:
        """A timestamp beside a timestamptz becomes one."""
        kinds = {a.type.kind, b.type.kind}
        if "timestamptz" in kinds and kinds & {"timestamp", "date"} and self.source.zone != "UTC":
            return self.absolute(a), self.absolute(b)
        return a, b

    def on_attimezone(self, node: exp.AtTimeZone) -> Expr:
        """moment AT TIME ZONE zone: what clocks there show; timestamp AT TIME ZONE zone: when they show that."""
        value, zone = self.bind(node.this), self.bind(node.args["zone"])
        if zone.type.kind != "str":
            raise self.source.error(node.args["zone"], "E_TYPE", "a time zone is a text", "AT TIME ZONE 'Europe/Oslo'")
        if isinstance(zone, Literal) and zone.value is not None:
            checked_zone(zone.value, node.args["zone"], self.source)
        if isinstance(value, Literal) and value.type.kind == "str" and value.value is not None:
            value = constants.text_as(value.value, TIMESTAMPTZ, node.this, self.source)
        if value.type.kind == "date":
            value = self.absolute(value)
        if value.type.kind not in MOMENTS:
            raise self.source.error(
                node.this, "E_TYPE", f"{value.type!r} has no time zone", "AT TIME ZONE is for timestamps"
            )
        return self.call("zone_local" if value.type.kind == "timestamptz" else "zone_moment", value, zone)

    def zoned_cast(self, value: Expr, target: DataType) -> Expr | None:
        """A cast from or to timestamptz, where the zone counts; None for other casts."""
        source = value.type.kind
        if source == "timestamptz" and target.kind in ZONED:
            if target.kind == "str":
                return self.call("zone_text", value, self.zone)
            return self.cast_to(self.local(value), target)
        if target.kind == "timestamptz" and source in ("date", "timestamp"):
            return self.absolute(value)
        if target.kind == "timestamptz" and source == "str":
            return self.call("zone_read", value, self.zone)
        return None

    # -------------------------------------------------------------------------------------- intervals

    def on_interval(self, node: exp.Interval) -> Expr:
        return Literal(INTERVAL, constants.span(node, self.source))

    def added(self, a: Expr, b: Expr) -> Expr | None:
        """a + b of moments, times and intervals; None if it is something else."""
        if a.type.kind in ("interval", "time") and b.type.kind in (*MOMENTS, "time") and a.type.kind != b.type.kind:
            a, b = b, a
        match a.type.kind, b.type.kind:
            case (("date" | "timestamp" | "timestamptz"), "interval"):
                return self._later(a, b)
            case "date", "time":
                return self.call("date_time", a, b)
            case "time", "interval":
                return self.call("time_add", a, b)
        return None

    def subtracted(self, a: Expr, b: Expr) -> Expr | None:
        """a - b of moments, times and intervals; None if it is something else."""
        kinds = (a.type.kind, b.type.kind)
        if kinds == ("date", "date"):
            return None
        if a.type.kind in MOMENTS and b.type.kind in MOMENTS:
            a, b = self.in_one_zone(a, b)
            sides = [self.cast_to(x, TIMESTAMP) if x.type.kind == "date" else x for x in (a, b)]
            return self.call("moment_sub", *sides)
        if kinds == ("time", "time"):
            return self.call("time_sub", a, b)
        if b.type.kind == "interval" and a.type.kind in (*MOMENTS, "time"):
            return self.added(a, self.call("neg", b))
        return None

    def _later(self, moment: Expr, by: Expr) -> Expr:
        if isinstance(by, Literal) and by.value is not None:
            return self.moved(moment, by.value)
        moment = self.cast_to(moment, TIMESTAMP) if moment.type.kind == "date" else moment
        zone = (self.zone,) if moment.type.kind == "timestamptz" else ()
        return self.call("moment_add", moment, by, *zone)

    def moved(self, moment: Expr, by: Interval) -> Expr:
        """A moment moved by a constant: instructions of the machine, unless a zone matters."""
        if moment.type.kind == "timestamptz":
            if self.source.zone != "UTC" and (by.months or by.days):
                return self.call("moment_add", moment, Literal(INTERVAL, by), self.zone)
            return functions.cast(self.moved(functions.cast(moment, TIMESTAMP), by), TIMESTAMPTZ)
        if by.months:
            moment = self.call("add_months", moment, Literal(INT, by.months))
        moment = self.cast_to(moment, TIMESTAMP)
        microseconds = by.days * constants.DAY + by.microseconds
        return self.call("timestamp_add", moment, Literal(INT, microseconds)) if microseconds else moment

    def multiplied(self, a: Expr, b: Expr) -> Expr | None:
        """An interval times a number."""
        if b.type.kind == "interval" and a.type.kind != "interval":
            a, b = b, a
        return self.call("interval_mul", a, b) if a.type.kind == "interval" else None

    def divided(self, a: Expr, b: Expr) -> Expr | None:
        """An interval by a number; a decimal by one, which gives a numeric."""
        if a.type.kind == "interval":
            return self.call("interval_div", a, b)
        kinds = {a.type.kind, b.type.kind}
        if "decimal" in kinds and kinds <= common_types.EXACT and dialects.is_exact(self.source.dialect):
            return self.call(
                "div", *(functions.cast(e, numeric(e.type.scale).optional(e.type.nullable)) for e in (a, b))
            )
        return None

    def extracted(self, unit: str, value: Expr, node: exp.Expr) -> Expr | None:
        """extract() of an interval or a time; a timestamptz is asked in the session's zone."""
        if value.type.kind == "interval":
            name = unit_name(unit) or unit
            if name not in amounts.INTERVAL_PARTS:
                raise self.source.refuse(node, f"extract({unit} from interval) is not supported")
            part = self.call("interval_part", Literal(STR, name), value)
            return self.cast_to(part, FLOAT if name in ("second", "epoch") else INT)
        if value.type.kind == "time" and unit not in TIME_PARTS:
            raise self.source.refuse(node, f"a time has no {unit}")
        return None

    # ----------------------------------------------------------------------------------------- arrays

    def _listed(self, node: exp.Array) -> Expr:
        """ARRAY(query)"""
        found = self.bind(array_queries.aggregated(node, self.source))
        return self.call("coalesce", found, Literal(found.type.optional(False), constants.EMPTY))

    def on_array(self, node: exp.Array) -> Expr:
        if len(node.expressions) == 1 and isinstance(node.expressions[0], (exp.Select, exp.SetOperation)):
            return self._listed(node)
        if not node.expressions:
            return Literal(array(STR), constants.EMPTY)
        items = [self.bind(e) for e in node.expressions]
        known = next((i for i in items if not (isinstance(i, Literal) and i.type.kind == "str")), None)
        if known is not None:
            items = [self.coerced(i, known, at) for i, at in zip(items, node.expressions, strict=True)]
        return self.call("array_make", *items)

    def on_bracket(self, node: exp.Bracket) -> Expr:
        """a[1], a[1:2], j['key'], m['key']"""
        value = self.bind(node.this)
        if len(node.expressions) != 1:
            raise self.source.refuse(node, "one index stands in brackets", "a[1][2]")
        index = node.expressions[0]
        if isinstance(index, exp.Slice):
            return self._sliced(value, index, node)
        key, counted = self.bind(index), node.args.get("offset") == 1
        match value.type.kind:
            case "array":
                place = self.coerced(key, Literal(INT, 1), index)
                if counted:  # element_at(a, -1), which counts from 1, or from the end
                    behind = self.call("add", self.call("array_cardinality", value), Literal(INT, 1))
                    behind = self.call("add", behind, place)
                    place = self.call("case", self.call("lt", place, Literal(INT, 0)), behind, place)
                elif dialects.first_place(self.source.dialect) == 0:
                    place = self.call("add", place, Literal(INT, 1))
                return self.call("array_get", value, place)
            case "json":
                return self.call("json_get", value, key)
            case "map":
                return self.call("map_get", value, self.coerced(key, Literal(value.type.items[0], ""), index))
        raise self.source.error(node, "E_TYPE", f"{value.type!r} has no elements", "arrays, maps and JSON have")

    def _sliced(self, value: Expr, index: exp.Slice, node: exp.Expr) -> Expr:
        if value.type.kind != "array":
            raise self.source.error(node, "E_TYPE", f"{value.type!r} has no slices", "arrays have")
        if index.args.get("step") is not None:
            raise self.source.refuse(index, "a slice has a first and a last element")
        parts = [index.args.get("this"), index.args.get("expression")]
        bounds = [Literal(INT.optional(), None) if p is None else self.bind(p) for p in parts]
        return self.call("array_slice", value, *bounds)

    def any_or_all(self, node: exp.Expr, op: str) -> Expr | None:
        """x = ANY (array), x < ALL (array); None if a query follows."""
        right = node.expression
        if isinstance(right, exp.Anonymous) and right.name.upper() == "ALL" and len(right.expressions) == 1:
            word, given = "all", right.expressions[0]
        elif isinstance(right, (exp.Any, exp.All)):
            word, given = ("any" if isinstance(right, exp.Any) else "all"), right.this
        else:
            return None
        inner = given.unnest() if isinstance(given, exp.Paren) else given
        if isinstance(inner, (exp.Query, exp.Subquery)):
            return None
        value = self.bind(node.this)
        if self.compiler.parameters.lacks_type(inner):
            raise Learned(inner.name, array(value.type))
        items = self.bind(inner)
        if isinstance(items, Literal) and items.type.kind == "str" and items.value is not None:
            items = constants.text_as(items.value, array(value.type), inner, self.source)
        if items.type.kind != "array":
            raise self.source.refuse(node, "ANY and ALL are followed by a query or an array")
        value = self.coerced(value, Literal(items.type.items[0], ""), node.this)
        return self.call(f"{word}_{op}", value, items)

    def on_arraycontainsall(self, node: exp.ArrayContainsAll) -> Expr:
        """a @> b"""
        return self._contains(node.this, node.expression, node)

    def on_arraycontainedby(self, node: exp.Expr) -> Expr:
        """a <@ b"""
        return self._contains(node.expression, node.this, node)

    def _contains(self, whole: exp.Expr, part: exp.Expr, node: exp.Expr) -> Expr:
        a, b = self.pair(whole, part)
        if a.type.kind == "json" or b.type.kind == "json":
            return self.call("json_contains", a, b)
        return self.call("array_contains", a, b)

    def on_arrayoverlaps(self, node: exp.ArrayOverlaps) -> Expr:
        return self.call("array_overlaps", *self.pair(node.this, node.expression))

    def joined(self, a: Expr, b: Expr, node: exp.DPipe) -> Expr | None:
        """a || b of arrays and JSON; None for texts."""
        kinds = {a.type.kind, b.type.kind}
        if "json" in kinds:
            a = self.coerced(a, b, node.this) if b.type.kind == "json" else a
            b = self.coerced(b, a, node.expression) if a.type.kind == "json" else b
            return self.call("json_concat", a, b) if a.type.kind == b.type.kind == "json" else None
        if "array" not in kinds:
            return None
        if a.type.kind == "array" and b.type.kind == "array":
            nested = a.type.items[0].kind == "array" != b.type.items[0].kind
            return self.call("array_append" if nested else "array_concat", a, b)
        if a.type.kind == "array":
            b = constants.list_or_item(b, a.type, node.expression, self.source)
            return self.call("array_concat" if b.type.kind == "array" else "array_append", a, b)
        a = constants.list_or_item(a, b.type, node.this, self.source)
        return self.call("array_concat" if a.type.kind == "array" else "array_prepend", a, b)

    # ------------------------------------------------------------------------------------- rows, maps

    def on_dot(self, node: exp.Dot) -> Expr:
        """(row).field"""
        if not isinstance(node.expression, exp.Identifier):
            raise self._refused(node)
        value = self.bind(node.this)
        if value.type.kind != "struct":
            raise self.source.error(node, "E_TYPE", f"{value.type!r} has no fields", "rows have: (r).x")
        wanted = node.expression.name
        have = [n.lower() for n in value.type.names]
        if wanted.lower() not in have:
            hint = f"its fields are {', '.join(value.type.names)}"
            raise self.source.error(node.expression, "E_COLUMN", f"the row has no field {wanted}", hint)
        return self.call("struct_get", value, Literal(INT, have.index(wanted.lower())))

    def row(self, items: list[Expr], names: tuple[str, ...] = ()) -> Expr:
        """ROW(1, 'a'): fields f1, f2, ... unless they have names."""
        made = functions.call("struct_make", *items)
        if names:
            made = replace(made, type=struct(names, tuple(i.type for i in items)))
        return constants.folded(made, self.compiler.interner)

    def on_struct(self, node: exp.Struct) -> Expr:
        """{'x': 1}"""
        tokens = self.source.tokens
        before = [t.text.upper() for t, after in itertools.pairwise(tokens) if after.text == "{"]
        if "MAP" in before:
            raise self.source.refuse(node, "MAP {...} is not supported", "map(ARRAY['a'], ARRAY[1])")
        names: list[str] = []
        items: list[Expr] = []
        for field in node.expressions:
            if not isinstance(field, exp.PropertyEQ):
                raise self.source.refuse(node, "a row has named values", "{'x': 1}, or ROW(1, 2)")
            names.append(field.this.name)
            items.append(self.bind(field.expression))
        if len({*names}) < len(names):
            raise self.source.error(node, "E_DUPLICATE", "two fields have the same name")
        return self.row(items, tuple(names))

    def on_map(self, node: exp.Map) -> Expr:
        """map(ARRAY[keys], ARRAY[values])"""
        return self.call("map_make", self.bind(node.args["keys"]), self.bind(node.args["values"]))

    # ------------------------------------------------------------------------------------------- JSON

    def on_jsonextract(self, node: exp.JSONExtract) -> Expr:
        """j -> 'key', j -> 0"""
        return self._key(node, "json_get")

    def on_jsonextractscalar(self, node: exp.JSONExtractScalar) -> Expr:
        """j ->> 'key'"""
        return self._key(node, "json_get_text")

    def _key(self, node: exp.Expr, op: str) -> Expr:
        value = self.document(node.this)
        given = node.expression
        if isinstance(given, exp.JSONPath):
            raise self.source.refuse(node, "this path is not understood", "j -> 'key'")
        key = self.bind(given)
        return self.call(op, value, key)

    def document(self, node: exp.Expr) -> Expr:
        """A JSON value; a quoted constant is read as one."""
        value = self.bind(node)
        if isinstance(value, Literal) and value.type.kind == "str" and value.value is not None:
            return constants.text_as(value.value, JSON, node, self.source)
        if value.type.kind != "json":
            raise self.source.error(node, "E_TYPE", f"{value.type!r} is not JSON", "cast it: x::jsonb")
        return value

    def on_jsonbextract(self, node: exp.JSONBExtract) -> Expr:
        """j #> '{a,b}'"""
        return self.call("json_path", self.document(node.this), self._path(node.expression))

    def on_jsonbextractscalar(self, node: exp.JSONBExtractScalar) -> Expr:
        """j #>> '{a,b}'"""
        return self.call("json_path_text", self.document(node.this), self._path(node.expression))

    def _path(self, node: exp.Expr) -> Expr:
        value = self.bind(node)
        if isinstance(value, Literal) and value.type.kind == "str" and value.value is not None:
            return constants.text_as(value.value, STRS, node, self.source)
        return value

    def on_jsonbcontainstopkey(self, node: exp.Expr) -> Expr:
        """j ? 'key'"""
        return self.call("json_has", self.document(node.this), self.bind(node.expression))

    def on_jsonbcontainsanytopkeys(self, node: exp.Expr) -> Expr:
        """j ?| array"""
        return self.call("json_has_any", self.document(node.this), self._path(node.expression))

    def on_jsonbcontainsalltopkeys(self, node: exp.Expr) -> Expr:
        """j ?& array"""
        return self.call("json_has_all", self.document(node.this), self._path(node.expression))

    def on_jsonbdeleteatpath(self, node: exp.Expr) -> Expr:
        """j #- '{a,b}'"""
        return self.call("json_delete_path", self.document(node.this), self._path(node.expression))

    def on_jsonbpathexists(self, node: exp.JSONBPathExists) -> Expr:
        """j @? path"""
        return self.on_path("jsonpath_exists_quietly", node.this, node.expression)

    def on_matchagainst(self, node: exp.MatchAgainst) -> Expr:
        """j @@ path"""
        if len(node.expressions) != 1 or node.args.get("modifier"):
            raise self._refused(node)
        return self.on_path("jsonpath_match_quietly", node.expressions[0], node.this)

    def on_path(self, op: str, value: exp.Expr, path: exp.Expr) -> Expr:
        """A function of a JSON value and a path; a constant path that cannot be read is a mistake in the text."""
        bound = self.bind(path)
        if isinstance(bound, Literal) and isinstance(bound.value, str):
            try:
                compiled(bound.value)
            except PathSyntax as error:
                raise self.source.error(
                    path, "E_PATTERN", f"the path {bound.value!r} cannot be read: {error}"
                ) from None
        return self.call(op, self.document(value), bound)

    def without(self, a: Expr, b: Expr, node: exp.Sub) -> Expr | None:
        """j - 'key', j - 0, j - array; None if it is something else."""
        return self.call("json_delete", a, b) if a.type.kind == "json" else None


def checked_zone(name: Any, at: exp.Expr, source: Source) -> str:
    """The name of a time zone that there is."""
    try:
        zone_of(str(name))
    except ValueError:
        raise source.error(
            at, "E_TYPE", f"there is no time zone {str(name)!r}", "names are those of the IANA: 'Europe/Oslo', 'UTC'"
        ) from None
    return str(name)
