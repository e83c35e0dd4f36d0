"""SELECT in a session with other threads: it neither waits for their steps nor blocks them.

What the query reads is copied, in a turn, or beside a computing step (`everview.session.reads.concurrent_reads`). The
rest is computed afterwards, while the session continues. A query that needs a temporary view waits for its turn; so
does a query inside a transaction, and one that reads files.

Beside a step no statistics can be read, because traces are changing: there joins are in textual order, and rows are not
looked up in indexes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from everview.errors import EverviewError
from everview.once.rows import Elsewhere
from everview.session.reads import concurrent_reads
from everview.sql.answers import lookups, one_off
from everview.sql.ddl import sql_functions
from everview.sql.select.compiler import Compiler
from everview.sql.select.scopes import Correlated
from everview.sql.text import consumed_parts, statement_reader
from everview.sql.text.error_positions import Source, SqlError

if TYPE_CHECKING:
    from everview.sql.answers.result import Result
    from everview.sql.statements import Statements

Compute = Callable[[], "Result"]


def there_is(sql: Statements) -> bool:
    """Whether other threads use the session, and this one may read beside them."""
    core = sql.core
    if core.runtime.dataflow.lender is None or sql.transaction is not None or core.lock._is_owned():
        return False
    return not (sql.dry or sql.written or sql.way is not None or core.transactions.pending() is not None)


def select(sql: Statements, node: exp.Expr, source: Source) -> Any:
    """A query's result."""
    compute: Compute | None = None
    if source.notes.as_of is None:
        if sql.core.unsettled:
            compute = concurrent_reads.visited(
                sql.core, lambda: _bound(sql, statement_reader.parsed(source), source, beside=True)
            )
        if compute is None:
            compute = sql._in_turn(True, False, _fetched, statement_reader.parsed(source), source)
    if compute is not None:
        try:
            return compute()
        except Elsewhere:
            pass
    return sql._in_turn(True, False, type(sql)._handle, type(sql).select, node, source)


def _fetched(sql: Statements, node: exp.Expr, source: Source) -> Compute | None:
    sql.core.transactions.catch_up()
    return _bound(sql, node, source, beside=False)


def _bound(sql: Statements, node: exp.Expr, source: Source, beside: bool) -> Compute | None:
    """The rest of the computation, once all that a query reads is copied; None if it has to be executed otherwise."""
    compiler = Compiler(sql.session, source)
    compiler.by_text = beside
    sql_functions.mark(node, sql.core.catalog)
    try:
        query = consumed_parts.whole(node, source, lambda: compiler.query(node, {}, None))
        if compiler.files:
            return None
        found = query.node if beside else lookups.done(sql.core, query.node)
        rest = one_off.fetched(sql.core, found)
        sql.read_at = sql.core.time
    except SqlError:
        raise
    except (Elsewhere, Correlated, EverviewError):
        return None
    return lambda: sql.result(query, rest())
