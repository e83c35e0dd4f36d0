"""CREATE SOURCE, CREATE SINK and RUN: pipelines in SQL.

    CREATE SOURCE orders (id int NOT NULL, amount decimal(10, 2)) FROM 'in/orders' FORMAT csv WITH (key = 'id');
    CREATE VIEW total AS SELECT sum(amount) AS total FROM orders;
    CREATE SINK FROM total INTO 'out/total.json' WITH (mode = 'snapshot');
    CREATE SINK FROM total INTO 'https://example.org/total';            -- or INTO 'program --flag' FORMAT command
    RUN UNTIL CAUGHT UP;

The default FORMAT follows from the file's name; options are passed to `db.source` and to the format's function in
`everview.io`, or to `view.write_to`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from sqlglot import TokenType

from everview import io
from everview.codes.digits import whole_number
from everview.errors import InputError, did_you_mean
from everview.sql.answers.files import forbidden
from everview.sql.ddl.definitions import columns_of
from everview.sql.text.statement_reader import Statement
from everview.sql.text.token_reader import Words

if TYPE_CHECKING:
    from everview.sql.statements import Statements

FORMATS: dict[str, Callable[..., Any]] = {"csv": io.csv, "json": io.json, "parquet": io.parquet, "arrow": io.arrow}
_ENDINGS = {"csv": "csv", "json": "json", "jsonl": "json", "parquet": "parquet", "arrow": "arrow", "feather": "arrow"}
_SOURCE_OPTIONS = ("key", "mode", "bad", "missing", "change_column", "max_rows_per_step", "every")
_SINK_OPTIONS = ("mode", "every")


def create_source(sql: Statements, statement: Statement) -> Any:
    """CREATE SOURCE name [(columns)] FROM 'path' [FORMAT f] [WITH (...)]: returns the table."""
    words = Words(statement)
    words.need("CREATE", "SOURCE")
    _allowed(sql, words)
    name = words.take("the source's name")
    columns = words.brackets()
    words.need("FROM")
    files, rest = _place(words, _SOURCE_OPTIONS)
    if columns:
        said = columns_of(sql, name, columns)
        if not said.plain:
            raise words.error(
                "a source's columns have no defaults or constraints of their own",
                "CREATE TABLE with them first; the source feeds it then",
                "E_UNSUPPORTED",
            )
        rest["schema"], key = said.schema, said.key
        if key:
            rest.setdefault("key", key)
    if isinstance(rest.get("key"), str):
        rest["key"] = [k.strip() for k in rest["key"].split(",")]
    return sql.session.source(name, files, **rest)


def create_sink(sql: Statements, statement: Statement) -> Any:
    """CREATE SINK FROM view INTO 'path' [FORMAT f] [WITH (...)]"""
    words = Words(statement)
    words.need("CREATE", "SINK")
    _allowed(sql, words)
    if not words.next_is("FROM"):
        raise words.unknown("FROM is missing here", "sinks have no names: CREATE SINK FROM view INTO 'path'", ("FROM",))
    name = words.take("the view's name")
    if name not in sql.session.views:
        words.at -= 1
        raise words.error(f"there is no view {name}", did_you_mean(name, sql.session.views), "E_TABLE")
    words.need("INTO")
    sink, rest = _call(words) or _place(words, _SINK_OPTIONS)
    return sql.core.catalog.views[name].write_to(sink, **rest)


def run(sql: Statements, statement: Statement) -> Any:
    """RUN [UNTIL CAUGHT UP | FOR '5s']: returns a summary."""
    words = Words(statement)
    words.need("RUN")
    until: str | None = None
    if words.next_is("UNTIL"):
        words.need("CAUGHT", "UP")
        until = "caught_up"
    elif words.next_is("FOR"):
        until = words.take("a duration such as '5s'", TokenType.STRING)
    words.end()
    return sql.session.run(until, progress=sql.progress)


def _allowed(sql: Statements, words: Words) -> None:
    refusal = forbidden(sql.core)
    if refusal is not None:
        raise words.error(refusal.message, refusal.hint, refusal.code)


def _place(words: Words, known: Sequence[str]) -> tuple[Any, dict[str, Any]]:
    """A path, FORMAT and WITH: the files, and those options that are not about them."""
    path = words.take("a path in quotes", TokenType.STRING)
    ending = path.rsplit(".", 1)[-1].lower()
    named = words.next_is("FORMAT")
    chosen = words.take("a format").lower() if named else _ENDINGS.get(ending, "")
    if named and chosen not in FORMATS:
        words.at -= 1
        raise words.error(f"there is no format {chosen}", did_you_mean(chosen, FORMATS), "E_FORMAT")
    if chosen not in FORMATS:
        raise words.error(f"the format of {path!r} is not known", f"add FORMAT {' or '.join(FORMATS)}", "E_FORMAT")
    make = FORMATS[chosen]
    options = _options(words) if words.next_is("WITH") else {}
    words.end()
    of_files = [p for p in inspect.signature(make).parameters if p != "path"]
    for option in options:
        if option not in known and option not in of_files:
            hint = did_you_mean(option, [*known, *of_files])
            _go_to(words, option)
            raise words.error(f"there is no option {option} of {chosen}", hint, "E_OPTION")
    try:
        files = make(path, **{k: v for k, v in options.items() if k in of_files})
    except InputError as error:
        wrong = next((o for o in options if error.code == "E_OPTION" and error.message.startswith(f"{o}=")), "")
        if not wrong:
            raise
        _go_to(words, wrong)
        hint = "header = true or header = false" if wrong == "header" else error.hint
        raise words.error(error.message, hint, error.code) from None
    return files, {k: v for k, v in options.items() if k in known}


def _call(words: Words) -> tuple[Any, dict[str, Any]] | None:
    """A web address, or a command with FORMAT command, and WITH; None if it is neither."""
    at = words.at
    target = words.take("a path in quotes", TokenType.STRING)
    web = target.startswith(("http://", "https://"))
    named = words.take("a format").lower() if words.next_is("FORMAT") else ""
    if named not in ("webhook", "command") and not (web and not named):
        words.at = at
        return None
    make = io.command if named == "command" else io.webhook
    options = _options(words) if words.next_is("WITH") else {}
    words.end()
    known = [p for p in inspect.signature(make).parameters if p not in ("url", "arguments", "headers")]
    for option in options:
        if option not in (*known, *_SINK_OPTIONS):
            _go_to(words, option)
            raise words.error(
                f"there is no option {option} of {named or 'webhook'}", did_you_mean(option, known), "E_OPTION"
            )
    mine = {k: v for k, v in options.items() if k in known}
    return make(target, **mine), {k: v for k, v in options.items() if k in _SINK_OPTIONS}


def _go_to(words: Words, option: str) -> None:
    """Go back to where an option is named."""
    words.at = max(i for i, token in enumerate(words.tokens) if token.text.lower() == option)


def _options(words: Words) -> dict[str, Any]:
    """(name = value, ...)"""
    words.need("(")
    found: dict[str, Any] = {}
    while True:
        name = words.take("an option's name").lower()
        words.need("=")
        token = words.tokens[words.at] if words.at < len(words.tokens) else None
        text = words.take("a value")
        if token is not None and token.token_type == TokenType.NUMBER:
            found[name] = whole_number(text) if text.isdecimal() else float(text)
        else:
            found[name] = {"TRUE": True, "FALSE": False}.get(text.upper(), text)
        if words.next_is(")"):
            return found
        words.need(",")
