"""BEGIN and START TRANSACTION, with the modes of the transaction.

    BEGIN [WORK | TRANSACTION] [ISOLATION LEVEL ...] [READ ONLY | READ WRITE] [[NOT] DEFERRABLE]

Transactions are serial, which is stricter than any level. In one that is READ ONLY, statements that would change
anything are refused before they are bound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from everview.sql.text import statement_reader
from everview.sql.text.token_reader import Words

if TYPE_CHECKING:
    from everview.sql.statements import Statements

_LEVELS = ("SERIALIZABLE", "REPEATABLE READ", "READ COMMITTED", "READ UNCOMMITTED")


def begin(sql: Statements, statement: statement_reader.Statement) -> None:
    """BEGIN or START TRANSACTION, with modes"""
    words = Words(statement)
    if words.next_is("START"):
        words.need("TRANSACTION")
    else:
        words.need("BEGIN")
        if not (words.next_is("DEFERRED") or words.next_is("IMMEDIATE") or words.next_is("EXCLUSIVE")):  # SQLite's
            words.next_is("WORK")
        words.next_is("TRANSACTION")
    read_only = False
    while (mode := _mode(words)) is not None:
        read_only = {"READ ONLY": True, "READ WRITE": False}.get(mode, read_only)
        words.next_is(",")
    words.end()
    if sql.transaction is not None:
        words.at = 0
        raise words.error("a transaction is already open", "COMMIT or ROLLBACK it", "E_TRANSACTION")
    if not sql.dry:
        sql.begin(read_only)


def _mode(words: Words) -> str | None:
    """Take a mode of a transaction, if one comes next."""
    if words.next_is("ISOLATION"):
        words.need("LEVEL")
        if not any(words.next_is(*level.split()) for level in _LEVELS):
            raise words.error("there is no such level", "SERIALIZABLE")
        return "LEVEL"
    if words.next_is("READ"):
        return f"READ {words.choose('ONLY', 'WRITE')}"
    return "DEFERRABLE" if words.next_is("DEFERRABLE") or words.next_is("NOT", "DEFERRABLE") else None


def refuse_writing(sql: Statements, statement: statement_reader.Statement) -> None:
    """Refuse a statement that would change something in a transaction that is READ ONLY."""
    if sql.transaction is not None and sql.read_only:
        raise statement.source().error_at(
            statement.tokens[0].start,
            "E_READ_ONLY",
            f"{statement.first} in a transaction that is READ ONLY",
            "COMMIT, and BEGIN another",
        )
