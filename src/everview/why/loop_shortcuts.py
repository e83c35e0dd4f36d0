"""A shortcut from a loop's row to the row it was derived from.

A tree records which row a loop's row was derived from (`everview.why.loop_state.Forest`): there the variable holds that
row alone. The rest of what the body needs is then mostly known, column by column: reach(y) came from reach(x), so the
edge is (x, y). A body is split once into *ways*: thresholds, unions, minima and projections on top, then a join with
the variable, or a plan that does not read it. Each round of the loop is then one look-up per way, where
`everview.why.contents` would compute the whole body, and `everview.why.steps` would descend node by node.

If the variable holds many rows (`everview.why.loop_state.Rounds`), the other side of the join is read first: an edge to
y determines the candidate row.

If it finds nothing, the search continues as for any other loop. What it finds is what the search would choose, too: the
first input of a union that has the row, the least of several matches. Tests compare them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from everview.expr.nodes import Call, ColumnRef, Expr, Literal
from everview.plan import nodes as plan
from everview.plan.check import free_depths
from everview.types import NULL
from everview.why import linear
from everview.why.contents import OUTSIDE, Contents, Given, Variables

if TYPE_CHECKING:
    from everview.why.column_blocks import Row

MAX_VARIABLE_ROWS = 4
"""Maximum number of rows of variables for which this pays."""

LARGEST = 2**63 - 1

Of = Callable[["Row"], "int | None"]
"""A column's code from a row's; None if it is not known here."""


@dataclass(frozen=True, eq=False)
class Way:
    """One way through a body: a plan without the loop's variables, or a join of them with such a plan."""

    path: tuple[plan.Node, ...]
    """the nodes above, from the top"""
    columns: tuple[int, ...]
    """the positions of its codes in the body's row"""
    tests: tuple[tuple[plan.Filter, tuple[int, ...]], ...]
    """conditions on the way, and the positions of the codes that they test"""
    free: plan.Node | None = None
    pair: Pair | None = None


class Pair:
    """A join of a loop's variable with what does not read it, and a projection of its columns or their sums."""

    def __init__(self, join: plan.Join, made: plan.Project, side: int) -> None:
        self.join, self.made, self.side = join, made, side
        variable, self.other = (join.left, join.right) if side == 0 else (join.right, join.left)
        assert isinstance(variable, plan.Variable)
        self.variable = variable
        width = len(join.left.types)
        begin = (0, width)[side]
        self.chosen = [(at, e.index) for at, e in enumerate(made.exprs) if isinstance(e, ColumnRef)]
        mine = range(begin, begin + len(variable.types))
        self.own = [(at, c - begin) for at, c in self.chosen if c in mine]
        self.others = [(at, c - (0, width)[1 - side]) for at, c in self.chosen if c not in mine]
        keys = (join.left_keys, join.right_keys)
        self.keys = list(zip(keys[1 - side], keys[side], strict=True))
        self.open = len({c for _, c in self.own} | {c for _, c in self.keys}) < len(variable.types)
        """whether the other row and the result do not determine the row of the variable"""
        self.computed = [(at, _computed(e)) for at, e in enumerate(made.exprs) if not isinstance(e, ColumnRef)]

    def turn(self, contents: Contents, held: Given, wanted: Row) -> tuple[Row, Row] | None:
        """The least pair that yields a row: the variable's, and the other."""
        least = None
        for row in held.bags[self.variable.index]:
            if all(row[c] == wanted[at] for at, c in self.own):
                for partner in self._partners(contents, row, wanted):
                    pair = row + partner if self.side == 0 else partner + row
                    if (least is None or pair < least[0]) and self._becomes(contents, pair, wanted):
                        least = (pair, row, partner)
        return None if least is None else least[1:]

    def turn_back(self, contents: Contents, held: Variables, wanted: Row) -> tuple[Row, Row] | None:
        """The same if the variable holds many rows: from the matching rows of the other plan."""
        if self.open:
            return None
        least = None
        known = {c: wanted[at] for at, c in self.others}
        for partner, n in contents.rows(self.other, OUTSIDE, known).items():
            own = {c: wanted[at] for at, c in self.own}
            if n <= 0 or any(own.setdefault(c, partner[k]) != partner[k] for k, c in self.keys):
                continue
            row = tuple([own[c] for c in range(len(own))])
            pair = row + partner if self.side == 0 else partner + row
            better = (least is None or pair < least[0]) and self._becomes(contents, pair, wanted)
            if better and held.rows(self.variable.index, own).get(row, 0) > 0:
                least = (pair, row, partner)
        return None if least is None else least[1:]

    def _partners(self, contents: Contents, row: Row, wanted: Row) -> list[Row]:
        known = {c: wanted[at] for at, c in self.others}
        for c, own in self.keys:
            if known.setdefault(c, row[own]) != row[own]:
                return []
        if len(known) == len(self.other.types):
            partner = tuple([known[c] for c in range(len(known))])
            return [partner] if contents.count(self.other, OUTSIDE, partner) > 0 else []
        return sorted([r for r, n in contents.rows(self.other, OUTSIDE, known).items() if n > 0])

    def _becomes(self, contents: Contents, pair: Row, wanted: Row) -> bool:
        width = len(self.join.left.types)
        if not linear.keys_match(self.join, pair[:width], pair[width:]):
            return False
        for at, compute in self.computed:
            code = None if compute is None else compute(pair)
            if code is None:
                return wanted in linear.images(self.made, [pair], contents.interner)[0]
            if code != wanted[at]:
                return False
        return True


def ways(body: plan.Node) -> list[Way]:
    """The ways through a body; empty if it is not of this form. Cached in the body."""
    found: list[Way] | None = body.__dict__.get(_WAYS)
    if found is None:
        try:
            found = _ways(body, (), tuple(range(len(body.types))), ())
        except _NotPlain:
            found = []
        body.__dict__[_WAYS] = found
    return found


_WAYS = "_ways"


class _NotPlain(Exception):
    """A body is not of the supported form."""


def turn(
    contents: Contents, body: plan.Node, held: Variables, row: Row
) -> tuple[Way, list[tuple[plan.Node, Row]]] | None:
    """Through a body in one step: the way, and the rows at its end (of the variable, of other plans), left to right."""
    few = isinstance(held, Given) and held.size <= MAX_VARIABLE_ROWS
    if held.partial and not few:
        return None
    for way in ways(body):
        if not few and any(isinstance(n, plan.Reduce) for n in way.path):
            return None  # a minimum of many is shown with how many there are
        wanted = tuple([row[c] for c in way.columns])
        if way.free is not None:
            if contents.count(way.free, OUTSIDE, wanted) > 0 and _passes(contents, way, row):
                return way, [(way.free, wanted)]
            continue
        pair = way.pair
        assert pair is not None
        turned = pair.turn if few else pair.turn_back
        found = turned(contents, held, wanted)  # type: ignore[arg-type]
        if not few and pair.open:
            return None
        if found is not None and _passes(contents, way, row):
            ends: list[tuple[plan.Node, Row]] = [(pair.variable, found[0]), (pair.other, found[1])]
            return way, ends if pair.side == 0 else ends[::-1]
    return None


def _passes(contents: Contents, way: Way, row: Row) -> bool:
    for node, columns in way.tests:
        tested = tuple([row[c] for c in columns])
        quick = _computed(node.predicate)
        passed = None if quick is None else quick(tested)
        if passed is None:
            passed = bool(linear.images(node, [tested], contents.interner)[0])
        if not passed:
            return False
    return True


def _ways(
    node: plan.Node,
    path: tuple[plan.Node, ...],
    columns: tuple[int, ...],
    tests: tuple[tuple[plan.Filter, tuple[int, ...]], ...],
) -> list[Way]:
    """Those below a node; `columns`: the positions of its codes in the body's row."""
    if not free_depths(node):
        return [Way(path, columns, tests, free=node)]
    further = (*path, node)
    match node:
        case plan.Threshold():
            return _ways(node.child, further, columns, tests)
        case plan.Filter():
            return _ways(node.child, further, columns, (*tests, (node, columns)))
        case plan.Union():
            return [way for each in node.inputs for way in _ways(each, further, columns, tests)]
        case plan.Reduce() if _is_extreme(node):
            best = node.aggregates[0].column
            assert best is not None
            at = dict(zip((*node.keys, best), columns, strict=True))
            return _ways(node.child, further, tuple(at[c] for c in range(len(at))), tests)
        case plan.Project():
            join = node.child
            if isinstance(join, plan.Join):
                for side, (one, other) in enumerate(((join.left, join.right), (join.right, join.left))):
                    if isinstance(one, plan.Variable) and not free_depths(other):
                        return [Way((*further, join), columns, tests, pair=Pair(join, node, side))]
    raise _NotPlain


def _is_extreme(node: plan.Reduce) -> bool:
    """Whether a reduction is a minimum or maximum and nothing else."""
    if len(node.aggregates) != 1 or node.aggregates[0].kind not in ("min", "max"):
        return False
    return sorted((*node.keys, node.aggregates[0].column or 0)) == list(range(len(node.child.types)))


def _computed(expr: Expr) -> Of | None:
    """An integer expression as a function of codes, if it is simple."""
    if isinstance(expr, ColumnRef):
        return None if expr.type.nullable else _column(expr.index)
    if isinstance(expr, Literal):
        number = expr.value
        plain = expr.type.kind == "int" and isinstance(number, int) and not isinstance(number, bool)
        return (lambda row: number) if plain else None
    if not isinstance(expr, Call):
        return None
    if expr.op == "is_not_null" and isinstance(expr.args[0], ColumnRef):
        own = expr.args[0]
        return (lambda row: row[own.index] != NULL) if own.type.nullable else (lambda row: 1)
    if expr.op not in _PLAIN or len(expr.args) != 2 or any(a.type.kind != "int" for a in (expr, *expr.args)):
        return None
    a, b = (_computed(arg) for arg in expr.args)
    return None if a is None or b is None else _PLAIN[expr.op](a, b)


def _column(at: int) -> Of:
    return lambda row: row[at]


def _sum(a: Of, b: Of) -> Of:
    def total(row: Row) -> int | None:
        x, y = a(row), b(row)
        if x is None or y is None or not -LARGEST <= x + y <= LARGEST:
            return None
        return x + y

    return total


def _one_of(choose: Callable[[int, int], int]) -> Callable[[Of, Of], Of]:
    def of(a: Of, b: Of) -> Of:
        def chosen(row: Row) -> int | None:
            x, y = a(row), b(row)
            return None if x is None or y is None else choose(x, y)

        return chosen

    return of


_PLAIN: dict[str, Callable[[Of, Of], Of]] = {"add": _sum, "least": _one_of(min), "greatest": _one_of(max)}
