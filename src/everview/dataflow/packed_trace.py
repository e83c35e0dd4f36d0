"""A trace whose rows exist only while somebody reads them: its operator keeps them in a smaller form.

Kernels identify it by its `block`, as any other; a step adds its differences to it, for readers and subscribers, and
the commit empties it. Whoever reads rows asks for its `address`, and gets a trace that is filled (`unpack`). It stays
filled while a time of it is held, a history is kept, or other operators read it in place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from everview.dataflow.operators import Trace

if TYPE_CHECKING:
    from everview.dataflow.dataflow import Dataflow
    from everview.dataflow.scopes import Scope


class PackedTrace(Trace):
    """See the module."""

    def __init__(self, dataflow: Dataflow, scope: Scope, cols: int, unpack: Callable[[], None]) -> None:
        self._unpack = unpack
        super().__init__(dataflow, scope, cols)

    @property
    def address(self) -> int:
        """The block, with all rows in it; 0 if it was freed."""
        if self.block:
            self._unpack()
        return self.block

    @address.setter
    def address(self, value: int) -> None:
        """Nothing to note: it is the block."""

    def hold(self, time: int) -> None:
        self._unpack()
        super().hold(time)

    def keep_history(self, epochs: int) -> None:
        if epochs:
            self._unpack()
        super().keep_history(epochs)
