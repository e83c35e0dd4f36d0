"""Error responses: SQLSTATE, message, hint, and position in the client's text."""

from __future__ import annotations

import logging
import re

from everview.errors import ConstraintError, EverviewError
from everview.server.pg.lexer import parameters
from everview.server.pg.sqlstates import PgError, state_of
from everview.sql.text.error_positions import SqlError

LOG = logging.getLogger("everview.server.pg")

_PLACE = re.compile(r"^line \d+, column \d+: ")


def fields_of(error: BaseException, severity: str = "ERROR", text: str = "", start: int = 0) -> dict[str, str]:
    """The fields of an error; `text` is the statement, `start` where it begins in what the client sent.

    >>> error = SqlError("E_COLUMN", "there is no column y", "", 1, 15, "SELECT $1 , y FROM t")
    >>> fields_of(error, text="SELECT $1, y FROM t")["P"]
    '14'
    """
    fields = {"S": severity, "V": severity, "C": state_of(error)}
    if not isinstance(error, EverviewError):
        LOG.error("a statement failed in a way that it must not", exc_info=error)
        return {**fields, "M": f"internal error: {type(error).__name__}", "H": "the server's log says more"}
    place = _place(error, text, start)
    message = _PLACE.sub("", error.message) if place is not None else error.message
    fields |= {"M": message or error.code, "H": error.hint, "R": error.code}
    if isinstance(error, ConstraintError):
        fields |= {"s": "public", "t": error.table.rpartition(".")[2], "n": error.constraint}
    if place is not None:
        fields["P"] = str(place + 1)
    return fields


def _place(error: EverviewError, text: str, start: int) -> int | None:
    """Where in what the client sent the error is, counted from 0."""
    if isinstance(error, PgError):
        return error.place
    if not isinstance(error, SqlError) or not text or error.line < 1:
        return None
    lines = text.split("\n")
    if error.line > len(lines):
        return None
    offset = sum(len(line) + 1 for line in lines[: error.line - 1]) + error.column - 1
    blanks = 0
    for _, end, _ in parameters(text):  # each has got a blank behind it: `lexer.spaced`
        same_line = text.count("\n", 0, end) == error.line - 1
        if same_line and end + blanks < offset:
            blanks += 1
    return start + max(offset - blanks, 0)


def notice(message: str, hint: str = "", severity: str = "NOTICE", state: str = "00000") -> dict[str, str]:
    """The fields of a notice."""
    return {"S": severity, "V": severity, "C": state, "M": message, "H": hint}
