"""INSERT, UPDATE, DELETE and TRUNCATE: what changes rows.

Each is one transaction, or part of the one that BEGIN opened. Rows that a statement has to find first are asked for by
a SELECT with its WHERE clause.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from everview.errors import InputError, did_you_mean
from everview.expr import functions
from everview.expr.nodes import Expr
from everview.expr.nodes import Literal as Constant
from everview.plan import joins
from everview.plan import nodes as plan
from everview.sql import constants, names
from everview.sql.places import Source
from everview.sql.query import Compiler, Query
from everview.sql.result import Row
from everview.sql.scalars import Scalars
from everview.sql.scopes import HIDDEN, Relation, Scope
from everview.table import Table
from everview.types import INT

if TYPE_CHECKING:
    from everview.sql.statements import Statements

_NOTHING = plan.Table(-1, (INT,))
"""A plan with types and no rows, for expressions that read no columns."""


def insert(sql: Statements, node: exp.Insert, source: Source) -> None:
    """INSERT INTO t [(columns)] VALUES ... or SELECT ..."""
    target = node.this.this if isinstance(node.this, exp.Schema) else node.this
    table = _table(sql, target, source)
    conflict = _conflict(node, source)
    if node.args.get("returning"):
        raise source.refuse(node, "RETURNING is not supported")
    if node.expression is None:
        raise source.refuse(node, "DEFAULT VALUES is not supported: columns have no defaults", "give VALUES (...)")
    listed = node.this.expressions if isinstance(node.this, exp.Schema) else None
    at = list(range(len(table._columns))) if listed is None else _positions(listed, table, source)
    rows = _constants(sql, node.expression, table, at, source)
    if rows is None:
        query, compiler = sql.bound(node.expression, source)
        sql.refuse_pending(compiler.used, node, source)
        _check_width(len(query.names), table, at, node, source)
        rows = sql.answer(_fitted(query, table, at, node, source), compiler).rows()
    columns = [dict(zip(at, row, strict=True)) for row in rows]
    full = [tuple(row.get(i) for i in range(len(table._columns))) for row in columns]
    _insert(sql, table, full, conflict)


def update(sql: Statements, node: exp.Update, source: Source) -> None:
    """UPDATE t SET column = ... [WHERE ...]"""
    _refuse_extras(node, source)
    table = _table(sql, node.this, source)
    new = _positions([setting.this for setting in node.expressions], table, source)
    items: list[exp.Expr] = [exp.Star(), *(setting.expression for setting in node.expressions)]
    select = exp.Select(expressions=items).from_(node.this)
    rows = _read_rows(sql, select, node, source, table, new)
    if not rows:
        return
    width = len(table._columns)
    old = [row[:width] for row in rows]
    places = {position: width + i for i, position in enumerate(new)}
    changed = [tuple(row[places.get(i, i)] for i in range(width)) for row in rows]
    with sql.session.transaction():
        table.delete(old)
        _insert(sql, table, changed, "error")
    sql.mark(table)


def delete(sql: Statements, node: exp.Delete, source: Source) -> None:
    """DELETE FROM t [WHERE ...]"""
    _refuse_extras(node, source)
    table = _table(sql, node.this, source)
    rows = _read_rows(sql, exp.select("*").from_(node.this), node, source)
    if rows:
        table.delete(rows)
        sql.mark(table)


def truncate(sql: Statements, node: exp.TruncateTable, source: Source) -> None:
    """TRUNCATE t"""
    for target in node.expressions:
        table = _table(sql, target, source)
        table.clear()
        sql.mark(table)


def _table(sql: Statements, target: exp.Expr, source: Source) -> Table:
    name = sql.spelled(target.name)
    found = sql.session._tables.get(name) if name in sql.session.tables else None
    if found is None:
        if name in sql.session.views:
            raise source.error(
                target, "E_TABLE", f"{name} is a view and cannot be changed", "change the tables it is made of"
            )
        hint = did_you_mean(name, sql.session.tables)
        raise source.error(target, "E_TABLE", f"there is no table {name}", hint)
    return found


def _constants(sql: Statements, node: exp.Expr, table: Table, at: Sequence[int], source: Source) -> list[Row] | None:
    """The rows of VALUES, if they are all constants: the usual case, which needs no dataflow."""
    if not isinstance(node, exp.Values) or node.find(exp.Query) is not None:
        return None
    compiler = Compiler(sql.session, source)
    scalars = Scalars(compiler, Scope(Relation(_NOTHING, (HIDDEN,)), source), {})
    rows = []
    for row in node.expressions:
        items = row.expressions if isinstance(row, exp.Tuple) else [row]
        _check_width(len(items), table, at, row, source)
        values = [_fitted_value(scalars.bind(e), table, i, e, source) for e, i in zip(items, at, strict=True)]
        found = [constants.folded(v, sql.session._interner) for v in values]
        if not all(isinstance(v, Constant) for v in found):
            return None
        rows.append(tuple(v.value for v in found if isinstance(v, Constant)))
    return rows


def _check_width(given: int, table: Table, at: Sequence[int], node: exp.Expr, source: Source) -> None:
    if given != len(at):
        raise source.error(node, "E_WIDTH", f"{given} values for {len(at)} columns of {table._label}")


def _conflict(node: exp.Insert, source: Source) -> str:
    """What to do with a key that exists: error, nothing or update."""
    clause = node.args.get("conflict")
    if clause is None:
        return "update" if str(node.args.get("alternative") or "").upper() == "REPLACE" else "error"
    action = clause.args.get("action")
    if action is not None and "NOTHING" in action.name.upper():
        return "nothing"
    raise source.refuse(node, "ON CONFLICT is only supported with DO NOTHING", "INSERT OR REPLACE replaces rows by key")


def _positions(columns: Sequence[exp.Expr], table: Table, source: Source) -> list[int]:
    """Where the named columns are in the table; each can be given one value."""
    have = [c.name for c in table._columns]
    found: list[int] = []
    for column in columns:
        name = names.spelled(column.name, have)
        if name not in have:
            what = f"{table._label} has no column {column.name}"
            raise source.error(column, "E_COLUMN", what, did_you_mean(column.name, have))
        if have.index(name) in found:
            raise source.error(column, "E_DUPLICATE", f"the column {name} is given two values")
        found.append(have.index(name))
    return found


def _fitted(query: Query, table: Table, at: Sequence[int], node: exp.Expr, source: Source) -> Query:
    """The query's outputs with the types of the table's columns."""
    child = query.node
    given = child.exprs if isinstance(child, plan.Project) else joins.refs(child.types)
    exprs = [_fitted_value(given[i], table, position, node, source) for i, position in enumerate(at)]
    below = child.child if isinstance(child, plan.Project) else child
    return Query(plan.Project(below, tuple(exprs)), query.names)


def _fitted_value(value: Expr, table: Table, position: int, at: exp.Expr, source: Source) -> Expr:
    """A value as the table's column wants it: quoted constants are read, numbers become wider ones."""
    column = table._columns[position]
    if isinstance(value, Constant):
        if value.value is None:
            return Constant(column.type.optional(), None)
        if value.type.kind == "str" and column.type.kind not in ("str", "bytes"):
            return constants.text_as(value.value, column.type, at, source)
    same = value.type.kind == column.type.kind
    numbers = {value.type.kind, column.type.kind} <= functions.NUMBERS
    if not (same or numbers or functions.common_type((value.type, column.type)) is not None):
        what = f"{table._label}.{column.name} is {column.type!r}, the value is {value.type!r}"
        raise source.error(at, "E_TYPE", what, "cast it: CAST(x AS type)")
    if column.type.kind == "int" and not same:
        value = functions.call("round", value)
    return functions.cast(value, column.type)


def _insert(sql: Statements, table: Table, rows: list[Any], conflict: str) -> None:
    if table._key and conflict != "update":
        rows = _new_keys(sql, table, rows, conflict)
    if rows:
        table.insert(rows)
        sql.mark(table)


def _new_keys(sql: Statements, table: Table, rows: list[Any], conflict: str) -> list[Any]:
    """The rows whose keys are not there yet."""
    codes = table._codec.encode(rows)
    keys = [tuple(codes[k, i].item() for k in table._key) for i in range(len(rows))]
    there = {tuple(r[k] for k in table._key) for r in sql.session._present(table, keys)}
    kept = []
    for row, key in zip(rows, keys, strict=True):
        if key not in there:
            there.add(key)
            kept.append(row)
        elif conflict == "error":
            shown = ", ".join(repr(row[k]) for k in table._key)
            raise InputError(
                "E_KEY",
                f"table {table._label!r} has a row with the key {shown} already",
                "UPDATE it, or INSERT OR REPLACE",
            )
    return kept


def _read_rows(
    sql: Statements,
    select: exp.Select,
    node: exp.Expr,
    source: Source,
    table: Table | None = None,
    assigned: Sequence[int] = (),
) -> list[Any]:
    """What the select gives with the statement's WHERE, its columns as those of the table and the assigned ones."""
    where = node.args.get("where")
    if where is not None:
        select.set("where", where)
    query, compiler = sql.bound(select, source)
    sql.refuse_pending(compiler.used, node, source)
    if table is not None:
        query = _fitted(query, table, [*range(len(table._columns)), *assigned], node, source)
    return sql.answer(query, compiler).rows()


def _refuse_extras(node: exp.Expr, source: Source) -> None:
    for arg, what in (("using", "USING"), ("from_", "FROM"), ("returning", "RETURNING"), ("limit", "LIMIT")):
        if node.args.get(arg):
            raise source.refuse(node, f"{what} is not supported in UPDATE and DELETE", "use a subquery in WHERE")
