"""The order of inner joins.

Conditions on one leaf filter it before it is joined; so do conditions implied by an OR over several leaves. Then leaves
are joined one after the other, always one that an equality connects to those joined already; a product is used only if
there is none. The order minimises what must be computed and arranged (`everview.plan.sizes`), or is textual while
tables are small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from everview.expr.functions import conjunction
from everview.expr.nodes import Call, Expr
from everview.plan import joins
from everview.plan.nodes import Filter, Node
from everview.plan.sizes import Sizes
from everview.plan.topk import first_rows
from everview.sql.select.conditions import branches, moved, parts, shifted, split

MOST_STARTS = 8
"""Maximum number of starting leaves tried: the smallest, if there are more."""


def ordered_join(leaves: Sequence[Node], conditions: Sequence[Expr], sizes: Sizes | None = None) -> Node:
    """Inner join of all leaves; columns and conditions in the order of the leaves."""
    starts = [0]
    for leaf in leaves:
        starts.append(starts[-1] + len(leaf.types))
    owner = [i for i, leaf in enumerate(leaves) for _ in leaf.types]
    every = [p for c in conditions for p in parts(c)]  # kept to the end: they are known by their ids
    waiting = list(every)

    known: dict[int, set[int]] = {}

    def owners(expr: Expr) -> set[int]:
        return known[id(expr)] if id(expr) in known else {owner[c] for c in expr.columns()}

    known |= {id(p): owners(p) for p in every}  # they are asked about at every step
    filtered = list(leaves)
    for part in [p for p in waiting if len(owners(p)) == 1]:
        (one,) = owners(part)
        filtered[one] = first_rows(Filter(filtered[one], shifted(part, -starts[one])))
        waiting.remove(part)
    for part in waiting:
        for one, implied in _implied(part, owners):
            filtered[one] = Filter(filtered[one], shifted(implied, -starts[one]))
    order = _JoinOrder(filtered, waiting, owners, starts).best(sizes)
    node, have = filtered[order[0]], {order[0]}
    place = {starts[order[0]] + c: c for c in range(len(leaves[order[0]].types))}
    for following in order[1:]:
        width = len(node.types)
        place.update({starts[following] + c: width + c for c in range(len(leaves[following].types))})
        have.add(following)
        now = [p for p in waiting if owners(p) and owners(p) <= have]
        waiting = [p for p in waiting if p not in now]
        condition, _ = split([moved(p, place) for p in now], width, "inner")
        node = joins.inner(node, filtered[following], condition)
    node = joins.take(node, [place[c] for c in range(starts[-1])])
    return Filter(node, conjunction(waiting)) if waiting else node


def _implied(part: Expr, owners: Callable[[Expr], set[int]]) -> Iterator[tuple[int, Expr]]:
    """What a disjunction over several leaves implies for one of them: of every branch, the part about that leaf
    alone.

    `a.x = 1 AND b.y = 2 OR a.x = 2 AND b.y = 1` only admits rows of a whose x is 1 or 2.
    """
    if not isinstance(part, Call) or part.op != "or":
        return
    sides = [list(parts(b)) for b in branches(part)]
    for leaf in sorted(owners(part)):
        about = [[p for p in side if owners(p) == {leaf}] for side in sides]
        if all(about):
            yield leaf, conjunction([conjunction(p) for p in about], "or")


@dataclass(frozen=True)
class _Equality:
    """An equality between leaves: the leaves that either side reads, and all columns."""

    sides: tuple[set[int], set[int]]
    columns: set[int]

    def connects(self, have: set[int], other: int) -> bool:
        """Whether it connects what is joined already with another leaf."""
        a, b = self.sides
        return (a <= have and b == {other}) or (b <= have and a == {other})


class _JoinOrder:
    """Possible join orders, each next leaf connected by an equality if possible."""

    def __init__(
        self,
        leaves: Sequence[Node],
        conditions: Sequence[Expr],
        owners: Callable[[Expr], set[int]],
        starts: Sequence[int],
    ) -> None:
        self.leaves, self.starts = leaves, starts
        equal = [c for c in conditions if isinstance(c, Call) and c.op == "eq"]
        found = [_Equality((owners(c.args[0]), owners(c.args[1])), c.columns()) for c in equal]
        self.about: list[list[_Equality]] = [[] for _ in leaves]
        """For each leaf the equalities with one side about that leaf alone."""
        for equality in found:
            if all(equality.sides):
                for leaf in {leaf for side in equality.sides if len(side) == 1 for leaf in side}:
                    self.about[leaf].append(equality)

    def best(self, sizes: Sizes | None) -> list[int]:
        """Textual order without sizes, else the cheapest greedy order over all starting leaves."""
        if sizes is None:
            return self._by_text()
        first = list(range(len(self.leaves)))
        if len(self.leaves) > MOST_STARTS:
            first = sorted(first, key=lambda i: sizes.rows(self.leaves[i]))[:MOST_STARTS]
        return min((self._from(i, sizes) for i in first), key=lambda found: found[0])[1]

    def _by_text(self) -> list[int]:
        have, todo = [0], list(range(1, len(self.leaves)))
        while todo:
            have.append(next(self._connected(have, todo), todo[0]))
            todo.remove(have[-1])
        return have

    def _connected(self, have: Sequence[int], todo: Sequence[int]) -> Iterator[int]:
        there = set(have)
        return (i for i in todo if any(e.connects(there, i) for e in self.about[i]))

    def _from(self, first: int, sizes: Sizes) -> tuple[float, list[int]]:
        """The cost of beginning with a leaf, in rows produced and arranged, and the resulting order."""
        rows, total = sizes.rows(self.leaves[first]), 0.0
        have, todo = [first], [i for i in range(len(self.leaves)) if i != first]
        while todo:
            steps = []
            for i in list(self._connected(have, todo)) or todo:
                keys = self._keys(i, have)
                made = sizes.joined(rows, self.leaves[i], keys, self._partner(i, have))
                cost = made + sizes.arranging(self.leaves[i], keys)
                if len(have) == 1:
                    cost += sizes.arranging(self.leaves[first], self._keys(first, [i]))
                steps.append((cost, i, made))
            cost, following, rows = min(steps)
            total += cost
            have.append(following)
            todo.remove(following)
        return total, have

    def _partner(self, leaf: int, have: Sequence[int]) -> tuple[Node, set[int]] | None:
        """The joined leaf that a new one is connected to, and by which columns; None if several."""
        found = [(self.leaves[i], keys) for i in have if (keys := self._keys(i, [leaf]))]
        return found[0] if len(found) == 1 else None

    def _keys(self, leaf: int, have: Sequence[int]) -> set[int]:
        """The leaf's columns that equalities connect to what is joined already."""
        start, end, there = self.starts[leaf], self.starts[leaf + 1], set(have)
        joining = [e for e in self.about[leaf] if e.connects(there, leaf)]
        return {c - start for e in joining for c in e.columns if start <= c < end}
