"""Every error Everview raises on purpose.

An error says what is wrong, where, and what to do. Each carries a stable `code` to program against, a `message` for
people and a `hint`:

    EverviewError
    ├── InputError        rows, columns or values that do not fit the table         E_TYPE E_WIDTH E_NULL E_RANGE ...
    │   └── ConstraintError   a table's constraint would not hold                   E_UNIQUE E_CHECK E_FOREIGN_KEY
    ├── PlanError         a query that makes no sense: names, types, shapes         E_COLUMN E_AMBIGUOUS E_TYPE ...
    ├── LoopError         a loop that did not converge within its limit             E_LOOP_LIMIT
    ├── CompactedError    a time that can no longer be read                         E_COMPACTED
    ├── RowErrors         a view holds rows that failed (division by zero, ...)     E_ROWS
    ├── UdfError          a user's Python function raised                           E_UDF
    ├── StoreError        a durable directory that is locked, damaged, full ...     E_LOCKED E_DAMAGED E_DISK ...
    ├── MemoryLimitError  there is not enough memory; Python knows it as its own   E_MEMORY
    ├── StoppedError      somebody cancelled the call, or its time was over         E_CANCELLED E_TIMEOUT
    ├── ClosedError       the session, view or table is closed or dropped           E_CLOSED
    └── InternalError     our fault: an invariant is broken                         E_INTERNAL

Programs catch the class, or compare `error.code`; the texts are for people and may improve.
"""

from __future__ import annotations

import difflib
import os
import traceback
from collections.abc import Iterable


class EverviewError(Exception):
    """Anything that goes wrong in Everview: a code, a message, and what to do about it.

    >>> print(EverviewError("E_DEMO", "the cup is empty", "fill it"))
    [E_DEMO] the cup is empty
      hint: fill it
    """

    operator: int | None = None
    """the number of the operator that was running, where that is known"""

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(code, message, hint)
        self.code = code
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        text = f"[{self.code}] {self.message}"
        return f"{text}\n  hint: {self.hint}" if self.hint else text

    def _render_traceback_(self) -> list[str]:
        """What IPython shows below a cell: the user's own lines, not where in this package the mistake was noticed. A
        fault of ours, and what another error caused, is shown whole.
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
    """A change that a constraint of a table forbids; nothing was changed.

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
    """what the constraint is called inside"""
    codes: tuple[int, ...] = ()
    """the row that breaks it, as codes"""
    failed: bool = False
    """whether a row's condition could not be computed at all"""


class PlanError(EverviewError):
    """A query that makes no sense.

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
    """which of the dataflow's loops it was, in their order; the same on every shard"""


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
    """A view holds rows that could not be computed; deleting or correcting their inputs heals it.

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
    """There is not enough memory for what was asked; the session is as it was before and can go on."""


class StoppedError(EverviewError):
    """A call was cancelled (`db.cancel()`), or took longer than it may (`db.limits`); it has changed nothing.

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
    """A broken invariant: a fault in Everview, not in the program that uses it."""


class Notice(UserWarning):
    """Something that a statement says and that is ignored, because it changes no answer here.

    >>> import everview as ev, warnings
    >>> with warnings.catch_warnings(record=True) as told:
    ...     warnings.simplefilter("always")
    ...     _ = ev.connect().sql("CREATE TABLE t (x int) WITH (fillfactor = 70)")
    >>> [(w.category.__name__, str(w.message)) for w in told]
    [('Notice', 'fillfactor of CREATE TABLE is ignored: it says how rows are kept elsewhere')]
    """


def out_of_memory(where: str = "") -> MemoryLimitError:
    """The error for memory that does not suffice."""
    return MemoryLimitError(
        "E_MEMORY",
        f"{where + ': ' if where else ''}there is not enough memory; nothing was changed",
        "join on more columns, bound what grows in a loop, load in smaller transactions, or give the process more",
    )


def overflow(where: str = "") -> InputError:
    """The error for a row that is there too often."""
    return InputError(
        "E_OVERFLOW",
        f"{where + ': ' if where else ''}a row is there, or a group has members, more than 2**62 times",
        "add distinct() before joining, or join on more columns",
    )


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """A hint for a misspelt name: the closest candidate, else all of them.

    >>> did_you_mean("weigth", ["src", "dst", "weight"])
    "did you mean 'weight'?"
    >>> did_you_mean("zzz", ["src", "dst"])
    "available: 'src', 'dst'"
    """
    names = list(dict.fromkeys(candidates))
    given = name if isinstance(name, str) else repr(name)
    close = difflib.get_close_matches(given, names, n=1, cutoff=0.6)
    if not close:
        close = [n for n in names if n.lower() == given.lower()][:1]
    if close:
        return f"did you mean {close[0]!r}?"
    return "available: " + ", ".join(map(repr, names)) if names else "there are none"
