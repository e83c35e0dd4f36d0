"""SQL over the same engine: `db.sql(text)`.

sqlglot parses; the modules here, in reading order, turn the tree into the plans that Python collections make too:

    callnames, dialects    in which dialect a text is read, and which functions stay calls by name
    reading       statements, and forms sqlglot does not know
    places        where in the text a mistake is
    parts, tokens     nothing that was written is passed over
    names         types and column names
    scopes        relations, and how names find columns
    constants, calls, scalars, text_forms, moment_forms    expressions
    unfolding, table_functions    generate_series, unnest: functions that give rows
    conditions    what of a join's conditions are keys
    join_order    which relation is joined next
    from_clause   tables and joins
    counts        LIMIT, OFFSET, FETCH
    subqueries    EXISTS, IN, ANY, values: as joins
    windows       OVER, WINDOW and QUALIFY
    lists, folds, named_aggregates    aggregates that are more than one sum
    grouping      GROUP BY and aggregates
    stars, query  SELECT, set operations, ORDER BY and LIMIT
    recursion     WITH RECURSIVE
    choice        how joins of several tables are kept: hints, SET plan
    timed         now(), windows on tables, times to live
    parameters, prepared    $name
    statements, result    what `db.sql` does, and its answers
    schemas       names with a schema, and the search path
    definitions   CREATE TABLE, CREATE VIEW, DROP
    filled        CREATE TABLE ... AS query
    altering, comments    ALTER, COMMENT ON
    indexes, lookups    CREATE INDEX, and rows that are found in one
    defined       CREATE FUNCTION ... LANGUAGE SQL
    affected, conflicts, changes    INSERT, UPDATE, DELETE, TRUNCATE
    explaining, describing, showing, reasons    EXPLAIN, DESCRIBE, SHOW, WHY
    words, subscription, pipelines    SUBSCRIBE; CREATE SOURCE, CREATE SINK and RUN
    files, copies    files in FROM, and COPY
    repl, script  `everview sql` and `everview run`

Whatever cannot be kept up to date is refused with a reason, a line and a column.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everview.session.core import core_of
from everview.sql.places import SqlError
from everview.sql.result import Result
from everview.sql.statements import Statements

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
    try:
        return statements.run(text)
    except RecursionError:
        raise SqlError(
            "E_DEPTH", "the text is nested too deeply", "compute parts of it in views of their own", 1, 1
        ) from None
