"""Step failures as data: the path of an error from a task to the driver.

A pickled exception would execute code where it is read, and may not be readable at all. So an Everview error travels as
its class name, code and texts, and is rebuilt as the same error; any other exception becomes `E_TASK` with its name and
text.
"""

from __future__ import annotations

from typing import Any

from everview import errors
from everview.errors import ConstraintError, EverviewError, InternalError, LoopError
from everview.spark.workers.address_space import NoAddressSpace

KNOWN: dict[str, type[EverviewError]] = {
    found.__name__: found
    for found in (*vars(errors).values(), NoAddressSpace)
    if isinstance(found, type) and issubclass(found, EverviewError)
}
"""The error classes that are preserved."""


class PeerFailed(Exception):
    """Another task of the step failed and reports the cause itself."""


class PeerLost(InternalError):
    """Another task of the step is gone or unreachable; the step is retried."""


def told(error: BaseException) -> dict[str, Any]:
    """An error as JSON-compatible data.

    >>> made(told(errors.InputError("E_DEMO", "the cup is empty", "fill it")))
    InputError('E_DEMO', 'the cup is empty', 'fill it')
    >>> print(made(told(KeyError(3))).message)
    a task of the step failed: KeyError: 3
    >>> broken = errors.ConstraintError("E_CONSTRAINT", "a constraint does not hold")
    >>> broken.guard, broken.codes = "everview.constraint 0", (3, -1)
    >>> made(told(broken)).guard, made(told(broken)).codes
    ('everview.constraint 0', (3, -1))
    """
    if isinstance(error, PeerFailed):
        return {"kind": "PeerFailed", "text": str(error)}
    if not isinstance(error, EverviewError):
        return {"kind": "", "text": f"{type(error).__name__}: {error}"}
    found: dict[str, Any] = {"kind": _kind(error), "code": error.code, "message": error.message, "hint": error.hint}
    if isinstance(error, LoopError):
        found["loop"] = error.loop
    if isinstance(error, ConstraintError):
        found |= {"guard": error.guard, "codes": list(error.codes), "failed": error.failed}
    if found["kind"] == "AbsentRows":
        absent: Any = error
        found |= {"table": absent.table, "rows": [[*row, n] for row, n in absent.rows.items()]}
    return found


def made(told: dict[str, Any]) -> Exception:
    """The error rebuilt from its data."""
    kind = told["kind"]
    if kind == "PeerFailed":
        return PeerFailed(told["text"])
    if not kind:
        what = f"a task of the step failed: {told['text']}"
        return InternalError("E_TASK", what, "nothing of the step was committed; report this")
    if kind == "AbsentRows":
        from everview.runtime.base import AbsentRows  # most processes need none of it

        return AbsentRows.of(told["table"], {tuple(row): n for *row, n in told["rows"]})
    error = KNOWN[kind](told["code"], told["message"], told["hint"])
    if isinstance(error, LoopError):
        error.loop = told["loop"]
    if isinstance(error, ConstraintError):
        error.guard, error.codes, error.failed = told["guard"], tuple(told["codes"]), told["failed"]
    return error


def _kind(error: EverviewError) -> str:
    """The name of the error's class, or of the nearest base class that both ends know."""
    return next(each.__name__ for each in type(error).__mro__ if each.__name__ in (*KNOWN, "AbsentRows"))
