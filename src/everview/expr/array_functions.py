"""Functions of arrays, structs and maps. Array positions count from 1; a missing element is NULL."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from everview.codes import packed
from everview.expr.nodes import Call
from everview.expr.string_functions import RowFailure
from everview.expr.text_conversion import text_of
from everview.kernels.expressions.scalars import ERROR_DOMAIN

Function = Callable[..., Any]


def _get(value: list[Any], place: int) -> Any:
    return value[place - 1] if 1 <= place <= len(value) else None


def _slice(value: list[Any], low: int | None, high: int | None) -> list[Any]:
    first = 1 if low is None else max(low, 1)
    last = len(value) if high is None else high
    return value[first - 1 : max(last, 0)]


def _length(value: list[Any], dimension: int) -> int | None:
    """The length of a dimension; NULL if it does not exist or is empty."""
    for _ in range(dimension - 1):
        inner = next((v for v in value if v is not None), None)
        if not isinstance(inner, list):
            return None
        value = inner
    return len(value) or None if dimension > 0 else None


def _cardinality(value: Any) -> int:
    if isinstance(value, list) and value and all(isinstance(v, list) for v in value):
        return sum(map(_cardinality, value))
    return len(value)


def flat(value: list[Any] | None) -> list[Any]:
    """The elements of an array of arrays, from the innermost ones.

    >>> flat([[1, 2], None, [3, None]])
    [1, 2, 3, None]
    """
    found: list[Any] = []
    for item in value or ():
        if isinstance(item, list):
            found += flat(item)
        elif item is not None or not any(isinstance(v, list) for v in value or ()):
            found.append(item)
    return found


def _position(value: list[Any], item: Any, start: int = 1) -> int | None:
    return next((i for i, v in enumerate(value, 1) if i >= start and v == item), None)


def _to_string(call: Call) -> Function:
    text = text_of(call.args[0].type.items[0])

    def run(value: list[Any] | None, separator: str | None, null: str | None = None) -> str | None:
        if value is None or separator is None:
            return None
        parts = [null if v is None else text(v) for v in value]
        return separator.join(p for p in parts if p is not None)

    return run


def _from_string(value: str | None, separator: str | None, null: str | None = None) -> list[Any] | None:
    if value is None:
        return None
    parts = list(value) if separator is None else [value] if not separator else value.split(separator)
    parts = [] if not value else parts
    return [None if p == null else p for p in parts]


def _quantified(call: Call) -> Function:
    """x = ANY (array): true if one is, NULL if one might be; ALL likewise."""
    op, every = call.op.split("_")[1], call.op.startswith("all_")
    test = {
        "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge
    }[op]  # fmt: skip
    key = packed.order_key(call.args[0].type) or (lambda value: value)

    def run(value: Any, items: list[Any] | None) -> bool | None:
        if items is None:
            return None
        if not items:
            return every
        found = [None if value is None or v is None else bool(test(key(value), key(v))) for v in items]
        if (not every) in found:
            return not every
        return None if None in found else every

    return run


def _contains(value: list[Any], part: list[Any]) -> bool:
    """Whether it contains all elements of another; NULL equals nothing."""
    return all(item is not None and item in value for item in _flat(part)) if part else True


def _flat(value: list[Any]) -> list[Any]:
    return [w for v in value for w in (_flat(v) if isinstance(v, list) else [v])]


def _struct(call: Call) -> Function:
    return lambda *values: list(values)


def _field(call: Call) -> Function:
    name = call.args[0].type.names[call.args[1].value]  # type: ignore[attr-defined]
    return lambda value, _: value[name]


def _map(keys: list[Any], values: list[Any]) -> list[tuple[Any, Any]]:
    if len(keys) != len(values) or None in keys or len({*keys}) != len(keys):
        raise RowFailure(ERROR_DOMAIN)
    return list(zip(keys, values, strict=True))


def _either(a: list[Any] | None, b: list[Any] | None) -> list[Any] | None:
    if a is None or b is None:
        return b if a is None else a
    return [*a, *b]


def _distinct(value: list[Any]) -> list[Any]:
    """The distinct elements, in order of first occurrence."""
    found: list[Any] = []
    for item in value:
        if item not in found:
            found.append(item)
    return found


def _of(function: Function) -> Callable[[Call], Function]:
    return lambda call: function


MAKERS: dict[str, Callable[[Call], Function]] = {
    "array_make": _of(lambda *values: list(values)),
    "array_get": _of(_get),
    "array_slice": _of(lambda value, low, high: None if value is None else _slice(value, low, high)),
    "array_concat": _of(_either),
    "array_append": _of(lambda value, item: [*(value or ()), item]),
    "array_prepend": _of(lambda item, value: [item, *(value or ())]),
    "array_length": _of(_length),
    "array_cardinality": _of(_cardinality),
    "array_flatten": _of(flat),
    "array_position": _of(lambda value, item, start=1: None if value is None else _position(value, item, start)),
    "array_positions": _of(lambda value, item: value and [i for i, v in enumerate(value, 1) if v == item]),
    "array_remove": _of(lambda value, item: None if value is None else [v for v in value if v != item]),
    "array_replace": _of(lambda value, old, new: None if value is None else [new if v == old else v for v in value]),
    "array_to_string": _to_string,
    "string_to_array": _of(_from_string),
    "array_contains": _of(_contains),
    "array_overlaps": _of(lambda a, b: any(v is not None and v in b for v in a)),
    "array_distinct": _of(_distinct),
    "array_intersect": _of(lambda a, b: [v for v in _distinct(a) if v in b]),
    "array_except": _of(lambda a, b: [v for v in _distinct(a) if v not in b]),
    "array_sort": _of(lambda value: sorted(value, key=lambda v: (v is None, v))),
    "array_trim": _of(lambda value, n: value[: len(value) - n] if 0 <= n <= len(value) else _fail()),
    **{f"{word}_{op}": _quantified for word in ("any", "all") for op in ("eq", "ne", "lt", "le", "gt", "ge")},
    "struct_make": _struct,
    "struct_get": _field,
    "map_make": _of(_map),
    "map_get": _of(lambda value, key: value.get(key)),
    "map_keys": _of(list),
    "map_values": _of(lambda value: list(value.values())),
    "map_has": _of(lambda value, key: key in value),
    "map_size": _of(len),
}


def _fail() -> Any:
    raise RowFailure(ERROR_DOMAIN)


SEES_NULLS = frozenset(
    {"array_make", "array_slice", "array_concat", "array_append", "array_prepend", "array_position", "array_positions"}
    | {"array_remove", "array_replace", "array_to_string", "string_to_array", "struct_make"}
    | {f"{word}_{op}" for word in ("any", "all") for op in ("eq", "ne", "lt", "le", "gt", "ge")}
)
