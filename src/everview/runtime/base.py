"""The protocol between a session and the place where its dataflow runs.

A step goes down as one argument, a list of `ChangeSet`s (one for each time, with the offsets that are committed with
it), and comes back as one value, a `StepOutcome`. The lowest level that knows says whether the step was committed;
nobody above asks again. An outcome may be committed *and* carry an error: an interrupt that was heard when the step was
already complete.
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
from everview.dataflow.faults import ABSENT_HINT
from everview.dataflow.operators import Arrangement, Operator, Trace
from everview.errors import InputError
from everview.plan import nodes as plan
from everview.plan.multiway import Choice
from everview.runtime.captures import Captured, Captures, Supposed

if TYPE_CHECKING:
    from everview.runtime.backing import Backing

Measure = Callable[[Operator], tuple[int, int, int]]
"""Batches, updates and bytes of the state that an operator holds."""


Change = tuple[Any, Any, int]
"""(table, rows' codes as columns, as tuples or as `RemoteRows`, +1 or -1)"""


NO_OFFSETS: Mapping[str, str] = MappingProxyType({})


class ChangeSet(list[Change]):
    """What one transaction changes, and the offsets that are committed with it.

    One is made for every change, so it has no `__init__`: offsets are replaced, never changed.
    """

    offsets: Mapping[str, str] = NO_OFFSETS


@dataclass(kw_only=True)
class RemoteRows:
    """Rows that are not in this process, in place of their codes; all that is known of them here."""

    now: int = 0
    """the moment that they were compared with, if the clock means something to their table"""
    late: int = 0
    """how many of them came when their time was over"""
    moments: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """when others of them are due"""

    bad: list[Any] = field(default_factory=list)
    """records that could not be encoded"""
    reject: bool = False
    """whether a deletion by key that finds nothing is refused"""
    missing: int = 0
    """how many have found nothing, when the step is done"""
    rows: int = 0
    """how many there are"""
    samples: list[npt.NDArray[np.int64]] = field(default_factory=list)
    """codes of some of them, columns in the table's order"""

    def dated(self, table: Any, until: int) -> RemoteRows:
        """The same rows with a moment as another column, in another table."""
        raise NotImplementedError


@dataclass(frozen=True)
class RemoteTarget:
    """What rows that are encoded elsewhere are for."""

    table: Any
    fitting: Any
    """how a source's rows become the table's (`everview.io.fitting`)"""
    place: str
    """where they come from, for errors"""
    how: str
    """append, upsert, changes or snapshot"""
    until: Any = None
    """an expression for the moment at which a row leaves, if rows do"""
    settle: Callable[[], int] = lambda: 0
    """does what is due; the moment up to which that is done, 0 if the clock means nothing to the table"""


class AbsentRows(InputError):
    """A step takes rows away that are not there, and the shards say which."""

    table: int
    """the table's node"""
    rows: dict[tuple[int, ...], int]
    """codes in the index's order, and how often too often"""

    @classmethod
    def of(cls, table: int, rows: dict[tuple[int, ...], int]) -> AbsentRows:
        """Without a text, for which one needs the dictionary."""
        error = cls("E_ABSENT", "a row that does not exist was deleted", ABSENT_HINT)
        error.table, error.rows = table, rows
        return error


def in_table_order(row: tuple[int, ...], order: tuple[int, ...]) -> tuple[int, ...]:
    """A row of an index in the order of the table's columns.

    >>> in_table_order((7, 5, 6), (2, 0, 1))
    (5, 6, 7)
    """
    return tuple(row[order.index(c)] for c in range(len(order)))


@dataclass(slots=True)
class StepOutcome:
    """What became of a step."""

    committed: bool
    error: BaseException | None = None
    changes: Mapping[Trace, Captured] = field(default_factory=dict)
    """of the traces that somebody watches"""


COMMITTED = StepOutcome(True)
"""The outcome of most steps: nobody watches, nothing went wrong."""


class Resharder(Protocol):
    """The way of a running session to another number of shards."""

    def prepare(self) -> None:
        """Split what there is; steps go on."""

    def take_over(self) -> None:
        """Between two steps: have so many shards from now on."""

    def give_up(self) -> None:
        """Leave everything as it was."""


class Runtime(Protocol):
    """Where a dataflow runs."""

    interner: Interner
    dataflow: Dataflow
    """the operators; their traces can be read after `sync`"""
    builder: Builder
    offsets: dict[str, str]
    """what was committed with the steps so far: how far sources were read, what sinks have"""
    captures: Captures
    backing: Backing
    """where the dataflow comes from, and what stays of it"""
    sound: bool
    """whether an exception may come out of any instruction of `step`, and leaves nothing but what `settle` sees to"""

    def add_table(
        self, node: plan.Table, order: tuple[int, ...], name: str, history: int, rows: Sequence[tuple[int, ...]] = ()
    ) -> Arrangement:
        """Make a base table's index; `rows` (codes) are in it from the beginning."""

    def install(
        self, node: plan.Node, keys: tuple[int, ...], history: int = 0, choice: Choice | None = None
    ) -> Arrangement:
        """An arrangement of a plan by some columns, up to date from now on."""

    def swap(self, join: plan.Node, target: plan.Node) -> None:
        """Have a join by another plan from now on, with the same rows; the old operators stay until `keep_only`."""

    def keep_only(self, roots: list[Operator]) -> None:
        """Drop every operator that none of these needs."""

    def step(self, transactions: list[ChangeSet]) -> StepOutcome:
        """Run transactions, each at a time of its own, as one step: all of them are committed or none is."""

    def suppose(self, changes: ChangeSet, wanted: Callable[[], Collection[Operator]]) -> Supposed:
        """Run a transaction as a step that is not committed: what it would change in the traces of the operators that
        are wanted, and maybe others; or the error it would end with. Afterwards nothing has happened: no time has
        passed, and nobody was told anything.
        """

    def sync(self, *operators: Operator) -> None:
        """Have the contents of some operators' traces in this process, from now on."""

    def dataflows(self) -> tuple[Sequence[Dataflow], Sequence[Dataflow]]:
        """The dataflows of this process: those that run, and those that are only read."""

    def measure(self) -> Measure:
        """How to measure the state of operators, as of now."""

    def changes(self) -> Callable[[Operator], int]:
        """How to tell how many changes committed steps have made to operators' traces, as of now."""

    def describe(self, joined: Extend) -> list[str]:
        """Where the rows of a join of many inputs are, for `explain`."""

    def where(self) -> str:
        """Where steps run, and why there, for people."""

    def encode_remote(self, target: RemoteTarget, rows: Any) -> RemoteRows | None:
        """Encode rows that are not in this process where they are; None if that cannot be done."""

    def resharding(self, shards: int) -> Resharder | None:
        """The way to another number of shards; None where there are none, or they stay as they are."""

    def settle(self) -> StepOutcome | None:
        """Whatever was under way was cut off by an exception that nobody foresaw: a step is complete or undone. What
        the step was, if one was complete; None if nothing is made good here.
        """

    def close(self) -> None:
        """Give everything back."""

    def abandon(self) -> None:
        """Give memory and locks back and write nothing more: the program forgot to close, or is ending."""


def row_count(rows: Any) -> int:
    """How many rows a change has; 0 if they are elsewhere.

    >>> row_count([(1, 2)]), row_count(np.zeros((2, 5)))
    (1, 5)
    """
    shape = getattr(rows, "shape", None)
    if shape is not None:
        return int(shape[-1])
    return len(rows) if isinstance(rows, list) else 0


def columns_of(rows: np.ndarray | list[tuple[int, ...]]) -> np.ndarray:
    """A change's rows as columns."""
    return rows if isinstance(rows, np.ndarray) else np.array(rows, dtype=np.int64).T


@lru_cache(maxsize=256)
def packer(count: int) -> Callable[..., bytes]:
    """What makes bytes of so many words, for kernels that only read them: in a quarter of the time of an array.

    >>> packer(2)(1, 2).hex()
    '01000000000000000200000000000000'
    """
    return Struct(f"{count}q").pack
