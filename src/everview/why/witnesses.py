"""Several explanations of one row: the minimal sets of table rows that it follows from.

`everview.why.steps` takes the first step that works. Here all of them are tried, one choice for each goal, backtracking
from dead ends. No row of a loop may occur below itself; with that restriction a loop can be examined at its end, since
its result is derived from itself. Paths through loops are tried by length: first those with one round, then two, four,
and so on.

There may be too many explanations: the search ends at a budget, and says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from everview.plan import nodes as plan
from everview.why import linear
from everview.why.column_blocks import Row
from everview.why.contents import Contents
from everview.why.derivation import Derivation
from everview.why.fixed_points import Final
from everview.why.loops import Came, Histories
from everview.why.rendering import Names, Renderer
from everview.why.steps import Goal, Key, Search, Step

BUDGET = 20_000
"""Number of choices tried."""

Leaves = frozenset[tuple[int, Row]]
Todo = tuple[Any, Any] | None


class Alternatives(Search):
    """Every way to explain a goal, at the end of all loops."""

    def __init__(self, contents: Contents, histories: Histories, of: plan.Node) -> None:
        super().__init__(contents, histories, of)
        self.straight = False  # every way is tried
        self.budget = BUDGET
        self.cut = False
        """whether something was left out"""
        self._final: dict[Key, Final] = {}

    def came(self, goal: Goal) -> Came:
        node = goal.node
        assert isinstance(node, plan.LoopResult)
        loop = node.loop
        key = (id(loop), self.contents.place(loop, goal.inside))
        if key not in self._final:
            self._final[key] = held = Final(self.histories.of(loop, goal.inside))
            self.holds(held, loop, goal.inside)
        return Came(None, self._final[key])

    def options(self, goal: Goal) -> Iterator[Step]:
        """The steps that explain a goal."""
        node = goal.node
        if goal.sign > 0 and isinstance(node, plan.Project | plan.FlatMap):
            yield from self._preimages(goal, node)
        elif goal.sign > 0 and isinstance(node, plan.Union):
            first = self.union(goal)
            for each in node.inputs:
                if self.contents.count(each, goal.inside, goal.row) > 0:
                    yield Step(goal, (Goal(each, goal.inside, goal.row),), first.absent)
        elif isinstance(node, plan.Reduce) and len(node.aggregates) == 1 and node.aggregates[0].kind in ("min", "max"):
            yield from self._winners(goal, node)
        else:
            yield self.step(goal)

    def _preimages(self, goal: Goal, node: plan.Project | plan.FlatMap) -> Iterator[Step]:
        known = linear.below(node, dict(enumerate(goal.row)), self.contents.interner)
        assert known is not None
        child = self.contents.rows(node.child, goal.inside, known)
        rows = sorted(row for row, n in child.items() if n > 0)
        for row, images in zip(rows, linear.images(node, rows, self.contents.interner), strict=True):
            if goal.row in images:
                yield Step(goal, (Goal(node.child, goal.inside, row),))

    def _winners(self, goal: Goal, node: plan.Reduce) -> Iterator[Step]:
        group = self.contents.group(node, goal.inside, goal.row[: len(node.keys)])
        column, code = node.aggregates[0].column, goal.row[-1]
        for row in sorted(row for row, n in group.items() if n > 0 and column is not None and row[column] == code):
            yield self._of_group(goal, node, {row: 1}, sum(group.values()))

    def solutions(self, root: Goal, rounds: int) -> Iterator[dict[Key, Step]]:
        """Every choice of one step for each goal, with at most this many rounds of loops."""
        chosen: dict[Key, Step] = {}
        frames: list[tuple[Iterator[Step], Key, Todo, frozenset[Key], int]] = []
        nothing: frozenset[Key] = frozenset()
        todo: Todo = ((root, nothing, 0), None)
        while True:
            if todo is None:
                yield dict(chosen)
            else:
                (goal, above, depth), rest = todo
                key = self.key(goal)
                if key in chosen:
                    todo = rest
                    continue
                if type(goal.node) is plan.LoopResult:
                    above, depth = above | {key}, depth + 1
                if depth > rounds:
                    self.cut = True
                else:
                    frames.append((self.options(goal), key, rest, above, depth))
            todo = self._next(frames, chosen)
            if not frames:
                return

    def _next(
        self, frames: list[tuple[Iterator[Step], Key, Todo, frozenset[Key], int]], chosen: dict[Key, Step]
    ) -> Todo:
        """Make the next choice, discarding those after it."""
        while frames:
            options, key, rest, above, depth = frames[-1]
            chosen.pop(key, None)
            self.budget -= 1
            step = next(options, None) if self.budget > 0 else None
            if self.budget <= 0:
                self.cut = True
            if step is None:
                frames.pop()
                continue
            if any(type(c.node) is plan.LoopResult and self.key(c) in above for c in step.children):
                continue
            chosen[key] = step
            todo = rest
            for child in reversed(step.children):
                todo = ((child, above, depth), todo)
            return todo
        return None


def _leaves(chosen: dict[Key, Step]) -> Leaves:
    return frozenset((s.goal.node.id, s.goal.row) for s in chosen.values() if isinstance(s.goal.node, plan.Table))


def _in_circles(search: Search, root: Goal, chosen: dict[Key, Step]) -> bool:
    """Whether some row explains itself through a row that was chosen elsewhere."""
    done: set[Key] = set()
    path: set[Key] = set()
    todo = [(root, False)]
    while todo:
        goal, after = todo.pop()
        key = search.key(goal)
        if after:
            path.discard(key)
            done.add(key)
        elif key in path:
            return True
        elif key not in done:
            path.add(key)
            todo.append((goal, True))
            todo.extend((child, False) for child in chosen[key].children)
    return False


def witnesses(
    contents: Contents, histories: Histories, names: Names, root: Goal, number: int
) -> tuple[list[Derivation], bool]:
    """Up to so many derivations with minimal leaves, and whether there may be more."""
    search = Alternatives(contents, histories, root.node)
    found: dict[Leaves, dict[Key, Step]] = {}
    rounds, complete = 1, False
    while not complete and len(found) <= number and search.budget > 0:
        search.cut = False
        for chosen in search.solutions(root, rounds):
            leaves = _leaves(chosen)
            if any(known <= leaves for known in found) or _in_circles(search, root, chosen):
                continue
            found = {known: steps for known, steps in found.items() if not leaves <= known} | {leaves: chosen}
            if len(found) > number:
                break
        else:
            complete = not search.cut
        rounds *= 2
    derivations = []
    for _, chosen in sorted(found.items(), key=lambda item: len(item[0]))[:number]:
        search.steps = chosen
        derivations.append(Renderer(search, names).tell(root))
    return derivations, not complete or len(found) > number
