"""Size estimates for plans, from the rows and samples of existing arrangements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everview.plan.nodes import Node
from everview.plan.sizes import Sizes

if TYPE_CHECKING:
    from everview.session.core import Core

SAMPLE_ROWS = 1000
"""Rows sampled to estimate how common the values of a column are."""


def estimates(core: Core) -> Sizes:
    """Estimates from the current contents; they do not follow later changes."""
    measure, arrangements = core.runtime.measure(), core.runtime.builder.arrangements

    def known(node: Node) -> float | None:
        kept = arrangements.get((node, ()), [])
        return float(measure(kept[0].operator)[1]) if kept else None

    def sample(node: Node, column: int) -> list[int]:
        kept = arrangements.get((node, ()), [])
        return kept[0].trace.sample(kept[0].order.index(column), SAMPLE_ROWS) if kept else []

    def served(node: Node, keys: set[int]) -> bool:
        return any(set(a.order[: len(keys)]) == keys for a in arrangements.get((node, ()), []))

    return Sizes(known, sample, served)
