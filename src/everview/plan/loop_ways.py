"""The recursive rules of a loop: what its body derives from the variable, each as one join of the variable with edges.

The same rule can be written in many forms. They are normalised here, so that `everview.plan.monotone` sees only one:

    joins in any order   `known JOIN edge JOIN allowed` is `known` joined with the edges that are allowed
    unions anywhere      a rule over `edge UNION reversed` is two rules, which read the two indexes of `edge`
    distinct             inside a body that selects, multiplicities do not matter
    OR                   `node = src OR node = dst` is two rules
    IN                   a semi-join is a join with distinct rows
    conditions as joins  `FROM known, edge WHERE node = src` is a join on that column

All of these preserve the *set* of rows but not their multiplicities. They apply to bodies that end in the least, the
largest or the distinct, not to sums.
"""

from __future__ import annotations

from collections.abc import Container, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise, product

from everview.expr.functions import conjuncts
from everview.expr.nodes import Call, ColumnRef, Expr, Literal
from everview.plan import nodes as plan
from everview.plan.check import free_variables
from everview.plan.deep_recursion import of_node
from everview.plan.frontier import Frontier, StrongLabels
from everview.plan.windows import Window
from everview.types import BOOL, DataType

MOST_WAYS = 12
"""Bodies with more rules stay loops: each rule of an operator is tried for each vertex."""

MOST_EDGES = 4
"""Unions of more relations are treated as one."""

MOST_DEPTH = 60
"""Maximum depth of a body, which is read recursively."""


class NotMonotone(Exception):
    """Why a loop cannot be converted."""


@dataclass
class Way:
    """One recursive rule: the variable joined with edges. Expressions are over the variable's columns, then the
    edges'."""

    width: int
    edges: plan.Node
    node: int
    near: int
    outputs: tuple[Expr, ...]
    conditions: list[Expr] = field(default_factory=list)
    twice: bool = False
    """the edges are the variable itself: to be replaced by what the loop starts from"""


@dataclass(frozen=True)
class Chain:
    """Joined leaves: outputs and conditions are over their concatenated columns. `joined` are pairs of columns that a
    join compares: by code, where NULL equals nothing.
    """

    leaves: tuple[plan.Node, ...]
    outputs: tuple[Expr, ...]
    joined: tuple[tuple[Expr, Expr], ...] = ()
    conditions: tuple[Expr, ...] = ()

    def spans(self) -> list[range]:
        """The columns of each leaf."""
        starts = [0, *accumulate(len(leaf.types) for leaf in self.leaves)]
        return [range(a, b) for a, b in pairwise(starts)]

    def mapped(self, exprs: tuple[Expr, ...]) -> Chain:
        below = dict(enumerate(self.outputs))
        return replace(self, outputs=tuple(e.remap(below) for e in exprs))

    def filtered(self, parts: Sequence[Expr]) -> Chain:
        below = dict(enumerate(self.outputs))
        return replace(self, conditions=(*self.conditions, *(e.remap(below) for e in parts)))


@dataclass(frozen=True)
class Reading:
    """Reads the body of the loop at a depth. What is `arranged` is left whole. `exact`: multiplicities matter, so
    `distinct` and OR are not rewritten.
    """

    depth: int
    arranged: Container[plan.Node] = ()
    exact: bool = False

    def reads(self, node: plan.Node) -> bool:
        """Whether a node reads the loop's variable."""
        return (self.depth, 0) in free_variables(node)

    def parts(self, union: plan.Node) -> Iterator[plan.Node]:
        """The parts that a body selects from: the inputs of a union, below projections, filters, `distinct`."""
        todo = [union]
        while todo:
            part = todo.pop(0)
            above: list[plan.Project | plan.Filter] = []
            node = part
            while isinstance(node, plan.Project | plan.Filter) and self.reads(node):
                above.append(node)
                node = node.child
            if not self.reads(part):
                yield part
            elif isinstance(node, plan.Union):
                inputs = list(node.inputs)
                for each in reversed(above):
                    inputs = [replace(each, child=below) for below in inputs]
                todo = [*inputs, *todo]
            elif isinstance(part, plan.Threshold) and part.kind == "distinct" and not self.exact:
                todo = [part.child, *todo]
            else:
                yield part

    def ways(self, part: plan.Node, columns: Sequence[int]) -> list[Way] | None:
        """The rules of a part of a body that reads the variable; None if the variable is passed on unchanged."""
        found: list[Way] = []
        for chain in self.chains(part):
            outputs = tuple(chain.outputs[c] for c in columns)
            if len(chain.leaves) == 1:
                if not all(isinstance(e, ColumnRef) and e.index == c for c, e in enumerate(outputs)):
                    raise NotMonotone("its rows go round without edges")
                if not chain.conditions:
                    return None
                if self.exact:
                    raise NotMonotone("its values are added to themselves")
                continue  # rows that pass a condition are present anyway
            found += _ways(replace(chain, outputs=outputs), self)
        return found

    def chains(self, node: plan.Node, level: int = 0) -> list[Chain]:
        """A node as joins of leaves, which are the loop's variable and what does not read it."""
        if level > MOST_DEPTH:
            raise NotMonotone("its body is too deep")
        own = tuple(ColumnRef(t, i) for i, t in enumerate(node.types))
        if isinstance(node, plan.Variable) and node.depth == self.depth:
            return [Chain((node,), own)]
        if not self.reads(node):
            return [Chain((leaf,), outputs) for leaf, outputs in self.edges(node, own)]
        if isinstance(node, plan.Project):
            return [c.mapped(node.exprs) for c in self.chains(node.child, level + 1)]
        if isinstance(node, plan.Filter):
            tested = conjuncts(node.predicate)
            return [c.filtered(tested) for c in self.chains(node.child, level + 1)]
        if isinstance(node, plan.Threshold) and node.kind == "distinct" and not self.exact:
            return self.chains(node.child, level + 1)
        if isinstance(node, plan.Union):
            return _few([c for each in node.inputs for c in self.chains(each, level + 1)])
        if isinstance(node, plan.Join):
            sides = [self.chains(side, level + 1) for side in (node.left, node.right)]
            return _few([_joined(a, b, node) for a, b in product(*sides)])
        raise NotMonotone(f"its variable is read by a {type(node).__name__}")

    def edges(self, node: plan.Node, outputs: tuple[Expr, ...]) -> list[tuple[plan.Node, tuple[Expr, ...]]]:
        """What does not read the variable: the node itself, or the relations that it only unites or projects. Splitting
        pays only if these are tables or installed: their indexes can be shared.
        """
        found: list[tuple[plan.Node, tuple[Expr, ...]]] = []
        todo = [(node, outputs)]
        while todo:
            below, columns = todo.pop(0)
            if below in self.arranged or isinstance(below, plan.Table):
                found.append((below, columns))
            elif isinstance(below, plan.Project) and all(isinstance(e, ColumnRef) for e in below.exprs):
                mapping = dict(enumerate(below.exprs))
                todo.insert(0, (below.child, tuple(e.remap(mapping) for e in columns)))
            elif isinstance(below, plan.Union):
                todo = [*((each, columns) for each in below.inputs), *todo]
            elif self._makes_distinct(below):
                todo.insert(0, (below.child, columns))  # type: ignore[attr-defined]
            else:
                return [(node, outputs)]
        return found if len(found) <= MOST_EDGES else [(node, outputs)]

    def _makes_distinct(self, node: plan.Node) -> bool:
        distinct = isinstance(node, plan.Threshold) and node.kind == "distinct" and not self.exact
        return distinct and never_negative(node.child)  # type: ignore[attr-defined]


def _few(found: list[Chain]) -> list[Chain]:
    if len(found) > MOST_WAYS:
        raise NotMonotone(f"it has {len(found)} ways round")
    return found


def _joined(left: Chain, right: Chain, join: plan.Join) -> Chain:
    width = sum(len(leaf.types) for leaf in left.leaves)

    def moved(e: Expr) -> Expr:
        return e.remap({c: ColumnRef(t, c + width) for c, t in _references(e)})

    outputs = (*left.outputs, *(moved(e) for e in right.outputs))
    keys = [(left.outputs[a], moved(right.outputs[b])) for a, b in zip(join.left_keys, join.right_keys, strict=True)]
    return Chain(
        left.leaves + right.leaves,
        outputs,
        (*left.joined, *((moved(a), moved(b)) for a, b in right.joined), *keys),
        (*left.conditions, *(moved(e) for e in right.conditions)),
    )


def _references(expr: Expr) -> set[tuple[int, DataType]]:
    return {(e.index, e.type) for e in expr.walk() if isinstance(e, ColumnRef)}


def _ways(chain: Chain, reading: Reading) -> list[Way]:
    """A chain as one rule, or, if a join condition contains OR, as one for each case."""
    places = [
        i for i, leaf in enumerate(chain.leaves) if isinstance(leaf, plan.Variable) and leaf.depth == reading.depth
    ]
    if not places:
        raise NotMonotone("a part of it reads the loops around it, not its variable")
    if len(places) > 2 or (len(places) == 2 and len(chain.leaves) > 2):
        raise NotMonotone("it is joined with itself")
    chain = _first(chain, places[0])
    width = len(chain.leaves[0].types)
    pairs = [_key(a, b, width) for a, b in chain.joined]
    moving = {key[0].index for key in pairs if key is not None and isinstance(key[0], ColumnRef)}
    if len(moving) > 1:
        raise NotMonotone("edges are not joined on one of its columns")
    if not moving:
        promoted = next((c for c in chain.conditions if _as_key(c, width) is not None), None)
        if promoted is not None:
            a, b = promoted.args  # type: ignore[attr-defined]
            left = tuple(c for c in chain.conditions if c is not promoted)
            return _ways(replace(chain, joined=(*chain.joined, (a, b)), conditions=left), reading)
        either = next((c for c in chain.conditions if isinstance(c, Call) and c.op == "or"), None)
        if either is None or reading.exact:
            raise NotMonotone("edges are not joined on one of its columns")
        left = tuple(c for c in chain.conditions if c is not either)
        cases = [replace(chain, conditions=(*conjuncts(case), *left)) for case in disjuncts(either)]
        return [way for case in _few(cases) for way in _ways(case, reading)]
    return [_way(chain, width, len(places) == 2)]


def _first(chain: Chain, place: int) -> Chain:
    """The same chain with one of its leaves in front."""
    spans = chain.spans()
    order = [place, *(i for i in range(len(chain.leaves)) if i != place)]
    return _reordered(chain, [spans[i] for i in order], tuple(chain.leaves[i] for i in order))


def _reordered(chain: Chain, columns: Sequence[Sequence[int]], leaves: tuple[plan.Node, ...]) -> Chain:
    places = {c: i for i, c in enumerate(c for part in columns for c in part)}

    def moved(e: Expr) -> Expr:
        return e.remap({c: ColumnRef(t, places[c]) for c, t in _references(e)})

    return Chain(
        leaves,
        tuple(moved(e) for e in chain.outputs),
        tuple((moved(a), moved(b)) for a, b in chain.joined),
        tuple(moved(e) for e in chain.conditions),
    )


def _key(a: Expr, b: Expr, width: int) -> tuple[Expr, ColumnRef] | None:
    """The columns that a join compares: one of the variable, and one of the edges."""
    for mine, other in ((a, b), (b, a)):
        ours = isinstance(mine, ColumnRef) and mine.index < width
        if ours and isinstance(other, ColumnRef) and other.index >= width:
            return mine, other
    return None


def _as_key(condition: Expr, width: int) -> tuple[Expr, ColumnRef] | None:
    """The same for a condition that a join would test the same way: floats are compared differently from codes."""
    if not isinstance(condition, Call) or condition.op != "eq":
        return None
    a, b = condition.args
    return None if a.type.kind != b.type.kind or a.type.kind == "float" else _key(a, b, width)


def disjuncts(expr: Expr) -> list[Expr]:
    """The parts of a condition of which one must hold.

    >>> a, b, c = (ColumnRef(BOOL, i) for i in range(3))
    >>> disjuncts(Call(BOOL, "or", (Call(BOOL, "or", (a, b)), c))) == [a, b, c]
    True
    """
    if isinstance(expr, Call) and expr.op == "or":
        return [part for arg in expr.args for part in disjuncts(arg)]
    return [expr]


def _way(chain: Chain, width: int, twice: bool) -> Way:
    """A chain that is joined on one column of the variable, with all other leaves as its edges."""
    variable = chain.leaves[0]
    keys = [_key(a, b, width) for a, b in chain.joined]
    mine, theirs = next(key for key in keys if key is not None)
    at = mine.index  # type: ignore[attr-defined]
    # join columns belong to the edges as well
    same: dict[int, Expr] = {c: ColumnRef(t, c) for c, t in enumerate(t for leaf in chain.leaves for t in leaf.types)}
    same[at] = theirs
    conditions = [e.remap(same) for e in chain.conditions]
    joined: list[tuple[Expr, Expr]] = []
    for (a, b), key in zip(chain.joined, keys, strict=True):
        if key == (mine, theirs):
            continue
        pair = (a.remap(same), b.remap(same))
        if pair[0] == pair[1]:
            continue
        if any(isinstance(e, Literal) and e.value is None for e in pair):
            raise NotMonotone("edges are not joined on one of its columns")
        joined.append(pair)
    if variable.types[at].nullable and theirs.type.nullable:
        conditions.append(Call(BOOL, "is_not_null", (theirs,)))
    outputs = tuple(_folded(e.remap(same), theirs) for e in chain.outputs)
    rest = replace(chain, outputs=outputs, joined=tuple(joined), conditions=tuple(conditions))
    edges, rest, near = _together(rest, width, theirs.index)
    for a, b in rest.joined:
        if a.type.kind == "float":
            raise NotMonotone("edges are joined on several columns")
        equal = Call(BOOL, "eq", (b, a) if isinstance(a, Literal) else (a, b))
        rest = replace(rest, conditions=(*rest.conditions, equal))
    return Way(width, edges, at, near - width, rest.outputs, list(rest.conditions), twice)


def _together(chain: Chain, width: int, near: int) -> tuple[plan.Node, Chain, int]:
    """All leaves but the first as one node, joined on their common columns; the leaf of `near` first."""
    if len(chain.leaves) == 2:
        return chain.leaves[1], chain, near
    spans = chain.spans()
    first = next(i for i, span in enumerate(spans) if near in span)
    order, made = [first], chain.leaves[first]
    at = {c: i for i, c in enumerate(spans[first])}
    equal = [(a, b) for a, b in chain.joined if isinstance(a, ColumnRef) and isinstance(b, ColumnRef)]
    todo = [i for i in range(1, len(chain.leaves)) if i != first]
    while todo:
        for i in todo:
            span = spans[i]
            on = [p for a, b in equal for p in ((a.index, b.index), (b.index, a.index)) if p[0] in at and p[1] in span]
            if on:
                break
        else:
            raise NotMonotone("what it is joined with would be every pair of rows of relations")
        on = list(dict.fromkeys(on))
        made = plan.Join(made, chain.leaves[i], tuple(at[a] for a, _ in on), tuple(b - span[0] for _, b in on))
        at |= {c: len(at) + k for k, c in enumerate(span)}
        used = {frozenset(p) for p in on}
        equal = [(a, b) for a, b in equal if frozenset((a.index, b.index)) not in used]
        chain = replace(chain, joined=tuple((a, b) for a, b in chain.joined if _columns_of(a, b) not in used))
        order.append(i)
        todo.remove(i)
    moved = _reordered(chain, [spans[0], *(spans[i] for i in order)], (chain.leaves[0], made))
    return made, moved, width + at[near]


def _columns_of(a: Expr, b: Expr) -> frozenset[int] | None:
    return frozenset((a.index, b.index)) if isinstance(a, ColumnRef) and isinstance(b, ColumnRef) else None


def _folded(expr: Expr, joined: Expr) -> Expr:
    """`CASE WHEN a = b THEN a ELSE b END` is b, and `CASE WHEN a = a THEN x ...` is x if a is not NULL, which join
    columns are not.
    """
    if isinstance(expr, Call) and expr.op == "case" and len(expr.args) == 3:
        test, then, other = expr.args
        if isinstance(test, Call) and test.op == "eq" and test.args[0].type.kind != "float":
            a, b = test.args
            if a == b and (a == joined or (isinstance(a, ColumnRef) and not a.type.nullable)):
                return then
            if (then, other) in ((a, b), (b, a)):
                return other
    return expr


@of_node
def never_negative(node: plan.Node) -> Generator[plan.Node, bool, bool]:
    """Whether no row of a plan can have a negative multiplicity.

    >>> from everview.types import INT
    >>> table = plan.Table(0, (INT,))
    >>> left_out = plan.Union((table, plan.Negate(table)))
    >>> never_negative(table), never_negative(left_out), never_negative(plan.Threshold(left_out, "distinct"))
    (True, False, True)
    """
    if isinstance(node, plan.Table | plan.Constant | plan.Variable | plan.Threshold | plan.Reduce):
        return True
    if isinstance(node, plan.TopK | plan.PythonReduce | Frontier | StrongLabels):
        return True
    if isinstance(node, plan.LoopResult):
        loop = node.loop
        for part in (*loop.bodies, *(i for i in loop.initials if i is not None)):
            if not (yield part):
                return False
        return True
    known = plan.Project | plan.Filter | plan.FlatMap | plan.Union | plan.Join | plan.MultiJoin | Window
    if not isinstance(node, known):
        return False
    for child in node.children():
        if not (yield child):
            return False
    return True
