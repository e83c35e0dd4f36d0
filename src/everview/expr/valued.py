"""Functions computed value by value in Python: of numerics, intervals, zones, uuids, JSON, arrays, structs and maps.

The compiled machine has no instructions for values behind ids. `maker(call)` gives what makes a function of Python
values for a call, or None if the call is not of this kind; `everview.expr.evaluate` calls it on distinct combinations
of arguments. A function gives a Python value of the call's type, or raises: `RowFailure`, or ValueError, OverflowError
and InputError, which fail the row as a bad cast or as out of range. Unless a function is in `SEES_NULLS`, rows with a
NULL argument are NULL and do not reach it.

The functions themselves are in `everview.expr.lists` (arrays, structs, maps), `everview.expr.documents` (JSON) and
`everview.expr.amounts` (numerics, intervals, zones, casts).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from everview.expr import amounts, documents, lists
from everview.expr.nodes import Call
from everview.types import PACKED

Function = Callable[..., Any]
Maker = Callable[[Call], Function]

MAKERS: dict[str, Maker] = {**amounts.MAKERS, **documents.MAKERS, **lists.MAKERS}
"""Functions that are always computed here."""

OF_PACKED: dict[str, Maker] = {**amounts.OF_PACKED}
"""Functions that are computed here if a value of theirs is packed, and otherwise by the machine."""

SEES_NULLS: frozenset[str] = documents.SEES_NULLS | lists.SEES_NULLS | {"greatest", "least"}
"""Functions for which NULL is a value as any other."""

BY_CODE = frozenset(
    {"eq", "ne", "is_null", "is_not_null", "coalesce", "if_null", "nullif", "case", "hash", "and", "or", "not"}
    | {"tuple_make", "tuple_get"}
)
"""Functions that need to know nothing of a packed value but its code."""


def maker(call: Call) -> Maker | None:
    """What makes the function of a call, if it is computed value by value."""
    if call.op in MAKERS:
        return MAKERS[call.op]
    if call.op in BY_CODE or not is_packed(call):
        return amounts.small_cast if amounts.is_small_cast(call) else None
    if call.op.startswith("cast_"):
        return amounts.cast
    return OF_PACKED.get(call.op)


_OURS = PACKED | {"enum", "char", "timestamptz", "time"}


def is_packed(call: Call) -> bool:
    """Whether an argument or the result of a call is of a kind that the machine does not know."""
    if call.op in {"lt", "le", "gt", "ge", "greatest", "least"}:
        return call.args[0].type.kind in PACKED
    if not call.op.startswith("cast_"):
        return call.type.kind in PACKED or any(a.type.kind in PACKED for a in call.args)
    kinds = {call.type.kind, call.args[0].type.kind}
    if kinds in ({"timestamp", "timestamptz"}, {"date", "timestamptz"}, {"char", "str"}, {"char"}):
        return call.type.kind == "char"
    if kinds == {"timestamp", "time"}:
        return call.type.kind == "time"
    return bool(kinds & _OURS)
