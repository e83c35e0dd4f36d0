"""Shows columns of hashes as the hashed values.

Components are found by spreading labels, and labels are hashes of nodes (`everview.graph.labels`): users do not know
node 7 as -8137265170381233. A hash of one value is one-to-one on codes, so it can be inverted. `Hashes` determines
which columns of a plan hold such hashes, and the type of the values; `unhashed` inverts one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import count

from everview.expr.nodes import Call, ColumnRef
from everview.plan import nodes as plan
from everview.plan.check import free_depths
from everview.plan.windows import Window
from everview.types import DataType

Columns = Mapping[int, DataType | None]
"""The columns that hold hashes, with the type of what is hashed; None: of a loop's variable, not known yet."""

Variables = tuple[int, list[Columns]]
"""What is known of a loop's variables, with a number for this state of it."""

Inside = dict[int, Variables]
"""The same for all enclosing loops, by depth."""

_STATES = count()

_ALL = 2**64 - 1
_GOLDEN = 0x9E3779B97F4A7C15
_FIRST_BACK = pow(0xBF58476D1CE4E5B9, -1, 2**64)
_SECOND_BACK = pow(0x94D049BB133111EB, -1, 2**64)


def unhashed(code: int) -> int:
    """The code with this hash (`everview.expr.functions` has the formula).

    >>> unhashed(7134611160154358618)
    5
    """
    z = code & _ALL
    z = ((z ^ (z >> 31) ^ (z >> 62)) * _SECOND_BACK) & _ALL
    z = ((z ^ (z >> 27) ^ (z >> 54)) * _FIRST_BACK) & _ALL
    z = ((z ^ (z >> 30) ^ (z >> 60)) - _GOLDEN) & _ALL
    return z - 2**64 if z >> 63 else z


class Hashes:
    """Which columns of plans hold hashes. Loops are nested and share parts, so the result for a part is cached for each
    state of the variables that it reads.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[int, tuple[int, ...]], Columns] = {}
        self._loops: dict[tuple[int, tuple[int, ...]], Variables] = {}
        self._met: list[plan.Node] = []
        """keeps plans alive that are cached by id"""

    def of(self, node: plan.Node, around: Sequence[plan.Loop]) -> dict[int, DataType]:
        """The columns of a plan; `around`: the enclosing loops, outermost first."""
        inside: Inside = {}
        for loop in around:
            inside[loop.depth] = self._variables(loop, inside)
        return {c: t for c, t in self._columns(node, inside).items() if t is not None}

    def _variables(self, loop: plan.Loop, inside: Inside) -> Variables:
        """For the variables of a loop: their initial rows, and what all rounds make of them."""
        key = (id(loop), tuple(inside[d][0] for d in free_depths(loop)))
        if key in self._loops:
            return self._loops[key]
        self._met.append(loop)
        begun = [None if i is None else self._columns(i, inside) for i in loop.initials]
        now: list[Columns] = [dict.fromkeys(range(len(body.types))) for body in loop.bodies]
        for _ in range(1 + len(loop.bodies)):
            there = {**inside, loop.depth: (next(_STATES), now)}
            made = [self._columns(body, there) for body in loop.bodies]
            new = [_agreed([m] if b is None else [b, m]) for b, m in zip(begun, made, strict=True)]
            if new == now:
                break
            now = new
        found = self._loops[key] = (next(_STATES), now)
        return found

    def _columns(self, node: plan.Node, inside: Inside) -> Columns:
        if any(d not in inside for d in free_depths(node)):
            return {}
        key = (id(node), tuple(inside[d][0] for d in free_depths(node)))
        if key not in self._known:
            self._met.append(node)
            self._known[key] = self._made(node, inside)
        return self._known[key]

    def _made(self, node: plan.Node, inside: Inside) -> Columns:
        match node:
            case plan.Variable():
                return inside[node.depth][1][node.index]
            case plan.LoopResult():
                return self._variables(node.loop, inside)[1][node.index]
            case plan.Project():
                below = self._columns(node.child, inside)
                found: dict[int, DataType | None] = {}
                for c, e in enumerate(node.exprs):
                    if isinstance(e, Call) and e.op == "hash" and len(e.args) == 1:
                        found[c] = e.args[0].type
                    elif isinstance(e, ColumnRef) and e.index in below:
                        found[c] = below[e.index]
                return found
            case plan.Join():
                width = len(node.left.types)
                right = self._columns(node.right, inside)
                return {**self._columns(node.left, inside), **{width + c: t for c, t in right.items()}}
            case plan.Union():
                return _agreed([self._columns(each, inside) for each in node.inputs])
            case plan.Reduce():
                below = self._columns(node.child, inside)
                found = {i: below[k] for i, k in enumerate(node.keys) if k in below}
                for i, a in enumerate(node.aggregates, len(node.keys)):
                    if a.kind in ("min", "max") and a.column is not None and a.column in below:
                        found[i] = below[a.column]
                return found
            case plan.Filter() | plan.Threshold() | plan.Negate() | plan.TopK() | Window():
                return self._columns(node.child, inside)
        return {}


def _agreed(parts: Iterable[Columns]) -> Columns:
    """What all parts agree on; an undetermined one agrees with the others."""
    first, *others = parts
    found = dict(first)
    for other in others:
        for c in list(found):
            if c not in other or (found[c] is not None and other[c] is not None and found[c] != other[c]):
                del found[c]
            elif found[c] is None:
                found[c] = other[c]
    return found
