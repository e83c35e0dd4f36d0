"""The process's allocator, seen from outside: what was freed and kept (`everview.kernels.memory` says why it is)."""

from __future__ import annotations

import ctypes
from typing import ClassVar


class _MallInfo(ctypes.Structure):
    """glibc's `struct mallinfo2`."""

    _fields_: ClassVar = [
        (name, ctypes.c_size_t) for name in (*"abc", "maps", "mapped", *"fg", "used", "unused", "rest")
    ]


def _told() -> _MallInfo:
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallinfo2"):
        return _MallInfo()
    libc.mallinfo2.restype = _MallInfo
    found: _MallInfo = libc.mallinfo2()
    return found


def used_memory() -> int:
    """Bytes that are allocated, where that can be told."""
    told = _told()
    return int(told.used) + int(told.mapped)


def unused_memory() -> int:
    """Bytes that were freed and not returned to the system, where that can be told."""
    return int(_told().unused)


def give_back() -> None:
    """Return freed memory to the system."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)
