"""Derivations as equations over possibly missing rows.

While `witnesses` searches for single derivations, the equations cover all of them at once: a row with several
derivations is an *or* of them, a pair is an *and*, a table row is a *leaf* if it may be missing, and otherwise simply
true. Rows of loops depend on each other in cycles; the meaning of the equations is their least solution, in which
nothing holds because of itself alone. Only plans for which that is correct in every smaller world are accepted
(`everview.plan.worlds`).

There may be too many rows behind a row. Beyond a limit the rest stays *open*: treating it as absent gives a lower
bound, treating it as present an upper bound.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from enum import Enum, auto

from everview.errors import PlanError
from everview.expr.nodes import ColumnRef, Literal
from everview.language.relation import relation_of
from everview.plan import nodes as plan
from everview.plan import worlds as monotone
from everview.why import linear
from everview.why.column_blocks import Row
from everview.why.contents import Contents, sides_of
from everview.why.loops import Histories
from everview.why.rendering import Names
from everview.why.steps import Goal, Key
from everview.why.witnesses import Alternatives

Leaf = tuple[str, Row]
"""A row of a table: its name, and codes."""


class Kind(Enum):
    """The kind of an unknown."""

    ANY = auto()
    """holds if one of its parts does"""
    ALL = auto()
    """holds if all of its parts do"""
    LEAF = auto()
    """a row that may be missing"""
    OPEN = auto()
    """not examined"""


class Equations:
    """Unknowns by number, each with its kind and parts; number 0 is the row in question."""

    def __init__(self) -> None:
        self.kinds: list[Kind] = []
        self.parts: list[tuple[int, ...]] = []
        self.leaves: dict[int, Leaf] = {}
        self._users: list[list[int]] | None = None

    def new(self, kind: Kind = Kind.OPEN, parts: tuple[int, ...] = ()) -> int:
        """Add an unknown."""
        self.kinds.append(kind)
        self.parts.append(parts)
        return len(self.kinds) - 1

    def put(self, number: int, kind: Kind, parts: tuple[int, ...] = ()) -> None:
        """Define an unknown."""
        self.kinds[number] = kind
        self.parts[number] = tuple(dict.fromkeys(parts))

    @property
    def users(self) -> list[list[int]]:
        """The unknowns that each is a part of."""
        if self._users is None:
            self._users = [[] for _ in self.kinds]
            for number, parts in enumerate(self.parts):
                for part in parts:
                    self._users[part].append(number)
        return self._users

    def holding(self, present: Collection[int], *, open_holds: bool) -> list[bool]:
        """Which unknowns hold if exactly these leaves do: the least solution, computed bottom-up."""
        missing = [len(p) if kind is Kind.ALL else 1 for kind, p in zip(self.kinds, self.parts, strict=True)]
        holds = [False] * len(self.kinds)
        todo = [n for n, kind in enumerate(self.kinds) if kind is Kind.ALL and not missing[n]]
        todo += [n for n, kind in enumerate(self.kinds) if kind is Kind.OPEN and open_holds]
        todo += present
        while todo:
            number = todo.pop()
            if not holds[number]:
                holds[number] = True
                for user in self.users[number]:
                    missing[user] -= 1
                    if missing[user] == 0:
                        todo.append(user)
        return holds

    def depth_first(self) -> list[int]:
        """The unknowns that the first depends on, bottom-up: the order of the thesis (liu-2016 §3.5)."""
        found: list[int] = []
        seen: set[int] = set()
        todo = [(0, False)]
        while todo:
            number, ready = todo.pop()
            if ready:
                found.append(number)
            elif number not in seen:
                seen.add(number)
                todo.append((number, True))
                todo.extend((part, False) for part in reversed(self.parts[number]))
        return found


class Writer:
    """Writes the equations of one row. `chance`: the probability of a table row."""

    def __init__(
        self,
        contents: Contents,
        histories: Histories,
        names: Names,
        chance: Callable[[str, Row], float],
        budget: int,
    ) -> None:
        self.contents = contents
        self.names = names
        self.chance = chance
        self.budget = budget
        self.equations = Equations()
        self.chances: dict[int, float] = {}
        """of each leaf"""
        self._search = Alternatives(contents, histories, names.node)
        self._numbers: dict[Key, int] = {}
        self._leaves: dict[Leaf, int] = {}
        self._todo: list[tuple[Goal, int]] = []

    def write(self, root: Goal) -> Equations:
        """The equations of a present row."""
        made = self.equations
        self._fixed(root, made.new())
        looked_at = 0
        while self._todo and looked_at < self.budget:
            goal, number = self._todo.pop()
            looked_at += 1
            self._plain(goal, number)
        return made

    def _number(self, goal: Goal) -> int:
        """The unknown of a row of a monotone plan."""
        key = self._search.key(goal)
        if key not in self._numbers:
            self._numbers[key] = number = self.equations.new()
            self._todo.append((goal, number))
        return self._numbers[key]

    # monotone steps

    def _plain(self, goal: Goal, number: int) -> None:
        node, put = goal.node, self.equations.put
        if isinstance(node, plan.Table):
            self._leaf(node, goal.row, number)
        elif isinstance(node, plan.Constant):
            put(number, Kind.ALL)
        elif isinstance(node, plan.MultiJoin):
            put(number, Kind.ALL, tuple(self._inputs(goal, node)))
        elif isinstance(node, plan.Join):
            put(number, Kind.ALL, tuple(self._number(side) for side in self._search.step(goal).children))
        else:
            options = self._search.options(goal)
            put(number, Kind.ANY, tuple(self._number(child) for step in options for child in step.children))

    def _leaf(self, node: plan.Table, row: Row, number: int) -> None:
        named = self.names.table(node)
        leaf = (named.name, row[: named.width])
        known = self._leaves.get(leaf)
        if known is not None:  # two indexes of one table, or one that follows the clock
            self.equations.put(number, Kind.ANY, (known,))
            return
        chance = self.chance(*leaf)
        if 0.0 < chance < 1.0:
            self.equations.put(number, Kind.LEAF)
            self.equations.leaves[number] = leaf
            self.chances[number] = chance
            self._leaves[leaf] = number
        else:
            self.equations.put(number, Kind.ALL if chance else Kind.ANY)

    def _inputs(self, goal: Goal, node: plan.MultiJoin) -> Iterator[int]:
        """For each input, any row with the values of the variables."""
        for child, variables in zip(node.inputs, node.variables, strict=True):
            known = {c: goal.row[v] for c, v in enumerate(variables) if v >= 0}
            rows = sorted(row for row, n in self.contents.rows(child, goal.inside, known).items() if n > 0)
            yield self.equations.new(Kind.ANY, tuple(self._number(Goal(child, goal.inside, row)) for row in rows))

    # steps above these, for a row determined by the row in question

    def _fixed(self, goal: Goal, number: int) -> None:
        """Descend to where the plan is monotone, as long as each step's row is the only possible one."""
        node, put = goal.node, self.equations.put
        offence = monotone.offence(node)
        if not offence:
            put(number, Kind.ANY, (self._number(goal),))
        elif isinstance(node, plan.Filter | plan.Threshold):
            put(number, Kind.ANY, (self._below(Goal(node.child, goal.inside, goal.row)),))
        elif isinstance(node, plan.Project) and (row := self._only_origin(node, goal.row)) is not None:
            put(number, Kind.ANY, (self._below(Goal(node.child, goal.inside, row)),))
        elif isinstance(node, plan.Join):
            width = len(node.left.types)
            sides = (Goal(node.left, goal.inside, goal.row[:width]), Goal(node.right, goal.inside, goal.row[width:]))
            put(number, Kind.ALL, tuple(self._below(side) for side in sides))
        elif isinstance(node, plan.Reduce) and not monotone.offence(node.child):
            put(number, Kind.ALL, tuple(self._winners(goal, node)))
        elif isinstance(node, plan.Union):
            put(number, Kind.ANY, tuple(self._unless(goal, node)))
        else:
            raise self._refuse(offence)

    def _only_origin(self, node: plan.Project, row: Row) -> Row | None:
        """The only row that can become this one, if the row determines all of it; a join's keys determine each
        other."""
        if not all(isinstance(e, ColumnRef | Literal) for e in node.exprs):
            return None
        known = linear.below(node, dict(enumerate(row)), self.contents.interner)
        if known is not None and isinstance(node.child, plan.Join):
            sides = sides_of(node.child, known)
            if sides is not None:
                width = len(node.child.left.types)
                known = sides[0] | {c + width: code for c, code in sides[1].items()}
        width = len(node.child.types)
        return tuple(known[c] for c in range(width)) if known is not None and len(known) == width else None

    def _below(self, goal: Goal) -> int:
        number = self.equations.new()
        self._fixed(goal, number)
        return number

    def _winners(self, goal: Goal, node: plan.Reduce) -> Iterator[int]:
        """For each extreme, any row that has it."""
        known = dict(zip(node.keys, goal.row[: len(node.keys)], strict=True))
        for a, code in zip(node.aggregates, goal.row[len(node.keys) :], strict=True):
            if a.kind not in ("min", "max") or a.column is None:
                raise self._refuse(f"{a.kind} depends on all rows of a group")
            rows = self.contents.rows(node.child, goal.inside, known | {a.column: code})
            winners = sorted(row for row, n in rows.items() if n > 0)
            parts = tuple(self._number(Goal(node.child, goal.inside, row)) for row in winners)
            yield self.equations.new(Kind.ANY, parts)

    def _unless(self, goal: Goal, node: plan.Union) -> Iterator[int]:
        """The inputs that have the row, if what removes rows does not have it, and never will."""
        for each in node.inputs:
            there = self.contents.count(each, goal.inside, goal.row)
            if isinstance(each, plan.Negate):
                if there or not monotone.negation_is_fixed(each):
                    raise self._refuse("a row is taken away that is there more than once")
            elif there > 0:
                yield self._below(Goal(each, goal.inside, goal.row))
            elif (offence := monotone.offence(each)) and not self._never(each, goal.row):
                raise self._refuse(offence)

    def _never(self, node: plan.Node, row: Row) -> bool:
        """Whether a projection has a constant that differs from the row's value."""
        return isinstance(node, plan.Project) and (
            linear.below(node, dict(enumerate(row)), self.contents.interner) is None
        )

    def _refuse(self, why: str) -> PlanError:
        return monotone.refuse(f"view {relation_of(self.names.view).label!r}", why)
