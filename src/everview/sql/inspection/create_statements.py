"""SHOW CREATE: the statement that makes a table or a view again.

A table's is composed of what the catalog knows of it: ALTER TABLE and renaming change that, so it is never out of date.

A view is a plan, of which no text could be made that its author would know. Its text is therefore kept as it was
written (`Relation.text`), from its name on; the name is the view's of today. What it reads may have been renamed or
replaced since. So it is bound before it is shown, and refused unless it means what the view is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sqlglot import exp

from everview.codes.codec import Codec
from everview.codes.limits import in_plans
from everview.errors import EverviewError, InputError
from everview.expr import functions
from everview.expr.library.strings import quote_ident, quote_literal
from everview.expr.nodes import Call, Expr, Literal
from everview.language.relation import relation_of
from everview.plan import nodes as plan
from everview.plan.explain import describe
from everview.session.changes.defaults import ALWAYS, DEFAULT, IDENTITY_ALWAYS, Missing
from everview.session.clock.lifetimes import ArrivalTTL, RowTTL
from everview.session.clock.watermarks import Watermark
from everview.session.names.constraint_rules import shown
from everview.sql.answers.result import Result
from everview.sql.ddl import definitions
from everview.sql.scalar.scalars import Scalars
from everview.sql.scalar.type_names import sql_name
from everview.sql.select.compiler import Compiler
from everview.sql.select.scopes import Field, Relation, Scope
from everview.sql.text import consumed_parts, keywords, statement_reader
from everview.sql.text.error_positions import Source
from everview.sql.text.token_reader import Words, relation
from everview.types import STR, TIMESTAMP, DataType

if TYPE_CHECKING:
    from everview.language.collection import Collection
    from everview.session.names.catalog import Catalog
    from everview.session.table import Table
    from everview.session.view import View
    from everview.sql.statements import Statements


def show_create(sql: Statements, words: Words) -> Result:
    """SHOW CREATE TABLE t | [MATERIALIZED] VIEW v | SOURCE t, of which CREATE is read already."""
    kind = words.choose("VIEW") if words.next_is("MATERIALIZED") else words.choose("TABLE", "VIEW", "SOURCE")
    at = words.at
    name = relation(sql, words)
    words.end()
    words.at = at
    is_view = name in sql.session.views
    if is_view != (kind == "VIEW"):
        other = "VIEW" if is_view else "TABLE"
        raise words.error(f"there is no {kind.lower()} {name}", f"SHOW CREATE {other} {name}", "E_TABLE")
    sql.core.access.may_own("relation", name)  # its conditions may tell of rows that others do not see
    try:
        text = _view(sql, name) if is_view else _table(sql, name)
    except InputError as error:
        raise words.error(error.message, error.hint, error.code) from None
    codec = Codec((STR, STR), ("name", "create_sql"), sql.core.interner)
    return Result(codec, codec.encode_rows([(name, text)]))


def written_name(name: str) -> str:
    """A name as SQL writes it, with its schema if it has one.

    >>> written_name("s.My table"), written_name("order")
    ('s."My table"', '"order"')
    """
    parts = name.split(".")
    return ".".join(f'"{p}"' if p.upper() in keywords.KEYWORDS else quote_ident(p) for p in parts)


# views


def _view(sql: Statements, name: str) -> str:
    text = relation_of(relation_of(sql.core.catalog.views[name]).source).text
    if not text:
        hint = f"EXPLAIN {written_name(name)} shows its plan"
        raise InputError("E_UNSUPPORTED", f"{name} was not made by a CREATE VIEW of which the text is kept", hint)
    dialect, before, behind = text
    end = "\n" if "--" in behind.rpartition("\n")[2] else ""  # what follows must not be part of a comment
    statement = f"CREATE {before} {written_name(name)}{behind}{end}"
    if not _still_means(sql, name, statement, dialect):
        what = f"{name} is not what its text says any more: something that it reads was renamed, altered or replaced"
        raise InputError("E_UNSUPPORTED", what, f"EXPLAIN {written_name(name)} shows its plan")
    if dialect == sql.dialect:
        return statement
    return f"SET dialect = '{dialect}';\n{statement};\nSET dialect = '{sql.dialect}'"


def _still_means(sql: Statements, name: str, text: str, dialect: str) -> bool:
    """Whether a CREATE VIEW, executed now, would make what the view is."""
    core = sql.core
    try:
        [statement] = statement_reader.statements(text, lambda: dialect)
        source = sql.placed(statement.source())
        node = statement_reader.parsed(source)
        assert isinstance(node, exp.Create) and node.args.get("kind") == "VIEW"
        consumed_parts.understood(node.this.this if isinstance(node.this, exp.Schema) else node.this)
        found, _ = consumed_parts.whole(node, source, lambda: definitions.meant(sql, node, source))
        same = _is_same(core.catalog, core.catalog.views[name], found)
    except EverviewError:
        return False
    finally:
        if core.clock.unused():
            core.definitions.collect()
    return same


def _is_same(catalog: Catalog, view: View, found: Collection) -> bool:
    """Whether a collection is what a view was made of. A directory keeps a digest of that."""
    if catalog.entry_log is not None:
        return catalog.defines(view, found)
    made, new = relation_of(relation_of(view).source), relation_of(found)
    return (made.meaning or made.node) == (new.meaning or new.node)


# tables


def _table(sql: Statements, name: str) -> str:
    table = sql.core.catalog.tables[name]
    items = [*_columns(sql, table), *_constraints(sql, table)]
    lines, lives = _of_the_clock(sql, table)
    comment = sql.core.catalog.comments.get((name, ""))
    end = f" COMMENT {quote_literal(comment)}" if comment else ""
    listed = ",\n  ".join([*items, *lines])
    return f"CREATE TABLE {written_name(name)} (\n  {listed}\n){end}{lives}"


def _columns(sql: Statements, table: Table) -> Iterator[str]:
    label = relation_of(table).label
    missing = sql.core.defaults.of(table)
    for column in relation_of(table).columns:
        text = f"{written_name(column.name)} {_type(sql, table, column.name)}"
        if not column.type.nullable:
            text += " NOT NULL"
        if column.name in missing and not _is_serial(sql, table, column.name):
            text += _default(sql, missing[column.name])
        comment = sql.core.catalog.comments.get((label, column.name))
        yield text + (f" COMMENT {quote_literal(comment)}" if comment else "")


def _type(sql: Statements, table: Table, column: str) -> str:
    kind = table.schema()[column]
    if not _is_serial(sql, table, column):
        return _type_name(sql, kind)
    return {16: "smallserial", 32: "serial"}.get(kind.width, "bigserial")


def _type_name(sql: Statements, declared: DataType) -> str:
    """A type by its name, if it was created; only so can enums be declared."""
    if declared.kind == "array":
        return f"{_type_name(sql, declared.items[0])}[]"
    named = (name for name, made in sql.core.types.items() if made.optional() == declared.optional())
    return next(map(written_name, named), sql_name(declared))


def _is_serial(sql: Statements, table: Table, column: str) -> bool:
    """Whether a column's numbers come from a sequence of its own, made by `serial`."""
    found = sql.core.defaults.of(table).get(column)
    label = relation_of(table).label
    return found is not None and found.kind == DEFAULT and any(
        s.owner == (label, column) and found.text == f"nextval('{name}')"
        for name, s in sql.core.catalog.sequences.items()
    )  # fmt: skip


def _default(sql: Statements, missing: Missing) -> str:
    if missing.kind == DEFAULT:
        return f" DEFAULT {missing.text}"
    if missing.kind == ALWAYS:
        return f" GENERATED ALWAYS AS ({missing.text}) STORED"
    made = sql.core.catalog.sequences[missing.text]
    options = f"START WITH {made.start} INCREMENT BY {made.step} MINVALUE {made.least} MAXVALUE {made.most}"
    when = "ALWAYS" if missing.kind == IDENTITY_ALWAYS else "BY DEFAULT"
    return f" GENERATED {when} AS IDENTITY ({options}{' CYCLE' if made.cycle else ''})"


def _constraints(sql: Statements, table: Table) -> Iterator[str]:
    said = relation_of(table)
    computed = {f"{said.label}_{c}_generated" for c, m in sql.core.defaults.of(table).items() if m.kind == ALWAYS}
    if said.key:
        yield f"PRIMARY KEY ({_listed(said.columns[k].name for k in said.key)})"
    for rule in sql.core.constraints.rules(said.label):
        if rule.name in computed:
            continue
        if rule.kind == "check":
            text = f"CHECK ({shown(rule.text)})"
        elif rule.kind == "unique":
            text = f"UNIQUE ({_listed(rule.columns)})"
        else:
            there = f"{written_name(rule.other)} ({_listed(rule.other_columns)})"
            text = f"FOREIGN KEY ({_listed(rule.columns)}) REFERENCES {there}"
            text += "".join(
                f" ON {when} {action.upper()}"
                for when, action in (("DELETE", rule.on_delete), ("UPDATE", rule.on_update))
                if action != "no action"
            )
            text += " DEFERRABLE INITIALLY DEFERRED" if rule.deferred else ""
        yield f"CONSTRAINT {written_name(rule.name)} {text}"


def _listed(names: Iterator[str] | tuple[str, ...]) -> str:
    return ", ".join(map(written_name, names))


def _of_the_clock(sql: Statements, table: Table) -> tuple[list[str], str]:
    """WATERMARK and TTL."""
    marks: list[str] = []
    lives = ""
    for follower in sql.core.clock.agenda.of(table):
        if isinstance(follower, Watermark):
            time, mark = (_expression(sql, table, e) for e in (follower.time, follower.mark))
            marks.append(f"WATERMARK FOR {time} AS {mark}")
        elif isinstance(follower, RowTTL):
            lives = f" TTL {_expression(sql, table, follower.until)}"
        elif isinstance(follower, ArrivalTTL) and follower.owner:
            lives = f" TTL {_interval(follower.size)}"
    return marks, lives


def _text(wanted: Expr, names: list[str]) -> str:
    match wanted:
        case Call(op="timestamp_add", args=(moment, Literal(value=int(size)))):
            return f"{_text(moment, names)} {'-' if size < 0 else '+'} {_interval(abs(size))}"
    return describe(wanted, names)


def _interval(size: int) -> str:
    """Some microseconds as an interval.

    >>> _interval(300_000_000), _interval(1_500_000)
    ("INTERVAL '5 minutes'", "INTERVAL '1500 milliseconds'")
    """
    units = {"days": 86_400_000_000, "hours": 3_600_000_000, "minutes": 60_000_000, "seconds": 1_000_000,
             "milliseconds": 1_000, "microseconds": 1}  # fmt: skip
    unit = next(u for u, length in units.items() if size % length == 0)
    return f"INTERVAL '{size // units[unit]} {unit}'"


def _expression(sql: Statements, table: Table, wanted: Expr) -> str:
    """An expression of the columns as SQL, which is read again to see that it is the same."""
    columns = relation_of(table).columns
    text = _text(wanted, [written_name(c.name) for c in columns])
    try:
        source = Source(f"SELECT {text}")
        select = statement_reader.parsed(source)
        types = tuple(in_plans(c.type) for c in columns)
        scope = Scope(Relation(plan.Table(-1, types), tuple(Field(c.name) for c in columns)), source)
        read = Scalars(Compiler(sql.session, source, standing=True), scope, {}).bind(select.expressions[0])
        same = functions.cast(read, TIMESTAMP) == wanted
    except EverviewError:
        same = False
    if not same:
        what = f"{relation_of(table).label} has a watermark or a time to live that cannot be written as SQL"
        raise InputError("E_UNSUPPORTED", what, f"it is computed by {text}")
    return text
