"""Matches stored state to operators.

A version of a store has a list of batches for each operator, with its fingerprint (`everview.dataflow.saved_state`).
Opening the store builds operators from its catalog, possibly in another order and possibly different ones: another
version of Everview may plan a view differently, and sharing depends on what existed when a view was created. An
operator therefore gets the state stored under its fingerprint, or is computed from its inputs; never the state of
another.

Tables are matched by their unique names: their contents cannot be computed, so a table without state is an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from everview.dataflow import saved_state
from everview.dataflow.dataflow import Dataflow
from everview.dataflow.operators import Operator, Trace
from everview.errors import StoreError
from everview.runtime.spill import SpillFiles
from everview.store import Manifest, Ref, Store
from everview.store.mapped import read_image


class StoredState:
    """The state of a store's operators, by fingerprint; `numbers`: where it is, if the store does not list them so."""

    def __init__(
        self,
        store: Store,
        manifest: Manifest,
        spill: SpillFiles | None = None,
        numbers: Mapping[str, int] | None = None,
    ) -> None:
        self._store = store
        self._spill = spill
        self._time = manifest.time
        self._sinces = manifest.sinces
        listed = {text: number for number, text in enumerate(manifest.fingerprints)}
        self._numbers = listed if numbers is None else numbers
        self._tables = {_table(text): n for text, n in self._numbers.items() if text.startswith("table ")}
        self._refs: dict[int, list[Ref]] = {}
        for (number, _), refs in manifest.lists.items():
            self._refs.setdefault(number, []).extend(refs)

    def number(self, operator: Operator) -> int | None:
        """The number under which its state is stored."""
        text = saved_state.fingerprint(operator)
        return self._tables.get(_table(text)) if saved_state.is_table(operator) else self._numbers.get(text)

    def fill(self, operator: Operator) -> None:
        """Restore an operator's state; the start of its history first, because appending may merge."""
        number, trace = self.number(operator), saved_state.state_of(operator)
        assert number is not None and trace is not None
        if trace.scope.is_root:
            saved_state.restore_since(trace, self._sinces.get(number, 0))
        for ref in self._refs.get(number, ()):
            self._put_back(trace, ref)

    def _put_back(self, trace: Trace, ref: Ref) -> None:
        """A batch is read into memory; if memory is limited, a file is mapped."""
        if self._spill is not None and ref.file:
            image, mapped = read_image(self._store.files, ref, check=True)
            if mapped is not None:
                self._spill.adopt(trace, image, mapped, self._time)
                return
        saved_state.put_back(trace, self._store.get(ref), self._time)

    def missing(self, operator: Operator) -> StoreError:
        """Return the error for a missing table."""
        return StoreError(
            "E_DAMAGED",
            f"{self._store.files.root} has a table {operator.label!r} and does not say which rows are its own",
            "restore the directory from a copy",
        )


def _table(text: str) -> str:
    """The part of a table's fingerprint that names it.

    >>> _table("table 'my table' 2x1 depth 0 of []"), _table("table 'my table' 2x1 depth 0 1f2e")
    ("table 'my table' 2x1", "table 'my table' 2x1")
    """
    return text.rpartition(" depth ")[0]


class Restorer:
    """A dataflow under construction, at the current time, some of whose operators have state in a store."""

    def __init__(self, dataflow: Dataflow, kept: StoredState) -> None:
        self._dataflow = dataflow
        self._kept = kept
        self._unfilled: list[Operator] = []

    def present(self, rows: Sequence[tuple[int, ...]]) -> Sequence[tuple[int, ...]]:
        """A table's rows are in the store."""
        return ()

    def settle(self, dataflow: Dataflow) -> None:
        """After building something: restore its state if that is all it needs; else compute it."""
        new = [o for o in self._dataflow.new() if saved_state.state_of(o) is not None]
        without = [o for o in new if self._kept.number(o) is None]
        if not without:
            self._unfilled += new
            self._dataflow.installed()
            return
        for operator in without:
            if saved_state.is_table(operator):
                raise self._kept.missing(operator)
        self.fill()
        dataflow.install()

    def fill(self) -> None:
        """Restore the state of operators that do not have it yet."""
        for operator in self._unfilled:
            if not operator.freed:
                self._kept.fill(operator)
        self._unfilled.clear()
