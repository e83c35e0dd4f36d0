"""Constraints of tables: CHECK, UNIQUE and FOREIGN KEY.

A constraint is a hidden view whose plan ends in a `Guard` (`everview.plan.nodes`). The view holds the violating rows,
or the keys that must be unique. The guard rejects a violating step from within the step, so it does not matter how rows
arrive: SQL, Python, COPY, a source, a server, shards. A constraint costs what its plan costs for the change.

    CHECK         Guard[Project[Filter[t, not condition], its columns and the key], 0]
    UNIQUE        Guard[Project[t, columns], 1]                                      NULLs left out
    FOREIGN KEY   Guard[Project[t, columns] - Project[Join[t, other], columns], 0]   NULLs left out

Being a view, it is rebuilt by ALTER, on opening a directory, and on shards, and is dropped with its table. UNIQUE and
FOREIGN KEY also keep an index of the table by their columns, under the constraint's name, for look-ups.

The referential actions of foreign keys (CASCADE, SET NULL, SET DEFAULT) are added to the transaction before its step
(`Constraints.extend`). A guard checks at the end of a transaction; SQL also checks after each statement
(`everview.sql.dml.constraint_checks`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from everview.codes.codec import Codec
from everview.codes.values import encode_value
from everview.dataflow.operators import Arrangement
from everview.errors import ConstraintError, InputError
from everview.expr.evaluate import ERRORS
from everview.language.relation import relation_of
from everview.plan import nodes as plan
from everview.runtime.base import Change, ChangeSet, RemoteRows, columns_of
from everview.session.changes import current_rows
from everview.session.names.constraint_rules import CASCADE, CHECK, FOREIGN_KEY, NO_ACTION, SET_DEFAULT, UNIQUE, Rule
from everview.types import NULL, DataType

if TYPE_CHECKING:
    from everview.session.core import Core
    from everview.session.table import Table
    from everview.session.view import View

CODES = {CHECK: "E_CHECK", UNIQUE: "E_UNIQUE", FOREIGN_KEY: "E_FOREIGN_KEY"}

MOST_ROUNDS = 1000
"""Maximum length of a chain of cascading deletions."""


class Constraints:
    """The constraints of a session's tables."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.acting = False
        """whether any foreign key has a referential action"""

    def all(self) -> list[View]:
        """The hidden views of all constraints."""
        return [v for v in self._core.catalog.views.values() if relation_of(v).rule is not None]

    def rules(self, table: str | None = None) -> list[Rule]:
        """The constraints of one table, or of all."""
        return [r for v in self.all() if (r := relation_of(v).rule) is not None and table in (None, r.table)]

    def referring(self, table: str) -> list[Rule]:
        """The foreign keys that refer to a table."""
        return [r for r in self.rules() if r.kind == FOREIGN_KEY and r.other == table]

    def referred(self, rule: Rule) -> bool:
        """Whether a foreign key depends on a UNIQUE constraint."""
        return any({*r.other_columns} == {*rule.columns} for r in self.referring(rule.table))

    def view_of(self, rule: Rule) -> View:
        """The hidden view of a constraint."""
        return next(v for v in self.all() if relation_of(v).rule == rule)

    def noticed(self) -> None:
        """Update caches after constraints were added or dropped."""
        self.acting = any(r.on_delete != NO_ACTION for r in self.rules() if r.kind == FOREIGN_KEY)

    # error messages

    def explained(
        self,
        error: ConstraintError,
        changes: Iterable[Change],
        rule: Rule | None = None,
        types: Sequence[DataType] = (),
    ) -> ConstraintError:
        """Describe the constraint that a row violates: an existing one, or one being created."""
        view = self._core.catalog.views.get(error.guard)
        if view is not None and rule is None:
            rule, types = relation_of(view).rule, relation_of(view).node.types
        if rule is not None and not error.constraint:
            self._say(error, rule, types, [*changes])
        return error

    def _say(self, error: ConstraintError, rule: Rule, types: Sequence[DataType], changes: list[Change]) -> None:
        error.code, error.table, error.constraint = CODES[rule.kind], rule.table, rule.name
        if error.failed:
            said = f"{rule.declared()} cannot be computed: {ERRORS[error.codes[0]]}"
        else:
            names = [f"c{i}" for i in range(len(error.codes))]
            values = Codec(tuple(types), names, self._core.interner).decode_row(error.codes)
            parent = rule.kind == FOREIGN_KEY and self._parent_went(rule, error.codes, changes)
            said = broken(rule, values, parent, shown_columns(rule, self._core.catalog.tables[rule.table]))
        tell(self._core, error, rule, said)

    def _parent_went(self, rule: Rule, key: tuple[int, ...], changes: list[Change]) -> bool:
        """Whether the violation is a deleted parent row rather than a new child row."""
        came = [
            (rows, places(t, rule.columns))
            for t, rows, diff in changes
            if relation_of(t).label == rule.table and diff > 0
        ]
        return not any(key in _keys(rows, at) for rows, at in came)

    # look-ups

    def index(self, table: Table, columns: Sequence[int]) -> Arrangement | None:
        """Find an index of a table that begins with these columns, in this order."""
        for found in relation_of(table).arrangements:
            if found.order[: len(columns)] == tuple(columns):
                return found
        return None

    def under(self, table: Table, columns: tuple[int, ...], keys: np.ndarray, pending: Iterable[Change]) -> np.ndarray:
        """Rows of a table under keys, including staged and queued changes."""
        arrangement = self.index(table, columns)
        if arrangement is None:
            raise InputError(
                "E_IN_USE", f"table {relation_of(table).label!r} has lost an index that a constraint needs", ""
            )
        runtime = self._core.runtime
        runtime.sync(arrangement.operator)
        mine = [(columns_of(rows), diff) for t, rows, diff in pending if t is table and len(rows)]
        counted = [(c, np.full(c.shape[1], diff, dtype=np.int64)) for c, diff in mine]
        return current_rows.current(arrangement, runtime.dataflow.time, counted, columns, keys)

    # referential actions

    def extend(self, changes: ChangeSet, start: int = 0) -> None:
        """Add the referential actions of foreign keys to a transaction, for its changes from number `start` on."""
        done, rounds = start, 0
        while done < len(changes):
            batch, done = changes[done:], len(changes)
            for parent in {
                relation_of(t).label: t for t, rows, diff in batch if diff < 0 and not isinstance(rows, RemoteRows)
            }:
                for rule in self.referring(parent):
                    if rule.on_delete != NO_ACTION:
                        self._follow(rule, batch, changes)
            rounds += 1
            if rounds > MOST_ROUNDS:
                raise InputError("E_DEPTH", "foreign keys that cascade go on and on", "delete in several statements")

    def _follow(self, rule: Rule, batch: Sequence[Change], changes: ChangeSet) -> None:
        catalog = self._core.catalog
        parent, child = catalog.tables[rule.other], catalog.tables[rule.table]
        there, here = places(parent, rule.other_columns), places(child, rule.columns)
        pending = [c for queued in self._core.transactions.queued or [] for c in queued] + changes
        gone = self.gone(parent, there, batch, pending)
        if not gone.size:
            return
        rows = self.under(child, here, gone, pending)
        if not rows.size:
            return
        changes.append((child, rows, -1))
        if rule.on_delete != CASCADE:
            changes.append((child, self._emptied(rule, child, here, rows), 1))

    def gone(
        self, parent: Table, at: tuple[int, ...], batch: Sequence[Change], pending: Sequence[Change]
    ) -> np.ndarray:
        """Keys of rows that the changes delete and that no longer exist afterwards."""
        taken = [columns_of(rows)[list(at)] for t, rows, diff in batch if t is parent and diff < 0 and len(rows)]
        if not taken:
            return np.empty((len(at), 0), dtype=np.int64)
        keys = np.unique(np.concatenate(taken, axis=1), axis=1)
        keys = np.ascontiguousarray(keys[:, ~(keys == NULL).any(axis=0)])
        left = self.under(parent, at, keys, pending)
        if left.size:
            still = np.isin(current_rows.records(keys), current_rows.records(np.ascontiguousarray(left[list(at)])))
            keys = np.ascontiguousarray(keys[:, ~still])
        return keys

    def _emptied(self, rule: Rule, child: Table, at: tuple[int, ...], rows: np.ndarray) -> np.ndarray:
        """Rows with NULL, or the default, in the referring columns."""
        changed = rows.copy()
        for place, column in zip(at, rule.columns, strict=True):
            if rule.on_delete == SET_DEFAULT:
                value = self._core.defaults.constant(child, column)
                changed[place] = encode_value(relation_of(child).codec.types[place], value, self._core.interner)
            else:
                changed[place] = NULL
        if rule.on_delete != SET_DEFAULT:
            self.refuse_nulls(rule, child)
        return changed

    def refuse_nulls(self, rule: Rule, child: Table) -> None:
        """Refuse to set NOT NULL columns to NULL."""
        for place, column in zip(places(child, rule.columns), rule.columns, strict=True):
            if not relation_of(child).columns[place].type.nullable:
                if is_hidden(self._core, rule):
                    raise unnamed(ConstraintError(CODES[rule.kind], "", ""))
                what = f"table {relation_of(child).label!r}: {column} would be NULL, which it must not be"
                raise InputError("E_NULL", f"{what} (constraint {rule.name})", "delete the rows that refer to it first")


def shown_columns(rule: Rule, table: Table) -> list[str]:
    """The columns that identify a row violating a CHECK: those it reads, and the key."""
    key = [relation_of(table).columns[k].name for k in relation_of(table).key]
    return [*rule.columns, *(k for k in key if k not in rule.columns)]


def broken(rule: Rule, values: Sequence[Any], parent: bool = False, columns: Sequence[str] = ()) -> str:
    """Describe the violation by a row or a key.

    >>> broken(Rule("k", UNIQUE, "t", ("x", "y")), (1, "a"))
    "(x, y) = (1, 'a') is there twice"
    """
    key = f"({', '.join(columns if rule.kind == CHECK else rule.columns)}) = ({', '.join(map(repr, values))})"
    if rule.kind == CHECK:
        return f"a row with {key} breaks {rule.declared()}"
    if rule.kind == UNIQUE:
        return f"{key} is there twice"
    if parent:
        return f"{key} still refers to a row of {rule.other} that is gone"
    return f"{key} refers to no row of {rule.other} ({', '.join(rule.other_columns)})"


def violation(
    core: Core,
    rule: Rule,
    table: Table,
    codes: Sequence[int],
    *,
    parent: bool = False,
    whole: Sequence[DataType] = (),
) -> ConstraintError:
    """Return the error for a key (or a `whole` row) that violates a constraint."""
    types = whole or [relation_of(table).columns[c].type for c in places(table, rule.columns)]
    values = Codec(tuple(types), [f"c{i}" for i in range(len(types))], core.interner).decode_row(tuple(codes))
    error = ConstraintError(CODES[rule.kind], "", "nothing was changed")
    error.table, error.constraint, error.codes = rule.table, rule.name, tuple(codes)
    tell(core, error, rule, broken(rule, values, parent, shown_columns(rule, table)))
    return error


def tell(core: Core, error: ConstraintError, rule: Rule, said: str) -> None:
    """Return the error as the current principal may see it. An affected row may belong to somebody else: users who
    cannot see all rows are shown none of them, and users who cannot see the table do not learn its name. Keys are
    shown, because the user supplied them.
    """
    if is_hidden(core, rule):
        unnamed(error)
        return
    if rule.kind == CHECK and core.access.policies(rule.table, "SELECT") is not None:
        said = f"a row breaks {rule.declared()}"
    _with_message(error, f"table {rule.table!r}: {said} (constraint {rule.name})")


def is_hidden(core: Core, rule: Rule) -> bool:
    """Whether the current principal does not see the table of a constraint."""
    return core.access.acting() is not None and not core.access.sees("relation", rule.table)


def unnamed(error: ConstraintError) -> ConstraintError:
    """An error about a table that the current principal does not see."""
    error.table = error.constraint = ""
    return _with_message(error, "rows that you may not see refer to these, or would break a constraint")


def _with_message(error: ConstraintError, message: str) -> ConstraintError:
    error.message, error.hint = message, "nothing was changed"
    error.args = (error.code, error.message, error.hint)
    return error


def guard(rule: Rule, name: str, child: plan.Node) -> plan.Guard:
    """The guard of a constraint."""
    return plan.Guard(child, 1 if rule.kind == UNIQUE else 0, name)


def places(table: Table, columns: Sequence[str]) -> tuple[int, ...]:
    """The positions of columns in a table."""
    names = [c.name for c in relation_of(table).columns]
    return tuple(names.index(c) for c in columns)


def _keys(rows: Any, at: tuple[int, ...]) -> set[tuple[int, ...]]:
    """The keys of rows that are held locally."""
    if isinstance(rows, RemoteRows):
        return set()
    return {tuple(k) for k in columns_of(rows)[list(at)].T.tolist()} if len(rows) else set()
