"""CREATE DOMAIN and DROP DOMAIN; `domains` says what a domain is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from everview.errors import did_you_mean
from everview.session.names.entries import TypeDropped, TypeMade
from everview.sql.ddl import declarations, domains, schemas
from everview.sql.text.error_positions import Source
from everview.sql.text.statement_reader import Statement
from everview.sql.text.token_reader import Words

if TYPE_CHECKING:
    from everview.sql.statements import Statements

HINT = "CREATE DOMAIN name AS type [DEFAULT x] [NOT NULL] [CHECK (VALUE > 0)]"

_KINDS = (
    exp.CheckColumnConstraint,
    exp.NotNullColumnConstraint,
    exp.DefaultColumnConstraint,
    exp.CollateColumnConstraint,
)


def create(sql: Statements, statement: Statement) -> None:
    """CREATE DOMAIN name [AS] type [DEFAULT x] [NOT NULL] [CHECK (...)]; CREATE TYPE name AS type, in Feldera's SQL"""
    sql.refuse_in_transaction(None, statement.source())
    words = Words(statement)
    words.need("CREATE")
    words.choose("DOMAIN", "TYPE")
    target = _target(words)
    source = sql.placed(statement.source())
    name = schemas.new_name(sql, target, source)
    if name in (*sql.core.types, *sql.core.domains):
        raise words.error(f"the type {name} is there already", "choose another name, or DROP it", "E_NAME")
    words.next_is("AS")
    if words.at >= len(words.tokens):
        raise words.error("a domain has a type", HINT)
    rules = statement.text[words.tokens[words.at].start : words.tokens[-1].end + 1]
    column = domains.column(rules)
    if column is None or any(not isinstance(c.kind, _KINDS) for c in column.args.get("constraints") or []):
        raise words.error("a domain is a type with DEFAULT, NOT NULL and CHECK", HINT)
    table = sql.placed(Source(f"CREATE TABLE d (value {rules})"))
    column.set("this", exp.to_identifier("value"))
    declared = declarations.Reading(sql, name, table).read([column], column)
    sql.core.definitions.remarks.add(TypeMade(name, declared.schema["value"], rules))


def is_alias(statement: Statement) -> bool:
    """Whether a CREATE TYPE gives another type a name: CREATE TYPE id AS text."""
    after = [t.text.upper() for t in statement.tokens[2:]]
    at = after.index("AS") + 1 if "AS" in after else 0
    return at in (2, 4) and after[at : at + 1] not in ([], ["("], ["ENUM"], ["RANGE"], ["LIST"], ["MAP"])


def drop(sql: Statements, statement: Statement) -> None:
    """DROP DOMAIN [IF EXISTS] name: columns keep what it said"""
    sql.refuse_in_transaction(None, statement.source())
    words = Words(statement)
    words.need("DROP", "DOMAIN")
    optional = words.next_is("IF", "EXISTS")
    target = _target(words)
    name = schemas.found(sql.core, schemas.written(target), sql.core.domains)
    if not words.next_is("CASCADE"):
        words.next_is("RESTRICT")
    words.end()
    if name in sql.core.domains:
        sql.core.definitions.remarks.add(TypeDropped(name))
    elif not optional:
        raise words.error(f"there is no domain {name}", did_you_mean(name, sql.core.domains), "E_TYPE")


def _target(words: Words) -> exp.Table:
    """name, or schema.name"""
    schema, _, name = words.name("the domain's name").rpartition(".")
    return exp.table_(name, db=schema or None)
