"""Shards whose operators this version of Everview would not build.

Batches of shards are stored under numbers of operators, and numbers are counted by building what the commands say. If
a later version builds other operators from them, the numbers mean nothing to it. The tables are found all the same:
every version of such a store names their numbers (`Replica.described`). Tables that came before the first view have the
first numbers anyway, also where an early version did not name them. So tables keep their rows and their history; the
views are computed, in one process, into an embedded session. Whoever wants shards then moves that one.

Hazard: operators are not matched by identity here, although embedded directories do that. Where joins keep copies,
equal operators of shards and of a whole dataflow hold different rows.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile

from everview.dataflow import saved_state
from everview.dataflow.operators import Operator
from everview.dataflow.replica import Command, Install, MakeTable, Replica, Swap
from everview.errors import StoreError
from everview.recovery.stored_state import Restorer, StoredState
from everview.runtime.embedded import EmbeddedRuntime
from everview.session.clock.follower import RESERVED_PREFIX
from everview.session.core import Core
from everview.session.names.entries import Entry
from everview.store import Manifest, Store


class StoredTables(StoredState):
    """The tables of a store whose other operators are of no use."""

    def __init__(self, store: Store, manifest: Manifest, numbers: Mapping[str, int], runtime: EmbeddedRuntime) -> None:
        super().__init__(store, manifest, runtime.spill, numbers)

    def missing(self, operator: Operator) -> StoreError:
        """Return the error for a table whose number is not known."""
        table = operator.label.partition(" ")[2] if operator.label.startswith(RESERVED_PREFIX) else operator.label
        return StoreError(
            "E_VERSION",
            f"{self._store.files.root} was written by another version of Everview, which did not note where the rows "
            f"of {table!r} are",
            "open it with that version, or load its tables into a new directory; nothing was changed",
        )


def compute_views(
    core: Core, runtime: EmbeddedRuntime, store: Store, entries: Iterable[Entry], kept: StoredTables
) -> None:
    """Fill an empty embedded session: tables from the store, views from the tables. `entries` declare what exists."""
    runtime.dataflow.time = store.manifest.time
    restorer = Restorer(runtime.dataflow, kept)
    with runtime.filling(restorer):
        for entry in entries:
            core.definitions.replay.perform(entry)
        restorer.fill()
    warnings.warn(
        f"{store.files.root} was written by another version of Everview: views are computed again", stacklevel=2
    )


def numbers_of_tables(manifest: Manifest, commands: Sequence[Command], replica: Replica) -> dict[str, int]:
    """The number of each table of which it is known for sure, by its description. `replica` is what is built today from
    the store's commands.
    """
    named = (text.partition(" ") for text in manifest.fingerprints[1:])
    return _first(commands, replica) | {text: int(number) for number, _, text in named}


def _first(commands: Sequence[Command], replica: Replica) -> dict[str, int]:
    """The tables that were made before any view: no version can have given them other numbers. A name that was given
    again says nothing.
    """
    found: dict[str, int] = {}
    names = Counter(command.name for command in commands if isinstance(command, MakeTable))
    early = takewhile(lambda command: not isinstance(command, Install | Swap), commands)
    for number, table in enumerate(command for command in early if isinstance(command, MakeTable)):
        operator = replica.dataflow.numbered[number]
        if operator is not None and names[table.name] == 1:
            found[saved_state.describe(operator)] = number
    return found
