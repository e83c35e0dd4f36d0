"""Values for columns that a statement omits: defaults, identities, generated columns.

The rule for a missing value is SQL text (`everview.session.changes.defaults`). It is evaluated on execution: once,
except for volatile functions (`everview.sql.dml.volatile_functions`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlglot import exp

from everview.codes.codec import Codec
from everview.codes.limits import in_plans
from everview.errors import InputError, PlanError
from everview.expr import common_types, functions
from everview.expr.evaluate import ERRORS, evaluate
from everview.expr.nodes import Expr
from everview.expr.nodes import Literal as Constant
from everview.language.relation import relation_of
from everview.plan import nodes as plan
from everview.session.changes.defaults import ALWAYS, DEFAULT, IDENTITY_ALWAYS, Missing, parsed_default
from everview.session.rights.principal import Anybody, Author, Principal
from everview.session.table import Table
from everview.sql.answers.result import Row
from everview.sql.ddl import sql_functions
from everview.sql.dml import volatile_functions
from everview.sql.scalar import constants
from everview.sql.scalar.scalars import Scalars
from everview.sql.scalar.type_names import in_words
from everview.sql.select.compiler import Compiler
from everview.sql.select.query import Query
from everview.sql.select.scopes import HIDDEN_FIELD, Field, Relation, Scope
from everview.sql.text import statement_reader
from everview.sql.text.error_positions import Source, has_query
from everview.types import INT, STR, DataType

if TYPE_CHECKING:
    from everview.sql.statements import Statements


class NotGiven:
    """The placeholder for DEFAULT in a row."""


NOT_GIVEN = NotGiven()

_TEXTS = frozenset(
    {
        "int",
        "float",
        "decimal",
        "numeric",
        "bool",
        "date",
        "timestamp",
        "timestamptz",
        "time",
        "interval",
        "uuid",
        "enum",
    }
)
"""Kinds of values of which a column of texts takes the text, as in PostgreSQL."""


def fitted(value: Expr, declared: DataType, at: exp.Expr, source: Source, what: str = "the column") -> Expr:
    """A value converted to a column: quoted constants are parsed, numbers widened. Limits of the column are checked
    where its rows are written, which names the row.
    """
    target = replace(declared, names=(), width=0) if declared.kind == "int" else in_plans(declared)
    if isinstance(value, Constant):
        if value.value is None:
            return Constant(target.optional(), None)
        if value.type.kind == "str" and target.kind != "str":
            return constants.text_as(value.value, target, at, source)
    same = value.type.kind == target.kind
    numbers = {value.type.kind, target.kind} <= common_types.NUMBERS | {"numeric"}
    as_text = target.kind == "str" and value.type.kind in _TEXTS
    if not (same or numbers or as_text or common_types.common_type((value.type, target)) is not None):
        raise source.error(
            at,
            "E_TYPE",
            f"{what} is {in_words(target)}, the value is {in_words(value.type)}",
            "cast it: CAST(x AS type)",
        )
    try:
        if target.kind == "int" and not same:
            value = functions.call("round", value)
        if target.kind == "char" and target.width:
            value = functions.call("char_fit", functions.cast(value, STR), Constant(INT, target.width))
        return functions.cast(value, target)
    except PlanError as error:
        raise source.placed(error, at) from None


# expressions


def checked(sql: Statements, node: exp.Expr, target: DataType, source: Source) -> str:
    """The text of a valid DEFAULT for a column."""
    text = node.copy().sql("postgres")
    who = sql.core.access.acting()
    reader = Anybody() if who is None else Author(who)  # those who will insert have attributes
    _bound(sql, volatile_functions.stood_in(sql, node), target, source, reader)
    return text


def _refuse_query(sql: Statements, node: exp.Expr, source: Source, what: str = "a DEFAULT is an expression") -> None:
    """Refuse what reads tables: it would read them for whoever inserts, who has not written it. A function that is
    called may have been replaced by one that does.
    """
    sql_functions.mark(node, sql.core.catalog)
    if has_query(node):
        raise source.refuse(node, f"{what} without a subquery", "give the values where you insert")


def _bound(sql: Statements, node: exp.Expr, target: DataType, source: Source, reader: Principal | None = None) -> Expr:
    """An expression that reads no columns, as a column wants it; `reader`: whose attributes it may ask for."""
    _refuse_query(sql, node, source)
    compiler = Compiler(sql.session, source)
    compiler.reader = reader
    scope = Scope(Relation(plan.Table(-1, (INT,)), (HIDDEN_FIELD,)), source)
    return constants.folded(fitted(Scalars(compiler, scope, {}).bind(node), target, node, source), sql.core.interner)


@lru_cache(1024)
def parsed(text: str) -> exp.Expr:
    """Parse an expression; copy it before binding."""
    tree = statement_reader.parsed(Source(f"SELECT {text}"))
    assert isinstance(tree, exp.Select)
    item: exp.Expr = tree.expressions[0]
    return item


def sequences(sql: Statements, said: str) -> set[str]:
    """The sequences that number a column's missing values, by what it says about them."""
    missing = parsed_default(said)
    if missing.kind == DEFAULT:
        return (
            volatile_functions.sequences_of(sql, parsed(missing.text))
            if volatile_functions.mentioned(missing.text)
            else set()
        )
    return set() if missing.kind == ALWAYS else {missing.text}


def _computed(sql: Statements, text: str, target: DataType) -> Any:
    """The value of a text, now."""
    source = sql.placed(Source(f"SELECT {text}"))
    found = _bound(sql, volatile_functions.replaced(sql, parsed(text).copy()), target, source)
    if isinstance(found, Constant):
        return found.value
    query = Query(plan.Project(plan.ONE_ROW, (found,)), ("x",))
    return sql.answer(query, Compiler(sql.session, source)).rows()[0][0]


def _values(sql: Statements, missing: Missing, target: DataType, count: int) -> list[Any]:
    """Values for `count` rows."""
    if missing.kind != DEFAULT:
        return list(sql.core.defaults.next(missing.text, count))
    name = volatile_functions.only_nextval(missing.text)
    if name is not None:
        return list(sql.core.defaults.next(volatile_functions.sequence(sql, name), count))
    if volatile_functions.is_volatile(parsed(missing.text)):
        return [_computed(sql, missing.text, target) for _ in range(count)]
    return [_computed(sql, missing.text, target)] * count


def value(sql: Statements, table: Table, column: str) -> Any:
    """The default of one column."""
    missing = sql.core.defaults.of(table)[column]
    place = [c.name for c in relation_of(table).columns].index(column)
    return _values(sql, missing, relation_of(table).columns[place].type, 1)[0]


# rows


def completed(sql: Statements, table: Table, at: Sequence[int], rows: Sequence[Row]) -> list[Row]:
    """Complete rows of a table, from rows with values for some of its columns."""
    width = len(relation_of(table).columns)
    missing = sql.core.defaults.of(table)
    if not missing:
        whole = list(at) == list(range(width))
        full = list(rows) if whole else [_placed(at, row, width, None) for row in rows]
        return [tuple(None if v is NOT_GIVEN else v for v in r) for r in full] if _says_default(rows) else full
    made = [list(_placed(at, row, width, NOT_GIVEN)) for row in rows]
    for place, column in enumerate(relation_of(table).columns):
        empty = [row for row in made if row[place] is NOT_GIVEN]
        found = missing.get(column.name)
        if found is None or found.kind == ALWAYS:
            values: list[Any] = [None] * len(empty)
        else:
            values = _values(sql, found, column.type, len(empty)) if empty else []
        for row, each in zip(empty, values, strict=True):
            row[place] = each
    return generated(sql, table, [tuple(row) for row in made])


def _says_default(rows: Sequence[Row]) -> bool:
    return any(v is NOT_GIVEN for row in rows for v in row)


def _placed(at: Sequence[int], row: Row, width: int, absent: Any) -> Row:
    given = dict(zip(at, row, strict=True))
    return tuple(given.get(i, absent) for i in range(width))


def completed_dicts(sql: Statements, table: Table, rows: list[Any]) -> list[Any]:
    """The same for rows as dicts; others are complete already."""
    names = [c.name for c in relation_of(table).columns]
    found = sql.core.defaults.of(table)
    done: list[Any] = []
    for row in rows:
        if isinstance(row, dict) and not found.keys() <= row.keys() and row.keys() <= {*names}:
            lacking = [n for n in names if n not in row and n not in found and not _nullable(table, n)]
            if lacking:
                done.append(row)  # encoding reports what is missing
                continue
            at = [i for i, n in enumerate(names) if n in row]
            done += completed(sql, table, at, [tuple(row[names[i]] for i in at)])
        else:
            done.append(row)
    return done


def _nullable(table: Table, name: str) -> bool:
    return next(c.type.nullable for c in relation_of(table).columns if c.name == name)


def generated(sql: Statements, table: Table, rows: list[Row]) -> list[Row]:
    """Rows with their generated columns computed."""
    names = [c.name for c in relation_of(table).columns]
    texts = {names.index(c): m.text for c, m in sql.core.defaults.of(table).items() if m.kind == ALWAYS}
    if not texts or not rows:
        return rows
    open_types = [c.type.optional() for c in relation_of(table).columns]
    blank = [tuple(None if i in texts else v for i, v in enumerate(row)) for row in rows]
    codes = Codec(open_types, names, sql.core.interner).encode(blank)
    exprs = tuple(_over_row(sql, table, i, text) for i, text in texts.items())
    found = evaluate(exprs, None, np.ascontiguousarray(codes), sql.core.interner)
    if len(found.kept) < len(rows):
        failed = int(np.flatnonzero(found.errors)[0])
        error = ERRORS[int(found.errors[failed])]
        what = f"table {relation_of(table).label!r}: {error}, in a generated column of {rows[failed]!r}"
        raise InputError("E_ROWS", what, "nothing was changed")
    values = Codec([e.type for e in exprs], [names[i] for i in texts], sql.core.interner).decode_rows(found.codes)
    return [_with(row, dict(zip(texts, made, strict=True))) for row, made in zip(rows, values, strict=True)]


def _with(row: Row, values: dict[int, Any]) -> Row:
    return tuple(values.get(i, v) for i, v in enumerate(row))


def _over_row(sql: Statements, table: Table, place: int, text: str) -> Expr:
    source = sql.placed(Source(f"SELECT {text}"))
    last = relation_of(table).label.rpartition(".")[2]
    types = tuple(c.type.optional() for c in relation_of(table).columns)
    relation = Relation(plan.Table(-1, types), tuple(Field(c.name, last) for c in relation_of(table).columns))
    tree = parsed(text).copy()
    _refuse_query(sql, tree, source, "a generated column is computed from its row,")
    bound = Scalars(Compiler(sql.session, source), Scope(relation, source), {}).bind(tree)
    return fitted(bound, types[place], exp.Null(), source)


def refuse_given(
    sql: Statements, table: Table, at: Sequence[int], node: exp.Expr, source: Source, overriding: str = ""
) -> None:
    """Refuse values for generated columns; those of identities may be overridden."""
    found = sql.core.defaults.of(table)
    for place in at:
        missing = found.get(relation_of(table).columns[place].name)
        if missing is not None and missing.forced and not (overriding and missing.kind == IDENTITY_ALWAYS):
            always = "GENERATED ALWAYS AS IDENTITY" if missing.kind == IDENTITY_ALWAYS else "GENERATED ALWAYS"
            what = f"{relation_of(table).columns[place].name} is {always}: no other value can be given"
            hint = "leave the column out, or give DEFAULT" + "; or OVERRIDING SYSTEM VALUE" * missing.is_identity
            raise source.error(node, "E_GENERATED", what, hint)


def ignored(sql: Statements, table: Table, at: Sequence[int], rows: Sequence[Row]) -> list[Row]:
    """OVERRIDING USER VALUE: rows in which identities are not given."""
    found = sql.core.defaults.of(table)
    missing = [found.get(relation_of(table).columns[place].name) for place in at]
    gone = [m is not None and m.is_identity for m in missing]
    return [tuple(NOT_GIVEN if g else v for g, v in zip(gone, row, strict=True)) for row in rows]
