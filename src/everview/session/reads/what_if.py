"""What-if queries: hypothetical changes that are applied, read and undone.

A step only appends to traces and is undone by truncation (docs/design/2026-11-15-atomic-steps.md). A what-if query is
therefore an ordinary step that stops before its commit: its additions to each table and view are copied and the step is
undone, all within one turn. Between turns nothing of it remains. Other threads always read the true state; no log, sink
or subscriber is involved; a crash loses nothing.

Inside the block, changes are staged as in a transaction (`everview.session.changes.transactions`), in a `Supposition`.
The first read after a change runs the step with all changes so far. Its result is the true contents plus the additions
of the step, which is exact for every view because it is the step itself.

A one-line query, `db.what_if(delete=...).changes(view)`, has no block that others could observe. If it names its rows
explicitly, it is a read turn: nothing is staged, and it does not wait for other threads' transactions. Step, copy and
undo are one kernel call (`everview.kernels.run.hypothetical`).

Hazard: whatever reads traces directly (`explain`, `stats`, `as_of`, history) sees the true state, not the hypothetical
one.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from everview.cancellation import helpers
from everview.dataflow import shield
from everview.dataflow.batch_arrays import batch_arrays
from everview.dataflow.operators import Arrangement, Operator
from everview.dataflow.read_leases import visitors
from everview.errors import EverviewError, InputError, RowErrors, did_you_mean
from everview.expr.evaluate import ERRORS
from everview.kernels import structures
from everview.kernels.trace import read
from everview.kernels.trace.trace import NO_SINCE, TRACE_COUNT
from everview.language.relation import relation_of
from everview.runtime.base import Change, ChangeSet
from everview.runtime.captures import Supposed
from everview.session.changes.blocks import Transaction
from everview.session.changes.transactions import Supposition
from everview.session.changes.turns import failed, reads, turn
from everview.session.clock.follower import RESERVED_PREFIX
from everview.session.reads import rendering
from everview.session.reads.snapshot import Snapshot, consolidated, in_order
from everview.session.reads.subscribable import Subscribable
from everview.session.rights.principal import WHO
from everview.session.view import View
from everview.types import INT, STR

if TYPE_CHECKING:
    from everview.session.core import Core
    from everview.session.table import Table

Row = tuple[Any, ...]


class WhatIf:
    """Hypothetical changes; created by `db.what_if`.

    >>> import everview as ev
    >>> db = ev.connect()
    >>> edge = db.table("edge", {"src": int, "dst": int})
    >>> rules = db.datalog("reach(X) :- edge(1, X). reach(Y) :- reach(X), edge(X, Y).")
    >>> edge.insert([(1, 2), (2, 3), (1, 3), (3, 4)])
    >>> with db.what_if() as w:
    ...     edge.delete([(3, 4)])
    ...     print(w.changes("reach"), sorted(rules.reach.rows()))
    [((4,), -1)] [(2,), (3,)]
    >>> sorted(rules.reach.rows()), db.time
    ([(2,), (3,), (4,)], 1)
    >>> db.what_if(delete={"edge": [(1, 2)]}).changes("reach")
    [((2,), -1)]
    >>> print(db.what_if(delete={"edge": [(1, 2)]}, insert={"edge": [(4, 1)]}))
    what if, at time 1
    name   come  go
    -----  ----  --
    edge      1   1
    reach     1   1
    """

    __slots__ = ("__weakref__", "_answer", "_core", "_given", "_sequences", "_staged", "_transaction")

    def __init__(
        self,
        core: Core,
        delete: Mapping[str, Any] | None = None,
        insert: Mapping[str, Any] | None = None,
        upsert: Mapping[str, Any] | None = None,
    ) -> None:
        if core.closed:
            core.alive()
        self._core = core
        self._given: list[tuple[str, str, Any]] = []
        if delete is not None:
            _take(core, "delete", delete, self._given)
        if insert is not None:
            _take(core, "insert", insert, self._given)
        if upsert is not None:
            _take(core, "upsert", upsert, self._given)
        self._transaction: Transaction | None = None
        self._staged: Supposition | None = None
        self._answer: _Answer | None = None
        self._sequences: Any = None
        """the positions of the sequences when the block began"""

    # the block

    @shield.covered
    def __enter__(self) -> WhatIf:
        core = self._core
        core.alive()
        core.changing()
        self._refuse_inside()
        self._answer = None
        staged = Supposition(self)
        transaction = Transaction(core, into=staged)
        transaction.__enter__()
        self._transaction, self._staged = transaction, staged
        try:  # no call before this: an interrupted one would leave the transaction open
            self._sequences = core.defaults.memory()
            for how, name, rows in self._given:
                getattr(core.session[name], how)(rows)
        except BaseException as error:
            try:
                self._leave(error)
            finally:
                shield.down(shield.NOTHING)
            raise
        return self

    @shield.covered
    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Signals are deferred until the end: the inner transaction leaves them to its caller."""
        staged, answer = self._staged, self._answer
        replaced = shield.up()
        try:
            if kind is None and (
                answer is None or staged is None or not answer.is_of(staged, self._core.runtime.dataflow.time)
            ):
                self._current()
        finally:
            try:
                self._leave(error)
            finally:
                shield.down(replaced)

    def _leave(self, error: BaseException | None) -> None:
        transaction = self._transaction
        if transaction is not None:
            try:
                if self._sequences is not None:
                    self._core.defaults.recall(self._sequences)
            finally:  # an interrupted call must not leave the hypothetical changes behind
                transaction.__exit__(Undone, error, None)
        self._transaction = self._staged = None

    def _refuse_inside(self) -> None:
        """Refuse to begin inside another transaction."""
        transactions = self._core.transactions
        if transactions.pending() is not None:
            inside = "another what_if" if transactions.supposed() is not None else "an open transaction"
            raise InputError(
                "E_WHAT_IF",
                f"what_if cannot begin inside {inside}",
                "end that first, or make these changes inside it, too",
            )

    # queries

    def changes(self, name: str) -> list[tuple[Row, int]]:
        """[(row, diff), ...]: the rows of a view or table that would be inserted (positive) and deleted (negative)."""
        answer = self._asked()
        what = answer.of(name)
        answer.refuse_errors(what)
        change = answer.change(relation_of(what).arrangement)
        if change is None:
            return []
        return list(zip(relation_of(what).codec.decode_rows(change.columns), change.diffs.tolist(), strict=True))

    @property
    def changed(self) -> tuple[str, ...]:
        """The names of the tables and views that would change."""
        return tuple(self._asked().names_changed())

    def errors(self, name: str) -> list[tuple[str, int]]:
        """[(error, number of rows), ...] that a view would have."""
        answer = self._asked()
        return answer.errors_of(answer.of(name))

    def __repr__(self) -> str:
        if self._answer is None:
            return f"WhatIf({len(self._given if self._staged is None else self._staged)} changes, not asked yet)"
        return f"WhatIf(time {self._answer.time}, would change: {', '.join(self.changed) or 'nothing'})"

    def _rows(self) -> list[Row]:
        changed = self._asked().changed()
        return [(name, int(diffs[diffs > 0].sum()), -int(diffs[diffs < 0].sum())) for name, diffs in changed]

    def __str__(self) -> str:
        rows = self._rows()
        head = f"what if, at time {self._asked().time}"
        return "\n".join([head, *(rendering.lines(COLUMNS, TYPES, rows) if rows else ["nothing would change"])])

    def _repr_html_(self) -> str:
        note = f"what if, at time {self._asked().time}"
        return (
            rendering.page(COLUMNS, TYPES, self._rows(), note) if self.changed else f"<p>{html.escape(str(self))}</p>"
        )

    def _asked(self) -> _Answer:
        """The answer for the given rows, for the changes so far, or for those at the end of the block."""
        staged = self._staged
        if staged is not None:
            if self._core.transactions.supposed() is not self:
                raise InputError("E_WHAT_IF", "another thread is using this what_if", "ask there, or when it is over")
            return self._current()
        if self._answer is None:
            if (changes := self._plain()) is None:
                with self:
                    pass
            else:
                self._answer = self._ask(changes)
        assert self._answer is not None
        return self._answer

    @shield.covered
    def _ask(self, changes: ChangeSet) -> _Answer:
        """Compute the answer in a read turn, begun as in `turns.reads`; this is the fast path."""
        core = self._core
        if core.lock._is_owned() or helpers or visitors:
            return self._ask_along(changes)
        try:
            with core.lock:
                if core.limits or core.unsettled or core.released or core.stop is not None or not core.runtime.sound:
                    return cast(_Answer, turn(core, _Answer, (core, changes)))
                replaced = shield.up(True)  # from here on as in a turn, where every call costs time
                try:
                    core.unsettled = True
                    try:
                        answer = _Answer(core, changes)
                    except EverviewError as error:
                        failed(core, error)
                        raise
                    core.unsettled = False
                    return answer
                finally:
                    shield.down(replaced)
        finally:
            if core.subscriptions.pending:
                core.subscriptions.deliver()

    # answers

    def _plain(self) -> ChangeSet | None:
        """The given rows as codes, if they are explicit; None if they depend on current contents, on defaults, or on
        the user.
        """
        core = self._core
        if core.transactions.staged is not None:
            self._refuse_inside()
        if WHO.get() is not None:
            return None
        staged = ChangeSet()
        catalog = core.catalog
        for how, name, rows in self._given:
            table = catalog.tables[name]
            relation = relation_of(table)
            if relation.dropped or how == "upsert" or (how == "insert" and (relation.key or catalog.defaults)):
                return None
            few = relation.codec.encode_few(rows)
            codes = relation.codec.encode(rows) if few is None else few
            staged.append((table, codes, 1 if how == "insert" else -1))
        return staged

    @reads
    def _ask_along(self, changes: ChangeSet) -> _Answer:
        return _Answer(self._core, changes)

    @reads
    def _current(self) -> _Answer:
        """The answer for the changes so far, recomputed only after further changes or a new time."""
        staged, core = self._staged, self._core
        assert staged is not None
        core.alive()
        if self._answer is None or not self._answer.is_of(staged, core.runtime.dataflow.time):
            self._answer = None
            self._answer = _Answer(core, staged)
        return self._answer

    # reads by this thread

    def contents(self, what: Subscribable) -> Snapshot:
        """The hypothetical contents of a table or view."""
        answer, core = self._current(), self._core
        change = answer.change(relation_of(what).arrangement)
        if isinstance(what, View):
            answer.refuse_errors(what)
        snapshot = Snapshot(core, relation_of(what).arrangement, relation_of(what).codec, core.runtime.dataflow.time)
        if change is not None:
            snapshot._copy = _together(snapshot._contents(), change)
        return snapshot

    def added_to(
        self, arrangement: Arrangement, start: tuple[int, ...], columns: np.ndarray, counts: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Rows of an arrangement with a prefix (in its column order), with the hypothetical changes."""
        change = self._current().change(arrangement)
        if change is None:
            return columns, counts
        mine = np.ones(len(change.diffs), dtype=np.bool_)
        for place, code in zip(arrangement.order, start, strict=False):
            mine &= change.columns[place] == code
        if not mine.any():
            return columns, counts
        return _together((columns, counts), _Change(change.columns[:, mine], change.diffs[mine]))

    def future(self, what: Subscribable) -> tuple[np.ndarray, np.ndarray]:
        """The changes of a table or view: codes in its column order, and diffs."""
        none = np.empty((relation_of(what).arrangement.cols, 0), dtype=np.int64), np.empty(0, dtype=np.int64)
        return self._current().change(relation_of(what).arrangement) or none

    def change_of(self, view: View, row: Sequence[int]) -> int:
        """The change in multiplicity of a row of a view, given as the codes of its columns or of the first of them."""
        answer = self._asked()
        answer.refuse_errors(view)
        change = answer.change(relation_of(view).arrangement)
        if change is None:
            return 0
        mine = (change.columns[: len(row)] == np.array(row, dtype=np.int64)[:, None]).all(axis=0)
        return int(change.diffs[mine].sum())

    def errors_now(self, view: View) -> list[tuple[str, int]]:
        """The errors that a view would have."""
        return self._current().errors_of(view)


class Undone(Exception):
    """Raised internally to end the transaction of a `what_if`."""


class _Change(NamedTuple):
    """A hypothetical change: columns of codes in the collection's order, and diffs."""

    columns: np.ndarray
    diffs: np.ndarray


class _Answer:
    """The effect of some changes on every table and view. Rows are decoded on first access."""

    __slots__ = ("_catalog", "_changes", "_errors", "_found", "_made", "_overview", "_rearranged", "time")

    def __init__(self, core: Core, staged: ChangeSet) -> None:
        """Call it in a turn."""
        if core.transactions.queued:
            core.transactions.catch_up()
        runtime, catalog = core.runtime, core.catalog
        self._changes: Sequence[Change] = staged if type(staged) is ChangeSet else list(staged)
        self.time = runtime.dataflow.time
        self._catalog = catalog
        self._rearranged = catalog.rearranged
        if runtime.backing.read_only:  # the writer delivers what the clock did; nobody waits for it here
            core.clock.resume()
        self._overview = overview = catalog.overview
        self._made = runtime.dataflow.made
        self._found = core.transactions.suppose(staged, overview.operators)
        self._errors = NO_ERRORS
        if overview.fallible:
            operators = {o for several in overview.fallible.values() for o in several}
            self._errors = {o: _errors(core, o, self._found, self.time) for o in operators}

    def is_of(self, staged: Supposition, time: int) -> bool:
        """Whether this is the answer for these changes, and nothing has happened since."""
        same = len(staged) == len(self._changes) and all(a is b for a, b in zip(staged, self._changes, strict=True))
        return same and time == self.time

    def of(self, name: str) -> Table | View:
        """The table or view of that name at the time of the query."""
        named = self._overview.named
        if not isinstance(name, str) or name not in named:
            known = [n for n in named if not n.startswith(RESERVED_PREFIX)]
            raise InputError("E_NAME", f"no table or view is called {name!r}", did_you_mean(name, known))
        return named[name]

    def names_changed(self) -> list[str]:
        """The names of the tables and views that would change, without unpacking the changes."""
        if self._catalog.rearranged != self._rearranged:
            self._check_arrangements()
        return self._overview.names(self._found.changed)

    def changed(self) -> list[tuple[str, np.ndarray]]:
        """The same, with the diffs of the changed rows."""
        named = self._overview.named
        found = {
            name: self._found.get(relation_of(named[name]).arrangement.operator.number) for name in self.names_changed()
        }
        return [(name, captured.diffs) for name, captured in found.items() if captured is not None]

    def change(self, arrangement: Arrangement) -> _Change | None:
        """The changes of an arrangement; one that was created since, for a query, has them in its plan already."""
        self._check_arrangements()
        if arrangement.operator.serial > self._made:  # its number may have belonged to one that was freed
            return None
        captured = self._found.get(arrangement.operator.number)
        if captured is None:
            return None
        return _Change(in_order(captured.columns, arrangement.order), captured.diffs)

    def _check_arrangements(self) -> None:
        """Refuse to answer about tables and views that were altered or replanned after the query."""
        if self._catalog.rearranged != self._rearranged:
            raise InputError("E_WHAT_IF", "tables or plans were altered since this was asked", "ask db.what_if again")

    def errors_of(self, what: Table | View) -> list[tuple[str, int]]:
        """The errors that a view would have, with numbers of rows."""
        operators = self._overview.fallible.get(what, ()) if isinstance(what, View) else ()
        return [told for o in operators for told in self._errors[o]]

    def refuse_errors(self, what: Table | View) -> None:
        """Refuse to return the contents of a view that would lack rows."""
        if errors := self.errors_of(what):
            told = ", ".join(f"{text} ({n})" for text, n in errors)
            raise RowErrors(
                "E_ROWS",
                f"view {relation_of(what).label!r} would hold rows that could not be computed: {told}",
                "guard the expression with when(...); errors() of what_if lists them",
            )


NO_ERRORS: dict[Operator, list[tuple[str, int]]] = {}
COLUMNS = ("name", "come", "go")
TYPES = (STR, INT, INT)


def _take(core: Core, how: str, given: Any, into: list[tuple[str, str, Any]]) -> None:
    """Stage the rows given for each table in a one-line query."""
    if type(given) is not dict and not isinstance(given, Mapping):
        raise InputError("E_TYPE", f"what_if({how}={given!r})", f'name the tables: {how}={{"table": [rows]}}')
    for name, rows in given.items():
        if name not in core.catalog.tables:
            known = [n for n in core.catalog.tables if not n.startswith(RESERVED_PREFIX)]
            what = f"{name!r} is a view" if name in core.catalog.views else f"no table is called {name!r}"
            raise InputError("E_NAME", f"what_if({how}=...): {what}", did_you_mean(name, known))
        if not isinstance(rows, (list, tuple)) or rows:
            into.append((how, name, rows))


def _errors(core: Core, operator: Operator, found: Supposed, time: int) -> list[tuple[str, int]]:
    """The current errors, and the hypothetical ones."""
    assert operator.trace is not None
    core.runtime.sync(operator)
    more = found.get(operator.number)
    if more is None and not structures.peek(operator.trace.address, TRACE_COUNT):
        return []
    batch = read.collect(operator.trace.address, NO_SINCE, max(time, operator.trace.since), 0)
    columns, _, counts = batch_arrays(batch, 1)
    read.release(batch)
    if more is not None:
        columns, counts = _together((columns, counts), _Change(more.columns, more.diffs))
    return [(ERRORS[code], n) for code, n in zip(columns[0].tolist(), counts.tolist(), strict=True)]


def _together(there: tuple[np.ndarray, np.ndarray], change: _Change) -> tuple[np.ndarray, np.ndarray]:
    columns, counts = there
    return consolidated(np.hstack([columns, change.columns]), np.concatenate([counts, change.diffs]))
