"""A share: the part of a table or view that one tenant sees, with the methods of the whole.

The rows of all tenants are stored together. A share selects its own: those with given codes in some columns (`Part`),
found by comparing words, or those that satisfy a condition. It reads contents, history and changes of the whole and
filters them, so that it is indistinguishable from a view with only those rows.

Changes come from one subscription to the whole, for all its shares (`Router`): each batch is split once, by the
distinct codes in it, and each share gets its part. The work is per changed row, not per tenant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from everview.codes.codec import Codec
from everview.dataflow.operators import Operator
from everview.dataflow.read_leases import is_guest
from everview.errors import CompactedError, InputError
from everview.expr.evaluate import evaluate
from everview.expr.nodes import Expr
from everview.language.relation import relation_of
from everview.session.changes.batch import Batch
from everview.session.changes.turns import reads
from everview.session.reads.contents import Row
from everview.session.reads.snapshot import Snapshot, check_time, read_codes
from everview.session.reads.subscribable import Subscribable
from everview.session.relations import KeptRelation, TableRelation
from everview.session.view import View

if TYPE_CHECKING:
    from everview.session.core import Core
    from everview.session.table import Table

Mask = Callable[[np.ndarray], np.ndarray]
"""From columns of codes to the numbers of one's own rows."""

Listener = Callable[[Batch], Any]


def equal_to(positions: Sequence[int], codes: Sequence[int]) -> Mask:
    """Rows that have given codes in some columns.

    >>> equal_to([1], [7])(np.array([[1, 2, 3], [7, 8, 7]])).tolist()
    [0, 2]
    """

    def mask(columns: np.ndarray) -> np.ndarray:
        found = np.ones(columns.shape[1], dtype=bool)
        for position, code in zip(positions, codes, strict=True):
            found &= columns[position] == code
        return np.flatnonzero(found)

    return mask


def fulfilling(core: Core, predicate: Expr) -> Mask:
    """Rows that fulfil a condition; one that cannot be computed for a row is not fulfilled."""

    def mask(columns: np.ndarray) -> np.ndarray:
        if not columns.shape[1]:
            return np.empty(0, dtype=np.int64)
        return evaluate((), predicate, np.ascontiguousarray(columns), core.interner).kept

    return mask


_ROWS_ONE_BY_ONE = 32
"""Number of rows of a batch up to which they are split one by one."""


class Router:
    """One subscription to a table or view, for all its shares; on the engine's thread."""

    def __init__(self, of: Subscribable, positions: Sequence[int]) -> None:
        self.of = of
        self.positions = list(positions)
        self.routes: dict[tuple[int, ...], list[Listener]] = {}
        self._stop: Any = None

    def listen(self, codes: tuple[int, ...], listener: Listener) -> Callable[[], None]:
        """Deliver the rows with these codes to a listener; return a function that ends that."""
        self.routes.setdefault(codes, []).append(listener)
        if self._stop is None:
            self._stop = self.of.subscribe(self._route, snapshot=False)

        def leave() -> None:
            left = [one for one in self.routes.get(codes, []) if one is not listener]
            if left:
                self.routes[codes] = left
            else:
                self.routes.pop(codes, None)
            if not self.routes and self._stop is not None:
                self._stop()
                self._stop = None

        return leave

    def _route(self, batch: Batch) -> None:
        """Split a batch by codes."""
        if not self.positions:
            for listener in self.routes.get((), ()):
                listener(batch)
            return
        columns, diffs, codec = batch._columns, batch._diffs, batch._codec
        keys = columns[self.positions]
        for codes, rows in _few(keys) if columns.shape[1] <= _ROWS_ONE_BY_ONE else _many(keys):
            listeners = self.routes.get(codes)
            if listeners:
                piece = batch
                if len(rows) < columns.shape[1]:
                    piece = Batch(batch.time, codec, np.ascontiguousarray(columns[:, rows]), diffs[rows])
                for listener in listeners:
                    listener(piece)


Parted = Iterator[tuple[tuple[int, ...], Any]]
"""Codes, and the numbers of the rows that have them."""


def _few(keys: np.ndarray) -> Parted:
    """One by one: most changes affect one or two tenants, and sorting costs more."""
    rows: dict[tuple[int, ...], list[int]] = {}
    for number, codes in enumerate(zip(*keys.tolist(), strict=True)):
        rows.setdefault(codes, []).append(number)
    return iter(sorted(rows.items()))


def _many(keys: np.ndarray) -> Parted:
    if len(keys) == 1:
        distinct, places = np.unique(keys[0], return_inverse=True)
        found = [(int(code),) for code in distinct.tolist()]
    else:
        pairs, places = np.unique(keys, axis=1, return_inverse=True)
        found = [tuple(column) for column in pairs.T.tolist()]
    places = places.reshape(-1)
    order = np.argsort(places, kind="stable")
    bounds = np.searchsorted(places[order], np.arange(len(found) + 1))
    for i, codes in enumerate(found):
        yield codes, order[bounds[i] : bounds[i + 1]]


def routed(of: Subscribable, positions: Sequence[int]) -> Router:
    """The router of a table or view by some columns, shared by all."""
    known: dict[Any, Router] = of._core.attached.setdefault("routers", {})
    key = id(of), tuple(positions)
    found = known.get(key)
    if found is None or found.of is not of or relation_of(of).dropped:
        for other in [k for k, r in known.items() if relation_of(r.of).dropped]:
            del known[other]
        found = known[key] = Router(of, positions)
    return found


class Own(KeptRelation):
    """The interface of a share, in place of the whole."""

    def __init__(self, of: KeptRelation, hidden: int = 0) -> None:
        vars(self).update(vars(of))
        self._of = of
        self.kind = of.kind
        self.columns = of.columns[hidden:]
        if hidden:
            self.codec = Codec(of.codec.types[hidden:], of.codec.names[hidden:], of.codec.interner)
        self.key: tuple[int, ...] = of.key if isinstance(of, TableRelation) else ()
        self.fallible: list[Operator] = []

    @property
    def dropped(self) -> bool:  # type: ignore[override]
        """Whether the whole was dropped: shares are not dropped separately."""
        return self._of.dropped


class Share:
    """The rows of a table or view that are somebody's own."""

    def __init__(
        self,
        of: Subscribable,
        mask: Mask,
        *,
        route: tuple[list[int], tuple[int, ...]] | None = None,
        hidden: int = 0,
        since: int = 0,
        way: str = "",
        complete: Callable[[], None] | None = None,
    ) -> None:
        self._of = of
        self._core = of._core
        self._mask = mask
        self._route = route
        self._hidden = hidden
        """leading columns that are hidden"""
        self.way = way
        self._complete = complete
        """raises if some of one's own rows could not be computed; None where the whole reports them"""
        mine = self._relation = Own(relation_of(of), hidden)
        mine.installed_at = max(mine.installed_at, since)
        self._ends: list[Callable[[], None]] = []
        self.reads: tuple[str, ...] = ()
        """the tables and views behind it, which must stay granted while it lives"""

    def _alive(self) -> None:
        self._of._alive()

    def _refuse_errors(self, time: int | None = None) -> None:
        """Raise if some of one's own rows are missing; others' missing rows are not revealed."""
        if self._complete is None:
            self._of._refuse_errors(time)
        elif isinstance(self._of, View) and relation_of(self._of).fallible:
            now = self._core.time
            if self._of._errors_at(now if time is None else min(time, now)):
                self._complete()

    # contents

    def _part(self, columns: np.ndarray, *others: np.ndarray) -> tuple[np.ndarray, ...]:
        kept = self._mask(columns)
        return np.ascontiguousarray(columns[self._hidden :, kept]), *(other[kept] for other in others)

    def _snapshot(self, whole: Snapshot) -> Snapshot:
        columns, counts = self._part(*whole._contents())
        return Snapshot.copied(
            self._core, relation_of(self._of).arrangement, self._relation.codec, whole.time, (columns, counts)
        )

    def _now(self) -> Snapshot:
        """The present contents."""
        direct = self._direct()
        if direct is None:
            return self._snapshot(self._of._now())
        columns, counts = direct
        time = self._core.runtime.dataflow.time
        contents = np.ascontiguousarray(columns[self._hidden :]), counts
        return Snapshot.copied(self._core, relation_of(self._of).arrangement, self._relation.codec, time, contents)

    def _direct(self) -> tuple[np.ndarray, np.ndarray] | None:
        """The current contents, from an index with the codes first; None if there is none."""
        if self._route is None or not self._route[0] or self._core.transactions.supposed() is not None or is_guest():
            return None
        positions, codes = self._route
        arrangement = relation_of(self._of).arrangement
        if set(arrangement.order[: len(positions)]) != set(positions):
            return None
        self._alive()
        self._core.transactions.catch_up()
        self._refuse_errors()
        start = tuple(codes[positions.index(c)] for c in arrangement.order[: len(positions)])
        return read_codes(self._core.runtime, arrangement, start, self._core.runtime.dataflow.time)

    def as_of(self, time: int) -> Snapshot:
        """The contents at an earlier time."""
        check_time("as_of", time)
        if time < self._relation.installed_at and self._relation.installed_at > relation_of(self._of).installed_at:
            raise CompactedError(
                "E_COMPACTED", f"it is kept since time {self._relation.installed_at}", "ask for a later time"
            )
        self._refuse_errors(time)
        return self._snapshot(self._whole(time))

    @reads
    def _whole(self, time: int) -> Snapshot:
        self._alive()
        self._core.transactions.catch_up()
        return Snapshot(self._core, relation_of(self._of).arrangement, relation_of(self._of).codec, time)

    def rows(self) -> list[Row]:
        """All rows."""
        return self._now().rows()

    def counts(self) -> dict[Row, int]:
        """Each distinct row with its multiplicity."""
        return self._now().counts()

    def schema(self) -> dict[str, Any]:
        """Names and types of the columns."""
        return {c.name: c.type for c in self._relation.columns}

    def _text(self, rows: int) -> str:
        return self._now().text(rows)

    def lookup(self, key: Any) -> list[Row]:
        """Rows with a key, of one's own."""
        of: Any = self._of
        found = of.lookup(key)
        if not found:
            return []
        codes = relation_of(self._of).codec.encode(found)
        (own,) = self._part(codes)
        return self._relation.codec.decode_rows(own)

    def errors(self) -> list[tuple[str, int]]:
        """Empty: errors may concern others' rows."""
        return []

    # changes

    def _changes(self, since: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        if since < self._relation.installed_at and self._relation.installed_at > relation_of(self._of).installed_at:
            raise CompactedError(
                "E_COMPACTED", f"it is kept since time {self._relation.installed_at}", "read its contents"
            )
        columns, times, diffs = self._part(*self._of._changes(since))
        return columns, times, diffs

    def changes(self, since: int) -> list[tuple[Row, int, int]]:
        """[(row, time, diff), ...] after a time."""
        self._refuse_errors()
        columns, times, diffs = self._changes(since)
        return list(zip(self._relation.codec.decode_rows(columns), times.tolist(), diffs.tolist(), strict=True))

    def _present(self) -> Batch:
        now = self._now()
        return Batch(now.time, self._relation.codec, *now._contents())

    def subscribe(self, function: Listener, *, snapshot: bool = True) -> Callable[[], None]:
        """Call a function with each complete time's changes of one's own rows."""
        self._alive()
        with nullcontext() if is_guest() else self._core.writing:  # whose step waits for its guests
            self._core.transactions.catch_up()
            if snapshot and len(present := self._present()):
                function(present)
            if self._route is not None:
                positions, codes, now = *self._route, self._core.time

                def later(batch: Batch) -> None:
                    if batch.time > now:  # changes of a finished step may not have been delivered yet
                        function(self._own(batch))

                return routed(self._of, positions).listen(codes, later)
            return self._of.subscribe(lambda batch: self._filtered(function, batch), snapshot=False)  # type: ignore[no-any-return]

    def _own(self, batch: Batch) -> Batch:
        if not self._hidden:
            return batch
        return Batch(
            batch.time, self._relation.codec, np.ascontiguousarray(batch._columns[self._hidden :]), batch._diffs
        )

    def _filtered(self, function: Listener, batch: Batch) -> None:
        columns, diffs = self._part(batch._columns, batch._diffs)
        if len(diffs):
            function(Batch(batch.time, self._relation.codec, columns, diffs))

    # ending

    def when_closed(self, function: Callable[[], None]) -> None:
        """Register a callback for when the share is no longer needed."""
        self._ends.append(function)

    def drop(self) -> None:
        """Release the share; the whole stays, for others."""
        ends, self._ends = self._ends, []
        for end in ends:
            end()


class Computed:
    """What a user sees of a table or view whose policy reads other tables, or the clock: computed on demand."""

    def __init__(self, of: Subscribable | Table, rows: Callable[[], np.ndarray]) -> None:
        self._of, self._core, self._rows = of, of._core, rows
        self._relation = Own(relation_of(of))

    def _alive(self) -> None:
        self._of._alive()

    def _now(self) -> Snapshot:
        columns = np.ascontiguousarray(self._rows())
        contents = columns, np.ones(columns.shape[1], dtype=np.int64)
        return Snapshot.copied(
            self._core, relation_of(self._of).arrangement, self._relation.codec, self._core.time, contents
        )

    def rows(self) -> list[Row]:
        """All rows."""
        return self._now().rows()

    def counts(self) -> dict[Row, int]:
        """Each distinct row with its multiplicity."""
        found: dict[Row, int] = {}
        for row in self.rows():
            found[row] = found.get(row, 0) + 1
        return found

    def _text(self, rows: int) -> str:
        return self._now().text(rows)

    def errors(self) -> list[tuple[str, int]]:
        """Empty: errors may concern others' rows."""
        return []

    def _refused(self, *_: object) -> Any:
        raise InputError(
            "E_UNSUPPORTED",
            f"a policy of {self._relation.label} asks other tables or the clock, so this cannot be told",
            "use SELECT, SUBSCRIBE",
        )

    as_of = changes = lookup = subscribe = _refused
