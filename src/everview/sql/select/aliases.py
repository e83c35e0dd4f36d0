"""Aliases of outputs in HAVING and in later outputs, in the dialects that have them.

    SELECT g, count(*) AS n FROM t GROUP BY g HAVING n > 1      MySQL, SQLite, BigQuery, Snowflake, Spark, DuckDB
    SELECT price * n AS total, total * 0.2 AS tax FROM t        Snowflake, Spark, DuckDB, Redshift

The name is replaced by what it stands for, in brackets. A column of the tables comes first, as there. In HAVING that
is so only inside an aggregate, or if the column is grouped by: otherwise it could not be used at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sqlglot import exp

from everview.sql.select.grouping import aggregates_in
from everview.sql.select.scopes import Scope
from everview.sql.text.dialects import SPARKS

if TYPE_CHECKING:
    from everview.sql.select.compiler import Compiler

IN_HAVING = frozenset(
    {"mysql", "sqlite", "bigquery", "snowflake", "duckdb", "clickhouse", "doris", "starrocks", *SPARKS}
)
IN_OUTPUTS = frozenset({"snowflake", "duckdb", "redshift", "clickhouse", "spark", "databricks"})


def spelled_out(compiler: Compiler, select: exp.Select, scope: Scope) -> None:
    """Replace aliases by what they stand for."""
    dialect = compiler.source.dialect
    having = select.args.get("having")
    if dialect not in IN_HAVING and dialect not in IN_OUTPUTS:
        return
    known: dict[str, exp.Expr] = {}
    for item in select.expressions:
        if dialect in IN_OUTPUTS and known:
            _replace(item, known, scope)
        if isinstance(item, exp.Alias):
            known.setdefault(item.alias.lower(), item.this)
    if having is not None and dialect in IN_HAVING and known:
        group = select.args.get("group")
        grouped = {c.name.lower() for c in group.find_all(exp.Column)} if group is not None else set()
        aggregated = {id(c) for call, _ in aggregates_in(having.this) for c in call.find_all(exp.Column)}
        plain = {id(c) for c in having.find_all(exp.Column) if c.name.lower() in grouped}
        _replace(having, known, scope, aggregated | plain)


def _replace(where: exp.Expr, known: Mapping[str, exp.Expr], scope: Scope, columns: set[int] | None = None) -> None:
    """Replace names, but not those of columns; with `columns`, only these can be some."""
    for column in list(where.find_all(exp.Column)):
        meant = known.get(column.name.lower())
        if meant is None or column.table or isinstance(column.this, exp.Star):
            continue
        is_column = bool(scope.matches(column)) and (columns is None or id(column) in columns)
        if not is_column and column.find_ancestor(exp.Query) is where.find_ancestor(exp.Query):
            column.replace(exp.paren(meant.copy(), copy=False))
