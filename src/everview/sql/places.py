"""Where in the text a mistake is: every refusal names line and column.

sqlglot notes on identifiers, literals and functions where they started. Other nodes (operators, clauses) are where
their first part is.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from everview.errors import EverviewError, PlanError
from everview.sql.notes import Notes


class SqlError(PlanError):
    """A statement that makes no sense or cannot be kept up to date, with the line and column where it says so.

    >>> error = SqlError("E_COLUMN", "there is no column c_nam", "did you mean 'c_name'?", 1, 8)
    >>> print(error)
    [E_COLUMN] line 1, column 8: there is no column c_nam
      hint: did you mean 'c_name'?
    """

    def __init__(self, code: str, message: str, hint: str = "", line: int = 0, column: int = 0) -> None:
        super().__init__(code, f"line {line}, column {column}: {message}", hint)
        self.line = line
        self.column = column


@dataclass(frozen=True)
class Source:
    """The text of a script, to find places in.

    >>> Source("select\\n  x").line_and_column(9)
    (2, 3)
    """

    text: str
    notes: Notes = field(default_factory=Notes)

    def line_and_column(self, offset: int) -> tuple[int, int]:
        """Both counted from 1."""
        return self.text.count("\n", 0, offset) + 1, offset - self.text.rfind("\n", 0, offset)

    def error(self, at: exp.Expr | None, code: str, message: str, hint: str = "") -> SqlError:
        """An error at a node's place."""
        return SqlError(code, message, hint, *self.line_and_column(_offset(at)))

    def refuse(self, at: exp.Expr | None, what: str, hint: str = "") -> SqlError:
        """The error for SQL that is understood but not supported."""
        return self.error(at, "E_UNSUPPORTED", what, hint)

    def only(self, node: exp.Expr, *known: str) -> None:
        """Refuse a node with parts other than the known ones: what is not understood must not be passed over."""
        for name, value in node.args.items():
            if value and name not in known:
                raise self.refuse(node, f"{name.strip('_').replace('_', ' ').upper()} is not supported here")

    def placed(self, error: EverviewError, at: exp.Expr) -> SqlError:
        """An error of the layers below, which know no places, with its place."""
        if isinstance(error, SqlError):
            return error
        hint = "cast one of them: CAST(x AS type)" if ".cast(" in error.hint else error.hint
        return self.error(at, error.code, error.message, hint)


def _offset(node: exp.Expr | None) -> int:
    while node is not None:
        starts = [n.meta["start"] for n in node.walk() if "start" in n.meta]
        if starts:
            return int(min(starts))
        node = node.parent
    return 0
