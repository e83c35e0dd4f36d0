"""`FROM ev.views`: statements about the session itself, which its inner session answers (`everview.system`).

A statement that reads, subscribes to or defines something in the schema `ev` is given to the inner session, without the
schema's name: blanks stand in its place, so errors keep theirs. Relations of `ev` can be joined with each other, not
with tables of the session. A schema `ev` that somebody has made is his, and nothing goes elsewhere.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from everview.runtime.embedded import EmbeddedRuntime
from everview.session import doors
from everview.session.core import Core
from everview.session.rights.acting import acting
from everview.session.session import Session
from everview.sql.ddl import schemas
from everview.sql.text import reading

if TYPE_CHECKING:
    from everview.sql.statements import Statements

SCHEMA = "ev"

_BEFORE = {"FROM", "JOIN", "VIEW", "TO", "SUBSCRIBE", "DESCRIBE", "EXISTS", "EXPLAIN", "REPLACE"}
"""What stands before the name of a table or view, not of a column."""


def is_about(sql: Statements, statement: reading.Statement) -> bool:
    """Whether a statement is about the session itself."""
    if SCHEMA not in statement.text.lower() or not any(_places(statement)):
        return False
    return SCHEMA not in (name.lower() for name in schemas.made(sql.core)) and not sql.is_inner


def _places(statement: reading.Statement) -> list[int]:
    """Where the schema stands before the name of a table or view; nothing if it may be an alias everywhere."""
    tokens = statement.tokens
    places = [
        i
        for i in range(len(tokens) - 2)
        if tokens[i].text.lower() == SCHEMA and tokens[i + 1].text == "." and (i == 0 or tokens[i - 1].text != ".")
    ]
    sure = any(i and f" {tokens[i - 1].text.upper()}".split(" ")[-1] in _BEFORE for i in places)
    return places if sure else []


def _own_quotas(statement: reading.Statement) -> bool:
    """Whether a statement asks `ev.quotas` and nothing else of `ev`."""
    places = _places(statement)
    named = {statement.tokens[i + 2].text.lower() for i in places}
    return statement.first == "SELECT" and named == {"quotas"}


def _quotas(sql: Statements, statement: reading.Statement) -> Any:
    """`ev.quotas` for one who may not look at the server: its own rows."""
    who = sql.core.access.acting()
    assert who is not None
    found = next((r for r in sql.core.attached.get("ev", ()) if r.name == "quotas"), None)
    with acting(None), Session(Core(EmbeddedRuntime(sql.core.interner))) as own:
        if found is not None:
            own.table("quotas", found.columns).insert([r for r in found.rows(sql.core) if r[0] == who.role])
        text = "".join(
            " "
            if any(statement.tokens[i].start <= at <= statement.tokens[i + 1].end for i in _places(statement))
            else c
            for at, c in enumerate(statement.text)
        )
        answer = type(sql)(own).run(text)
        answer.rows()
        return answer


def run(sql: Statements, statement: reading.Statement) -> Any:
    """Have the inner session run a statement."""
    if _own_quotas(statement) and sql.core.access.acting() is not None:
        return _quotas(sql, statement)
    sql.core.access.may_manage("look at ev", look=True)
    letters, tokens = list(statement.text), statement.tokens
    for i in _places(statement):
        for at in range(tokens[i].start, tokens[i + 1].end + 1):
            letters[at] = " "
    text = "".join(letters)
    inner = next(reading.statements(text, lambda: statement.dialect), None)
    system = doors.system(sql.core)
    system.refresh()
    with acting(None):
        return system.statements._run_one(replace(statement, text=text, tokens=() if inner is None else inner.tokens))
