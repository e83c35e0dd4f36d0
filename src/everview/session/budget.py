"""The memory that questions to graphs may take: a limit for all of a session, and what they take.

Lean graphs keep histories (`everview.kernels.frontier`), of which rows can be dropped and worked out again. How many is
worked out by the operators themselves, at the end of each step; here the limit is set and their state is read.
"""

from __future__ import annotations

from dataclasses import dataclass

from everview.dataflow.dataflow import Dataflow
from everview.dataflow.frontier import Histories, Pairs
from everview.errors import PlanError
from everview.kernels.frontier import budget as budget_k
from everview.kernels.frontier import histories as histories_k
from everview.kernels.frontier import pairs as pairs_k
from everview.session.core import Core


@dataclass(frozen=True)
class Budget:
    """What lean graphs take, in bytes, all together, and the most they may (None: no limit); and how they do it: the
    part of the rows of vertices with few edges that is dropped, at most, and how many questions there are.
    """

    limit: int | None
    used: int
    dropped: float
    questions: int


def budget(core: Core, limit: int | None) -> Budget:
    """See `Session.budget`; in a turn."""
    core.alive()
    running, _ = core.runtime.dataflows()
    if len(running) != 1 or running[0].sharded:
        hint = "leave it out: on shards loops are kept as loops"
        raise PlanError("E_OPTION", "budgets are for sessions in one process", hint)
    if limit is not None:
        running[0].budgets.block("", limit)
    return _state_of(running[0], "")


def budgets(core: Core) -> list[Budget]:
    """How the budgets stand that are in use, the session's own first; in a turn."""
    running, _ = core.runtime.dataflows()
    return [_state_of(d, purse) for d in running for purse in sorted(d.budgets.blocks)]


def _state_of(dataflow: Dataflow, purse: str) -> Budget:
    known = dataflow.budgets
    lean = [o for o in dataflow.operators() if isinstance(o, Histories) and o.purse == purse]
    chance = max((o.about(histories_k.HISTORIES_CHANCE) for o in lean), default=0)
    questions = sum(o.about(histories_k.HISTORIES_QUESTIONS) for o in lean)
    pairs = [o for o in dataflow.operators() if isinstance(o, Pairs) and o.purse == purse]
    questions += sum(o.about(pairs_k.PAIRS_COUNT) for o in pairs)
    return Budget(known.limit(purse), known.used(purse), chance / budget_k.ALL, questions)
