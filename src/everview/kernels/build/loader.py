"""The declarations of `everview.kernels.build.native` in a process that runs kernels: names become addresses.

Functions that only kernels call are left as they are: they are compiled into other code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from everview.kernels.build.archive import symbol_of
from everview.kernels.build.libraries import library


@dataclass(frozen=True)
class Operator:
    """A compiled operator: what the executor calls."""

    name: str
    address: int


OPERATORS: dict[str, Operator] = {}
"""Every operator of the modules imported so far, by name."""


def operator(function: Callable[[int], int]) -> Operator:
    """Called by the executor, through its address, with one context."""
    found = Operator(function.__name__, library().address(symbol_of(function)))
    OPERATORS[found.name] = found
    return found


def entry(
    *kinds: str, brief: bool = False, allocates: bool = True, lasting: bool = True
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Called from Python; one kind for each argument, see `native`."""
    return lambda function: library().callable(symbol_of(function), function.__name__, function.__doc__ or "")


def inner(function: Callable[..., Any]) -> Any:
    """Compiled into each kernel that calls it."""
    return function


def shared(function: Callable[..., int]) -> Any:
    """Called by kernels, by its symbol."""
    return function


def task(function: Callable[[int], int]) -> Any:
    """Handed to a second thread by kernels."""
    return function


def fused(result: str) -> Callable[[Callable[..., Any]], Any]:
    """Compiled as part of its caller; `result` is the type it gives."""
    return inner


def primitive(signature: str) -> Callable[[Callable[..., Any]], Any]:
    """A few machine instructions, made by the decorated function from a builder and its arguments."""
    return inner
