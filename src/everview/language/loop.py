"""Fixed points: turns a Python function into the body of a loop.

The body is called with a collection that stands for the loop's variable, and returns the collection of the next round.
It is called again if the first attempt shows that the variable must allow NULLs (types are widened until they agree),
or that the loop depends on fewer of the enclosing loops than assumed (see `everview.plan.check` for depths).

What the body builds from the variable is valid only inside the loop (`everview.language.active_loops`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from everview.errors import PlanError, did_you_mean
from everview.expr import functions, language, nodes
from everview.expr.resolve import Column, Scope, resolve
from everview.language.active_loops import Token, running
from everview.language.relation import relation_of
from everview.plan.check import widen, widened
from everview.plan.nodes import LeanLoop, Loop, LoopResult, Types, Variable
from everview.types import INT, DataType

if TYPE_CHECKING:
    from everview.language.collection import Collection

AtLimit = Literal["error", "stop"]


@dataclass(frozen=True)
class Lean:
    """Requests that a loop use little memory: at most `budget` bytes for all loops with the same `purse`."""

    budget: int | None = None
    purse: str = ""


def iterate(
    start: Collection,
    body: Callable[[Any], Any],
    priority: Any,
    max_rounds: int | None,
    at_limit: AtLimit,
    queued: bool = False,
    lean: Lean | None = None,
) -> Collection:
    """Implements `Collection.iterate`. `lean`: use little memory, if possible."""
    order = None if priority is None else _priority(priority, start)
    if queued and (order is None or max_rounds is not None):
        why = "rows wait for a priority, and none is given" if order is None else "its rounds cannot be limited"
        raise PlanError("E_LOOP", f"iterate: queued, but {why}", "say priority=..., and no max_rounds")
    return _fixed_point(
        body, [relation_of(start).columns], [start], order, max_rounds, at_limit, "iterate", queued, lean
    )[0]


def fixpoint(
    body: Callable[..., Any],
    *schemas: Mapping[str, Any],
    max_rounds: int | None = None,
    at_limit: AtLimit = "error",
) -> Any:
    """The fixed point of mutually recursive collections that start empty: one schema per variable.

    With one variable the body returns a collection and so does fixpoint; with several, tuples.

    >>> from everview.language.collection import Collection
    >>> from everview.plan.nodes import Table
    >>> edges = Collection(Table(0, (INT, INT)), (Column("a", INT), Column("b", INT)), None, label="edges")
    >>> def parity(even, odd):
    ...     step = lambda c: c.join(edges, c.b == edges.a).select(a=c.a, b=edges.b)
    ...     return step(odd).distinct(), step(even).union_all(edges).distinct()
    >>> fixpoint(parity, {"a": int, "b": int}, {"a": int, "b": int})
    (Collection(a int, b int), Collection(a int, b int))
    """
    if not schemas:
        raise PlanError("E_LOOP", "fixpoint needs the columns of its variables", 'fixpoint(body, {"x": int})')
    for schema in schemas:
        language.check_schema(schema, "fixpoint")
    columns = [tuple(Column(n, language.declared(t)) for n, t in schema.items()) for schema in schemas]
    found = _fixed_point(body, columns, [None] * len(schemas), None, max_rounds, at_limit, "fixpoint")
    return found[0] if len(found) == 1 else tuple(found)


def same_kind(a: DataType, b: DataType) -> bool:
    """Equal up to nullability."""
    return a.optional(False) == b.optional(False)


def _fixed_point(
    body: Callable[..., Any],
    columns: Sequence[tuple[Column, ...]],
    starts: Sequence[Collection | None],
    priority: nodes.Expr | None,
    max_rounds: int | None,
    at_limit: AtLimit,
    where: str,
    queued: bool = False,
    lean: Lean | None = None,
) -> list[Collection]:
    from everview.language.collection import Collection, common_owner

    language.check_callable(body, where)
    _check_limit(max_rounds, at_limit, where)
    given = [s for s in starts if s is not None]
    types: list[Types] = [tuple(c.type for c in cs) for cs in columns]
    depth = 1 + max((t.depth for t in running.get()), default=0)
    while True:
        token = Token(depth)
        results = _run_body(body, columns, types, token, given, where)
        wider = [widened(t, [relation_of(r).node.types]) for t, r in zip(types, results, strict=True)]
        outer = frozenset[Token]().union(*(relation_of(c).loop_tokens for c in (*results, *given))) - {token}
        needed = 1 + max((t.depth for t in outer), default=0)
        if wider == types and needed == depth:
            break
        types, depth = wider, needed
    initials = tuple(None if s is None else widen(relation_of(s).node, t) for s, t in zip(starts, types, strict=True))
    bodies = tuple(widen(relation_of(r).node, t) for r, t in zip(results, types, strict=True))
    loop = Loop(depth, initials, bodies, priority, max_rounds, at_limit, queued)
    if lean is not None:
        loop = LeanLoop(depth, initials, bodies, priority, max_rounds, at_limit, queued, lean.budget, lean.purse)
    owner = common_owner(*given, *results)
    return [
        Collection(
            LoopResult(loop, i),
            [Column(c.name, t) for c, t in zip(cs, types[i], strict=True)],
            owner,
            parents=(*given, *results),
            loop_tokens=outer,
        )
        for i, cs in enumerate(columns)
    ]


def _run_body(
    body: Callable[..., Any],
    columns: Sequence[tuple[Column, ...]],
    types: Sequence[Types],
    token: Token,
    given: Sequence[Collection],
    where: str,
) -> list[Collection]:
    from everview.language.collection import Collection, common_owner

    owner = common_owner(*given)
    reset = running.set((*running.get(), token))
    try:
        variables = [
            Collection(
                Variable(token.depth, i, types[i]),
                [Column(c.name, t) for c, t in zip(cs, types[i], strict=True)],
                owner,
                label=f"variable{i}" if len(columns) > 1 else "variable",
                loop_tokens=frozenset({token}),
            )
            for i, cs in enumerate(columns)
        ]
        result = body(*variables)
    finally:
        running.reset(reset)
    results = list(result) if isinstance(result, tuple | list) else [result]
    _check_results(results, columns, where)
    return results


def _check_results(results: list[Any], columns: Sequence[tuple[Column, ...]], where: str) -> None:
    from everview.language.collection import Collection

    if len(results) != len(columns) or not all(isinstance(r, Collection) for r in results):
        got = ", ".join(type(r).__name__ for r in results)
        raise PlanError(
            "E_LOOP", f"the body of {where} must return {len(columns)} collection(s), not {got}", "is a return missing?"
        )
    for i, (result, expected) in enumerate(zip(results, columns, strict=True)):
        have, want = [c.type for c in relation_of(result).columns], [c.type for c in expected]
        names, wanted = [c.name for c in relation_of(result).columns], [c.name for c in expected]
        same = len(have) == len(want) and all(map(same_kind, have, want))
        if not same or (names != wanted and sorted(names) == sorted(wanted)):
            raise PlanError(
                "E_LOOP_TYPE",
                f"the body of {where} gives ({_schema(relation_of(result).columns)}) for variable {i + 1}, "
                f"which is ({_schema(expected)})",
                f"end the body with .select({', '.join(f'{n}=...' for n in wanted)}), "
                "in this order and with these types",
            )


def _schema(columns: Sequence[Column]) -> str:
    return ", ".join(f"{c.name} {c.type!r}" for c in columns)


def _check_limit(max_rounds: int | None, at_limit: str, where: str) -> None:
    if max_rounds is not None and (not isinstance(max_rounds, int) or isinstance(max_rounds, bool) or max_rounds < 1):
        raise PlanError(
            "E_RANGE", f"{where}: max_rounds is {max_rounds!r}", "give a whole number of rounds, 1 or more, or None"
        )
    if at_limit not in ("error", "stop"):
        raise PlanError("E_RANGE", f"{where}: at_limit is {at_limit!r}", did_you_mean(str(at_limit), ["error", "stop"]))


def _priority(given: Any, start: Collection) -> nodes.Expr:
    """Any monotone int will do: floats and decimals are rounded down, NULL comes first."""
    expr = resolve(given, Scope(relation_of(start).columns, repr(start)))
    if expr.type.kind not in {"int", "float", "decimal", "bool", "date", "timestamp"}:
        raise PlanError(
            "E_TYPE", f"the priority {given!r} is {expr.type!r}", "a priority is a number, a date or a timestamp"
        )
    if expr.type.kind in {"float", "decimal"}:
        expr = functions.call("floor", expr)
    expr = functions.cast(expr, INT)
    return functions.call("if_null", expr, nodes.Literal(INT, 0)) if expr.type.nullable else expr
