"""A connection's statements on the engine's thread, and their transaction.

A client may wait for an hour between BEGIN and COMMIT without blocking others. Its transaction is therefore *staged*:
the changes are kept in the connection, and the session sees them only while one of its statements runs. Between two
statements the session is available to others. COMMIT applies everything in one step.

Inside, a query sees what is committed when it begins, plus its own transaction's changes: READ COMMITTED, as in
PostgreSQL. Others may have committed meanwhile. If a row to be deleted is gone then, or a key to be inserted exists,
COMMIT fails with 40001 (E_SERIALIZE) and nothing is changed; the client may retry. REPEATABLE READ and SERIALIZABLE
read as of their first statement, which history must cover; if they change anything, and anybody else has committed
since, they fail with 40001.

CREATE, ALTER and DROP are staged, too (`everview.server.pg.transactional_ddl`): others see them at COMMIT.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from everview.errors import EverviewError
from everview.language.relation import relation_of
from everview.runtime.base import ChangeSet
from everview.server.pg import transactional_ddl
from everview.server.pg.key_lookups import Quick, quick
from everview.server.pg.literal_shapes import shape_of
from everview.server.pg.settings import Settings
from everview.server.pg.sqlstates import PgError
from everview.server.pg.transactional_ddl import Definitions, conflict
from everview.session.changes.blocks import Transaction
from everview.session.core import core_of
from everview.session.reads import concurrent_reads
from everview.session.sql_settings import SqlSettings, settings_of_call
from everview.sql.answers import parameter_values as parameters
from everview.sql.answers.parameter_values import Given
from everview.sql.answers.result import Result
from everview.sql.ddl import schemas
from everview.sql.statements import Shape, Statements
from everview.sql.text import statement_reader
from everview.types import DataType

if TYPE_CHECKING:
    from everview.session.core import Core
    from everview.session.session import Session
    from everview.session.table import Table
    from everview.sql.dml.bound_changes import BoundChange

T = TypeVar("T")

QUERIES = ("SELECT", "WITH", "VALUES", "TABLE", "FROM", "(")
DEFINING = ("CREATE", "DROP", "ALTER", "COMMENT", "REPLACE", "GRANT", "REVOKE", "REASSIGN")
"""First words of statements that define something."""

REPEATED = ("INSERT", "UPDATE", "DELETE")
"""First words of statements that clients repeat with other values."""

READ_COMMITTED = "read committed"


class Outcome:
    """What a statement gave."""

    def __init__(self, answer: Any, affected: int | None, notices: Sequence[str] = ()) -> None:
        self.rows = answer if isinstance(answer, Result) else None
        self.affected = affected
        self.notices = notices


class Work:
    """One connection's side of the session. All of it is called on the engine's thread, but for what begins and ends a
    transaction without touching the session.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.changes: ChangeSet | None = None
        """what the transaction under way has changed; None if none is"""
        self.isolation = READ_COMMITTED
        self.read_only = False
        self.implicit = False
        """whether nobody asked for the transaction: it is what was sent together"""
        self.defined = Definitions()
        """what was created, altered or dropped inside the transaction"""
        self._marks: list[tuple[str, int]] = []
        """savepoints, and how much was defined then"""
        self._sql: Statements | None = None
        self._began: int | None = None
        self._codecs: dict[int, tuple[Table, object]] = {}

    def discard(self) -> None:
        """Forget what statements have set: how queries are shared and joins planned, the dialect, sequences."""
        self._sql = None

    # transactions

    def begin(self, isolation: str = READ_COMMITTED, read_only: bool = False) -> None:
        """Let the statements that follow be one transaction."""
        self.changes = ChangeSet()
        self.isolation = READ_COMMITTED if isolation == "read uncommitted" else isolation
        self.read_only = read_only
        self.defined.clear()
        self._began = None
        self._codecs.clear()

    def forget(self) -> None:
        """Undo the transaction: nobody has seen it."""
        self.changes = None
        self._codecs.clear()
        self.defined.clear()
        self._marks.clear()
        if self._sql is not None:
            self._sql.savepoints.clear()

    def commit(self, session: Session) -> None:
        """Do what was staged, in one step. Whether it succeeds or not, the transaction is over."""
        core, changes = core_of(session), self.changes
        began, codecs = self._began, dict(self._codecs)
        if self.defined:
            try:
                assert changes is not None
                self.defined.done(
                    self._statements(session), changes, lambda rows: self._hand_over(core, rows, began, {})
                )
            finally:
                self.forget()
            return
        self.forget()
        self._hand_over(core, changes, began, codecs)

    def _hand_over(
        self, core: Core, changes: ChangeSet | None, began: int | None, codecs: Mapping[int, tuple[Table, object]]
    ) -> None:
        if not changes and not (changes is not None and changes.offsets):
            return
        assert changes is not None
        self._check_tables(core, codecs)
        if core.time != began:
            if self.isolation != READ_COMMITTED:
                raise conflict("others have committed since it began")
            _check_keys(core, changes)
        transaction = Transaction(core, changes)
        transaction.open()
        try:
            transaction.end(undo=False)
        except EverviewError as error:
            if error.code == "E_ABSENT":
                raise conflict(error.message) from None
            raise

    def _check_tables(self, core: Core, codecs: Mapping[int, tuple[Table, object]]) -> None:
        for table, codec in codecs.values():
            if relation_of(table).dropped or relation_of(table).codec is not codec:
                raise conflict(f"table {relation_of(table).label!r} was altered or dropped meanwhile")

    def _statements(self, session: Session) -> Statements:
        if self._sql is None:
            self._sql = Statements(session)
            self._sql.is_warning = False
        return self._sql

    def _within(self, session: Session, function: Callable[[Statements], T], *, apart: bool = False) -> T:
        """Call a function with the session as this connection sees it: its settings, what its transaction has changed,
        and what that has defined; `apart`: without the latter two.
        """

        def call() -> T:
            with self._inside(session, apart=apart) as sql:
                return function(sql)

        if not self.defined or apart:
            return call()
        assert self.changes is not None
        self._codecs.clear()  # its tables are others each time
        return self.defined.tried(self._statements(session), self.changes, call)

    @contextmanager
    def _inside(self, session: Session, *, apart: bool = False) -> Iterator[Statements]:
        core = core_of(session)
        sql = self._statements(session)
        transaction: Transaction | None = None
        try:
            with settings_of_call(SqlSettings(self.settings.zone, self._path(core))):
                if self.changes is not None and not apart:
                    transaction = self._attached(core, sql)
                yield sql
        finally:
            sql.parameters = None
            if transaction is not None:
                sql.transaction = None
                for table, _, _ in self.changes or ():
                    self._codecs.setdefault(id(table), (table, relation_of(table).codec))
                transaction.leave()

    def _attached(self, core: Core, sql: Statements) -> Transaction:
        self._check_tables(core, self._codecs)
        transaction = Transaction(core, self.changes)
        transaction.open()
        sql.transaction = transaction
        if self._began is None:
            self._began = core.time
        return transaction

    def _path(self, core: Core) -> tuple[str, ...]:
        there = {schemas.PUBLIC, *schemas.made(core)}
        return tuple(p for p in self.settings.path if p in there)

    @property
    def plain(self) -> bool:
        """Whether a query sees here what everybody sees: what is committed."""
        if self.changes is None:
            return True
        return not self.changes and not self.defined and self.isolation == READ_COMMITTED

    # statements

    def described(
        self, session: Session, text: str, types: Mapping[str, DataType], *, beside: bool = False
    ) -> tuple[Given, Shape | None, Quick | None]:
        """The types of a statement's parameters, its columns, and how it is looked up, if it is. Nothing is done.
        `beside`: it is a query that sees what everybody sees, and may be looked at beside a step.
        """

        path = self.settings.path_text

        def look() -> tuple[Given, Shape | None, Quick | None]:
            return self._within(session, bound, apart=beside)

        def bound(sql: Statements) -> tuple[Given, Shape | None, Quick | None]:
            given, shape = parameters.bound(sql, text, types)
            known = shape is not None and not self.defined
            return given, shape, quick(sql, session, text, given, path) if known else None

        return concurrent_reads.looked(core_of(session), look) if beside else look()

    def run(self, session: Session, text: str, given: Given | None, *, changing: bool, beside: bool = False) -> Outcome:
        """Do one statement; `changing`: it may change rows, `beside`: it is a query that sees what everybody sees."""
        first = text.split(None, 1)[0].upper() if text.strip() else ""
        if self.changes is not None and self.read_only and changing:
            raise PgError("E_READ_ONLY", "25006", f"{first} in a transaction that only reads", "BEGIN another")
        if self.changes is not None and first in DEFINING:
            return self._define(session, text, given)
        done = self._within(session, lambda sql: self._one(sql, text, given, changing, beside), apart=beside)
        if first in ("SAVEPOINT", "ROLLBACK", "RELEASE"):
            self._mark(first, text.split()[-1].lower())
        return done

    def _one(self, sql: Statements, text: str, given: Given | None, changing: bool, beside: bool) -> Outcome:
        change = self._bound_before(sql, text, given) if changing and not beside else None
        if change is not None:
            return Outcome(sql.run_again(change, text), sql.affected, sql.notices)
        sql.parameters = given
        statement = next(statement_reader.statements(text, lambda: sql.dialect), None)
        if statement is None:
            return Outcome(None, None)
        if self.changes is not None and not beside:
            statement = self._as_of(sql.core, statement, changing)
        answer = sql._run_one(statement)
        return Outcome(answer, sql.affected, sql.notices)

    def _bound_before(self, sql: Statements, text: str, given: Given | None) -> BoundChange | None:
        """A change that was bound before, for these or for other values."""
        if self.isolation != READ_COMMITTED or self.defined or text[:6].upper() not in REPEATED:
            return None
        if given is not None:
            return sql.bound_change(text, given)
        shape = shape_of(text)
        return None if shape is None else sql.bound_change(shape.text, Given(shape.types, shape.values))

    def _define(self, session: Session, text: str, given: Given | None) -> Outcome:
        """Do a statement that defines something inside a transaction."""
        core, sql, changes = core_of(session), self._statements(session), self.changes
        assert changes is not None
        at_once = transactional_ddl.is_schema(text) or (self.implicit and not changes and not self.defined)

        def do() -> Outcome:
            with self._inside(session, apart=True):
                return self._one(sql, text, given, True, True)

        if not transactional_ddl.can_wait(text):
            if at_once:
                return do()
            raise transactional_ddl.refusal(text)
        new = transactional_ddl.Definition(text, given, self.settings.zone, self._path(core))
        return self.defined.added(sql, changes, new, do)

    def _mark(self, first: str, name: str) -> None:
        """Savepoints are places among the definitions, too."""
        if first == "SAVEPOINT":
            self._marks.append((name, len(self.defined.said)))
            return
        at = max((i for i, (known, _) in enumerate(self._marks) if known == name), default=None)
        if at is None:
            return
        if first == "ROLLBACK":
            self.defined.go_back(self._marks[at][1], len(self.changes or ()))
            del self._marks[at + 1 :]
        else:
            del self._marks[at:]

    def _as_of(self, core: Core, statement: statement_reader.Statement, changing: bool) -> statement_reader.Statement:
        """A statement of a transaction that reads at one time, as of that time."""
        if self.isolation == READ_COMMITTED or self._began is None or core.time == self._began:
            return statement
        if changing or self.changes:
            raise conflict("others have committed since it began")
        if statement.first not in QUERIES or statement.notes.as_of is not None:
            return statement
        return replace(statement, notes=replace(statement.notes, as_of=self._began))

    def inside(self, session: Session, function: Callable[[Statements], T], *, apart: bool = False) -> T:
        """Call a function with the session as this connection sees it; `apart`: without what its transaction changed,
        so that what the function changes is no part of that.
        """
        return self._within(session, function, apart=apart)

    def load(self, session: Session, function: Callable[[Statements], T]) -> T:
        """The same for what changes rows: all that it changes, or nothing."""
        if self.read_only and self.changes is not None:
            raise PgError("E_READ_ONLY", "25006", "COPY in a transaction that only reads", "BEGIN another")

        def loaded(sql: Statements) -> T:
            with sql.session.transaction():
                return function(sql)

        return self._within(session, loaded)


def _check_keys(core: Core, changes: ChangeSet) -> None:
    """Refuse a transaction that would add a key that somebody else has added meanwhile."""
    nets: dict[int, tuple[Table, Counter[tuple[int, ...]]]] = {}
    for table, rows, diff in changes:
        if relation_of(table).key:
            _, net = nets.setdefault(id(table), (table, Counter()))
            for row in rows.T.tolist() if isinstance(rows, np.ndarray) else rows:
                net[tuple(row)] += diff
    for table, net in nets.values():
        keys = {tuple(row[k] for k in relation_of(table).key) for row, n in net.items() if n > 0}
        if not keys:
            continue
        there = core.transactions.current(table, np.array(sorted(keys), dtype=np.int64).T)
        total = Counter(net)
        for row in there.T.tolist():
            total[tuple(row)] += 1
        count: Counter[tuple[int, ...]] = Counter()
        for row, n in total.items():
            count[tuple(row[k] for k in relation_of(table).key)] += n
        for key in keys:
            if count[key] > 1:
                raise conflict(f"table {relation_of(table).label!r} has got another row with the same key")
