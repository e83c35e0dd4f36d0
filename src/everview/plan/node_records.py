"""One node of a plan as plain JSON data, and back.

A value that JSON has is written as itself, a tuple as a list, anything else as an object with a single tag:

    {"#": 3}                     the node, or the call in an expression, at that position of the plan
    {"fn": "f0"}                 a function of the catalog; {"ours": "var_pop"} one of Everview's own
    {"DataType": [...]}          a type, an expression, or another part of a node: its fields in order
    {"float": "0x1p+0"}          and "bytes", "date", "timestamp", "time", "interval", "decimal": constants

Reading creates objects of the kinds listed here and no others, and each field must match its annotation. Then the node
is checked as a whole: the columns that it reads must exist, because kernels do not check.
"""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import types
import typing
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from everview.codes.immutable import JSON_NULL, FrozenDict, FrozenList, JsonNull
from everview.codes.intervals import Interval
from everview.errors import StoreError
from everview.expr import nodes as expr
from everview.expr.functions import known
from everview.plan import nodes as plan
from everview.plan.hot_keys import HotJoin
from everview.plan.provenance import Disjunction, Labelled
from everview.plan.trust import Function
from everview.plan.windows import Frame, Window, WindowCall
from everview.types import DataType

NODES: dict[str, type[plan.Node]] = {
    c.__name__: c
    for c in (
        plan.Table, plan.Constant, plan.Project, plan.Filter, plan.FlatMap, plan.Negate, plan.Guard, plan.Union,
        plan.Join, plan.MultiJoin, plan.Threshold, plan.Reduce, plan.TopK, plan.PythonReduce, plan.Variable, plan.Loop,
        plan.LeanLoop, plan.LoopResult, Window, Labelled, Disjunction, HotJoin,
    )
}  # fmt: skip
"""The kinds of plan nodes."""

PARTS: dict[str, type] = {
    c.__name__: c
    for c in (DataType, expr.ColumnRef, expr.Literal, expr.Call, expr.Udf, plan.Aggregate, Frame, WindowCall)
}
"""The parts of nodes."""


WRAPPERS = {
    "RowFunction": "everview.language.collection",
    "Listing": "everview.sql.lists",
    "Folding": "everview.sql.folds",
    "Unfolding": "everview.sql.unfolding",
    "SideBySide": "everview.sql.unfolding",
    "Documents": "everview.sql.lists",
    "Median": "everview.datalog.groups",
    "Range": "everview.datalog.ranges",
}
"""Callable wrappers that Everview puts in place of functions, and their modules."""

OURS = dict.fromkeys(("var_samp", "var_pop", "stddev_samp", "stddev_pop"), "everview.expr.variance")
"""Everview's own functions in plans, and their modules: they are identified by name and need no trust."""


def is_ours(function: Any) -> bool:
    """Whether a function is one of Everview's own.

    >>> is_ours(len)
    False
    """
    name = getattr(function, "__qualname__", "")
    return name in OURS and getattr(import_module(OURS[name]), name) is function


def wrapper(function: Any) -> type | None:
    """The kind of a callable wrapper of Everview's own."""
    kind = type(function).__name__
    return type(function) if kind in WRAPPERS and type(function).__module__ == WRAPPERS[kind] else None


def refused(what: str) -> StoreError:
    """Return the error for an invalid plan."""
    return StoreError("E_DAMAGED", f"a plan in a catalogue cannot be read: {what}", "restore the directory from a copy")


# writing


def calls_inside(node: plan.Node) -> list[expr.Expr]:
    """The calls in a node's expressions, each once and after its arguments: they may be shared, and deep."""
    found: dict[int, expr.Expr] = {}
    todo = [(e, False) for e in reversed(_expressions(node))]
    while todo:
        each, ready = todo.pop()
        if id(each) in found or not isinstance(each, SHARED):
            continue
        if ready:
            found[id(each)] = each
        else:
            todo.append((each, True))
            todo.extend((child, False) for child in reversed(each.children()))
    return list(found.values())


SHARED = (expr.Call, expr.Udf)
"""Expressions that have their own position in the plan, like nodes."""

Placed = plan.Node | expr.Expr


def written_node(node: Placed, places: Mapping[int, int], name: Callable[[Function], str]) -> list[Any]:
    """A node as data; `places` has those written before it, `name` returns its functions' names."""
    if NODES.get(type(node).__name__) is not type(node) and not isinstance(node, SHARED):
        raise TypeError(f"{type(node).__name__} is not a node of a plan")
    return [type(node).__name__, *(_field(node, f.name, places, name) for f in fields(node))]  # type: ignore[arg-type]


def _field(value: Any, field: str, places: Mapping[int, int], name: Callable[[Function], str]) -> Any:
    found = getattr(value, field)
    if field != "function":
        return _written(found, places, name)
    kind = wrapper(found)
    if kind is not None:
        return {kind.__name__: _trimmed(kind, [_field(found, f.name, places, name) for f in fields(kind)])}
    return {"ours": found.__qualname__} if is_ours(found) else {"fn": name(found)}


def _written(value: Any, places: Mapping[int, int], name: Callable[[Function], str]) -> Any:
    if value is None or type(value) in (bool, int, str):
        return value
    if isinstance(value, tuple):
        return [_written(v, places, name) for v in value]
    if isinstance(value, FrozenList):
        return {"list": [_written(v, places, name) for v in value]}
    if isinstance(value, FrozenDict):
        return {"dict": [[_written(k, places, name), _written(v, places, name)] for k, v in value.items()]}
    if isinstance(value, (plan.Node, *SHARED)):
        return {"#": places[id(value)]}
    kind = type(value).__name__
    if PARTS.get(kind) is type(value):
        return {kind: _trimmed(type(value), [_field(value, f.name, places, name) for f in fields(PARTS[kind])])}
    if isinstance(value, np.generic):
        return _written(value.item(), places, name)
    if isinstance(value, int):  # a distinct type: an enumeration, say
        return int.__int__(value)
    if isinstance(value, str):
        return str.__str__(value)
    for tag, (of, write, _) in _CONSTANTS.items():
        if isinstance(value, of):
            return {tag: write(value)}
    raise StoreError(
        "E_CONSTANT", f"a constant of type {kind} cannot be saved: {value!r}", "use a value of a column's type"
    )


_FIRST_FIELDS: dict[type, int] = {DataType: 4, Frame: 3, WindowCall: 6}
"""The original fields of a part; later ones are written only if set."""


def _trimmed(kind: type, values: list[Any]) -> list[Any]:
    """A part's fields without unset newer ones, so that it is written as by older versions."""
    defaults = _defaults(kind)
    while len(values) > _first_fields(kind) and values[-1] == defaults[len(values) - 1]:
        values.pop()
    return values


def _first_fields(kind: Any) -> int:
    """How many fields a part had at first. Those of wrappers that came later say so: `metadata={"later": True}`."""
    return _FIRST_FIELDS.get(kind, sum("later" not in f.metadata for f in fields(kind)))


def _defaults(kind: Any) -> list[Any]:
    """The default values of a part's fields, as data."""
    return [[] if f.default == () else f.default for f in fields(kind)]


def _plain_datetime(value: dt.datetime) -> str:
    return dt.datetime.isoformat(value)


_CONSTANTS: dict[str, tuple[type, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "float": (float, float.hex, float.fromhex),
    "bytes": (bytes, lambda v: base64.b64encode(v).decode(), lambda v: base64.b64decode(v, validate=True)),
    "timestamp": (dt.datetime, _plain_datetime, dt.datetime.fromisoformat),
    "date": (dt.date, dt.date.isoformat, dt.date.fromisoformat),
    "time": (dt.time, dt.time.isoformat, dt.time.fromisoformat),
    "interval": (dt.timedelta, lambda v: [v.days, v.seconds, v.microseconds], lambda v: dt.timedelta(*v)),
    "decimal": (decimal.Decimal, str, decimal.Decimal),
    "uuid": (uuid.UUID, str, uuid.UUID),
    "span": (Interval, lambda v: [v.months, v.days, v.microseconds], lambda v: Interval(*v)),
    "null": (JsonNull, lambda v: 0, lambda v: JSON_NULL),
}
"""Constants that JSON lacks: their type, and how they are written and read."""


# reading


def read_node(data: Any, nodes: Sequence[Placed], function: Callable[[str], Function]) -> Placed:
    """Read a node (or a call) from data; `nodes` are those before it, `function` finds functions by name."""
    known = {**NODES, **{kind.__name__: kind for kind in SHARED}}
    if not isinstance(data, list) or not data or not isinstance(data[0], str) or data[0] not in known:
        raise refused(f"{str(data)[:80]} is not a node")
    node: Placed = _made(known[data[0]], data[1:], nodes, function)
    try:
        if isinstance(node, plan.Node):
            _check(node)
    except (IndexError, TypeError, ValueError, AttributeError) as error:
        raise refused(f"{data[0]}: {error}") from None
    return node


def _made(kind: Any, values: Any, nodes: Sequence[Placed], function: Callable[[str], Function]) -> Any:
    hints = _hints(kind)
    if isinstance(values, list) and _first_fields(kind) <= len(values) < len(hints):
        values = [*values, *_defaults(kind)[len(values) :]]
    if not isinstance(values, list) or len(values) != len(hints):
        raise refused(f"a {kind.__name__} has {len(hints)} fields")
    read = [_read(v, nodes, function) for v in values]
    for value, (name, hint) in zip(read, hints.items(), strict=True):
        if not _fits(value, hint):
            raise refused(f"{kind.__name__}.{name} cannot be {str(value)[:80]}")
    return kind(*read)


def _read(value: Any, nodes: Sequence[Placed], function: Callable[[str], Function]) -> Any:
    if isinstance(value, list):
        return tuple(_read(v, nodes, function) for v in value)
    if not isinstance(value, dict):
        return value
    if len(value) != 1:
        raise refused(f"{str(value)[:80]} has not one tag")
    ((tag, body),) = value.items()
    if tag == "#":
        if not isinstance(body, int) or not 0 <= body < len(nodes):
            raise refused(f"there is no node {body!r}")
        return nodes[body]
    if tag == "fn":
        return function(str(body))
    if tag == "ours":
        if not isinstance(body, str) or body not in OURS:
            raise refused(f"there is no function {body!r}")
        return getattr(import_module(OURS[body]), body)
    if tag == "list" and isinstance(body, list):
        return FrozenList(_read(v, nodes, function) for v in body)
    if tag == "dict" and isinstance(body, list) and all(isinstance(p, list) and len(p) == 2 for p in body):
        return FrozenDict({_read(k, nodes, function): _read(v, nodes, function) for k, v in body})
    if tag in WRAPPERS:
        return _made(getattr(import_module(WRAPPERS[tag]), tag), body, nodes, function)
    if tag in PARTS:
        return _made(PARTS[tag], body, nodes, function)
    if tag not in _CONSTANTS:
        raise refused(f"{tag!r} is unknown")
    try:
        return _CONSTANTS[tag][2](body)
    except (TypeError, ValueError, ArithmeticError) as error:
        raise refused(f"{body!r} is not a {tag}: {error}") from None


@cache
def _hints(kind: Any) -> dict[str, Any]:
    """The annotations of the fields of a kind, in order."""
    hints = typing.get_type_hints(kind)
    return {f.name: hints[f.name] for f in fields(kind)}


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value matches an annotation."""
    if hint is Any:
        return True
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return value in inside and not isinstance(value, plan.Node)
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, each) for each in inside)
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        if len(inside) == 2 and inside[1] is Ellipsis:
            return all(_fits(v, inside[0]) for v in value)
        return len(value) == len(inside) and all(_fits(v, h) for v, h in zip(value, inside, strict=True))
    if origin is not None:  # a function: only a value put there as such can be called
        return callable(value)
    if hint is type(None) or hint is None:
        return value is None
    return isinstance(value, hint) and not (hint is int and isinstance(value, bool))


def _check(node: plan.Node) -> None:
    """Refuse a node that reads missing columns, or calls a function that is not ours."""
    width = len(node.child.types) if hasattr(node, "child") else 0
    for each in _expressions(node):
        for part in each.walk():
            if isinstance(part, expr.Call) and known(part.op) is None:
                raise ValueError(f"there is no function {part.op!r}")
            if isinstance(part, expr.ColumnRef) and not isinstance(node, (plan.MultiJoin, plan.Loop)):
                _within(part.index, width)
    if isinstance(node, (plan.Reduce, plan.TopK, plan.PythonReduce, Window)):
        used = [*node.keys]
        if isinstance(node, plan.Reduce):
            used += [a.column for a in node.aggregates if a.column is not None]
        elif isinstance(node, plan.TopK):
            used += [c for c, _ in node.order]
        elif isinstance(node, Window):
            used += [c for c, _ in node.order] + [c for call in node.calls for c in call.columns]
        for column in used:
            _within(column, width)
    elif isinstance(node, plan.Join):
        for side, keys in ((node.left, node.left_keys), (node.right, node.right_keys)):
            for column in keys:
                _within(column, len(side.types))
        if len(node.left_keys) != len(node.right_keys):
            raise ValueError("keys of two lengths")
    elif isinstance(node, plan.MultiJoin):
        _check_multiway(node)
    elif isinstance(node, plan.Union):
        if not node.inputs or len({len(i.types) for i in node.inputs}) != 1:
            raise ValueError("inputs of several widths")
    elif isinstance(node, plan.Constant):
        if any(len(row) != len(node.columns) for row in node.rows):
            raise ValueError("rows of several widths")
    elif isinstance(node, plan.Loop):
        if not node.bodies or len(node.initials) != len(node.bodies):
            raise ValueError("as many beginnings as bodies")
        for column in node.priority.columns() if node.priority is not None else ():
            _within(column, len(node.bodies[0].types))
    elif isinstance(node, plan.LoopResult):
        _within(node.index, len(node.loop.bodies))
    elif isinstance(node, plan.Table):
        for column in node.key:
            _within(column, len(node.columns))


def _check_multiway(node: plan.MultiJoin) -> None:
    if len(node.variables) != len(node.inputs):
        raise ValueError("not all inputs have variables")
    for child, variables in zip(node.inputs, node.variables, strict=True):
        if len(child.types) != len(variables):
            raise ValueError("not all columns have variables")
        for variable in variables:
            _within(variable + 1, len(node.columns) + 1)
    for _, *operands in node.tests:
        for operand in operands:
            if isinstance(operand, int):
                _within(operand, len(node.columns))
            elif not isinstance(operand, expr.Literal):
                raise ValueError("a test of something else than variables and constants")


def _expressions(node: plan.Node) -> list[expr.Expr]:
    """The expressions that a node itself holds, also in nested tuples."""
    found: list[expr.Expr] = []
    todo = [getattr(node, field.name) for field in reversed(fields(node))]  # type: ignore[arg-type]
    while todo:
        value = todo.pop()
        if isinstance(value, expr.Expr):
            found.append(value)
        elif isinstance(value, tuple):
            todo.extend(reversed(value))
    return found


def _within(column: int, width: int) -> None:
    if not 0 <= column < width:
        raise ValueError(f"column {column} of {width}")
