"""Budgets that several operators share: how many bytes histories may take, and what they take together.

A budget is a block of two words that compiled operators read and write (`everview.kernels.frontier.budget`). Loops that
name a *purse* share its budget; those that name none share the session's, which has no limit until one is set. The
blocks live as long as the dataflow.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from everview.kernels import make
from everview.kernels.frontier import budget as budget_k


@dataclass
class Budgets:
    """The budgets of a dataflow, by purse; "" is the session's own."""

    blocks: dict[str, int] = field(default_factory=dict)
    enforced: bool = True
    """whether limits count: a session that only verifies another one's views has none"""

    def block(self, purse: str, limit: int | None = None) -> int:
        """The words of a budget, which is made if it is not there. A limit is that of the purse from now on."""
        if purse not in self.blocks:
            self.blocks[purse] = make.make_filled(np.zeros(budget_k.BUDGET_WORDS, dtype=np.int64))
        if limit is not None and self.enforced:
            make.poke(self.blocks[purse], budget_k.BUDGET_LIMIT, limit)
        return self.blocks[purse]

    def limit(self, purse: str) -> int | None:
        """The most bytes of a purse, if there is a limit."""
        return int(make.peek(self.block(purse), budget_k.BUDGET_LIMIT)) or None

    def used(self, purse: str) -> int:
        """The bytes that its operators take together."""
        return int(make.peek(self.block(purse), budget_k.BUDGET_USED))

    def free(self) -> None:
        """Give the blocks back; the operators are gone."""
        for block in self.blocks.values():
            make.drop_block(block)
        self.blocks.clear()
