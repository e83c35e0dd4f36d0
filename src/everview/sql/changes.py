"""INSERT, UPDATE, DELETE and TRUNCATE: what changes rows.

Each is one transaction, or part of the one that BEGIN opened. Rows that a statement has to find first are asked for by
a SELECT with its WHERE clause.

Every function here binds a statement and gives back what is to be done (see `everview.sql.statements`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from everview.errors import InputError, did_you_mean
from everview.expr import functions
from everview.expr.nodes import Expr
from everview.expr.nodes import Literal as Constant
from everview.plan import joins
from everview.plan import nodes as plan
from everview.sql import constants, names, parts
from everview.sql.places import Source, SqlError
from everview.sql.query import Compiler, Query
from everview.sql.result import Row
from everview.sql.scalars import Scalars
from everview.sql.scopes import HIDDEN, Relation, Scope
from everview.table import Table
from everview.types import INT

if TYPE_CHECKING:
    from everview.sql.statements import Do, Statements

Rows = Callable[[], list[Row]]
"""Rows that are asked for when a statement is done."""

_NOTHING = plan.Table(-1, (INT,))
"""A plan with types and no rows, for expressions that read no columns."""


def insert(sql: Statements, node: exp.Insert, source: Source) -> Do:
    """INSERT INTO t [(columns)] VALUES ... or SELECT ..."""
    target = node.this.this if isinstance(node.this, exp.Schema) else node.this
    table = _table(sql, target, source)
    conflict = _conflict(node, table, source)
    if node.args.get("returning"):
        raise source.refuse(node, "RETURNING is not supported")
    if node.expression is None:
        raise source.refuse(node, "DEFAULT VALUES is not supported: columns have no defaults", "give VALUES (...)")
    listed = node.this.expressions if isinstance(node.this, exp.Schema) else None
    at = list(range(len(table._columns))) if listed is None else _positions(listed, table, source)
    rows = _given(sql, node, table, at, source)

    def do() -> None:
        columns = [dict(zip(at, row, strict=True)) for row in rows()]
        full = [tuple(row.get(i) for i in range(len(table._columns))) for row in columns]
        _insert(sql, table, full, conflict)

    return do


def _given(sql: Statements, node: exp.Insert, table: Table, at: Sequence[int], source: Source) -> Rows:
    """The rows to insert, as the listed columns want them."""
    known = _constants(sql, node.expression, table, at, source) if node.args.get("with_") is None else None
    if known is not None:
        return lambda: known
    query, compiler = sql.bound(node.expression, source, change=node)
    sql.refuse_pending(compiler.used, node, source)
    _check_width(len(query.names), table, at, node, source)
    fitted = _fitted(query, table, at, node, source)
    return lambda: sql.answer(fitted, compiler).rows()


def update(sql: Statements, node: exp.Update, source: Source) -> Do:
    """UPDATE t SET column = ... [WHERE ...]"""
    _refuse_extras(node, source)
    table = _table(sql, node.this, source)
    for setting in node.expressions:
        if not isinstance(setting, exp.EQ) or not isinstance(setting.this, exp.Column):
            raise source.error(node, "E_SYNTAX", "SET needs a column and its new value", "UPDATE t SET column = value")
    new = _positions([setting.this for setting in node.expressions], table, source)
    items: list[exp.Expr] = [exp.Star(), *(setting.expression for setting in node.expressions)]
    select = exp.Select(expressions=items, from_=exp.From(this=node.this))
    rows = _read_rows(sql, select, node, source, table, new)
    return lambda: _update(sql, table, new, rows())


def _update(sql: Statements, table: Table, new: Sequence[int], rows: list[Row]) -> None:
    """Replace rows; each is a row of the table, then what its columns at `new` become."""
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


def delete(sql: Statements, node: exp.Delete, source: Source) -> Do:
    """DELETE FROM t [WHERE ...]"""
    _refuse_extras(node, source)
    table = _table(sql, node.this, source)
    rows = _read_rows(sql, exp.Select(expressions=[exp.Star()], from_=exp.From(this=node.this)), node, source)

    def do() -> None:
        gone = rows()
        if gone:
            table.delete(gone)
            sql.mark(table)

    return do


def truncate(sql: Statements, node: exp.TruncateTable, source: Source) -> Do:
    """TRUNCATE t, u: all of them or none"""
    tables = [_table(sql, target, source) for target in node.expressions]

    def do() -> None:
        with sql.session.transaction():
            for table in tables:
                table.clear()
                sql.mark(table)

    return do


def _table(sql: Statements, target: exp.Expr | bool | None, source: Source) -> Table:
    if not isinstance(target, exp.Expr):  # sqlglot reads DELETE alone as a statement
        raise SqlError("E_SYNTAX", "the table's name is missing", "name the table to change", 1, 1)
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
    if not isinstance(node, exp.Values) or node.find(exp.Query, exp.Order, exp.Limit, exp.Offset) is not None:
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


def _check_conflict_keys(clause: exp.OnConflict, table: Table, source: Source) -> None:
    """ON CONFLICT (columns) names the key: nothing else is unique."""
    columns = [o.this if isinstance(o, exp.Ordered) else o for o in clause.args.get("conflict_keys") or []]
    for ordered in clause.args.get("conflict_keys") or []:
        parts.understood(ordered)
    if columns and set(_positions(columns, table, source)) != set(table._key):
        key = ", ".join(table._columns[k].name for k in table._key)
        hint = f"the key is ({key})" if key else f"{table._label} has no key"
        raise source.error(columns[0], "E_KEY", "these columns are not the key, so they can be there twice", hint)


def _conflict(node: exp.Insert, table: Table, source: Source) -> str:
    """What to do with a key that exists: error, nothing or update."""
    clause = node.args.get("conflict")
    if clause is None:
        return "update" if str(node.args.get("alternative") or "").upper() == "REPLACE" else "error"
    action = clause.args.get("action")
    if action is not None and "NOTHING" in action.name.upper():
        _check_conflict_keys(clause, table, source)
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
) -> Rows:
    """What the select gives with the statement's WHERE, its columns as those of the table and the assigned ones."""
    where = node.args.get("where")
    if where is not None:
        select.set("where", where)
    query, compiler = sql.bound(select, source, change=node)
    sql.refuse_pending(compiler.used, node, source)
    if table is not None:
        query = _fitted(query, table, [*range(len(table._columns)), *assigned], node, source)
    return lambda: sql.answer(query, compiler).rows()


def _refuse_extras(node: exp.Expr, source: Source) -> None:
    for arg, what in (("using", "USING"), ("from_", "FROM"), ("returning", "RETURNING"), ("limit", "LIMIT")):
        if node.args.get(arg):
            raise source.refuse(node, f"{what} is not supported in UPDATE and DELETE", "use a subquery in WHERE")
