"""Statements of other systems about what there is not here: their machines, secrets and message brokers.

    CREATE CLUSTER c ..., CREATE SECRET s ..., CREATE CONNECTION k ...; ALTER and DROP of them
    CREATE DEFAULT INDEX ON v
    CREATE SINK s FROM v WITH (connector = 'kafka', ...); CREATE SINK s AS SELECT ... WITH (...); DROP SINK s

None of them changes what a view contains, so they are ignored with a notice, and the script that has them goes on. What
is named in FROM must be there. A sink that writes into a table is refused: without it the table would lack rows.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from sqlglot import TokenType

from everview.sql.text.statement_reader import Statement
from everview.sql.text.token_reader import TEXTS, Words, relation

if TYPE_CHECKING:
    from everview.sql.statements import Statements

_THINGS = {"CLUSTER": "clusters", "SECRET": "secrets", "CONNECTION": "connections to brokers", "SINK": "named sinks"}


def is_about(statement: Statement) -> bool:
    """Whether a statement is about such a thing. CREATE SINK FROM v INTO 'path' is ours.

    >>> from everview.sql.text.statement_reader import statements
    >>> [is_about(s) for s in statements("CREATE SECRET k AS 'x'; CREATE SINK FROM v INTO 'x.csv'; DROP SINK s")]
    [True, False, True]
    """
    verb, *words = [t.text.upper() for t in statement.tokens[:3]]
    if statement.start == "ALTER":  # one token for all that follows
        words = statement.text.split()[1:3]
    if verb not in ("CREATE", "DROP", "ALTER") or len(words) < 2:
        return False
    if words == ["DEFAULT", "INDEX"]:
        return True
    into = any(a.text.upper() == "INTO" and b.token_type in TEXTS for a, b in pairwise(statement.tokens))
    return words[0].upper() in _THINGS and not (words[0] == "SINK" and (words[1] == "FROM" or into))


def passed_over(sql: Statements, statement: Statement) -> None:
    """Issue the notice."""
    words = Words(statement)
    verb = words.choose("CREATE", "DROP", "ALTER")
    if words.next_is("DEFAULT", "INDEX"):
        words.need("ON")
        relation(sql, words)
        statement.notes.notices.append("CREATE DEFAULT INDEX is ignored: views keep the indexes that they need")
        return
    kind = words.choose(*_THINGS)
    if verb == "CREATE" and kind == "SINK":
        _check_sink(sql, words)
        statement.notes.notices.append("nothing is written: CREATE SINK FROM view INTO 'path' makes a sink of files")
        return
    statement.notes.notices.append(f"{verb} {kind} is ignored: there are no {_THINGS[kind]} here")


def _check_sink(sql: Statements, words: Words) -> None:
    """name [INTO table] {FROM view | AS query} ..."""
    words.next_is("IF", "NOT", "EXISTS")
    name = words.name("the sink's name")
    if words.next_is("INTO") and not words.is_next(TokenType.STRING):
        words.at -= 1
        hint = "CREATE VIEW of the query; UNION ALL brings several together"
        raise words.error("a sink does not write into a table", hint, "E_UNSUPPORTED")
    if words.next_is("FROM"):
        relation(sql, words)
    elif not words.next_is("AS"):
        raise words.unknown("FROM is missing here", f"CREATE SINK {name} FROM view", ("FROM", "AS"))
