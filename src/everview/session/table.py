"""Base tables: the inputs of a session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from everview.errors import ClosedError, InputError
from everview.expr.resolve import Column
from everview.plan import nodes as plan
from everview.session.changes.keys import key_codes
from everview.session.changes.turns import reads, writes
from everview.session.reads import concurrent_reads, keyed
from everview.session.reads.snapshot import Snapshot, check_time, first_columns, read_key
from everview.session.reads.subscribable import Subscribable
from everview.session.relations import TableRelation, declared_columns
from everview.types import DataType

if TYPE_CHECKING:
    from everview.session.core import Core


class Table(Subscribable):
    """A base table: a collection that can be changed. Created by `db.table`.

    >>> import everview as ev
    >>> db = ev.connect()
    >>> fruit = db.table("fruit", {"name": str, "price": float})
    >>> fruit.insert([("pear", 1.5), ("fig", 2.0), ("fig", 2.0)])
    >>> fruit.delete([("fig", 2.0)])
    >>> sorted(fruit.rows()), db.time
    ([('fig', 2.0), ('pear', 1.5)], 2)
    """

    _relation: TableRelation

    def __init__(
        self, core: Core, name: str, columns: Sequence[Column], node: plan.Table, key: tuple[int, ...]
    ) -> None:
        self._core = core
        self._relation = TableRelation(core, name, columns, node, key)

    def schema(self) -> dict[str, DataType]:
        """Names and declared types of the columns, in order.

        >>> import everview as ev
        >>> db = ev.connect()
        >>> db.table("fruit", {"name": "varchar(9)", "price": float}).schema()
        {'name': varchar(9), 'price': float}
        """
        return dict(declared_columns(self._relation))

    # changing

    def insert(self, rows: Any) -> None:
        """Add rows: tuples or dicts in a list, an Arrow table, a pandas or polars frame, or columns in a dict.

        In a table with a key, inserting an existing key is an error, as in SQL; `upsert` replaces rows.

        >>> import everview as ev
        >>> db = ev.connect()
        >>> stock = db.table("stock", {"item": str, "n": int}, key="item")
        >>> stock.insert([("pear", 3)])
        >>> try:
        ...     stock.insert([("fig", 1), ("pear", 5)])
        ... except ev.InputError as error:
        ...     print(error.message)
        table 'stock' already has a row with key 'pear'
        >>> stock.rows()
        [('pear', 3)]
        """
        core, relation = self._core, self._relation  # once: attribute access is slow here
        if core.catalog.defaults:
            rows = core.defaults.filled(self, rows)
        if not relation.key:
            core.transactions.change(self, relation, rows, 1)
            return
        self._alive()
        if (few := relation.codec.encode_few(rows)) is not None:
            core.by_key.few_inserts(self, few)
        else:
            core.by_key.insert(self, relation.codec.encode(rows))

    def delete(self, rows: Any = None, *, keys: Any = None) -> None:
        """Delete rows, each as often as it is given; or those with these `keys`, each a value, or a tuple for a key of
        several columns. Rows that are absent at the end of the transaction, and keys that are absent now, are an error.

        >>> import everview as ev
        >>> db = ev.connect()
        >>> stock = db.table("stock", {"item": str, "n": int}, key="item")
        >>> stock.insert([("pear", 3), ("fig", 1), ("plum", 9)])
        >>> stock.delete([("pear", 3)])
        >>> stock.delete(keys=["fig"])
        >>> stock.rows()
        [('plum', 9)]
        """
        if (rows is None) == (keys is None):
            raise InputError("E_TYPE", "delete takes rows, or keys", "write delete(rows) or delete(keys=[...])")
        if keys is None:
            try:
                self._core.transactions.change(self, self._relation, rows, -1)
            except InputError as error:
                if self._relation.key and error.code in ("E_TYPE", "E_WIDTH"):
                    error.hint = f"{error.hint}; to delete by key, write delete(keys=[...])"
                raise
            return
        self._alive()
        self._core.by_key.delete(self, key_codes(self, keys))

    def upsert(self, rows: Any) -> None:
        """Insert rows into a table with a key, replacing those with the same keys: SQL's INSERT OR REPLACE. Of several
        rows with one key the last one wins.

        >>> import everview as ev
        >>> db = ev.connect()
        >>> stock = db.table("stock", {"item": str, "n": int}, key="item")
        >>> stock.upsert([("pear", 3)])
        >>> stock.upsert([("pear", 5), ("fig", 1)])
        >>> sorted(stock.rows())
        [('fig', 1), ('pear', 5)]
        """
        if not self._relation.key:
            raise InputError(
                "E_NO_KEY", f"table {self._relation.label!r} has no key", 'declare one: db.table(..., key="column")'
            )
        self._alive()
        if self._core.catalog.defaults:
            rows = self._core.defaults.filled(self, rows)
        if (few := self._relation.codec.encode_few(rows)) is not None:
            self._core.by_key.few_upserts(self, few)
        else:
            self._core.by_key.upsert(self, self._relation.codec.encode(rows))

    def clear(self) -> None:
        """Delete all rows."""
        self._alive()
        self._core.transactions.clear(self)

    @writes
    def drop(self, *, cascade: bool = False) -> None:
        """Remove the table; views that read it must be dropped first, or with it (`cascade=True`)."""
        core = self._core
        self._alive()
        core.changing()
        if any(table is self for table, _, _ in core.transactions.staged or ()):
            raise InputError(
                "E_IN_USE",
                f"table {self._relation.label!r} is changed by the transaction under way",
                "end the transaction first",
            )
        core.definitions.tables.drop(self, cascade)

    def _alive(self) -> None:
        if self._relation.dropped:
            raise ClosedError("E_DROPPED", f"table {self._relation.label!r} was dropped", "make it again with db.table")
        self._core.alive()

    # reading

    def _now_beside(self) -> Snapshot | None:
        """The same while another thread's step runs."""
        return (
            None
            if self._relation.dropped
            else concurrent_reads.present(self._core, self._relation.arrangement, self._relation.codec)
        )

    @concurrent_reads.beside(_now_beside)
    @reads
    def _now(self) -> Snapshot:
        self._alive()
        self._core.transactions.catch_up()
        if (supposed := self._core.transactions.supposed()) is not None:
            return supposed.contents(self)
        return Snapshot(self._core, self._relation.arrangement, self._relation.codec, self._core.runtime.dataflow.time)

    @reads
    def as_of(self, time: int) -> Snapshot:
        """The contents at an earlier time (kept readable while the result lives)."""
        self._alive()
        check_time("as_of", time)
        self._core.transactions.catch_up()
        return Snapshot(self._core, self._relation.arrangement, self._relation.codec, time)

    def _lookup_beside(self, key: Any) -> list[tuple[Any, ...]] | None:
        """The same while another thread's step runs."""
        columns = self._relation.key or first_columns(self._relation.codec, key)
        return (
            None
            if self._relation.dropped
            else concurrent_reads.looked_up(self._core, self._relation.arrangement, self._relation.codec, columns, key)
        )

    def lookup(self, key: Any) -> list[tuple[Any, ...]]:
        """Rows by primary key, or by the first column(s)."""
        found = keyed.looked_up(self._core, self._relation, self._relation.key, key)
        return self._lookup(key) if found is None else found

    @concurrent_reads.beside(_lookup_beside)
    @reads
    def _lookup(self, key: Any) -> list[tuple[Any, ...]]:
        """The same without a prepared reader."""
        self._alive()
        self._core.transactions.catch_up()
        columns = self._relation.key or first_columns(self._relation.codec, key)
        return read_key(self._core, self._relation.arrangement, self._relation.codec, columns, key)
