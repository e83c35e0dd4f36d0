"""JSON values in canonical form, like PostgreSQL's jsonb: equal values have equal texts.

Keys of an object occur once (the last wins) in jsonb's order, shorter ones first; white space is PostgreSQL's (`{"a":
1, "b": [1, 2]}`). Numbers are exact and without trailing zeros (1.50 and 15e-1 are 1.5); here the text differs from
jsonb, which keeps them.

In Python a number with a fraction is a float if that is exact, else a Decimal.

>>> canonical(parsed('{"bb": 1.50, "a": [1e2, null], "a": "x"}'))
'{"a": "x", "bb": 1.5}'
"""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any

from everview.codes.immutable import JSON_NULL, FrozenDict, FrozenList, JsonNull

_MOST_EXPONENT = 1000
"""Maximum number of zeros in a number: 1e1000000 would be a text of a million."""


def parsed(text: str) -> Any:
    """Parse a JSON text; ValueError if invalid."""
    try:
        return _frozen(json.loads(text, parse_float=Decimal, parse_constant=_no_constant), top=True)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _frozen(value: Any, top: bool = False) -> Any:
    if isinstance(value, list):
        return FrozenList(map(_frozen, value))
    if isinstance(value, dict):
        return FrozenDict({key: _frozen(value[key]) for key in sorted(value, key=key_order)})
    if isinstance(value, Decimal):
        return _number(value)
    return JSON_NULL if value is None and top else value


def _number(value: Decimal) -> int | float | Decimal:
    if value.adjusted() > _MOST_EXPONENT or value.adjusted() < -_MOST_EXPONENT:
        raise ValueError("a number is too large")
    if value == value.to_integral_value():
        return int(value)
    near = float(value)
    return near if math.isfinite(near) and Decimal(repr(near)) == value else value


def key_order(key: str) -> tuple[int, bytes]:
    """jsonb's order of keys: by length, then by bytes."""
    data = key.encode()
    return len(data), data


def checked(value: Any) -> Any:
    """A Python value restricted to JSON's types: dicts, lists, texts, numbers, bools and None; TypeError if it is
    not."""
    if value is None or isinstance(value, JsonNull):
        return JSON_NULL
    return _checked(value)


def _checked(value: Any) -> Any:
    if isinstance(value, JsonNull):
        return None
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise TypeError(f"JSON has no {value}")
        return int(Decimal(repr(value))) if value == int(value) else value  # 1e23 is a one and zeros
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise TypeError(f"JSON has no {value}")
        return _number(value)
    if isinstance(value, (list, tuple)):
        return FrozenList(map(_checked, value))
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return FrozenDict({key: _checked(value[key]) for key in sorted(value, key=key_order)})
    raise TypeError(f"JSON has no {type(value).__name__}")


def canonical(value: Any) -> str:
    """The canonical text of a value that was parsed or checked."""
    if value is None or isinstance(value, JsonNull):
        return "null"
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, (float, Decimal)):
        return format(Decimal(repr(value)) if isinstance(value, float) else value.normalize(), "f")
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k, ensure_ascii=False)}: {canonical(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(canonical, value)) + "]"
    return str(value)


def order_key(value: Any) -> tuple[Any, ...]:
    """A sort key with jsonb's order: null, texts, numbers, false, true, arrays by length, objects by size.

    The empty array alone sorts before everything, for historical reasons of PostgreSQL; inside others it does not.
    """
    return (-1,) if isinstance(value, list) and not value else _inner_key(value)


def _inner_key(value: Any) -> tuple[Any, ...]:
    if value is None or isinstance(value, JsonNull):
        return (0,)
    if isinstance(value, bool):
        return 3, value
    if isinstance(value, str):
        return 1, value
    if isinstance(value, (int, float, Decimal)):
        return 2, Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    if isinstance(value, list):
        return 4, len(value), *(_inner_key(v) for v in value)
    return 5, len(value), *((key_order(k), _inner_key(v)) for k, v in value.items())
