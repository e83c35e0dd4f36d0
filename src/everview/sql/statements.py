"""Statements: executes the text of `db.sql`.

Statements of one text run one after the other; the result is the last one's. If one fails, a transaction that the text
has begun is rolled back; one that was open before can then only be rolled back, as in PostgreSQL.

A SELECT is computed at once over existing arrangements, or installed as a temporary view
(`everview.sql.answers.one_off`). Inside a transaction it sees that transaction's changes
(`everview.sql.dml.own_changes`).

A statement is bound first, which changes nothing; then every part of it must have been read
(`everview.sql.text.consumed_parts`); then it is executed. Handlers therefore return a function that executes the
statement.

This module has queries and transactions; `definitions`, `changes`, `explaining`, `subscription` and `pipelines` have
the rest.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sqlglot import TokenType, exp

from everview.codes.codec import Codec
from everview.dataflow.read_leases import is_guest
from everview.errors import InputError, Notice, RowErrors, did_you_mean
from everview.expr import nesting
from everview.expr.nodes import Expr
from everview.expr.resolve import Column
from everview.language.collection import Collection
from everview.language.relation import relation_of
from everview.once import row_order
from everview.plan import nodes as plan
from everview.plan.multiway import Choice
from everview.plan.substitute import substituted
from everview.runtime.embedded import EmbeddedRuntime
from everview.session.changes.turns import reads, writes
from everview.session.core import Core, core_of
from everview.session.reads import concurrent_reads
from everview.session.reads.snapshot import Snapshot
from everview.session.rights.principal import Principal, acting
from everview.session.session import Session
from everview.sql.answers import concurrent_select, lookups, one_off, system_queries
from everview.sql.answers.result import Result, in_order
from everview.sql.ddl import (
    alter_statements,
    comments,
    definitions,
    domain_statements,
    elsewhere,
    indexes,
    no_ops,
    schemas,
    settings,
    sql_functions,
)
from everview.sql.dml import (
    bound_changes,
    changes,
    constraint_checks,
    copy_files,
    merge_statement,
    modifying_ctes,
    own_changes,
    savepoints,
    transaction_modes,
    volatile_functions,
)
from everview.sql.dml.bound_changes import BoundChange, BoundChanges
from everview.sql.dml.savepoints import Savepoint
from everview.sql.inspection import describe_statements, explain_statements, reasons, show_statements
from everview.sql.rights import grants, policies, roles, shared_queries
from everview.sql.select import join_plans
from everview.sql.select.compiler import PRESENT, Compiler
from everview.sql.select.query import Env, Query
from everview.sql.select.scopes import Correlated, Relation
from everview.sql.streams import pipelines, subscription
from everview.sql.text import consumed_parts, dialects, misspellings, statement_reader
from everview.sql.text.error_positions import Source, SqlError
from everview.types import STR, DataType

if TYPE_CHECKING:
    from everview.session.changes.blocks import Transaction
    from everview.sql.answers.parameter_values import Given
    from everview.sql.answers.parameters import Parameters

Do = Callable[[], Any]
"""Executes a bound statement and returns its result."""


_QUERY_WORDS = ("SELECT", "WITH", "VALUES", "TABLE", "FROM", "DESCRIBE", "(")


class Shape(NamedTuple):
    """The columns of a result."""

    names: list[str]
    types: list[DataType]


_Handler = Callable[["Statements", Any, Source], Do]


class Statements:
    """A session's SQL: the transaction that BEGIN opened, and the execution of statements."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.core = self._core = core_of(session)
        self.transaction: Transaction | None = None
        self.read_only = False
        """Whether the open transaction refuses to change anything."""
        self.failed = False
        """Whether a statement of the open transaction has failed: it can only be rolled back."""
        self.current: statement_reader.Statement | None = None
        """The statement that was begun last."""
        self.savepoints: list[Savepoint] = []
        self.snapshot: int | None = None
        """How much of the open transaction is visible, if not all of it."""
        self.given: dict[int, Relation | None] = {}
        """Data-modifying WITH queries (by identity), as tables whose rows are not known yet; see `modifying`."""
        self.written: dict[plan.Node, plan.Node] = {}
        """Their rows, once they are known."""
        self.returning: list[tuple[str, Expr]] | None = None
        """The columns of the last bound RETURNING."""
        self.affected: int | None = None
        """The number of rows that the last statement inserted, updated or deleted, if any."""
        self.subscriptions = 0
        self.progress = False
        """Whether RUN shows its progress"""
        self.dry = False
        """Whether this is a dry run: objects are created, and nothing is queried or changed"""
        self.parameters: Parameters | None = None
        """The values of $1, $2, ... in the current statement."""
        self.plan: Choice | None = None
        self.way: one_off.Way | None = None
        """how queries are executed, if set"""
        self.sharing: shared_queries.Way | None = None
        """how queries followed by tenants are shared, if set"""
        self.dialect = "postgres"
        self.role: Principal | None = None
        """the role set by SET ROLE"""
        self.last_sequence = ""
        """the sequence last used here"""
        self.notices: list[str] = []
        """the notices of the last statement"""
        self.is_warning = True
        """whether they are Python warnings; a server sends them to its client"""
        self.is_inner = False
        """whether this is the SQL of an inner session"""
        self.read_at: int | None = None
        """the time at which the last query was executed: others may have advanced it since"""
        self.bound_changes = BoundChanges()
        """changes that are executed repeatedly"""
        self._again: BoundChange | None = None
        """the one that is to be executed now"""

    def run(self, text: str) -> Any:
        """Run all statements of a text; return the last one's result."""
        answers = [answer for _, answer in self.answers(text)]
        return answers[-1] if answers else None

    def answers(self, text: str) -> Iterator[tuple[statement_reader.Statement, Any]]:
        """Run the statements of a text one by one; yield each with its result."""
        around = self.transaction
        try:
            self.core.alive()
            for statement in statement_reader.statements(text, lambda: self.dialect):
                self.current = statement
                yield statement, self._run_one(statement)
        except GeneratorExit:
            raise  # the caller wants no more results
        except BaseException:  # also exceptions from the program's signal handlers, or another thread
            if self.core.closed:
                self._let_go()
            if not self._own():
                raise
            if self.transaction is not around:
                self._end(undo=True)  # a failing text leaves no transaction behind that it has begun
            self.failed = self.transaction is not None
            raise

    def _let_go(self) -> None:
        """Another thread has closed the session: waiting for the end of this transaction would take forever."""
        if self.transaction is not None and self.core.writing._is_owned():
            self._end(undo=True)

    def _own(self) -> bool:
        """Whether the transaction that is open is this thread's."""
        return self.transaction is not None and self.core.transactions.pending() is not None

    def _run_one(self, statement: statement_reader.Statement) -> Any:
        log = self.core.statement_log
        return self._in_role(statement) if log is None else log(self._in_role, statement)

    def bound_change(self, text: str, given: Given) -> BoundChange | None:
        """A change that was executed before, with these values, if it need not be bound again."""

        def bind(node: exp.Expr, source: Source) -> Do:
            return consumed_parts.whole(node, source, lambda: self._bind(_HANDLERS[type(node)], node, source))

        def bound(_: Statements) -> BoundChange | None:
            return bound_changes.bound(self, text, given, bind)

        return self.bound_changes.find(self, text, given, lambda: self._reading(bound))

    def run_again(self, change: BoundChange, text: str) -> Any:
        """Execute a bound change; `text` is what the client has sent."""
        self._again = change
        said = change.statement
        return self._run_one(said if self.core.statement_log is None else replace(said, text=text))

    def _in_role(self, statement: statement_reader.Statement) -> Any:
        if self.role is None or statement.start in ("SET ROLE", "RESET ROLE"):
            return self._allowed(statement)
        with acting(self.role):
            return self._allowed(statement)

    def _allowed(self, statement: statement_reader.Statement) -> Any:
        """Run a statement. Missing and forbidden objects give the same error for restricted users: the difference would
        reveal other people's tables.
        """
        try:
            with nesting.room():
                answer = self._run_it(statement)
            self._tell(statement)
            return answer
        except RecursionError:
            hint = "compute parts of it in views of their own"
            place = statement_reader.deepest(statement)
            raise statement.source().error_at(place, "E_DEPTH", "the text is nested too deeply", hint) from None
        except RowErrors as error:
            error.hint = _ABOUT_ROWS
            raise
        except InputError as error:
            if error.code == "E_NAME" and "there is no" in error.message and self.core.access.acting() is not None:
                error.code = "E_FORBIDDEN"
            if error.code == "E_NULL" and "Optional[" in error.hint:
                error.hint = "give the column a value, or declare it without NOT NULL"
                error.message = error.message.partition(" in ")[0]  # the type, as Python says it
            raise
        except SqlError as error:
            missing = error.code in ("E_TABLE", "E_NAME") and ": there is no" in error.message
            if missing and self.core.access.acting() is not None:
                error.code = "E_FORBIDDEN"
            reads = statement_reader.readable(statement.dialect) if _command(statement) is None else None
            raise misspellings.explained(error, statement.source(), reads) from None

    def _tell(self, statement: statement_reader.Statement) -> None:
        """Issue the notices of an executed statement."""
        notices = statement.notes.notices
        if any(t.token_type == TokenType.JOIN for t in statement.tokens):
            alias = misspellings.before_join(statement.source())
            notices = [*notices, f"{alias.token.text} is read as an alias: {alias.hint}"] if alias else notices
        told = list(dict.fromkeys(notices))
        self.notices = [*told, *statement.notes.skipped]
        for text in told if self.is_warning else ():
            warnings.warn(text, Notice, stacklevel=_depth_of_caller())

    def _run_it(self, statement: statement_reader.Statement) -> Any:
        self.affected = self.read_at = None
        if self.failed and self._own() and statement.first not in ("ROLLBACK", "ABORT", "COMMIT", "END"):
            raise statement.source().error_at(
                statement.tokens[0].start, "E_TRANSACTION", "the transaction has failed before this", "ROLLBACK it"
            )
        if self._again is not None:
            change, self._again = self._again, None
            return self._in_turn(False, False, Statements._repeat, change)
        if system_queries.is_about(self, statement):
            return system_queries.run(self, statement)
        command = _command(statement)
        if command is not None and statement.notes.as_of is not None and command not in _AT_A_TIME:
            at = statement.tokens[0].start
            raise statement.source().error_at(at, "E_UNSUPPORTED", "only a SELECT can be asked AS OF an earlier time")
        if command is not None and self.dry and command in _OF_ROWS:
            return None
        if command is not None and command not in _READING and command not in _HARMLESS:
            transaction_modes.refuse_writing(self, statement)
        if command is not None:
            return self._in_turn(command in _READING, command in _ALONE, command, statement)
        source = self.placed(statement.source())
        node = statement_reader.parsed(source)
        if statement.notes.as_of is not None and not isinstance(node, statement_reader.QUERIES):
            raise source.refuse(node, "only a SELECT can be asked AS OF an earlier time")
        handler = _handler(node, source)
        reads = (
            handler in _READING and not modifying_ctes.changing(node) and not volatile_functions.mentioned(source.text)
        )
        asks = handler is Statements.select and not modifying_ctes.changing(node)
        if not (reads or handler in _HARMLESS or (asks and not volatile_functions.numbers(source.text))):
            transaction_modes.refuse_writing(self, statement)
        if reads and handler is Statements.select and concurrent_select.there_is(self):
            return concurrent_select.select(self, node, source)
        return self._in_turn(reads, False, Statements._handle, handler, node, source)

    def placed(self, source: Source) -> Source:
        """A text with the session's settings: its time zone and types."""
        types, domains = (schemas.short(self.core, known) for known in (self.core.types, self.core.domains))
        return replace(source, zone=self.core.zone, types=types, domains=domains, parameters=self.parameters)

    @nesting.room()
    def _shape(self, text: str, look: Callable[[exp.Expr], None]) -> Shape | None:
        self.core.alive()
        statement = next(statement_reader.statements(text, lambda: self.dialect), None)
        if statement is None:
            return None
        if statement.first == "EXPLAIN":
            return Shape(["plan"], [STR])
        if statement.first in ("SHOW", "WHY") or (
            statement.first in _QUERY_WORDS and system_queries.is_about(self, statement)
        ):  # they only read
            answer = self._run_one(statement)
            return Shape(answer.columns, answer.types)
        if statement.start == "CREATE TOKEN":
            return Shape(["token"], [STR])
        if _command(statement) is not None:
            return None
        source = self.placed(statement.source())
        node = statement_reader.parsed(source)
        look(node)
        volatile_functions.settled(self, node, source, example=True)
        handler = _handler(node, source)
        sql_functions.mark(node, self.core.catalog)
        if handler is Statements.select and not modifying_ctes.changing(node):
            query, _ = consumed_parts.whole(node, source, lambda: self.bound(node, source))
            return Shape(list(query.names), list(query.node.types[query.context : query.width]))
        if handler is describe_statements.describe:
            answer = consumed_parts.whole(node, source, lambda: self._bind(handler, node, source))()
            return Shape(answer.columns, answer.types)
        if not isinstance(node, (*modifying_ctes.CHANGES, *statement_reader.QUERIES)):
            return None
        self.returning = None
        consumed_parts.whole(node, source, lambda: self._bind(handler, node, source))
        return self._returned()

    @concurrent_reads.beside(_shape)
    @reads
    def shape(self, text: str, look: Callable[[exp.Expr], None]) -> Shape | None:
        """The columns that a statement would return, None if it returns no rows; does not execute it. `look` receives
        the statement before it is bound.
        """
        return self._shape(text, look)

    def _returned(self) -> Shape | None:
        """The columns of the RETURNING that was bound last."""
        found = self.returning
        return None if found is None else Shape([name for name, _ in found], [e.type for _, e in found])

    def _in_turn(self, reading: bool, alone: bool, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run a statement in one turn, so that what it reads does not change. Some last forever, so each of their steps
        has its own.
        """
        if alone or (function in _BESIDE and is_guest()):
            return function(self, *arguments)
        return (self._reading if reading else self._writing)(function, *arguments)

    @reads
    def _reading(self, function: Callable[..., Any], *arguments: Any) -> Any:
        self.core.alive()
        answer = function(self, *arguments)
        self.read_at = self.core.time
        return answer

    @writes
    def _writing(self, function: Callable[..., Any], *arguments: Any) -> Any:
        self.core.alive()
        return function(self, *arguments)

    def _handle(self, handler: _Handler, node: exp.Expr, source: Source) -> Any:
        sql_functions.mark(node, self.core.catalog)
        try:
            with constraint_checks.statement(self.core):
                numbered = volatile_functions.settled(self, node, source, example=self.dry)
                do = consumed_parts.whole(node, source, lambda: self._bind(handler, node, source))
                answer = None if self.dry and handler not in _MAKING else do()
            if numbered and self.core.defaults.waiting and self.core.transactions.pending() is None:
                self.core.transactions.commit_empty()  # how far sequences are is kept
            return answer
        except BaseException as error:
            if self.core.clock.unused():
                self.core.definitions.collect()
            if not isinstance(error, Correlated):
                raise
            raise source.refuse(node, "a subquery reads the query around it in a way that is not supported") from None

    def _repeat(self, change: BoundChange) -> Any:
        with constraint_checks.statement(self.core):
            return change.do()

    def _bind(self, handler: _Handler, node: exp.Expr, source: Source) -> Do:
        """Bind a statement and its data-modifying WITH queries."""
        self.given = {}
        if not modifying_ctes.changing(node):
            return handler(self, node, source)
        return modifying_ctes.bound(self, node, source, handler, _HANDLERS)

    def spelled(self, name: str) -> str:
        """The intended table or view, as spelled on creation; the name itself if there is none."""
        return schemas.found(self.core, name, self.core.access.visible([*self.session.tables, *self.session.views]))

    # queries

    def compiler(self, source: Source) -> Compiler:
        """For a one-off query."""
        return Compiler(self.session, source)

    def bound(
        self, node: exp.Expr, source: Source, standing: bool = False, change: exp.Expr | None = None
    ) -> tuple[Query, Compiler]:
        """The query's plan, and the compiler with what it reads. `standing`: it is maintained, not one-off; `change`:
        the statement that it is part of, whose WITH it sees.
        """
        compiler = Compiler(self.session, source, standing)
        compiler.given = self.given
        env: Env = {}
        if change is not None:
            compiler.target = change.this
            changed = "UPDATE" if isinstance(change, exp.Update) else "SELECT"
            compiler.command = "DELETE" if isinstance(change, exp.Delete) else changed
            env = compiler.with_clause(change, {})
        return compiler.query(node, env, None), compiler

    def collection(self, compiler: Compiler, node: plan.Node, columns: Sequence[str]) -> Collection:
        """A plan as a collection for `db.view`."""
        parents: list[Collection] = [self.session[n] for n in compiler.used]
        for place, file in compiler.files.items():
            columns_of = [Column(n, t) for n, t in file.columns.items()]
            parents.append(Collection(place, columns_of, self.core, label=repr(file.path)))
        return Collection(
            node, [Column(n, t) for n, t in zip(columns, node.types, strict=True)], self.core, parents=parents
        )

    def select(self, node: exp.Expr, source: Source) -> Do:
        """A query's rows, now or as of an earlier time."""
        query, compiler = self.bound(node, source)
        time = source.notes.as_of
        if time is not None:
            return lambda: self._answer_as_of(node, source, time, compiler)
        return lambda: self.answer(query, compiler)

    def _answer_as_of(self, node: exp.Expr, source: Source, time: int, compiler: Compiler) -> Result:
        with self.as_of(source, time, compiler) as (past, now):
            answer: Result = past.select(node, now)()
            return answer

    @contextmanager
    def as_of(self, source: Source, time: int, compiler: Compiler) -> Iterator[tuple[Statements, Source]]:
        """The statements of a session with only what a query reads, as of that time; and the query as executed
        there. Conditions of policies read what is there now: who may see something is not a thing of the past.
        """
        with Session(Core(EmbeddedRuntime(self.core.interner))) as past:
            core_of(past).functions = self.core.functions
            core_of(past).catalog.sql_functions.update(self.core.catalog.sql_functions)
            present = core_of(past).attached[PRESENT] = {n: f"(present {n})" for n in compiler.decided_by}

            def copied(name: str, found: Any, contents: Snapshot) -> None:
                table = past.table(name, {c.name: c.type for c in relation_of(found).columns})
                core_of(past).transactions.stage(table, contents._repeated(), 1)

            with acting(None):
                for name in compiler.used:
                    found = self.session[name]
                    decides, now = name in present, self.core.time
                    if decides:
                        copied(present[name], found, found.as_of(now))
                    copied(name, found, found.as_of(now if decides and name not in compiler.asked_for else time))
            core_of(past).access = self.core.access  # the same rights, and policies
            yield Statements(past), replace(source, notes=replace(source.notes, as_of=None))

    def answer(self, query: Query, compiler: Compiler) -> Result:
        """The query's rows, in its order."""
        inside = [f"c{i}" for i in range(len(query.node.types))]
        written: dict[plan.Node, plan.Node] = dict(self.written)
        written.update({place: file.rows() for place, file in compiler.files.items()})
        node = substituted(query.node, written) if written else query.node
        node = own_changes.seen(self.core, lookups.done(self.core, node), self.snapshot)
        how = self.how_to_join(query.node, compiler.source)
        codes = one_off.rows(self.session, node, lambda: self.collection(compiler, node, inside), how, self.way)
        return self.result(query, codes)

    def result(self, query: Query, codes: np.ndarray) -> Result:
        """A query's rows, put into its order."""
        self.core.access.check_rows(codes.shape[1])
        if query.order:
            codes = codes[:, self._ordered(codes, query)]
        types = query.node.types[: query.width]
        return Result(Codec(types, query.names, self.core.interner), codes[: query.width].copy())

    def _ordered(self, codes: np.ndarray, query: Query) -> Any:
        """Numbers of the rows in the query's order."""
        types = query.node.types
        found = row_order.answered(codes, query.order, types, self.core.interner)
        if found is not None:
            return found
        names = [f"c{i}" for i in range(len(types))]
        return in_order(Codec(types, names, self.core.interner).decode_rows(codes), query.order, types)

    def how_to_join(self, node: plan.Node, source: Source) -> Choice | None:
        """The join plan for db.view: as requested, or as suits the query."""
        return join_plans.how_to_join(node, self.asked(source))

    def asked(self, source: Source) -> Choice | None:
        """The requested join plan, if any."""
        return source.notes.plan or self.plan

    def set_plan(self, node: exp.Set, source: Source) -> Do:
        """SET plan = 'binary' | 'delta' | 'wco' | default, SET ask = 'once' | 'view' | default"""
        if no_ops.holds(node, source):
            return lambda: None
        if one_off.is_setting(node):
            way = one_off.setting(node, source)

            def ask() -> None:
                self.way = way

            return ask
        if shared_queries.is_setting(node):
            shared = shared_queries.setting(node, source)

            def share() -> None:
                self.sharing = shared

            return share
        setting = join_plans.setting(node, source)

        def do() -> None:
            self.plan = setting

        return do

    def set_dialect(self, statement: statement_reader.Statement) -> None:
        """SET dialect = 'spark' | ... | default: for parsing from the next statement on"""
        source, words = statement.source(), [t for t in statement.tokens if t.text.upper() not in ("=", "TO")]
        if len(words) != 3:
            raise source.error_at(statement.tokens[0].start, "E_SYNTAX", "SET dialect = 'postgres'")
        name = words[2].text.lower()
        name = {"default": dialects.DEFAULT, "postgresql": dialects.DEFAULT}.get(name, name)
        if name not in dialects.NAMES:
            hint = did_you_mean(name, dialects.NAMES)
            raise source.error_at(words[2].start, "E_DIALECT", f"there is no dialect {words[2].text}", hint)
        self.dialect = name

    def texts(self, column: str, values: Sequence[str]) -> Result:
        """A result of one column."""
        codec = Codec((STR,), (column,), self.core.interner)
        return Result(codec, codec.encode_rows([(v,) for v in values]))

    # transactions

    def begin(self, read_only: bool = False) -> None:
        """Open a transaction."""
        transaction = self.session.transaction()
        transaction.open()
        self.transaction, self.read_only = transaction, read_only

    def commit(self, node: exp.Commit, source: Source) -> Do:
        """COMMIT [AND [NO] CHAIN]"""
        self.need_transaction(node, source)
        if self.failed:
            self._end(undo=True)
            raise source.error(
                node, "E_TRANSACTION", "a statement of the transaction has failed: all of it is undone", "BEGIN again"
            )
        node.args.get("chain")
        return self.ending(source, undo=False)

    def rollback(self, node: exp.Rollback, source: Source) -> Do:
        """ROLLBACK [TO savepoint], ROLLBACK [AND [NO] CHAIN]"""
        self.need_transaction(node, source)
        savepoint = node.args.get("savepoint")
        if savepoint is not None:
            return savepoints.go_back(self, savepoint, source)
        return self.ending(source, undo=True)

    def ending(self, source: Source, *, undo: bool) -> Do:
        """The end of a transaction; with AND CHAIN another one begins. The parser keeps that of COMMIT only, so the
        words are read.
        """
        words = [t.text.upper() for t in source.tokens[-2:]]

        read_only = self.read_only

        def do() -> None:
            self._end(undo=undo)
            if words == ["AND", "CHAIN"]:
                self.begin(read_only)

        return do

    def need_transaction(self, node: exp.Expr | None, source: Source) -> None:
        if self.transaction is None:
            raise source.error(node, "E_TRANSACTION", "no transaction is open", "begin one with BEGIN")

    def _end(self, *, undo: bool) -> None:
        assert self.transaction is not None
        transaction, self.transaction = self.transaction, None
        self.savepoints.clear()
        self.failed = False
        transaction.end(undo)

    def refuse_in_transaction(self, node: exp.Expr | None, source: Source) -> None:
        """Refuse definitions inside a transaction."""
        if self.transaction is not None:
            raise source.error(
                node,
                "E_TRANSACTION",
                "tables and views cannot be created or dropped inside a transaction",
                "COMMIT first",
            )


_ABOUT_ROWS = "correct or delete their inputs, or guard the expression with CASE WHEN"

_STATEMENTS = (
    "there are SELECT, CREATE TABLE, VIEW, FUNCTION, SOURCE and SINK, DROP, INSERT, UPDATE, DELETE, MERGE, TRUNCATE, "
    "COPY, EXPLAIN, WHY, DESCRIBE, SHOW, SET plan, SET dialect, SUBSCRIBE, RUN, BEGIN, COMMIT, ROLLBACK, "
    "SAVEPOINT and RELEASE"
)

_COMMANDS: dict[str, Callable[[Statements, statement_reader.Statement], Any]] = {
    "SHOW": show_statements.show,
    "ABORT": savepoints.abort,
    "SAVEPOINT": savepoints.savepoint,
    "RELEASE": savepoints.release,
    "EXPLAIN": explain_statements.explain,
    "WHY": reasons.why,
    "SUBSCRIBE": subscription.subscribe,
    "CREATE SOURCE": pipelines.create_source,
    "CREATE SINK": pipelines.create_sink,
    "RUN": pipelines.run,
    "COPY": copy_files.copy,
    "ALTER": alter_statements.alter,
    "COMMENT": comments.comment,
    "REFRESH": no_ops.refresh,
    "FLUSH": no_ops.nothing,
    "WAIT": no_ops.nothing,
    "CHECKPOINT": no_ops.nothing,
    "RESET": no_ops.reset,
    "VACUUM": no_ops.tidy,
    "ANALYZE": no_ops.tidy,
    "CREATE EXTENSION": no_ops.extension,
    "BEGIN": transaction_modes.begin,
    "START TRANSACTION": transaction_modes.begin,
    "CREATE DOMAIN": domain_statements.create,
    "DROP DOMAIN": domain_statements.drop,
    "CREATE INDEX": indexes.create,
    "CREATE UNIQUE": indexes.create,
    "DROP INDEX": indexes.drop,
    "SET SEARCH_PATH": schemas.set_path,
    "SET DIALECT": Statements.set_dialect,
    "SET TIME": settings.set_zone,
    "SET TIMEZONE": settings.set_zone,
}
"""Statements that sqlglot does not support, by their first word or two."""

_ACCESS: dict[str, Callable[[Statements, statement_reader.Statement], Any]] = {
    **{f"{verb} {kind}": function for verb, function in
       (("CREATE", roles.create), ("ALTER", roles.alter), ("DROP", roles.drop)) for kind in ("ROLE", "USER", "GROUP")},
    "CREATE TOKEN": roles.create_token,
    "DROP TOKEN": roles.drop_token,
    "SET ROLE": roles.set_role,
    "RESET ROLE": roles.set_role,
    "REASSIGN OWNED": roles.reassign,
    "CREATE POLICY": policies.create,
    "ALTER POLICY": policies.alter,
    "DROP POLICY": policies.drop,
}  # fmt: skip
"""Access control statements, by their first two words."""


def _command(statement: statement_reader.Statement) -> Callable[[Statements, statement_reader.Statement], Any] | None:
    """The handler of a statement that sqlglot does not support."""
    if sql_functions.is_definition(statement):
        return sql_functions.create
    if statement.first in ("GRANT", "REVOKE"):
        return grants.grant if statement.first == "GRANT" else grants.revoke
    if statement.first == "ALTER":
        words = [t.text.upper() for t in statement.tokens]
        if words[-3:] == ["ROW", "LEVEL", "SECURITY"]:
            return policies.row_security
        if words[-3:-1] == ["OWNER", "TO"]:
            return roles.owner
    if statement.first == "SET" and no_ops.is_tuning(no_ops.named(statement)):
        return no_ops.passed_over
    if elsewhere.is_about(statement):
        return elsewhere.passed_over
    if statement.start == "CREATE TYPE" and domain_statements.is_alias(statement):
        return domain_statements.create
    return _ACCESS.get(statement.start) or _COMMANDS.get(statement.first) or _COMMANDS.get(statement.start)


_READING: set[Callable[..., Any]] = {
    show_statements.show,
    explain_statements.explain,
    reasons.why,
    Statements.select,
    Statements.set_plan,
    Statements.set_dialect,
    no_ops.passed_over,
    no_ops.nothing,
}
"""Statements that do not wait for other threads' transactions."""

_HARMLESS: set[Callable[..., Any]] = {
    Statements.commit,
    Statements.rollback,
    savepoints.abort,
    savepoints.savepoint,
    savepoints.release,
    transaction_modes.begin,
    describe_statements.describe,
    subscription.subscribe,
    roles.set_role,
    schemas.set_path,
    settings.set_zone,
}
"""Statements that change no data, beside those that read: a transaction that is READ ONLY has them, too."""

_MAKING: set[Callable[..., Any]] = {definitions.create, definitions.define, definitions.drop}
"""Statements that are executed in dry runs, too."""

_OF_ROWS: set[Callable[..., Any]] = {reasons.why, subscription.subscribe}
"""Commands about rows, of which there are none in a dry run."""

_AT_A_TIME: set[Callable[..., Any]] = {explain_statements.explain, reasons.why}
"""Commands that may be about an earlier time."""

_ALONE: set[Callable[..., Any]] = {pipelines.create_source, pipelines.create_sink, pipelines.run}
"""Statements that take many turns."""

_BESIDE: set[Callable[..., Any]] = {subscription.subscribe}
"""Statements that a guest of a step may try: they begin turns where necessary."""

_HANDLERS: dict[type[exp.Expr], _Handler] = {
    exp.Create: definitions.create,
    exp.Drop: definitions.drop,
    exp.Describe: describe_statements.describe,
    exp.Insert: changes.insert,
    exp.Update: changes.update,
    exp.Delete: changes.delete,
    exp.TruncateTable: changes.truncate,
    exp.Merge: merge_statement.merge,
    exp.Set: Statements.set_plan,
    exp.Use: schemas.use,
    exp.Commit: Statements.commit,
    exp.Rollback: Statements.rollback,
}
"""The others, by their sqlglot class; queries are many classes."""


def _depth_of_caller() -> int:
    """The stack depth of the first function outside Everview: warnings name its line."""
    frame, depth = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("everview."):
        frame, depth = frame.f_back, depth + 1
    return depth


def _handler(node: exp.Expr, source: Source) -> _Handler:
    if source.notes.definitions:
        return definitions.define
    if isinstance(node, exp.Select) and node.args.get("into") is not None:
        return definitions.select_into
    if isinstance(node, statement_reader.QUERIES):
        return Statements.select
    if type(node) not in _HANDLERS:
        statement_reader.check_start(source)
        first = next(iter(source.tokens[0].text.upper().split()), "''")
        if isinstance(node, exp.Command) and first in ("CREATE", "DROP"):
            statement_reader.check_kind(source, first)
            statement_reader.check_query(source)
            statement_reader.check_rest(source)
        if first == "SET" and len(source.tokens) > 1:
            statement_reader.check_setting(source)
        raise source.refuse(node, f"this statement is not supported: {first}", _STATEMENTS)
    return _HANDLERS[type(node)]
