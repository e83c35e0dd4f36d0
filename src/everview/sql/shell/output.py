r"""Output formats of the shell: a table, one value per line, or machine-readable.

    table      columns under their names, numbers at the right      csv        with a line of names
    line       `\x`: a row as lines of `name | value`               json       an object per line
    markdown   a table for a page

Tables are truncated for display: long values with an ellipsis, many rows with a count. Machine-readable output never
is.
"""

from __future__ import annotations

import io
from collections.abc import Callable

import pyarrow as pa

from everview.errors import InputError, did_you_mean
from everview.io.formats import Csv, Format, Json
from everview.session.reads import rendering
from everview.sql.answers.result import LONGEST, Result


class Output:
    """How answers are shown: a mode, and how much of them.

    >>> import everview as ev
    >>> answer = ev.connect().sql("SELECT 'fig' AS name, 12 AS n")
    >>> for mode in ("table", "line", "markdown", "csv", "json"):
    ...     print(Output(mode).text(answer))
    name   n
    ----  --
    fig   12
    name | fig
    n    | 12
    | name | n |
    |---|---:|
    | fig | 12 |
    "name","n"
    "fig",12
    {"name": "fig", "n": 12}
    """

    def __init__(self, mode: str = "table", rows: int | None = None, widest: int = LONGEST) -> None:
        self.rows = rows
        """at most so many are shown of a table; None: all"""
        self.widest = widest
        """letters of a value that are shown in a table"""
        self.set_mode(mode)

    def set_mode(self, mode: str) -> None:
        """Choose how answers are shown."""
        if mode not in MODES:
            raise InputError("E_OPTION", f"there is no mode {mode!r}", did_you_mean(mode, MODES))
        self.mode = mode

    def text(self, answer: Result) -> str:
        """The answer as text."""
        return MODES[self.mode](self, answer)

    def _table(self, answer: Result) -> str:
        rows = answer.rows()
        kept = rows if self.rows is None else rows[: self.rows]
        widest = self.widest if len(answer.columns) > 1 else LONGEST  # a plan, a document: there is room for it
        found = rendering.lines(answer.columns, answer.types, kept, widest=widest)
        if len(kept) < len(rows):
            found.append(f"{rendering.left_out(len(kept), len(rows))}; \\rows all shows them")
        return "\n".join(found)

    def _line(self, answer: Result) -> str:
        width = max(map(len, answer.columns), default=0)
        parts = [
            "\n".join(
                f"{n.ljust(width)} | {rendering.cell(v, LONGEST)}" for n, v in zip(answer.columns, row, strict=True)
            )
            for row in answer.rows()
        ]
        return "\n\n".join(parts)

    def _markdown(self, answer: Result) -> str:
        def line(cells: list[str]) -> str:
            return "| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |"

        rule = "|" + "|".join("---:" if rendering.is_number(t) else "---" for t in answer.types) + "|"
        rows = [line([rendering.cell(v, LONGEST) for v in row]) for row in answer.rows()]
        return "\n".join([line(answer.columns), rule, *rows])


def _written(format: Format, table: pa.Table) -> str:
    """What a file of this format would hold."""
    file = io.BytesIO()
    format.write(table, file)
    return file.getvalue().decode().removesuffix("\n")


MODES: dict[str, Callable[[Output, Result], str]] = {
    "table": Output._table,
    "line": Output._line,
    "markdown": Output._markdown,
    "csv": lambda _, answer: _written(Csv(), answer.to_arrow()),
    "json": lambda _, answer: _written(Json(), answer.to_arrow()),
}
