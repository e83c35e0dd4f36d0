"""Statistics of the process's allocator: memory that was freed but retained (`everview.kernels.memory` explains
why)."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import ClassVar


class _MallInfo(ctypes.Structure):
    """glibc's `struct mallinfo2`."""

    _fields_: ClassVar = [
        (name, ctypes.c_size_t) for name in (*"abc", "maps", "mapped", *"fg", "used", "unused", "rest")
    ]


@cache
def _mallinfo2() -> Callable[[], _MallInfo]:
    """The function, or one that knows nothing: looking it up takes ten times as long as calling it."""
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallinfo2"):
        return _MallInfo
    libc.mallinfo2.restype = _MallInfo
    return libc.mallinfo2


def _mallinfo() -> _MallInfo:
    return _mallinfo2()()


def used_memory() -> int:
    """Allocated bytes, where the platform reports them."""
    info = _mallinfo()
    return int(info.used) + int(info.mapped)


def unused_memory() -> int:
    """Bytes that were freed but not returned to the system, where the platform reports them."""
    return int(_mallinfo().unused)


def give_back() -> None:
    """Return freed memory to the system."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)


def one_heap() -> None:
    """Let all threads use one malloc arena: what one frees the others reuse, and nothing is allocated twice."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(-8, 1)  # M_ARENA_MAX
