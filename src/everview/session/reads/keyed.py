"""Look-ups by key, prepared once: what a call does is encode the key, search the index and decode a few rows.

`lookup` of a table or view could go the general way every time: take a turn, read a batch of codes, decode it column by
column. That is right for many rows; for one it is several times the work of the search itself. So the first look-up
prepares a `KeyReader`: the encoders of the key's columns, the decoders of the row's, and room for the kernel to write
rows to.

A reader answers only in the usual case, in which it cannot differ from the general way; otherwise its answer is None,
and the caller goes that way. Not usual are: a step under way, limits on calls, a `what_if` or a batch that is open,
subscribers who wait, and more rows than there is room for.

No flag is set and nothing is allocated that has to be freed, so an interrupt may come out of any instruction: signals
need not wait as they do in a turn. `room` is used while the lock is held, and never by a call inside another one.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Sequence
from threading import get_ident
from typing import TYPE_CHECKING, Any

from everview.cancellation import helpers
from everview.codes.values import decoder, encoder
from everview.dataflow.read_leases import hurried, visitors
from everview.kernels.trace.lookup import find
from everview.runtime.embedded import EmbeddedRuntime
from everview.session.reads.concurrent_reads import has_failed

if TYPE_CHECKING:
    from everview.codes.codec import Codec
    from everview.dataflow.operators import Arrangement
    from everview.session.core import Core
    from everview.session.relations import KeptRelation

Row = tuple[Any, ...]

_BUFFER_WORDS = 512
_NOT_PREPARED = frozenset({"float", "tuple"})
"""Kinds of key columns for which equal values may have several codes."""


class Room:
    """Where the kernel puts the rows of look-ups in one arrangement; used while the session's lock is held."""

    def __init__(self, arrangement: Arrangement) -> None:
        self.arrangement = arrangement
        self._words = array("q", bytes(8 * _BUFFER_WORDS))

    def find(self, start: Sequence[int], time: int) -> list[int] | None:
        """A few rows that begin with these codes, one after the other: their codes in the arrangement's order, and the
        multiplicity of each. None if there may be more than there is room for.
        """
        words = self._words
        for place, code in enumerate(start):
            words[place] = code
        rows = find(self.arrangement.trace.address, len(start), time, words)
        return None if rows < 0 else words[: rows * (self.arrangement.cols + 1)].tolist()


class KeyReader:
    """Look-ups by the columns that come first in a relation's arrangement."""

    def __init__(self, core: Core, relation: KeptRelation, columns: tuple[int, ...]) -> None:
        self.arrangement, self.codec = relation.arrangement, relation.codec
        self._core, self._relation, self._room = core, relation, Room(relation.arrangement)
        codec, order, types = self.codec, self.arrangement.order, self.codec.types
        self._encoders = [(columns.index(c), encoder(types[c], codec.interner)) for c in order[: len(columns)]]
        self._cells = [(order.index(c), _decoder(codec, c)) for c in range(len(types))]

    def rows(self, key: Any) -> list[Row] | None:
        """The rows with a key; None if the general way is to be taken."""
        core = self._core
        values = key if isinstance(key, tuple) else (key,)
        if len(values) != len(self._encoders) or core.lock._is_owned() or not _usual(core):
            return None
        with core.lock:
            if not _usual(core) or core.closed or not self._fits():
                return None
            codes = self._room.find([code(values[n]) for n, code in self._encoders], core.runtime.dataflow.time)
            return None if codes is None else self._decoded(codes)

    def _fits(self) -> bool:
        """Whether the relation is still what the reader was prepared for, and no row of it could not be computed."""
        relation = self._relation
        if relation.arrangement is not self.arrangement or relation.codec is not self.codec or relation.dropped:
            return False
        return not relation.fallible or not has_failed(relation.fallible)

    def _decoded(self, codes: list[int]) -> list[Row] | None:
        width, cells = self.arrangement.cols + 1, self._cells
        found: list[Row] = []
        for begin in range(0, len(codes), width):
            if codes[begin + width - 1] != 1:  # several copies, or fewer than none
                return None
            found.append(tuple([decode(codes[begin + place]) for place, decode in cells]))
        return found


def _usual(core: Core) -> bool:
    """Whether a read has nothing to do but read."""
    transactions = core.transactions
    return not (
        core.unsettled
        or core.limits
        or core.stop is not None
        or transactions.queued
        or transactions.staged is not None
        or core.subscriptions.pending
        or helpers
        or visitors
        or hurried
        or (core.runtime.dataflow.lender is None and get_ident() != core.home)
    )


def _decoder(codec: Codec, column: int) -> Callable[[int], Any]:
    declared = codec.types[column]
    return int if declared.kind == "int" and not declared.nullable else decoder(declared, codec.interner)


def arrangement_by(relation: KeptRelation, columns: Collection[int]) -> Arrangement | None:
    """The index of a table or view that begins with these columns, in any order; None if there is none."""
    for arrangement in relation.arrangements:
        if set(arrangement.order[: len(columns)]) == set(columns):
            return arrangement
    return None


def looked_up(core: Core, relation: KeptRelation, columns: tuple[int, ...], key: Any) -> list[Row] | None:
    """The rows with a key, by a reader that is prepared if there is none; None if the general way is to be taken."""
    width = len(columns) if columns else len(key) if isinstance(key, tuple) else 1
    reader = relation.readers.get(width)
    if reader is None or reader.arrangement is not relation.arrangement or reader.codec is not relation.codec:
        if not isinstance(core.runtime, EmbeddedRuntime) or relation.dropped:
            return None
        if not 1 <= width <= len(relation.codec.types):
            return None
        reader = _prepared(core, relation, columns or tuple(range(width)))
        if reader is None:
            return None
        relation.readers[width] = reader
    return reader.rows(key)


def _prepared(core: Core, relation: KeptRelation, columns: tuple[int, ...]) -> KeyReader | None:
    codec, arrangement = relation.codec, relation.arrangement
    if set(arrangement.order[: len(columns)]) != set(columns):
        return None
    if any(codec.types[c].kind in _NOT_PREPARED for c in columns):
        return None
    return KeyReader(core, relation, columns)
