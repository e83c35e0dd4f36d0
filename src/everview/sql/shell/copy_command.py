r"""`\copy`: between tables, queries and files, in the shell.

    \copy t from 'in/t.csv'                     rows of a file, all in one transaction
    \copy t to 'out/t.parquet'                  a table or view
    \copy (SELECT ...) to 'out/answer.json'     an answer

The format follows from the file's name. Paths are those of the shell's user, so files=False does not forbid them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from everview.errors import InputError
from everview.io.bulk_load import load
from everview.io.source_inference import by_suffix
from everview.session.reads.rendering import counted
from everview.session.table import Table

if TYPE_CHECKING:
    from everview.io.files import Files
    from everview.session.session import Session

_FORM = re.compile(
    r"(?P<what>\(.*\)|\S+)\s+(?P<way>from|to)\s+(?P<quote>['\"]?)(?P<path>.+?)(?P=quote)", re.IGNORECASE | re.DOTALL
)


def copy(session: Session, text: str) -> str:
    """Execute `\\copy`; return a summary.

    >>> import everview as ev, tempfile
    >>> db = ev.connect()
    >>> t = db.table("t", {"x": int})
    >>> t.insert([(1,), (2,)])
    >>> path = f"{tempfile.mkdtemp()}/t.csv"
    >>> copy(db, f"(SELECT x + 1 AS x FROM t) to '{path}'")
    'copied 2 rows'
    >>> copy(db, f"t from {path}"), sorted(t.rows())
    ('copied 2 rows', [(1,), (2,), (2,), (3,)])
    """
    found = _FORM.fullmatch(text.strip())
    if found is None:
        raise InputError(
            "E_SYNTAX", f"\\copy {text} is not understood", "\\copy t from 'file.csv', \\copy v to 'file.csv'"
        )
    what, path = found["what"], found["path"]
    file = _file(path)
    if found["way"].lower() == "from":
        table = session[what]
        if not isinstance(table, Table):
            raise InputError("E_TYPE", f"{what} is a view, which cannot be changed", "copy into a table")
        return f"copied {counted(load(session, table, file))}"
    rows = session.sql(what[1:-1]).to_arrow() if what.startswith("(") else session[what].to_arrow()
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as out:
        file.format.write(rows, out)
    return f"copied {counted(rows.num_rows)}"


def _file(path: str) -> Files:
    """The file of this name, in the format that its name tells."""
    try:
        return by_suffix(path)
    except InputError as error:
        raise InputError(error.code, error.message, "end the name with .csv, .json, .parquet or .arrow") from None
