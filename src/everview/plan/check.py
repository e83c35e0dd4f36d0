"""Static checks of a plan: its readers, its free loop variables, and whether its types fit.

`Variable(depth, index)` belongs to the nearest enclosing `Loop` of that depth, like names in nested functions. A loop's
depth is one more than that of the deepest *other* variable it reads, not the number of loops around it. A loop that
does not depend on its enclosing loop therefore has the depth it would have outside: it is the same node, and is
computed once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Sequence

from everview.errors import PlanError
from everview.expr.nodes import ColumnRef
from everview.plan.nodes import Loop, Node, Project, Types, Variable

VariableKey = tuple[int, int]
"""Depth and index of a loop variable."""


def postorder(*roots: Node, skip: Container[Node] = ()) -> Iterator[Node]:
    """Every node once, after its inputs, without `skip` and what only it reads; iterative, because plans can be
    deep."""
    done: set[int] = set()
    todo: list[tuple[Node, bool]] = [(root, False) for root in reversed(roots)]
    while todo:
        current, ready = todo.pop()
        if id(current) in done or (not ready and current in skip):
            continue
        if ready:
            done.add(id(current))
            yield current
        else:
            todo.append((current, True))
            todo.extend((child, False) for child in reversed(current.children()))


def readers(root: Node) -> Counter[Node]:
    """The number of readers of each node of a plan. Equal nodes are built once, so they are one.

    >>> from everview.plan.nodes import Join, Table, Threshold
    >>> from everview.types import INT
    >>> edge = Table(0, (INT, INT))
    >>> readers(Join(Threshold(edge, "distinct"), Threshold(edge, "distinct"), (0,), (0,)))[edge]
    1
    """
    return Counter(child for node in dict.fromkeys(root.walk()) for child in node.children())


def free_variables(node: Node) -> frozenset[VariableKey]:
    """Loop variables that no loop inside the plan defines. Cached per node: plans are walked often.

    >>> from everview.types import INT
    >>> free_variables(Variable(1, 0, (INT,)))
    frozenset({(1, 0)})
    """
    todo = [] if _FREE in node.__dict__ else [node]
    while todo:  # iterative, because plans can be deep
        current = todo[-1]
        missing = [c for c in current.children() if _FREE not in c.__dict__]
        if missing:
            todo.extend(missing)
        else:
            current.__dict__[_FREE] = _free(current)
            todo.pop()
    found: frozenset[VariableKey] = node.__dict__[_FREE]
    return found


def free_depths(node: Node) -> tuple[int, ...]:
    """The depths of the loops whose variables a plan reads, outermost first. Cached per node.

    >>> from everview.types import INT
    >>> free_depths(Variable(1, 0, (INT,)))
    (1,)
    """
    found: tuple[int, ...] | None = node.__dict__.get(_DEPTHS)
    if found is None:
        found = node.__dict__[_DEPTHS] = tuple(sorted({depth for depth, _ in free_variables(node)}))
    return found


_FREE = "_free_variables"
_DEPTHS = "_free_depths"
_NOTHING: frozenset[VariableKey] = frozenset()


def _free(node: Node) -> frozenset[VariableKey]:
    """The same, once it is known for all children."""
    if isinstance(node, Variable):
        return frozenset({(node.depth, node.index)})
    if isinstance(node, Loop):
        inside = _NOTHING.union(*(b.__dict__[_FREE] for b in node.bodies))
        outside = _NOTHING.union(*(i.__dict__[_FREE] for i in node.initials if i is not None))
        return outside | {v for v in inside if v[0] != node.depth}
    return _NOTHING.union(*(c.__dict__[_FREE] for c in node.children()))


def free_variables_below(node: Node) -> dict[int, frozenset[VariableKey]]:
    """Free variables of every node of the plan, by the node's identity."""
    return {id(n): free_variables(n) for n in postorder(node)}


def check_closed(node: Node) -> None:
    """Refuse a plan that reads a loop variable outside its loop."""
    if free_variables(node):
        raise leaked()


def leaked() -> PlanError:
    """Return the error for a loop variable used outside its loop."""
    return PlanError(
        "E_LEAK",
        "this collection reads the variable of a loop, but stands outside the loop's body",
        "use what iterate() or fixpoint() returns, and return everything the body computes",
    )


def widened(types: Types, others: Sequence[Types]) -> Types:
    """The types, nullable where they or any of the others are."""
    return tuple(t.optional(t.nullable or any(o[i].nullable for o in others)) for i, t in enumerate(types))


def widen(node: Node, types: Types) -> Node:
    """The same rows with these types, which differ at most by being nullable where the node's are not."""
    if node.types == types:
        return node
    return Project(node, tuple(ColumnRef(t, i) for i, t in enumerate(types)))
