"""Transactional DDL: CREATE, ALTER and DROP that others see at COMMIT, and nobody after ROLLBACK.

A transaction is staged in its connection (`everview.server.pg.connection_work`), and so are its definitions, as text.
Whenever a statement of the transaction runs, they are executed first, in the same turn of the session; after the
statement everything is rolled back (`everview.session.names.rollback`). The connection thus sees its tables, nobody
else ever does, and there is nothing to clean up when it disconnects or the server dies. COMMIT executes them once more,
for good: as one log record, then the transaction's rows.

The price is that a view of the transaction is computed again for each later statement. That is acceptable for scripts
and dbt, with a handful of statements, and it leaves no intermediate state that others could see.

Alternatives considered: executing them at once and undoing them at ROLLBACK (others would see uncommitted objects; a
crash would leave them behind), and keeping two versions of the catalog (steps, checkpoints and others' definitions in
between would all have to handle it).

Staged rows belong to a table by its name, because it is a different table each time. What cannot be rolled back, or
would need staged rows in an older form, is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from everview.language.relation import relation_of
from everview.runtime.base import ChangeSet
from everview.server.pg.lexer import words
from everview.server.pg.sqlstates import PgError
from everview.session.names.rollback import all_or_nothing
from everview.session.sql_settings import SqlSettings, settings_of_call

if TYPE_CHECKING:
    from everview.session.core import Core
    from everview.session.table import Table
    from everview.sql.answers.parameter_values import Given
    from everview.sql.statements import Statements

T = TypeVar("T")

_WORDS = ("OR", "REPLACE", "TEMP", "TEMPORARY", "UNLOGGED", "MATERIALIZED", "UNIQUE", "LOCAL", "GLOBAL")
_KINDS = ("TABLE", "VIEW", "INDEX")


class TakenBack(BaseException):
    """Raised to roll back a tentative execution, with its result."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer


@dataclass(frozen=True)
class Definition:
    """A statement that defines something, and the settings under which it was said."""

    text: str
    given: Given | None
    zone: str
    search_path: tuple[str, ...]


def can_wait(text: str) -> bool:
    """Whether a statement is one that can be done at COMMIT, and taken back.

    >>> can_wait("CREATE OR REPLACE VIEW v AS SELECT 1"), can_wait("COMMENT ON TABLE t IS 'x'")
    (True, True)
    >>> can_wait("CREATE ROLE r"), can_wait("CREATE TYPE mood AS ENUM ('ok')")
    (False, False)
    """
    first = [w.upper for w in words(text)][:6]
    if not first or first[0] in ("COMMENT", "GRANT", "REVOKE"):
        return bool(first)
    if first[0] not in ("CREATE", "DROP", "ALTER"):
        return False
    return next((w for w in first[1:] if w not in _WORDS), "") in _KINDS


def is_schema(text: str) -> bool:
    """Whether a statement makes a schema."""
    return [w.upper for w in words(text)][:2] == ["CREATE", "SCHEMA"]


def refusal(text: str) -> PgError:
    """The error for what cannot wait."""
    what = " ".join(text.split()[:2]).upper()
    return PgError("E_TRANSACTION", "25001", f"{what} cannot run inside a transaction", "COMMIT first, or do it before")


class Definitions:
    """What a transaction defines, and to which tables its rows belong."""

    def __init__(self) -> None:
        self.said: list[Definition] = []
        self._tables: list[tuple[str, object]] = []
        """the table of each change that is staged: its name behind all definitions, and its columns"""

        self._numbers: dict[str, int] = {}
        """how far the sequences are that it has made"""

    def __bool__(self) -> bool:
        return bool(self.said)

    def clear(self) -> None:
        """Nothing is defined."""
        self.said.clear()
        self._tables.clear()
        self._numbers.clear()

    def go_back(self, count: int, changes: int) -> None:
        """Only the first definitions stand, and so many changes."""
        del self.said[count:]
        del self._tables[changes:]

    def tried(self, sql: Statements, changes: ChangeSet, function: Callable[[], T]) -> T:
        """Call a function as if everything had been defined, with the transaction's rows where they belong; then have
        everything as it was. In a turn of its own.
        """

        def work(_: Statements) -> Any:
            core, known = sql.core, dict(sql.core.catalog.sequences)
            try:
                with all_or_nothing(core), core.catalog.together():
                    self._define(sql)
                    self._place(core, changes)
                    answer = function()
                    self._number(core, known)
                    self._tables = [(relation_of(table).label, _columns(table)) for table, _, _ in changes]
                    raise TakenBack(answer)
            except TakenBack as done:
                return done.answer
            finally:
                core.defaults.take_out(known)

        answer: T = sql._writing(work)
        return answer

    def added(self, sql: Statements, changes: ChangeSet, new: Definition, do: Callable[[], T]) -> T:
        """The same for one more definition, which is kept if it works."""

        def work() -> T:
            core = sql.core
            staged = {relation_of(table).label: table for table, _, _ in changes}
            before = {name: relation_of(table).codec for name, table in staged.items()}
            followers = len(core.clock.followers)
            answer = do()
            if len(core.clock.followers) != followers:
                raise PgError(
                    "E_TRANSACTION",
                    "25001",
                    "what follows the clock cannot be made inside a transaction",
                    "COMMIT first",
                )
            for name, table in staged.items():
                if relation_of(table).dropped or relation_of(table).codec is not before[name]:
                    what = f"table {name!r} has rows of this transaction that are not committed"
                    raise PgError("E_TRANSACTION", "55006", what, "alter or drop it before, or COMMIT first")
            return answer

        answer = self.tried(sql, changes, work)
        self.said.append(new)
        return answer

    def done(self, sql: Statements, changes: ChangeSet, commit: Callable[[ChangeSet], None]) -> None:
        """Define everything for good, and have the rows committed; or nothing of it."""

        def work(_: Statements) -> None:
            core = sql.core
            with all_or_nothing(core):
                with core.catalog.together():
                    self._define(sql)
                    self._place(core, changes)
                    if changes:  # what is wrong with them is found before anything is written
                        core.transactions.suppose(changes, lambda: ())
                commit(changes)

        sql._writing(work)

    def _number(self, core: Core, known: Mapping[str, object]) -> None:
        """Remember how far the sequences are that the transaction has made: they go on there."""
        mine = [name for name, made in core.catalog.sequences.items() if known.get(name) is not made]
        given = {name: core.defaults.given_here(name) for name in mine}
        self._numbers = {name: last for name, last in given.items() if last is not None}

    def _define(self, sql: Statements) -> None:
        for one in self.said:
            with settings_of_call(SqlSettings(one.zone, one.search_path)):
                sql.parameters = one.given
                sql.run(one.text)
                sql.parameters = None
        sql.core.defaults.put_back(self._numbers)

    def _place(self, core: Core, changes: ChangeSet) -> None:
        """Let the rows belong to the tables that have their names now."""
        for number, (name, columns) in enumerate(self._tables):
            table, (_, rows, diff) = core.catalog.tables.get(name), changes[number]
            if table is None or _columns(table) != columns:
                raise conflict(f"table {name!r} was altered or dropped meanwhile")
            changes[number] = table, rows, diff


def _columns(table: Table) -> object:
    return relation_of(table).codec.names, relation_of(table).codec.types


def conflict(what: str) -> PgError:
    """The error for a transaction that others have got in the way of."""
    return PgError("E_SERIALIZE", "40001", f"the transaction cannot be committed: {what}", "try it again")
