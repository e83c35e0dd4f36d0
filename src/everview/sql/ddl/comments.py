"""COMMENT ON: comments on tables, views and columns, shown by DESCRIBE."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everview.errors import did_you_mean
from everview.language.relation import relation_of
from everview.session.names.constraint_rules import UNIQUE
from everview.session.names.entries import Commented
from everview.sql.ddl import schemas
from everview.sql.scalar.names import spelled
from everview.sql.text import statement_reader
from everview.sql.text.token_reader import TEXTS, Words

if TYPE_CHECKING:
    from everview.sql.statements import Statements


def comment(sql: Statements, statement: statement_reader.Statement) -> None:
    """COMMENT ON TABLE t | [MATERIALIZED] VIEW v | COLUMN t.x IS 'text' | NULL; on others, it is not kept"""
    words = Words(statement)
    words.need("COMMENT")
    words.need("ON")
    if (other := next((o for o in OTHERS if words.next_is(o)), None)) is not None:
        return _of_other(sql, statement, words, other)
    kind = words.choose("VIEW") if words.next_is("MATERIALIZED") else words.choose("TABLE", "VIEW", "COLUMN")
    at = words.at
    written = words.name(f"the {kind.lower()}'s name")
    column = ""
    if kind == "COLUMN":
        written, _, column = written.rpartition(".")
        if not written:
            words.at = at
            raise words.error("a column is named with its table", f"COMMENT ON COLUMN table.{column} IS 'text'")
    name, column = _found(sql, words, kind, written, column, at)
    words.need("IS")
    text = "" if words.next_is("NULL") else words.take("a text in quotes, or NULL", *TEXTS)
    words.end()
    if not sql.dry and (text or (name, column) in sql.core.catalog.comments):
        sql.core.definitions.remarks.add(Commented(name, column, text))


OTHERS = ("SCHEMA", "EXTENSION", "INDEX", "TYPE", "DOMAIN", "SEQUENCE", "FUNCTION", "CONSTRAINT", "DATABASE", "ROLE",
          "AGGREGATE", "PROCEDURE", "TRIGGER", "POLICY", "COLLATION", "LANGUAGE")  # fmt: skip
"""What else dumps comment on."""


def _of_other(sql: Statements, statement: statement_reader.Statement, words: Words, kind: str) -> None:
    """A comment that is not kept, and says so: nothing here would show it."""
    at = words.at
    name = words.name(f"the {kind.lower()}'s name")
    there = _names(sql, kind)
    if there is not None and spelled(name.removeprefix("public."), there) not in there:
        words.at = at
        raise words.error(f"there is no {kind.lower()} {name}", did_you_mean(name, there), "E_NAME")
    words.brackets()
    if kind in ("CONSTRAINT", "TRIGGER", "POLICY"):
        words.need("ON")
        words.next_is("DOMAIN")
        words.name("the table's name")
    words.need("IS")
    if not words.next_is("NULL"):
        words.take("a text in quotes, or NULL", *TEXTS)
    words.end()
    statement.notes.notices.append(
        f"the comment on {kind.lower()} {name} is ignored: tables, views and columns have them"
    )


def _names(sql: Statements, kind: str) -> list[str] | None:
    """What there is of a kind; None where that is not known, and for users who must not try which there are."""
    catalog = sql.core.catalog
    if sql.core.access.acting() is not None:
        return None
    match kind:
        case "INDEX":
            unique = [r.name for name in catalog.tables for r in sql.core.constraints.rules(name) if r.kind == UNIQUE]
            keys = [f"{name}_pkey" for name, table in catalog.tables.items() if relation_of(table).key]
            return [*catalog.indexes(), *keys, *unique]
        case "TYPE" | "DOMAIN":
            return [*sql.core.types, *sql.core.domains]
        case "SEQUENCE":
            return [*catalog.sequences]
        case "SCHEMA":
            return [schemas.PUBLIC, *schemas.seen(sql.core)]
    return None


def _found(sql: Statements, words: Words, kind: str, written: str, column: str, at: int) -> tuple[str, str]:
    tables, views = sql.session.tables, sql.session.views
    there = tables if kind == "TABLE" else views if kind == "VIEW" else (*tables, *views)
    name = sql.spelled(written)
    end, words.at = words.at, at
    if name not in there:
        raise words.error(f"there is no {kind.lower()} {written}", did_you_mean(written, there), "E_TABLE")
    sql.core.access.may_own("relation", name)  # before an error lists its columns
    have = list(sql.session[name].schema())
    exact = spelled(column, have)
    if column and exact not in have:
        raise words.error(f"{name} has no column {column}", did_you_mean(column, have), "E_COLUMN")
    words.at = end
    return name, exact if column else ""
