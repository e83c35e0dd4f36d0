"""Statements that ask for what is so anyway: they are checked, and nothing is to be done.

    REFRESH MATERIALIZED VIEW v            it is fresh
    VACUUM [t], ANALYZE [t]                merging goes along with steps; what is asked is counted when it is
    SET client_encoding = 'UTF8'           and others that scripts of pg_dump begin with, with the values that hold here
    CREATE EXTENSION IF NOT EXISTS pgcrypto    its gen_random_uuid is there

Any other value, view or extension is refused: nothing that is written is passed over.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING

from sqlglot import exp

from everview.errors import did_you_mean
from everview.sql.text import parts, reading
from everview.sql.text.places import Source
from everview.sql.text.words import Words

if TYPE_CHECKING:
    from everview.sql.statements import Statements

HOLDS: dict[str, tuple[str, ...]] = {
    "statement_timeout": ("0",),
    "lock_timeout": ("0",),
    "idle_in_transaction_session_timeout": ("0",),
    "transaction_timeout": ("0",),
    "client_encoding": ("utf8", "utf-8", "unicode"),
    "standard_conforming_strings": ("on", "true"),
    "check_function_bodies": ("true", "false", "on", "off"),
    "xmloption": ("content",),
    "client_min_messages": ("warning", "notice", "error"),
    "row_security": ("off", "on"),
    "default_tablespace": ("",),
    "default_table_access_method": ("heap",),
    "datestyle": ("iso", "iso, mdy", "iso, ymd"),
    "bytea_output": ("hex",),
    "constraint_exclusion": ("on", "off", "partition"),
    "synchronous_commit": ("on",),
}
"""Settings of PostgreSQL, and the values that hold here, or make no difference."""

EXTENSIONS = ("pgcrypto", "uuid-ossp", "plpgsql")


def holds(node: exp.Set, source: Source) -> bool:
    """Whether a SET asks for what is so."""
    equal = node.expressions[0].this if len(node.expressions) == 1 else None
    if not isinstance(equal, exp.EQ) or equal.this.name.lower() not in HOLDS:
        return False
    parts.understood(node)
    name, value = equal.this.name.lower(), equal.expression.copy().sql("postgres").strip("'").lower()
    if value not in HOLDS[name]:
        hint = f"it is {HOLDS[name][0]}" if HOLDS[name][0] else "leave it out"
        raise source.refuse(node, f"{name} cannot be {value}", hint)
    return True


def refresh(sql: Statements, statement: reading.Statement) -> None:
    """REFRESH MATERIALIZED VIEW [CONCURRENTLY] v"""
    found = _REFRESH.fullmatch(statement.text.strip())
    source = statement.source()
    if found is None:
        raise source.error_at(statement.tokens[0].start, "E_SYNTAX", "REFRESH MATERIALIZED VIEW is followed by a name")
    _check_there(sql, found.group(1), sql.session.views, source)


def tidy(sql: Statements, statement: reading.Statement) -> None:
    """VACUUM [FULL] [ANALYZE] [t, ...], ANALYZE [t, ...]"""
    names = _TIDY.sub("", statement.text.strip())
    for name in names.split(",") if names else ():
        _check_there(sql, name.strip(), (*sql.session.tables, *sql.session.views), statement.source())


_REFRESH = re.compile(r"REFRESH\s+MATERIALIZED\s+VIEW\s+(?:CONCURRENTLY\s+)?(\S+)", re.IGNORECASE)
_TIDY = re.compile(r"^(?:(?:VACUUM|FULL|VERBOSE|ANALYZE)\b\s*)+", re.IGNORECASE)


def _check_there(sql: Statements, name: str, known: Collection[str], source: Source) -> None:
    """Refuse a name that nothing has, at its place."""
    exact = sql.spelled(name.replace('"', ""))
    if exact not in known:
        at = max(source.text.find(name), 0)
        raise source.error_at(at, "E_TABLE", f"there is no {name}", did_you_mean(name, known))


def extension(sql: Statements, statement: reading.Statement) -> None:
    """CREATE EXTENSION [IF NOT EXISTS] name"""
    words = Words(statement)
    words.need("CREATE")
    words.need("EXTENSION")
    words.next_is("IF", "NOT", "EXISTS")
    name = words.take("an extension")
    if name.lower() not in EXTENSIONS:
        words.at -= 1
        raise words.error(
            f"there is no extension {name}", "functions are built in, or made by CREATE FUNCTION", "E_NAME"
        )
    if words.next_is("WITH", "SCHEMA") or words.next_is("SCHEMA"):
        words.name("a schema")
    words.end()


_LEVELS = ("SERIALIZABLE", "REPEATABLE READ", "READ COMMITTED", "READ UNCOMMITTED")


def start(sql: Statements, statement: reading.Statement) -> None:
    """START TRANSACTION [ISOLATION LEVEL ...]"""
    words = Words(statement)
    words.need("START")
    words.need("TRANSACTION")
    if words.next_is("ISOLATION"):
        words.need("LEVEL")
        if not any(words.next_is(*level.split()) for level in _LEVELS):
            raise words.error("there is no such level", "SERIALIZABLE")
    words.end()
    if sql.transaction is not None:
        words.at = 0
        raise words.error("a transaction is open already", "COMMIT or ROLLBACK it", "E_TRANSACTION")
    if not sql.dry:
        sql._begin()


def check_modes(node: exp.Transaction, source: Source) -> None:
    """BEGIN ISOLATION LEVEL ...: a transaction here is alone with the tables, which is more than any level asks."""
    for mode in node.args.get("modes") or []:
        text = " ".join(str(mode).upper().split())
        if text.removeprefix("ISOLATION LEVEL ") not in _LEVELS and text not in ("READ WRITE",):
            raise source.refuse(node, f"{text} is not supported", "BEGIN")
    node.args.get("this")
