"""`everview run pipeline.sql`: a script of sources, views and sinks.

Statements run in order and their results are printed. A script with sources and without a RUN is run when its
statements are done.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from everview.errors import EverviewError, InputError
from everview.io.listing import paths_in
from everview.io.pipeline import Run
from everview.session.reads import rendering
from everview.sql.answers.result import Result
from everview.sql.statements import Statements
from everview.sql.streams.subscription import Subscription
from everview.sql.text import statement_reader
from everview.sql.text.error_positions import SqlError

if TYPE_CHECKING:
    from everview.session.changes.batch import Batch
    from everview.session.session import Session

Print = Callable[[str], Any]
Tell = Callable[[Any, int | None], None]


def run(
    session: Session,
    path: Path,
    *,
    until: str | None = "caught_up",
    show: Print = print,
    progress: bool = False,
    dry: bool = False,
    tell: Tell | None = None,
) -> None:
    """Run a script in a session; `until` is when to stop reading its sources (None: at Ctrl-C). Paths in it are
    relative to the script. `dry`: objects are created, but no query is executed and no row changed. `tell` receives
    each result and the number of changed rows, if printing is not enough.

    >>> import everview as ev, tempfile
    >>> script = Path(tempfile.mkdtemp()) / "hello.sql"
    >>> _ = script.write_text("CREATE TABLE t (x int); INSERT INTO t VALUES (1), (2); SELECT sum(x) AS s FROM t;")
    >>> run(ev.connect(), script)
    s
    -
    3
    """
    try:
        text = path.read_text()
    except OSError as error:
        raise InputError("E_FILE", f"{path} cannot be read: {error.strerror}", "give the path of a script") from None
    started = set[str]()
    statements = Statements(session)
    statements.progress, statements.dry = progress, dry
    tell = tell or (lambda answer, _: show_answer(answer, show))
    try:
        with paths_in(path.parent):
            for statement, answer in statements.answers(text):
                started.add(statement.first if statement.first == "RUN" else statement.start)
                tell(answer, statements.affected)
    except EverviewError as error:
        if isinstance(error, SqlError):
            error.message = f"{path.name}, {error.message}"
        elif statements.current is not None:
            error.message = f"{path.name}, line {statement_reader.line_of(statements.current)}: {error.message}"
        raise
    if "CREATE SOURCE" in started and "RUN" not in started:
        tell(session.run(until, progress=progress), None)


def has_run(path: Path) -> bool:
    """Whether a script contains a RUN."""
    try:
        return any(statement.first == "RUN" for statement in statement_reader.statements(path.read_text()))
    except (OSError, EverviewError):
        return False  # running it will tell


def show_answer(answer: Any, show: Print) -> None:
    """Print what a statement gave, if it gave anything to see; a subscription goes on printing."""
    if isinstance(answer, Result):
        show(str(answer))
    elif isinstance(answer, Subscription):
        answer.listen(lambda batch: show_batch(answer.name, batch, show))
    elif isinstance(answer, Run):
        show(str(answer))


def show_batch(name: str, batch: Batch, show: Print) -> None:
    """Print the changes of a time."""
    for *row, diff in rendering.in_order([(*row, diff) for row, diff in batch.rows()]):
        values = ", ".join("NULL" if v is None else str(v) for v in row)
        show(f"{name} @{batch.time} {diff:+d}  {values}")
