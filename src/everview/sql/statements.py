"""Statements: `db.sql` from a text to its answer.

Statements of one text run one after the other; the answer is the last one's. A SELECT is installed as a view for a
moment, read, and dropped, so it uses (and shares) the indexes that are there. A transaction's own changes are not
visible before COMMIT, so a statement that would have to read them is refused.

Here are queries and transactions; `definitions`, `changes`, `explaining`, `subscription` and `pipelines` have the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from everview.codes.codec import Codec
from everview.collection import Collection
from everview.errors import EverviewError
from everview.expr.resolve import Column
from everview.plan import nodes as plan
from everview.plan.multiway import Choice
from everview.sql import changes, choice, definitions, explaining, names, pipelines, reading, subscription
from everview.sql.places import Source, SqlError
from everview.sql.query import Compiler, Query
from everview.sql.result import Result, in_order
from everview.sql.scopes import Correlated
from everview.table import Table
from everview.types import STR

if TYPE_CHECKING:
    from everview.session import Session
    from everview.transacting import Transaction

QUERY = "(query)"
"""The name a SELECT has while it is installed."""


class Statements:
    """A session's SQL: the transaction that BEGIN opened, and how to run statements."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.transaction: Transaction | None = None
        self.changed: set[str] = set()
        self.subscriptions = 0
        self.plan: Choice | None = None

    def run(self, text: str) -> Any:
        """Run all statements of a text; the last one's answer."""
        answers = [answer for _, answer in self.answers(text)]
        return answers[-1] if answers else None

    def answers(self, text: str) -> Iterator[tuple[reading.Statement, Any]]:
        """Run the statements of a text one by one; each with its answer."""
        self.session._alive()
        for statement in reading.statements(text):
            yield statement, self._run_one(statement)

    def _run_one(self, statement: reading.Statement) -> Any:
        command = _COMMANDS.get(statement.first) or _COMMANDS.get(statement.start)
        if command is not None:
            return command(self, statement)
        source = Source(statement.text, statement.notes)
        node = reading.parsed(source.text)
        if statement.notes.as_of is not None and not isinstance(node, reading.QUERIES):
            raise source.refuse(node, "only a SELECT can be asked AS OF an earlier time")
        handler = _handler(node, source)
        staged = self.session._pending()
        before = len(staged) if staged is not None else 0
        try:
            return handler(self, node, source)
        except BaseException as error:
            if staged is not None:
                del staged[before:]  # a statement that fails inside a transaction changes nothing
            if self.session._clock.unused():
                self.session._collect()
            if not isinstance(error, Correlated):
                raise
            raise source.refuse(node, "a subquery reads the query around it in a way that is not supported") from None

    def spelled(self, name: str) -> str:
        """The table or view that is meant, as it was spelled when it was made; the name itself if there is none."""
        return names.spelled(name, [*self.session.tables, *self.session.views])

    # queries

    def bound(self, node: exp.Expr, source: Source, standing: bool = False) -> tuple[Query, Compiler]:
        """The query's plan, and the compiler that knows what it reads; `standing`: it is kept, not asked once."""
        compiler = Compiler(self.session, source, standing)
        query = compiler.query(node, {}, None)
        return query, compiler

    def collection(self, compiler: Compiler, node: plan.Node, columns: Sequence[str]) -> Collection:
        """A plan as what `db.view` takes."""
        parents = [self.session[n] for n in compiler.used]
        return Collection(
            node, [Column(n, t) for n, t in zip(columns, node.types, strict=True)], self.session, parents=parents
        )

    def select(self, node: exp.Expr, source: Source) -> Result:
        """A query's rows, now or as of an earlier time."""
        query, compiler = self.bound(node, source)
        if source.notes.as_of is not None:
            return self._answer_as_of(node, source, source.notes.as_of, compiler.used)
        self.refuse_pending(compiler.used, node, source)
        return self.answer(query, compiler)

    def _answer_as_of(self, node: exp.Expr, source: Source, time: int, used: Iterable[str]) -> Result:
        """Ask a session that holds nothing but what the query reads, as it was at that time."""
        from everview.session import Session

        with Session(interner=self.session._interner) as past:
            past._functions = self.session._functions
            for name in used:
                found = self.session[name]
                snapshot = found.as_of(time)
                table = past.table(name, {c.name: c.type for c in found._columns})
                table._session._stage(table, snapshot._repeated(), 1)
            plain = Source(source.text, replace(source.notes, as_of=None))
            return Statements(past).select(node, plain)

    def answer(self, query: Query, compiler: Compiler) -> Result:
        """Install, read, sort, drop."""
        inside = [f"c{i}" for i in range(len(query.node.types))]
        collection = self.collection(compiler, query.node, inside)
        view = self.session.view(QUERY, collection, plan=self.how_to_join(query.node, compiler.source))
        try:
            codes = view._read(self.session.time)._repeated()
            if query.order:
                codes = codes[:, in_order(view._codec.decode_rows(codes), query.order)]
        except EverviewError as error:
            error.message = error.message.replace(f"view {QUERY!r}", "the query")
            raise
        finally:
            view.drop()
        types = query.node.types[: query.width]
        return Result(Codec(types, query.names, self.session._interner), codes[: query.width].copy())

    def how_to_join(self, node: plan.Node, source: Source) -> Choice | None:
        """What db.view is told: what was asked for, or what suits the query."""
        return choice.how_to_join(node, self.asked(source))

    def asked(self, source: Source) -> Choice | None:
        """How to join, if somebody said so."""
        return source.notes.plan or self.plan

    def set_plan(self, node: exp.Set, source: Source) -> None:
        """SET plan = 'binary' | 'delta' | 'wco' | default"""
        self.plan = choice.setting(node, source)

    def refuse_pending(self, used: Sequence[str] | dict[str, None], node: exp.Expr, source: Source) -> None:
        """Changes of the open transaction cannot be read yet."""
        if not self.changed:
            return
        read = {t for n in used for t in self._tables_below(n)}
        if read & self.changed:
            raise source.error(
                node,
                "E_TRANSACTION",
                f"{', '.join(sorted(read & self.changed))} was changed in this transaction, which cannot be read yet",
                "COMMIT first",
            )

    def _tables_below(self, name: str) -> list[str]:
        nodes = self.session[name]._node.walk()
        return [self.session._table_of(n)._label for n in nodes if isinstance(n, plan.Table)]

    def show(self, statement: reading.Statement) -> Result:
        """SHOW TABLES, SHOW VIEWS, SHOW plan"""
        what = statement.text.split()[1:]
        rest = " ".join(what).lower()
        if rest == "plan":
            return self.texts("plan", [self.plan or "default"])
        found = {"tables": self.session.tables, "views": self.session.views}
        if rest not in found:
            place = Source(statement.text).line_and_column(statement.text.lower().index("show"))
            raise SqlError("E_UNSUPPORTED", f"there is no SHOW {rest}", "SHOW TABLES, SHOW VIEWS or SHOW plan", *place)
        return self.texts(rest[:-1], sorted(found[rest]))

    def texts(self, column: str, values: Sequence[str]) -> Result:
        """An answer of one column."""
        codec = Codec((STR,), (column,), self.session._interner)
        return Result(codec, codec.encode_rows([(v,) for v in values]))

    # transactions

    def begin(self, node: exp.Transaction, source: Source) -> None:
        """BEGIN"""
        if self.transaction is not None:
            raise source.error(node, "E_TRANSACTION", "a transaction is open already", "COMMIT or ROLLBACK it")
        self.transaction = self.session.transaction()
        self.transaction.__enter__()

    def commit(self, node: exp.Commit, source: Source) -> None:
        """COMMIT"""
        self._end(node, source, None)

    def rollback(self, node: exp.Rollback, source: Source) -> None:
        """ROLLBACK"""
        self._end(node, source, RuntimeError)

    def _end(self, node: exp.Expr, source: Source, failure: type[Exception] | None) -> None:
        if self.transaction is None:
            raise source.error(node, "E_TRANSACTION", "no transaction is open", "begin one with BEGIN")
        transaction, self.transaction = self.transaction, None
        self.changed.clear()
        transaction.__exit__(failure, None, None)

    def mark(self, table: Table) -> None:
        """The table was changed in the open transaction, if there is one."""
        if self.transaction is not None:
            self.changed.add(table._label)

    def refuse_in_transaction(self, node: exp.Expr, source: Source) -> None:
        """What tables and views there are changes between transactions only."""
        if self.transaction is not None:
            raise source.error(
                node,
                "E_TRANSACTION",
                "tables and views cannot be created or dropped inside a transaction",
                "COMMIT first",
            )


_STATEMENTS = (
    "there are SELECT, CREATE TABLE, VIEW, SOURCE and SINK, DROP, INSERT, UPDATE, DELETE, TRUNCATE, EXPLAIN, SHOW, "
    "SET plan, SUBSCRIBE, RUN, BEGIN, COMMIT and ROLLBACK"
)

_COMMANDS: dict[str, Callable[[Statements, reading.Statement], Any]] = {
    "SHOW": Statements.show,
    "EXPLAIN": explaining.explain,
    "SUBSCRIBE": subscription.subscribe,
    "CREATE SOURCE": pipelines.create_source,
    "CREATE SINK": pipelines.create_sink,
    "RUN": pipelines.run,
}
"""Statements that sqlglot does not know, by their first word or two."""

_Handler = Callable[[Statements, Any, Source], Any]

_HANDLERS: dict[type[exp.Expr], _Handler] = {
    exp.Create: definitions.create,
    exp.Drop: definitions.drop,
    exp.Insert: changes.insert,
    exp.Update: changes.update,
    exp.Delete: changes.delete,
    exp.TruncateTable: changes.truncate,
    exp.Set: Statements.set_plan,
    exp.Transaction: Statements.begin,
    exp.Commit: Statements.commit,
    exp.Rollback: Statements.rollback,
}
"""The others, by what sqlglot takes them for; queries are many classes."""


def _handler(node: exp.Expr, source: Source) -> _Handler:
    if source.notes.definitions:
        return definitions.define
    if isinstance(node, reading.QUERIES):
        return Statements.select
    if type(node) not in _HANDLERS:
        raise source.refuse(node, f"this statement is not supported: {node.key.upper()}", _STATEMENTS)
    return _HANDLERS[type(node)]
