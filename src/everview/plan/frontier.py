"""Recursion over edges as one node: the best value of every vertex, instead of a loop that finds it in rounds.

A `Frontier` says, for every question q and node v,

    value(q, v) = the best of what `start` has for (q, v) and of what rules make of value(q, u) along edges (u, v)

and nothing for vertices that no path leads to. `everview.plan.monotone` makes it of loops that say just that,
when a view is built. So it stands in no catalog, and nobody can write one that is not monotone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from everview.plan.nodes import Node, Types
from everview.plan.spelled import spelled

Along = Literal["same", "add", "add float", "worst", "share"]


@dataclass(frozen=True, repr=False)
class Rule:
    """How values go along edges: from column `near` to column `far` of input number `edges`.

    An edge makes of a value itself ("same"), the sum with its weight ("add", of floats "add float": added up from the
    start of a path to its end, as a loop does), or the worse of both ("worst"); where
    values are added up, also the fraction `share` of it divided by the weight, to the nearest ("share"). The weight
    is a column, or a constant that is not negative. No offers come from values beyond `most_in`, and none beyond
    `most_out` are taken ("beyond" is above if the least is the best, else below). `states`: (column, from, to), it is
    for vertices whose column is the first, and leads to those where it is the second.
    """

    edges: int
    near: int
    far: int
    along: Along
    weight: int | None = None
    constant: int = 0
    most_in: int | None = None
    most_out: int | None = None
    share: tuple[int, int] = (0, 1)
    states: tuple[int, int, int] | None = None

    __repr__ = spelled  # identities of operators are made of it


@dataclass(frozen=True, eq=False)
class Frontier(Node):
    """See the module. `start` has the columns of the result, which are those of the question, the node and the value
    (None: there is none, a vertex is reached or not), in any order.

    What follows `columns` is for the lean form (of a `LeanLoop`), which keeps histories instead of trees: whether
    values are added up instead of the best being taken; how many rounds there are, if they are counted; what round 0
    has, if it is not `start`; which vertices are asked for (node, then question), if not all; the budget. `halves`: the
    questions are pairs of nodes (the question is where the search starts, with nothing), kept by half searches from
    both ends.
    """

    start: Node
    edges: tuple[Node, ...]
    rules: tuple[Rule, ...]
    node: int
    value: int | None
    largest: bool
    columns: Types
    lean: bool = False
    total: bool = False
    rounds: int | None = None
    initial: Node | None = None
    asked: Node | None = None
    budget: int | None = None
    purse: str = ""
    halves: bool = False

    @cached_property
    def types(self) -> Types:
        return self.columns

    @property
    def question(self) -> tuple[int, ...]:
        """The columns that tell questions apart."""
        return tuple(c for c in range(len(self.columns)) if c not in (self.node, self.value))

    @property
    def state(self) -> int | None:
        """The column that rules change, if there is one: a part of the question."""
        return next((rule.states[0] for rule in self.rules if rule.states is not None), None)

    def describe(self) -> str:
        """What is kept, for `explain`."""
        within = "" if self.budget is None else f", within {self.budget} bytes"
        if self.halves:
            weight = "each edge" if self.rules[0].weight is None else "a weight"
            return f"the distances of the pairs asked for, by {weight}, searched from both ends{within}"
        best = "total" if self.total else "largest" if self.largest else "least"
        what = "what is reached" if self.value is None else f"the {best} value"
        along = {"same": "unchanged", "worst": "no better than a weight", "share": "in shares"}
        along |= {"add": "plus a weight", "add float": "plus a weight, as floats are added"}
        ways = ", ".join(dict.fromkeys(along[r.along] for r in self.rules))
        of = f" for each of its {len(self.question)} other column(s)" if self.question else ""
        of += "" if self.state is None else ", in states of an automaton"
        rounds = "" if self.rounds is None else f", after {self.rounds} rounds"
        asked = ", only where it is asked for" if self.asked is not None else ""
        return f"{what} along {len(self.rules)} kind(s) of edges, {ways}{of}{rounds}{asked}{within}"
