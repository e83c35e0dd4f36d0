"""The helper threads of a session with `threads=N`, Python side; see `everview.kernels.threads.thread_pool`.

A forked child has only the thread that forked, so the session continues there with one thread.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import weakref

from everview.dataflow.allocator import one_heap
from everview.kernels import structures
from everview.kernels.run import step as step_k
from everview.kernels.threads import thread_pool as k

SPLIT = 32_768
"""Number of rows from which an operator shares its work: waking a helper costs about as much as a thousand rows."""


def available_cores() -> int:
    """The number of cores that this process may use.

    >>> available_cores() >= 1
    True
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class ThreadPool:
    """The threads of a step block, the caller's included; helpers wait for work until closed."""

    def __init__(self, step: int, threads: int) -> None:
        self.step = step
        one_heap()
        self._helpers = [_Helper() for _ in range(threads - 1)]
        self.address = structures.make_block(threads)
        structures.poke(self.address, k.TEAM_SIZE, threads)
        for i, helper in enumerate(self._helpers, 1):
            structures.poke(self.address, i, helper.address)
        structures.poke(step, step_k.STEP_TEAM, self.address)
        self.share_from(SPLIT)
        forget = weakref.WeakMethod(self._forget)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=lambda: (method := forget()) and method())

    def share_from(self, rows: int) -> None:
        """Share the work of operators with this many rows or more."""
        structures.poke(self.step, step_k.STEP_SPLIT, rows)

    def _forget(self) -> None:
        """Also called in a forked child for every pool; a closed one has no step any more."""
        if self.address:
            structures.poke(self.step, step_k.STEP_TEAM, 0)
            self.address = 0

    def close(self) -> None:
        """Stop the helpers; idempotent."""
        if self.address and not sys.is_finalizing():  # threads cannot end any more during interpreter shutdown
            address = self.address
            self._forget()
            for helper in self._helpers:
                helper.close()
            structures.drop_block(address)


class _Helper:
    """A thread that waits for work."""

    def __init__(self) -> None:
        self.address = structures.make_block(k.HELPER_WORDS)
        self._locks = [_locked(), _locked()]
        structures.poke(self.address, k.HELPER_JOB, self._locks[0])
        structures.poke(self.address, k.HELPER_DONE, self._locks[1])
        self._thread = threading.Thread(target=k.serve, args=(self.address,), name="everview helper", daemon=True)
        self._thread.start()

    def close(self) -> None:
        k.dismiss(self.address)
        self._thread.join()
        structures.drop_block(self.address)
        for lock in self._locks:
            ctypes.pythonapi.PyThread_free_lock(ctypes.c_void_p(lock))


def _locked() -> int:
    """A new Python lock, held."""
    allocate, acquire = ctypes.pythonapi.PyThread_allocate_lock, ctypes.pythonapi.PyThread_acquire_lock
    allocate.restype = ctypes.c_void_p
    lock: int = allocate()
    acquire(ctypes.c_void_p(lock), 1)
    return lock
