"""State that lies in a store, and the operators it belongs to.

A version of a store has a list of batches for each operator that was there, and says what each of them was: its
fingerprint (`everview.dataflow.saved`). Whoever opens the store builds operators from its catalogue, perhaps in another
order and perhaps others: another version of Everview may plan a view differently, and what one view shared with another
depends on what was there when it was made. So an operator gets the state that was kept for one with its fingerprint,
or, if there is none, is computed from what it reads; never somebody else's.

Tables are found by their names, which are theirs alone: what is in them cannot be computed, so that a table whose state
is not found is an error.
"""

from __future__ import annotations

from collections.abc import Sequence

from everview.dataflow import saved
from everview.dataflow.dataflow import Dataflow
from everview.dataflow.operators import Operator, Trace
from everview.errors import StoreError
from everview.runtime.spilling import Spilling
from everview.store import Manifest, Ref, Store
from everview.store.mapped import read_image


class Kept:
    """The state of a store's operators, by what they are."""

    def __init__(self, store: Store, manifest: Manifest, spilling: Spilling | None = None) -> None:
        self._store = store
        self._spilling = spilling
        self._time = manifest.time
        self._sinces = manifest.sinces
        self._numbers = {text: number for number, text in enumerate(manifest.fingerprints)}
        self._tables = {_table(text): n for text, n in self._numbers.items() if text.startswith("table ")}
        self._refs: dict[int, list[Ref]] = {}
        for (number, _), refs in manifest.lists.items():
            self._refs.setdefault(number, []).extend(refs)

    def number(self, operator: Operator) -> int | None:
        """Under which number its state lies."""
        text = saved.fingerprint(operator)
        return self._tables.get(_table(text)) if saved.is_table(operator) else self._numbers.get(text)

    def fill(self, operator: Operator) -> None:
        """Put an operator's state back; the time since when it knows history first, because appending may merge."""
        number, trace = self.number(operator), saved.state_of(operator)
        assert number is not None and trace is not None
        if trace.scope.is_root:
            saved.restore_since(trace, self._sinces.get(number, 0))
        for ref in self._refs.get(number, ()):
            self._put_back(trace, ref)

    def _put_back(self, trace: Trace, ref: Ref) -> None:
        """A batch is read into memory; where memory is short, a file is read where it lies."""
        if self._spilling is not None and ref.file:
            image, mapped = read_image(self._store.files, ref, check=True)
            if mapped is not None:
                self._spilling.adopt(trace, image, mapped, self._time)
                return
        saved.put_back(trace, self._store.get(ref), self._time)

    def missing(self, operator: Operator) -> StoreError:
        """The error for a table that is not there."""
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


class Restoring:
    """A dataflow under construction, at the present time, of which some operators have state in a store."""

    def __init__(self, dataflow: Dataflow, kept: Kept) -> None:
        self._dataflow = dataflow
        self._kept = kept
        self._unfilled: list[Operator] = []

    def present(self, rows: Sequence[tuple[int, ...]]) -> Sequence[tuple[int, ...]]:
        """A table's rows are in the store."""
        return ()

    def settle(self, dataflow: Dataflow) -> None:
        """Something was built: what was kept for it will be put back, if that is all it needs; else it is computed."""
        new = [o for o in self._dataflow.new() if saved.state_of(o) is not None]
        without = [o for o in new if self._kept.number(o) is None]
        if not without:
            self._unfilled += new
            self._dataflow.installed()
            return
        for operator in without:
            if saved.is_table(operator):
                raise self._kept.missing(operator)
        self.fill()
        dataflow.install()

    def fill(self) -> None:
        """Put back what was kept for operators that have not got it yet."""
        for operator in self._unfilled:
            if not operator.freed:
                self._kept.fill(operator)
        self._unfilled.clear()
