"""The helper threads of a session with `threads=N`, from the Python side; see `everview.kernels.threads.team`.

A forked child has only the thread that forked: there the session goes on with one.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import weakref

from everview.kernels import make
from everview.kernels.run import step as step_k
from everview.kernels.threads import team as k

SPLIT = 32_768
"""Rows from which an operator shares its work: waking a helper costs about as much as a thousand rows."""


def available_cores() -> int:
    """How many cores this process may use.

    >>> available_cores() >= 1
    True
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Team:
    """Threads for the steps whose block is given, the caller's included; helpers wait for work until closed."""

    def __init__(self, step: int, threads: int) -> None:
        self.step = step
        _one_heap()
        self._helpers = [_Helper() for _ in range(threads - 1)]
        self.address = make.make_block(threads)
        make.poke(self.address, k.TEAM_SIZE, threads)
        for i, helper in enumerate(self._helpers, 1):
            make.poke(self.address, i, helper.address)
        make.poke(step, step_k.STEP_TEAM, self.address)
        self.share_from(SPLIT)
        forget = weakref.WeakMethod(self._forget)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=lambda: (method := forget()) and method())

    def share_from(self, rows: int) -> None:
        """Share the work of operators with this many rows or more."""
        make.poke(self.step, step_k.STEP_SPLIT, rows)

    def _forget(self) -> None:
        """Also what a forked child does with every team it knows; one that was closed has no step any more."""
        if self.address:
            make.poke(self.step, step_k.STEP_TEAM, 0)
            self.address = 0

    def close(self) -> None:
        """Let the helpers go; twice does no harm."""
        if self.address and not sys.is_finalizing():  # threads cannot end any more while the interpreter does
            address = self.address
            self._forget()
            for helper in self._helpers:
                helper.close()
            make.drop_block(address)


class _Helper:
    """One thread that waits for work."""

    def __init__(self) -> None:
        self.address = make.make_block(k.HELPER_WORDS)
        self._locks = [_locked(), _locked()]
        make.poke(self.address, k.HELPER_JOB, self._locks[0])
        make.poke(self.address, k.HELPER_DONE, self._locks[1])
        self._thread = threading.Thread(target=k.serve, args=(self.address,), name="everview helper", daemon=True)
        self._thread.start()

    def close(self) -> None:
        k.dismiss(self.address)
        self._thread.join()
        make.drop_block(self.address)
        for lock in self._locks:
            ctypes.pythonapi.PyThread_free_lock(ctypes.c_void_p(lock))


def _one_heap() -> None:
    """All threads use the same memory: what one frees the others get, and nothing is fetched from the system twice."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(-8, 1)  # M_ARENA_MAX


def _locked() -> int:
    """A new lock of Python's own, held."""
    allocate, acquire = ctypes.pythonapi.PyThread_allocate_lock, ctypes.pythonapi.PyThread_acquire_lock
    allocate.restype = ctypes.c_void_p
    lock: int = allocate()
    acquire(ctypes.c_void_p(lock), 1)
    return lock
