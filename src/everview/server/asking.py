"""A text of SQL from somebody who has no session of their own, asked in the one that all share.

What a text sets (time zone, search path, dialect, join plan) holds to its end: the next one is somebody else's. A
transaction that it begins must end in it, too. On the engine's thread, or beside it if the text only reads
(`only_reads`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from everview.errors import InputError
from everview.language.relation import relation_of
from everview.server.pg.lexing import words
from everview.session.core import core_of
from everview.session.reads.followed import Followed
from everview.session.spoken import Spoken, spoken
from everview.sql.answers.result import Result
from everview.sql.statements import Statements
from everview.sql.streams.subscription import Subscription

if TYPE_CHECKING:
    from everview.session.session import Session

READING = frozenset({"SELECT", "WITH", "VALUES", "TABLE", "FROM", "(", "SHOW", "DESCRIBE"})
"""First words of texts that are tried beside the engine's work."""


@dataclass(frozen=True)
class Answer:
    """What came of a text: of its last statement."""

    time: int
    result: Result | None = None
    relation: str = ""
    """the table or view that was made"""
    text: str = ""
    affected: int | None = None
    """how many rows were inserted, updated or deleted"""


def ask(session: Session, text: str) -> Answer:
    """Run a text.

    >>> import everview as ev
    >>> db = ev.connect()
    >>> ask(db, "CREATE TABLE t (x int); INSERT INTO t VALUES (1), (2)").affected
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
    try:
        with spoken(Spoken(core.zone, core.search_path)):
            found = statements.run(text)
    finally:
        if statements.transaction is not None:
            statements.run("ROLLBACK")
            raise InputError(
                "E_TRANSACTION",
                "the text begins a transaction and does not end it",
                "send all of its statements together, with COMMIT at the end",
            )
    return answer_of(session, found, statements.affected, statements.read_at)


def only_reads(text: str) -> bool:
    """Whether a text may be tried beside the engine's work. It need not be exact: what changes something takes a turn
    as a writer, which is refused there, before anything is changed.

    >>> only_reads("SELECT 1"), only_reads("-- two\\n (SELECT 1)"), only_reads("INSERT INTO t VALUES (1)")
    (True, True, False)
    """
    found = next(iter(words(text)), None)
    return found is not None and found.upper in READING


def answer_of(session: Session, found: Any, affected: int | None = None, at: int | None = None) -> Answer:
    """What a statement gave, as something that can be sent; `at`: the time that it has read, if others may have gone on
    since.
    """
    if isinstance(found, Subscription):
        found.close()
        raise InputError("E_UNSUPPORTED", "a subscription cannot be the answer to a statement", "use the WebSocket")
    time = session.time
    if isinstance(found, Result):
        return Answer(time if at is None else at, result=found, affected=affected)
    if isinstance(found, Followed):
        return Answer(time, relation=relation_of(found).label, affected=affected)
    return Answer(time, text="" if found is None else str(found), affected=affected)
