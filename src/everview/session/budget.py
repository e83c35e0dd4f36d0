"""The memory budget of lean graphs: a limit for the whole session, and current usage.

Lean graphs keep histories (`everview.kernels.frontier`) whose rows can be dropped and recomputed. The operators decide
how many to drop at the end of each step; this module sets the limit and reads their state.
"""

from __future__ import annotations

from dataclasses import dataclass

from everview.dataflow.dataflow import Dataflow
from everview.dataflow.frontier import Histories, Levels, Pairs
from everview.errors import PlanError
from everview.kernels.frontier import budget as budget_k
from everview.kernels.frontier import histories as histories_k
from everview.kernels.frontier import level_rows as level_rows_k
from everview.kernels.frontier import pairs as pairs_k
from everview.session.core import Core


@dataclass(frozen=True)
class Budget:
    """Memory usage of lean graphs in bytes, and its limit (None: unlimited). Also the largest fraction of rows dropped
    from vertices with few edges, and the number of queries.
    """

    limit: int | None
    used: int
    dropped: float
    questions: int


def budget(core: Core, limit: int | None) -> Budget:
    """Implements `Session.budget`; call it in a turn."""
    core.alive()
    running, _ = core.runtime.dataflows()
    if len(running) != 1 or running[0].sharded:
        hint = "leave it out: on shards loops are kept as loops"
        raise PlanError("E_OPTION", "budgets are for sessions in one process", hint)
    if limit is not None:
        running[0].budgets.block("", limit)
    return _state_of(running[0], "")


def budgets(core: Core) -> list[Budget]:
    """State of the budgets in use, the session's own first; call it in a turn."""
    running, _ = core.runtime.dataflows()
    return [_state_of(d, purse) for d in running for purse in sorted(d.budgets.blocks)]


def _state_of(dataflow: Dataflow, purse: str) -> Budget:
    known = dataflow.budgets
    lean = [o for o in dataflow.operators() if isinstance(o, Histories) and o.purse == purse]
    chance = max((o.about(histories_k.HISTORIES_CHANCE) for o in lean), default=0)
    questions = sum(o.about(histories_k.HISTORIES_QUESTIONS) for o in lean)
    pairs = [o for o in dataflow.operators() if isinstance(o, Pairs) and o.purse == purse]
    questions += sum(o.about(pairs_k.PAIRS_COUNT) for o in pairs)
    levels = [o for o in dataflow.operators() if isinstance(o, Levels) and o.purse == purse]
    questions += sum(o.about(level_rows_k.LEVELS_QUESTIONS) for o in levels)
    return Budget(known.limit(purse), known.used(purse), chance / budget_k.ALL, questions)
