"""A transaction's view of its own changes.

Changes are staged and run when the transaction ends (`everview.session.changes.transactions`), so tables do not contain
them yet. A query inside the transaction reads, in place of each changed table, the table plus the inserted rows and
minus the deleted ones, which are inlined into its plan. Views in the query are replaced by their plans over those. It
therefore costs as much as from scratch, but only for what depends on a changed table; the rest uses existing indexes.

Clock followers (windows on tables, conditions on now(), times to live) would add changes at the end of the transaction:
these are computed here and undone again.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from everview.errors import InputError
from everview.language.relation import relation_of
from everview.plan import nodes as plan
from everview.plan.substitute import substituted
from everview.runtime.base import RemoteRows
from everview.session.core import Core
from everview.session.table import Table


def seen(core: Core, node: plan.Node, until: int | None = None) -> plan.Node:
    """The plan as seen by this thread's open transaction, if any; `until`: only so many of its changes."""
    staged = (core.transactions.pending() or [])[:until]
    if not staged:
        return node
    nets: dict[int, tuple[Table, Counter[tuple[int, ...]]]] = {}
    for table, rows, diff in _with_followers(core, list(staged)):
        if isinstance(rows, RemoteRows):
            raise InputError("E_TRANSACTION", "rows that are not here yet cannot be read", "end the transaction first")
        _, net = nets.setdefault(id(table), (table, Counter()))
        for row in rows.T.tolist() if isinstance(rows, np.ndarray) else rows:
            net[tuple(row)] += diff
    return substituted(node, {relation_of(table).node: _changed(table, net) for table, net in nets.values()})


def rows_of(core: Core, table: Table) -> list[tuple[Any, ...]]:
    """A table's rows as the open transaction sees them."""
    return relation_of(table).codec.decode_rows(core.transactions.current(table, None))


def _with_followers(core: Core, work: list[Any]) -> list[Any]:
    """Changes with those of the clock followers, whose state is restored afterwards."""
    clock = core.clock
    if not clock.followers:
        return work
    clock.extend(work, exactly=True)()
    return work


def _changed(table: Table, net: Counter[tuple[int, ...]]) -> plan.Node:
    """A table's plan with its rows changed."""
    inputs: list[plan.Node] = [relation_of(table).node]
    for sign in (1, -1):
        codes = [row for row, n in net.items() for _ in range(n * sign)]
        if codes:
            rows = relation_of(table).codec.decode_rows(np.ascontiguousarray(np.array(codes, dtype=np.int64).T))
            constant = plan.Constant(tuple(map(tuple, rows)), relation_of(table).node.types)
            inputs.append(constant if sign > 0 else plan.Negate(constant))
    return plan.Union(tuple(inputs)) if len(inputs) > 1 else relation_of(table).node
