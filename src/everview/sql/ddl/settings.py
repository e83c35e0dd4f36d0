"""Session settings about types: SET TIME ZONE, CREATE TYPE and DROP TYPE.

A type created by CREATE TYPE is a name for an enum's labels. Columns store the labels, not the name; the name is stored
in the catalog, so it survives reopening a directory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sqlglot import TokenType, exp

from everview.errors import did_you_mean
from everview.language.relation import relation_of
from everview.session.names.entries import TypeDropped, TypeMade
from everview.sql.ddl import schemas
from everview.sql.scalar import names
from everview.sql.scalar.zones import checked_zone
from everview.sql.text import keywords, statement_reader
from everview.sql.text.error_positions import Source
from everview.types import DataType, enum

if TYPE_CHECKING:
    from everview.sql.statements import Do, Statements


def set_zone(sql: Statements, statement: statement_reader.Statement) -> None:
    """SET TIME ZONE 'Europe/Oslo' | DEFAULT | LOCAL, SET timezone = 'Europe/Oslo'"""
    source = sql.placed(statement.source())
    words = [t for t in statement.tokens if t.token_type != TokenType.SEMICOLON]
    long = words[1].text.upper() in ("TIME", "TIME ZONE")
    rest = words[2:]
    if long and words[1].text.upper() == "TIME":
        if not rest or rest[0].text.upper() != "ZONE":
            found = rest[0] if rest else words[1]
            hint = keywords.did_you_mean(found.text, ("ZONE",)) or "SET TIME ZONE 'UTC'"
            raise source.error_at(found.start, "E_SYNTAX", "SET TIME is followed by ZONE", hint)
        rest = rest[1:]
    elif not long:
        if not rest or rest[0].text.upper() not in ("=", "TO"):
            raise source.error_at(words[1].start, "E_SYNTAX", "SET timezone is followed by =", "SET timezone = 'UTC'")
        rest = rest[1:]
    if len(rest) != 1:
        raise source.error_at(words[-1].start, "E_SYNTAX", "a time zone is one text", "SET TIME ZONE 'Europe/Oslo'")
    name = rest[0].text
    if rest[0].token_type != TokenType.STRING and name.upper() in ("DEFAULT", "LOCAL"):
        name = "UTC"
    try:
        sql.core.zone = checked_zone(name, exp.Null(), source)
    except Exception:
        hint = "names are those of the IANA: 'Europe/Oslo', 'UTC'"
        raise source.error_at(rest[0].start, "E_TYPE", f"there is no time zone {name!r}", hint) from None
    if sql.core.zone.upper() == "UTC":
        sql.core.zone = "UTC"


def create_type(sql: Statements, node: exp.Create, source: Source) -> Do:
    """CREATE TYPE name AS ENUM ('a', 'b'), CREATE TYPE name AS (x int, y text)"""
    name = schemas.new_name(sql, node.this.this if isinstance(node.this, exp.Schema) else node.this, source)
    if node.args.get("replace") or node.args.get("exists"):
        raise source.refuse(node, "CREATE TYPE makes a new type", "DROP TYPE IF EXISTS first")
    if names.spelled(name, [*sql.core.types, *sql.core.domains]) in (*sql.core.types, *sql.core.domains):
        raise source.error(node.this, "E_NAME", f"the type {name} is there already", "choose another name, or DROP it")
    made = _struct(node.expression, source) if isinstance(node.expression, exp.Schema) else _enum(node, source)

    def do() -> None:
        sql.core.definitions.remarks.add(TypeMade(name, made))

    return do


def _struct(body: exp.Schema, source: Source) -> DataType:
    """AS (street text, city text): rows of named values"""
    fields = body.expressions
    for each in fields:
        if not isinstance(each, exp.ColumnDef) or each.kind is None or each.args.get("constraints"):
            raise source.refuse(each, "a type is made of names and types", "CREATE TYPE name AS (x int, y text)")
    return names.data_type(exp.DataType(this=exp.DataType.Type.STRUCT, expressions=fields, nested=True), source)


def _enum(node: exp.Create, source: Source) -> DataType:
    body = node.expression
    if not isinstance(body, exp.DataType) or body.this != exp.DataType.Type.ENUM:
        raise source.refuse(node, "CREATE TYPE makes enums and rows", "CREATE TYPE name AS ENUM ('a', 'b')")
    labels = [e.name for e in body.expressions if isinstance(e, exp.Literal) and e.is_string]
    if not labels or len(labels) < len(body.expressions):
        raise source.error(body, "E_TYPE", "an enum is a list of quoted labels", "ENUM ('a', 'b')")
    if len({*labels}) < len(labels):
        raise source.error(body, "E_DUPLICATE", "two labels of the enum are equal")
    return enum(*labels)


def drop_type(sql: Statements, node: exp.Drop, source: Source) -> Do:
    """DROP TYPE [IF EXISTS] name; a type in use cannot be dropped"""
    if node.args.get("cascade"):
        raise source.refuse(node, "DROP TYPE ... CASCADE is not supported", "drop the tables first")
    found: list[str] = []
    optional = bool(node.args.get("exists"))
    for target in node.args.get("tables") or [node.this]:
        name = schemas.found(sql.core, schemas.written(target), sql.core.types)
        if name in sql.core.types:
            used = next(_users(sql, sql.core.types[name]), None)
            if used is not None:
                raise source.error(target, "E_IN_USE", f"the table {used} has values of {name}", "drop the table first")
            found.append(name)
        elif not optional:
            hint = did_you_mean(name, sql.core.types)
            raise source.error(target, "E_TYPE", f"there is no type {name}", hint)

    def do() -> None:
        for name in found:
            sql.core.definitions.remarks.add(TypeDropped(name))

    return do


def _users(sql: Statements, wanted: DataType) -> Iterator[str]:
    """Tables that have columns of a type, at any depth."""
    for name in sql.session.tables:
        todo = [c.type for c in relation_of(sql.core.catalog.tables[name]).columns]
        while todo:
            each = todo.pop()
            todo += each.items
            if each.optional(False) == wanted:
                yield name
                break
