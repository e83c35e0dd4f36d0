"""SHOW: objects and settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from everview.codes.codec import Codec
from everview.errors import did_you_mean
from everview.expr.library.regex_functions import like
from everview.language.relation import relation_of
from everview.sql.answers.result import Result
from everview.sql.ddl import no_ops, schemas
from everview.sql.inspection import create_statements, describe_statements
from everview.sql.text import statement_reader
from everview.sql.text.token_reader import TEXTS, Words, relation
from everview.types import STR

if TYPE_CHECKING:
    from everview.sql.statements import Statements

_LISTS = ("tables", "views", "schemas", "functions", "types")
_SETTINGS = ("plan", "dialect", "search_path", "timezone", "time zone")
_HINT = (
    "SHOW TABLES, VIEWS, SCHEMAS, INDEXES, WATERMARKS, FUNCTIONS, TYPES, COLUMNS FROM name, CREATE TABLE or VIEW name, "
    "plan, dialect, search_path or TIME ZONE"
)


def show(sql: Statements, statement: statement_reader.Statement) -> Result:
    """SHOW TABLES [FROM schema] [LIKE 'pattern'], CREATE VIEW name, COLUMNS FROM name, INDEXES [FROM name], plan"""
    said = statement_reader.respoken(statement)
    if said.notes.as_of is not None:
        at = statement.tokens[0].start
        raise statement.source().error_at(at, "E_UNSUPPORTED", "only a SELECT can be asked AS OF an earlier time")
    words = Words(said)
    rest = " ".join(t.text for t in words.tokens).lower()
    if not rest:
        at = statement.tokens[0].start
        raise statement.source().error_at(at, "E_SYNTAX", "what is to be shown is missing", _HINT)
    if rest in _SETTINGS:
        return sql.texts(rest.replace(" ", ""), [_setting(sql, rest)])
    if rest.startswith("materialized views"):
        del words.tokens[0]
        rest = rest.removeprefix("materialized ")
    if rest in no_ops.HOLDS:
        return sql.texts(rest, [no_ops.HOLDS[rest][0]])
    if words.next_is("CREATE"):
        return create_statements.show_create(sql, words)
    if words.next_is("COLUMNS") and (words.next_is("FROM") or words.next_is("IN")):
        name = relation(sql, words)
        return describe_statements.named(sql, name, _like(words))
    if rest == "watermarks":
        return describe_statements.watermarks(sql)
    words.at = 0
    if words.next_is("INDEXES") or words.next_is("INDEX"):
        of = _named(sql, words) if words.next_is("FROM") or words.next_is("ON") or words.next_is("IN") else None
        words.end()
        return _indexes(sql, of)
    word = words.tokens[0].text.lower() if words.tokens else ""
    if word not in _LISTS:
        words.at = 0
        known = [*_LISTS, *_SETTINGS, "indexes", "columns", "create", "materialized"]
        if word in ("columns", "materialized"):
            words.at = 1
            lacking = words.unknown("", "", ("FROM",) if word == "columns" else ("VIEWS",))
            words.at = min(1, len(words.tokens) - 1)
            raise words.error(f"there is no SHOW {rest}", lacking.hint or _HINT, "E_UNSUPPORTED")
        close = did_you_mean(word, known)
        raise words.error(f"there is no SHOW {rest}", close if "did you mean" in close else _HINT, "E_UNSUPPORTED")
    words.at = 1
    found = sorted(_list(sql, word))
    if word in ("tables", "views") and (words.next_is("FROM") or words.next_is("IN")):
        at = words.at
        schema = words.name("a schema").lower()
        there = [s.lower() for s in (schemas.PUBLIC, *schemas.seen(sql.core))]
        if schema not in there:
            words.at = at
            raise words.error(f"there is no schema {schema}", did_you_mean(schema, there), "E_NAME")
        found = [n for n in found if (n.rpartition(".")[0] or schemas.PUBLIC).lower() == schema]
    chosen = _like(words)
    return sql.texts(word[:-1], [n for n in found if chosen(n)])


def _like(words: Words) -> Callable[[str], bool]:
    """[NOT] LIKE 'pattern' at the end of a statement: which names it shows."""
    other = words.next_is("NOT", "LIKE")
    if not other and not words.next_is("LIKE"):
        words.end()
        return lambda name: True
    pattern = words.take("a pattern in quotes", *TEXTS)
    words.end()
    return lambda name: like(name, pattern) is not other


def _setting(sql: Statements, name: str) -> str:
    match name:
        case "plan":
            return sql.plan or "default"
        case "dialect":
            return sql.dialect
        case "search_path":
            return ", ".join(sql.core.search_path)
    return sql.core.zone


def _list(sql: Statements, what: str) -> list[str]:
    match what:
        case "tables":
            return list(sql.session.tables)
        case "views":
            return list(sql.session.views)
        case "schemas":
            return [schemas.PUBLIC, *schemas.seen(sql.core)]
        case "functions":
            every = [*sql.core.catalog.sql_functions, *sql.core.functions]
            return [f for f in every if sql.core.access.sees("function", f.lower())]
    return [*sql.core.types, *sql.core.domains]


def _named(sql: Statements, words: Words) -> str:
    name = relation(sql, words)
    words.end()
    return name


def _indexes(sql: Statements, of: str | None) -> Result:
    """The indexes that have names: what they are of, and by which columns."""
    codec = Codec((STR, STR, STR), ("index", "on", "columns"), sql.core.interner)
    rows = [
        (name, relation_of(one).label, ", ".join(relation_of(one).columns[k].name for k in index.keys))
        for name, (one, index) in sorted(sql.core.catalog.indexes().items())
        if (of is None or relation_of(one).label == of)
        and relation_of(one).label in sql.session
        and sql.core.access.shown(relation_of(one).label) is None
    ]
    return Result(codec, codec.encode_rows(rows))
