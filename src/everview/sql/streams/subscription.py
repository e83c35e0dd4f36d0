"""SUBSCRIBE: the changes of a view or query."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from everview.errors import InputError, did_you_mean
from everview.language.relation import relation_of
from everview.session.changes.batch import Batch
from everview.session.reads.subscribable import Subscribable
from everview.session.view import View
from everview.sql.ddl import schemas
from everview.sql.ddl.definitions import create_view
from everview.sql.rights import shared_queries
from everview.sql.rights.shares import Share
from everview.sql.text import consumed_parts, statement_reader
from everview.sql.text.error_positions import Source
from everview.sql.text.token_reader import Words

if TYPE_CHECKING:
    from everview.sql.statements import Statements


class Subscription:
    """The result of `SUBSCRIBE TO`: the changes of complete times, kept until they are taken; created by `db.sql`.

    >>> import everview as ev
    >>> db = ev.connect()
    >>> _ = db.sql("CREATE TABLE t (x int); INSERT INTO t VALUES (1)")
    >>> changes = db.sql("SUBSCRIBE TO (SELECT sum(x) AS s FROM t)")
    >>> db.sql("INSERT INTO t VALUES (2)")
    >>> changes.columns, list(changes)
    (['s'], [Batch(time=1, rows=[((1,), 1)]), Batch(time=2, rows=[((1,), -1), ((3,), 1)])])
    >>> changes.close()
    """

    def __init__(self, view: Subscribable | Share, *, snapshot: bool = True, own: bool = False) -> None:
        self._view = view
        self._own = own
        self._kept: deque[Batch] = deque()
        self._listener: Callable[[Batch], Any] = self._kept.append
        try:
            self._stop: Callable[[], None] | None = view.subscribe(self._take, snapshot=snapshot)
        except BaseException:
            if isinstance(view, Share):
                view.drop()
            raise

    @property
    def name(self) -> str:
        """The name of the table or view."""
        return relation_of(self._view).label

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return list(relation_of(self._view).codec.names)

    def __iter__(self) -> Iterator[Batch]:
        """The batches since the last iteration."""
        while self._kept:
            yield self._kept.popleft()

    def listen(self, function: Callable[[Batch], Any]) -> None:
        """Pass the batches so far and all later ones to a function, instead of keeping them."""
        self._listener = function
        for batch in self:
            function(batch)

    def close(self) -> None:
        """Unsubscribe; a query that was subscribed to is dropped."""
        if self._stop is not None:
            self._stop()
            self._stop = None
            if isinstance(self._view, Share) or (
                self._own and isinstance(self._view, View) and not relation_of(self._view).dropped
            ):
                self._view.drop()

    def _take(self, batch: Batch) -> None:
        self._listener(batch)

    def __repr__(self) -> str:
        return f"Subscription({self.name}, {len(self._kept)} batches wait)"


def subscribe(sql: Statements, statement: statement_reader.Statement) -> Subscription:
    """SUBSCRIBE [TO] view or table, or TO (query), [WITHOUT SNAPSHOT]"""
    words = Words(statement)
    words.need("SUBSCRIBE")
    words.next_is("TO")
    query = words.brackets()
    there = [*sql.session.views, *sql.session.tables]
    name = "" if query else schemas.found(sql.core, words.name("a view, a table or a query in brackets"), there)
    if name and name not in there:
        words.at -= 1
        raise words.error(f"there is no view or table {name}", did_you_mean(name, there), "E_TABLE")
    snapshot = not words.next_is("WITHOUT", "SNAPSHOT")
    words.end()
    if not query:
        return Subscription(shared_queries.of_name(sql, name), snapshot=snapshot)
    start = statement.text.index("(")
    blank = "".join("\n" if c == "\n" else " " for c in statement.text[:start])
    source = Source(blank + query, statement.notes, dialect=statement.dialect, zone=sql.core.zone, types=sql.core.types)
    if sql.core.access.acting() is not None:
        return Subscription(shared_queries.of_query(sql, source), snapshot=snapshot)
    sql.subscriptions += 1
    while (named := f"(subscription {sql.subscriptions})") in sql.core.catalog.views:  # of another connection
        sql.subscriptions += 1
    created = exp.Create(this=exp.to_table("s"), expression=statement_reader.parsed(source))
    view = consumed_parts.whole(created.expression, source, lambda: create_view(sql, named, created, source))()
    return Subscription(view, snapshot=snapshot, own=True)


def of_text(sql: Statements, query: str) -> Subscription:
    """Subscribe, without a snapshot, to one query that somebody else has written. A text between brackets may close
    them, and go on with statements of its own.
    """
    text = f"SUBSCRIBE TO (\n{query}\n) WITHOUT SNAPSHOT"
    count = sum(1 for _ in statement_reader.statements(text, lambda: sql.dialect))
    if count != 1:
        raise InputError("E_SYNTAX", f"one query can be followed, not {count} statements", "subscribe to each of them")
    found: Subscription = sql.run(text)
    return found
