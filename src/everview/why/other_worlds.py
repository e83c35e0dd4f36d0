"""Whether a row may exist in a smaller world for other reasons than now.

Witnesses are found among the existing rows. A row whose nearest path is three hops long has, without these hops, a path
of four: if it contains the number of hops, it is then another row; if not, it is the same one, and its current
witnesses are not all. The value of an aggregate must therefore be visible in the row, directly or in a sum.
"""

from __future__ import annotations

from everview.expr.nodes import Call, ColumnRef, Expr
from everview.plan import nodes as plan
from everview.plan.windows import Window

Seen = frozenset[int]


def may_differ(node: plan.Node) -> bool:
    """Whether some aggregate's value is not visible in a plan's rows."""
    if plan.Reduce not in node.kinds:
        return False
    done: set[tuple[int, Seen, int]] = set()
    around: dict[int, plan.Loop] = {}
    todo = [(node, frozenset(range(len(node.types))), around)]
    while todo:
        each, seen, around = todo.pop()
        loop = around[each.depth] if isinstance(each, plan.Variable) else None
        if (id(each), seen, id(loop)) in done:
            continue
        done.add((id(each), seen, id(loop)))
        match each:
            case plan.Reduce():
                width = len(each.keys)
                if any(width + i not in seen for i in range(len(each.aggregates))):
                    return True
                below = {k for i, k in enumerate(each.keys) if i in seen}
                below |= {a.column for a in each.aggregates if a.column is not None}
                todo.append((each.child, frozenset(below), around))
            case plan.Project():
                todo.append((each.child, frozenset(c for i in seen for c in _shown(each.exprs[i])), around))
            case plan.Join():
                width = len(each.left.types)
                todo.append((each.left, frozenset(c for c in seen if c < width), around))
                todo.append((each.right, frozenset(c - width for c in seen if c >= width), around))
            case plan.LoopResult():
                begun = each.loop.initials[each.index]
                todo.append((each.loop.bodies[each.index], seen, {**around, each.loop.depth: each.loop}))
                todo += [] if begun is None else [(begun, seen, around)]
            case plan.Variable():
                assert loop is not None
                todo.append((loop.bodies[each.index], seen, around))
            case Window():
                todo.append((each.child, frozenset(c for c in seen if c < len(each.child.types)), around))
            case plan.Union() | plan.Filter() | plan.Threshold() | plan.Negate() | plan.TopK():
                todo += [(child, seen, around) for child in each.children()]
            case _:
                todo += [(child, frozenset[int](), around) for child in each.children()]
    return False


def _shown(expr: Expr) -> set[int]:
    """The columns that an expression reveals: itself, or the parts of a sum, which grows with each of them."""
    if isinstance(expr, ColumnRef):
        return {expr.index}
    if isinstance(expr, Call) and expr.op == "add":
        return {c for arg in expr.args for c in _shown(arg)}
    return set()
