"""CREATE TABLE, CREATE VIEW and DROP.

A view is stored with its query's plan. If the order of joins was chosen by current table sizes, the plan in textual
order is stored beside it (`Relation.meaning`): that one decides later whether a view declared again is the same.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from everview.codes.limits import in_plans
from everview.errors import InputError, PlanError, did_you_mean
from everview.expr import functions
from everview.expr.nodes import Expr
from everview.language.collection import Collection
from everview.language.relation import relation_of
from everview.plan import joins
from everview.plan import nodes as plan
from everview.plan.multiway import Choice
from everview.session.clock.lifetimes import RowTTL
from everview.session.clock.watermarks import Watermark
from everview.session.core import core_of
from everview.session.table import Table
from everview.session.view import View
from everview.sql.clock import watermarks
from everview.sql.ddl import options, schemas, sequences, settings, sql_functions, watermark
from everview.sql.ddl.create_table_as import create_filled, filled_rows
from everview.sql.ddl.declarations import Declared, Reading
from everview.sql.scalar import constants
from everview.sql.scalar.names import output_name
from everview.sql.scalar.scalars import Scalars
from everview.sql.scalar.type_names import in_words
from everview.sql.select import join_plans
from everview.sql.select.compiler import Compiler
from everview.sql.select.scopes import Field, Relation, Scope
from everview.sql.text import consumed_parts, statement_reader
from everview.sql.text.error_positions import Source
from everview.types import TIMESTAMP

if TYPE_CHECKING:
    from everview.session.core import Core
    from everview.session.session import Session
    from everview.sql.statements import Do, Statements


def create(sql: Statements, node: exp.Create, source: Source) -> Do:
    """CREATE TABLE and CREATE [MATERIALIZED] VIEW."""
    sql.refuse_in_transaction(node, source)
    kind = str(node.args.get("kind")).upper()
    if kind == "TYPE":
        return settings.create_type(sql, node, source)
    if kind == "SCHEMA" or (kind == "DATABASE" and source.dialect in schemas.DATABASES):
        return schemas.create(sql, node, source)
    if kind == "SEQUENCE":
        return sequences.create(sql, node, source)
    if kind not in ("TABLE", "VIEW"):
        raise source.refuse(node, f"CREATE {kind} is not supported", "there are tables, views and schemas")
    _check_temporary(sql, node, source)
    target = node.this.this if isinstance(node.this, exp.Schema) else node.this
    name = _new_name(sql, target, node, source)
    make = _create_table if kind == "TABLE" else create_view
    do = make(sql, name or target.name, node, source)
    return do if name is not None else lambda: sql.session[schemas.new_name(sql, target, source)]


def _check_temporary(sql: Statements, node: exp.Create, source: Source) -> None:
    """TEMPORARY is a no-op in an in-memory session. In a directory, and on a server, whose tables all connections see,
    it is refused.
    """
    properties = node.args.get("properties")
    for item in properties.expressions if properties is not None else []:
        if isinstance(item, exp.UnloggedProperty):
            consumed_parts.understood(item)
        if not isinstance(item, exp.TemporaryProperty):
            continue
        consumed_parts.understood(item)
        if sql.core.catalog.entry_log is not None:
            what = "TEMPORARY is not supported where a directory keeps everything"
            raise source.refuse(item, what, "leave it out and DROP it, or use a session in memory: connect()")
        if sql.core.attached.get("sql") is not sql:
            what = "TEMPORARY is not supported here: all connections see the same tables"
            raise source.refuse(item, what, "leave it out and DROP it")


def _said(node: exp.Create) -> list[exp.Expr]:
    """Properties with a meaning for the new object."""
    properties = node.args.get("properties")
    listed = properties.expressions if properties is not None else []
    return [p for p in listed if not isinstance(p, (exp.TemporaryProperty, exp.UnloggedProperty))]


def _new_name(sql: Statements, target: exp.Table, node: exp.Create, source: Source) -> str | None:
    """The name to create; None if it exists and IF NOT EXISTS allows that."""
    name = schemas.new_name(sql, target, source)
    optional, replaced = bool(node.args.get("exists")), bool(node.args.get("replace"))
    if replaced and optional:
        raise source.error(node, "E_SYNTAX", "OR REPLACE and IF NOT EXISTS do not go together", "leave one of them out")
    if name in sql.session:
        if optional:
            source.notes.skipped.append(f"{name} already exists: it is left as it is")
            return None
        is_view = str(node.args.get("kind")).upper() == "VIEW"
        replaced = replaced and name in (sql.session.views if is_view else sql.session.tables)
        if not replaced and not sql.core.access.redeclares(name):
            raise source.error(target, "E_NAME", f"the name {name} is taken", "choose another, or DROP it first")
    return name


def select_into(sql: Statements, node: exp.Select, source: Source) -> Do:
    """SELECT ... INTO t FROM ...: CREATE TABLE t AS SELECT ..."""
    into = node.args["into"]
    if into.args.get("temporary") or into.args.get("unlogged") or into.args.get("bulk_collect"):
        raise source.refuse(into, "INTO is followed by a table's name here", "CREATE TEMP TABLE t AS SELECT ...")
    into.meta["is_made"] = True
    return create(sql, exp.Create(this=into.this, kind="TABLE", expression=node), source)


def define(sql: Statements, node: exp.Expr, source: Source) -> Do:
    """WITH RECURSIVE a AS (...), b AS (...) without a query: views a and b; the last one is the result."""
    sql.refuse_in_transaction(node, source)
    clause = node.args["with_"]
    consumed_parts.understood(node.expressions[0])  # the query that stands for the missing one
    for cte in clause.expressions:
        name = sql.spelled(cte.alias)
        if name in sql.session and not sql.core.access.redeclares(name):
            raise source.error(cte.args["alias"], "E_NAME", f"the name {name} is taken", "choose another, or DROP it")
    made = [_defined(sql, cte.alias, clause, source) for cte in clause.expressions]
    return lambda: [do() for do in made][-1]


def _defined(sql: Statements, name: str, clause: exp.With, source: Source) -> Do:
    query = exp.Select(expressions=[exp.Star()], from_=exp.From(this=exp.to_table(name)), with_=clause)
    return create_view(sql, name, exp.Create(this=exp.to_table(name), expression=query), source)


def _second(node: exp.Create, name: str) -> exp.Expr | None:
    """Where a name is given to a view's column for the second time; None if a * does."""
    listed = node.this.expressions if isinstance(node.this, exp.Schema) else None
    query = node.expression
    named = [(e, e.name) for e in listed] if listed else []
    if not listed and isinstance(query, exp.Select):
        named = [(e, output_name(e, i)) for i, e in enumerate(query.expressions)]
    found = [e for e, own in named if own == name]
    return found[1] if len(found) > 1 else None


def create_view(sql: Statements, name: str, node: exp.Create, source: Source) -> Do:
    """Install the query of a CREATE VIEW under a name."""
    collection, how = meant(sql, node, source)
    if sql.parameters is None:
        relation_of(collection).text = _text_of_view(sql, source)
    if name in sql.session.views and node.args.get("replace"):
        return lambda: _replaced(sql.session, name, collection, how)
    return lambda: sql.session.view(name, collection, plan=how)


_BEFORE_NAMES = ("MATERIALIZED", "RECURSIVE", "VIEW")


def _text_of_view(sql: Statements, source: Source) -> tuple[str, ...]:
    """What is kept of the text of a CREATE VIEW: the dialect, the words before its name, and all that is behind it."""
    words = [t.text.upper() for t in source.tokens]
    at = words.index("VIEW") + 1 if words[:1] == ["CREATE"] and "VIEW" in words else 0
    at += 3 if words[at : at + 3] == ["IF", "NOT", "EXISTS"] else 0
    while words[at + 1 : at + 2] == ["."]:
        at += 2
    if not at:
        return ()
    written = source.shown or source.text
    first, end = written[: source.tokens[at].start].upper().split(), source.tokens[at].end + 1
    return source.dialect, " ".join(w for w in first if w in _BEFORE_NAMES), written[end:].rstrip().rstrip(";")


def meant(sql: Statements, node: exp.Create, source: Source) -> tuple[Collection, Choice | None]:
    """What the query of a CREATE VIEW means, and how its joins are maintained."""
    if not isinstance(node.expression, statement_reader.QUERIES):
        raise source.refuse(node, "CREATE VIEW name AS is followed by a query")
    refuse_properties(node, source)
    written = node.expression.copy() if node.expression.find(exp.Join) else None  # only joins are ordered by size
    query, compiler = sql.bound(node.expression, source, standing=True)
    columns = list(query.names)
    if isinstance(node.this, exp.Schema):
        given = [e.name for e in node.this.expressions]
        if len(given) != len(columns):
            raise source.error(
                node.this, "E_WIDTH", f"the view has {len(columns)} columns, {len(given)} names are given"
            )
        columns = given
    for column in columns:
        if columns.count(column) > 1:
            at = _second(node, column) or node.expression
            raise source.error(at, "E_DUPLICATE", f"two columns of the view are called {column}", "name them with AS")
    if source.notes.emit_at is not None and not compiler.emitted:
        raise source.error_at(
            source.notes.emit_at,
            "E_UNSUPPORTED",
            "EMIT ON WINDOW CLOSE needs a window in FROM, or a table with a watermark",
            "FROM TUMBLE(t, ts, INTERVAL '1 minute')",
        )
    if source.notes.emit_at is not None and source.notes.emits_rows and not watermarks.told_once(compiler, query.node):
        raise source.error_at(
            source.notes.emit_at,
            "E_UNSUPPORTED",
            "rows that the watermark has passed would change again in this query",
            "group by windows: FROM TUMBLE(t, ts, INTERVAL '1 minute'); OVER may look back by the watermark's column",
        )
    plain = joins.take(query.node, range(query.width))
    collection = sql.collection(compiler, plain, columns)
    if compiler.by_size and written is not None:
        compiler = Compiler(sql.session, source, standing=True)
        compiler.by_text = True
        relation_of(collection).meaning = joins.take(compiler.query(written, {}, None).node, range(query.width))
    how = sql.how_to_join(plain, source)
    relation_of(collection).calls = tuple(compiler.called)
    relation_of(collection).bound = dict(compiler.claims)
    relation_of(collection).plan_why = join_plans.why(how, sql.asked(source))
    return collection, how


def refuse_properties(node: exp.Create, source: Source) -> None:
    """All views are materialized; WITH (...) and the like are refused."""
    for item in options.passed_over(_said(node), source, "CREATE VIEW"):
        if not isinstance(item, exp.MaterializedProperty):
            raise source.refuse(item, f"{item.sql('postgres')} is not supported in CREATE VIEW")


def _replaced(session: Session, name: str, collection: Collection, how: Choice | None) -> View:
    """Replace a view. One found on opening stays if it is the same; if the new one cannot be built, the old one is
    restored, without its history.
    """
    core = core_of(session)
    old = core.catalog.views[name]
    if name in core.catalog.redeclarable and relation_of(old).plan == how:
        try:
            return session.view(name, collection, plan=how)
        except PlanError as error:
            if error.code != "E_NAME":
                raise
    old.drop()
    try:
        return session.view(name, collection, plan=how)
    except BaseException:
        index = [relation_of(old).columns[i].name for i in relation_of(old).index]
        session.view(name, relation_of(old).source, index_by=index, plan=relation_of(old).plan)
        raise


def _create_table(sql: Statements, name: str, node: exp.Create, source: Source) -> Do:
    listed = node.this.expressions if isinstance(node.this, exp.Schema) else []
    if isinstance(node.expression, statement_reader.QUERIES) and not any(isinstance(c, exp.ColumnDef) for c in listed):
        return create_filled(sql, name, node, source, _without(sql, name, node))
    like = next((p for p in _said(node) if isinstance(p, exp.LikeProperty)), None)
    filling = isinstance(node.expression, statement_reader.QUERIES)
    if (not listed and like is None) or (node.expression is not None and not filling):
        raise source.refuse(
            node, "CREATE TABLE lists its columns", "CREATE TABLE t (x int); then INSERT INTO t SELECT ..."
        )
    if like is not None and not listed:
        declared = Reading(sql, name, source).like_whole(like)
    else:
        declared = Reading(sql, name, source).read(listed, node.this)
    for item in _said(node):
        if isinstance(item, exp.SchemaCommentProperty):
            declared.comments[""] = item.this.name
            consumed_parts.understood(item)
    rows = filled_rows(sql, node, declared.schema, source) if filling else None
    if filling and node.args.get("replace") and (declared.key or not declared.plain):
        what = "a table that is replaced and filled at once has no keys and constraints"
        raise source.refuse(node, what, "CREATE OR REPLACE TABLE t (...); INSERT INTO t SELECT ...")
    away = _without(sql, name, node)
    schema, key = declared.schema, declared.key
    ttl = _ttl(sql, node, schema, source)
    note = source.notes.watermark
    marks = watermark.declared(sql.session, note, schema, source) if note is not None else None
    if source.notes.emit_at is not None:
        raise source.error_at(source.notes.emit_at, "E_UNSUPPORTED", "EMIT ON WINDOW CLOSE is for views")

    def do() -> Table:
        found = rows() if rows is not None else []  # before the old table is dropped, which they may read
        lives = ttl if not isinstance(ttl, Expr) else None
        with sql.core.catalog.together():
            away()
            there = name in sql.core.catalog.tables
            table = sql.session.table(name, schema, key=key or None, ttl=lives)
            try:
                _follow(sql.core, table, there, marks, ttl if isinstance(ttl, Expr) else None)
                _keep(sql, table, there, declared)
                if found and not there:
                    table.insert(found)
            except BaseException:
                if not there:
                    table.drop()
                raise
        return table

    return do


def _without(sql: Statements, name: str, node: exp.Create) -> Callable[[], None]:
    """The first step of CREATE OR REPLACE: drop the table, if nothing depends on it."""
    replaced = bool(node.args.get("replace"))

    def away() -> None:
        if replaced and name in sql.session.tables:
            sql.core.catalog.tables[name].drop()

    return away


def _keep(sql: Statements, table: Table, there: bool, declared: Declared) -> None:
    """Store the declarations of a table besides its columns; one found on opening has them already."""
    if not there:
        declared.keep(sql, table)
    elif declared.differs(sql):
        raise InputError(
            "E_SCHEMA",
            f"table {relation_of(table).label!r} exists with other constraints or defaults",
            "declare it as it was, ALTER it, drop it first, or choose another name",
        )


def _follow(core: Core, table: Table, there: bool, marks: tuple[Expr, Expr] | None, until: Expr | None) -> None:
    """Make a table drop late and expired rows. One found on opening does so already, if its declaration is
    unchanged.
    """
    if not there:
        if marks is not None:
            core.definitions.follow(Watermark(core, table, *marks))
        if until is not None:
            core.definitions.follow(RowTTL(core, table, until))
        return
    followers = core.clock.agenda.of(table)
    have = [(f.time, f.mark) for f in followers if isinstance(f, Watermark)]
    lives = [f.until for f in followers if isinstance(f, RowTTL)]
    if have != ([marks] if marks is not None else []) or lives != ([until] if until is not None else []):
        raise InputError(
            "E_SCHEMA",
            f"table {relation_of(table).label!r} exists with another watermark or time to live",
            "declare it as it was, drop it first, or choose another name",
        )


def columns_of(
    sql: Statements, name: str, columns: str, around: Source | None = None, table: Table | None = None
) -> Declared:
    """Parse a list of columns, as in CREATE TABLE; `around` is the surrounding text, `table` one that the columns are
    added to.
    """
    text = f"CREATE TABLE {name} {columns}"
    source = Source(text) if around is None else replace(around, text=text, known=None, shown="")
    listed = statement_reader.parsed(source).this
    if not isinstance(listed, exp.Schema):  # of a text with a bracket too many, say
        raise source.error_at(0, "E_SYNTAX", f"{columns} declares no column and no constraint")
    consumed_parts.understood(listed.this)
    label = name if table is None else relation_of(table).label
    return consumed_parts.whole(
        listed, source, lambda: Reading(sql, label, source, table).read(listed.expressions, listed)
    )


def _ttl(sql: Statements, node: exp.Create, schema: dict[str, Any], source: Source) -> Expr | dt.timedelta | None:
    """TTL INTERVAL '5 minutes' (since arrival) or TTL ts + INTERVAL '5 minutes' (by a time in the row)."""
    given = None
    for item in options.passed_over(_said(node), source, "CREATE TABLE"):
        if isinstance(item, (exp.SchemaCommentProperty, exp.LikeProperty)):
            continue
        if not isinstance(item, exp.MergeTreeTTL) or len(item.expressions) != 1:
            raise source.refuse(item, f"{item.sql('postgres')} is not supported in CREATE TABLE")
        given = item.expressions[0]
        given = given.this if isinstance(given, exp.MergeTreeTTLAction) else given
    if given is None:
        return None
    if isinstance(given, exp.Interval):
        months, microseconds = constants.interval(given, source)
        if months or microseconds <= 0:
            raise source.refuse(given, "a time to live is some days, hours, minutes or seconds")
        return dt.timedelta(microseconds=microseconds)
    relation = Relation(plan.Table(-1, tuple(map(in_plans, schema.values()))), tuple(map(Field, schema)))
    bound = Scalars(Compiler(sql.session, source, standing=True), Scope(relation, source), {}).bind(given)
    if bound.type.kind not in ("date", "timestamp", "timestamptz"):
        raise source.error(given, "E_TYPE", f"a time to live is an interval or a timestamp, not {in_words(bound.type)}")
    return functions.cast(bound, TIMESTAMP)


def drop(sql: Statements, node: exp.Drop, source: Source) -> Do:
    """DROP TABLE and DROP [MATERIALIZED] VIEW: all named objects, or none."""
    sql.refuse_in_transaction(node, source)
    kind = str(node.args.get("kind")).upper()
    if kind == "FUNCTION":
        return sql_functions.drop(sql, node, source)
    if kind == "TYPE":
        return settings.drop_type(sql, node, source)
    if kind == "SCHEMA" or (kind == "DATABASE" and source.dialect in schemas.DATABASES):
        return schemas.drop(sql, node, source)
    if kind == "SEQUENCE":
        return sequences.drop(sql, node, source)
    if kind not in ("TABLE", "VIEW"):
        raise source.refuse(node, f"DROP {kind} is not supported")
    there = sql.session.tables if kind == "TABLE" else sql.session.views
    found: list[str] = []
    optional, cascade = bool(node.args.get("exists")), bool(node.args.get("cascade"))
    for target in node.args.get("tables") or [node.this]:
        name = schemas.found(sql.core, schemas.written(target), there)
        if name in there:
            found.append(name)
        elif not optional:
            raise source.error(target, "E_TABLE", f"there is no {kind.lower()} {name}", did_you_mean(name, there))
        else:
            source.notes.skipped.append(f"there is no {kind.lower()} {name}: nothing is dropped")

    def do() -> None:
        for name in dict.fromkeys(found):
            if kind == "VIEW":
                sql.core.catalog.views[name].drop()
            else:
                sql.core.catalog.tables[name].drop(cascade=cascade)

    return do
