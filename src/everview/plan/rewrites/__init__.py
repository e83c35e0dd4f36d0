"""Rewrites that people expect: the same rows by less work. One rewrite is one module with one function.

In a view's plan, where `explain` shows them, and stored with it; what the view means stays what was written:

    filters     conditions are tested as early as they can be: below aggregates, windows, unions, outer joins
    narrowed    conditions on a recursion, where it starts (`everview.plan.narrowed_loops`)

When a view is built, which `explain` says in a line. The plan still names all that the view was made of, so that
nothing of it can be dropped unnoticed:

    constants   conditions that are always true or never, and what is empty because of them
    backwards   conditions on the far end of a recursion: it is searched from there
    strong      the least node of those that reach each other: strong components, not all pairs
    trimming    edges trimmed down to strong components: with hashes as labels, small ones first
    outer       an outer join of which only the kept side is read, and that doubles none of its rows, is that side
    itself      a join of rows with themselves on what identifies them is those rows
    groups      an aggregate over groups of one row each is that row
    either      a join on `a = b OR c = d` is two joins

Reading order as above; `walking` has what they share. Every one is right by itself, so they are tested by themselves
and together: random plans give the same rows with each of them on and off, under insertions and deletions. Nothing is
done below what other views keep already (`arranged`): sharing it is worth more. `plan="verbatim"` keeps a view as it is
written.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container
from dataclasses import dataclass

from everview.plan.narrowed_loops import narrowed
from everview.plan.nodes import Node
from everview.plan.rewrites.backwards import with_backward_searches
from everview.plan.rewrites.constants import without_constants
from everview.plan.rewrites.either import without_either
from everview.plan.rewrites.filters import with_early_filters
from everview.plan.rewrites.groups import without_single_groups
from everview.plan.rewrites.itself import without_joins_of_itself
from everview.plan.rewrites.outer import without_unread_joins
from everview.plan.rewrites.strong import with_strong_components
from everview.plan.rewrites.trimming import with_hashed_labels
from everview.plan.rewrites.walking import tables

Rewrite = Callable[[Node, Container[Node]], Node]

REWRITES: dict[str, Rewrite] = {
    "filters": with_early_filters,
    "narrowed": narrowed,
    "constants": without_constants,
    "backwards": with_backward_searches,
    "strong": with_strong_components,
    "trimming": with_hashed_labels,
    "outer": without_unread_joins,
    "itself": without_joins_of_itself,
    "groups": without_single_groups,
    "either": without_either,
}
"""All of them, in the order in which they are tried."""

WRITTEN = ("filters", "narrowed")
"""Those that are written into a view's plan."""

BEFORE, AFTER = ("constants", "backwards", "strong", "trimming", "outer", "itself"), ("groups", "either")
"""Those of building a view: before loops and columns are looked at, and after."""

DONE = {
    "filters": "conditions are tested earlier",
    "narrowed": "conditions on a recursion are tested where it starts",
    "either": "a join on one condition or another is several joins",
    "constants": "what is always true, or never, is left out",
    "backwards": "a recursion whose far end is given is searched from there",
    "strong": "nodes that reach each other are strong components, not pairs",
    "trimming": "edges are trimmed down to strong components by labels without an order",
    "outer": "an outer join is left out: nobody reads its other side, and it doubles no row",
    "itself": "a join of rows with themselves, on what identifies them, is left out",
    "groups": "an aggregate is left out: its groups are single rows",
}


@dataclass(frozen=True)
class Simplification:
    """A rewrite that changed a plan."""

    name: str

    def __str__(self) -> str:
        return f"rewrite {self.name}: {DONE[self.name]}"


def simplified(
    node: Node, arranged: Container[Node] = (), only: Collection[str] = tuple(REWRITES)
) -> tuple[Node, list[Simplification]]:
    """A plan that says the same, and which rewrites did something; the very node if there is nothing to gain.

    >>> from everview.expr.functions import call
    >>> from everview.expr.nodes import ColumnRef, Literal
    >>> from everview.plan.nodes import Aggregate, Filter, Reduce, Table
    >>> from everview.types import INT
    >>> sales = Table(0, (INT, INT))
    >>> totals = Reduce(sales, (0,), (Aggregate("sum", 1, INT),))
    >>> mine = call("eq", ColumnRef(INT, 0), Literal(INT, 3))
    >>> found, done = simplified(Filter(totals, mine))
    >>> found == Reduce(Filter(sales, mine), (0,), (Aggregate("sum", 1, INT),)), [str(d) for d in done]
    (True, ['rewrite filters: conditions are tested earlier'])
    """
    done: list[Simplification] = []
    for name, rewrite in REWRITES.items():
        if name in only:
            found = rewrite(node, arranged)
            if found is not node and found != node:
                node = found
                done.append(Simplification(name))
    return node, done


def rewritten_plan(node: Node, arranged: Container[Node], only: Collection[str] = WRITTEN) -> Node:
    """The plan that a view is stored with: it reads the same tables as what was written, so that it depends on them."""
    found, _ = simplified(node, arranged, only)
    return found if found is node or tables(found) == tables(node) else node
