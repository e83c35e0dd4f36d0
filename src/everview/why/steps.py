"""One step back: why a row is in a plan, in terms of rows of the plan's inputs.

A *goal* is a present row that needs an explanation; a *step* is the explanation, and its children are goals again.
Every kind of node has one rule (`_RULES`). If several rows would do, the one with the least codes is chosen, so that
the same question always has the same result. Goals that are met again are not explained again: the result is an acyclic
graph, whose leaves are rows of tables and constants.

Counts may be negative between a negation and the next threshold. A goal therefore has a sign: +1 for why a row is
present, -1 for why it was removed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from heapq import nsmallest
from typing import Any

from everview.errors import InternalError
from everview.plan import nodes as plan
from everview.plan.check import free_depths
from everview.plan.windows import Window
from everview.why import linear, loop_shortcuts
from everview.why.column_blocks import Bag, Bound, Row
from everview.why.contents import Contents, Inside, Variables
from everview.why.groups import Grouping, in_order
from everview.why.loops import Came, Histories, NoWay

SHOWN_OF_GROUP = 5
"""Number of rows shown of a group."""

FIRST = 64
"""Number of rows tried before all others."""

Key = tuple[Any, ...]


@dataclass(slots=True, eq=False)
class Goal:
    """A row of a plan that is present (sign +1), or has a negative count (-1). `upto`: for a loop's row, the round in
    which it is examined; None: the last.
    """

    node: plan.Node
    inside: Inside
    row: Row
    sign: int = 1
    upto: int | None = None
    key: Key | None = None
    """its identity within the search"""
    came: Came | None = None
    """for a loop's row: how it was derived"""


@dataclass(frozen=True, eq=False)
class Absent:
    """What must be absent: rows of a plan with these codes."""

    node: plan.Node
    inside: Inside
    bound: Bound


@dataclass(frozen=True)
class Seen:
    """What a step examined: rows of the group (None: not counted), and the position of the row in an order."""

    rows: int | None
    place: int | None = None


@dataclass(slots=True, eq=False)
class Step:
    """Why a goal holds."""

    goal: Goal
    children: tuple[Goal, ...] = ()
    absent: tuple[Absent, ...] = ()
    seen: Seen | None = None
    round: int | None = None
    way: loop_shortcuts.Way | None = None
    """for a loop's row: how it follows from its children, past the nodes in between (`everview.why.loop_shortcuts`)"""


class Search:
    """Steps for a goal and all goals that it leads to."""

    def __init__(self, contents: Contents, histories: Histories, of: plan.Node) -> None:
        """The steps of a view's plan."""
        self.contents = contents
        self.histories = histories
        self.of = of
        self.straight = True
        """whether loops use shortcuts where possible"""
        self.steps: dict[Key, Step] = {}
        self._negates = plan.Negate in of.kinds
        self._rounds: dict[int, tuple[plan.Loop, Inside, int | None]] = {}
        self._results: dict[tuple[int, int], plan.LoopResult] = {}
        self._came: dict[Key, Came] = {}

    def explain(self, root: Goal) -> Step:
        """The step for a goal; those of all goals below it are in `steps`."""
        while True:
            try:
                return self._explain(root)
            except NoWay as failed:
                if not self.histories.failed(failed.loop):
                    raise InternalError(
                        "E_INTERNAL", "a row of a loop has no explanation", "please report it"
                    ) from None
                self.steps.clear()
                self._came.clear()
                root.key = root.came = None

    def _explain(self, root: Goal) -> Step:
        todo, steps = [root], self.steps
        while todo:
            goal = todo.pop()
            key = goal.key or self.key(goal)
            if key not in steps:
                steps[key] = step = _RULES[type(goal.node)](self, goal)
                if len(step.children) == 1:
                    todo.append(step.children[0])
                else:
                    todo += step.children[::-1]
        return steps[self.key(root)]

    def key(self, goal: Goal) -> Key:
        """The identity of a goal: a loop's row is the same in all rounds since it appeared."""
        if goal.key is None:
            node = goal.node
            since = self.came(goal).round if type(node) is plan.LoopResult else None
            goal.key = (id(node), self.contents.place(node, goal.inside), goal.row, goal.sign, since)
        return goal.key

    def step(self, goal: Goal) -> Step:
        """The explanation of one goal."""
        return _RULES[type(goal.node)](self, goal)

    # rows of one row

    def linear(self, goal: Goal) -> Step:
        node = goal.node
        assert isinstance(node, plan.Project | plan.FlatMap)
        known = linear.below(node, dict(enumerate(goal.row)), self.contents.interner)
        assert known is not None
        child = self.contents.rows(node.child, goal.inside, known)
        rows = [row for row, n in child.items() if n * goal.sign > 0]
        row = min(rows) if isinstance(node, plan.Project) and linear.is_plain(node) else self._origin(goal, node, rows)
        return Step(goal, (Goal(node.child, goal.inside, row, goal.sign),))

    def _origin(self, goal: Goal, node: plan.Project | plan.FlatMap, rows: list[Row]) -> Row:
        """The first row that becomes the goal's; mostly one of the very first does."""
        for some in (nsmallest(FIRST, rows), sorted(rows)):
            made = linear.images(node, some, self.contents.interner)
            for row, images in zip(some, made, strict=True):
                if goal.row in images:
                    return row
        raise InternalError("E_INTERNAL", "no row becomes one that is there", "please report it")

    def same(self, goal: Goal) -> Step:
        """The row unchanged: of a filter, or of a distinct."""
        assert isinstance(goal.node, plan.Filter | plan.Threshold)
        return Step(goal, (Goal(goal.node.child, goal.inside, goal.row, goal.sign),))

    def negate(self, goal: Goal) -> Step:
        assert isinstance(goal.node, plan.Negate)
        return Step(goal, (Goal(goal.node.child, goal.inside, goal.row, -goal.sign),))

    def leaf(self, goal: Goal) -> Step:
        return Step(goal)

    # rows of several plans

    def union(self, goal: Goal) -> Step:
        """The first input that has the row, and the absence from negated ones."""
        node = goal.node
        assert isinstance(node, plan.Union)
        count, bound = self.contents.count, dict(enumerate(goal.row))
        chosen = next(i for i in node.inputs if count(i, goal.inside, goal.row) * goal.sign > 0)
        absent = [
            Absent(i.child, goal.inside, bound)
            for i in node.inputs
            if isinstance(i, plan.Negate) and goal.sign > 0 and count(i, goal.inside, goal.row) == 0
        ]
        return Step(goal, (Goal(chosen, goal.inside, goal.row, goal.sign),), tuple(absent))

    def join(self, goal: Goal) -> Step:
        node = goal.node
        assert isinstance(node, plan.Join)
        width = len(node.left.types)
        sides = ((node.left, goal.row[:width]), (node.right, goal.row[width:]))
        return Step(goal, tuple(self._signed(n, goal.inside, row) for n, row in sides))

    def multiway(self, goal: Goal) -> Step:
        node = goal.node
        assert isinstance(node, plan.MultiJoin)
        children = []
        for child, variables in zip(node.inputs, node.variables, strict=True):
            known = {c: goal.row[v] for c, v in enumerate(variables) if v >= 0}
            children.append(self._signed(child, goal.inside, min(self.contents.rows(child, goal.inside, known))))
        return Step(goal, tuple(children))

    def _signed(self, node: plan.Node, inside: Inside, row: Row) -> Goal:
        positive = not self._negates or self.contents.count(node, inside, row) > 0
        return Goal(node, inside, row, 1 if positive else -1)

    # rows of groups

    def reduce(self, goal: Goal) -> Step:
        """The winning rows of extremes, and some of the rows that were counted or added up."""
        node = goal.node
        assert isinstance(node, plan.Reduce)
        known = dict(zip(node.keys, goal.row[: len(node.keys)], strict=True))
        least, rows = self.contents.least(node.child, goal.inside, known, SHOWN_OF_GROUP)
        chosen: Bag = {}
        totals = False
        for a, code in zip(node.aggregates, goal.row[len(node.keys) :], strict=True):
            if a.kind in ("min", "max") and a.column is not None:
                best = self.contents.rows(node.child, goal.inside, known | {a.column: code})
                chosen[min(row for row, n in best.items() if n > 0)] = 1
            else:
                totals = True
        return self._of_group(goal, node, chosen | least if totals else chosen, rows)

    def top(self, goal: Goal) -> Step:
        node = goal.node
        assert isinstance(node, plan.TopK)
        group = self.contents.group(node, goal.inside, tuple(goal.row[k] for k in node.keys))
        place = 1
        for row, n in in_order(node, group, self.contents.interner):
            if row == goal.row:
                break
            place += n
        return self._of_group(goal, node, {goal.row: group[goal.row]}, sum(group.values()), place)

    def window(self, goal: Goal) -> Step:
        node = goal.node
        assert isinstance(node, Window)
        own = goal.row[: len(node.child.types)]
        group = self.contents.group(node, goal.inside, tuple(own[k] for k in node.keys))
        others = [row for row in nsmallest(SHOWN_OF_GROUP, group) if row != own][: SHOWN_OF_GROUP - 1]
        return self._of_group(goal, node, {row: group[row] for row in (own, *others)}, sum(group.values()))

    def python(self, goal: Goal) -> Step:
        node = goal.node
        assert isinstance(node, plan.PythonReduce)
        group = self.contents.group(node, goal.inside, goal.row[: len(node.keys)])
        least = {row: group[row] for row in nsmallest(SHOWN_OF_GROUP, group)}
        return self._of_group(goal, node, least, sum(group.values()))

    def _of_group(self, goal: Goal, node: Grouping, some: Bag, rows: int, place: int | None = None) -> Step:
        """Some rows of a group, and how many there are; unknown if only some rows of a loop are known."""
        children = tuple(Goal(node.child, goal.inside, row, 1 if n > 0 else -1) for row, n in some.items())
        whole = not any(goal.inside[depth].partial for depth in free_depths(node.child))
        whole = whole and not self.histories.narrows(node.child)
        return Step(goal, children, seen=Seen(rows if whole else None, place))

    # rows of loops

    def came(self, goal: Goal) -> Came:
        """How a loop's row was derived."""
        if goal.came is not None:
            return goal.came
        node = goal.node
        assert isinstance(node, plan.LoopResult)
        key = (id(node), self.contents.place(node, goal.inside), goal.row, goal.sign, goal.upto)
        known = self._came.get(key)
        if known is None:
            history = self.histories.of(node.loop, goal.inside)
            found = history.came(node.index, goal.row, goal.upto, goal.sign)
            if found is None:
                raise NoWay(node.loop)
            if found.before is not None:
                before = None if found.round is None else found.round - 1
                self._rounds[found.before.serial] = (node.loop, goal.inside, before)
            self._came[key] = known = found
            self._results.setdefault((id(node.loop), node.index), node)
        goal.came = known
        return known

    def loop(self, goal: Goal) -> Step:
        node = goal.node
        assert isinstance(node, plan.LoopResult)
        loop, came = node.loop, self.came(goal)
        initial = loop.initials[node.index]
        if came.before is None:
            assert initial is not None
            child = Goal(initial, goal.inside, goal.row, goal.sign)
        else:
            if self.straight and not self._negates and len(loop.bodies) == 1 and goal.sign > 0:
                turn = loop_shortcuts.turn(self.contents, loop.bodies[0], came.before, goal.row)
                if turn is not None:
                    way, ends = turn
                    upto = None if came.round is None else came.round - 1
                    children = tuple([self._end(goal, loop, upto, *end) for end in ends])
                    return Step(goal, children, round=came.round, way=way)
            child = Goal(loop.bodies[node.index], {**goal.inside, loop.depth: came.before}, goal.row, goal.sign)
        if self.contents.count(child.node, child.inside, child.row) * goal.sign <= 0:
            raise NoWay(loop)
        return Step(goal, (child,), round=came.round)

    def _end(self, goal: Goal, loop: plan.Loop, upto: int | None, node: plan.Node, row: Row) -> Goal:
        """The end of a way through a body: a row of the loop again, or of another plan."""
        if isinstance(node, plan.Variable):
            return Goal(self.result_of(loop, node.index), goal.inside, row, 1, upto)
        return Goal(node, goal.inside, row)

    def variable(self, goal: Goal) -> Step:
        """A row of a loop's variable is one of the loop, in an earlier round."""
        node = goal.node
        assert isinstance(node, plan.Variable)
        loop, inside, upto = self._rounds[goal.inside[node.depth].serial]
        return Step(goal, (Goal(self.result_of(loop, node.index), inside, goal.row, goal.sign, upto),))

    def holds(self, variables: Variables, loop: plan.Loop, inside: Inside) -> None:
        """The contents of a loop's variables at its end."""
        self._rounds[variables.serial] = (loop, inside, None)

    def loop_of(self, variables: Variables) -> plan.Loop:
        """The loop with these contents in some round."""
        return self._rounds[variables.serial][0]

    def result_of(self, loop: plan.Loop, index: int) -> plan.LoopResult:
        """The result of a loop as a node, the same each time."""
        found = self._results.get((id(loop), index))
        if found is None:
            found = self._results[id(loop), index] = plan.LoopResult(loop, index)
        return found


_RULES: dict[type[plan.Node], Callable[[Search, Goal], Step]] = {
    plan.Table: Search.leaf,
    plan.Constant: Search.leaf,
    plan.Project: Search.linear,
    plan.FlatMap: Search.linear,
    plan.Filter: Search.same,
    plan.Threshold: Search.same,
    plan.Negate: Search.negate,
    plan.Union: Search.union,
    plan.Join: Search.join,
    plan.MultiJoin: Search.multiway,
    plan.Reduce: Search.reduce,
    plan.TopK: Search.top,
    plan.PythonReduce: Search.python,
    Window: Search.window,
    plan.LoopResult: Search.loop,
    plan.Variable: Search.variable,
}
"""The rule of each kind of node."""
