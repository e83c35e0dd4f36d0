"""SQLSTATEs for each of Everview's error codes.

Drivers derive exception classes from them (`UniqueViolation`, `UndefinedTable`), and decide by them whether to retry:
40001 means that the same transaction may succeed, 57014 that it was cancelled. A code with several meanings has the
most general state.
"""

from __future__ import annotations

from everview.error_codes import SECTIONS
from everview.errors import EverviewError
from everview.expr.evaluate import ERRORS
from everview.expr.string_functions import ERROR_MORE_ROWS
from everview.kernels.expressions.scalars import ERROR_CAST, ERROR_DIVISION, ERROR_OVERFLOW

_OWN: dict[str, str] = {
    "E_ABSENT": "02000",
    "E_AGGREGATE": "42803",
    "E_AMBIGUOUS": "42702",
    "E_ANSWER": "38000",
    "E_ARITY": "42883",
    "E_ATTRIBUTE": "42703",
    "E_AUTH": "28P01",
    "E_BOOL": "42804",
    "E_BOUNDS": "22003",
    "E_BUSY": "53300",
    "E_CANCELLED": "57014",
    "E_CHANGES": "22000",
    "E_CHECK": "23514",
    "E_CHECKPOINT": "55000",
    "E_CLOCK": "22008",
    "E_CLOSED": "57P01",
    "E_CODE": "22000",
    "E_COLUMN": "42703",
    "E_COMMAND": "42601",
    "E_COMPACTED": "72000",
    "E_COMPONENT": "42704",
    "E_CONFLICT": "23000",
    "E_CONSTANT": "42804",
    "E_DAMAGED": "XX001",
    "E_DEPTH": "54001",
    "E_DIALECT": "22023",
    "E_DISK": "58030",
    "E_DROPPED": "42P01",
    "E_DUPLICATE": "42710",
    "E_DURATION": "22007",
    "E_EMPTY": "42601",
    "E_FACT": "22000",
    "E_FENCED": "57P02",
    "E_FILE": "58030",
    "E_FOREIGN_KEY": "23503",
    "E_FORBIDDEN": "42501",
    "E_FORBIDDEN_HOST": "42501",
    "E_FORMAT": "22P04",
    "E_FUNCTION": "42883",
    "E_FUTURE": "22023",
    "E_GENERATED": "428C9",
    "E_GROUP": "42803",
    "E_INTEREST": "55000",
    "E_INTERNAL": "XX000",
    "E_IN_USE": "2BP01",
    "E_JAVA": "58000",
    "E_JOB": "58000",
    "E_JOIN": "42P10",
    "E_KERNELS": "58000",
    "E_KEY": "23505",
    "E_LEAK": "42P10",
    "E_LITERAL": "42601",
    "E_LOCKED": "55006",
    "E_LOOP": "42P19",
    "E_LOOP_LIMIT": "54000",
    "E_LOOP_TYPE": "42804",
    "E_MEMORY": "53200",
    "E_MESSAGE": "08P01",
    "E_MODE": "22023",
    "E_MONOTONE": "0A000",
    "E_NAME": "42P07",
    "E_NEGATIVE": "22000",
    "E_NOT_A_TABLE": "42809",
    "E_NOT_COMPUTED": "55000",
    "E_NOT_EMPTY": "58P02",
    "E_NOT_FOUND": "42P01",
    "E_NO_FILE": "58P01",
    "E_NO_KEY": "42830",
    "E_NO_SOURCE": "55000",
    "E_NULL": "23502",
    "E_OPTION": "22023",
    "E_ORDER": "42P10",
    "E_OVERFLOW": "22003",
    "E_PARAMETER": "42P02",
    "E_PATTERN": "2201B",
    "E_PEER": "08006",
    "E_PIPELINE": "42601",
    "E_PLAN": "22023",
    "E_PORT": "58000",
    "E_PRESENT": "22023",
    "E_QUOTA": "53400",
    "E_RANGE": "22003",
    "E_READ_ONLY": "25006",
    "E_RECORD": "22P04",
    "E_RECURSION": "42P19",
    "E_REENTRANT": "55000",
    "E_RELATION": "42P01",
    "E_REPLICA": "XX000",
    "E_ROLE": "42704",
    "E_ROWS": "22000",
    "E_RPQ": "2201B",
    "E_SCHEMA": "42P16",
    "E_SERIALIZE": "40001",
    "E_SESSION": "55000",
    "E_SHARDS": "22023",
    "E_SINK": "58030",
    "E_SIZE": "54000",
    "E_SOURCE": "58030",
    "E_SOURCE_CHANGED": "58030",
    "E_SPARK": "58000",
    "E_STALE": "55000",
    "E_STAR": "42601",
    "E_STATE": "58P01",
    "E_STRATIFY": "42P19",
    "E_STREAM": "58000",
    "E_STUCK": "55000",
    "E_SYNTAX": "42601",
    "E_TABLE": "42P01",
    "E_TARGET": "22023",
    "E_TASK": "XX000",
    "E_THREADS": "22023",
    "E_TIMEOUT": "57014",
    "E_TOO_LONG": "54000",
    "E_TORN": "XX001",
    "E_TRANSACTION": "25000",
    "E_TRUST": "42501",
    "E_TYPE": "42804",
    "E_UDF": "38000",
    "E_UNIQUE": "23505",
    "E_UNIT": "22023",
    "E_UNSAFE": "42P10",
    "E_UNSUPPORTED": "0A000",
    "E_VARIABLE": "42601",
    "E_VERSION": "55000",
    "E_WHAT_IF": "25000",
    "E_WHY_DEPTH": "54001",
    "E_WIDTH": "42601",
    "E_WINDOW": "42P20",
}
"""Codes for which PostgreSQL has a state that says the same, or nearly."""

_OTHERS = {
    "Values, rows and columns": "22000",
    "Queries in any language": "42000",
    "SQL and the shell": "42000",
    "Datalog": "42000",
    "Graphs": "22023",
    "Time, history and explanations": "55000",
    "Sessions, memory and processes": "58000",
    "Directories and stores": "58030",
    "Sources, sinks and pipelines": "58030",
    "Spark": "58000",
}
"""The state of a code that has none of its own, by what it is about."""

_CAUSES = {
    ERRORS[ERROR_DIVISION]: "22012",
    ERRORS[ERROR_MORE_ROWS]: "21000",
    ERRORS[ERROR_OVERFLOW]: "22003",
    ERRORS[ERROR_CAST]: "22P02",
}
"""Why rows could not be computed, where PostgreSQL has a state for it."""

_SAYING = (
    ("E_UNSUPPORTED", "there is no function", "42883"),
    ("E_NAME", "there is no", "42704"),
    ("E_TYPE", "is not a valid date", "22007"),
    ("E_TYPE", "is not a valid time", "22007"),
    ("E_TYPE", "is not a valid interval", "22007"),
    ("E_TYPE", "is not a valid", "22P02"),
)
"""Codes that mean several things to PostgreSQL: a part of the message, and its state."""

UNKNOWN = "XX000"

STATES: dict[str, str] = {
    code: _OWN.get(code) or _OTHERS.get(section, UNKNOWN) for section, codes in SECTIONS.items() for code in codes
}
"""The SQLSTATE of each of our codes."""


class PgError(EverviewError):
    """An error with an SQLSTATE of its own, because PostgreSQL tells it from others of the same code."""

    def __init__(self, code: str, state: str, message: str, hint: str = "") -> None:
        super().__init__(code, message, hint)
        self.state = state
        self.place: int | None = None
        """where in the text it is, counted from 0; None if that is not known"""


def state_of(error: BaseException) -> str:
    """The SQLSTATE of an error.

    >>> state_of(EverviewError("E_COLUMN", "there is no column x")), state_of(ValueError())
    ('42703', 'XX000')
    """
    if isinstance(error, PgError):
        return error.state
    if isinstance(error, EverviewError) and error.code == "E_ROWS":
        causes = [(error.message.find(text), state) for text, state in _CAUSES.items() if text in error.message]
        return min(causes)[1] if causes else STATES[error.code]
    if isinstance(error, EverviewError):
        for code, part, state in _SAYING:
            if error.code == code and part in error.message:
                return state
        return STATES.get(error.code, UNKNOWN)
    return UNKNOWN
