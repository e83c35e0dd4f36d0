"""Magic sets: of a recursion that is asked for constants, only what leads to them is computed.

    same(x, y)    children of one node, or of two that are the same already      all pairs, of which
    WHERE x = 3                                                                  only those of 3 are needed

`narrowed` needs a column that stays the same in every round, and searches backwards need paths. Here x changes: a row
(child of u, child of v) comes from (u, v), so who asks for 3 asks for its parents, too, and for theirs. What is asked
for is a recursion of its own, with one column,

    asked(3)      asked(u) if asked(x) and edge (u, x)

and every part of the body is restricted to it: rows to start from are joined with it, and so are the edges by which
rows are extended. In rules `Program.query` does this (`everview.datalog.magic`); here it is done to a plan.

A part that reads the recursion must consist of joins, filters and projections of it with other inputs. Its column x is
passed on, or comes from an input that has what x was before in a join column: a step of `asked` is one look at that
input. Asking for too much would only cost time, for too little would lose rows; so other bodies are left as they are.
Recursions that become trees are left alone, too: `backwards` and `linear` do better with them.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, replace

from everview.expr.functions import conjuncts
from everview.expr.nodes import ColumnRef, Literal
from everview.plan import nodes as plan
from everview.plan.check import free_variables, readers
from everview.plan.loop_ways import NotMonotone
from everview.plan.monotone import recognised
from everview.plan.narrowed_loops import unchanged
from everview.plan.rewrites.traversal import everywhere, values_given
from everview.types import DataType

Path = tuple[str, ...]
"""The way from a part of the body down to an input: names of fields."""

Place = tuple[Path, int]
"""A column of an input."""


def with_magic_sets(node: plan.Node, arranged: Container[plan.Node] = ()) -> plan.Node:
    """The same rows, with recursions restricted to what leads to the constants that are asked for.

    >>> from everview.expr.functions import call
    >>> from everview.types import INT
    >>> edge, same = plan.Table(0, (INT, INT)), plan.Variable(1, 0, (INT, INT))
    >>> pairs = plan.Project(plan.Join(edge, edge, (0,), (0,)), (ColumnRef(INT, 1), ColumnRef(INT, 3)))
    >>> below = plan.Join(plan.Join(same, edge, (0,), (0,)), edge, (1,), (0,))
    >>> below = plan.Project(below, (ColumnRef(INT, 3), ColumnRef(INT, 5)))
    >>> body = plan.Threshold(plan.Union((pairs, below)), "distinct")
    >>> every = plan.LoopResult(plan.Loop(1, (None,), (body,)), 0)
    >>> of_three = call("eq", ColumnRef(INT, 0), Literal(INT, 3))
    >>> found = with_magic_sets(plan.Filter(every, of_three))
    >>> every in found.walk(), [n.rows for n in found.walk() if isinstance(n, plan.Constant)]
    (False, [((3,),)])
    """
    read, made = readers(node), set[plan.Node]()

    def changed(one: plan.Node) -> plan.Node:
        result = _below(one, arranged)
        if result is None or result in arranged or result in made or read.get(result, 1) > 1 or free_variables(result):
            return one
        found = _restricted(one, result, arranged)
        if found is None:
            return one
        made.add(found)
        return _above(one, found)

    return everywhere(node, changed, arranged)


def _below(node: plan.Node, arranged: Container[plan.Node]) -> plan.LoopResult | None:
    """The recursion below consecutive filters."""
    below = node
    while isinstance(below, plan.Filter) and below not in arranged:
        below = below.child
    return below if below is not node and isinstance(below, plan.LoopResult) else None


def _above(node: plan.Node, found: plan.Node) -> plan.Node:
    """Consecutive filters, above another recursion."""
    return replace(node, child=_above(node.child, found)) if isinstance(node, plan.Filter) else found


def _restricted(node: plan.Node, result: plan.LoopResult, arranged: Container[plan.Node]) -> plan.Node | None:
    """The recursion below a filter, restricted by one of the columns that must equal constants; None: it cannot be."""
    assert isinstance(node, plan.Filter)
    loop = result.loop
    if type(loop) is not plan.Loop or loop.priority is not None or loop.queued or loop.max_rounds is not None:
        return None
    body = loop.bodies[0]
    if len(loop.bodies) != 1 or loop.initials[0] is not None or not isinstance(body, plan.Threshold):
        return None
    if body.kind != "distinct" or _is_tree(result, arranged):
        return None
    subtracts = any(isinstance(below, plan.Negate) for below in body.walk())
    parts = list(_parts(body.child, distinct=not subtracts))
    for column in sorted(set(range(len(result.types))) - unchanged(loop)):
        for condition in conjuncts(node.predicate):
            values = values_given(condition, column, result.types[column])
            ways = _ways(parts, column, loop) if values else None
            if values and ways is not None:
                asked = _asked(values, ways, result.types[column])
                made = plan.Union(tuple(_only(part, way, column, asked) for part, way in zip(parts, ways, strict=True)))
                return replace(result, loop=replace(loop, bodies=(replace(body, child=made),)))
    return None


def _is_tree(result: plan.LoopResult, arranged: Container[plan.Node]) -> bool:
    try:
        recognised(result, arranged)
    except NotMonotone:
        return False
    return True


def _parts(node: plan.Node, distinct: bool) -> Iterator[plan.Node]:
    """The inputs of a union, and of unions in it; also of those that are `distinct`, if it makes no difference."""
    if isinstance(node, plan.Union):
        for child in node.inputs:
            yield from _parts(child, distinct)
    elif distinct and isinstance(node, plan.Threshold) and isinstance(node.child, plan.Union):
        yield from _parts(node.child, distinct)
    else:
        yield node


@dataclass(frozen=True)
class _Way:
    """How a part of the body gets the column: `kind` "start" (it does not read the recursion), "kept" (as it was), or
    "step": from column `far` of the input at `path`, whose column `near` is what it was before.
    """

    kind: str
    path: Path = ()
    input: plan.Node | None = None
    far: int = 0
    near: int = 0


def _ways(parts: list[plan.Node], column: int, loop: plan.Loop) -> list[_Way] | None:
    """How each part gets a column; None if one of them does so in no such way."""
    found = [_way(part, column, (loop.depth, 0)) for part in parts]
    ways = [way for way in found if way is not None]
    return ways if len(ways) == len(parts) and any(way.kind == "step" for way in ways) else None


def _way(part: plan.Node, column: int, variable: tuple[int, int]) -> _Way | None:
    if variable not in free_variables(part):
        return _Way("start")
    inputs = _inputs(part, variable)
    origin = _origin(part, column, variable)
    if inputs is None or origin is None:
        return None
    own = [path for path, node in inputs.items() if isinstance(node, plan.Variable)]
    if len(own) != 1:
        return None  # what the second one is asked for depends on the first
    before = _equal_to((own[0], column), part, variable)
    if origin in before:
        return _Way("kept")
    path, far = origin
    near = min((at for of, at in before if of == path), default=None)
    return None if near is None or path == own[0] else _Way("step", path, inputs[path], far, near)


def _inputs(node: plan.Node, variable: tuple[int, int], path: Path = ()) -> dict[Path, plan.Node] | None:
    """The inputs of a part: the recursion, and what does not read it; None if there are other steps in between."""
    if variable not in free_variables(node) or isinstance(node, plan.Variable):
        return {path: node}
    if isinstance(node, plan.Filter | plan.Project):
        return _inputs(node.child, variable, (*path, "child"))
    if isinstance(node, plan.Join):
        left, right = (_inputs(getattr(node, side), variable, (*path, side)) for side in ("left", "right"))
        return None if left is None or right is None else left | right
    return None


def _origin(node: plan.Node, column: int, variable: tuple[int, int], path: Path = ()) -> Place | None:
    """The column of an input that a column of a part is."""
    if variable not in free_variables(node) or isinstance(node, plan.Variable):
        return path, column
    if isinstance(node, plan.Filter):
        return _origin(node.child, column, variable, (*path, "child"))
    if isinstance(node, plan.Project):
        value = node.exprs[column]
        below = (*path, "child")
        return _origin(node.child, value.index, variable, below) if isinstance(value, ColumnRef) else None
    if isinstance(node, plan.Join):
        width = len(node.left.types)
        side, at = ("left", column) if column < width else ("right", column - width)
        return _origin(getattr(node, side), at, variable, (*path, side))
    return None


def _equal_to(place: Place, part: plan.Node, variable: tuple[int, int]) -> set[Place]:
    """The columns of inputs that equal one of them in every row of a part, by its joins."""
    pairs = [(a, b) for a, b in _joined(part, variable) if a is not None and b is not None]
    found, before = {place}, 0
    while len(found) > before:
        before = len(found)
        found |= {place for pair in pairs if found & {*pair} for place in pair}
    return found


def _joined(node: plan.Node, variable: tuple[int, int], path: Path = ()) -> Iterator[tuple[Place | None, Place | None]]:
    """The columns of inputs that joins of a part make equal."""
    if variable not in free_variables(node):
        return
    if isinstance(node, plan.Filter | plan.Project):
        yield from _joined(node.child, variable, (*path, "child"))
    elif isinstance(node, plan.Join):
        left, right = (*path, "left"), (*path, "right")
        for a, b in zip(node.left_keys, node.right_keys, strict=True):
            yield _origin(node.left, a, variable, left), _origin(node.right, b, variable, right)
        yield from _joined(node.left, variable, left)
        yield from _joined(node.right, variable, right)


def _asked(values: list[Literal], ways: list[_Way], kind: DataType) -> plan.Node:
    """The values of the column that lead to those that are wanted, and these."""
    steps = [way for way in ways if way.kind == "step" and way.input is not None]
    nullable = any(way.input is not None and way.input.types[way.near].nullable for way in steps)
    types = (kind.optional(nullable),)
    variable = plan.Variable(1, 0, types)
    start = plan.Constant(tuple((value.value,) for value in values), types)
    further = [
        plan.Project(plan.Join(variable, way.input, (0,), (way.far,)), (ColumnRef(types[0], 1 + way.near),))
        for way in steps
        if way.input is not None
    ]
    body = plan.Threshold(plan.Union((start, *further)), "distinct")
    return plan.LoopResult(plan.Loop(1, (None,), (body,)), 0)


def _only(part: plan.Node, way: _Way, column: int, asked: plan.Node) -> plan.Node:
    """A part of the body, restricted to what is asked for."""
    if way.kind == "start":
        return _semijoin(part, column, asked)
    return part if way.kind == "kept" else _with_input(part, way, asked)


def _with_input(node: plan.Node, way: _Way, asked: plan.Node, at: int = 0) -> plan.Node:
    """A part whose input of the step is restricted: then there are few rows to join with, and one small index."""
    if at == len(way.path):
        return _semijoin(node, way.far, asked)
    assert isinstance(node, plan.Filter | plan.Project | plan.Join)
    if not isinstance(node, plan.Join):
        return replace(node, child=_with_input(node.child, way, asked, at + 1))
    if way.path[at] == "left":
        return replace(node, left=_with_input(node.left, way, asked, at + 1))
    return replace(node, right=_with_input(node.right, way, asked, at + 1))


def _semijoin(node: plan.Node, column: int, asked: plan.Node) -> plan.Node:
    """The rows of a node with values that are asked for, as often as they were there."""
    joined = plan.Join(node, asked, (column,), (0,))
    return plan.Project(joined, tuple(ColumnRef(t, i) for i, t in enumerate(node.types)))
