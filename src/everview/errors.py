"""The exceptions that Everview raises.

Each error states what is wrong, where, and what to do. It has a stable `code` for programs, a `message` for people, and
a `hint`:

    EverviewError
    ├── InputError        rows, columns or values that do not fit the table         E_TYPE E_WIDTH E_NULL E_RANGE ...
    │   └── ConstraintError   a table's constraint would not hold                   E_UNIQUE E_CHECK E_FOREIGN_KEY
    ├── PlanError         an invalid query: names, types, shapes                  E_COLUMN E_AMBIGUOUS E_TYPE ...
    ├── LoopError         a loop that did not converge within its limit             E_LOOP_LIMIT
    ├── CompactedError    a time that can no longer be read                         E_COMPACTED
    ├── RowErrors         a view holds rows that failed (division by zero, ...)     E_ROWS
    ├── UdfError          a user's Python function raised                           E_UDF
    ├── StoreError        a durable directory that is locked, damaged, full ...     E_LOCKED E_DAMAGED E_DISK ...
    ├── MemoryLimitError  not enough memory, also in Python itself               E_MEMORY
    ├── StoppedError      the call was cancelled or ran into its timeout          E_CANCELLED E_TIMEOUT
    ├── ClosedError       the session, view or table is closed or dropped           E_CLOSED
    └── InternalError     a bug in Everview: an invariant is broken               E_INTERNAL

Catch the class or compare `error.code`; the message texts may change between versions.
"""

from __future__ import annotations

import difflib
import os
import traceback
from collections.abc import Iterable


class EverviewError(Exception):
    """Base class of all Everview errors: a code, a message, and a hint.

    >>> print(EverviewError("E_DEMO", "the cup is empty", "fill it"))
    [E_DEMO] the cup is empty
      hint: fill it
    """

    operator: int | None = None
    """number of the operator that was running, if known"""

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(code, message, hint)
        self.code = code
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        text = f"[{self.code}] {self.message}"
        return f"{text}\n  hint: {self.hint}" if self.hint else text

    def _render_traceback_(self) -> list[str]:
        """What IPython shows below a cell: the user's own lines, without the frames inside this package. Internal
        errors, and errors caused by another exception, keep their full traceback.
        """
        if self.code == "E_INTERNAL" or self.__cause__ is not None:
            return traceback.format_exception(self)
        ours = (os.path.dirname(os.path.abspath(__file__)), f"{os.sep}IPython{os.sep}core{os.sep}")
        frames = [f for f in traceback.extract_tb(self.__traceback__) if not any(o in f.filename for o in ours)]
        lines = [line.rstrip("\n") for line in traceback.format_list(frames)]
        return [*lines, f"{type(self).__name__}: {self}"]


class InputError(EverviewError):
    """Rows, columns or values that do not fit the table.

    >>> import everview as ev
    >>> db = ev.connect()
    >>> t = db.table("t", {"x": int})
    >>> try:
    ...     t.insert([("one",)])
    ... except ev.InputError as error:
    ...     error.code
    'E_TYPE'
    """


class ConstraintError(InputError):
    """A change that violates a table's constraint; nothing was changed.

    >>> import everview as ev
    >>> db = ev.connect()
    >>> item = db.sql("CREATE TABLE item (name text, price int CHECK (price > 0))")
    >>> try:
    ...     item.insert([("pear", -1)])
    ... except ev.ConstraintError as error:
    ...     error.code, error.table, error.constraint
    ('E_CHECK', 'item', 'item_price_check')
    """

    table: str = ""
    constraint: str = ""
    guard: str = ""
    """internal name of the constraint"""
    codes: tuple[int, ...] = ()
    """the offending row, as codes"""
    failed: bool = False
    """whether evaluating the condition itself failed"""


class PlanError(EverviewError):
    """An invalid query.

    >>> import everview as ev
    >>> db = ev.connect()
    >>> t = db.table("t", {"x": int})
    >>> try:
    ...     t.select("y")
    ... except ev.PlanError as error:
    ...     error.code
    'E_COLUMN'
    """


class LoopError(EverviewError):
    """A loop that did not converge within its limit.

    >>> import everview as ev
    >>> db = ev.connect()
    >>> t = db.table("t", {"x": int})
    >>> t.insert([(1,)])
    >>> grow = lambda c: c.select(x=c.x + 1)
    >>> try:
    ...     db.view("v", t.iterate(grow, max_rounds=5))
    ... except ev.LoopError as error:
    ...     error.code
    'E_LOOP_LIMIT'
    """

    loop: int | None = None
    """index of the loop within the dataflow; the same on every shard"""


class CompactedError(EverviewError):
    """A time that can no longer be read because its history was compacted.

    >>> import everview as ev
    >>> db = ev.connect(history=0)
    >>> t = db.table("t", {"x": int})
    >>> t.insert([(1,)]); t.insert([(2,)])
    >>> try:
    ...     t.as_of(1)
    ... except ev.CompactedError as error:
    ...     error.code
    'E_COMPACTED'
    """


class RowErrors(EverviewError):
    """A view has rows that could not be computed; it recovers when their inputs are deleted or corrected.

    >>> import everview as ev
    >>> db = ev.connect()
    >>> t = db.table("t", {"x": int})
    >>> v = db.view("v", t.select(y=6 // t.x))
    >>> t.insert([(0,), (2,)])
    >>> try:
    ...     v.rows()
    ... except ev.RowErrors as error:
    ...     error.code
    'E_ROWS'
    >>> t.delete([(0,)])
    >>> v.rows()
    [(3,)]
    """


class UdfError(EverviewError):
    """A user's Python function raised an exception.

    >>> import everview as ev
    >>> db = ev.connect()
    >>> t = db.table("t", {"x": int})
    >>> t.insert([(0,)])
    >>> try:
    ...     db.view("v", t.map(lambda x: 6 // x, {"y": int}))
    ... except ev.UdfError as error:
    ...     error.code
    'E_UDF'
    """


class StoreError(EverviewError):
    """A durable directory cannot be opened, read or written: locked, damaged, full, taken over.

    >>> import everview as ev, tempfile
    >>> place = tempfile.mkdtemp()
    >>> db = ev.connect(place)
    >>> try:
    ...     ev.connect(place)
    ... except ev.StoreError as error:
    ...     error.code
    'E_LOCKED'
    >>> db.close()
    """


class MemoryLimitError(EverviewError, MemoryError):
    """Not enough memory for the operation; the session is unchanged and remains usable."""


class StoppedError(EverviewError):
    """A call was cancelled (`db.cancel()`) or exceeded its limits (`db.limits`); it has changed nothing.

    >>> import everview as ev, time
    >>> db = ev.connect()
    >>> t = db.table("t", {"x": int})
    >>> v = db.view("v", t.map(lambda x: time.sleep(60), {"y": int}))
    >>> try:
    ...     with db.limits(seconds=0.1):
    ...         t.insert([(1,)])
    ... except ev.StoppedError as error:
    ...     error.code, db.time
    ('E_TIMEOUT', 0)
    """


class ClosedError(EverviewError):
    """The session, view or table is closed or dropped.

    >>> import everview as ev
    >>> db = ev.connect()
    >>> t = db.table("t", {"x": int})
    >>> db.close()
    >>> try:
    ...     t.rows()
    ... except ev.ClosedError as error:
    ...     error.code
    'E_CLOSED'
    """


class InternalError(EverviewError):
    """A broken invariant: a bug in Everview rather than in the calling program."""


class Notice(UserWarning):
    """Warning about a clause that is ignored because it has no effect on results here.

    >>> import everview as ev, warnings
    >>> with warnings.catch_warnings(record=True) as told:
    ...     warnings.simplefilter("always")
    ...     _ = ev.connect().sql("CREATE TABLE t (x int) WITH (fillfactor = 70)")
    >>> [(w.category.__name__, str(w.message)) for w in told]
    [('Notice', 'fillfactor of CREATE TABLE is ignored: it says how rows are kept elsewhere')]
    """


def out_of_memory(where: str = "") -> MemoryLimitError:
    """Return the error for an out-of-memory condition."""
    return MemoryLimitError(
        "E_MEMORY",
        f"{where + ': ' if where else ''}there is not enough memory; nothing was changed",
        "join on more columns, bound what grows in a loop, load in smaller transactions, or give the process more",
    )


def overflow(where: str = "") -> InputError:
    """Return the error for a row whose multiplicity overflows."""
    return InputError(
        "E_OVERFLOW",
        f"{where + ': ' if where else ''}a row is there, or a group has members, more than 2**62 times",
        "add distinct() before joining, or join on more columns",
    )


def closest(name: str, candidates: Iterable[str], count: int = 1, alike: float = 0.6) -> list[str]:
    """The candidates that a misspelt name may have been meant to be, the nearest first: those that share most letters,
    and above all those in which two neighbouring letters are swapped. Upper and lower case do not matter.

    >>> closest("itn", ["interval", "int"]), closest("WEIGTH", ["src", "weight"]), closest("zzz", ["src"])
    (['int'], ['weight'], [])
    """
    names, given = {n.lower(): n for n in reversed(list(candidates))}, name.lower()
    swaps = (given[:i] + given[i + 1] + given[i] + given[i + 2 :] for i in range(len(given) - 1))
    swapped = {n for n in swaps if n in names and n != given}
    found = dict.fromkeys([*difflib.get_close_matches(given, names, count + 8, alike), *swapped])
    order = {n: i for i, n in enumerate(reversed(names))}  # which of two that are as near comes first

    def distance(other: str) -> tuple[float, int]:
        shared = difflib.SequenceMatcher(None, other, given).ratio()
        return -round(shared + (other in swapped) / 5, 6), order[other]

    return [names[n] for n in sorted(found, key=distance)][:count]


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """Return a hint for a misspelt name: the closest candidate, else all candidates.

    >>> did_you_mean("weigth", ["src", "dst", "weight"])
    "did you mean 'weight'?"
    >>> did_you_mean("zzz", ["src", "dst"])
    "available: 'src', 'dst'"
    """
    names = list(dict.fromkeys(candidates))
    given = name if isinstance(name, str) else repr(name)
    close = closest(given, names)
    if close:
        return f"did you mean {close[0]!r}?"
    return "available: " + ", ".join(map(repr, names)) if names else "there are none"
