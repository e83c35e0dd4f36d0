"""Changes by key: inserts that must be new, upserts, deletes. Each is one transaction, or a part of the one under way.

All of them look first at what is there under their keys, as the transaction under way sees it, and then say what goes
and what comes. There are two ways. Columns go through `current_rows`, which reads a whole index if that is cheaper. A
few rows (`few_...`) are looked up one by one in compiled code (`everview.kernels.trace.keyed`) as long as nothing that
is staged or queued touches the table; the change is then one call of the executor.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from everview.kernels.trace.keyed import TOO_MANY, under_key
from everview.language.relation import relation_of
from everview.runtime.base import ChangeSet, columns_of, in_table_order, packer
from everview.session.changes.current_rows import last_of_each, records
from everview.session.changes.keys import key_missing, key_present, key_twice
from everview.session.changes.transactions import Transaction
from everview.session.changes.turns import writes
from everview.session.rights.acting import WHO, doing

if TYPE_CHECKING:
    from everview.session.core import Core
    from everview.session.table import Table

Row = tuple[int, ...]

ROOM = 4
"""Rows under one key that are read in one call. There is one, unless a program has put more there without its key."""


class ByKey:
    """What a session changes by key."""

    def __init__(self, core: Core) -> None:
        self._core = core

    @writes
    def upsert(self, table: Table, codes: np.ndarray) -> None:
        """Replace rows by key: take away what is there under the new rows' keys, then add the last row of each key."""
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
        """Add rows to a table with a key; a key that is there, or is given twice, is an error."""
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
            self.insert(table, _columns(table, rows))  # which says what is wrong with them
        else:
            self._core.transactions.add(ChangeSet(((table, rows, 1),)))

    @writes
    def delete(self, table: Table, keys: np.ndarray) -> None:
        """Take away the rows under keys, each given once; a key that is not there is an error."""
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
        """The rows under keys, each as often as it is there; None where the index alone does not tell."""
        core, arrangement = self._core, relation_of(table).arrangement
        if core.closed:
            core.alive()  # its memory is gone
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
