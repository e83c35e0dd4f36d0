"""SAVEPOINT, ROLLBACK TO and RELEASE.

A transaction's changes are a list, so a savepoint is a length of it. Rolling back also clears the failed state of a
statement after the savepoint. A reused name hides the older savepoint until it is released, as in PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from everview.errors import did_you_mean
from everview.sql.text.error_positions import Source
from everview.sql.text.token_reader import Words

if TYPE_CHECKING:
    from everview.sql.statements import Do, Statements
    from everview.sql.text.statement_reader import Statement


@dataclass(frozen=True)
class Savepoint:
    """How much a transaction had changed."""

    name: str
    changes: int
    offsets: Mapping[str, str]


def abort(sql: Statements, statement: Statement) -> None:
    """ABORT [WORK | TRANSACTION] [AND [NO] CHAIN], PostgreSQL's other word for ROLLBACK"""
    words = Words(statement)
    words.need("ABORT")
    if not words.next_is("WORK"):
        words.next_is("TRANSACTION")
    if words.next_is("AND"):
        words.next_is("NO")
        words.need("CHAIN")
    words.end()
    source = statement.source()
    sql.need_transaction(None, source)
    if not sql.dry:
        sql.ending(source, undo=True)()


def savepoint(sql: Statements, statement: Statement) -> None:
    """SAVEPOINT name"""
    name, _ = _name(sql, statement, 1)
    staged = sql.core.transactions.pending()
    assert staged is not None
    sql.savepoints.append(Savepoint(name.lower(), len(staged), staged.offsets))


def release(sql: Statements, statement: Statement) -> None:
    """RELEASE [SAVEPOINT] name: forget it, and those after it; changes are kept"""
    words = [t.text.upper() for t in statement.tokens]
    name, start = _name(sql, statement, 2 if words[1:2] == ["SAVEPOINT"] and len(words) > 2 else 1)
    del sql.savepoints[_place(sql, name, statement.source(), start) :]


def go_back(sql: Statements, node: exp.Identifier, source: Source) -> Do:
    """ROLLBACK TO name: changes since are undone, the savepoint stays"""
    at = _place(sql, node.name, source, int(node.meta.get("start", 0)))

    def do() -> None:
        del sql.savepoints[at + 1 :]
        staged = sql.core.transactions.pending()
        assert staged is not None
        found = sql.savepoints[at]
        del staged[found.changes :]
        staged.offsets = found.offsets
        sql.failed = False

    return do


def _name(sql: Statements, statement: Statement, at: int) -> tuple[str, int]:
    """The savepoint's name, which is all that follows, and where it stands."""
    source, tokens = statement.source(), statement.tokens
    if sql.transaction is None or sql.core.transactions.pending() is None:
        raise source.error_at(tokens[0].start, "E_TRANSACTION", "no transaction is open", "begin one with BEGIN")
    rest = tokens[at:]
    if len(rest) != 1 or not rest[0].text.isidentifier():
        place = rest[1 if len(rest) > 1 else 0].start if rest else tokens[-1].start
        raise source.error_at(place, "E_SYNTAX", "one name is expected here", "SAVEPOINT name")
    return rest[0].text, rest[0].start


def _place(sql: Statements, name: str, source: Source, start: int) -> int:
    names = [s.name for s in sql.savepoints]
    if name.lower() not in names:
        raise source.error_at(start, "E_TRANSACTION", f"there is no savepoint {name}", did_you_mean(name, names))
    return len(names) - 1 - names[::-1].index(name.lower())
