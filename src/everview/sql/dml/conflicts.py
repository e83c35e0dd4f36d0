"""INSERT ... ON CONFLICT DO UPDATE: rows whose keys are there already change what is there.

In SET and WHERE the row that is there goes by the table's name, the new one by `excluded`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from sqlglot import exp

from everview.errors import InputError
from everview.expr.nodes import ColumnRef, Expr
from everview.session.rights.acting import doing
from everview.sql.answers.result import Row
from everview.sql.dml.affected import Affected
from everview.sql.text.places import Source

if TYPE_CHECKING:
    from everview.session.table import Table
    from everview.sql.statements import Statements

Fit = Callable[[Expr, int, exp.Expr], Expr]
"""A value as a column of the table, by position, wants it."""


class DoUpdate:
    """A bound DO UPDATE SET ... [WHERE ...]"""

    def __init__(
        self,
        sql: Statements,
        clause: exp.OnConflict,
        name: str,
        table: Table,
        source: Source,
        at: Sequence[int],
        fit: Fit,
    ) -> None:
        self.sql = sql
        self.table = table
        if not table._key:
            raise source.error(clause, "E_KEY", f"{table._label} has no key, so nothing conflicts", "declare one")
        self.rows = Affected(sql, source, [(name, table), ("excluded", table)])
        values = [fit(self.rows.bound(s.expression), i, s) for s, i in zip(clause.expressions, at, strict=True)]
        new = dict(zip(at, values, strict=True))
        old: list[Expr] = [ColumnRef(c.type, i) for i, c in enumerate(table._columns)]
        self.outputs = [("", e) for e in (*old, *(new.get(i, e) for i, e in enumerate(old)))]
        where = clause.args.get("where")
        self.where = None if where is None else self.rows.condition(where.this)

    def split(self, rows: Sequence[Row]) -> tuple[list[Row], list[Row], list[Row]]:
        """New rows, rows that go, and what comes in their place."""
        table, width = self.table, len(self.table._columns)
        codes = table._codec.encode(rows)
        keys = [tuple(codes[k, i].item() for k in table._key) for i in range(len(rows))]
        there = {tuple(r[k] for k in table._key): r for r in self.sql.core.transactions.present(table, keys)}
        if there:
            with doing("UPDATE"):
                self.sql.core.access.may_change(table, list(there.values()), -1)
        fresh: list[Row] = []
        pairs: list[Row] = []
        seen: set[tuple[int, ...]] = set()
        for row, key in zip(rows, keys, strict=True):
            if key in seen:
                shown = ", ".join(repr(row[k]) for k in table._key)
                raise InputError("E_KEY", f"the key {shown} is given twice", "ON CONFLICT changes a row once")
            seen.add(key)
            if key in there:
                (old,) = table._codec.decode_rows(np.array([there[key]], dtype=np.int64).T)
                pairs.append((*old, *row))
            else:
                fresh.append(row)
        found = self.rows.answer(pairs, self.outputs, self.where).rows()
        return fresh, [r[:width] for r in found], [r[width:] for r in found]
