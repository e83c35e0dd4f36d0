"""PIVOT and UNPIVOT in FROM, written as the queries that they stand for.

    FROM sale PIVOT (sum(amount) FOR month IN (1, 2))        SELECT <the other columns>,
                                                                 sum(amount) FILTER (WHERE month = 1) AS "1", ...
                                                             FROM sale GROUP BY <the other columns>
    FROM sale UNPIVOT (amount FOR month IN (jan, feb))       SELECT <the other columns>, 'jan' AS month, jan AS amount
                                                             FROM sale WHERE jan IS NOT NULL UNION ALL ...

The columns of a pivot have the names that the dialect gives them, which the parser knows. Where a group has no row for
a value, Spark shows NULL even for counts; elsewhere a count is 0.

Hazard: which columns are the others is only known when the input is bound, so this cannot be done to the text alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from everview.sql.select.grouping import aggregates_in
from everview.sql.select.scopes import Relation
from everview.sql.text import consumed_parts
from everview.sql.text.dialects import DEFAULT, SPARKS

if TYPE_CHECKING:
    from everview.sql.select.compiler import Compiler
    from everview.sql.select.query import Env

_INPUT = "_pivoted"
_VALUES_FIRST = ("bigquery",)
"""Dialects in which the values of UNPIVOT come before their names."""


def applied(compiler: Compiler, relation: Relation, pivot: exp.Pivot, env: Env) -> Relation:
    """The rows of a relation, pivoted."""
    source = compiler.source
    if source.dialect == DEFAULT:
        raise source.refuse(
            pivot,
            f"{'UN' * bool(pivot.args.get('unpivot'))}PIVOT is not supported here",
            "SET dialect = 'duckdb', or sum(x) FILTER (WHERE ...)",
        )
    if relation.hidden:
        raise source.refuse(pivot, "PIVOT of a query that reads the one around it is not supported")
    fields = pivot.args.get("fields") or []
    several = len(fields) > 1 and bool(pivot.unpivot)
    if not fields or several or not all(isinstance(f, exp.In) and f.expressions for f in fields):
        hint = "FOR column IN (1, 2)" if not pivot.unpivot else "FOR name IN (a, b)"
        raise source.refuse(pivot, "this form of PIVOT is not supported", f"say which: {hint}")
    source.only(
        pivot, "this", "expressions", "fields", "unpivot", "alias", "include_nulls", "columns", "default_on_null",
        "identify_pivot_strings", "prefixed_pivot_columns", "pivot_column_naming", "value_columns_first", "group",
    )  # fmt: skip
    consumed_parts.understood(pivot)
    query = _unpivoted(compiler, relation, pivot, fields[0]) if pivot.unpivot else _pivoted(compiler, relation, pivot)
    plain = replace(relation, fields=tuple(replace(f, table=_INPUT) for f in relation.fields))
    made = compiler.query(query, {**env, _INPUT: plain}, None).relation()
    alias = pivot.args.get("alias")
    if alias is None:
        return made
    columns = tuple(c.name for c in alias.columns)
    if len(columns) > made.width:
        raise source.error(alias, "E_WIDTH", f"{alias.name} has {made.width} columns, not {len(columns)}")
    return made.called(alias.name, columns)


def _columns(relation: Relation) -> list[str]:
    return [f.name for f in relation.fields if f.name and f.plain and f.starred]


def _others(relation: Relation, used: set[str]) -> list[exp.Expr]:
    names = [n for n in _columns(relation) if n.lower() not in used]
    return [exp.column(exp.to_identifier(n, quoted=True)) for n in names]


def _used(compiler: Compiler, relation: Relation, nodes: Sequence[exp.Expr]) -> set[str]:
    """The columns that a pivot reads; each must exist."""
    columns = [c for n in nodes for c in n.find_all(exp.Column) if not isinstance(c.this, exp.Star)]
    have = {n.lower() for n in _columns(relation)}
    for column in columns:
        if column.name.lower() not in have:
            what = f"there is no column {column.name}"
            raise compiler.source.error(column, "E_COLUMN", what, f"available: {', '.join(_columns(relation))}")
    return {c.name.lower() for c in columns}


def _pivoted(compiler: Compiler, relation: Relation, pivot: exp.Pivot) -> exp.Select:
    keys = [k for f in pivot.args["fields"] for k in _parts(f.this)]
    wanted = [(a.this, a.alias) if isinstance(a, exp.Alias) else (a, "") for a in pivot.expressions]
    used = _used(compiler, relation, [*keys, *(a for a, _ in wanted)])
    group = pivot.args.get("group")
    others = [e.copy() for e in group.expressions] if group is not None else _others(relation, used)
    for aggregate, _ in wanted:
        if not any(True for _ in aggregates_in(aggregate)):
            raise compiler.source.error(aggregate, "E_AGGREGATE", "PIVOT takes aggregates", "sum(x) FOR g IN (1, 2)")
    names = [c.name for c in pivot.args.get("columns") or []]
    outputs: list[exp.Expr] = []
    for values in itertools.product(*(f.expressions for f in pivot.args["fields"])):
        plain = [v.this if isinstance(v, exp.PivotAlias) else v for v in values]
        given = [part for v in plain for part in _parts(v)]
        if len(given) != len(keys):
            raise compiler.source.error(values[0], "E_WIDTH", "a value of PIVOT has as many parts as FOR has columns")
        called = "_".join(_name(v.args["alias"]) if isinstance(v, exp.PivotAlias) else _written(v) for v in values)
        same = exp.and_(*(exp.EQ(this=k.copy(), expression=v.copy()) for k, v in zip(keys, given, strict=True)))
        for aggregate, alias in wanted:
            name = names[len(outputs)] if len(names) > len(outputs) else ""
            name = name or "_".join([called, *([alias] if alias and len(wanted) > 1 else [])])
            made = _only(aggregate, same)
            if compiler.source.dialect in SPARKS:
                some = exp.Filter(this=exp.Count(this=exp.Star(), big_int=True), expression=exp.Where(this=same.copy()))
                above = exp.GT(this=some, expression=exp.Literal.number(0))
                made = exp.Case(ifs=[exp.If(this=above, true=made)])
            outputs.append(exp.alias_(made, name, quoted=True))
    query = exp.select(*others, *outputs).from_(exp.to_table(_INPUT))
    return query.group_by(*(o.copy() for o in others)) if others else query


def _parts(node: exp.Expr) -> list[exp.Expr]:
    """The values of (a, b), or the only one."""
    return node.expressions if isinstance(node, exp.Tuple) else [node]


def _written(node: exp.Expr) -> str:
    return "_".join(_name(v) for v in _parts(node))


def _only(aggregate: exp.Expr, same: exp.Expr) -> exp.Expr:
    """An expression with each of its aggregates over the rows of one value."""
    holder = exp.paren(aggregate.copy(), copy=False)
    for call, _ in list(aggregates_in(holder)):
        whole = call.parent if isinstance(call.parent, exp.Filter) else call
        kept = exp.and_(whole.expression.this.copy(), same.copy()) if whole is not call else same.copy()
        whole.replace(exp.Filter(this=call.copy(), expression=exp.Where(this=kept)))
    return holder


def _unpivoted(compiler: Compiler, relation: Relation, pivot: exp.Pivot, field: exp.In) -> exp.Query:
    values = _parts(pivot.expressions[0])
    others = _others(relation, _used(compiler, relation, field.expressions))
    parts: list[exp.Select] = []
    for item in field.expressions:
        plain, called = (item.this, _name(item.args["alias"])) if isinstance(item, exp.PivotAlias) else (item, "")
        columns = _parts(plain)
        if len(columns) != len(values):
            raise compiler.source.error(item, "E_WIDTH", "UNPIVOT names as many columns as it has values")
        text = exp.Literal.string(called or "_".join(c.name for c in columns))
        named: exp.Expr = exp.alias_(text, field.this.name, quoted=True)
        shown = [exp.alias_(c.copy(), v.name, quoted=True) for c, v in zip(columns, values, strict=True)]
        outputs = [*shown, named] if compiler.source.dialect in _VALUES_FIRST else [named, *shown]
        query = exp.select(*(o.copy() for o in others), *outputs).from_(exp.to_table(_INPUT))
        if not pivot.args.get("include_nulls"):
            query = query.where(exp.or_(*(exp.Not(this=exp.Is(this=c.copy(), expression=exp.null())) for c in columns)))
        parts.append(query)
    return parts[0] if len(parts) == 1 else exp.union(*parts, distinct=False)


def _name(node: exp.Expr) -> str:
    return node.name or node.sql()
