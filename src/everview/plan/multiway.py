"""Joins of many inputs: which to evaluate at once, and how.

A tree of joins, with filters and projections between them, is one *natural join*: its leaves are relations, and columns
that must be equal are one variable. There are three ways to maintain it:

    binary    join by join, as in the tree: every intermediate result is arranged
    delta     from a change in any relation, look up the others, one after the other: no intermediate state
    wco       the same, one variable at a time, each bound by the relation that has the fewest values for it, so that
              the work is bounded by the largest possible output of such relations, even for cyclic patterns

`rewrite` finds such trees in a plan and turns those that the choice selects into `MultiJoin`s. By default it takes

    wco       for *cyclic* joins (the triangle is the smallest), except where a key makes the intermediate results small
              anyway, as the keys of a star of tables do
    delta     for three inputs or more if all required indexes exist: then no new state is needed
    binary    for everything else

`planned` also returns the choice and its reason.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from everview.errors import PlanError, did_you_mean
from everview.expr.functions import call, conjunction, conjuncts
from everview.expr.nodes import Call, ColumnRef, Expr
from everview.expr.nodes import Literal as Constant
from everview.plan import nodes as plan
from everview.plan.deep_recursion import Staged, drive, settled
from everview.plan.keys import unique_columns
from everview.plan.substitute import over_inputs

Choice = Literal["binary", "delta", "wco", "best", "rounds", "whole", "frugal", "verbatim"]
"""How a view is maintained. All joins in one way or ("best") by estimated cost, which is decided before
(`everview.optimiser`). Or ("rounds") its loops as loops, even those that could be trees (`everview.plan.monotone`), or
("whole") as trees also where halves would do. Or ("frugal") so that shards send each other less
(`everview.plan.pre_aggregation`). Or ("verbatim") as written: no rewrites, loops as loops, joins binary.
"""
Joined = Literal["binary", "delta", "wco"]
AtOnce = Literal["delta", "wco"]
Test = tuple[str, plan.Operand, plan.Operand]
CHOICES: tuple[Choice, ...] = ("binary", "delta", "wco", "best", "rounds", "whole", "frugal", "verbatim")

ASKED = "you asked for it"
"""The reason for a plan that `db.view` requested."""

ORDERED_CODES = frozenset({"int", "bool", "date", "timestamp"})
"""Kinds whose values compare like their codes."""

_SWAPPED = {"gt": "lt", "ge": "le"}

MOST_FOR_DELTA = 16
"""Maximum number of inputs for which delta is considered by default: determining the indexes it needs takes cubic
time."""

MOST_AT_ONCE = 128
"""Maximum number of inputs of a join at once. A larger one is joined binary, and its parts are considered: they double
with each `c.join(c)`.
"""

Indexed = Callable[[plan.MultiJoin], bool]
"""Whether every index that a join at once needs exists."""


def _never(node: plan.MultiJoin) -> bool:
    return False


@dataclass(frozen=True)
class Decision:
    """How a tree of joins is maintained, and why."""

    inputs: int
    strategy: Joined
    why: str

    def __str__(self) -> str:
        return f"join of {self.inputs} inputs: {self.strategy}, because {self.why}"


def rewrite(
    node: plan.Node,
    choice: Choice | None = None,
    arranged: Container[plan.Node] = (),
    indexed: Indexed = _never,
) -> plan.Node:
    """The same rows with trees of joins evaluated at once, if `choice` (None: the shape and `indexed`) selects it.

    >>> from everview.types import INT
    >>> e = plan.Table(0, (INT, INT))
    >>> wedge = plan.Join(e, e, (1,), (0,))
    >>> triangle = plan.Join(wedge, e, (0, 3), (0, 1))
    >>> type(rewrite(triangle)).__name__, type(rewrite(wedge)).__name__
    ('Project', 'Join')
    >>> rewrite(triangle).child.variables
    ((0, 1), (1, 2), (0, 2))
    """
    return planned(node, choice, arranged, indexed)[0]


def planned(
    node: plan.Node,
    choice: Choice | None = None,
    arranged: Container[plan.Node] = (),
    indexed: Indexed = _never,
) -> tuple[plan.Node, list[Decision]]:
    """The result of `rewrite`, and the decision for each join of three inputs or more.

    >>> from everview.types import INT
    >>> e, f, g = (plan.Table(i, (INT, INT)) for i in range(3))
    >>> chain = plan.Join(plan.Join(e, f, (1,), (0,)), g, (3,), (0,))
    >>> for how in ({}, {"indexed": lambda join: True}, {"choice": "wco"}):
    ...     print(*planned(chain, **how)[1])
    join of 3 inputs: binary, because it is acyclic and some indexes for delta are missing
    join of 3 inputs: delta, because it is acyclic and all its indexes exist
    join of 3 inputs: wco, because you asked for it
    """
    check_choice(choice)
    joined: Joined | None = choice if choice in ("binary", "delta", "wco") else None
    rewriting = _Rewriting("binary" if choice == "verbatim" else joined, arranged, indexed)
    return rewriting.node(node), rewriting.decisions


def check_choice(choice: Any) -> None:
    """Refuse an invalid choice."""
    if choice is not None and choice not in CHOICES:
        raise PlanError("E_PLAN", f"there is no plan {choice!r}", did_you_mean(str(choice), CHOICES))


@dataclass
class _Tree:
    """A tree of joins: leaves, output columns and conditions, with columns numbered over all leaves."""

    leaves: list[plan.Node]
    columns: list[int]
    equal: list[tuple[int, int]]
    conditions: list[Expr]

    def offsets(self) -> list[int]:
        found = [0]
        for leaf in self.leaves:
            found.append(found[-1] + len(leaf.types))
        return found


class _Rewriting:
    def __init__(
        self, choice: Joined | None, arranged: Container[plan.Node], indexed: Indexed, *, unfold: bool = False
    ) -> None:
        self.choice = choice
        self.unfold = unfold
        self.arranged = arranged
        self.indexed = indexed
        self.done: dict[int, plan.Node] = {}
        self.trees: dict[plan.Node, _Tree] = {}
        self.rewritten = Staged(lambda n: settled(self._node(n)), lambda n: id(n) in self.done or n in self.arranged)
        self.decisions: list[Decision] = []
        self.binary: set[int] = set()  # ids of joins inside a tree that was decided to be binary

    def node(self, node: plan.Node) -> plan.Node:
        """Rewrite a node, once; installed nodes are unchanged."""
        if id(node) not in self.done:
            self.done[id(node)] = node if node in self.arranged else self.rewritten(node)
        return self.done[id(node)]

    def _node(self, node: plan.Node) -> plan.Node:
        if isinstance(node, plan.Join | plan.Filter | plan.Project):
            tree = drive(self._tree, node, self.trees)
            if len(tree.leaves) > 2 or (len(tree.leaves) == 2 and self.choice in ("delta", "wco")):
                found = self._at_once(node, tree)
                if found is not None:
                    return found
        return over_inputs(node, self.node)

    def _tree(self, node: plan.Node) -> Generator[plan.Node, _Tree, _Tree]:
        """The tree of joins rooted here; a single leaf if there is none."""
        alone = _Tree([node], list(range(len(node.types))), [], [])
        if node in self.arranged:
            return alone
        if isinstance(node, plan.Join):
            left, right = (yield node.left), (yield node.right)
            return _paired(node, left, right) if len(left.leaves) + len(right.leaves) <= MOST_AT_ONCE else alone
        if isinstance(node, plan.MultiJoin) and self.unfold:
            return _unfolded(node)
        if isinstance(node, plan.Filter):
            below = yield node.child
            if len(below.leaves) > 1:
                condition = _moved(node.predicate, dict(enumerate(below.columns)))
                return replace(below, conditions=[*below.conditions, *conjuncts(condition)])
        if isinstance(node, plan.Project) and all(isinstance(e, ColumnRef) for e in node.exprs):
            below = yield node.child
            return replace(below, columns=[below.columns[e.index] for e in node.exprs if isinstance(e, ColumnRef)])
        return alone

    def _at_once(self, node: plan.Node, tree: _Tree) -> plan.Node | None:
        shape = NaturalJoin(tree)
        decision = self._decided(node, shape)
        if len(tree.leaves) > 2 and not (decision.strategy == "binary" and id(node) in self.binary):
            self.decisions.append(decision)
        if decision.strategy == "binary":
            self.binary |= _joining(node, self.arranged)
            return None
        leaves = [self.node(leaf) for leaf in tree.leaves]
        return shape.multi_join(leaves, node.types, decision.strategy)

    def _decided(self, node: plan.Node, shape: NaturalJoin) -> Decision:
        """A part of a binary tree is never delta by itself: its result must be arranged for the rest anyway."""
        inputs = len(shape.tree.leaves)
        if self.choice is not None:
            return Decision(inputs, self.choice, ASKED)
        cyclic, small = shape.cycle()
        if cyclic and not small:
            return Decision(inputs, "wco", "it is cyclic")
        what = "keys keep its cycle small" if cyclic else "it is acyclic"
        few = inputs <= MOST_FOR_DELTA
        if few and id(node) not in self.binary and self.indexed(shape.join_at_once(shape.tree.leaves, "delta")[0]):
            return Decision(inputs, "delta", f"{what} and all its indexes exist")
        missing = "some indexes for delta are missing" if few else "has too many inputs for delta"
        return Decision(inputs, "binary", f"{what} and {missing}")


def natural_joins(
    node: plan.Node, arranged: Container[plan.Node] = (), *, unfold: bool = False
) -> list[tuple[plan.Node, NaturalJoin]]:
    """The trees of three inputs or more in a plan outside loops, outermost first, with their roots; `unfold`: joins at
    once count as trees, too.

    >>> from everview.types import INT
    >>> e = plan.Table(0, (INT, INT))
    >>> [(_, join)] = natural_joins(plan.Join(plan.Join(e, e, (1,), (0,)), e, (3,), (0,)))
    >>> join.of_leaf
    [[0, 1], [1, 2], [2, 3]]
    >>> at_once = join.multi_join(join.tree.leaves, (INT,) * 6, "delta")
    >>> len(natural_joins(at_once)), natural_joins(at_once, unfold=True)[0][1].of_leaf == join.of_leaf
    (0, True)
    """
    search = _Rewriting(None, arranged, _never, unfold=unfold)
    found, todo, seen = [], [node], set()
    while todo:
        at = todo.pop()
        if id(at) in seen or at in arranged or isinstance(at, plan.Loop):
            continue
        seen.add(id(at))
        tree = drive(search._tree, at, search.trees)
        if len(tree.leaves) > 2:
            found.append((at, NaturalJoin(tree)))
            todo += tree.leaves
        else:
            todo += at.children()
    return found


def _joining(node: plan.Node, arranged: Container[plan.Node]) -> set[int]:
    """The ids of the nodes between a tree of joins and its leaves, including its root."""
    found, todo = {id(node)}, [node]
    while todo:
        for child in todo.pop().children():
            joining = isinstance(child, plan.Join | plan.Filter | plan.Project)
            if joining and id(child) not in found and child not in arranged:
                found.add(id(child))
                todo.append(child)
    return found


def _paired(node: plan.Join, left: _Tree, right: _Tree) -> _Tree:
    """The trees of both sides as one."""
    shift = left.offsets()[-1]
    columns = [*left.columns, *(c + shift for c in right.columns)]
    equal = [*left.equal, *((a + shift, b + shift) for a, b in right.equal)]
    equal += [(left.columns[l], right.columns[r] + shift) for l, r in zip(node.left_keys, node.right_keys, strict=True)]
    moved = [_moved(e, {c: c + shift for c in e.columns()}) for e in right.conditions]
    return _Tree([*left.leaves, *right.leaves], columns, equal, [*left.conditions, *moved])


def _unfolded(node: plan.MultiJoin) -> _Tree:
    """A join at once as an equivalent tree; variables tested for NULL never match there."""
    tree = _Tree(list(node.inputs), [], [], [])
    first: dict[int, int] = {}
    for offset, of in zip(tree.offsets(), node.variables, strict=False):
        for c, v in enumerate(of):
            if v in first:
                tree.equal.append((first[v], offset + c))
            elif v >= 0:
                first[v] = offset + c
    tree.columns = [first[v] for v in range(len(node.columns))]
    for op, *sides in node.tests:
        if not any(isinstance(side, Constant) and side.value is None for side in sides):
            args = (side if isinstance(side, Expr) else ColumnRef(node.types[side], first[side]) for side in sides)
            tree.conditions.append(call(op, *args))
    return tree


def _moved(expr: Expr, places: Mapping[int, int]) -> Expr:
    refs = {e.index: e for e in expr.walk() if isinstance(e, ColumnRef)}
    return expr.remap({i: ColumnRef(e.type, places[i]) for i, e in refs.items()})


class NaturalJoin:
    """A tree of joins by its variables: classes of equal columns, of which those that are read are numbered in order.
    `of_leaf` has the variable of every column of every leaf, -1 for those that are not read.
    """

    def __init__(self, tree: _Tree) -> None:
        self.tree = tree
        self.offsets = tree.offsets()
        parent = list(range(self.offsets[-1]))

        def find(c: int) -> int:
            while parent[c] != c:
                c = parent[c]
            return c

        for a, b in tree.equal:
            parent[find(b)] = find(a)
        self.find = find
        read = {*tree.columns, *(c for pair in tree.equal for c in pair)}
        read |= {c for e in tree.conditions for c in e.columns()}
        self.variables = {c: i for i, c in enumerate(sorted({find(c) for c in read}))}
        self.of_leaf = [
            [self.variables.get(find(c), -1) if c in read else -1 for c in range(low, high)]
            for low, high in zip(self.offsets, self.offsets[1:], strict=False)
        ]

    def cycle(self) -> tuple[bool, bool]:
        """Whether the join is cyclic, and whether a key of a relation in the cycle keeps it small."""
        sets = [{v for v in of if v >= 0} for of in self.of_leaf]
        core = _core(sets)
        shared = {v for i in core for v in sets[i] if sum(v in sets[k] for k in core) > 1}
        for i in core:
            mine = {v for v in sets[i] if v in shared}
            keys = ({self.of_leaf[i][c] for c in key} for key in unique_columns(self.tree.leaves[i]))
            if any(key < mine for key in keys):
                return True, True
        return bool(core), False

    def multi_join(self, leaves: Sequence[plan.Node], types: plan.Types, strategy: AtOnce) -> plan.Node:
        """The tree as one join, then the conditions that it cannot test itself, then the columns in order."""
        join, rest = self.join_at_once(leaves, strategy)
        node: plan.Node = join
        for condition in rest:
            node = plan.Filter(node, _moved(condition, {c: self.variable(c) for c in condition.columns()}))
        exprs = tuple(ColumnRef(t, self.variable(c)) for t, c in zip(types, self.tree.columns, strict=True))
        return plan.Project(node, exprs)

    def join_at_once(self, leaves: Sequence[plan.Node], strategy: AtOnce) -> tuple[plan.MultiJoin, list[Expr]]:
        """The tree as one join, and the conditions that it cannot test itself."""
        inputs, variables = [], []
        for leaf, of in zip(leaves, self.of_leaf, strict=True):
            once, same = each_once(of, leaf)
            inputs.append(plan.Filter(leaf, conjunction(same)) if same else leaf)
            variables.append(once)
        columns = self._types(inputs, variables)
        tests: list[Test] = [
            ("ne", v, Constant(t, None)) for v, t in enumerate(columns) if t.nullable and self._shared(variables, v)
        ]
        rest: list[Expr] = []
        for condition in self.tree.conditions:
            test = self._test(condition, columns)
            if test is None:
                rest.append(condition)
            else:
                tests.append(test)
        return plan.MultiJoin(tuple(inputs), tuple(variables), columns, tuple(tests), strategy), rest

    def variable(self, column: int) -> int:
        """The variable of a column, with columns numbered over all leaves."""
        return self.variables[self.find(column)]

    def _types(self, inputs: Sequence[plan.Node], variables: Sequence[tuple[int, ...]]) -> plan.Types:
        found: dict[int, Any] = {}
        for node, of in zip(inputs, variables, strict=True):
            for t, v in zip(node.types, of, strict=True):
                if v >= 0:
                    found[v] = found[v].optional(found[v].nullable and t.nullable) if v in found else t
        return tuple(found[v] for v in range(len(found)))

    def _shared(self, variables: Sequence[tuple[int, ...]], v: int) -> bool:
        return sum(v in of for of in variables) > 1

    def _test(self, condition: Expr, types: plan.Types) -> Test | None:
        """The condition as a test of codes, if possible."""
        if not isinstance(condition, Call) or condition.op not in ("lt", "le", "gt", "ge", "ne"):
            return None
        a, b = (self._operand(arg, types) for arg in condition.args)
        if a is None or b is None:
            return None
        swap = condition.op in _SWAPPED
        return (_SWAPPED[condition.op], b, a) if swap else (condition.op, a, b)

    def _operand(self, arg: Expr, types: plan.Types) -> plan.Operand | None:
        if arg.type.kind not in ORDERED_CODES:
            return None
        if isinstance(arg, ColumnRef):
            v = self.variable(arg.index)
            return None if types[v].nullable else v
        return arg if isinstance(arg, Constant) and arg.value is not None else None


def each_once(of: Sequence[int], leaf: plan.Node) -> tuple[tuple[int, ...], list[Expr]]:
    """Variables that occur twice in one leaf: once, and the equality as a test of the leaf."""
    once: list[int] = []
    tests: list[Expr] = []
    for c, v in enumerate(of):
        if v >= 0 and v in once:
            first = once.index(v)
            tests.append(call("eq", ColumnRef(leaf.types[first], first), ColumnRef(leaf.types[c], c)))
            once.append(-1)
        else:
            once.append(v)
    return tuple(once), tests


def _core(sets: Sequence[set[int]]) -> list[int]:
    """What is left of a join after removing ears until none remains; empty if it is acyclic (GYO).

    >>> _core([{0, 1}, {1, 2}, {0, 2}, {2, 3}]), _core([{0, 1}, {1, 2}, {2, 3}])
    ([0, 1, 2], [])
    """
    left = dict(enumerate(sets))
    while True:
        for i, mine in left.items():
            others = [s for k, s in left.items() if k != i]
            shared = {v for v in mine if any(v in s for s in others)}
            if any(shared <= s for s in others) or not shared:
                del left[i]
                break
        else:
            return list(left)
