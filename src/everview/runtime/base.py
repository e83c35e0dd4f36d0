"""The protocol between a session and its runtime.

The input of a step is a list of `ChangeSet`s (one for each time, with the offsets committed with it), its result a
`StepOutcome`. The lowest level that can tell decides whether the step was committed; nothing above decides it again. An
outcome may be committed *and* carry an error: an interrupt noticed after the step was complete.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from struct import Struct
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from everview.codes.interner import Interner
from everview.dataflow.builder import Builder
from everview.dataflow.dataflow import Dataflow
from everview.dataflow.extend import Extend
from everview.dataflow.operators import Arrangement, Operator, Trace
from everview.dataflow.step_errors import ABSENT_HINT
from everview.errors import InputError
from everview.plan import nodes as plan
from everview.plan.multiway import Choice
from everview.runtime.captures import Captured, Captures, Supposed

if TYPE_CHECKING:
    from everview.runtime.backing import Backing

Measure = Callable[[Operator], tuple[int, int, int]]
"""Batches, updates and bytes of an operator's state."""


Change = tuple[Any, Any, int]
"""(table, encoded rows as columns, tuples or `RemoteRows`, +1 or -1)"""


NO_OFFSETS: Mapping[str, str] = MappingProxyType({})


class ChangeSet(list[Change]):
    """The changes of one transaction, and the offsets committed with it.

    One is created for every change, so it has no `__init__`: offsets are replaced, never mutated.
    """

    offsets: Mapping[str, str] = NO_OFFSETS


@dataclass(kw_only=True)
class RemoteRows:
    """A stand-in for encoded rows that are not in this process, with what is known about them here."""

    now: int = 0
    """the moment they were compared with, if their table depends on the clock"""
    late: int = 0
    """number of late rows"""
    moments: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """due times of the others"""

    bad: list[Any] = field(default_factory=list)
    """records that could not be encoded"""
    reject: bool = False
    """whether deletions of missing keys are refused"""
    missing: int = 0
    """number of missing keys, when the step is done"""
    rows: int = 0
    """number of rows"""
    samples: list[npt.NDArray[np.int64]] = field(default_factory=list)
    """codes of some of them, columns in the table's order"""

    def dated(self, table: Any, until: int) -> RemoteRows:
        """The same rows with a moment as an additional column, in another table."""
        raise NotImplementedError


@dataclass(frozen=True)
class RemoteTarget:
    """The destination of rows that are encoded elsewhere."""

    table: Any
    fitting: Any
    """how a source's rows become the table's (`everview.io.record_encoder`)"""
    place: str
    """their origin, for errors"""
    how: str
    """append, upsert, changes or snapshot"""
    until: Any = None
    """an expression for the expiry of a row, if rows expire"""
    settle: Callable[[], int] = lambda: 0
    """does what is due and returns the moment up to which that is done; 0 if the table does not depend on the clock"""


class AbsentRows(InputError):
    """A step deletes absent rows, as reported by the shards."""

    table: int
    """the table's node"""
    rows: dict[tuple[int, ...], int]
    """codes in the index's order, and the missing multiplicities"""

    @classmethod
    def of(cls, table: int, rows: dict[tuple[int, ...], int]) -> AbsentRows:
        """Without a message, which would need the dictionary."""
        error = cls("E_ABSENT", "a row that does not exist was deleted", ABSENT_HINT)
        error.table, error.rows = table, rows
        return error


def in_table_order(row: tuple[int, ...], order: tuple[int, ...]) -> tuple[int, ...]:
    """A row of an index in the table's column order.

    >>> in_table_order((7, 5, 6), (2, 0, 1))
    (5, 6, 7)
    """
    return tuple(row[order.index(c)] for c in range(len(order)))


@dataclass(slots=True)
class StepOutcome:
    """The outcome of a step."""

    committed: bool
    error: BaseException | None = None
    changes: Mapping[Trace, Captured] = field(default_factory=dict)
    """changes of watched traces"""


COMMITTED = StepOutcome(True)
"""The outcome of most steps: no watched changes, no error."""


class Resharder(Protocol):
    """Moves a running session to another number of shards."""

    def prepare(self) -> None:
        """Split the existing state while steps continue."""

    def take_over(self) -> None:
        """Between two steps: switch to the new number of shards."""

    def give_up(self) -> None:
        """Abandon the move."""


class Runtime(Protocol):
    """Where a dataflow runs."""

    interner: Interner
    dataflow: Dataflow
    """the operators; their traces can be read after `sync`"""
    builder: Builder
    offsets: dict[str, str]
    """committed with the steps so far: positions of sources and sinks"""
    captures: Captures
    backing: Backing
    """where the dataflow comes from, and what is kept of it"""
    sound: bool
    """whether an exception may occur at any instruction of `step`, leaving only what `settle` cleans up"""

    def add_table(
        self, node: plan.Table, order: tuple[int, ...], name: str, history: int, rows: Sequence[tuple[int, ...]] = ()
    ) -> Arrangement:
        """Create a base table's index with initial `rows` (codes)."""

    def install(
        self, node: plan.Node, keys: tuple[int, ...], history: int = 0, choice: Choice | None = None
    ) -> Arrangement:
        """Build an arrangement of a plan by some columns and maintain it."""

    def swap(self, join: plan.Node, target: plan.Node) -> None:
        """Build a join by another plan with the same rows; the old operators stay until `keep_only`."""

    def keep_only(self, roots: list[Operator]) -> None:
        """Drop every operator that none of these needs."""

    def step(self, transactions: list[ChangeSet]) -> StepOutcome:
        """Run transactions, each at its own time, as one step: all or none of them commit."""

    def suppose(self, changes: ChangeSet, wanted: Callable[[], Collection[Operator]]) -> Supposed:
        """Run a transaction as a step without committing it: return what it would change in the traces of the wanted
        operators (and possibly others), or its error. Afterwards nothing has happened: time has not advanced, and no
        subscriber was called.
        """

    def sync(self, *operators: Operator) -> None:
        """Make the contents of some operators' traces available in this process from now on."""

    def dataflows(self) -> tuple[Sequence[Dataflow], Sequence[Dataflow]]:
        """The dataflows of this process: running ones, and read-only ones."""

    def measure(self) -> Measure:
        """A function that measures the current state of operators."""

    def changes(self) -> Callable[[Operator], int]:
        """A function that returns the number of committed changes of operators' traces."""

    def describe(self, joined: Extend) -> list[str]:
        """The placement of rows of a join of many inputs, for `explain`."""

    def where(self) -> str:
        """Where steps run and why, for display."""

    def encode_remote(self, target: RemoteTarget, rows: Any) -> RemoteRows | None:
        """Encode remote rows where they are; None if that is not possible."""

    def resharding(self, shards: int) -> Resharder | None:
        """The move to another number of shards; None if there are no shards, or their number is fixed."""

    def settle(self) -> StepOutcome | None:
        """After an unexpected exception: complete or undo the current step. Returns its outcome if it was complete;
        None if there was nothing to settle.
        """

    def close(self) -> None:
        """Release everything."""

    def abandon(self) -> None:
        """Release memory and locks without writing: the program did not close the session, or is exiting."""


def row_count(rows: Any) -> int:
    """The number of rows of a change; 0 if they are remote.

    >>> row_count([(1, 2)]), row_count(np.zeros((2, 5)))
    (1, 5)
    """
    shape = getattr(rows, "shape", None)
    if shape is not None:
        return int(shape[-1])
    return len(rows) if isinstance(rows, list) else 0


def columns_of(rows: np.ndarray | list[tuple[int, ...]]) -> np.ndarray:
    """The rows of a change as columns."""
    return rows if isinstance(rows, np.ndarray) else np.array(rows, dtype=np.int64).T


@lru_cache(maxsize=256)
def packer(count: int) -> Callable[..., bytes]:
    """A function that packs this many words into bytes for read-only use by kernels, in a quarter of the time of an
    array.

    >>> packer(2)(1, 2).hex()
    '01000000000000000200000000000000'
    """
    return Struct(f"{count}q").pack
