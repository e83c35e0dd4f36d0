"""Errors as JSON, and back: of the same class, with the same code, message and hint.

An error class that the client does not have loaded becomes its nearest base class in `everview.errors`: a `SqlError`
arrives as a `PlanError`, with its line and column. Other exceptions are reported as E_INTERNAL without their text,
which may contain anybody's data; the server's log has it.
"""

from __future__ import annotations

from typing import Any

from everview import errors
from everview.errors import EverviewError, InternalError

_PLACE = ("line", "column")


def told(error: BaseException) -> dict[str, Any]:
    """An error as JSON.

    >>> told(errors.InputError("E_NAME", "no view is called 'v'", "available: 'w'"))
    {'code': 'E_NAME', 'class': 'InputError', 'message': "no view is called 'v'", 'hint': "available: 'w'"}
    """
    if not isinstance(error, EverviewError):
        error = InternalError("E_INTERNAL", "something went wrong in the server", "its log says what")
    known = next(c.__name__ for c in type(error).__mro__ if getattr(errors, c.__name__, None) is c)
    found = {"code": error.code, "class": known, "message": error.message, "hint": error.hint}
    return found | {n: v for n in _PLACE if isinstance(v := getattr(error, n, None), int)}


def error_of(data: Any) -> EverviewError:
    """The error that JSON describes.

    >>> error_of({"code": "E_ROWS", "class": "RowErrors", "message": "a row failed"})
    RowErrors('E_ROWS', 'a row failed', '')
    """
    if not isinstance(data, dict):
        return InternalError("E_INTERNAL", f"the server said {str(data)[:200]!r}", "is it an Everview server?")
    kind = getattr(errors, str(data.get("class")), None)
    if not (isinstance(kind, type) and issubclass(kind, EverviewError)):
        kind = EverviewError
    error = kind(str(data.get("code", "E_INTERNAL")), str(data.get("message", "")), str(data.get("hint", "")))
    for name in _PLACE:
        if isinstance(data.get(name), int):
            setattr(error, name, data[name])
    return error
