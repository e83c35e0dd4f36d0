"""Replicas: the same dataflow built again from the same commands, in another process or on another shard.

A dataflow is the result of its history of commands (create a table, install a view, drop what is unused). Building is
deterministic, so the n-th operator is the same everywhere, and `Operator.number` identifies it in files and messages.
`fingerprint` verifies this: replicas that differ would confuse each other's rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from everview.codes.interner import Interner
from everview.dataflow import plan_swap, saved_state
from everview.dataflow.builder import Builder
from everview.dataflow.dataflow import Dataflow
from everview.dataflow.identity import identity
from everview.dataflow.operators import Arrangement, Operator
from everview.kernels import structures
from everview.kernels.trace import image
from everview.plan import nodes as plan
from everview.plan.digest import hashed
from everview.plan.hot_keys import Hot
from everview.plan.multiway import Choice


@dataclass(frozen=True)
class MakeTable:
    """Create a base table; `order` is the column order of its index, `rows` (codes) its initial contents."""

    node: plan.Table
    order: tuple[int, ...]
    name: str
    history: int
    rows: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class Install:
    """Install an arrangement of a node by some columns, kept until dropped."""

    node: plan.Node
    keys: tuple[int, ...]
    history: int
    choice: Choice | None = None
    """how joins of many inputs are maintained; None: chosen by shape"""
    hot: Hot = ()
    """very frequent keys of tables, as observed when the view was created"""


@dataclass(frozen=True)
class Keep:
    """Drop every operator that none of these (by number) needs."""

    roots: tuple[int, ...]


@dataclass(frozen=True)
class Swap:
    """Build a join by another plan (`everview.dataflow.plan_swap`)."""

    join: plan.Node
    target: plan.Node


Command = MakeTable | Install | Swap | Keep


@dataclass
class Added:
    """Batches added to operators' traces: small ones packed (see `everview.kernels.trace.image`), images of large ones
    by operator number.
    """

    packed: np.ndarray
    large: dict[int, np.ndarray] = field(default_factory=dict)


class Replica:
    """A dataflow and its builder, changed by commands only."""

    def __init__(self, interner: Interner, merge_effort: int) -> None:
        self.dataflow = Dataflow(interner, merge_effort, sharded=True)
        self.builder = Builder(self.dataflow)
        self._fingerprint = ""
        self._fingerprint_of: list[Operator | None] | None = None  # the operators that it is of, if they are settled

    def build(self, command: Command) -> Arrangement | None:
        """Apply a command: new operators exist afterwards but are not up to date (see `Dataflow.installed`)."""
        if isinstance(command, Keep):
            self.builder.forget(self.dataflow.collect(self.dataflow.numbered[n] for n in command.roots))  # type: ignore[misc]
            return None
        try:
            if isinstance(command, Swap):
                plan_swap.swap(self.builder, command.join, command.target)
                return None
            if isinstance(command, MakeTable):
                arrangement = self.builder.add_table(command.node, command.order, command.name)
            else:
                arrangement = self.builder.install(command.node, command.keys, command.choice, command.hot)
        except BaseException:
            self.builder.forget_new()
            raise
        self.dataflow.keep_history(arrangement, command.history)
        return arrangement

    def has(self, number: int) -> bool:
        """Whether there is an operator of this number."""
        return number < len(self.dataflow.numbered) and self.dataflow.numbered[number] is not None

    def load(self, commands: Iterable[Command]) -> None:
        """Build from a history of commands; the state comes from elsewhere."""
        for command in commands:
            self.build(command)
            self.dataflow.installed()

    def traces(self) -> np.ndarray:
        """Addresses of the stateful traces, by operator number; 0 where there is none."""
        held = (None if o is None or o.trace is None or o.trace.stateless else o.trace for o in self.dataflow.numbered)
        return np.array([0 if trace is None else trace.address for trace in held], dtype=np.int64)

    def contents(self, operators: set[int]) -> Iterator[Added]:
        """The full contents of some operators' traces."""
        traces = self.traces()
        for number in operators:
            index = 0
            while words := image.stored_words(traces[number], index):
                out = np.empty(words, dtype=np.int64)
                image.write_stored(traces[number], index, out)
                yield Added(np.empty(0, dtype=np.int64), {number: out})
                index += 1

    def measure(self) -> np.ndarray:
        """Batches, updates and bytes of each operator's trace, by number."""
        return np.array(
            [structures.measure_trace(t) if t else (0, 0, 0) for t in self.traces().tolist()], dtype=np.int64
        )

    def fingerprint(self) -> str:
        """A hash of all operators: equal on replicas with the same commands."""
        numbered = self.dataflow.numbered
        if self._fingerprint_of != numbered:
            names = (None if o is None else (identity(o, code=False), o.partitioning) for o in numbered)
            self._fingerprint = hashed(*map(str, names))  # functions are identified by name: they come with commands
            settled = all(o is None or o.old for o in numbered)  # others may change (`identity`)
            self._fingerprint_of = list(numbered) if settled else None
        return self._fingerprint

    def described(self) -> tuple[str, ...]:
        """What a version of a store says of the operators: their fingerprint, and the tables with their numbers. By
        these a later Everview that would build other operators finds the tables, and computes the views.
        """
        tables = (o for o in saved_state.live(self.dataflow) if saved_state.is_table(o))
        return (self.fingerprint(), *(f"{o.number} {saved_state.describe(o)}" for o in tables))

    def close(self) -> None:
        """Free everything."""
        self.dataflow.close()
