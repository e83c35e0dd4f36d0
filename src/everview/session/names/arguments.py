"""Argument checks shared by several definitions: counts, and columns by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from everview.errors import InputError, did_you_mean

MAX_COUNT = 2**62
"""The largest count: kernels add to counts, and the sum must fit a word."""


def check_count(what: str, number: Any, least: int) -> None:
    """Refuse an option that is not an integer or is too small.

    >>> check_count("history", -1, 0)
    Traceback (most recent call last):
        ...
    everview.errors.InputError: [E_RANGE] history=-1
      hint: give a whole number, 0 or more
    """
    if not isinstance(number, int) or isinstance(number, bool) or number < least:
        raise InputError("E_RANGE", f"{what}={number!r}", f"give a whole number, {least} or more")
    if number > MAX_COUNT:
        raise InputError("E_RANGE", f"{what}={number}", f"give at most {MAX_COUNT}")


def names_of(what: str, given: Any) -> tuple[str, ...]:
    """One name or several, as a tuple."""
    names = (given,) if isinstance(given, str) else () if given is None else given
    if not isinstance(names, Sequence) or isinstance(names, bytes) or not all(isinstance(n, str) for n in names):
        raise InputError("E_TYPE", f"{what}: {given!r} names no columns", 'give "name" or ["name", ...]')
    return tuple(names)


def places_of(what: str, given: str | Sequence[str] | None, names: list[str]) -> tuple[int, ...]:
    """The positions of the given columns, each once."""
    columns = names_of(what, given)
    for column in columns:
        if column not in names:
            raise InputError("E_COLUMN", f"{what}: there is no column {column!r}", did_you_mean(column, names))
        if columns.count(column) > 1:
            raise InputError("E_DUPLICATE", f"{what}: {column!r} is there twice", "name it once")
    return tuple(names.index(c) for c in columns)
