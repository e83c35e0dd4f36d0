"""WITH RECURSIVE: fixed points.

The queries of a WITH RECURSIVE are sorted by dependency. A group of mutually recursive queries becomes one loop: every
query is a variable that starts empty, and each round computes all of them from the previous round until nothing
changes. For `base UNION step` that is SQL's meaning; `UNION` makes it a set, so it also terminates on cycles. `UNION
ALL` terminates only if the step runs dry. Its SQL meaning (each round sees only the rows of the previous round) equals
the fixed point only for steps that use each row once, so others are refused.

A query that can lose rows because the recursion *grew* has no clear fixed point: EXCEPT, NOT IN, NOT EXISTS, outer
joins, LIMIT, count, sum and avg of the recursion are refused. min and max are allowed: shortest paths are written with
them.

`WITH RECURSIVE (RETURN AT RECURSION LIMIT n)` stops after n rounds with the current rows, `ERROR AT` fails there.

`WITH MUTUALLY RECURSIVE` says more, as in Materialize: it *is* an iteration. All queries begin empty. In each round
they are computed in the order in which they are written, from what the queries before them have in this round, and from
what they themselves and the queries behind them had in the last one. So it may subtract, count and take the first rows
of itself; if that never comes to rest, it runs into the limit of rounds. The order matters where a query can lose rows:
then all queries are one loop, even those that are not recursive, which a query before them reads one round late. Where
none can, the least fixed point is the same in any order, and each group is a loop of its own (which can be kept as
trees).

Columns get their names and types from the non-recursive branches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from sqlglot import exp

from everview.plan import joins
from everview.plan.check import free_variables, free_variables_below, widened
from everview.plan.components import components
from everview.plan.nodes import (
    Join,
    Loop,
    LoopResult,
    Negate,
    Node,
    Project,
    PythonReduce,
    Reduce,
    Table,
    Threshold,
    TopK,
    Types,
    Variable,
)
from everview.plan.windows import Window
from everview.sql.scalar.names import data_type, written_type
from everview.sql.select.scopes import Field, Relation

if TYPE_CHECKING:
    from everview.sql.select.compiler import Compiler
    from everview.sql.select.query import Env


class Untyped(Exception):
    """The query reads a recursive one whose columns are not known yet."""

    def __init__(self, at: exp.Expr) -> None:
        self.at = at


def bind_all(compiler: Compiler, ctes: Sequence[exp.CTE], env: Env) -> Env:
    """The visible names with all queries of a WITH RECURSIVE; those that change rows are bound already."""
    env = compiler.changed(ctes, env)
    ctes = [cte for cte in ctes if id(cte.this) not in compiler.given]
    by_name = {cte.alias.lower(): cte for cte in ctes}
    if not ctes:
        return env
    limit = compiler.source.notes.limits.get(ctes[0].args["alias"].this.meta.get("start", -1))
    reads = {name: _reads(cte, by_name) for name, cte in by_name.items()}
    mutual = any(_declared(compiler, cte) is not None for cte in ctes)
    if mutual and limit is not None and any(name in reads[name] for name in _circular(reads)):
        return {**env, **_fixed_point(compiler, list(ctes), env, limit, in_order=True)}
    found = env
    for group in components(reads):
        if len(group) == 1 and group[0] not in reads[group[0]]:
            relation = _as_declared(compiler, by_name[group[0]], compiler.cte(by_name[group[0]], found))
            found = {**found, group[0]: relation}
            continue
        made = _fixed_point(compiler, [by_name[name] for name in group], found, limit)
        if mutual and not (_only_grows(made) or _begins_settled(group, list(by_name), reads)):
            return {**env, **_fixed_point(compiler, list(ctes), env, limit, in_order=True)}
        found = {**found, **made}
    return found


def _reads(cte: exp.CTE, names: dict[str, exp.CTE]) -> list[str]:
    return list(dict.fromkeys(t.name.lower() for t in cte.this.find_all(exp.Table) if t.name.lower() in names))


def _circular(reads: dict[str, list[str]]) -> list[str]:
    """The queries that read themselves, directly or by way of others."""
    return [name for group in components(reads) for name in group if len(group) > 1 or name in reads[name]]


def _only_grows(group: dict[str, Relation]) -> bool:
    """Whether the queries of a loop keep every row while the recursion grows: then the order of the rounds is free."""
    result = next(iter(group.values())).node
    assert isinstance(result, LoopResult)
    loop = result.loop
    return not any(isinstance(node, SHRINKS) for body in loop.bodies for node in _of_variable(body, loop.depth))


def _begins_settled(group: list[str], order: list[str], reads: dict[str, list[str]]) -> bool:
    """Whether a query that reads itself reads nothing else that would change from round to round: only queries before
    it that have all their rows in the first round."""
    circular = _circular(reads)

    def settled(name: str, below: int) -> bool:
        place = order.index(name)
        return place < below and name not in circular and all(settled(other, place) for other in reads[name])

    [name, *more] = group
    return not more and all(settled(other, order.index(name)) for other in reads[name] if other != name)


def _fixed_point(
    compiler: Compiler, ctes: list[exp.CTE], env: Env, limit: tuple[str, int] | None, in_order: bool = False
) -> dict[str, Relation]:
    """The queries as one loop; `in_order`: each sees what those before it have in the same round."""
    parameterised = any(compiler.parameters.are_read(cte.this, env) for cte in ctes)
    shapes = _shapes(compiler, ctes, env, parameterised)
    types: list[Types] = [s.node.types for s in shapes]
    outside = compiler.loop_depth
    depth = outside + 1
    while True:
        compiler.loop_depth = depth
        try:
            variables = [replace(s, node=Variable(depth, i, types[i])) for i, s in enumerate(shapes)]
            inside = {**env, **{c.alias.lower(): v for c, v in zip(ctes, variables, strict=True)}}
            bodies: list[Node] = []
            for cte, shape, kinds in zip(ctes, shapes, types, strict=True):
                bodies.append(_body(compiler, cte, inside, kinds, parameterised))
                if in_order:
                    inside[cte.alias.lower()] = replace(shape, node=_as(bodies[-1], kinds))
        finally:
            compiler.loop_depth = outside
        wider = [widened(t, [b.types]) for t, b in zip(types, bodies, strict=True)]
        others = {d for b in bodies for d, _ in free_variables(b) if d != depth}
        needed = 1 + max(others, default=0)
        if wider == types and needed == depth:
            break
        types, depth = wider, needed
    mutual = any(_declared(compiler, cte) is not None for cte in ctes)
    for cte, body in zip(ctes, bodies, strict=True):
        if not mutual:
            _check(compiler, cte, body, depth)
    rounds = None if limit is None else limit[1]
    at_limit: Literal["error", "stop"] = "stop" if limit is not None and limit[0] == "return" else "error"
    typed = tuple(_as(b, t) for b, t in zip(bodies, types, strict=True))
    loop = Loop(depth, (None,) * len(ctes), typed, max_rounds=rounds, at_limit=at_limit)
    return {c.alias.lower(): replace(shapes[i], node=LoopResult(loop, i)) for i, c in enumerate(ctes)}


def _shapes(compiler: Compiler, ctes: list[exp.CTE], env: Env, parameterised: bool) -> list[Relation]:
    """Names and types of the columns, from the branches without undetermined inputs."""
    names = [c.alias.lower() for c in ctes]
    found = {n: _declared(compiler, c) for n, c in zip(names, ctes, strict=True)}
    known: dict[str, Relation] = {n: shape for n, shape in found.items() if shape is not None}
    while len(known) < len(ctes):
        stuck: Untyped | None = None
        before = len(known)
        for cte, name in zip(ctes, names, strict=True):
            if name in known:
                continue
            try:
                inside: Env = {**env, **dict.fromkeys(names, None), **known}
                known[name] = compiler.renamed(cte, compiler.derived(cte.this, inside, parameterised))
            except Untyped as missing:
                stuck = missing
        if len(known) == before:
            assert stuck is not None
            if stuck.at.name.lower() not in names:
                raise stuck  # a recursion around this one
            raise compiler.source.error(
                stuck.at,
                "E_RECURSION",
                f"the columns of {stuck.at.name} cannot be known: every branch reads the recursion itself",
                "begin with a branch that does not: SELECT ... UNION SELECT ...",
            )
    return [known[name] for name in names]


def _declared(compiler: Compiler, cte: exp.CTE) -> Relation | None:
    """The columns that WITH MUTUALLY RECURSIVE declares: r (a int, b text) AS (...)."""
    alias = cte.args["alias"]
    types = compiler.source.notes.types.get(alias.this.meta.get("start", -1))
    if types is None:
        return None
    kinds = tuple(data_type(written_type(t, alias, compiler.source), compiler.source).optional() for t in types)
    return Relation(Table(-1, kinds), tuple(Field(c.name) for c in alias.columns))


def _as_declared(compiler: Compiler, cte: exp.CTE, relation: Relation) -> Relation:
    """A query of a WITH MUTUALLY RECURSIVE that reads none of the others, if its columns are as declared."""
    declared = _declared(compiler, cte)
    if declared is not None:
        _check_types(compiler, cte, relation.node.types[relation.hidden :], declared.node.types)
    return relation


def _check_types(compiler: Compiler, cte: exp.CTE, have: Types, want: Types) -> None:
    at = cte.args["alias"]
    if len(have) != len(want):
        what = f"{cte.alias} is declared with {len(want)} columns, its query has {len(have)}"
        raise compiler.source.error(at, "E_WIDTH", what)
    for i, (is_, should) in enumerate(zip(have, want, strict=True)):
        if (is_.kind, is_.scale) != (should.kind, should.scale):
            what = f"column {i + 1} of {cte.alias} is declared as {should.optional(False)!r}, its query gives {is_!r}"
            raise compiler.source.error(at, "E_RECURSION", what, "declare it so, or cast it in the query")


def _body(compiler: Compiler, cte: exp.CTE, env: Env, types: Types, parameterised: bool) -> Node:
    """One round's rows, with the recursion's types."""
    node = compiler.derived(cte.this, env, parameterised).node
    if _declared(compiler, cte) is not None:
        _check_types(compiler, cte, node.types, types)
    for i, (have, want) in enumerate(zip(node.types, types, strict=True)):
        if (have.kind, have.scale) != (want.kind, want.scale):
            raise compiler.source.error(
                cte.args["alias"],
                "E_RECURSION",
                f"column {i + 1} of {cte.alias} is {want!r} in its first branch but {have!r} in all",
                f"cast it in the first branch, or in the recursive one with CAST(... AS {want.optional(False)!r})",
            )
    return node


def _as(node: Node, types: Types) -> Node:
    if node.types == types:
        return node
    return Project(node, tuple(type(e)(t, e.index) for e, t in zip(joins.refs(node.types), types, strict=True)))  # type: ignore[call-arg, attr-defined]


SHRINKS = (Negate, Reduce, TopK, Window, PythonReduce)
"""What can lose rows when what it reads grows (and a `Threshold` of what was subtracted)."""


def _of_variable(body: Node, depth: int) -> list[Node]:
    """The nodes of a body that depend on the loop's variables, also through loops inside it."""
    free = free_variables_below(body)
    return [
        n for n in body.walk() if not isinstance(n, Loop) and id(n) in free and any(d == depth for d, _ in free[id(n)])
    ]


def _check(compiler: Compiler, cte: exp.CTE, body: Node, depth: int) -> None:
    """Refuse what has no clear fixed point."""
    free = free_variables_below(body)
    bag = isinstance(cte.this, exp.Union) and not cte.this.args.get("distinct")

    def reads(node: Node) -> bool:
        return any(d == depth for d, _ in free[id(node)])

    inside = _of_variable(body, depth)
    for node in sorted(inside, key=lambda n: isinstance(n, Negate)):  # an aggregate is named before what it is made of
        problem = _problem(node, bag, reads)
        if problem:
            raise compiler.source.error(cte.args["alias"], "E_RECURSION", f"{cte.alias} {problem[0]}", problem[1])


def _problem(node: Node, bag: bool, reads: Callable[[Node], bool]) -> tuple[str, str] | None:
    if isinstance(node, Negate) or (isinstance(node, Threshold) and node.kind == "positive"):
        return (
            "subtracts from what it is made of",
            "EXCEPT, NOT IN, NOT EXISTS and outer joins must not read the recursion",
        )
    if isinstance(node, (Window, PythonReduce)):
        return "looks at all of itself at once", "apply window functions and lists outside the recursion"
    if isinstance(node, TopK):
        return "takes the first rows of itself", "apply LIMIT outside the recursion"
    if isinstance(node, Reduce) and any(a.kind not in ("min", "max") for a in node.aggregates):
        return "counts or sums itself", "only min and max are allowed inside a recursion"
    if bag and isinstance(node, (Threshold, Reduce)):
        return "is a UNION ALL that aggregates or removes duplicates inside", "use UNION"
    if bag and isinstance(node, Join) and reads(node.left) and reads(node.right):
        return "is a UNION ALL that joins itself with itself", "use UNION"
    return None
