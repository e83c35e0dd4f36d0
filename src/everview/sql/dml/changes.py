"""INSERT, UPDATE, DELETE and TRUNCATE.

Each is one transaction, or part of the one that BEGIN opened. Affected rows are found by a SELECT with the statement's
WHERE clause.

Every function here binds a statement and returns a function that executes it (see `everview.sql.statements`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from everview.errors import InputError, did_you_mean
from everview.expr.nodes import Expr
from everview.expr.nodes import Literal as Constant
from everview.language.relation import relation_of
from everview.plan import joins
from everview.plan import nodes as plan
from everview.session.changes.constraints import places
from everview.session.names.constraint_rules import UNIQUE
from everview.session.rights.principal import doing
from everview.session.table import Table
from everview.sql.answers.result import Result, Row, coded
from everview.sql.ddl import schemas
from everview.sql.dml import code_inserts, constraint_checks, omitted_columns, own_changes
from everview.sql.dml.affected_rows import Returning
from everview.sql.dml.bound_changes import Slots, Unfit
from everview.sql.dml.conflicts import DoNothing, DoUpdate
from everview.sql.rights import row_checks
from everview.sql.scalar import constants, names
from everview.sql.scalar.scalars import Scalars
from everview.sql.select.compiler import Compiler
from everview.sql.select.query import Query
from everview.sql.select.scopes import HIDDEN_FIELD, Relation, Scope
from everview.sql.text import consumed_parts
from everview.sql.text.dialects import DEFAULT as POSTGRES
from everview.sql.text.error_positions import Source
from everview.types import INT

if TYPE_CHECKING:
    from everview.sql.statements import Do, Statements

Rows = Callable[[], list[Row]]
"""Rows computed on execution."""

_NOTHING = plan.Table(-1, (INT,))
"""A plan with types and no rows, for expressions without columns."""


def insert(sql: Statements, node: exp.Insert, source: Source) -> Do:
    """INSERT INTO t [(columns)] VALUES ... or SELECT ... [ON CONFLICT ...] [RETURNING ...]"""
    target = node.this.this if isinstance(node.this, exp.Schema) else node.this
    table = table_of(sql, target, source, "INSERT")
    conflict = _conflict(sql, node, table, source)
    returning = Returning(sql, node, table, source)
    listed = node.this.expressions if isinstance(node.this, exp.Schema) else None
    at = list(range(len(relation_of(table).columns))) if listed is None else positions_of(listed, table, source)
    if node.expression is None:
        node.args.get("default")
        at, rows = [], _one_empty
    else:
        at, rows = _given(sql, node, table, at, source, listed is None)
    if source.notes.overriding == "USER":
        rows = _with_own_numbers(sql, table, at, rows)
    whole = at == [*range(len(relation_of(table).columns))] and not relation_of(table).key
    if isinstance(rows, Asked) and whole and conflict == "error" and not returning.outputs:
        asked = rows
        return lambda: _insert_codes(sql, table, asked)

    def change() -> list[Row]:
        full = omitted_columns.completed(sql, table, at, rows())
        if not isinstance(conflict, str) and full:
            constraint_checks.proposed(sql.core, table, relation_of(table).codec.encode(full))
        if isinstance(conflict, DoNothing):
            full = conflict.kept(sql, table, full)
            return insert_rows(sql, table, full, "error")
        if isinstance(conflict, str):
            return _inserted(sql, table, full, conflict)
        fresh, old, changed = conflict.split(full)
        changed = omitted_columns.completed(sql, table, range(len(relation_of(table).columns)), changed)
        with sql.session.transaction():
            replace_rows(sql, table, old, changed)
            insert_rows(sql, table, fresh, "error")
        return [*fresh, *changed]

    return lambda: done(sql, change, returning)


def _inserted(sql: Statements, table: Table, rows: list[Row], conflict: str) -> list[Row]:
    """Insert rows; those that violate a CHECK and have a key that exists violate the CHECK, as in PostgreSQL."""
    try:
        return insert_rows(sql, table, rows, conflict)
    except InputError as error:
        if error.code == "E_KEY":
            constraint_checks.proposed(sql.core, table, relation_of(table).codec.encode(rows))
        raise


def _with_own_numbers(sql: Statements, table: Table, at: Sequence[int], given: Rows) -> Rows:
    """OVERRIDING USER VALUE: the values of identities are not taken."""
    return lambda: omitted_columns.ignored(sql, table, at, given())


class Asked:
    """The rows of a query, as values or as codes."""

    def __init__(self, sql: Statements, query: Query, compiler: Compiler) -> None:
        self._sql, self._query, self._compiler = sql, query, compiler

    def answer(self) -> Result:
        return self._sql.answer(self._query, self._compiler)

    def __call__(self) -> list[Row]:
        return self.answer().rows()


def _insert_codes(sql: Statements, table: Table, asked: Asked) -> None:
    """Insert the rows of a query into all columns of a table, without decoding them if that is not needed."""
    answer = asked.answer()
    sql.affected = len(answer)
    if not sql.affected:
        return
    codec, codes = coded(answer)
    if code_inserts.fit(codes, codec.types, relation_of(table).codec.types):
        sql.core.transactions.stage(table, codes, 1)
    else:
        insert_rows(sql, table, answer.rows(), "error")


def _one_empty() -> list[Row]:
    """The row of DEFAULT VALUES."""
    return [()]


def done(sql: Statements, change: Rows, returning: Returning) -> Result | None:
    """Change rows and compute RETURNING; if that fails, nothing is changed."""
    if not returning.outputs:
        sql.affected = len(change())
        return None
    with sql.session.transaction():
        before = len(sql.core.transactions.pending() or ())
        rows = change()
        row_checks.check_returned(sql.core, returning.table, rows)
        return returning.answer(rows, before)


def _given(
    sql: Statements, node: exp.Insert, table: Table, at: list[int], source: Source, first: bool
) -> tuple[list[int], Rows]:
    """The rows to insert, converted to the listed columns, and which of these have values. `first`: no columns are
    listed, so fewer values than columns are for the first of them, as in PostgreSQL; other systems refuse that unless
    the table has defaults.
    """
    fewer = first and (source.dialect == POSTGRES or bool(sql.core.defaults.of(table)))
    if fewer:
        at = at[: _width(node.expression, len(at))]
    at = _without_defaults(node.expression, at)
    known = _constants(sql, node.expression, table, at, source) if node.args.get("with_") is None else None
    slots = slots_of(sql)
    if slots is not None:
        return at, lambda: slots.rows or []
    if known is not None:
        return at, lambda: known
    query, compiler = sql.bound(node.expression, source, change=node)
    at = at[: len(query.names)] if fewer else at
    check_width(len(query.names), table, at, node, source)
    omitted_columns.refuse_given(sql, table, at, node, source, source.notes.overriding)
    given = fitted(query, table, at, node, source)
    return at, Asked(sql, given, compiler)


def _width(node: exp.Expr, most: int) -> int:
    """How many values the rows of VALUES have."""
    if not isinstance(node, exp.Values) or not node.expressions:
        return most
    row = node.expressions[0]
    return min(len(row.expressions) if isinstance(row, exp.Tuple) else 1, most)


def is_default(node: exp.Expr) -> bool:
    """Whether a value is the word DEFAULT."""
    return isinstance(node, (exp.Var, exp.Column)) and node.name.upper() == "DEFAULT" and not node.args.get("table")


def _without_defaults(node: exp.Expr, at: list[int]) -> list[int]:
    """The columns for which some row of VALUES has a value other than DEFAULT; columns with DEFAULT in all rows are
    dropped."""
    if not isinstance(node, exp.Values):
        return at
    rows = [row for row in node.expressions if isinstance(row, exp.Tuple)]
    if len(rows) != len(node.expressions) or any(len(r.expressions) != len(at) for r in rows):
        return at
    gone = [i for i in range(len(at)) if all(is_default(r.expressions[i]) for r in rows)]
    if gone and len(gone) < len(at):
        for row in rows:
            row.set("expressions", [e for i, e in enumerate(row.expressions) if i not in gone])
    return [p for i, p in enumerate(at) if i not in gone] if len(gone) < len(at) else at


def update(sql: Statements, node: exp.Update, source: Source) -> Do:
    """UPDATE t SET column = ..., (a, b) = (...) [FROM ...] [WHERE ...] [RETURNING ...]"""
    table = table_of(sql, node.this, source, "UPDATE")
    settings = [pair for setting in node.expressions for pair in settings_of(setting, source)]
    new = positions_of([column for column, _ in settings], table, source)
    settings, unset = reset(sql, settings, new, table, source)
    new = [p for p in new if p not in unset]
    select = of_target(node, [value for _, value in settings])
    others = node.args.get("from_")
    if others is not None:
        select.set("joins", [exp.Join(this=others.this, kind="CROSS")])
    returning = Returning(sql, node, table, source, None if others is None else select)
    found = _found(sql, select, node, source, table, new)
    width = len(relation_of(table).columns)
    places = {position: width + i for i, position in enumerate(new)}

    def change() -> list[Row]:
        rows = found().rows()
        if others is not None:
            rows = _matched(sql, table, rows, width + len(new), returning)
        old = [row[:width] for row in rows]
        changed: list[Row] = [tuple(row[places.get(i, i)] for i in range(width)) for row in rows]
        if unset:
            at = [i for i in range(width) if i not in unset]
            changed = omitted_columns.completed(sql, table, at, [tuple(row[i] for i in at) for row in changed])
        changed = omitted_columns.generated(sql, table, changed)
        replace_rows(sql, table, old, changed)
        return changed

    return lambda: done(sql, change, returning)


def reset(
    sql: Statements, settings: list[tuple[exp.Expr, exp.Expr]], at: list[int], table: Table, source: Source
) -> tuple[list[tuple[exp.Expr, exp.Expr]], set[int]]:
    """Assignments of values, and the columns that are set to DEFAULT."""
    unset = {p for p, (_, value) in zip(at, settings, strict=True) if is_default(value)}
    kept = [setting for p, setting in zip(at, settings, strict=True) if p not in unset]
    for place, (column, _) in zip(at, settings, strict=True):
        if place not in unset:
            omitted_columns.refuse_given(sql, table, [place], column, source)
    return kept, unset


def settings_of(setting: exp.Expr, source: Source) -> list[tuple[exp.Expr, exp.Expr]]:
    """The columns of one assignment and their values: one, or a row of them."""
    if isinstance(setting, exp.EQ) and isinstance(setting.this, exp.Paren):  # (a) = (SELECT ...)
        setting = exp.EQ(this=setting.this.this, expression=setting.expression)
    if not isinstance(setting, exp.EQ) or not isinstance(setting.this, (exp.Column, exp.Tuple)):
        raise source.error(setting, "E_SYNTAX", "SET needs a column and its new value", "UPDATE t SET column = value")
    if setting.expression.is_star:
        raise source.error(setting.expression, "E_STAR", "* is not allowed here", "name the column")
    if not isinstance(setting.this, exp.Tuple):
        return [(setting.this, setting.expression)]
    inside = setting.expression.this if isinstance(setting.expression, exp.Subquery) else None
    if isinstance(inside, exp.Select) and len(inside.expressions) == len(setting.this.expressions) > 1:
        return list(zip(setting.this.expressions, _one_by_one(inside), strict=True))
    row = setting.expression
    is_row = isinstance(row, exp.Anonymous) and row.name.lower() == "row"
    if not is_row and not isinstance(row, exp.Tuple):
        raise source.refuse(setting, "a row of columns is given a row of values", "SET (a, b) = (1, 2)")
    columns, values = setting.this.expressions, row.expressions
    if len(columns) != len(values):
        raise source.error(setting, "E_WIDTH", f"{len(values)} values for {len(columns)} columns")
    return list(zip(columns, values, strict=True))


def _one_by_one(select: exp.Select) -> list[exp.Expr]:
    """A query of several columns as queries of one column each, of the same parts."""
    made: list[exp.Expr] = []
    for item in select.expressions:
        one = exp.Select()
        one.args = {part: select.args[part] for part in list(select.args)}  # each is read; what is not known is refused
        one.args["expressions"] = [item]
        made.append(exp.Subquery(this=one))
    return made


def of_target(node: exp.Expr, values: Sequence[exp.Expr] = ()) -> exp.Select:
    """A query for the rows of the statement's target table, and values beside them."""
    target = node.this
    star = exp.Column(this=exp.Star(), table=exp.to_identifier(target.alias or target.name))
    return exp.Select(expressions=[star, *values], from_=exp.From(this=target))


def _matched(sql: Statements, table: Table, rows: list[Row], width: int, returning: Returning) -> list[Row]:
    """Matched rows of the table and their new values, each once; RETURNING is told what they were joined with."""
    beside: dict[Row, Row] = {}
    if returning.joined is not None:
        rows, beside = returning.joined.split(rows, width)
    found = _each_once(sql, table, rows, len(relation_of(table).columns))
    returning.beside = [beside.get(row, ()) for row in found]
    return found


def _each_once(sql: Statements, table: Table, rows: list[Row], width: int) -> list[Row]:
    """Matched rows of the table, with their multiplicity; an error if several matches disagree."""
    found: dict[Row, Row] = {}
    for row in dict.fromkeys(rows):
        if row[:width] in found:
            raise InputError(
                "E_AMBIGUOUS",
                f"a row of {relation_of(table).label!r} would become two different ones: {row[:width]}",
                "let FROM and WHERE find one row for it, or aggregate",
            )
        found[row[:width]] = row
    if relation_of(table).key:
        return list(found.values())
    return [found[row] for row in own_changes.rows_of(sql.core, table) if row in found]


def replace_rows(sql: Statements, table: Table, old: list[Row], changed: list[Row]) -> None:
    """Delete rows and insert their replacements, in order, atomically."""
    if not old:
        return
    with sql.session.transaction(), doing("UPDATE"):
        table.delete(old)
        insert_rows(sql, table, changed, "error")
        if sql.core.constraints.referring(relation_of(table).label):
            constraint_checks.moved(sql, table, old, changed)


def delete(sql: Statements, node: exp.Delete, source: Source) -> Do:
    """DELETE FROM t [USING ...] [WHERE ...] [RETURNING ...]"""
    table = table_of(sql, node.this, source, "DELETE")
    select = of_target(node)
    others = node.args.get("using") or []
    if others:
        select.set("joins", [exp.Join(this=other, kind="CROSS") for other in others])
    returning = Returning(sql, node, table, source, select if others else None)
    found = _found(sql, select, node, source)

    def change() -> list[Row]:
        rows = found().rows()
        gone = _matched(sql, table, rows, len(relation_of(table).columns), returning) if others else rows
        if gone:
            table.delete(gone)
        return gone

    def change_as_codes() -> None:
        """The same, if the values of deleted rows are not needed."""
        answer = found()
        codec, codes = coded(answer)
        if codec.types != relation_of(table).node.types:
            table.delete(answer.rows())
        elif codes.size:
            sql.core.transactions.stage(table, codes, -1)
        sql.affected = len(answer)

    return change_as_codes if not others and not returning.outputs else lambda: done(sql, change, returning)


def truncate(sql: Statements, node: exp.TruncateTable, source: Source) -> Do:
    """TRUNCATE t, u [RESTART IDENTITY] [CASCADE]: all of them or none; CASCADE: and what refers to them"""
    tables = [table_of(sql, target, source, "TRUNCATE") for target in node.expressions]
    restart = str(node.args.get("identity") or "").upper() == "RESTART"
    if str(node.args.get("option") or "").upper() == "CASCADE":
        for table in tables:  # it grows
            referring = [
                sql.core.catalog.tables[r.table] for r in sql.core.constraints.referring(relation_of(table).label)
            ]
            for other in referring:
                if other not in tables:
                    sql.core.access.may("TRUNCATE", "relation", relation_of(other).label)
                    tables.append(other)

    def do() -> None:
        with sql.session.transaction():
            for table in tables:
                table.clear()
            for made in list(sql.core.catalog.sequences.values()) if restart else ():
                if made.owner[:1] in [(relation_of(table).label,) for table in tables]:
                    sql.core.defaults.put(made.name, made.start - made.step)

    return do


def table_of(sql: Statements, target: exp.Expr | bool | None, source: Source, privilege: str = "") -> Table:
    """The target table of a statement, if the current user has the privilege."""
    if not isinstance(target, exp.Expr):  # sqlglot reads DELETE alone as a statement
        at = source.tokens[min(1, len(source.tokens) - 1)].start if source.tokens else 0
        raise source.error_at(at, "E_SYNTAX", "FROM or the table's name is missing", "DELETE FROM t")
    name = sql.spelled(schemas.written(target))
    found = sql.core.catalog.tables.get(name) if name in sql.session.tables else None
    if found is None:
        if name in sql.session.views:
            raise source.error(
                target, "E_TABLE", f"{name} is a view and cannot be changed", "change the tables it is made of"
            )
        who = sql.core.access.acting()
        if who is not None:
            raise sql.core.access.refused("UPDATE", "relation", name, who)
        hint = did_you_mean(name, sql.session.tables)
        raise source.error(target, "E_TABLE", f"there is no table {name}", hint)
    if privilege:
        sql.core.access.may(privilege, "relation", name)
    return found


def _constants(sql: Statements, node: exp.Expr, table: Table, at: Sequence[int], source: Source) -> list[Row] | None:
    """The rows of VALUES, if they are all constants: the common case, which needs no dataflow."""
    if not isinstance(node, exp.Values) or node.find(exp.Query, exp.Order, exp.Limit, exp.Offset) is not None:
        return None
    compiler = Compiler(sql.session, source)
    scalars = Scalars(compiler, Scope(Relation(_NOTHING, (HIDDEN_FIELD,)), source), {})

    def valued(value: Expr, place: int, item: exp.Expr) -> Expr:
        found = constants.folded(_fitted_value(value, table, place, item, source), sql.core.interner)
        return found if isinstance(found, Constant) else constants.known(found, sql.core.interner)

    slots = slots_of(sql)
    if slots is not None:
        slots.give(_cells(sql, slots, node, table, at, source, scalars, valued))
        return None
    rows = []
    for row in node.expressions:
        items = row.expressions if isinstance(row, exp.Tuple) else [row]
        check_width(len(items), table, at, row, source)
        found: list[Any] = []
        for item, place in zip(items, at, strict=True):
            if is_default(item):
                found.append(omitted_columns.NOT_GIVEN)
                continue
            omitted_columns.refuse_given(sql, table, [place], item, source, source.notes.overriding)
            value = valued(scalars.bind(item), place, item)
            if not isinstance(value, Constant):
                return None
            found.append(value.value)
        rows.append(tuple(found))
    return rows


def slots_of(sql: Statements) -> Slots | None:
    """The slots of a statement that is bound for all values."""
    return sql.parameters if isinstance(sql.parameters, Slots) else None


def _cells(
    sql: Statements,
    slots: Slots,
    node: exp.Values,
    table: Table,
    at: Sequence[int],
    source: Source,
    scalars: Scalars,
    valued: Callable[[Expr, int, exp.Expr], Expr],
) -> list[list[Callable[[], Any]]]:
    """The rows of VALUES as functions, which return the values of slots on execution."""

    def cell(item: exp.Expr, place: int) -> Callable[[], Any]:
        if is_default(item):
            return lambda: omitted_columns.NOT_GIVEN
        omitted_columns.refuse_given(sql, table, [place], item, source, source.notes.overriding)

        def constant(value: Expr) -> Any:
            found = valued(value, place, item)
            if not isinstance(found, Constant):
                raise Unfit
            return found.value

        if item.find(exp.Parameter) is not None:
            scalars.bind(item)
            return slots.cell(item, relation_of(table).columns[place].type, constant)
        fixed = constant(scalars.bind(item))
        return lambda: fixed

    rows = [row.expressions if isinstance(row, exp.Tuple) else [row] for row in node.expressions]
    for row, items in zip(node.expressions, rows, strict=True):
        check_width(len(items), table, at, row, source)
    return [[cell(item, place) for item, place in zip(items, at, strict=True)] for items in rows]


def check_width(given: int, table: Table, at: Sequence[int], node: exp.Expr, source: Source) -> None:
    if given != len(at):
        raise source.error(node, "E_WIDTH", f"{given} values for {len(at)} columns of {relation_of(table).label}")


Key = tuple[int, ...]
"""Positions of columns that are unique together."""


def _uniques(sql: Statements, table: Table) -> list[Key]:
    """The key, and further UNIQUE constraints."""
    rules = [r for r in sql.core.constraints.rules(relation_of(table).label) if r.kind == UNIQUE]
    return [k for k in (relation_of(table).key, *(places(table, r.columns) for r in rules)) if k]


def _conflict_key(sql: Statements, clause: exp.OnConflict, table: Table, source: Source) -> Key | None:
    """The unique columns of ON CONFLICT (columns) or ON CONSTRAINT name; None if unspecified."""
    columns = [o.this if isinstance(o, exp.Ordered) else o for o in clause.args.get("conflict_keys") or []]
    for ordered in clause.args.get("conflict_keys") or []:
        _check_unordered(ordered, source)
    uniques = _uniques(sql, table)
    named = clause.args.get("constraint")
    if named is not None:
        return _named_key(sql, named, table, source)
    if not columns:
        return None
    wanted = {p for column in columns for p in positions_of([column], table, source)}  # (x, x) is (x)
    for key in uniques:
        if set(key) == wanted:
            return key
    known = " or ".join(f"({', '.join(relation_of(table).columns[k].name for k in key)})" for key in uniques)
    hint = f"the key is {known}" if known else f"{relation_of(table).label} has no key"
    raise source.error(columns[0], "E_KEY", "these columns are not the key, so they can be there twice", hint)


def _check_unordered(key: exp.Expr, source: Source) -> None:
    """Refuse an order of the columns of ON CONFLICT: it would mean nothing."""
    if isinstance(key, exp.Ordered) and (
        key.args.get("desc") is not None or key.args.get("nulls_first") or key.args.get("with_fill")
    ):
        raise source.error(key, "E_SYNTAX", f"{key.this.name} has no order here", "ON CONFLICT (x, y)")
    consumed_parts.read(key)


def _named_key(sql: Statements, named: exp.Expr, table: Table, source: Source) -> Key:
    relation = relation_of(table)
    last = relation.label.rpartition(".")[2]
    if relation.key and named.name.lower() == f"{last}_pkey".lower():
        return relation.key
    rules = {r.name: r for r in sql.core.constraints.rules(relation.label) if r.kind == UNIQUE}
    exact = names.spelled(named.name, rules)
    if exact not in rules:
        what = f"{relation.label} has no unique constraint {named.name}"
        raise source.error(named, "E_NAME", what, did_you_mean(named.name, rules))
    return places(table, rules[exact].columns)


def _conflict(sql: Statements, node: exp.Insert, table: Table, source: Source) -> str | DoNothing | DoUpdate:
    """The action for an existing key: error, nothing, replace the row, or update it."""
    clause = node.args.get("conflict")
    if clause is None:
        return _alternative(sql, node, table, source)
    _check_set(source)
    action = clause.args.get("action")
    what = action.name.upper() if action is not None else ""
    key = _conflict_key(sql, clause, table, source)
    if "NOTHING" in what:
        return DoNothing([key] if key is not None else _uniques(sql, table))
    if "UPDATE" not in what:
        raise source.refuse(node, "ON CONFLICT is followed by DO NOTHING or DO UPDATE SET")
    sql.core.access.may("UPDATE", "relation", relation_of(table).label)
    sql.core.access.may_read(relation_of(table).label)  # what it sets may depend on the existing row
    settings = [pair for setting in clause.expressions for pair in settings_of(setting, source)]
    at = positions_of([column for column, _ in settings], table, source)
    by = key if key is not None else relation_of(table).key
    kept, unset = reset(sql, settings, at, table, source)
    new: dict[int, exp.Expr | None] = dict.fromkeys(unset)
    new.update(zip((p for p in at if p not in unset), (value for _, value in kept), strict=True))
    return DoUpdate(sql, node, table, by, source, new, lambda e, i, s: _fitted_value(e, table, i, s, source))


def _check_set(source: Source) -> None:
    """Refuse DO UPDATE without the word SET, which the parser does not miss."""
    words = [t.text.upper() for t in source.tokens]
    for i, token in enumerate(source.tokens[2:], start=2):
        if words[i - 2 : i] == ["DO", "UPDATE"] and words[i] != "SET":
            raise source.error_at(token.start, "E_SYNTAX", "SET is missing here", "DO UPDATE SET column = value")


def _alternative(sql: Statements, node: exp.Insert, table: Table, source: Source) -> str | DoNothing:
    """INSERT OR REPLACE, OR IGNORE, OR ABORT: SQLite's words for what to do about an existing key."""
    word = str(node.args.get("alternative") or "ABORT").upper()
    if word == "IGNORE":
        return DoNothing(_uniques(sql, table))
    if word not in ("REPLACE", "ABORT"):
        raise source.unread(node, "alternative")
    return "update" if word == "REPLACE" else "error"


def positions_of(columns: Sequence[exp.Expr], table: Table, source: Source) -> list[int]:
    """The positions of the named columns in the table; each can be assigned once."""
    have = [c.name for c in relation_of(table).columns]
    found: list[int] = []
    for column in columns:
        name = names.spelled(column.name, have)
        if name not in have:
            what = f"{relation_of(table).label} has no column {column.name}"
            raise source.error(column, "E_COLUMN", what, did_you_mean(column.name, have))
        if have.index(name) in found:
            raise source.error(column, "E_DUPLICATE", f"the column {name} is given two values")
        found.append(have.index(name))
    return found


def fitted(query: Query, table: Table, at: Sequence[int], node: exp.Expr, source: Source) -> Query:
    """The query's outputs with the types of the table's columns."""
    child = query.node
    given = child.exprs if isinstance(child, plan.Project) else joins.refs(child.types)
    exprs = [_fitted_value(given[i], table, position, node, source) for i, position in enumerate(at)]
    exprs += given[len(at) :]  # what RETURNING reads of joined tables
    below = child.child if isinstance(child, plan.Project) else child
    return Query(plan.Project(below, tuple(exprs)), query.names)


def _fitted_value(value: Expr, table: Table, position: int, at: exp.Expr, source: Source) -> Expr:
    """A value converted to the table's column."""
    column = relation_of(table).columns[position]
    return omitted_columns.fitted(value, column.type, at, source, f"{relation_of(table).label}.{column.name}")


def insert_rows(sql: Statements, table: Table, rows: list[Any], conflict: str) -> list[Any]:
    """Insert rows; return those that were inserted."""
    if relation_of(table).key and conflict != "update":
        if len(rows) == 1:
            return _insert_new(table, rows)
        rows = _new_keys(sql, table, rows)
    if rows:
        (table.upsert if conflict == "update" and relation_of(table).key else table.insert)(rows)
    return rows


_OTHERWISE = "UPDATE it, or INSERT OR REPLACE"


def _insert_new(table: Table, rows: list[Any]) -> list[Any]:
    """Insert one row, whose key must be new: the table finds out."""
    try:
        table.insert(rows)
    except InputError as error:
        if error.code == "E_KEY":
            error.hint = _OTHERWISE
        raise
    return rows


def _new_keys(sql: Statements, table: Table, rows: list[Any]) -> list[Any]:
    """Rows whose keys must be new."""
    relation = relation_of(table)
    codes = relation.codec.encode(rows)
    keys = [tuple(codes[k, i].item() for k in relation.key) for i in range(len(rows))]
    there = {tuple(r[k] for k in relation.key) for r in sql.core.transactions.present(table, keys)}
    for row, key in zip(rows, keys, strict=True):
        if key in there:
            shown = ", ".join(repr(row[k]) for k in relation.key)
            raise InputError("E_KEY", f"table {relation.label!r} already has a row with key {shown}", _OTHERWISE)
        there.add(key)
    return rows


def _found(
    sql: Statements,
    select: exp.Select,
    node: exp.Expr,
    source: Source,
    table: Table | None = None,
    assigned: Sequence[int] = (),
) -> Callable[[], Result]:
    """The SELECT with the statement's WHERE, its columns as those of the table and the assigned ones."""
    where = node.args.get("where")
    if where is not None:
        select.set("where", where)
    query, compiler = sql.bound(select, source, change=node)
    if table is not None:
        query = fitted(query, table, [*range(len(relation_of(table).columns)), *assigned], node, source)
    slots = slots_of(sql)
    if slots is None:
        return lambda: sql.answer(query, compiler)
    if compiler.clock_read:  # by a policy: the next execution is later
        raise Unfit
    slots.queries.append(query)
    return lambda: sql.answer(slots.filled(query), compiler)
