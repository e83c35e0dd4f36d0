"""From a loop's row straight down to the one row that it came of.

A tree says which row a loop's row came of (`everview.why.kept.Forest`): there the variable holds that row alone. What
else the body needs is mostly known then, column by column: reach(y) came of reach(x), so the edge is (x, y). This walks
down plain bodies (thresholds, unions, choices of columns, one join with the variable) and finds the steps at once,
where `everview.why.contents` would compute everything that the body makes, and look through it.

It finds a way or it finds nothing; then the search goes on as for any other loop. What it finds is what the search
would choose, too: the first input of a union that has the row, the least of several partners.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from everview.plan import nodes as plan
from everview.plan.check import free_depths
from everview.why import linear
from everview.why.contents import Contents, Given, Inside, agreeing, sides_of

if TYPE_CHECKING:
    from everview.why.block import Bound, Row
    from everview.why.steps import Goal

FEW = 4
"""Rows of variables up to which there is something to be gained."""


def found(contents: Contents, goal: Goal) -> bool:
    """Whether a row is made of what a body reads, all the way down; then the goals on the way know their steps."""
    node = goal.node
    if isinstance(node, plan.Variable):
        return goal.row in contents.rows(node, goal.inside, dict(enumerate(goal.row)))
    if not free_depths(node):
        return contents.count(node, goal.inside, goal.row) > 0
    if isinstance(node, plan.Threshold):
        return _through(contents, goal, node.child, goal.row)
    if isinstance(node, plan.Union):
        return any(_through(contents, goal, child, goal.row) for child in node.inputs)
    if isinstance(node, plan.Project):
        row = _origin(contents, node, goal.inside, goal.row)
        return row is not None and _through(contents, goal, node.child, row)
    if isinstance(node, plan.Join):
        width = len(node.left.types)
        left, right = goal.below(node.left, goal.row[:width]), goal.below(node.right, goal.row[width:])
        if found(contents, left) and found(contents, right):
            goal.children = (left, right)
            return True
    return False


def _through(contents: Contents, goal: Goal, node: plan.Node, row: Row) -> bool:
    """The same of a goal that is explained by one row of another plan."""
    child = goal.below(node, row)
    if not found(contents, child):
        return False
    goal.children = (child,)
    return True


def _origin(contents: Contents, node: plan.Project, inside: Inside, row: Row) -> Row | None:
    """The pair of a join that becomes a row, if the variable on one of its sides holds few rows."""
    join = node.child
    if not isinstance(join, plan.Join) or not linear.is_plain(node):
        return None
    known = linear.below(node, dict(enumerate(row)), contents.interner)
    sides = None if known is None else sides_of(join, known)
    if sides is None:
        return None
    for side, variable in enumerate((join.left, join.right)):
        if isinstance(variable, plan.Variable):
            held = inside[variable.depth]
            if isinstance(held, Given) and held.size <= FEW:
                return _pair(contents, join, inside, side, sides)
    return None


def _pair(contents: Contents, join: plan.Join, inside: Inside, side: int, sides: tuple[Bound, Bound]) -> Row | None:
    """The least pair of a join, of the few rows on one of its sides."""
    nodes, keys = (join.left, join.right), (join.left_keys, join.right_keys)
    other = 1 - side
    pairs = []
    for row in contents.rows(nodes[side], inside, sides[side]):
        bound = agreeing(sides[other], zip(keys[other], (row[k] for k in keys[side]), strict=True))
        if bound is None:
            continue
        if len(bound) == len(nodes[other].types):
            partner: Row | None = tuple([bound[c] for c in range(len(bound))])
        else:
            partners = [r for r, n in contents.rows(nodes[other], inside, bound).items() if n > 0]
            partner = min(partners) if partners else None
        if partner is not None:
            left, right = (row, partner) if side == 0 else (partner, row)
            if linear.keys_match(join, left, right):
                pairs.append(left + right)
    return min(pairs) if pairs else None
