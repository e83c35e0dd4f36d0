"""Why a row is absent: what each way to derive it lacks.

The plan is evaluated backwards with what is known of the row; where nothing is found, it determines what would have to
exist. A *lack* is one result: missing rows of tables, conditions that fail for the nearest rows, or existing rows that
must not be there. A join lacks what its right side lacks for a row of the left, or vice versa; every input of a union
is a separate way; a loop's rows may lack other rows of the loop, and so on, for a few rounds.

Of many ways the nearest few are reported: those that miss the fewest rows, and of which most is known. Lacks that only
consist of fully known table rows are tested: what if these rows were inserted? If that does not produce the row, the
answer says so. Only large loops are not run for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from heapq import nsmallest
from itertools import combinations, islice
from typing import Any

from everview.language.relation import relation_of
from everview.plan import nodes as plan
from everview.plan import worlds as monotone
from everview.plan.check import free_depths
from everview.plan.explain import preformatted
from everview.types import NULL
from everview.why import drawing, linear
from everview.why.access import Supposed, matches
from everview.why.column_blocks import Bag, Bound, Row
from everview.why.contents import OUTSIDE, Contents, Inside, agreeing, sides_of
from everview.why.derivation import Values
from everview.why.fixed_points import Final
from everview.why.groups import GROUPINGS, Grouping, in_order, output
from everview.why.loops import Histories
from everview.why.rendering import Renderer
from everview.why.steps import Goal

NEAREST = 4
"""Maximum number of near rows, and of ways to one row, that are examined."""

MOST_ROUNDS = 8
"""Maximum number of rounds of a loop."""

BUDGET = 2_000
"""Maximum number of plans examined."""

NOT_ENOUGH = "something else stands in the way as well"
NOT_ENOUGH_TRIED = "something else stands in the way as well, whatever was tried for what is open"

FILLED = 4
"""Number of values tried for the open columns of missing rows."""

GUESSES = 4
"""Number of ways for which that is done."""

Linear = plan.Project | plan.Filter | plan.FlatMap
"""Plans that process one row at a time."""

_WRITTEN = "is not among the rows that are written down"

TESTED_TABLE_ROWS = 5_000
"""Maximum size of tables for which a loop is run to test missing rows."""

TOLD = 6
"""Number of ways reported."""


@dataclass(frozen=True)
class Lack:
    """What one way to a row lacks; `failed` is what adding rows alone does not fix."""

    missing: tuple[tuple[plan.Table, tuple[tuple[int, int], ...]], ...] = ()
    failed: tuple[str, ...] = ()
    rule: str = ""
    rounds: int = 0

    def order(self) -> tuple[Any, ...]:
        """The nearest come first."""
        known = sum(len(table.types) - len(bound) for table, bound in self.missing)
        return len(self.failed), bool(known), len(self.missing), known, self.rounds

    def __add__(self, other: Lack) -> Lack:
        both = tuple(dict.fromkeys((*self.missing, *other.missing)))
        failed = tuple(dict.fromkeys((*self.failed, *other.failed)))
        return Lack(both, failed, self.rule or other.rule, max(self.rounds, other.rounds))


@dataclass(frozen=True)
class Way:
    """One way in which the row could be derived, and what it lacks."""

    missing: tuple[tuple[str, Values], ...]
    """(table, row) with None for open values"""
    failed: tuple[str, ...]
    """other obstacles"""
    rule: str = ""

    def __str__(self) -> str:
        rows = (f"{table}({', '.join('_' if v is None else repr(v) for v in row)})" for table, row in self.missing)
        parts = [f"there is no row {row}" for row in rows]
        text = "; ".join([*self.failed, *parts]) or "nothing is missing"
        return f"{text}  ({self.rule})" if self.rule else text


@dataclass(frozen=True)
class WhyNot:
    """Why a row is not in a view: for each possible derivation, what it lacks, nearest first.

    >>> import everview as ev
    >>> db = ev.connect()
    >>> edge = db.table("edge", {"src": str, "dst": str})
    >>> rules = db.datalog('reach("a"). reach(Y) :- reach(X), edge(X, Y).')
    >>> edge.insert([("a", "b"), ("c", "d")])
    >>> print(rules.reach.why_not(("d",)))
    reach('d') is not there:
    - there is no row edge('a', 'd')  (reach(Y) :- reach(X), edge(X, Y).)
    - there is no row edge('b', 'd')  (reach(Y) :- reach(X), edge(X, Y).)
    - there is no row edge('a', 'c')  (reach(Y) :- reach(X), edge(X, Y).)
    - there is no row edge('b', 'c')  (reach(Y) :- reach(X), edge(X, Y).)
    >>> rules.reach.why_not(("d",)).missing()
    [('edge', ('a', 'd'))]
    """

    source: str
    row: Values
    ways: tuple[Way, ...]

    def missing(self) -> list[tuple[str, Values]]:
        """The rows of tables that the nearest way lacks, with None for open values. If there is no other obstacle,
        inserting them produces the row.
        """
        return list(self.ways[0].missing) if self.ways else []

    def to_dict(self) -> dict[str, Any]:
        """For programs."""
        ways = [{"missing": list(w.missing), "failed": list(w.failed), "rule": w.rule} for w in self.ways]
        return {"source": self.source, "row": self.row, "ways": ways}

    def __str__(self) -> str:
        values = ", ".join("_" if v is None else repr(v) for v in self.row)
        ways = [f"- {way}" for way in self.ways] or ["- no way to it is known"]
        return "\n".join([f"{self.source}({values}) is not there:", *ways])

    def _repr_html_(self) -> str:
        return preformatted(str(self))


class Absences:
    """Finds what plans lack."""

    def __init__(self, telling: Renderer) -> None:
        self.telling = telling
        self.contents: Contents = telling.search.contents
        self.budget = BUDGET
        self.guesses = GUESSES
        self._loops: dict[int, tuple[plan.Loop, Inside]] = {}
        self._asked: set[tuple[int, int, tuple[tuple[int, int], ...]]] = set()
        self._final: dict[tuple[int, tuple[int, ...]], Final] = {}

    def ways(self, node: plan.Node, bound: Bound) -> tuple[Way, ...]:
        """The nearest ways to a row."""
        known = dict(bound)
        found = self.lacks(node, {}, known)
        if self._quick(node):
            found = [self._tried(lack, node, known) for lack in found]
        fixed = [lack for lack in found if not lack.failed]  # constant rows never change
        found = fixed if fixed and all(_WRITTEN in "".join(x.failed) for x in found if x.failed) else found
        told = sorted(((lack.order(), self._told(lack)) for lack in found), key=lambda pair: (pair[0], str(pair[1])))
        return tuple(dict.fromkeys(way for _, way in told))[:TOLD] or (self._others(node, known),)

    def _others(self, node: plan.Node, bound: Bound) -> Way:
        """If no way back through a recursion is found: what it converges to instead, the most similar rows."""
        name = self.telling.names.own.name
        for fewer in range(1, len(bound) + 1):
            for left_out in combinations(sorted(bound, reverse=True), fewer):
                known = {c: code for c, code in bound.items() if c not in left_out}
                there = sorted(row for row, n in self.contents.rows(node, {}, known).items() if n > 0)
                if there:
                    rows = ", ".join(
                        f"{name}({drawing.shown(self.telling.decoded(node.types, row))})" for row in there[:NEAREST]
                    )
                    return Way((), (f"its recursion ends with {rows} instead",))
        return Way((), ("its recursion ends without any row",))

    def _quick(self, node: plan.Node) -> bool:
        """Whether a plan is cheap to compute: it has no loops, or they read little."""
        if not any(isinstance(n, plan.Loop) for n in node.walk()):
            return True
        sizes = (self.contents.access.size(n) or 0 for n in node.walk() if isinstance(n, plan.Table))
        return sum(sizes) <= TESTED_TABLE_ROWS

    def _tried(self, lack: Lack, node: plan.Node, bound: Bound) -> Lack:
        """The lack, tested by supposing that its rows existed. Open values are taken from rows of the table if it is
        small and if more rows can produce fewer (`EXCEPT`, `LIMIT`); if none of a few works, the answer says so.
        """
        if lack.failed or not lack.missing:
            return lack
        is_open = any(len(known) < len(table.types) for table, known in lack.missing)
        if is_open and not self._may_guess(lack, node):
            return lack
        for number in range(FILLED if is_open else 1):
            rows: dict[plan.Table, Bag] = {}
            for table, known in lack.missing:
                rows.setdefault(table, {})[self._filled(table, dict(known), number)] = 1
            supposed = Contents(Supposed(self.contents.access, rows))
            Histories(supposed, None, self.contents.histories.narrowed)
            if any(n > 0 for n in supposed.rows(node, {}, bound).values()):
                return lack
        return replace(lack, failed=(NOT_ENOUGH_TRIED if is_open else NOT_ENOUGH,))

    def _may_guess(self, lack: Lack, node: plan.Node) -> bool:
        self.guesses -= 1
        small = all((self.contents.access.size(table) or 0) <= TESTED_TABLE_ROWS for table, _ in lack.missing)
        return self.guesses >= 0 and small and bool(monotone.offence(node))

    def _filled(self, table: plan.Table, known: dict[int, int], number: int) -> Row:
        """A partially known row; the other codes are those of a row of the table, or NULL."""
        if len(known) < len(table.types):
            there = sorted(self.contents.rows(table, {}, {}))[: FILLED - 1]
            some = there[number] if number < len(there) else tuple(NULL if t.nullable else 0 for t in table.types)
            known = dict(enumerate(some)) | known
        return tuple(known[c] for c in range(len(table.types)))

    def _told(self, lack: Lack) -> Way:
        missing = []
        for table, bound in lack.missing:
            named = self.telling.names.table(table)
            missing.append((named.name, self.pattern(table, dict(bound))[: named.width]))
        return Way(tuple(missing), lack.failed, lack.rule)

    def pattern(self, node: plan.Node, bound: Bound, inside: Inside = OUTSIDE) -> Values:
        """What is known of a row, as values; None for open ones."""
        codes = tuple(bound.get(c, NULL) for c in range(len(node.types)))
        return self.telling.values(node, inside, codes, optional=True)

    # what one plan lacks

    def lacks(self, node: plan.Node, inside: Inside, bound: dict[int, int]) -> list[Lack]:
        """What would have to exist for such a row; empty if there is one."""
        self.budget -= 1
        if self.budget < 0:
            return []
        if isinstance(node, plan.Table):
            late = self._late(node, bound)
            return [Lack(failed=(late,)) if late else Lack(((node, tuple(sorted(bound.items()))),))]
        if isinstance(node, plan.Project | plan.Filter | plan.FlatMap):
            found = self._linear(node, inside, bound)
        elif isinstance(node, plan.Union):
            found = self._union(node, inside, bound)
        elif isinstance(node, plan.Join):
            found = self._join(node, inside, bound)
        elif isinstance(node, plan.MultiJoin):
            found = self._multiway(node, inside, bound)
        elif isinstance(node, plan.Threshold):
            found = self.lacks(node.child, inside, bound)
        elif isinstance(node, GROUPINGS):
            found = self._group(node, inside, bound)
        elif isinstance(node, plan.LoopResult):
            found = self._loop(node, inside, bound)
        elif isinstance(node, plan.Variable):
            found = self._variable(node, inside, bound)
        else:
            found = [Lack(failed=(f"{self._shown(node, bound, inside)} {_WRITTEN}",))]
        rule = self.telling.names.rule(node)
        return self._nearest(replace(lack, rule=rule or lack.rule) for lack in found)

    def _late(self, node: plan.Table, bound: Bound) -> str:
        """For a table that follows the clock: the row exists, but this is not its time."""
        named = self.telling.names.table(node)
        own = relation_of(self.contents.access.core.catalog.table_of(node))
        if named.kind == "clock":
            there = sorted(self.contents.rows(node, {}, {}))[-1:]
            last = f"; the last is {self._listed(node, {}, there)}" if there else ""
            return f"{self._shown(node, bound, {})} is not of {named.name}{last}"
        followed = own.origin
        if followed is None:
            return ""
        origin = relation_of(followed).node
        known = {c: code for c, code in bound.items() if c < named.width}
        there = nsmallest(NEAREST, self.contents.rows(origin, {}, known))
        rows = ", ".join(f"{named.name}({drawing.shown(self.telling.decoded(origin.types, r))})" for r in there)
        verb = "is" if len(there) == 1 else "are"
        if own.partner is None:
            return f"{rows} {verb} there, but not {named.how}" if there else ""
        partner = relation_of(own.partner).node
        wanted = {c - named.width: x for c, x in bound.items() if 0 <= c - named.width < len(partner.types)}
        then = f"{named.partner}{self._shown(partner, wanted, {})}"
        if there:
            return f"{rows} {verb} there, and came when there was no row {then}"
        return "" if self.contents.rows(partner, {}, wanted) else f"there is no row {then} for a row that comes now"

    def _nearest(self, lacks: Iterable[Lack]) -> list[Lack]:
        return sorted(set(lacks), key=lambda lack: (lack.order(), str(lack.missing), lack.failed))[: 2 * NEAREST]

    def _shown(self, node: plan.Node, bound: Bound, inside: Inside) -> str:
        return f"({', '.join('_' if v is None else repr(v) for v in self.pattern(node, bound, inside))})"

    def _listed(self, node: plan.Node, inside: Inside, rows: Iterable[Row]) -> str:
        """Some rows of a plan."""
        return ", ".join(f"({drawing.shown(self.telling.values(node, inside, row))})" for row in islice(rows, NEAREST))

    def _linear(self, node: Linear, inside: Inside, bound: Bound) -> list[Lack]:
        below = linear.below(node, bound, self.contents.interner)
        text = self.telling.names.text(node)
        if below is None:
            return [Lack(failed=(f"{text} never gives {self._shown(node, bound, inside)}",))]
        near = sorted(row for row, n in self.contents.rows(node.child, inside, below).items() if n > 0)
        if not near:
            return self._refused(node, inside, below, bound) or self.lacks(node.child, inside, below)
        rows = self._listed(node.child, inside, near)
        failure = linear.failure(node, near[0], self.contents.interner)
        if failure:
            return [Lack(failed=(f"{text}: {failure} for {rows}",))]
        return [Lack(failed=(f"{text} {self._refusal(node, inside, bound)} for {rows}",))]

    def _refusal(self, node: plan.Node, inside: Inside, bound: Bound) -> str:
        return "is not true" if isinstance(node, plan.Filter) else f"gives no {self._shown(node, bound, inside)}"

    def _refused(self, node: Linear, inside: Inside, below: Bound, bound: Bound) -> list[Lack]:
        """Whether a fully known row would be filtered out, if it existed."""
        if isinstance(node, plan.FlatMap) or len(below) < len(node.child.types):
            return []
        row = tuple(below[c] for c in range(len(below)))
        (made,) = linear.images(node, [row], self.contents.interner)
        if any(matches(image, bound) for image in made):
            return []
        what, values = self._refusal(node, inside, bound), self._listed(node.child, inside, [row])
        return [Lack(failed=(f"{self.telling.names.text(node)} {what} for {values}",))]

    def _union(self, node: plan.Union, inside: Inside, bound: dict[int, int]) -> list[Lack]:
        """Every input that adds rows is a way; one that removes them is an obstacle."""
        found: list[Lack] = []
        for each in node.inputs:
            if isinstance(each, plan.Negate):
                continue
            there = sorted(row for row, n in self.contents.rows(each, inside, bound).items() if n > 0)
            if not there:
                found += self.lacks(each, inside, bound)
            else:
                found += [self._taken_away(node, inside, row) for row in there[:NEAREST]]
        return found

    def _taken_away(self, node: plan.Union, inside: Inside, row: Row) -> Lack:
        """What removes a row that would otherwise exist."""
        reasons: list[str] = []
        for each in node.inputs:
            if isinstance(each, plan.Negate) and self.contents.count(each.child, inside, row) > 0:
                if free_depths(each.child):
                    reasons.append(
                        f"{self.telling.names.text(each.child)} has {self._shown(node, dict(enumerate(row)), inside)}"
                    )
                else:
                    own = self.telling.decoded(node.types, row)
                    for piece in self.telling.pieces(Goal(each.child, inside, row)):
                        if piece.kind != "absent" and piece.row != own:
                            reasons.append(f"{drawing.title(piece)} is there")
        return Lack(failed=tuple(dict.fromkeys(reasons)) or ("it is taken away as often as it is there",))

    # pairs

    def _join(self, node: plan.Join, inside: Inside, bound: dict[int, int]) -> list[Lack]:
        sides = sides_of(node, bound)
        if sides is None:
            return [Lack(failed=("its keys are not equal",))]
        nodes = (node.left, node.right)
        keys = (node.left_keys, node.right_keys)
        found: list[Lack] = []
        there = [self._some(n, inside, s) for n, s in zip(nodes, sides, strict=True)]
        for one, other in ((0, 1), (1, 0)):
            for row in there[one]:
                wanted = agreeing(sides[other], zip(keys[other], (row[k] for k in keys[one]), strict=True))
                if wanted is not None and not self.contents.rows(nodes[other], inside, wanted):
                    found += self.lacks(nodes[other], inside, wanted)
        if not there[0] and not there[1]:
            left = self.lacks(node.left, inside, sides[0])
            right = self.lacks(node.right, inside, sides[1])
            found += [a + b for a in left[:NEAREST] for b in right[:NEAREST]]
        return found

    def _some(self, node: plan.Node, inside: Inside, bound: Bound) -> list[Row]:
        """The nearest rows: the first by code."""
        return sorted(row for row, n in self.contents.rows(node, inside, bound).items() if n > 0)[:NEAREST]

    def _multiway(self, node: plan.MultiJoin, inside: Inside, bound: dict[int, int]) -> list[Lack]:
        """One input after the other, each with the bindings of those before it."""
        total = Lack()
        known = dict(bound)
        for child, variables in zip(node.inputs, node.variables, strict=True):
            below = {c: known[v] for c, v in enumerate(variables) if v in known}
            there = self._some(child, inside, below)
            if there:
                known |= {v: there[0][c] for c, v in enumerate(variables) if v >= 0}
            else:
                lacks = self.lacks(child, inside, below)
                if not lacks:
                    return []
                total += lacks[0]
        return [total]

    # groups

    def _group(self, node: Grouping, inside: Inside, bound: dict[int, int]) -> list[Lack]:
        first = isinstance(node, plan.Reduce | plan.PythonReduce)
        key = {k: bound[at] for i, k in enumerate(node.keys) if (at := i if first else k) in bound}
        group = self.contents.rows(node.child, inside, key)
        if first and not group:
            return self.lacks(node.child, inside, self._valued(node, key, bound))
        text = self.telling.names.text(node)
        if isinstance(node, plan.TopK):
            there = sorted(row for row, n in group.items() if n > 0 and matches(row, bound))
            if not there:
                return self.lacks(node.child, inside, bound)
            places = [row for row, _ in in_order(node, group, self.contents.interner)]
            return [Lack(failed=(f"{text}: it is number {places.index(there[0]) + 1} of {len(places)}",))]
        if not first and not group:
            return self.lacks(node.child, inside, {c: code for c, code in bound.items() if c < len(node.child.types)})
        made = sorted(row for row in output(node, *self._one(node, group), self.contents.interner))
        return [Lack(failed=(f"{text} gives {self._listed(node, inside, made)} instead",))]

    def _one(self, node: Grouping, group: Bag) -> tuple[Row, Bag]:
        """One group of several, the first."""
        key = min(tuple(row[k] for k in node.keys) for row in group)
        return key, {row: n for row, n in group.items() if tuple(row[k] for k in node.keys) == key}

    def _valued(self, node: Grouping, key: dict[int, int], bound: Bound) -> dict[int, int]:
        """What a single row would have to be to produce a group's row: for an extreme or a sum it has that value."""
        found = dict(key)
        if isinstance(node, plan.Reduce):
            for i, a in enumerate(node.aggregates, len(node.keys)):
                same = a.kind in ("min", "max") or (a.kind == "sum" and a.column is not None)
                if same and i in bound and a.column is not None:
                    found.setdefault(a.column, bound[i])
        return found

    # loops

    def _loop(self, node: plan.LoopResult, inside: Inside, bound: dict[int, int]) -> list[Lack]:
        loop = node.loop
        key = (id(loop), self.contents.place(loop, inside))
        if key not in self._final:
            self._final[key] = final = Final(self.telling.search.histories.of(loop, inside))
            self._loops[final.serial] = (loop, inside)
            self.telling.search.holds(final, loop, inside)
        return self._again(self._final[key], loop, inside, node.index, bound)

    def _variable(self, node: plan.Variable, inside: Inside, bound: dict[int, int]) -> list[Lack]:
        held = inside[node.depth]
        loop, outer = self._loops[held.serial]
        found = self._again(held, loop, outer, node.index, bound)
        return [replace(lack, rounds=lack.rounds + 1) for lack in found]

    def _again(self, held: Any, loop: plan.Loop, outer: Inside, index: int, bound: dict[int, int]) -> list[Lack]:
        """What the loop lacks for one of its rows; a row already being examined is skipped."""
        asked = (held.serial, index, tuple(sorted(bound.items())))
        if asked in self._asked or len(self._asked) >= MOST_ROUNDS:
            return []
        self._asked.add(asked)
        try:
            return self.lacks(loop.bodies[index], {**outer, loop.depth: held}, bound)
        finally:
            self._asked.discard(asked)
