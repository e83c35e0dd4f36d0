"""DESCRIBE and SHOW COLUMNS: the columns of a table, a view or a query."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from everview.codes.codec import Codec
from everview.errors import did_you_mean
from everview.language.relation import relation_of
from everview.session.clock.clock import moment_of
from everview.session.clock.watermarks import Watermark
from everview.session.table import Table
from everview.sql.answers.result import Result
from everview.sql.ddl import schemas
from everview.sql.scalar.type_names import sql_name
from everview.sql.text import statement_reader
from everview.sql.text.error_positions import Source
from everview.types import INT, NULL, STR, TIMESTAMP, DataType

if TYPE_CHECKING:
    from everview.sql.statements import Do, Statements


def describe(sql: Statements, node: exp.Describe, source: Source) -> Do:
    """DESCRIBE name, DESCRIBE query"""
    if isinstance(node.this, statement_reader.QUERIES):
        query, _ = sql.bound(node.this, source)
        types = query.node.types[query.context : query.width]
        return lambda: _listed(sql, query.names, types, ())
    kind = str(node.args.get("kind") or "").upper()
    if not isinstance(node.this, exp.Table) or kind not in ("", "TABLE", "VIEW"):
        raise source.refuse(node, "tables, views and queries can be described", "DESCRIBE name, DESCRIBE SELECT ...")
    name = sql.spelled(schemas.written(node.this))
    if name not in sql.session:
        there = [*sql.session.tables, *sql.session.views]
        raise source.error(node.this, "E_TABLE", f"there is no table or view {name}", did_you_mean(name, there))
    return lambda: named(sql, name)


def named(sql: Statements, name: str, chosen: Callable[[str], bool] = lambda column: True) -> Result:
    """The columns of a table or view that is there, or those that are chosen."""
    found = sql.session[name]
    key = [relation_of(found).columns[k].name for k in relation_of(found).key] if isinstance(found, Table) else []
    shown = sql.core.access.shown(name)
    columns = {n: t for n, t in found.schema().items() if (shown is None or n in shown) and chosen(n)}
    listed = _listed(sql, [*columns], [*columns.values()], key)
    comments = sql.core.catalog.comments.items()
    said = {c: text for (n, c), text in comments if n == name and (not c or shown is None or c in shown) and chosen(c)}
    return _with_comments(sql, listed, said) if said else listed


def _with_comments(sql: Statements, listed: Result, said: dict[str, str]) -> Result:
    """The columns with their comments; a first row for the comment on the whole."""
    codec = Codec(
        (STR, STR.optional(), STR.optional(), STR.optional(), STR.optional()),
        (*listed.columns, "comment"),
        sql.core.interner,
    )
    whole = [(None, None, None, said[""])] if "" in said else []
    rows = [("", *row) for row in whole] + [(*row, said.get(row[0])) for row in listed.rows()]
    return Result(codec, codec.encode_rows(rows))


def _listed(sql: Statements, names: Sequence[str], types: Sequence[DataType], key: Sequence[str]) -> Result:
    """One row for each column: its name and type, and whether it may be NULL or is part of the key."""
    codec = Codec((STR, STR, STR, STR), ("column", "type", "null", "key"), sql.core.interner)
    said = {True: "yes", False: "no"}
    rows = [(n, sql_name(t), said[t.nullable], said[n in key]) for n, t in zip(names, types, strict=True)]
    return Result(codec, codec.encode_rows(rows))


def watermarks(sql: Statements) -> Result:
    """SHOW WATERMARKS: how far each table's time has come, and how many rows were late."""
    every = [f for f in sql.core.clock.followers if isinstance(f, Watermark)]
    found = [f for f in every if relation_of(f.table).label in sql.session]
    rows = [(relation_of(f.table).label, None if f.reached == NULL else moment_of(f.reached), f.late) for f in found]
    codec = Codec((STR, TIMESTAMP.optional(), INT), ("table", "watermark", "late"), sql.core.interner)
    return Result(codec, codec.encode_rows(rows))
