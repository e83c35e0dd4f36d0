"""Recursion over edges as one node: the best value of every vertex, instead of a loop that finds it in rounds.

A `Frontier` computes, for every query q and node v,

    value(q, v) = the best of what `start` has for (q, v) and of what rules make of value(q, u) along edges (u, v)

and nothing for unreachable vertices. `everview.plan.monotone` derives it from loops of that form when a view is built.
It is therefore never stored in a catalog, and users cannot write one that is not monotone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from everview.plan.nodes import Node, Types
from everview.plan.stable_repr import stable_repr

Along = Literal["same", "add", "add float", "worst", "share"]


@dataclass(frozen=True, repr=False)
class Rule:
    """How values propagate along edges: from column `near` to column `far` of input number `edges`.

    An edge maps a value to itself ("same"), to the sum with its weight ("add", of floats "add float": summed from the
    start of a path to its end, as a loop does), or to the worse of both ("worst"). Where values are summed, it may also
    map it to the fraction `share` of it divided by the weight, rounded to the nearest ("share"). The weight is a
    column, or a nonnegative constant. Values beyond `most_in` are not propagated, and none beyond `most_out` are
    accepted ("beyond" is above if the least is the best, else below). `states`: (column, from, to), it applies to
    vertices whose column is the first, and leads to those where it is the second.
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

    __repr__ = stable_repr  # identities of operators depend on it


@dataclass(frozen=True, eq=False)
class Frontier(Node):
    """See the module. `start` has the columns of the result: those of the query, the node and the value (None: there is
    none, a vertex is reached or not), in any order.

    The fields after `columns` are for the lean form (of a `LeanLoop`), which keeps histories instead of trees: whether
    values are summed instead of taking the best; the number of rounds, if limited; the contents of round 0, if not
    `start`; which vertices are requested (node, then query), if not all; the budget. `halves`: the queries are pairs of
    nodes (the query is where the search starts, with nothing), maintained by half searches from both ends. `levels`:
    the queries are searches from nodes, each edge counts one, and this is the most: only the counts are stored.
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
    levels: int | None = None

    @cached_property
    def types(self) -> Types:
        return self.columns

    @property
    def question(self) -> tuple[int, ...]:
        """The columns that distinguish queries."""
        return tuple(c for c in range(len(self.columns)) if c not in (self.node, self.value))

    @property
    def state(self) -> int | None:
        """The column that rules change, if there is one: a part of the query."""
        return next((rule.states[0] for rule in self.rules if rule.states is not None), None)

    def describe(self) -> str:
        """What is maintained, for `explain`."""
        within = "" if self.budget is None else f", within {self.budget} bytes"
        if self.halves:
            weight = "each edge" if self.rules[0].weight is None else "a weight"
            return f"the distances of the pairs asked for, by {weight}, searched from both ends{within}"
        if self.levels is not None:
            return (
                f"only how many edges, at most {self.levels}, each node is away, four bits each, and makes rows of that"
            )
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


@dataclass(frozen=True, eq=False)
class StrongLabels(Node):
    """The least label of each node's strong component (`everview.plan.strong`). `start` has the columns of the result:
    the node and its label, in any order; `edges` lead from column `near` to column `far`.
    """

    start: Node
    edges: Node
    near: int
    far: int
    node: int
    value: int
    columns: Types

    @cached_property
    def types(self) -> Types:
        return self.columns

    def describe(self) -> str:
        """What is maintained, for `explain`."""
        return "the least label of each strong component, by searches from changed edges"
