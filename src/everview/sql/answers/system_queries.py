"""`FROM ev.views`: statements about the session itself, executed by its inner session (`everview.system`).

A statement that reads, subscribes to or defines something in the schema `ev` is passed to the inner session, with the
schema's name blanked out, so that error positions are right. Relations of `ev` can be joined with each other, but not
with tables of the session. A user-created schema `ev` takes precedence.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from everview.runtime.embedded import EmbeddedRuntime
from everview.session import doors
from everview.session.core import Core, core_of
from everview.session.rights.principal import acting
from everview.session.session import Session
from everview.sql.ddl import schemas
from everview.sql.text import statement_reader
from everview.system.inner_rights import enclosed, on_behalf

if TYPE_CHECKING:
    from everview.sql.statements import Statements

SCHEMA = "ev"

_BEFORE = {"FROM", "JOIN", "VIEW", "TO", "SUBSCRIBE", "DESCRIBE", "EXISTS", "EXPLAIN", "REPLACE"}
"""What precedes the name of a table or view, rather than of a column."""


def is_about(sql: Statements, statement: statement_reader.Statement) -> bool:
    """Whether a statement is about the session itself."""
    if SCHEMA not in statement.text.lower() or not any(_places(statement)):
        return False
    return SCHEMA not in (name.lower() for name in schemas.made(sql.core)) and not sql.is_inner


def _places(statement: statement_reader.Statement) -> list[int]:
    """Where the schema precedes the name of a table or view; empty if it may be an alias everywhere."""
    tokens = statement.tokens
    places = [
        i
        for i in range(len(tokens) - 2)
        if tokens[i].text.lower() == SCHEMA and tokens[i + 1].text == "." and (i == 0 or tokens[i - 1].text != ".")
    ]
    sure = any(i and f" {tokens[i - 1].text.upper()}".split(" ")[-1] in _BEFORE for i in places)
    return places if sure else []


def _blanked(statement: statement_reader.Statement) -> str:
    """The text of a statement without the schema's name; everything else keeps its place."""
    letters, tokens = list(statement.text), statement.tokens
    for i in _places(statement):
        for at in range(tokens[i].start, tokens[i + 1].end + 1):
            letters[at] = " "
    return "".join(letters)


def inside(sql: Statements, text: str) -> str | None:
    """A statement as the inner session's SQL has it; None if it is not about the session itself."""
    statement = next(statement_reader.statements(text, lambda: sql.dialect), None)
    if statement is None or not is_about(sql, statement):
        return None
    return _blanked(statement)


def _own_quotas(statement: statement_reader.Statement) -> bool:
    """Whether a statement reads `ev.quotas` and nothing else of `ev`."""
    places = _places(statement)
    named = {statement.tokens[i + 2].text.lower() for i in places}
    return statement.first == "SELECT" and named == {"quotas"}


def _quotas(sql: Statements, statement: statement_reader.Statement) -> Any:
    """`ev.quotas` for users without server privileges: their own rows."""
    who = sql.core.access.acting()
    assert who is not None
    found = next((r for r in sql.core.attached.get("ev", ()) if r.name == "quotas"), None)
    with Session(Core(EmbeddedRuntime(sql.core.interner))) as own:
        if found is not None:
            with acting(None):
                own.table("quotas", found.columns).insert([r for r in found.rows(sql.core) if r[0] == who.role])
        enclosed(core_of(own), sql.core)
        answer = type(sql)(own).run(_blanked(statement))
        answer.rows()
        return answer


def run(sql: Statements, statement: statement_reader.Statement) -> Any:
    """Run a statement in the inner session."""
    if _own_quotas(statement) and sql.core.access.acting() is not None:
        return _quotas(sql, statement)
    sql.core.access.may_manage("look at ev", look=True)
    text = _blanked(statement)
    inner = next(statement_reader.statements(text, lambda: statement.dialect), None)
    system = doors.system(sql.core)
    system.refresh()
    with on_behalf():
        return system.statements._run_one(replace(statement, text=text, tokens=() if inner is None else inner.tokens))
