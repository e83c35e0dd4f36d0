"""SELECT, in SQL's order of evaluation: FROM and WHERE (`from_clause`), groups (`grouping`), windows, outputs,
order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from everview.expr.nodes import Expr
from everview.sql.clock import clock_columns
from everview.sql.scalar.scalars import Scalars
from everview.sql.select import (
    aliases,
    functional_dependency,
    limits,
    outer_aggregates,
    outputs,
    stream_windows,
    table_functions,
)
from everview.sql.select.conditions import conjuncts
from everview.sql.select.from_clause import FromClause
from everview.sql.select.grouping import Grouped, aggregates_in, grouping_sets
from everview.sql.select.memberships import long_list
from everview.sql.select.query import Env, Query
from everview.sql.select.scopes import Field, Outer, Scope
from everview.sql.select.windows import Windows, narrow, place_alias, windows_in

if TYPE_CHECKING:
    from everview.sql.select.compiler import Compiler


CLAUSES = (
    "with_", "expressions", "distinct", "from_", "joins", "laterals",
    "where", "group", "having", "windows", "qualify", "order", "limit", "offset",
)  # fmt: skip
"""The clauses of a SELECT."""

SUFFIX_SETS = ("hive", "spark", "spark2", "databricks")
"""Dialects that have GROUP BY a, b GROUPING SETS (...), where the list only names the keys."""


def bound(compiler: Compiler, select: exp.Select, env: Env, outer: Outer | None) -> Query:
    """The query; with an outer scope its context comes first."""
    into = select.args.get("into")
    if into is not None and not into.meta.get("is_made"):
        raise compiler.source.refuse(into, "INTO makes a table of a whole statement", "CREATE TABLE t AS SELECT ...")
    compiler.source.only(select, *CLAUSES, "into")
    clause = FromClause.of(select, compiler, env, outer)
    if compiler.standing:
        clock_columns.follow(clause, select)
    where = select.args.get("where")
    for part in conjuncts(where.this if where else None):
        if long_list(part) is not None:
            clause.late.append(part)
        else:
            clause.where(part)
    clause.late = [p for p in clause.late if not compiler.subqueries(clause.scope(), env).join_early(p, clause)]
    single = clause.has_key()
    scope = Scope(clause.joined(), compiler.source, outer)
    scope.placed.update(clause.placed)
    for part in clause.late:
        compiler.subqueries(scope, env).keep_where(part)
    context = len(outer.positions) if outer is not None else 0
    gives_rows = _unfold(compiler, select, scope, env)
    stream_windows.group(compiler, select, scope, env, context)
    _narrow_for_windows(select, scope, context)
    aliases.spelled_out(compiler, select, scope)
    below = Scalars(compiler, scope, env)
    scalars, one = _grouped(compiler, select, below, context, clause.keys)
    having = select.args.get("having")
    if having is not None and isinstance(scalars, Grouped):
        _keep(having.this, scalars)
    _windows(select, scalars, context)
    items = outputs.items(compiler, select, scalars)
    names = tuple(name for name, _ in items)
    one = one or (select.args.get("from_") is None and not gives_rows)
    query = Query(
        scalars.scope.relation.node,
        names,
        context,
        (),
        one or (single and not gives_rows),
        one and not (having or select.args.get("qualify")) and (where is None or isinstance(scalars, Grouped)),
    )
    return limits.finished(compiler, select, scalars, query, items)


def _unfold(compiler: Compiler, select: exp.Select, scope: Scope, env: Env) -> bool:
    """A table function as an output: every row is expanded by its results. Returns whether there is one."""
    calls = [c for output in select.expressions for c in table_functions.calls_in(output)]
    if not calls:
        return False
    if any(select.args.get(a) for a in ("group", "having")) or any(
        True for i in select.expressions for _ in (*aggregates_in(i), *windows_in(i))
    ):
        raise compiler.source.refuse(
            calls[0], "a function that gives rows cannot stand beside groups, aggregates and windows", "use FROM"
        )
    distinct = select.args.get("distinct")
    if distinct is not None and distinct.args.get("on") is not None and select.args.get("order") is not None:
        what = "a function that gives rows stands behind DISTINCT ON and ORDER BY in PostgreSQL"
        raise compiler.source.refuse(calls[0], what, "use FROM, around or inside the query")
    made: list[table_functions.Bound] = []
    for node in calls:
        call = table_functions.found(node)
        assert call is not None
        made.append(table_functions.bound(call, Scalars(compiler, scope, env)))
        if len(made[-1].names) > 1:
            raise compiler.source.refuse(node, "a function of several columns stands in FROM")
    columns = scope.append(table_functions.side_by_side(scope.relation.node, made))[-len(calls) :]
    for node, column in zip(calls, columns, strict=True):
        scope.placed[id(node)] = column
    return True


def _narrow_for_windows(select: exp.Select, scope: Scope, context: int) -> None:
    parts = [select.args.get(a) for a in ("group", "having", "order", "qualify")]
    nodes = [*select.expressions, *(select.args.get("windows") or []), *(p for p in parts if p is not None)]
    if any(True for n in nodes for _ in windows_in(n)):
        narrow(scope, nodes, context)


def _windows(select: exp.Select, scalars: Scalars, context: int) -> None:
    """Make window calls columns, then apply QUALIFY."""
    order, qualify = select.args.get("order"), select.args.get("qualify")
    nodes = [*select.expressions, *(order.expressions if order else []), *([qualify.this] if qualify else [])]
    calls = [w for n in nodes for w in windows_in(n)]
    if calls or select.args.get("windows"):
        Windows(select, scalars, context).place(calls)
    if qualify is not None:
        place_alias(scalars.scope, qualify.this, select.expressions, scalars)
        _keep(qualify.this, scalars)


def _keep(condition: exp.Expr, scalars: Scalars) -> None:
    bound = scalars.condition(condition)
    scalars.scope.keep(bound)


def _grouped(
    compiler: Compiler, select: exp.Select, below: Scalars, context: int, unique: Sequence[frozenset[Field]]
) -> tuple[Scalars, bool]:
    """Expressions over groups if the query has any; whether it has exactly one group (per context)."""
    group, having, order = (select.args.get(a) for a in ("group", "having", "order"))
    nodes = [*select.expressions, *([having.this] if having else []), *(order.expressions if order else [])]
    qualify = select.args.get("qualify")
    nodes += [*(select.args.get("windows") or []), *([qualify.this] if qualify else [])]
    lent = outer_aggregates.belonging(compiler, nodes, below.scope, below.env)
    if group is None and having is None and not lent and not any(True for n in nodes for _ in aggregates_in(n)):
        return below, False
    if group is not None and group.args.get("grouping_sets") and compiler.source.dialect not in SUFFIX_SETS:
        at = group.args["grouping_sets"][0]
        hint = "GROUP BY a, GROUPING SETS (b, c)"
        raise compiler.source.error(at, "E_SYNTAX", "a comma is missing before GROUPING SETS", hint)
    keys, sets = grouping_sets(group)
    if group is not None and group.args.get("all") and not keys:  # GROUP BY ALL: by what is not aggregated
        items = [i.this if isinstance(i, exp.Alias) else i for i in select.expressions]
        keys = [i for i in items if not any(aggregates_in(i)) and not any(windows_in(i))]
        if any(outputs.is_star(k) for k in keys):
            raise compiler.source.error(group, "E_STAR", "GROUP BY ALL needs outputs with names, not *")
        keys = [k for k in keys if k.find(exp.Column) is not None]
        sets = [list(range(len(keys)))]
    by, sets = _merged([_group_key(compiler, k, select, below) for k in keys], sets)
    if group is not None and group.args.get("all") is False:  # GROUP BY DISTINCT
        sets = [s for i, s in enumerate(sets) if s not in sets[:i]]
    if len(sets) == 1:
        given = len(by)
        of_set = [by[i] for i in sets[0]]
        by += functional_dependency.columns(compiler, of_set, [*select.expressions, *nodes], below, unique)
        sets = [[*sets[0], *range(given, len(by))]]
    scalars = Grouped(below, by, sets, context)
    scalars.collect(nodes)
    scalars.collect_outside(lent)
    one = not keys and len(sets) == 1
    scalars.reduce(one)
    scalars.lend()
    return scalars, one


def _merged(
    by: Sequence[tuple[exp.Expr, Expr]], sets: Sequence[Sequence[int]]
) -> tuple[list[tuple[exp.Expr, Expr]], list[list[int]]]:
    """The same keys, but one that is written in several ways (g, t.g, or its output's number) is one key."""
    kept: dict[Expr, tuple[exp.Expr, Expr]] = {}
    for node, expr in by:
        kept.setdefault(expr, (node, expr))
    place = {expr: i for i, expr in enumerate(kept)}
    return [*kept.values()], [sorted({place[by[i][1]] for i in chosen}) for chosen in sets]


def _group_key(compiler: Compiler, key: exp.Expr, select: exp.Select, below: Scalars) -> tuple[exp.Expr, Expr]:
    """An expression, the number of an output, or an output's alias if no column has that name."""
    if isinstance(key, exp.Literal) and not key.is_string:
        key = outputs.numbered(compiler, key, select.expressions)
        return key, below.bind(key)
    if isinstance(key, exp.Column) and not key.table and not below.scope.matches(key):
        for item in select.expressions:
            if isinstance(item, exp.Alias) and item.alias.lower() == key.name.lower():
                return item.this, below.bind(item.this)
    outputs.refuse_constant(compiler, key, "GROUP BY")
    if any(aggregates_in(key)):
        raise compiler.source.error(key, "E_AGGREGATE", "GROUP BY cannot hold aggregates", "use a derived table")
    return key, below.bind(key)
