"""Changes by key: unique inserts, upserts, deletes. Each is a transaction of its own or part of the current one.

Each operation first reads the current rows under its keys, as seen by the current transaction, and then derives
deletions and insertions. There are two paths. Columns go through `current_rows`, which reads a whole index if that is
cheaper. A few rows (`few_...`) are looked up one by one in compiled code (`everview.kernels.trace.key_lookup`),
provided nothing staged or queued touches the table; the change is then one executor call.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from everview.kernels.trace.key_lookup import TOO_MANY, under_key
from everview.language.relation import relation_of
from everview.runtime.base import ChangeSet, columns_of, in_table_order, packer
from everview.session.changes.blocks import Transaction
from everview.session.changes.current_rows import last_of_each, records
from everview.session.changes.keys import key_missing, key_present, key_twice
from everview.session.changes.turns import writes
from everview.session.rights.principal import WHO, doing

if TYPE_CHECKING:
    from everview.session.core import Core
    from everview.session.table import Table

Row = tuple[int, ...]

ROOM = 4
"""Rows under one key that one call can return. There is only one unless rows were inserted without regard to the
key."""


class KeyedChanges:
    """Changes by key in a session."""

    def __init__(self, core: Core) -> None:
        self._core = core

    @writes
    def upsert(self, table: Table, codes: np.ndarray) -> None:
        """Replace rows by key: delete the rows under the new rows' keys, then insert the last row of each key."""
        transactions = self._core.transactions
        transactions.check_writable(table)
        with Transaction(self._core):
            table._alive()
            new = np.ascontiguousarray(codes[:, last_of_each(codes[list(relation_of(table).key)])])
            old = transactions.current(table, new[list(relation_of(table).key)])
            if old.size:
                with doing("UPDATE"):
                    transactions.stage(table, old, -1)
            transactions.stage(table, new, 1)

    @writes
    def few_upserts(self, table: Table, rows: list[Row]) -> None:
        """The same for a few rows."""
        last = {tuple([row[c] for c in relation_of(table).key]): row for row in rows}
        old = self._stored(table, last)
        if old is None or WHO.get() is not None:
            self.upsert(table, _columns(table, rows))
            return
        changes = ChangeSet(((table, old, -1),)) if old else ChangeSet()
        changes.append((table, [*last.values()], 1))
        self._core.transactions.add(changes)

    @writes
    def insert(self, table: Table, codes: np.ndarray) -> None:
        """Insert rows into a table with a key; a key that exists or occurs twice is an error."""
        transactions = self._core.transactions
        transactions.check_writable(table)
        with Transaction(self._core):
            table._alive()
            keys = codes[list(relation_of(table).key)]
            there = transactions.current(table, keys)
            if there.size:
                raise key_present(table, there[list(relation_of(table).key), 0])
            if len(last_of_each(keys)) < keys.shape[1]:
                raise key_twice(table, keys)
            transactions.stage(table, codes, 1)

    @writes
    def few_inserts(self, table: Table, rows: list[Row]) -> None:
        """The same for a few rows."""
        keys = {tuple([row[c] for c in relation_of(table).key]) for row in rows}
        there = self._stored(table, keys)
        if there is None or there or len(keys) < len(rows):
            self.insert(table, _columns(table, rows))  # it reports what is wrong with them
        else:
            self._core.transactions.add(ChangeSet(((table, rows, 1),)))

    @writes
    def delete(self, table: Table, keys: np.ndarray) -> None:
        """Delete the rows under keys, each given once; a missing key is an error."""
        transactions = self._core.transactions
        transactions.check_writable(table)
        if keys.shape[1] == 1 and (found := self._stored(table, [tuple(keys[:, 0].tolist())])):
            transactions.add(ChangeSet(((table, found, -1),)))
            return
        with Transaction(self._core):
            table._alive()
            keys = np.ascontiguousarray(keys[:, last_of_each(keys)]) if keys.size else keys
            old = transactions.current(table, keys)
            if old.shape[1] < keys.shape[1]:
                raise key_missing(
                    table, keys[:, ~np.isin(records(keys), records(old[list(relation_of(table).key)]))][:, 0]
                )
            if old.size:
                transactions.stage(table, old, -1)

    def _stored(self, table: Table, keys: Iterable[Row]) -> list[Row] | None:
        """The rows under keys, repeated by multiplicity; None if the index alone does not determine them."""
        core, arrangement = self._core, relation_of(table).arrangement
        if core.closed:
            core.alive()  # its memory has been freed
        core.transactions.check_writable(table)
        if core.transactions.waits(table):
            return None
        core.runtime.sync(arrangement.operator)
        width, time = arrangement.cols, core.runtime.dataflow.time
        out = np.empty(ROOM * (width + 1), dtype=np.int64)
        pack = packer(len(relation_of(table).key))
        found: list[Row] = []
        for key in keys:
            count = under_key(arrangement.trace.address, pack(*key), time, out)
            if count == TOO_MANY:
                return None
            words = out[: count * (width + 1)].tolist() if count else ()
            for at in range(0, len(words), width + 1):
                row = tuple(words[at : at + width])
                found += [row if arrangement.plain else in_table_order(row, arrangement.order)] * words[at + width]
        return found


def _columns(table: Table, rows: list[Row]) -> np.ndarray:
    return columns_of(rows) if rows else np.empty((len(relation_of(table).codec.types), 0), dtype=np.int64)
