"""Functions of JSON values, as in PostgreSQL's jsonb. A null inside a value is None, a top-level one is `JSON_NULL`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from everview.codes import jsons
from everview.codes.immutable import JSON_NULL, JsonNull
from everview.expr import jsonpath
from everview.expr.jsonpath_parser import compiled
from everview.expr.nodes import Call
from everview.expr.string_functions import RowFailure
from everview.expr.text_conversion import plain_text, text_of
from everview.kernels.expressions.scalars import ERROR_DOMAIN
from everview.types import DataType

Function = Callable[..., Any]
_MISSING: Any = object()


def found(value: Any, key: Any) -> Any:
    """The value at a key or index; `_MISSING` if there is none."""
    if isinstance(value, dict) and isinstance(key, str):
        return value.get(key, _MISSING)
    if isinstance(value, list) and isinstance(key, int) and -len(value) <= key < len(value):
        return value[key]
    is_alone = not isinstance(value, (dict, list))
    if is_alone and isinstance(key, int) and key in (0, -1):
        return None if isinstance(value, JsonNull) else value  # jsonb counts it as an array of one
    return _MISSING


def _alone(value: Any) -> Any:
    """A part of a value as a top-level value; None if there is none."""
    return None if value is _MISSING else JSON_NULL if value is None else value


def _said(value: Any) -> str | None:
    """A part as text: texts are unchanged, null is NULL."""
    if value is _MISSING or value is None or isinstance(value, JsonNull):
        return None
    return value if isinstance(value, str) else jsons.canonical(value)


def at_path(value: Any, path: list[Any]) -> Any:
    """The value at the end of a path of keys and indexes."""
    for step in path:
        if isinstance(value, list):
            try:
                step = int(step)
            except (TypeError, ValueError):
                return _MISSING
        value = found(value, step)
        if value is _MISSING:
            break
    return value


def contains(value: Any, part: Any, top: bool = True) -> bool:
    """jsonb's @>."""
    if isinstance(value, dict) and isinstance(part, dict):
        return all(k in value and contains(value[k], v, False) for k, v in part.items())
    if isinstance(value, list) and isinstance(part, list):
        return all(any(contains(have, want, False) for have in value) for want in part)
    if isinstance(value, list) and top and not isinstance(part, dict):
        return any(_equal(have, part) for have in value)
    return _equal(value, part)


def _equal(a: Any, b: Any) -> bool:
    return jsons.canonical(a) == jsons.canonical(b)


def _has(value: Any, key: str) -> bool:
    if isinstance(value, dict):
        return key in value
    if isinstance(value, list):
        return any(isinstance(v, str) and v == key for v in value)
    return isinstance(value, str) and value == key


def _joined(a: Any, b: Any) -> Any:
    if isinstance(a, dict) and isinstance(b, dict):
        return {**a, **b}
    left = list(a) if isinstance(a, list) else [_inside(a)]
    right = list(b) if isinstance(b, list) else [_inside(b)]
    return left + right


def _inside(value: Any) -> Any:
    return None if isinstance(value, JsonNull) else value


def _without(value: Any, keys: Any) -> Any:
    if isinstance(keys, int):
        if not isinstance(value, list):
            raise RowFailure(ERROR_DOMAIN)
        place = keys + len(value) if keys < 0 else keys
        return [v for i, v in enumerate(value) if i != place]
    gone = [keys] if isinstance(keys, str) else [k for k in keys if k is not None]
    if isinstance(value, dict):
        return {k: v for k, v in value.items() if k not in gone}
    if isinstance(value, list):
        return [v for v in value if not (isinstance(v, str) and v in gone)]
    raise RowFailure(ERROR_DOMAIN)


def changed(value: Any, path: list[Any], change: Callable[[Any, Any], Any]) -> Any:
    """A copy with the innermost container on a path changed by change(container, last step)."""
    if not path:
        return value
    if len(path) == 1:
        return change(value, path[0])
    inner = at_path(value, path[:1])
    if inner is _MISSING or not isinstance(inner, (dict, list)):
        return value
    new = changed(inner, path[1:], change)
    if isinstance(value, dict):
        return {**value, path[0]: new}
    place = int(path[0])
    return [new if i == place % len(value) else v for i, v in enumerate(value)]


def _set(new: Any, create: bool) -> Callable[[Any, Any], Any]:
    def change(value: Any, step: Any) -> Any:
        if isinstance(value, dict):
            return {**value, step: _inside(new)} if create or step in value else value
        if not isinstance(value, list):
            return value
        place = _place(step)
        at = place + len(value) if place < 0 else place
        if 0 <= at < len(value):
            return [_inside(new) if i == at else v for i, v in enumerate(value)]
        if not create:
            return value
        return [_inside(new), *value] if at < 0 else [*value, _inside(new)]

    return change


def _insert(new: Any, after: bool) -> Callable[[Any, Any], Any]:
    """A new member, which must not be there yet, or element, before or behind the one at its place."""

    def change(value: Any, step: Any) -> Any:
        if isinstance(value, dict):
            if step in value:
                raise RowFailure(ERROR_DOMAIN)
            return {**value, step: _inside(new)}
        if not isinstance(value, list):
            return value
        place = _place(step)
        at = place + len(value) if place < 0 else place
        at = 0 if at < 0 else min(at + after, len(value))
        return [*value[:at], _inside(new), *value[at:]]

    return change


def _place(step: Any) -> int:
    try:
        return int(step)
    except (TypeError, ValueError):
        raise RowFailure(ERROR_DOMAIN) from None


def _removed(value: Any, step: Any) -> Any:
    if isinstance(value, dict):
        return {k: v for k, v in value.items() if k != step}
    if isinstance(value, list):
        place = _place(step)
        at = place + len(value) if place < 0 else place
        return [v for i, v in enumerate(value) if i != at]
    return value


def _typeof(value: Any) -> str:
    if isinstance(value, JsonNull):
        return "null"
    kinds = {bool: "boolean", str: "string", dict: "object", list: "array"}
    return next((name for kind, name in kinds.items() if isinstance(value, kind)), "number")


def _items(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise RowFailure(ERROR_DOMAIN)
    return value


def _fields(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise RowFailure(ERROR_DOMAIN)
    return value


def _stripped(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _stripped(v) for k, v in value.items() if v is not None}
    return [_stripped(v) for v in value] if isinstance(value, list) else value


def as_json(declared: DataType) -> Callable[[Any], Any]:
    """A function from values of a type to JSON, like to_jsonb; None becomes null."""
    if declared.kind in ("int", "bool", "str", "enum", "decimal", "numeric"):
        return lambda value: value
    if declared.kind == "float":
        return lambda value: value if value is None or value - value == 0 else text_of(declared)(value)
    if declared.kind == "json":
        return _inside
    if declared.kind == "array":
        item = as_json(declared.items[0])
        return lambda value: None if value is None else [item(v) for v in value]
    if declared.kind == "struct":
        items = [as_json(t) for t in declared.items]
        return lambda value: (
            None if value is None else {k: f(v) for (k, v), f in zip(value.items(), items, strict=True)}
        )
    if declared.kind == "map":
        key, item = text_of(declared.items[0]), as_json(declared.items[1])
        return lambda value: None if value is None else {key(k): item(v) for k, v in value.items()}
    if declared.kind == "timestamp":
        return lambda value: None if value is None else plain_text(value).replace(" ", "T")
    text = text_of(declared)
    if declared.kind == "timestamptz":
        return lambda value: None if value is None else _full_offset(text(value).replace(" ", "T"))
    return lambda value: None if value is None else text(value)


def _full_offset(text: str) -> str:
    return text + ":00" if text[-3] in "+-" else text


def _to_json(call: Call) -> Function:
    convert = as_json(call.args[0].type)
    return lambda value: None if value is None else _top(convert(value))


def _top(value: Any) -> Any:
    return JSON_NULL if value is None else value


def _object(call: Call) -> Function:
    types = [a.type for a in call.args]
    texts = [text_of(t) for t in types[::2]]
    items = [as_json(t) for t in types[1::2]]

    def run(*values: Any) -> Any:
        if any(key is None for key in values[::2]):
            raise RowFailure(ERROR_DOMAIN)
        return {
            text(key): item(value)
            for text, key, item, value in zip(texts, values[::2], items, values[1::2], strict=True)
        }

    return run


def _array(call: Call) -> Function:
    items = [as_json(a.type) for a in call.args]
    return lambda *values: [item(value) for item, value in zip(items, values, strict=True)]


def _of(function: Function) -> Callable[[Call], Function]:
    return lambda call: function


def _on_path(function: Callable[[jsonpath.Path, Any], Any], quietly: bool = False) -> Callable[[Call], Function]:
    """A function of a value and a path; a path that cannot be followed fails, or is NULL."""

    def run(value: Any, text: str) -> Any:
        try:
            return function(compiled(text), _inside(value))
        except jsonpath.PathError:
            if quietly:
                return None
            raise RowFailure(ERROR_DOMAIN) from None

    return _of(run)


def _first(path: jsonpath.Path, value: Any) -> Any:
    given = jsonpath.items(path, value)
    return _top(given[0]) if given else None


MAKERS: dict[str, Callable[[Call], Function]] = {
    "jsonpath_exists": _on_path(lambda path, value: bool(jsonpath.items(path, value))),
    "jsonpath_match": _on_path(jsonpath.matches),
    "jsonpath_array": _on_path(jsonpath.items),
    "jsonpath_first": _on_path(_first),
    "jsonpath_items": _on_path(lambda path, value: [_top(item) for item in jsonpath.items(path, value)]),
    "jsonpath_exists_quietly": _on_path(lambda path, value: bool(jsonpath.items(path, value)), quietly=True),
    "jsonpath_match_quietly": _on_path(jsonpath.matches, quietly=True),
    "json_get": _of(lambda value, key: _alone(found(value, key))),
    "json_get_text": _of(lambda value, key: _said(found(value, key))),
    "json_path": _of(lambda value, path: _alone(at_path(value, path))),
    "json_path_text": _of(lambda value, path: _said(at_path(value, path))),
    "json_contains": _of(contains),
    "json_has": _of(_has),
    "json_has_any": _of(lambda value, keys: any(_has(value, k) for k in keys if k is not None)),
    "json_has_all": _of(lambda value, keys: all(_has(value, k) for k in keys if k is not None)),
    "json_concat": _of(_joined),
    "json_delete": _of(_without),
    "json_delete_path": _of(lambda value, path: changed(value, list(path), _removed)),
    "json_set": _of(lambda value, path, new, create=True: changed(value, list(path), _set(new, create))),
    "json_insert": _of(lambda value, path, new, after=False: changed(value, list(path), _insert(new, after))),
    "json_typeof": _of(_typeof),
    "json_array_length": _of(lambda value: len(_items(value))),
    "json_keys": _of(lambda value: list(_fields(value))),
    "json_elements": _of(lambda value: [_top(v) for v in _items(value)]),
    "json_texts": _of(lambda value: [_said(v) for v in _items(value)]),
    "json_values": _of(lambda value: [_top(v) for v in _fields(value).values()]),
    "json_value_texts": _of(lambda value: [_said(v) for v in _fields(value).values()]),
    "json_strip_nulls": _of(_stripped),
    "json_pretty": _of(lambda value: _pretty(value)),
    "to_json": _to_json,
    "json_object": _object,
    "json_array": _array,
}


def _pretty(value: Any, depth: int = 0) -> str:
    """jsonb_pretty: one line for each part, also for the end of an empty one."""
    if not isinstance(value, (dict, list)):
        return jsons.canonical(value)
    deeper = "    " * (depth + 1)
    if isinstance(value, dict):
        parts = [f"{deeper}{jsons.canonical(key)}: {_pretty(v, depth + 1)}" for key, v in value.items()]
    else:
        parts = [f"{deeper}{_pretty(v, depth + 1)}" for v in value]
    first, last = "{}" if isinstance(value, dict) else "[]"
    body = "".join(f"\n{part}," for part in parts)[:-1]
    return f"{first}{body}\n{'    ' * depth}{last}"


SEES_NULLS = frozenset({"json_object", "json_array"})
