"""Executes a client's SQL text in the shared session.

Settings in a text (time zone, search path, dialect, join plan) hold until its end: the next one belongs to another
client. A transaction that it begins must end in it, too. Runs on the engine's thread, or beside it if the text only
reads (`only_reads`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from everview.errors import InputError
from everview.language.relation import relation_of
from everview.server.pg.lexer import words
from everview.session.core import core_of
from everview.session.reads.subscribable import Subscribable
from everview.session.sql_settings import SqlSettings, settings_of_call
from everview.sql.answers.result import Result
from everview.sql.statements import Statements
from everview.sql.streams.subscription import Subscription

if TYPE_CHECKING:
    from everview.session.session import Session

READING = frozenset({"SELECT", "WITH", "VALUES", "TABLE", "FROM", "(", "SHOW", "DESCRIBE"})
"""First words of texts that are tried beside the engine's thread."""


@dataclass(frozen=True)
class Answer:
    """The result of a text: rows, a relation or a text of its last statement."""

    time: int
    result: Result | None = None
    relation: str = ""
    """the table or view that was created"""
    text: str = ""
    affected: int | None = None
    """total number of rows inserted, updated or deleted by its statements; None if none of them changes rows"""


def ask(session: Session, text: str) -> Answer:
    """Run a text.

    >>> import everview as ev
    >>> db = ev.connect()
    >>> ask(db, "CREATE TABLE t (x int); INSERT INTO t VALUES (1), (2); DELETE FROM t WHERE x = 9").affected
    2
    >>> ask(db, "SET TIME ZONE 'Europe/Oslo'; SELECT sum(x) AS s FROM t").result.rows()
    [(3,)]
    >>> core_of(db).zone
    'UTC'
    """
    if not isinstance(text, str):
        raise InputError("E_TYPE", f"{text!r} is not SQL", "give the text of a statement")
    core = core_of(session)
    statements = Statements(session)
    answers, affected = list[Any](), list[int | None]()
    try:
        with settings_of_call(SqlSettings(core.zone, core.search_path)):
            for _, answer in statements.answers(text):
                answers.append(answer)
                affected.append(statements.affected)
    finally:
        if statements.transaction is not None:
            statements.run("ROLLBACK")
            raise InputError(
                "E_TRANSACTION",
                "the text begins a transaction and does not end it",
                "send all of its statements together, with COMMIT at the end",
            )
    return answer_of(session, answers[-1] if answers else None, in_all(affected), statements.read_at)


def in_all(affected: Sequence[int | None]) -> int | None:
    """The number of rows changed by several statements; None if none of them changes rows.

    >>> in_all([2, None, 1]), in_all([None])
    (3, None)
    """
    counts = [n for n in affected if n is not None]
    return sum(counts) if counts else None


def only_reads(text: str) -> bool:
    """Whether a text may be tried beside the engine's thread. It need not be exact: a write takes a turn as a writer,
    which is refused there before anything is changed.

    >>> only_reads("SELECT 1"), only_reads("-- two\\n (SELECT 1)"), only_reads("INSERT INTO t VALUES (1)")
    (True, True, False)
    """
    found = next(iter(words(text)), None)
    return found is not None and found.upper in READING


def answer_of(session: Session, found: Any, affected: int | None = None, at: int | None = None) -> Answer:
    """The result of a statement in a form that can be sent; `at`: the time that it read, if the session may have
    advanced since.
    """
    if isinstance(found, Subscription):
        found.close()
        raise InputError("E_UNSUPPORTED", "a subscription cannot be the answer to a statement", "use the WebSocket")
    time = session.time
    if isinstance(found, Result):
        return Answer(time if at is None else at, result=found, affected=affected)
    if isinstance(found, Subscribable) and relation_of(found).owner is not core_of(session):
        return Answer(time, affected=affected)  # a view of the schema ev
    if isinstance(found, Subscribable):
        return Answer(time, relation=relation_of(found).label, affected=affected)
    return Answer(time, text="" if found is None else str(found), affected=affected)
