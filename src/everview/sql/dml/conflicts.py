"""INSERT ... ON CONFLICT DO UPDATE: rows with existing keys update the existing rows.

In SET and WHERE the existing row has the table's name, the new one is `excluded`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from sqlglot import exp

from everview.errors import InputError
from everview.expr.nodes import ColumnRef, Expr
from everview.language.relation import relation_of
from everview.session.rights.principal import doing
from everview.sql.answers.result import Row
from everview.sql.dml.affected_rows import Affected
from everview.sql.dml.omitted_columns import NOT_GIVEN
from everview.sql.text.error_positions import Source
from everview.types import NULL

if TYPE_CHECKING:
    from everview.session.table import Table
    from everview.sql.statements import Statements

Fit = Callable[[Expr, int, exp.Expr], Expr]
"""Converts a value to a column of the table, by position."""


def under(sql: Statements, table: Table, key: tuple[int, ...], codes: np.ndarray) -> np.ndarray:
    """Rows of a table with the keys of new rows (columns of codes), as seen by the current transaction."""
    keys = np.ascontiguousarray(codes[list(key)])
    keys = np.ascontiguousarray(keys[:, ~(keys == NULL).any(axis=0)])
    if key == relation_of(table).key:
        return sql.core.transactions.current(table, keys)
    transactions = sql.core.transactions
    pending = [c for queued in transactions.queued or [] for c in queued] + (transactions.staged or [])
    return sql.core.constraints.under(table, key, keys, pending)


def _may_come(sql: Statements, table: Table, rows: Sequence[Row]) -> None:
    """Refuse rows that could not be inserted, also those with a key that exists: else one could try which do."""
    if rows and sql.core.access.acting() is not None:
        with doing("ON CONFLICT"):
            sql.core.access.may_change(table, relation_of(table).codec.encode(rows), 1)


class DoNothing:
    """ON CONFLICT DO NOTHING: rows with an existing key are skipped."""

    def __init__(self, keys: Sequence[tuple[int, ...]]) -> None:
        self.keys = keys

    def kept(self, sql: Statements, table: Table, rows: list[Row]) -> list[Row]:
        """The rows that are new by all keys."""
        _may_come(sql, table, rows)
        for key in self.keys:
            if rows:
                rows = self._new(sql, table, key, rows)
        return rows

    def _new(self, sql: Statements, table: Table, key: tuple[int, ...], rows: list[Row]) -> list[Row]:
        codes = relation_of(table).codec.encode(rows)
        there = {tuple(k) for k in under(sql, table, key, codes)[list(key)].T.tolist()}
        found: list[Row] = []
        for i, row in enumerate(rows):
            own = tuple(codes[k, i].item() for k in key)
            if NULL in own or own not in there:
                there.add(own)
                found.append(row)
        return found


class DoUpdate:
    """A bound DO UPDATE SET ... [WHERE ...]"""

    def __init__(
        self,
        sql: Statements,
        node: exp.Insert,
        table: Table,
        key: tuple[int, ...],
        source: Source,
        settings: Mapping[int, exp.Expr | None],
        fit: Fit,
    ) -> None:
        """`settings`: by position the new value, None for DEFAULT"""
        clause = node.args["conflict"]
        target = node.this.this if isinstance(node.this, exp.Schema) else node.this
        self.sql = sql
        self.table = table
        self.key = key
        if not key:
            raise source.error(
                clause, "E_KEY", f"{relation_of(table).label} has no key, so nothing conflicts", "declare one"
            )
        tables = [(target.alias or target.name, table), ("excluded", table)]
        self.rows = Affected(sql, source, tables, within=node)
        new = {i: fit(self.rows.bound(value), i, value) for i, value in settings.items() if value is not None}
        self.unset = {i for i, value in settings.items() if value is None}
        old: list[Expr] = [ColumnRef(c.type, i) for i, c in enumerate(relation_of(table).columns)]
        self.outputs = [("", e) for e in (*old, *(new.get(i, e) for i, e in enumerate(old)))]
        where = clause.args.get("where")
        self.where = None if where is None else self.rows.condition(where.this)

    def split(self, rows: Sequence[Row]) -> tuple[list[Row], list[Row], list[Row]]:
        """New rows, deleted rows, and their replacements."""
        table, width = self.table, len(relation_of(self.table).columns)
        _may_come(self.sql, table, rows)
        codes = relation_of(table).codec.encode(rows)
        keys = [tuple(codes[k, i].item() for k in self.key) for i in range(len(rows))]
        found_there = under(self.sql, table, self.key, codes).T.tolist()
        there = {tuple(r[k] for k in self.key): r for r in found_there}
        if there:
            with doing("UPDATE"):
                self.sql.core.access.may_change(table, [tuple(r) for r in there.values()], -1)
        fresh: list[Row] = []
        pairs: list[Row] = []
        seen: set[tuple[int, ...]] = set()
        for row, key in zip(rows, keys, strict=True):
            if key in seen and NULL not in key:
                shown = ", ".join(repr(row[k]) for k in self.key)
                raise InputError("E_KEY", f"the key {shown} is given twice", "ON CONFLICT changes a row once")
            seen.add(key)
            if key in there:
                (old,) = relation_of(table).codec.decode_rows(np.array([there[key]], dtype=np.int64).T)
                pairs.append((*old, *row))
            else:
                fresh.append(row)
        found = self.rows.answer(pairs, self.outputs, self.where).rows()
        return fresh, [r[:width] for r in found], [self._replacement(r[width:]) for r in found]

    def _replacement(self, row: Row) -> Row:
        """A new row, without values for the columns that are set to DEFAULT."""
        return tuple(NOT_GIVEN if i in self.unset else v for i, v in enumerate(row)) if self.unset else row
