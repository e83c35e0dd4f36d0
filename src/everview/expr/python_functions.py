"""Functions computed value by value in Python: of numerics, intervals, zones, uuids, JSON, arrays, structs and maps.

The VM has no instructions for values behind ids. `maker(call)` returns a factory for the Python function of a call, or
None if the call is not of this kind; `everview.expr.evaluate` calls it on distinct combinations of arguments. A
function returns a Python value of the call's type, or raises: `RowFailure`, or ValueError, OverflowError and
InputError, which fail the row as a bad cast or as out of range. Unless a function is in `SEES_NULLS`, rows with a NULL
argument are NULL and do not reach it.

The functions are in `everview.expr.array_functions` (arrays, structs, maps), `everview.expr.json_functions` (JSON) and
`everview.expr.numeric_functions` (numerics, intervals, zones, casts).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from everview.expr import array_functions, json_functions, numeric_functions
from everview.expr.nodes import Call
from everview.types import PACKED

Function = Callable[..., Any]
Maker = Callable[[Call], Function]

MAKERS: dict[str, Maker] = {**numeric_functions.MAKERS, **json_functions.MAKERS, **array_functions.MAKERS}
"""Functions that are always computed here."""

OF_PACKED: dict[str, Maker] = {**numeric_functions.OF_PACKED}
"""Functions that are computed here if one of their values is packed, and otherwise by the VM."""

SEES_NULLS: frozenset[str] = json_functions.SEES_NULLS | array_functions.SEES_NULLS | {"greatest", "least"}
"""Functions that treat NULL as an ordinary value."""

BY_CODE = frozenset(
    {"eq", "ne", "is_null", "is_not_null", "coalesce", "if_null", "nullif", "case", "hash", "and", "or", "not"}
    | {"tuple_make", "tuple_get"}
)
"""Functions that need only the code of a packed value."""


def maker(call: Call) -> Maker | None:
    """The factory of a call's function, if it is computed value by value."""
    if call.op in MAKERS:
        return MAKERS[call.op]
    if call.op in BY_CODE or not is_packed(call):
        return numeric_functions.small_cast if numeric_functions.is_small_cast(call) else None
    if call.op.startswith("cast_"):
        return numeric_functions.cast
    return OF_PACKED.get(call.op)


_OURS = PACKED | {"enum", "char", "timestamptz", "time"}


def is_packed(call: Call) -> bool:
    """Whether an argument or the result of a call is of a kind that the VM does not support."""
    if call.op in {"greatest", "least"}:
        return call.args[0].type.kind in PACKED or call.args[0].type.kind == "char"
    if call.op in {"lt", "le", "gt", "ge"}:
        return call.args[0].type.kind in PACKED
    if not call.op.startswith("cast_"):
        return call.type.kind in PACKED or any(a.type.kind in PACKED for a in call.args)
    kinds = {call.type.kind, call.args[0].type.kind}
    if kinds in ({"timestamp", "timestamptz"}, {"date", "timestamptz"}, {"char", "str"}, {"char"}):
        return call.type.kind == "char"
    if kinds == {"timestamp", "time"}:
        return call.type.kind == "time"
    return bool(kinds & _OURS)
