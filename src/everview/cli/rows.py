"""Parses rows on the command line: Python literals, or plain values separated by commas."""

from __future__ import annotations

import ast
import json
from collections.abc import Sequence
from typing import Any

from everview.errors import InputError
from everview.sql.inspection.reasons import fitting
from everview.types import DataType

ANY = "_"
"""Stands for any value."""


def row_of(text: str, types: Sequence[DataType]) -> tuple[Any, ...]:
    """The values of a row.

    >>> row_of("7, 'a, b'", [DataType("int"), DataType("str")])
    (7, 'a, b')
    >>> row_of("7,north", [DataType("int"), DataType("str")])
    (7, 'north')
    >>> row_of("('north', _)", [DataType("str"), DataType("int")])
    ('north', None)
    """
    values = _literals(text)
    if values is None:
        bare = text.strip().removeprefix("(").removesuffix(")")
        values = tuple(_plain(part.strip()) for part in bare.split(","))
    if len(values) != len(types):
        what = f"{text!r} has {len(values)} values, the view has {len(types)} columns"
        raise InputError("E_WIDTH", what, "part values by commas, and put texts with commas into quotes")
    try:
        return tuple(_fitting(v, t) for v, t in zip(values, types, strict=True))
    except (ValueError, ArithmeticError) as error:
        raise InputError("E_TYPE", f"{text!r} does not fit the view's columns: {error}", "see `everview ls`") from None


def _literals(text: str) -> tuple[Any, ...] | None:
    """The values, if the text is Python."""
    try:
        found = ast.literal_eval(f"({text},)")
    except (SyntaxError, ValueError):
        return None
    if len(found) == 1 and isinstance(found[0], tuple | list):
        found = tuple(found[0])
    return tuple(found)


def _plain(part: str) -> Any:
    """One plain value."""
    if part in (ANY, "NULL", "None"):
        return None
    try:
        return ast.literal_eval(part)
    except (SyntaxError, ValueError):
        return part


def _fitting(value: Any, declared: DataType) -> Any:
    return str(value) if declared.kind == "str" and isinstance(value, int | float) else fitting(value, declared)


def as_json(data: Any) -> str:
    """Data with all kinds of values as JSON."""
    return json.dumps(data, default=str, ensure_ascii=False)
