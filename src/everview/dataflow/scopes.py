"""Scopes of a dataflow: the root, and one per loop, with the layout of their time words.

An outermost loop starts a *nest*. The nest's times are one word (see `everview.kernels.times`): twelve bits for the
epochs of one step, the rest divided evenly among the loops on its deepest path. That leaves 2**51 rounds for a single
loop, 2**25 for two nested ones, 2**17 at depth three; a loop that needs more is stopped with an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from everview.errors import PlanError
from everview.kernels import structures

if TYPE_CHECKING:
    from everview.dataflow.operators import Operator

EPOCH_BITS = 12
EPOCH_MASK = (1 << EPOCH_BITS) - 1
MAX_EPOCHS = EPOCH_MASK
TIME_BITS = 63
OUTSIDE = "outside"
"""The label of what is outside all loops."""


class Scope:
    """Where operators run: the root scope (`parent` is None) or a loop. `items` are its operators and inner loops in
    program order.
    """

    def __init__(self, parent: Scope | None, levels: int = 0) -> None:
        self.parent = parent
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.items: list[Operator | Scope] = []
        self.limit = 0  # rounds, for messages
        self.label = OUTSIDE if parent is None else f"loop {self.depth}"
        if parent is None:
            self.masks: tuple[int, ...] = ((1 << TIME_BITS) - 1,)
            self.field = self.coords = self.unit = self.bits = 0
            outer = 0
        else:
            self.masks = _masks(levels) if parent.parent is None else parent.masks
            if self.depth >= len(self.masks):
                raise PlanError("E_DEPTH", f"loops nested {self.depth} deep do not fit the nest's layout")
            self.field = self.masks[self.depth - 1]
            self.unit = self.field & -self.field
            self.bits = self.field.bit_count()
            outer = parent.coords
            self.coords = outer | self.field
        above = 0 if parent is None else parent.address
        masks = np.array(self.masks, dtype=np.int64)
        self.address: int = structures.make_scope(above, self.coords, outer, self.unit, masks)

    @property
    def is_root(self) -> bool:
        return self.parent is None

    def contains(self, other: Scope) -> bool:
        """Whether `other` is this scope or one inside it."""
        scope: Scope | None = other
        while scope is not None:
            if scope is self:
                return True
            scope = scope.parent
        return False

    def free(self) -> None:
        address, self.address = self.address, 0
        if address:
            structures.drop_scope(address)


def _masks(levels: int) -> tuple[int, ...]:
    bits = (TIME_BITS - EPOCH_BITS) // levels
    if bits < 4:
        raise PlanError("E_DEPTH", f"loops nested {levels} deep leave no room for rounds", "flatten some of the loops")
    fields = [((1 << bits) - 1) << (EPOCH_BITS + bits * (levels - 1 - k)) for k in range(levels)]
    return (*fields, EPOCH_MASK)


def deeper(a: Scope, b: Scope) -> Scope:
    """The inner one of two nested scopes."""
    return a if b.contains(a) else b


def time_change(source: Scope, target: Scope) -> tuple[int, int, int]:
    """How times change from one scope to another: (PRE, AND, POST) of a sink."""
    if source is target or (not source.is_root and source.contains(target)):
        return 0, -1, 0
    if source.is_root:
        return 1, -1, 0
    if target.is_root:
        return 0, EPOCH_MASK, 1
    if target.contains(source):
        return 0, target.coords | EPOCH_MASK, 0
    common: Scope | None = source
    while common is not None and not common.contains(target):
        common = common.parent
    assert common is not None
    return 0, common.coords | EPOCH_MASK, 0
