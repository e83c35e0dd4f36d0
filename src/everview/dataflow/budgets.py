"""Memory budgets shared by several operators: the limit for histories, and their usage.

A budget is a block of two words that compiled operators read and write (`everview.kernels.frontier.budget`). Loops that
name the same *purse* share its budget; the others share the session's, which is unlimited until a limit is set. The
blocks live as long as the dataflow.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from everview.kernels import structures
from everview.kernels.frontier import history as history_k


@dataclass
class Budgets:
    """The budgets of a dataflow, by purse; "" is the session's own."""

    blocks: dict[str, int] = field(default_factory=dict)
    enforced: bool = True
    """whether limits are enforced: a session that only verifies another one's views has none"""

    def block(self, purse: str, limit: int | None = None) -> int:
        """The words of a budget, created on first use. A limit applies to the purse from now on."""
        if purse not in self.blocks:
            self.blocks[purse] = structures.make_filled(np.zeros(history_k.BUDGET_WORDS, dtype=np.int64))
        if limit is not None and self.enforced:
            structures.poke(self.blocks[purse], history_k.BUDGET_LIMIT, limit)
        return self.blocks[purse]

    def limit(self, purse: str) -> int | None:
        """The limit of a purse in bytes, if any."""
        return int(structures.peek(self.block(purse), history_k.BUDGET_LIMIT)) or None

    def used(self, purse: str) -> int:
        """The bytes that its operators use together."""
        return int(structures.peek(self.block(purse), history_k.BUDGET_USED))

    def free(self) -> None:
        """Free the blocks, after the operators."""
        for block in self.blocks.values():
            structures.drop_block(block)
        self.blocks.clear()
