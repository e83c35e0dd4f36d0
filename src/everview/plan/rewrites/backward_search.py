"""Conditions on the far end of paths: searches backwards from there.

    path(src, dst)   edges, or a path and an edge after it        all pairs, of which
    WHERE dst = 3                                                 only those that end in 3 are needed

`narrowed` pushes conditions on what stays the same in every round, the near end. The far end changes with every edge.
But what leads to 3 can be found from 3, against the edges, and then the matching starts: this is what magic sets do for
a recursion whose last argument is bound. For the recursion from S along E,

    X(q, 3)     S(q, n), and from n edges lead to 3:     from 3 backwards, a recursion with one column

Of several ends (`dst IN (3, 5)`) the backward recursion keeps which one it is.

With sums along the edges, of which the least is kept, the backward recursion has sums, too, and both are added. Bounds
on sums, states, and other operations on values are not rewritten.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from everview.expr.functions import call, conjunction, conjuncts
from everview.expr.nodes import ColumnRef, Expr, Literal
from everview.plan import nodes as plan
from everview.plan.frontier import Frontier, Rule
from everview.plan.rewrites.traversal import filtered_recursions, values_given
from everview.types import INT, DataType


def with_backward_searches(node: plan.Node, arranged: Container[plan.Node] = ()) -> plan.Node:
    """The same rows, with recursions whose far end is given searched from there.

    >>> edge, path = plan.Table(0, (INT, INT)), plan.Variable(1, 0, (INT, INT))
    >>> further = plan.Project(plan.Join(path, edge, (1,), (0,)), (ColumnRef(INT, 0), ColumnRef(INT, 3)))
    >>> body = plan.Threshold(plan.Union((edge, further)), "distinct")
    >>> paths = plan.LoopResult(plan.Loop(1, (None,), (body,)), 0)
    >>> to_three = call("eq", ColumnRef(INT, 1), Literal(INT, 3))
    >>> found = with_backward_searches(plan.Filter(paths, to_three))
    >>> paths in found.walk(), [n.loop.initials[0].rows for n in found.walk() if isinstance(n, plan.LoopResult)]
    (False, [((3,),)])
    """
    return filtered_recursions(node, _changed, arranged)


def _changed(node: plan.Filter, found: Frontier) -> plan.Node | None:
    tested = conjuncts(node.predicate)
    given = next((c for c in tested if _ends(c, found) is not None), None)
    if given is None or not _is_plain(found):
        return None
    ends = _ends(given, found)
    assert ends
    made = _from_ends(found, ends)
    others = [c for c in tested if c is not given]
    made = plan.Project(made, tuple(ColumnRef(t, i) for i, t in enumerate(node.types)))
    return plan.Filter(made, conjunction(others)) if others else made


def _ends(condition: Expr, found: Frontier) -> list[Literal] | None:
    """The constants of which the far end must equal one."""
    return values_given(condition, found.node, found.columns[found.node])


def _is_plain(found: Frontier) -> bool:
    if found.lean or found.state is not None or (found.largest and found.value is not None):
        return False
    allowed = ("same",) if found.value is None else ("same", "add")
    return all(r.along in allowed and r.most_in is None and r.most_out is None for r in found.rules)


@dataclass
class _Backwards:
    """The recursion against the edges: (node), which end it leads to if there are several, and the sum if wanted."""

    found: Frontier
    ends: list[Literal]
    kind: DataType

    @property
    def several(self) -> bool:
        return len(self.ends) > 1

    @property
    def value(self) -> int:
        """The column of the sum."""
        return 2 if self.several else 1

    def loop(self) -> plan.Node:
        start = self._start()
        variable = plan.Variable(1, 0, self._types())
        ways = [self._way(variable, rule) for rule in self.found.rules]
        union = plan.Union((*ways, start))
        body: plan.Node = plan.Threshold(union, "distinct")
        if self.found.value is not None:
            body = plan.Reduce(union, tuple(range(self.value)), (plan.Aggregate("min", self.value, INT),))
        return plan.LoopResult(plan.Loop(1, (start,), (body,)), 0)

    def _types(self) -> plan.Types:
        end = (self.found.columns[self.found.node].optional(False),) if self.several else ()
        return (self.kind, *end) if self.found.value is None else (self.kind, *end, INT)

    def _start(self) -> plan.Node:
        zero = () if self.found.value is None else (0,)
        rows = [(end.value, *((end.value,) if self.several else ()), *zero) for end in self.ends]
        return plan.Constant(tuple(rows), self._types())

    def _way(self, variable: plan.Variable, rule: Rule) -> plan.Node:
        edges, width = self.found.edges[rule.edges], len(variable.types)
        join = plan.Join(variable, edges, (0,), (rule.far,))
        near: list[Expr] = [ColumnRef(self.kind, width + rule.near)]
        near += [ColumnRef(t, 1) for t in variable.types[1 : self.value]]
        if self.found.value is not None:
            near.append(self._longer(rule, edges, width))
        return plan.Project(join, tuple(near))

    def _longer(self, rule: Rule, edges: plan.Node, width: int) -> Expr:
        own: Expr = ColumnRef(INT, self.value)
        if rule.along == "same":
            return own
        weight = Literal(INT, rule.constant) if rule.weight is None else ColumnRef(INT, width + rule.weight)
        return call("add", own, weight)


def _from_ends(found: Frontier, ends: list[Literal]) -> plan.Node:
    """What the recursion has for these ends."""
    nullable = any(found.edges[r.edges].types[r.near].nullable for r in found.rules)
    kind = found.columns[found.node].optional(nullable)
    backwards = _Backwards(found, ends, kind)
    back = backwards.loop()
    width = len(found.columns)
    join = plan.Join(found.start, back, (found.node,), (0,))
    columns: list[Expr] = [ColumnRef(t, i) for i, t in enumerate(found.start.types)]
    columns[found.node] = Literal(found.columns[found.node], ends[0].value)
    if backwards.several:
        columns[found.node] = ColumnRef(back.types[1], width + 1)
    if found.value is None:
        return plan.Threshold(plan.Project(join, tuple(columns)), "distinct")
    columns[found.value] = call("add", ColumnRef(INT, found.value), ColumnRef(INT, width + backwards.value))
    keys = tuple(c for c in range(width) if c != found.value)
    least = plan.Reduce(plan.Project(join, tuple(columns)), keys, (plan.Aggregate("min", found.value, INT),))
    order = [*keys, found.value]
    return plan.Project(least, tuple(ColumnRef(least.types[order.index(c)], order.index(c)) for c in range(width)))
