"""Argument and result types of the functions in `everview.expr.python_functions`.

Scales of numerics: `add sub mod` have the larger of both, `mul` the sum of both. Quotients and averages have a free
scale, with as many digits as in PostgreSQL. An int or a decimal next to a numeric becomes one. The result has a free
scale if an operand does (`everview.types.FREE`), or if it would need more than 38 digits after the point.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from everview.types import (
    BOOL,
    DATE,
    FLOAT,
    FREE,
    INT,
    INTERVAL,
    JSON,
    STR,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    DataType,
    Kind,
    array,
    mapping,
    numeric,
    struct,
)

Types = tuple[DataType, ...]
Rule = Callable[[Types], tuple[Types, DataType]]

DIVISION_SCALE = 16
"""Minimum number of significant digits of a quotient of numerics."""

STRS = array(STR)


def product(a: DataType, b: DataType) -> DataType:
    """The type of a product of numerics.

    >>> product(numeric(10), numeric(4)), product(numeric(20), numeric(20))
    (numeric(38, 14), numeric)
    """
    return numeric(min(a.scale + b.scale, FREE))


QUOTIENT = numeric(FREE)
"""The type of a quotient or an average of numerics: every value has as many digits as in PostgreSQL."""


def castable(source: DataType, target: DataType) -> bool | None:
    """Whether values of one type can be cast to the other; None if neither is listed here."""
    kinds = (source.kind, target.kind)
    if not {*kinds} & {*NEW}:
        return None
    if "str" in kinds or "char" in kinds:
        other = source if target.kind in ("str", "char") else target
        return other.kind not in ("tuple", "map") or target.kind in ("str", "char")
    if kinds == ("array", "array"):
        return inner_castable(source.items[0], target.items[0])
    if kinds in (("struct", "struct"), ("map", "map")):
        if len(source.items) != len(target.items):
            return False
        return all(inner_castable(a, b) for a, b in zip(source.items, target.items, strict=True))
    if kinds == ("enum", "enum"):
        return False
    return source.kind == target.kind or kinds in _CASTS


def inner_castable(source: DataType, target: DataType) -> bool:
    """The same for elements of a compound value, to which the VM's own casts do not apply."""
    numbers = {"int", "float", "decimal", "numeric"}
    if source.optional() == target.optional() or {source.kind, target.kind} <= numbers:
        return True
    if target.kind == "str" or source.kind == "str":
        return True
    return bool(castable(source, target))


NEW: tuple[Kind, ...] = (
    "timestamptz", "time", "enum", "char", "numeric", "interval", "uuid", "json", "array", "struct", "map",
)  # fmt: skip
"""Kinds that the VM does not support, or treats only as numbers."""

_CASTS = frozenset(
    {
        *(("numeric", k) for k in ("int", "float", "decimal", "bool")),
        *((k, "numeric") for k in ("int", "float", "decimal", "bool")),
        *(("json", k) for k in ("int", "float", "decimal", "numeric", "bool")),
        ("timestamp", "time"), ("time", "timestamp"), ("interval", "time"), ("time", "interval"),
        ("timestamptz", "date"), ("timestamptz", "timestamp"), ("timestamp", "timestamptz"), ("date", "timestamptz"),
    }
)  # fmt: skip


def bare(declared: DataType) -> DataType:
    """A type without nullability, at any depth."""
    items = tuple(map(bare, declared.items))
    return DataType(declared.kind, False, declared.scale, items, declared.names, declared.width)


def add_all(add: Callable[..., None], common: Callable[[Sequence[DataType]], DataType | None], need: Any) -> None:
    """Register the functions."""

    def shared(types: Sequence[DataType]) -> DataType:
        found = common(types)
        need(found is not None)
        assert found is not None
        return found

    def exactly(*wanted: DataType, to: DataType) -> Rule:
        def rule(types: Types) -> tuple[Types, DataType]:
            for given, want in zip(types, wanted, strict=False):
                need(common((given, want)) == want.optional(given.nullable))
            return tuple(w.optional(t.nullable) for w, t in zip(wanted, types, strict=False)), to

        return rule

    def sure(rule: Rule) -> Rule:
        """The result is NULL only if an argument is."""

        def run(types: Types) -> tuple[Types, DataType]:
            wanted, result = rule(types)
            return wanted, result.optional(any(t.nullable for t in types))

        return run

    def element(types: Types, place: int = 0) -> DataType:
        need(types[place].kind == "array")
        return types[place].items[0]

    def with_item(at: int, item_at: int, result: Callable[[DataType], DataType]) -> Rule:
        """An array and one or more items: the array's items get the common type."""

        def rule(types: Types) -> tuple[Types, DataType]:
            kinds = [element(types, at), *(t for i, t in enumerate(types) if i >= item_at and i != at)]
            both = shared(kinds)
            whole = array(both)
            return tuple(whole if i == at else both.optional() for i in range(len(types))), result(whole)

        return rule

    def two_arrays(result: Callable[[DataType], DataType]) -> Rule:
        def rule(types: Types) -> tuple[Types, DataType]:
            element(types, 0), element(types, 1)
            both = shared(types)
            return (both, both), result(both)

        return rule

    def position(types: Types) -> tuple[Types, DataType]:
        (whole, item), _ = with_item(0, 1, lambda t: t)(types[:2])
        need(len(types) == 2 or types[2].kind == "int")
        return (whole, item, INT)[: len(types)], INT.optional()

    def moment_add(types: Types) -> tuple[Types, DataType]:
        need(types[0].kind in ("timestamp", "timestamptz") and types[1].kind == "interval")
        need(len(types) == 2 or types[2].kind == "str")
        return types, types[0]

    def moment_sub(types: Types) -> tuple[Types, DataType]:
        both = shared(types)
        need(both.kind in ("timestamp", "timestamptz"))
        return (both, both), INTERVAL

    def scaled(types: Types) -> tuple[Types, DataType]:
        need(types[0].kind == "interval" and types[1].kind in ("int", "float", "decimal", "numeric"))
        return types, INTERVAL

    def limb(types: Types) -> tuple[Types, DataType]:
        need(types[0].kind == "numeric" and types[1].kind == "int")
        return types, INT

    def json_key(result: DataType) -> Rule:
        def rule(types: Types) -> tuple[Types, DataType]:
            need(types[0].kind == "json" and types[1].kind in ("int", "str", "char"))
            return (types[0], INT if types[1].kind == "int" else STR), result.optional()

        return rule

    def json_delete(types: Types) -> tuple[Types, DataType]:
        need(types[0].kind == "json" and types[1].kind in ("int", "str", "array"))
        return (types[0], INT if types[1].kind == "int" else STR if types[1].kind == "str" else STRS), JSON

    def anything(result: DataType) -> Rule:
        return lambda types: (types, result)

    def json_object(types: Types) -> tuple[Types, DataType]:
        need(len(types) % 2 == 0 and all(t.kind not in ("array", "json", "struct", "map") for t in types[::2]))
        return types, JSON

    def array_make(types: Types) -> tuple[Types, DataType]:
        both = shared(types)
        return tuple(both.optional(t.nullable) for t in types), array(both)

    def array_get(types: Types) -> tuple[Types, DataType]:
        need(types[1].kind == "int")
        return (types[0], INT), element(types).optional()

    def array_slice(types: Types) -> tuple[Types, DataType]:
        element(types)
        need(types[1].kind == types[2].kind == "int")
        return (types[0], INT, INT), types[0].optional()

    def of_array(result: DataType, *more: DataType) -> Rule:
        def rule(types: Types) -> tuple[Types, DataType]:
            element(types)
            exactly(*more, to=result)(types[1:])
            return (types[0], *more)[: len(types)], result

        return rule

    def trimmed(types: Types) -> tuple[Types, DataType]:
        need(types[1].kind == "int")
        element(types)
        return (types[0], INT), types[0]

    def same_array(types: Types) -> tuple[Types, DataType]:
        element(types)
        return types, types[0]

    def flattened(types: Types) -> tuple[Types, DataType]:
        item = element(types)
        while item.kind == "array":
            item = item.items[0]
        return types, array(item.optional())

    def quantified(types: Types) -> tuple[Types, DataType]:
        both = shared((types[0], element(types, 1)))
        need(both.kind != "interval")
        return (both, array(both)), BOOL.optional()

    def struct_get(types: Types) -> tuple[Types, DataType]:
        need(types[0].kind == "struct")
        return types, types[0]

    def map_make(types: Types) -> tuple[Types, DataType]:
        return types, mapping(element(types, 0), element(types, 1))

    def map_key(result: Callable[[DataType], DataType]) -> Rule:
        def rule(types: Types) -> tuple[Types, DataType]:
            need(types[0].kind == "map")
            key = types[0].items[0]
            need(len(types) == 1 or common((types[1], key)) == key.optional(types[1].nullable))
            return (types[0], key.optional(types[1].nullable)) if len(types) == 2 else types, result(types[0])

        return rule

    def put(
        name: str, doc: str, rule: Rule, low: int, high: int | None = -1, *, null: bool = False, **more: Any
    ) -> None:
        add(name, doc, rule if null else sure(rule), low, high, custom=True, fails=True, **more)

    put("numeric_limb", "part b of a numeric's digits, to be summed", limb, 2, literals=(1,))
    put("numeric_sum", "a numeric from the sums of its parts", anything(numeric(0)), 4, 8)
    put("numeric_average", "a sum of numerics by their number", anything(numeric(16)), 2)
    put("enum_place", "a label's place among the others", _place(need), 1)
    put("interval_order", "how long an interval is, in microseconds", exactly(INTERVAL, to=INT), 1)
    put("interval_make", "an interval of months, days, microseconds", exactly(INT, INT, INT, to=INTERVAL), 3)
    for part in ("months", "days", "microseconds"):
        put(f"interval_{part}", f"an interval's {part}", exactly(INTERVAL, to=INT), 1)
    put("interval_part", "a part (second, epoch ...) of an interval", _interval_part(need), 2, literals=(0,))
    put("interval_mul", "an interval times a number", scaled, 2)
    put("interval_div", "an interval by a number", scaled, 2)
    put("moment_add", "an interval after a moment, in a zone", moment_add, 2, 3)
    put("moment_sub", "the interval from b to a", moment_sub, 2)
    put("time_add", "an interval after a time of the day", exactly(TIME, INTERVAL, to=TIME), 2)
    put("time_sub", "the interval from b to a", exactly(TIME, TIME, to=INTERVAL), 2)
    put("date_time", "a time of a day", exactly(DATE, TIME, to=TIMESTAMP), 2)
    put("char_fit", "a text without its last blanks, if it has no more than b letters", exactly(STR, INT, to=STR), 2)
    put("zone_local", "what clocks of zone b show at a", exactly(TIMESTAMPTZ, STR, to=TIMESTAMP), 2)
    put("zone_moment", "when clocks of zone b show a", exactly(TIMESTAMP, STR, to=TIMESTAMPTZ), 2)
    put("zone_text", "the text of a in zone b", exactly(TIMESTAMPTZ, STR, to=STR), 2)
    put("zone_read", "the moment that a text means in zone b", exactly(STR, STR, to=TIMESTAMPTZ), 2)
    put("float_text", "a float as PostgreSQL prints it", exactly(FLOAT, to=STR), 1)
    put("timestamp_text", "a timestamp as PostgreSQL prints it", exactly(TIMESTAMP, to=STR), 1)

    put("json_get", "what is at key or place b", json_key(JSON), 2, null=True)
    put("json_get_text", "what is at key or place b, as text", json_key(STR), 2, null=True)
    put("json_path", "what is at the end of path b", exactly(JSON, STRS, to=JSON.optional()), 2, null=True)
    put("json_path_text", "the same as text", exactly(JSON, STRS, to=STR.optional()), 2, null=True)
    put("json_contains", "b is contained in a", exactly(JSON, JSON, to=BOOL), 2)
    put("json_has", "b is a key of a", exactly(JSON, STR, to=BOOL), 2)
    put("json_has_any", "one of b is a key of a", exactly(JSON, STRS, to=BOOL), 2)
    put("json_has_all", "all of b are keys of a", exactly(JSON, STRS, to=BOOL), 2)
    put("json_concat", "both as one", exactly(JSON, JSON, to=JSON), 2)
    put("json_delete", "a without key or place b", json_delete, 2)
    put("json_delete_path", "a without what is at path b", exactly(JSON, STRS, to=JSON), 2)
    put("json_set", "a with c at path b", exactly(JSON, STRS, JSON, BOOL, to=JSON), 3, 4)
    put("json_insert", "a with c inserted at path b", exactly(JSON, STRS, JSON, BOOL, to=JSON), 3, 4)
    put("json_typeof", "object, array, string, number, boolean or null", exactly(JSON, to=STR), 1)
    put("json_array_length", "number of elements", exactly(JSON, to=INT), 1)
    put("json_keys", "the keys of an object", exactly(JSON, to=STRS), 1)
    put("json_elements", "the elements of an array", exactly(JSON, to=array(JSON)), 1)
    put("json_texts", "the elements of an array as texts", exactly(JSON, to=STRS), 1)
    put("json_values", "the values of an object", exactly(JSON, to=array(JSON)), 1)
    put("json_value_texts", "the values of an object as texts", exactly(JSON, to=STRS), 1)
    put("json_strip_nulls", "without fields that are null", exactly(JSON, to=JSON), 1)
    put("json_pretty", "with line breaks", exactly(JSON, to=STR), 1)
    for name, doc, result in (
        ("exists", "whether path b selects anything", BOOL),
        ("match", "the condition b holds", BOOL.optional()),
        ("array", "everything that path b selects", JSON),
        ("first", "the first item that path b selects", JSON.optional()),
        ("items", "the items that path b selects, one by one", array(JSON)),
        ("exists_quietly", "whether path b selects anything; NULL where it cannot be followed", BOOL.optional()),
        ("match_quietly", "the condition b holds; NULL where it is none", BOOL.optional()),
    ):
        put(f"jsonpath_{name}", doc, exactly(JSON, STR, to=result), 2, null=result.nullable)
    put("to_json", "the value as JSON", anything(JSON), 1)
    put("json_object", "an object of keys and values", json_object, 0, None, null=True)
    put("json_array", "an array of values", anything(JSON), 0, None, null=True)

    put("array_make", "the values as an array", array_make, 1, None, null=True)
    put("array_get", "element b, from 1", array_get, 2, null=True)
    put("array_slice", "elements b to c", array_slice, 3, null=True)
    put("array_concat", "one after the other", two_arrays(lambda t: t.optional()), 2, null=True)
    put("array_append", "a and b behind it", with_item(0, 1, lambda t: t), 2, null=True)
    put("array_prepend", "b and a before it", with_item(1, 0, lambda t: t), 2, null=True)
    put("array_length", "length of dimension b", of_array(INT.optional(), INT), 2, null=True)
    put("array_cardinality", "number of elements", of_array(INT), 1)
    put("array_flatten", "the elements of arrays of arrays", flattened, 1)
    put("array_position", "where b is first", position, 2, 3, null=True)
    put("array_positions", "where b is", with_item(0, 1, lambda t: array(INT).optional()), 2, null=True)
    put("array_remove", "a without b", with_item(0, 1, lambda t: t.optional()), 2, null=True)
    put("array_replace", "a with c for b", with_item(0, 1, lambda t: t.optional()), 3, null=True)
    put("array_to_string", "the elements' texts, joined", of_array(STR.optional(), STR, STR), 2, 3, null=True)
    put("string_to_array", "parts of a text", exactly(STR, STR, STR, to=STRS.optional()), 2, 3, null=True)
    put("array_contains", "a has all of b", two_arrays(lambda t: BOOL), 2)
    put("array_overlaps", "a has one of b", two_arrays(lambda t: BOOL), 2)
    put("array_distinct", "each element once", same_array, 1)
    put("array_sort", "the elements in order, NULLs last", same_array, 1)
    put("array_intersect", "elements of a that b has, once", two_arrays(lambda t: t), 2)
    put("array_except", "elements of a that b does not have, once", two_arrays(lambda t: t), 2)
    put("array_trim", "a without its last b elements", trimmed, 2)
    for word, doc in (("any", "for one element of b"), ("all", "for all elements of b")):
        for op in ("eq", "ne", "lt", "le", "gt", "ge"):
            put(f"{word}_{op}", f"a {op} holds {doc}", quantified, 2, null=True)
    put("struct_make", "a row of values", lambda types: (types, _row(types)), 1, None, null=True)
    put("struct_get", "field b of a row", struct_get, 2, null=True, literals=(1,))
    put("map_make", "a map of keys and values", map_make, 2)
    put("map_get", "the value of key b", map_key(lambda t: t.items[1].optional()), 2, null=True)
    put("map_keys", "the keys", map_key(lambda t: array(t.items[0])), 1)
    put("map_values", "the values", map_key(lambda t: array(t.items[1])), 1)
    put("map_has", "b is a key", map_key(lambda t: BOOL), 2)
    put("map_size", "number of keys", map_key(lambda t: INT), 1)


def _row(types: Types) -> DataType:
    return struct(tuple(f"f{i + 1}" for i in range(len(types))), types)


def _place(need: Any) -> Rule:
    def rule(types: Types) -> tuple[Types, DataType]:
        need(types[0].kind == "enum")
        return types, INT

    return rule


def _interval_part(need: Any) -> Rule:
    def rule(types: Types) -> tuple[Types, DataType]:
        need(types[0].kind == "str" and types[1].kind == "interval")
        return types, numeric(6)

    return rule
