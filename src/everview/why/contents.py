"""The rows of any plan as of one time, restricted by known columns.

The plan is evaluated backwards. What is known of a row is passed down, node by node, to something arranged
(`everview.why.access`), and results are computed on the way up: a join looks up the side of which more is known and
then, for each key found there, the other. A question about one row therefore costs what leads to it. If nothing is
known, or nothing is arranged, it costs as much as computing the plan from scratch; the result is right in any case.

Inside a loop a plan means something else in every round: `inside` gives, for each enclosing loop, the contents of its
variables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import nsmallest
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol

from everview.codes.values import encode_value
from everview.errors import CompactedError, InternalError
from everview.expr.nodes import ColumnRef, Literal
from everview.plan import nodes as plan
from everview.plan.check import free_depths
from everview.why import linear
from everview.why.access import Access, added, matches
from everview.why.bulk_reads import BulkReads, TooMany
from everview.why.column_blocks import Bag, Bound, Row
from everview.why.groups import GROUPINGS, Grouping, groups, output

if TYPE_CHECKING:
    from everview.why.loops import Histories

_SERIALS = count()

LOOKING_UP = 200.0
"""The cost of a look-up, in rows read."""

COLUMNAR_COST = 500.0
"""Number of rows from which columns are used."""

IN_BLOCKS = (plan.Project, plan.Filter, plan.Union, plan.Join)
"""Plans that are computed on columns."""

LINEAR = (plan.Project, plan.Filter, plan.FlatMap)
"""Plans that process one row at a time."""

UNKNOWN_SIZE = 1_000_000.0


def new_serial() -> int:
    """A unique number for the contents of variables."""
    return next(_SERIALS)


class Variables(Protocol):
    """The contents of a loop's variables in some round."""

    serial: int
    size: int
    partial: bool
    """whether there may be more rows than listed"""

    def rows(self, index: int, bound: Bound) -> Bag:
        """The rows of a variable."""


Inside = Mapping[int, Variables]
"""For each enclosing loop, by depth, the contents of its variables."""

OUTSIDE: Inside = {}


class Given:
    """Variables with explicit rows."""

    def __init__(self, bags: Sequence[Bag], *, partial: bool = False) -> None:
        self.serial = new_serial()
        self.partial = partial
        self.bags = bags
        self.size = sum(map(len, bags))
        self._by: dict[tuple[int, int], dict[int, Bag]] = {}

    def rows(self, index: int, bound: Bound) -> Bag:
        bag = self.bags[index]
        if not bound or not bag:
            return bag
        if len(bound) == len(next(iter(bag))):
            row = tuple(bound[c] for c in range(len(bound)))
            return {row: bag[row]} if row in bag else {}
        if len(bag) < 16:
            return {row: n for row, n in bag.items() if matches(row, bound)}
        column = min(bound)
        if (index, column) not in self._by:
            by: dict[int, Bag] = {}
            for row, n in bag.items():
                by.setdefault(row[column], {})[row] = n
            self._by[index, column] = by
        found = self._by[index, column].get(bound[column], {})
        return found if len(bound) == 1 else {row: n for row, n in found.items() if matches(row, bound)}


class Contents:
    """Rows of plans, cached for the duration of one question."""

    histories: Histories
    """the results of loops, and how they were derived"""

    def __init__(self, access: Access) -> None:
        self.access = access
        self.interner = access.core.interner
        self._known: dict[tuple[int, tuple[int, ...], tuple[tuple[int, int], ...]], Bag] = {}
        self._blocks = BulkReads(self)
        self._costs: dict[tuple[int, tuple[int, ...], frozenset[int]], float] = {}
        self._orders: dict[tuple[int, tuple[int, ...], tuple[int, ...]], tuple[int, float, float]] = {}
        self._met: list[plan.Node] = []
        """keeps plans alive that are cached by id"""

    def forget(self) -> None:
        """Clear the cache."""
        self._known.clear()
        self._blocks.forget()

    def place(self, node: plan.Node, inside: Inside) -> tuple[int, ...]:
        """What distinguishes the rounds in which a plan may be evaluated."""
        depths = free_depths(node)
        if not depths:
            return depths
        return (inside[depths[0]].serial,) if len(depths) == 1 else tuple([inside[d].serial for d in depths])

    def count(self, node: plan.Node, inside: Inside, row: Row) -> int:
        """The multiplicity of a row."""
        pairs = tuple(enumerate(row))
        key = (id(node), self.place(node, inside), pairs)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._rows(node, inside, dict(pairs))
        return found.get(row, 0)

    def rows(self, node: plan.Node, inside: Inside, bound: Bound) -> Bag:
        """The rows of a plan that have the known codes."""
        known = tuple(bound.items()) if len(bound) < 2 else tuple(sorted(bound.items()))
        key = (id(node), self.place(node, inside), known)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._rows(node, inside, bound)
        return found

    def _rows(self, node: plan.Node, inside: Inside, bound: Bound) -> Bag:
        self._met.append(node)
        if not free_depths(node):
            kept = self.access.rows(node, bound)
            if kept is not None:
                return kept
            if self._in_blocks(node, inside, bound):
                try:
                    return self._blocks.of(node, bound).bag()
                except TooMany:
                    pass
        read = _READINGS.get(type(node))
        if read is None:
            raise InternalError("E_INTERNAL", f"a {type(node).__name__} cannot be read backwards")
        return read(self, node, inside, bound)

    def _variable(self, node: plan.Variable, inside: Inside, bound: Bound) -> Bag:
        return inside[node.depth].rows(node.index, bound)

    def _union(self, node: plan.Union, inside: Inside, bound: Bound) -> Bag:
        return added([self.rows(i, inside, bound) for i in node.inputs])

    def _threshold(self, node: plan.Threshold, inside: Inside, bound: Bound) -> Bag:
        found = self.rows(node.child, inside, bound)
        return {row: 1 if node.kind == "distinct" else n for row, n in found.items() if n > 0}

    def _negate(self, node: plan.Negate, inside: Inside, bound: Bound) -> Bag:
        return {row: -n for row, n in self.rows(node.child, inside, bound).items()}

    def _loop_result(self, node: plan.LoopResult, inside: Inside, bound: Bound) -> Bag:
        return self.histories.result(node, inside, bound)

    def _table(self, node: plan.Table, inside: Inside, bound: Bound) -> Bag:
        """A table is arranged, unless the time was compacted."""
        raise CompactedError(
            "E_COMPACTED",
            f"time {self.access.time} is no longer known of a table that is needed to explain the row",
            "keep more history with ev.connect(history=...)",
        )

    def _constant(self, node: plan.Constant, inside: Inside, bound: Bound) -> Bag:
        rows = (
            tuple(encode_value(t, v, self.interner) for t, v in zip(node.types, row, strict=True)) for row in node.rows
        )
        return added({row: 1} for row in rows if matches(row, bound))

    def _linear(self, node: plan.Project | plan.Filter | plan.FlatMap, inside: Inside, bound: Bound) -> Bag:
        below = linear.below(node, bound, self.interner)
        if below is None:
            return {}
        found: Bag = {}
        child = self.rows(node.child, inside, below)
        if not child:
            return found
        made = linear.images(node, list(child), self.interner)
        plain = node.__class__ is plan.Project and linear.is_plain(node)  # then what is known was passed down
        for images, n in zip(made, child.values(), strict=True):
            for row in images:
                if plain or matches(row, bound):
                    found[row] = found.get(row, 0) + n
        return {row: n for row, n in found.items() if n}

    # groups

    def group(self, node: Grouping, inside: Inside, key: Row) -> Bag:
        """The rows of one group."""
        return self.rows(node.child, inside, dict(zip(node.keys, key, strict=True)))

    def least(self, node: plan.Node, inside: Inside, bound: Bound, number: int) -> tuple[Bag, int]:
        """The rows with the least codes, up to this number, and the total number of rows."""
        if self._in_blocks(node, inside, bound):
            try:
                block = self._blocks.of(node, bound)
            except TooMany:
                pass
            else:
                found = block.least(number)
                if found is not None:
                    return found, int(block.counts.sum())
        bag = self.rows(node, inside, bound)
        return {row: bag[row] for row in nsmallest(number, bag)}, sum(bag.values())

    def _in_blocks(self, node: plan.Node, inside: Inside, bound: Bound) -> bool:
        """Whether a plan has many rows, and is read as columns."""
        if free_depths(node) or not isinstance(node, IN_BLOCKS) or self.access.size(node) is not None:
            return False
        return self.cost(node, inside, frozenset(bound)) > COLUMNAR_COST

    def _grouped(self, node: Grouping, inside: Inside, bound: Bound) -> Bag:
        below: dict[int, int] = {}
        keys_first = isinstance(node, plan.Reduce | plan.PythonReduce)
        for i, k in enumerate(node.keys):
            at = i if keys_first else k
            if at in bound and below.setdefault(k, bound[at]) != bound[at]:
                return {}
        found: Bag = {}
        node, child = self._grouping(node, inside, below)
        for key, group in groups(child, node.keys).items():
            for row, n in output(node, key, group, self.interner).items():
                if matches(row, bound):
                    found[row] = found.get(row, 0) + n
        return found

    def _grouping(self, node: Grouping, inside: Inside, bound: Bound) -> tuple[Grouping, Bag]:
        """The grouped rows; if there are many, read as columns, an aggregate needs few."""
        if isinstance(node, plan.Reduce) and self._in_blocks(node.child, inside, bound):
            try:
                return self._blocks.grouping(node, bound)
            except TooMany:
                pass
        return node, self.rows(node.child, inside, bound)

    # joins

    def join_order(
        self, node: plan.Join, inside: Inside, bound: Bound
    ) -> tuple[int, tuple[dict[int, int], dict[int, int]], Callable[[int], bool]] | None:
        """Which side to read first, what is known of either, and whether the other is looked up key by key for that
        many keys; None if there can be no pairs.
        """
        sides = sides_of(node, bound)
        if sides is None:
            return None
        key = (id(node), self._sizes(node, inside), tuple(bound))
        order = self._orders.get(key)
        if order is None:
            order = self._orders[key] = self._join_order(node, inside, sides)
        first, alone, all_of_them = order
        return first, sides, lambda number: number * (LOOKING_UP + alone) < all_of_them

    def _join_order(
        self, node: plan.Join, inside: Inside, sides: tuple[dict[int, int], dict[int, int]]
    ) -> tuple[int, float, float]:
        """Which side to read first; the cost of the other, for one key and for all."""
        nodes, keys = (node.left, node.right), (node.left_keys, node.right_keys)
        known = [frozenset(side) for side in sides]
        costs = [self.cost(n, inside, k) for n, k in zip(nodes, known, strict=True)]
        keyed = [self.cost(n, inside, k | frozenset(c)) for n, k, c in zip(nodes, known, keys, strict=True)]
        first = 0 if costs[0] * (1 + keyed[1]) <= costs[1] * (1 + keyed[0]) else 1
        return first, keyed[1 - first], costs[1 - first]

    def _join(self, node: plan.Join, inside: Inside, bound: Bound) -> Bag:
        order = self.join_order(node, inside, bound)
        if order is None:
            return {}
        first, sides, looked_up = order
        nodes, keys = (node.left, node.right), (node.left_keys, node.right_keys)
        one = self.rows(nodes[first], inside, sides[first])
        if not one:
            return {}
        other = 1 - first
        wanted: dict[Row, list[Row]] = {}
        for row in one:
            wanted.setdefault(tuple(row[c] for c in keys[first]), []).append(row)
        alone = bool(keys[other]) and looked_up(len(wanted))
        found: Bag = {}
        for key, partners in self._partners(nodes[other], inside, sides[other], keys[other], wanted, alone):
            for row in wanted[key]:
                for partner, m in partners.items():
                    l, r = (row, partner) if first == 0 else (partner, row)
                    if linear.keys_match(node, l, r):
                        found[l + r] = found.get(l + r, 0) + one[row] * m
        return {row: n for row, n in found.items() if n}

    def _partners(
        self,
        node: plan.Node,
        inside: Inside,
        bound: Bound,
        keys: tuple[int, ...],
        wanted: Mapping[Row, object],
        alone: bool,
    ) -> list[tuple[Row, Bag]]:
        """The rows of the other side for each key: looked up one by one, or all at once."""
        if alone:
            found = []
            for key in wanted:
                of_key = agreeing(bound, zip(keys, key, strict=True))
                if of_key is not None:
                    found.append((key, self.rows(node, inside, of_key)))
            return found
        by_key = groups(self.rows(node, inside, bound), keys)
        return [(key, by_key[key]) for key in wanted if key in by_key]

    def _multiway(self, node: plan.MultiJoin, inside: Inside, bound: Bound) -> Bag:
        """One input after the other, each with the known variables."""
        from_codes = self._tested(node)
        partial: dict[tuple[tuple[int, int], ...], int] = {tuple(sorted(bound.items())): 1}
        for child, variables in zip(node.inputs, node.variables, strict=True):
            further: dict[tuple[tuple[int, int], ...], int] = {}
            for assigned, n in partial.items():
                known = dict(assigned)
                below = {c: known[v] for c, v in enumerate(variables) if v in known}
                for row, m in self.rows(child, inside, below).items():
                    both = known | {v: row[c] for c, v in enumerate(variables) if v >= 0}
                    key = tuple(sorted(both.items()))
                    further[key] = further.get(key, 0) + n * m
            partial = further
        rows = {tuple(dict(a)[v] for v in range(len(node.columns))): n for a, n in partial.items()}
        return {row: n for row, n in rows.items() if n and from_codes(row)}

    def _tested(self, node: plan.MultiJoin) -> Callable[[Row], bool]:
        """Whether a row passes the comparisons of a join."""

        def code(operand: plan.Operand, row: Row) -> int:
            if isinstance(operand, int):
                return row[operand]
            assert isinstance(operand, Literal)
            return encode_value(operand.type, operand.value, self.interner)

        def passes(row: Row) -> bool:
            for op, *operands in node.tests:
                a, b = (code(o, row) for o in operands)
                if not (a < b if op == "lt" else a <= b if op == "le" else a != b):
                    return False
            return True

        return passes

    # cost estimates of look-ups

    def cost(self, node: plan.Node, inside: Inside, known: frozenset[int]) -> float:
        """The estimated number of rows to read if these columns are known; the same for rounds of similar size."""
        key = (id(node), self._sizes(node, inside), known)
        found = self._costs.get(key)
        if found is None:
            found = self._costs[key] = self._cost(node, inside, known)
        return found

    def _sizes(self, node: plan.Node, inside: Inside) -> tuple[int, ...]:
        """Approximate sizes in the round in which a plan is evaluated."""
        depths = free_depths(node)
        return tuple([inside[d].size.bit_length() for d in depths]) if depths else depths

    def _cost(self, node: plan.Node, inside: Inside, known: frozenset[int]) -> float:
        if isinstance(node, plan.Variable):
            return 2.0 if len(known) == len(node.types) else 1.0 + inside[node.depth].size / (100.0 if known else 1.0)
        if not free_depths(node):
            size_kept = self.access.size(node)
            if size_kept is not None:
                ahead = self.access.prefix(node, known)
                if known and not ahead:  # all are scanned, which is fast, and many may be found
                    return 1.0 + size_kept / 20
                return 1.0 + size_kept / 100.0**ahead
        if isinstance(node, plan.Constant):
            return float(len(node.rows))
        if isinstance(node, plan.Project):
            columns = {e.index for c in known if isinstance(e := node.exprs[c], ColumnRef)}
            columns |= {x for c in known if (x := linear.null_safe(node.exprs[c])) is not None}
            return self.cost(node.child, inside, frozenset(columns))
        if isinstance(node, plan.FlatMap):
            return self.cost(node.child, inside, frozenset())
        if isinstance(node, plan.Filter | plan.Negate | plan.Threshold):
            return self.cost(node.child, inside, known)
        if isinstance(node, plan.Union):
            return sum(self.cost(i, inside, known) for i in node.inputs)
        if isinstance(node, plan.Join):
            width = len(node.left.types)
            left = frozenset(c for c in known if c < width)
            right = frozenset(c - width for c in known if c >= width)
            a = self.cost(node.left, inside, left)
            b = self.cost(node.right, inside, right)
            return min(
                a * self.cost(node.right, inside, right | frozenset(node.right_keys)),
                b * self.cost(node.left, inside, left | frozenset(node.left_keys)),
            )
        if isinstance(node, GROUPINGS):
            keys = node.keys
            places = range(len(keys)) if isinstance(node, plan.Reduce | plan.PythonReduce) else keys
            return self.cost(
                node.child, inside, frozenset(k for k, at in zip(keys, places, strict=True) if at in known)
            )
        return UNKNOWN_SIZE / (1000.0 if known else 1.0)


_READINGS: dict[type[plan.Node], Callable[[Contents, Any, Inside, Bound], Bag]] = {
    plan.Variable: Contents._variable,
    plan.Union: Contents._union,
    plan.Join: Contents._join,
    plan.Threshold: Contents._threshold,
    plan.Negate: Contents._negate,
    plan.LoopResult: Contents._loop_result,
    plan.Constant: Contents._constant,
    plan.MultiJoin: Contents._multiway,
    plan.Table: Contents._table,
    **dict.fromkeys(LINEAR, Contents._linear),
    **dict.fromkeys(GROUPINGS, Contents._grouped),
}
"""How the rows of each kind of node are found."""


def agreeing(bound: Bound, more: Iterable[tuple[int, int]]) -> dict[int, int] | None:
    """What is known, with more; None if they contradict each other."""
    found = dict(bound)
    for column, code in more:
        if found.setdefault(column, code) != code:
            return None
    return found


def sides_of(node: plan.Join, bound: Bound) -> tuple[dict[int, int], dict[int, int]] | None:
    """What is known of either side of a pair: a key is known of both; None if there can be no pair."""
    width = len(node.left.types)
    left = {c: code for c, code in bound.items() if c < width}
    right = {c - width: code for c, code in bound.items() if c >= width}
    for l, r in zip(node.left_keys, node.right_keys, strict=True):
        if l in left and right.setdefault(r, left[l]) != left[l]:
            return None
        if r in right and left.setdefault(l, right[r]) != right[r]:
            return None
    return left, right
