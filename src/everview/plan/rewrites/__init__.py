"""Standard plan rewrites: the same rows by less work. Each rewrite is one module with one function.

Applied to a view's plan, visible in `explain` and stored with it; the view's meaning stays what was written:

    filter_pushdown  predicate pushdown: below aggregates, windows, unions, outer joins
    implied_conditions  what holds of a join column on one side is tested on the other
    narrowed    conditions on a recursion, pushed to its start (`everview.plan.narrowed_loops`)

Applied when a view is built, and reported by `explain` in a line. The stored plan still names everything that the view
was made of, so that none of it can be dropped unnoticed:

    constant_conditions  conditions that are constant, and what is empty because of them
    linear_recursion  conditions on the near end of paths made of paths: they grow by edges
    backward_search  conditions on the far end of a recursion: searched backwards
    magic_sets  conditions on other recursions: only what leads to the constants is computed
    constant_columns  columns of a recursion with one value in all rows: left out of it
    strong_components  the least mutually reachable node: strong components, not all pairs
    edge_trimming  edges trimmed down to strong components: with hashes as labels, small ones first
    outer_joins  an outer join that only preserves its kept side is that side
    self_joins  a self-join on a key is the rows themselves
    single_row_groups  an aggregate over groups of one row each is that row
    disjunctive_joins  a join on `a = b OR c = d` is two joins

This is also the reading order; `traversal` has what they share. Each rewrite is correct in isolation, so they are
tested alone and together: random plans return the same rows with each of them on and off, under insertions and
deletions. Nothing below what other views maintain already (`arranged`) is changed: sharing is worth more.
`plan="verbatim"` disables them for a view, `plan="rounds"` those that change loops.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container
from dataclasses import dataclass

from everview.plan.narrowed_loops import narrowed
from everview.plan.nodes import Node
from everview.plan.rewrites.backward_search import with_backward_searches
from everview.plan.rewrites.constant_columns import without_constant_columns
from everview.plan.rewrites.constant_conditions import without_constants
from everview.plan.rewrites.disjunctive_joins import without_either
from everview.plan.rewrites.edge_trimming import with_hashed_labels
from everview.plan.rewrites.filter_pushdown import with_early_filters
from everview.plan.rewrites.implied_conditions import with_implied_conditions
from everview.plan.rewrites.linear_recursion import with_linear_recursions
from everview.plan.rewrites.magic_sets import with_magic_sets
from everview.plan.rewrites.outer_joins import without_unread_joins
from everview.plan.rewrites.self_joins import without_joins_of_itself
from everview.plan.rewrites.single_row_groups import without_single_groups
from everview.plan.rewrites.strong_components import with_strong_components
from everview.plan.rewrites.traversal import tables

Rewrite = Callable[[Node, Container[Node]], Node]

REWRITES: dict[str, Rewrite] = {
    "filters": with_early_filters,
    "implied": with_implied_conditions,
    "narrowed": narrowed,
    "constants": without_constants,
    "linear": with_linear_recursions,
    "backwards": with_backward_searches,
    "magic": with_magic_sets,
    "fixed": without_constant_columns,
    "strong": with_strong_components,
    "trimming": with_hashed_labels,
    "outer": without_unread_joins,
    "itself": without_joins_of_itself,
    "groups": without_single_groups,
    "either": without_either,
}
"""All rewrites, in the order in which they are tried."""

WRITTEN = ("filters", "implied", "narrowed")
"""Those stored in a view's plan."""

BEFORE = ("constants", "linear", "backwards", "magic", "fixed", "strong", "trimming", "outer", "itself")
AFTER = ("groups", "either")
"""Those applied when a view is built: before loops and columns are processed, and after."""

OF_LOOPS = ("narrowed", "linear", "backwards", "magic", "fixed", "strong", "trimming")
"""Those that write loops differently: `plan="rounds"` disables them."""

DONE = {
    "filters": "conditions are tested earlier",
    "implied": "conditions on a join column are tested on both sides",
    "narrowed": "conditions on a recursion are tested where it starts",
    "either": "a join on one condition or another is several joins",
    "constants": "what is always true, or never, is left out",
    "linear": "paths made of paths grow by edges, from where they are asked for",
    "backwards": "a recursion whose far end is given is searched from there",
    "magic": "of a recursion only what leads to the constants asked for is computed (magic sets)",
    "fixed": "a column of a recursion with one value in all rows is left out of it",
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
    """An equivalent plan, and the rewrites that had an effect; the same node if there is nothing to gain.

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
    """The plan that a view is stored with: it reads the same tables as the original, so that the dependencies are
    kept."""
    found, _ = simplified(node, arranged, only)
    return found if found is node or tables(found) == tables(node) else node
