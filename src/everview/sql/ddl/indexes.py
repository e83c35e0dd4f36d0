"""CREATE INDEX and DROP INDEX: further arrangements of tables and views for look-ups.

    CREATE INDEX by_city ON person (city, name)

An index is a further arrangement of the rows, sorted by those columns and maintained by every transaction. `SELECT ...
WHERE city = 'Oslo'` uses it (`everview.sql.answers.lookups`), and views that join by the same columns share it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import TokenType

from everview.errors import did_you_mean
from everview.language.relation import relation_of
from everview.session.names.constraint_rules import UNIQUE, Rule
from everview.sql.ddl import declarations
from everview.sql.scalar.names import spelled
from everview.sql.text import statement_reader
from everview.sql.text.token_reader import Words, relation

if TYPE_CHECKING:
    from everview.sql.statements import Statements

METHODS = ("btree", "hash")
OTHER_METHODS = ("gin", "gist", "spgist", "brin", "rum", "bitmap")
"""Methods for questions that no index answers here; an index of equal values is made instead."""


def create(sql: Statements, statement: statement_reader.Statement) -> None:
    """CREATE INDEX [CONCURRENTLY] [IF NOT EXISTS] [name] ON t [USING btree] (x, y)"""
    words = Words(statement)
    words.need("CREATE")
    unique = words.next_is("UNIQUE")
    words.need("INDEX")
    sql.refuse_in_transaction(None, statement.source())
    words.next_is("CONCURRENTLY")
    optional = words.next_is("IF", "NOT", "EXISTS")
    at = words.at
    name = "" if words.next_is("ON") else words.name("the index's name")
    if name:
        words.need("ON")
    words.next_is("ONLY")
    of = relation(sql, words)
    ignored = _method(words)
    keys = _keys(words, of, list(sql.session[of].schema()), ignored, unique)
    for clause in ("INCLUDE", "DISTRIBUTED"):
        if words.next_is(clause) and (clause == "INCLUDE" or words.next_is("BY")):
            _keys(words, of, list(sql.session[of].schema()), ignored)
            ignored.append(clause)
    ignored += _storage(words)
    words.end()
    for clause in dict.fromkeys(ignored):
        statement.notes.notices.append(f"{clause} of CREATE INDEX is ignored: {_IGNORED.get(clause, _OF_VALUES)}")
    name = name or _name_of(sql, of, [list(sql.session[of].schema())[k] for k in keys])
    if name in sql.core.catalog.indexes():
        if optional:
            statement.notes.skipped.append(f"the index {name} already exists: it is left as it is")
            return
        words.at = at
        raise words.error(f"there is an index {name} already", "choose another name, or DROP it", "E_NAME")
    if sql.dry:
        return
    if unique:
        _unique(sql, words, of, name, keys)
    else:
        sql.core.definitions.indexes.make(sql.session[of], keys, name)


_OF_VALUES = "an index is of equal values here"

_IGNORED = {
    "INCLUDE": "an index finds whole rows here",
    "DISTRIBUTED": "an index finds whole rows here",
    "WITH": "it says how an index is stored",
    "TABLESPACE": "it says how an index is stored",
}
"""Why clauses change no answer."""


def _method(words: Words) -> list[str]:
    """USING btree; what of it is ignored."""
    if not words.next_is("USING"):
        return []
    method = words.take("a method").lower()
    if method in METHODS:
        return []
    if method in OTHER_METHODS:
        return [f"USING {method}"]
    words.at -= 1
    raise words.error("there is no such method of indexing", "leave USING out", "E_UNSUPPORTED")


def _storage(words: Words) -> list[str]:
    """WITH (fillfactor = 70) TABLESPACE fast: how an index is stored."""
    found: list[str] = []
    if words.next_is("WITH"):
        if not words.brackets():
            raise words.error("options in brackets are missing here", "WITH (fillfactor = 70)")
        found.append("WITH")
    if words.next_is("TABLESPACE"):
        words.name("a tablespace")
        found.append("TABLESPACE")
    if words.is_word("WHERE"):
        raise words.error("an index is of all rows", "index a view with that WHERE", "E_UNSUPPORTED")
    return found


def _unique(sql: Statements, words: Words, of: str, name: str, keys: tuple[int, ...]) -> None:
    """A UNIQUE index is a constraint of its table."""
    table = sql.core.catalog.tables.get(of)
    if table is None:
        raise words.error(f"{of} is a view: what is unique in it is so or not", "CREATE INDEX", "E_UNSUPPORTED")
    columns = tuple(relation_of(table).columns[k].name for k in keys)
    declarations.add(sql, table, declarations.Wanted(Rule(name, UNIQUE, of, columns)))


def _keys(words: Words, of: str, have: list[str], ignored: list[str], unique: bool = False) -> tuple[int, ...]:
    """(x, y DESC, ...): the columns' positions; the order does not matter for look-ups. What is ignored is noted."""
    words.need("(")
    keys: list[int] = []
    while True:
        at = words.at
        if words.is_next(TokenType.L_PAREN):
            raise words.error(_BY_COLUMNS, _HINT, "E_UNSUPPORTED")
        column = words.name("a column")
        exact = spelled(column, have)
        if words.is_next(TokenType.L_PAREN):
            words.at = at
            raise words.error(_BY_COLUMNS, _HINT, "E_UNSUPPORTED")
        if exact not in have:
            words.at = at
            raise words.error(f"{of} has no column {column}", did_you_mean(column, have), "E_COLUMN")
        if have.index(exact) in keys:
            words.at = at
            raise words.error(f"{exact} is there twice", "name it once", "E_DUPLICATE")
        keys.append(have.index(exact))
        ignored += _order(words, unique)
        words.next_is("ASC") or words.next_is("DESC")
        if words.next_is("NULLS"):
            words.choose("FIRST", "LAST")
        if words.next_is(")"):
            return tuple(keys)
        if not words.next_is(","):
            raise words.error(_BY_COLUMNS, _HINT)


_BY_COLUMNS, _HINT = "an index is by columns", "CREATE INDEX i ON t (x, y); of an expression, index a view"


def _order(words: Words, unique: bool) -> list[str]:
    """COLLATE "C" and text_pattern_ops: in which order an index is, which makes no difference to equal values."""
    found: list[str] = []
    if words.next_is("COLLATE"):
        collation = words.name("a collation")
        if unique and collation.rpartition(".")[2].lower() not in ("c", "posix", "default", "ucs_basic"):
            words.at -= 1
            raise words.error("what is unique is so by its letters", 'COLLATE "C"', "E_UNSUPPORTED")
        found.append("COLLATE")
    if words.at < len(words.tokens) and words.tokens[words.at].text.lower().endswith("_ops"):
        found.append(words.name("an operator class"))
    return found


def _name_of(sql: Statements, of: str, columns: list[str]) -> str:
    """PostgreSQL's default name."""
    name = "_".join([of.rpartition(".")[2], *columns, "idx"])
    number = 0
    while (made := f"{name}{number or ''}") in sql.core.catalog.indexes():
        number += 1
    return made


def _is_seen(sql: Statements, name: str) -> bool:
    """Whether indexes of a table or view exist for the current user: they tell of columns."""
    return name in sql.session and sql.core.access.shown(name) is None


def seen(sql: Statements) -> tuple[str, ...]:
    """The indexes that exist for the current user."""
    return tuple(n for n, (of, _) in sql.core.catalog.indexes().items() if _is_seen(sql, relation_of(of).label))


def drop(sql: Statements, statement: statement_reader.Statement) -> None:
    """DROP INDEX [CONCURRENTLY] [IF EXISTS] i, j [CASCADE]: all that are named, or none"""
    words = Words(statement)
    words.need("DROP", "INDEX")
    sql.refuse_in_transaction(None, statement.source())
    words.next_is("CONCURRENTLY")
    optional = words.next_is("IF", "EXISTS")
    rules = {r.name: r for r in sql.core.constraints.rules() if _is_seen(sql, r.table)}
    there = set(seen(sql))
    there |= {n for n, r in rules.items() if r.kind == UNIQUE}
    found: list[str] = []
    while True:
        at = words.at
        name = words.name("an index")
        exact = spelled(name.rpartition(".")[2], there)
        if exact in there:
            found.append(exact)
        elif not optional:
            words.at = at
            raise words.error(f"there is no index {name}", did_you_mean(name, there), "E_NAME")
        else:
            statement.notes.skipped.append(f"there is no index {name}: nothing is dropped")
        if not words.next_is(","):
            break
    words.next_is("CASCADE") or words.next_is("RESTRICT")
    words.end()
    for name in dict.fromkeys(found) if not sql.dry else ():
        if name not in rules:
            sql.core.definitions.indexes.drop(name)
        elif rules[name].kind == UNIQUE and not sql.core.constraints.referred(rules[name]):
            sql.core.definitions.guards.drop(rules[name])
        else:
            what = f"the index {name} belongs to a constraint"
            raise words.error(what, "ALTER TABLE ... DROP CONSTRAINT", "E_IN_USE")
