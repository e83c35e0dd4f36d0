"""Which columns of each node are needed, and the evaluation order.

Each node of a plan is computed once, with the columns that all its readers need together. Two shapes that planners
produce for EXISTS and NOT EXISTS are recognised:

    Join[l, Distinct[r]] on all columns of r, of which only l's are read    the rows of l that have a match in r
    Union[l, Negate[that]]                                                  those that have none

so that r need not be made distinct, and l is not read twice with opposite signs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from everview.expr.nodes import ColumnRef, Expr
from everview.once.rows import Elsewhere
from everview.plan import nodes as plan

IsLeaf = Callable[[plan.Node], bool]
"""Whether a node's rows are stored."""

KNOWN = (plan.Constant, plan.Project, plan.Filter, plan.Negate, plan.Union, plan.Join, plan.Threshold, plan.Reduce)


@dataclass(frozen=True)
class Match:
    """The left rows that have a match, or none (`if_found`), on the right."""

    left: plan.Node
    right: plan.Node
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    if_found: bool

    def null(self) -> list[bool]:
        """Which keys may be NULL."""
        pairs = zip(self.left_keys, self.right_keys, strict=True)
        return [self.left.types[a].nullable or self.right.types[b].nullable for a, b in pairs]


@dataclass
class Demand:
    """What is needed of a plan's nodes."""

    order: list[plan.Node] = field(default_factory=list)
    """nodes, readers before their inputs"""
    wanted: dict[plan.Node, set[int]] = field(default_factory=dict)
    matches: dict[plan.Node, Match] = field(default_factory=dict)
    readers: dict[plan.Node, int] = field(default_factory=dict)
    """the number of readers of each node"""

    def inputs(self, node: plan.Node, is_leaf: IsLeaf) -> Sequence[plan.Node]:
        """The inputs of a node."""
        if is_leaf(node):
            return ()
        match = self.matches.get(node)
        return node.children() if match is None else (match.left, match.right)

    def ask(self, node: plan.Node, columns: Iterable[int]) -> None:
        """Record that a reader of a node needs some columns."""
        self.wanted.setdefault(node, set()).update(columns)
        self.readers[node] = self.readers.get(node, 0) + 1


def demanded(root: plan.Node, is_leaf: IsLeaf) -> Demand:
    """The demand on all nodes; `Elsewhere` if one of them is not supported here."""
    found = Demand()
    found.ask(root, range(len(root.types)))
    for node in _readers_first(root, is_leaf):
        if node not in found.wanted:
            continue
        found.order.append(node)
        if not is_leaf(node):
            _ask_below(found, node, found.wanted[node], is_leaf)
    return found


def _readers_first(root: plan.Node, is_leaf: IsLeaf) -> list[plan.Node]:
    after: list[plan.Node] = []
    seen: set[plan.Node] = set()
    todo: list[tuple[plan.Node, bool]] = [(root, False)]
    while todo:
        node, done = todo.pop()
        if done:
            after.append(node)
        elif node not in seen:
            seen.add(node)
            todo.append((node, True))
            if not is_leaf(node):
                if not isinstance(node, (*KNOWN, plan.TopK)):
                    raise Elsewhere(f"{type(node).__name__} is the dataflow's")
                todo += ((child, False) for child in node.children())
    return after[::-1]


def _ask_below(found: Demand, node: plan.Node, wanted: set[int], is_leaf: IsLeaf) -> None:
    if isinstance(node, plan.Project):
        found.ask(node.child, _read(node.exprs[c] for c in wanted))
    elif isinstance(node, plan.Filter):
        found.ask(node.child, wanted | node.predicate.columns())
    elif isinstance(node, plan.Negate):
        found.ask(node.child, wanted)
    elif isinstance(node, (plan.Threshold, plan.TopK)):
        found.ask(node.child, range(len(node.types)))
    elif isinstance(node, plan.Reduce):
        columns = {a.column for a in node.aggregates if a.column is not None}
        found.ask(node.child, {*node.keys, *columns})
    elif isinstance(node, plan.Union):
        match = _without_partner(node, is_leaf)
        if match is not None:
            _ask_match(found, node, match, wanted)
        else:
            for child in node.inputs:
                found.ask(child, wanted)
    elif isinstance(node, plan.Join):
        _ask_join(found, node, wanted, is_leaf)


def _read(exprs: Iterable[Expr]) -> set[int]:
    return {c for e in exprs for c in e.columns()}


def _ask_join(found: Demand, node: plan.Join, wanted: set[int], is_leaf: IsLeaf) -> None:
    width = len(node.left.types)
    match = _with_partner(node, is_leaf)
    if match is not None and all(c < width for c in wanted):
        _ask_match(found, node, match, wanted)
        return
    found.ask(node.left, {c for c in wanted if c < width} | set(node.left_keys))
    found.ask(node.right, {c - width for c in wanted if c >= width} | set(node.right_keys))


def _ask_match(found: Demand, node: plan.Node, match: Match, wanted: set[int]) -> None:
    found.matches[node] = match
    found.ask(match.left, wanted | set(match.left_keys))
    found.ask(match.right, range(len(match.right.types)))


def _with_partner(node: plan.Join, is_leaf: IsLeaf) -> Match | None:
    """A join with distinct rows by all their columns: no left row has two matches. If the distinct rows are stored they
    are read; otherwise their multiplicities do not matter.
    """
    right = node.right
    if not isinstance(right, plan.Threshold) or right.kind != "distinct":
        return None
    if set(node.right_keys) != set(range(len(right.types))) and (node.right_keys or not _is_one(right.child)):
        return None
    partners = right if is_leaf(right) else right.child
    return Match(node.left, partners, node.left_keys, node.right_keys, if_found=True)


def _is_one(node: plan.Node) -> bool:
    """Whether there is at most one distinct row: all columns are constants."""
    return isinstance(node, plan.Project) and not any(e.columns() for e in node.exprs)


def _without_partner(node: plan.Union, is_leaf: IsLeaf) -> Match | None:
    """l - (the rows of l with a match), as `everview.plan.joins` writes it."""
    if len(node.inputs) != 2 or not isinstance(node.inputs[1], plan.Negate):
        return None
    left, kept = node.inputs[0], node.inputs[1].child
    join = kept.child if isinstance(kept, plan.Project) else kept
    if not isinstance(join, plan.Join) or not _first_columns(kept, len(left.types)):
        return None
    if any(map(is_leaf, (node.inputs[1], kept, join))):
        return None
    keyed = join.left
    if keyed != left and not (isinstance(keyed, plan.Project) and keyed.child == left and _same_first(keyed, left)):
        return None
    match = _with_partner(join, is_leaf)
    return None if match is None else Match(keyed, match.right, match.left_keys, match.right_keys, if_found=False)


def _first_columns(node: plan.Node, count: int) -> bool:
    """Whether a node is the first columns of its input."""
    if not isinstance(node, plan.Project):
        return len(node.types) == count
    return len(node.exprs) == count and all(isinstance(e, ColumnRef) and e.index == i for i, e in enumerate(node.exprs))


def _same_first(keyed: plan.Project, left: plan.Node) -> bool:
    """Whether a projection starts with all columns of its child."""
    width = len(left.types)
    return len(keyed.exprs) >= width and all(
        isinstance(e, ColumnRef) and e.index == i for i, e in enumerate(keyed.exprs[:width])
    )
