"""SQL over the same engine: `db.sql(text)`.

sqlglot parses; the packages here, in reading order, turn the tree into the same plans that Python collections produce:

    text        statements, dialects, error positions; nothing in a statement is ignored
    scalar      types, names and expressions
    select      queries: FROM, WHERE, GROUP BY, windows, subqueries, recursion
    clock       now(), windows on tables, times to live, watermarks
    statements  the execution of `db.sql`
    answers     how a SELECT is executed; parameters and prepared queries
    ddl, dml    definitions and changes
    inspection  EXPLAIN, DESCRIBE, SHOW, WHY
    streams     SUBSCRIBE, CREATE SOURCE, CREATE SINK and RUN
    shell       `everview sql` and `everview run`

Three modules contain callables that plans refer to, and keep their names because directories store them: `lists` and
`folds` (complex aggregates) and `unfolding` (functions that return rows).

Whatever cannot be maintained is refused with a reason, a line and a column.

Further packages:

    rights                 roles, grants, policies
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everview.session.core import core_of
from everview.sql.answers.result import Result
from everview.sql.statements import Statements
from everview.sql.text.error_positions import SqlError

if TYPE_CHECKING:
    from everview.session.session import Session

__all__ = ["Result", "SqlError", "execute"]


def statements_of(session: Session) -> Statements:
    """A session's SQL."""
    attached = core_of(session).attached
    if "sql" not in attached:
        attached["sql"] = Statements(session)
    found: Statements = attached["sql"]
    return found


def execute(session: Session, text: str) -> Any:
    """Run SQL in a session; see `Session.sql`."""
    statements = statements_of(session)
    return statements.run(text)
