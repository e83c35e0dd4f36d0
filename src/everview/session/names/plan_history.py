"""The history of join plans: which were changed, when and why.

A join is identified by its node, whichever plan builds it (`everview.dataflow.plan_swap`). The notes are therefore per
node and apply to every view that reads the join.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from everview.language.collection import known_names
from everview.language.relation import relation_of
from everview.plan import nodes as plan
from everview.session.names.entries import PlanChanged

if TYPE_CHECKING:
    from everview.session.core import Core
    from everview.session.view import View

LAST = 10
"""Number of plan changes kept per join."""


class PlanHistory:
    """The last changes of each join's plan."""

    def __init__(self) -> None:
        self.of: dict[plan.Node, deque[PlanChanged]] = {}

    def note(self, change: PlanChanged) -> None:
        """Record a plan change."""
        self.of.setdefault(change.join, deque(maxlen=LAST)).append(change)

    def lines(self, core: Core, view: View) -> Iterator[str]:
        """The lines that `explain` prints about a view's joins."""
        last = None
        for change, shape in self.changes(core, view):
            since = "  from time" if change.join == last else "plan since time"
            yield f"{since} {change.time}: {shape}, because {change.why}"
            last = change.join

    def changes(self, core: Core, view: View) -> Iterator[tuple[PlanChanged, str]]:
        """The changes of each of a view's joins, latest first, with the join's plan from then on."""
        node = core.catalog.canonical(relation_of(view).node)
        built = core.runtime.builder.built.get(node, node)
        labels = known_names(relation_of(view).source)[1]
        for join in dict.fromkeys(n for n in built.walk() if n in self.of):
            for change in reversed(self.of[join]):
                yield change, "as it was written" if change.target == join else shown(change.target, labels)


def shown(node: plan.Node, labels: Mapping[plan.Node, str]) -> str:
    """A join as text: brackets are joins.

    >>> from everview.types import INT
    >>> a, b, c = (plan.Table(i, (INT,)) for i in range(3))
    >>> shown(plan.Join(plan.Join(a, b, (0,), (0,)), c, (0,), (0,)), {a: "a", b: "b", c: "c"})
    '((a join b) join c)'
    """
    if node in labels:
        return labels[node]
    if isinstance(node, plan.MultiJoin):
        return f"{node.strategy} of {', '.join(shown(i, labels) for i in node.inputs)}"
    if isinstance(node, plan.Join):
        return f"({shown(node.left, labels)} join {shown(node.right, labels)})"
    below = node.children()
    return shown(below[0], labels) if len(below) == 1 else "a part of the query"
