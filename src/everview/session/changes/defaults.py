"""Values for missing columns: DEFAULT, GENERATED ALWAYS AS, identities, and their sequences.

The rule for a column's missing values is stored as text (`DefaultSet`), with a prefix for its kind:

    default 3 * 7                 the expression, if no value is given
    always price * amount         the expression, over the row's other columns; no other value may be given
    identity items_id_seq         the sequence's next number, if no value is given
    identity always items_id_seq  the same, and no other value may be given

Expressions are SQL (`everview.sql.dml.omitted_columns` evaluates them). They are evaluated when rows are inserted, once
per statement; volatile functions such as nextval are evaluated per row. Callers that supply whole rows supply all
values.

A sequence never goes back, not even when the transaction that used it is rolled back. Its position is committed as an
offset with the next transaction of any user. After a crash, numbers that no committed row contains may therefore be
issued again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from everview.errors import InputError, did_you_mean
from everview.language.relation import relation_of
from everview.session import doors

if TYPE_CHECKING:
    from everview.session.core import Core
    from everview.session.table import Table

DEFAULT, ALWAYS, IDENTITY, IDENTITY_ALWAYS = "default", "always", "identity", "identity always"

OFFSET = "sequence/"
"""Prefix of the offsets that store the positions of sequences."""


class Missing(NamedTuple):
    """The rule for a column's missing values."""

    kind: str
    text: str

    @property
    def forced(self) -> bool:
        """Whether explicit values are rejected."""
        return self.kind in (ALWAYS, IDENTITY_ALWAYS)

    @property
    def is_identity(self) -> bool:
        """Whether a sequence numbers the column."""
        return self.kind in (IDENTITY, IDENTITY_ALWAYS)


def default_text(kind: str, text: str) -> str:
    """Serialise for the catalog.

    >>> parsed_default(default_text(IDENTITY_ALWAYS, "t_id_seq"))
    Missing(kind='identity always', text='t_id_seq')
    """
    return f"{kind} {text}"


def parsed_default(text: str) -> Missing:
    """Parse what the catalog stores."""
    kind = next(k for k in (IDENTITY_ALWAYS, IDENTITY, ALWAYS, DEFAULT) if text.startswith(f"{k} "))
    return Missing(kind, text[len(kind) + 1 :])


class Defaults:
    """The defaults and sequences of a session."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._last: dict[str, int] = {}
        """the last number of each sequence that was used in this process"""
        self.waiting: set[str] = set()
        """sequences that are ahead of the last committed offset"""
        self._new: set[str] = set()
        """sequences created in this process: offsets stored under their names belong to predecessors"""
        self._gone: dict[str, int | None] = {}
        """sequences dropped tentatively, with their positions"""

    def of(self, table: Table) -> dict[str, Missing]:
        """The rules for missing values of a table's columns."""
        found = self._core.catalog.defaults
        return (
            {column: parsed_default(text) for (name, column), text in found.items() if name == relation_of(table).label}
            if found
            else {}
        )

    def filled(self, table: Table, rows: Any) -> Any:
        """Rows as dicts, completed with the values of columns that have a rule."""
        if type(rows) is not list or not any(isinstance(r, dict) for r in rows):
            return rows
        missing = self.of(table)
        if not missing or all(not isinstance(r, dict) or missing.keys() <= r.keys() for r in rows):
            return rows
        return doors.complete(self._core, table, rows)

    def constant(self, table: Table, column: str) -> Any:
        """The constant value of a missing column; None if it has no rule."""
        return doors.default_value(self._core, table, column) if column in self.of(table) else None

    # sequences

    def begin(self, name: str) -> None:
        """Start a new sequence from its beginning, whatever position an earlier one of that name had."""
        last = self._last.pop(name, None)
        self.waiting.discard(name)
        if self._core.definitions.held is not None:
            self._gone.setdefault(name, last)
        else:
            self._new.add(name)

    def take_out(self, known: Collection[str]) -> None:
        """Forget the positions of sequences that are not in `known`: their creation was rolled back."""
        for name in [n for n in self._last if n not in known]:
            del self._last[name]
            self.waiting.discard(name)

    def put_back(self, numbers: Mapping[str, int]) -> None:
        """Restore the positions of sequences."""
        self._last.update(numbers)
        self.waiting.update(numbers)

    def next(self, name: str, count: int = 1) -> list[int]:
        """The next numbers of a sequence."""
        made = self._core.catalog.sequences.get(name)
        if made is None:
            known = self._core.catalog.sequences
            raise InputError("E_NAME", f"there is no sequence {name}", did_you_mean(name, known))
        last, found = self.last(name), []
        for _ in range(count):
            last = made.start if last is None else last + made.step
            if not made.least <= last <= made.most:
                if not made.cycle:
                    what = f"sequence {name} has reached its end, {last - made.step}"
                    raise InputError("E_RANGE", what, "make one with a wider range")
                last = made.least if made.step > 0 else made.most
            found.append(last)
        self.put(name, last)
        return found

    def last(self, name: str) -> int | None:
        """The last number that a sequence returned; None if it has not been used."""
        if name in self._last:
            return self._last[name]
        kept = None if name in self._gone or name in self._new else self._core.runtime.offsets.get(OFFSET + name)
        return None if kept is None else int(kept)

    def given_here(self, name: str) -> int | None:
        """The last number returned in this process."""
        return self._last.get(name)

    def put(self, name: str, last: int | None) -> None:
        """Set the position of a sequence."""
        if last is not None:
            self._last[name] = last
            self.waiting.add(name)

    def forget(self, name: str) -> None:
        """Drop a sequence tentatively."""
        last = self._last.pop(name, None)
        self.waiting.discard(name)
        if self._core.definitions.held is not None:
            self._gone.setdefault(name, last)
        else:
            self._forget_kept(name)

    def taken_back(self) -> None:
        """Restore the sequences that were dropped tentatively."""
        for name, last in self._gone.items():
            self._last.pop(name, None)
            self.waiting.discard(name)
            self.put(name, last)
        self._gone.clear()

    def settle(self) -> None:
        """Make tentative drops final and delete the stored positions."""
        gone, self._gone = self._gone, {}
        for name in gone:
            if name not in self.waiting:
                self._forget_kept(name)

    def _forget_kept(self, name: str) -> None:
        if OFFSET + name in self._core.runtime.offsets:
            self._core.transactions.set_offset(OFFSET + name, "")

    def memory(self) -> tuple[dict[str, int], set[str]]:
        """Save the positions of all sequences, for `recall`."""
        return dict(self._last), set(self.waiting)

    def recall(self, memory: tuple[dict[str, int], set[str]]) -> None:
        """Restore saved positions: the numbers issued since then were hypothetical."""
        self._last, self.waiting = memory

    def pending(self) -> dict[str, str]:
        """The offsets to commit with the current transaction."""
        return {OFFSET + name: str(self._last[name]) for name in self.waiting}

    def kept(self, offsets: dict[str, str]) -> None:
        """Record that the pending offsets were committed."""
        self.waiting -= {n for n in self.waiting if offsets.get(OFFSET + n) == str(self._last[n])}
