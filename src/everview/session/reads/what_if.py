"""What would happen if: changes that are made, looked at, and then have not happened.

A step only appends to traces, and is undone by truncation (docs/design/2026-11-15-atomic-steps.md). So a question "what
if these rows went?" is a step like any other that is stopped before its commit: what it has added to each table and
view is copied, and the step is undone, all in one turn. Between turns nothing of it is there. Other threads read the
true state whenever they like; no log, no sink and no subscriber hears of it; a process that dies loses nothing.

Inside the block the changes are staged as a transaction's are (`everview.session.changes.transactions`), in a
`Supposition`. When this thread first reads something after a change, the step is run with all that was changed so far;
what is read is what is there, and what the step has added to it. It is an exact answer for every view, because it is
the step itself.

A question in one line, `db.what_if(delete=...).changes(view)`, has no block in which others could see it. If it says
which rows come and go, it is a turn that reads: nothing is staged, and no other thread's transaction is waited for. The
step, the copy and the undoing are one call of the kernels (`everview.kernels.run.supposing`).

Hazard: whatever reads traces directly (`explain`, `stats`, `as_of`, history) sees what is true, not what is supposed.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from everview.dataflow import shield
from everview.dataflow.batch_arrays import batch_arrays
from everview.dataflow.lending import visitors
from everview.dataflow.operators import Arrangement, Operator
from everview.errors import EverviewError, InputError, RowErrors, did_you_mean
from everview.expr.evaluate import ERRORS
from everview.kernels import make
from everview.kernels.trace import read
from everview.kernels.trace.trace import NO_SINCE, TRACE_COUNT
from everview.language.relation import relation_of
from everview.runtime.base import Change, ChangeSet
from everview.runtime.captures import Supposed
from everview.session.changes.transactions import Supposition, Transaction
from everview.session.changes.turns import failed, reads, turn
from everview.session.clock.follower import RESERVED_PREFIX
from everview.session.reads import shown
from everview.session.reads.followed import Followed
from everview.session.reads.snapshot import Snapshot, consolidated, in_order
from everview.session.rights.acting import WHO
from everview.session.view import View
from everview.stopping import helpers
from everview.types import INT, STR

if TYPE_CHECKING:
    from everview.session.core import Core
    from everview.session.table import Table

Row = tuple[Any, ...]


class WhatIf:
    """Changes that are only supposed; made by `db.what_if`.

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
        """where the sequences were when the block began"""

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
        try:  # no call before this: one that is cut off would leave the transaction open
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
        """A signal that comes meanwhile is heard at the end: the transaction inside leaves it to whoever is covered."""
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
            finally:  # a call that is cut off must not leave the supposed changes behind
                transaction.__exit__(Undone, error, None)
        self._transaction = self._staged = None

    def _refuse_inside(self) -> None:
        """Refuse to begin where another transaction is under way."""
        transactions = self._core.transactions
        if transactions.pending() is not None:
            inside = "another what_if" if transactions.supposed() is not None else "an open transaction"
            raise InputError(
                "E_WHAT_IF",
                f"what_if cannot begin inside {inside}",
                "end that first, or make these changes inside it, too",
            )

    # questions

    def changes(self, name: str) -> list[tuple[Row, int]]:
        """[(row, diff), ...]: the rows of a view or table that would come (positive) and go (negative)."""
        answer = self._asked()
        what = answer.of(name)
        answer.refuse_errors(what)
        change = answer.change(relation_of(what).arrangement)
        if change is None:
            return []
        return list(zip(relation_of(what).codec.decode_rows(change.columns), change.diffs.tolist(), strict=True))

    @property
    def changed(self) -> tuple[str, ...]:
        """The names of the tables and views that would not be the same."""
        return tuple(self._asked().names_changed())

    def errors(self, name: str) -> list[tuple[str, int]]:
        """[(what would go wrong, for how many rows), ...] in a view."""
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
        return "\n".join([head, *(shown.lines(COLUMNS, TYPES, rows) if rows else ["nothing would change"])])

    def _repr_html_(self) -> str:
        note = f"what if, at time {self._asked().time}"
        return shown.page(COLUMNS, TYPES, self._rows(), note) if self.changed else f"<p>{html.escape(str(self))}</p>"

    def _asked(self) -> _Answer:
        """The answer to what was given, or to what was changed so far, or in the end."""
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
        """What the changes mean, in a turn that reads, as `turns.reads` begins one; this is the short way."""
        core = self._core
        if core.lock._is_owned() or helpers or visitors:
            return self._ask_along(changes)
        try:
            with core.lock:
                if core.limits or core.unsettled or core.released or core.stop is not None or not core.runtime.sound:
                    return cast(_Answer, turn(core, _Answer, (core, changes)))
                replaced = shield.up(True)  # from here on as in a turn, of which every call is a part of the time
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
        """What was given, as codes, if it says which rows come and go; None if that depends on what is there, on
        defaults, or on who asks.
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
        """What the changes so far mean; computed again only if there are others since, or time has passed."""
        staged, core = self._staged, self._core
        assert staged is not None
        core.alive()
        if self._answer is None or not self._answer.is_of(staged, core.runtime.dataflow.time):
            self._answer = None
            self._answer = _Answer(core, staged)
        return self._answer

    # what this thread reads meanwhile

    def contents(self, what: Followed) -> Snapshot:
        """A table's or view's contents, as they would be."""
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
        """Rows of an arrangement that begin with some codes (in its order), as they would be."""
        change = self._current().change(arrangement)
        if change is None:
            return columns, counts
        mine = np.ones(len(change.diffs), dtype=np.bool_)
        for place, code in zip(arrangement.order, start, strict=False):
            mine &= change.columns[place] == code
        if not mine.any():
            return columns, counts
        return _together((columns, counts), _Change(change.columns[:, mine], change.diffs[mine]))

    def future(self, what: Followed) -> tuple[np.ndarray, np.ndarray]:
        """What would change in a table or view: codes in its order of columns, and diffs."""
        none = np.empty((relation_of(what).arrangement.cols, 0), dtype=np.int64), np.empty(0, dtype=np.int64)
        return self._current().change(relation_of(what).arrangement) or none

    def change_of(self, view: View, row: Sequence[int]) -> int:
        """How much more often a row, given as the codes of its columns, or of the first of them, would be in a view."""
        answer = self._asked()
        answer.refuse_errors(view)
        change = answer.change(relation_of(view).arrangement)
        if change is None:
            return 0
        mine = (change.columns[: len(row)] == np.array(row, dtype=np.int64)[:, None]).all(axis=0)
        return int(change.diffs[mine].sum())

    def errors_now(self, view: View) -> list[tuple[str, int]]:
        """What would go wrong in a view."""
        return self._current().errors_of(view)


class Undone(Exception):
    """Why the transaction of a `what_if` ends."""


class _Change(NamedTuple):
    """What is supposed to change: columns of codes in the collection's order, and diffs."""

    columns: np.ndarray
    diffs: np.ndarray


class _Answer:
    """What some changes would do to every table and view. Rows are decoded when they are asked for."""

    __slots__ = ("_catalog", "_changes", "_errors", "_found", "_made", "_overview", "_rearranged", "time")

    def __init__(self, core: Core, staged: ChangeSet) -> None:
        """In a turn."""
        if core.transactions.queued:
            core.transactions.catch_up()
        runtime, catalog = core.runtime, core.catalog
        self._changes: Sequence[Change] = staged if type(staged) is ChangeSet else list(staged)
        self.time = runtime.dataflow.time
        self._catalog = catalog
        self._rearranged = catalog.rearranged
        if runtime.backing.read_only:  # what the clock did there, the writer has told; nobody was waiting here
            core.clock.resume()
        self._overview = overview = catalog.overview
        self._made = runtime.dataflow.made
        self._found = core.transactions.suppose(staged, overview.operators)
        self._errors = NO_ERRORS
        if overview.fallible:
            operators = {o for several in overview.fallible.values() for o in several}
            self._errors = {o: _errors(core, o, self._found, self.time) for o in operators}

    def is_of(self, staged: Supposition, time: int) -> bool:
        """Whether these are the changes that it is the answer to, and nothing has happened since."""
        same = len(staged) == len(self._changes) and all(a is b for a, b in zip(staged, self._changes, strict=True))
        return same and time == self.time

    def of(self, name: str) -> Table | View:
        """The table or view of that name that there was."""
        named = self._overview.named
        if not isinstance(name, str) or name not in named:
            known = [n for n in named if not n.startswith(RESERVED_PREFIX)]
            raise InputError("E_NAME", f"no table or view is called {name!r}", did_you_mean(name, known))
        return named[name]

    def names_changed(self) -> list[str]:
        """Which tables and views would not be the same; nothing is unpacked for that."""
        if self._catalog.rearranged != self._rearranged:
            self._check_arrangements()
        return self._overview.names(self._found.changed)

    def changed(self) -> list[tuple[str, np.ndarray]]:
        """The same, with the diffs of the rows that come and go."""
        named = self._overview.named
        found = {
            name: self._found.get(relation_of(named[name]).arrangement.operator.number) for name in self.names_changed()
        }
        return [(name, captured.diffs) for name, captured in found.items() if captured is not None]

    def change(self, arrangement: Arrangement) -> _Change | None:
        """What would change in an arrangement; in one that was made since, for a query, it is in the plan already."""
        self._check_arrangements()
        if arrangement.operator.serial > self._made:  # its number may have been that of one that is gone
            return None
        captured = self._found.get(arrangement.operator.number)
        if captured is None:
            return None
        return _Change(in_order(captured.columns, arrangement.order), captured.diffs)

    def _check_arrangements(self) -> None:
        """Refuse to answer about tables and views that have been altered, or have other plans, since it was asked."""
        if self._catalog.rearranged != self._rearranged:
            raise InputError("E_WHAT_IF", "tables or plans were altered since this was asked", "ask db.what_if again")

    def errors_of(self, what: Table | View) -> list[tuple[str, int]]:
        """What would go wrong in a view, and for how many rows."""
        operators = self._overview.fallible.get(what, ()) if isinstance(what, View) else ()
        return [told for o in operators for told in self._errors[o]]

    def refuse_errors(self, what: Table | View) -> None:
        """Refuse to say what would be in a view that would lack rows."""
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
    """Add the rows that are given for each table, in one line."""
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
    """Errors that are there, and those that would be."""
    assert operator.trace is not None
    core.runtime.sync(operator)
    more = found.get(operator.number)
    if more is None and not make.peek(operator.trace.address, TRACE_COUNT):
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
