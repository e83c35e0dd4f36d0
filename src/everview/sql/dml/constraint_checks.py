"""Constraint checks at the end of a statement.

A step rejects violations (`everview.session.changes.constraints`), so the end of a transaction is always checked.
Inside one, PostgreSQL checks after each statement, and programs rely on it: they catch the error of one INSERT and roll
back to a savepoint. After a statement of an open transaction its own changes are therefore checked here, by look-ups;
and referential actions are added, so that the next statement sees them.

INITIALLY DEFERRED constraints wait for the end. So do changes made from Python inside `db.transaction()`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from everview.errors import ConstraintError, EverviewError
from everview.expr.evaluate import evaluate
from everview.expr.nodes import ColumnRef
from everview.language.relation import relation_of
from everview.plan import nodes as plan
from everview.runtime.base import Change, ChangeSet, RemoteRows, columns_of
from everview.session.changes.constraints import CODES, places, unnamed, violation
from everview.session.changes.current_rows import records
from everview.session.names.constraint_rules import CASCADE, CHECK, FOREIGN_KEY, NO_ACTION, UNIQUE, Rule
from everview.session.rights.principal import acting
from everview.types import NULL

if TYPE_CHECKING:
    from everview.session.core import Core
    from everview.session.table import Table
    from everview.sql.answers.result import Row
    from everview.sql.statements import Statements


@contextmanager
def statement(core: Core) -> Iterator[None]:
    """A statement, possibly of an open transaction: its changes are checked there, and undone if it fails."""
    staged = core.transactions.pending()
    before = len(staged) if staged is not None else 0
    try:
        yield
        if staged is not None:
            after(core, staged, before)
    except BaseException:
        if staged is not None:
            del staged[before:]
        raise


def after(core: Core, staged: ChangeSet, start: int) -> None:
    """Check the changes of a statement, from number `start` of an open transaction on."""
    if len(staged) == start or not core.constraints.rules():
        return
    if core.constraints.acting:
        core.constraints.extend(staged, start)
    batch = [c for c in staged[start:] if not isinstance(c[1], RemoteRows) and len(c[1])]
    changed = {relation_of(t).label: t for t, _, _ in batch}
    for rule in core.constraints.rules():
        if rule.deferred:
            continue
        if rule.table in changed:
            _look_here(core, rule, changed[rule.table], batch, staged)
        if rule.kind == FOREIGN_KEY and rule.other in changed:
            _look_at_parent(core, rule, changed[rule.other], batch, staged)


def _pending(core: Core, staged: Sequence[Change]) -> list[Change]:
    return [c for queued in core.transactions.queued or [] for c in queued] + list(staged)


def _keys(table: Table, at: tuple[int, ...], batch: Sequence[Change]) -> np.ndarray:
    """Keys of the inserted rows, each once, without NULLs."""
    came = [columns_of(rows)[list(at)] for t, rows, diff in batch if t is table and diff > 0]
    if not came:
        return np.empty((len(at), 0), dtype=np.int64)
    keys = np.unique(np.concatenate(came, axis=1), axis=1)
    return np.ascontiguousarray(keys[:, ~(keys == NULL).any(axis=0)])


def _look_here(core: Core, rule: Rule, table: Table, batch: Sequence[Change], staged: ChangeSet) -> None:
    constraints = core.constraints
    if rule.kind == CHECK:
        _check(core, rule, table, batch)
        return
    at = places(table, rule.columns)
    keys = _keys(table, at, batch)
    if not keys.size:
        return
    if rule.kind == UNIQUE:
        there = constraints.under(table, at, keys, _pending(core, staged))[list(at)]
        found, counts = np.unique(there, axis=1, return_counts=True)
        if (counts > 1).any():
            raise violation(core, rule, table, found[:, int(np.argmax(counts > 1))].tolist())
        return
    parent = core.catalog.tables[rule.other]
    other = places(parent, rule.other_columns)
    there = constraints.under(parent, other, keys, _pending(core, staged))[list(other)]
    missing = (
        ~np.isin(records(keys), records(np.ascontiguousarray(there))) if there.size else np.ones(keys.shape[1], bool)
    )
    if missing.any():
        raise violation(core, rule, table, keys[:, int(np.argmax(missing))].tolist())


def _look_at_parent(core: Core, rule: Rule, parent: Table, batch: Sequence[Change], staged: ChangeSet) -> None:
    pending = _pending(core, staged)
    gone = core.constraints.gone(parent, places(parent, rule.other_columns), batch, pending)
    if gone.size:
        _refuse_orphans(core, rule, gone, pending)


def _refuse_orphans(core: Core, rule: Rule, gone: np.ndarray, pending: Sequence[Change]) -> None:
    child = core.catalog.tables[rule.table]
    at = places(child, rule.columns)
    left = core.constraints.under(child, at, gone, pending)
    if left.size:
        raise violation(core, rule, child, left[list(at), 0].tolist(), parent=True)


def _check(core: Core, rule: Rule, table: Table, batch: Sequence[Change]) -> None:
    guard = relation_of(core.constraints.view_of(rule)).node
    assert isinstance(guard, plan.Guard)
    for changed, rows, diff in batch:
        if changed is table and diff > 0:
            broken = _rows_of(core, guard.child, np.ascontiguousarray(columns_of(rows)))
            if broken.shape[1]:
                raise violation(core, rule, table, broken[:, 0].tolist(), whole=guard.child.types)


def proposed(core: Core, table: Table, codes: np.ndarray) -> None:
    """Check the CHECKs of rows that ON CONFLICT may skip: as in PostgreSQL, they must hold for those, too."""
    for rule in core.constraints.rules(relation_of(table).label):
        if rule.kind == CHECK:
            _check(core, rule, table, [(table, codes.T.tolist(), 1)])


def _rows_of(core: Core, node: plan.Node, rows: np.ndarray) -> np.ndarray:
    """The output of a plan of filters and projections for some of a table's rows; a failing row counts as one."""
    if isinstance(node, plan.Table):
        return rows
    assert isinstance(node, plan.Filter | plan.Project)
    below = _rows_of(core, node.child, rows)
    if isinstance(node, plan.Project):
        return evaluate(node.exprs, None, below, core.interner).codes
    every = tuple(ColumnRef(t, i) for i, t in enumerate(node.types))
    found = evaluate(every, node.predicate, below, core.interner)
    failed = np.flatnonzero(found.errors)
    return below[:, failed] if failed.size else found.codes


# keys that change


def moved(sql: Statements, table: Table, old: list[Row], changed: list[Row]) -> None:
    """After an UPDATE replaced rows, in order: apply referential actions for changed keys. In a transaction."""
    core = sql.core
    for rule in core.constraints.referring(relation_of(table).label):
        at = list(places(table, rule.other_columns))
        before, now = relation_of(table).codec.encode(old)[at], relation_of(table).codec.encode(changed)[at]
        differ = (before != now).any(axis=0)
        if not differ.any():
            continue
        before, now = np.ascontiguousarray(before[:, differ]), now[:, differ]
        staged = core.transactions.pending()
        assert staged is not None
        pending = _pending(core, staged)
        if rule.on_update == NO_ACTION:
            gone = core.constraints.gone(table, tuple(at), [(table, relation_of(table).codec.encode(old), -1)], pending)
            if gone.size:
                _refuse_orphans(core, rule, gone, pending)
        else:
            _move_along(sql, rule, before, now, pending)


def _move_along(sql: Statements, rule: Rule, before: np.ndarray, now: np.ndarray, pending: Sequence[Change]) -> None:
    from everview.sql.dml.changes import replace_rows  # each calls the other

    child = sql.core.catalog.tables[rule.table]
    at = places(child, rule.columns)
    keys = np.ascontiguousarray(before[:, ~(before == NULL).any(axis=0)])
    rows = sql.core.constraints.under(child, at, keys, pending) if keys.size else keys
    if not rows.size:
        return
    to = dict(zip(map(tuple, before.T.tolist()), now.T.tolist(), strict=True))
    new = rows.copy()
    for i in range(rows.shape[1]):
        key = tuple(rows[list(at), i].tolist())
        new[list(at), i] = to[key] if rule.on_update == CASCADE else NULL
    if rule.on_update != CASCADE:
        sql.core.constraints.refuse_nulls(rule, child)
    decode = relation_of(child).codec.decode_rows
    try:
        with acting(None):  # as for deletions: what refers to a row follows it, whoever may see that
            replace_rows(sql, child, decode(np.ascontiguousarray(rows)), decode(np.ascontiguousarray(new)))
    except EverviewError:
        who = sql.core.access.acting()
        if who is None or sql.core.access.sees_all(rule.table, who):
            raise
        raise unnamed(ConstraintError(CODES[rule.kind], "", "")) from None  # it may tell a row
