"""Values that nobody gives: DEFAULT, GENERATED ALWAYS AS, identities, and the sequences that number rows.

What a column's missing values are is a text, said once (`DefaultSet`), with a word before it for what it means:

    default 3 * 7                 the expression, if no value is given
    always price * amount         the expression, over the row's other columns; no other value may be given
    identity items_id_seq         the sequence's next number, if no value is given
    identity always items_id_seq  the same, and no other value may be given

Expressions are SQL's (`everview.sql.dml.missing` computes them). They are computed when rows come in, once for a
statement, but for numbers of a sequence and the like, which are another for each row. Whoever gives whole rows gives
all values.

A sequence never goes back, also if the transaction that asked is undone. How far it is is committed as an offset with
the next transaction, whosever it is; so after a crash numbers that are in no committed row may be given again.
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
"""How the names of offsets begin that say how far a sequence is."""


class Missing(NamedTuple):
    """What stands for a value that is not given."""

    kind: str
    text: str

    @property
    def forced(self) -> bool:
        """Whether no other value may be given."""
        return self.kind in (ALWAYS, IDENTITY_ALWAYS)


def said(kind: str, text: str) -> str:
    """As the catalogue keeps it.

    >>> heard(said(IDENTITY_ALWAYS, "t_id_seq"))
    Missing(kind='identity always', text='t_id_seq')
    """
    return f"{kind} {text}"


def heard(text: str) -> Missing:
    """What the catalogue keeps."""
    kind = next(k for k in (IDENTITY_ALWAYS, IDENTITY, ALWAYS, DEFAULT) if text.startswith(f"{k} "))
    return Missing(kind, text[len(kind) + 1 :])


class Defaults:
    """What a session puts where no value is given."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._last: dict[str, int] = {}
        """the last number of each sequence that was asked here"""
        self.waiting: set[str] = set()
        """sequences that are further than any committed transaction says"""
        self._new: set[str] = set()
        """sequences that were made here: what is kept under their names is of others"""
        self._gone: dict[str, int | None] = {}
        """sequences that go, if nothing is taken back, and how far they were here"""

    def of(self, table: Table) -> dict[str, Missing]:
        """What stands for missing values of a table's columns."""
        found = self._core.catalog.defaults
        return (
            {column: heard(text) for (name, column), text in found.items() if name == relation_of(table).label}
            if found
            else {}
        )

    def filled(self, table: Table, rows: Any) -> Any:
        """Rows as dicts with what they lack, if columns say what that is."""
        if type(rows) is not list or not any(isinstance(r, dict) for r in rows):
            return rows
        missing = self.of(table)
        if not missing or all(not isinstance(r, dict) or missing.keys() <= r.keys() for r in rows):
            return rows
        return doors.complete(self._core, table, rows)

    def constant(self, table: Table, column: str) -> Any:
        """The value of a column that is not given; None if it says nothing about that."""
        return doors.default_value(self._core, table, column) if column in self.of(table) else None

    # sequences

    def begin(self, name: str) -> None:
        """A sequence is new: it begins at its beginning, however far one of that name was before it."""
        last = self._last.pop(name, None)
        self.waiting.discard(name)
        if self._core.definitions.held is not None:
            self._gone.setdefault(name, last)
        else:
            self._new.add(name)

    def take_out(self, known: Collection[str]) -> None:
        """Forget how far sequences are that are not among the known: they are taken back."""
        for name in [n for n in self._last if n not in known]:
            del self._last[name]
            self.waiting.discard(name)

    def put_back(self, numbers: Mapping[str, int]) -> None:
        """Let sequences go on from somewhere."""
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
        """The last number that a sequence has given; None if it has given none."""
        if name in self._last:
            return self._last[name]
        kept = None if name in self._gone or name in self._new else self._core.runtime.offsets.get(OFFSET + name)
        return None if kept is None else int(kept)

    def given_here(self, name: str) -> int | None:
        """The last number that was asked for in this process."""
        return self._last.get(name)

    def put(self, name: str, last: int | None) -> None:
        """Say how far a sequence is."""
        if last is not None:
            self._last[name] = last
            self.waiting.add(name)

    def forget(self, name: str) -> None:
        """A sequence goes."""
        last = self._last.pop(name, None)
        self.waiting.discard(name)
        if self._core.definitions.held is not None:
            self._gone.setdefault(name, last)
        else:
            self._forget_kept(name)

    def taken_back(self) -> None:
        """Sequences that were to go are there as before."""
        for name, last in self._gone.items():
            self._last.pop(name, None)
            self.waiting.discard(name)
            self.put(name, last)
        self._gone.clear()

    def settle(self) -> None:
        """Nothing is taken back any more: what is kept of sequences that are gone goes."""
        gone, self._gone = self._gone, {}
        for name in gone:
            if name not in self.waiting:
                self._forget_kept(name)

    def _forget_kept(self, name: str) -> None:
        if OFFSET + name in self._core.runtime.offsets:
            self._core.transactions.set_offset(OFFSET + name, "")

    def memory(self) -> tuple[dict[str, int], set[str]]:
        """How far sequences are, for `recall`."""
        return dict(self._last), set(self.waiting)

    def recall(self, memory: tuple[dict[str, int], set[str]]) -> None:
        """What sequences have given since was only supposed."""
        self._last, self.waiting = memory

    def pending(self) -> dict[str, str]:
        """What a transaction that is committed now says about sequences."""
        return {OFFSET + name: str(self._last[name]) for name in self.waiting}

    def kept(self, offsets: dict[str, str]) -> None:
        """It was committed."""
        self.waiting -= {n for n in self.waiting if offsets.get(OFFSET + n) == str(self._last[n])}
