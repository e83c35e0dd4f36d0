"""The catalog: which statements are about it, and their results.

It is an in-memory SQLite database, filled from a snapshot of the session (`contents`) and rebuilt when that has
changed. The snapshot is taken in a turn, or beside the current step. The database contains nothing but the catalog, and
SQLite has no access to files.

Catalog queries are small, but anybody may ask a large one: a join of the catalog with itself, a regular expression, a
recursive WITH. So SQLite runs on the threads that read, in turns with other roles, for `SECONDS` at most, and what it
returns has a limit, too (`_Kept`).
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from everview import cancellation
from everview.codes.immutable import FrozenList
from everview.server.pg.answers import Answer, Column
from everview.server.pg.catalog import result_types, sqlite_translation
from everview.server.pg.catalog.contents import Contents, Numbers, Picture, contents, pictured
from everview.server.pg.catalog.functions import Asker, Functions, items, written
from everview.server.pg.catalog.relations import LETTER_OF, LETTERS, RELATIONS
from everview.server.pg.commands import Command
from everview.server.pg.oids import number_of, type_of
from everview.server.pg.sqlstates import PgError
from everview.session.core import core_of
from everview.session.reads import concurrent_reads
from everview.sql.answers.parameter_values import Given
from everview.types import INT, STR, DataType

if TYPE_CHECKING:
    from everview.server.engine import Engine
    from everview.server.pg.client import Client

_QUERIES = ("SELECT", "WITH", "VALUES", "(")
_WORDS = {
    "current_schema", "current_schemas", "current_database", "current_catalog", "current_user", "session_user", "user",
    "version", "current_setting", "set_config", "format_type", "obj_description", "col_description",
    "shobj_description", "to_regclass", "to_regtype", "regclass", "regtype", "quote_ident", "pg_backend_pid",
    "has_table_privilege", "has_schema_privilege", "has_database_privilege", "txid_current", "inet_server_addr",
}  # fmt: skip
"""Words that may indicate a catalog query."""

SECONDS = 5.0
"""Seconds that a query may take, unless a limit is shorter."""

MOST_BYTES = 64_000_000
"""How much a query may return."""

LONGEST = 4_000_000
"""Maximum length of a value in SQLite: definitions of views are the longest texts."""

_OFTEN = 1000
"""SQLite looks at the time after so many of its instructions."""


class Catalog:
    """pg_catalog and information_schema of one server."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._numbers = Numbers()
        self._plans: dict[tuple[str, int], str] = {}
        self._made: dict[tuple[str, str, bool], _Kept] = {}
        """the database of each principal: everyone sees only what exists for them"""

    # which statements

    def wants(self, command: Command) -> bool:
        """Whether a statement is about the catalog, or about the connection in a way that only the catalog supports."""
        if command.first not in _QUERIES:
            return False
        said = {w.text.lower() for w in command.words if w.kind in ("word", "quoted")}
        if not any(w in _WORDS or w.startswith("pg_") or w == "information_schema" for w in said):
            return False
        try:
            tree = sqlite_translation.parsed(command.text)
        except PgError:
            return False
        inside = {c.alias_or_name.lower() for c in tree.find_all(exp.CTE)}
        tables = [t for t in tree.find_all(exp.Table) if isinstance(t.this, exp.Identifier)]
        ours = [t for t in tables if not t.db and t.name.lower() in inside]
        named = [t for t in tables if t not in ours]
        if any(_is_catalogue(t) for t in named):
            return True
        return not named and _calls(tree)

    # answers

    async def described(
        self, client: Client, command: Command, text: str, types: dict[str, DataType]
    ) -> tuple[Given, list[Column]]:
        """A catalogue query's parameters and columns."""
        tree = sqlite_translation.parsed(text)
        given = Given(dict(types))
        for parameter in tree.find_all(exp.Parameter):
            oid = _parameter_type(parameter)
            if parameter.name not in given.known:
                given.known[parameter.name] = type_of(oid) or STR
                given.oids[parameter.name] = oid
        answer = await self._run(client, tree, dict.fromkeys(given.known))
        assert answer.columns is not None
        return given, answer.columns

    async def answered(self, client: Client, text: str, given: Given, told: list[Column] | None) -> Answer:
        """A catalogue query's rows, of the columns that the client was told, if it was."""
        return await self._run(client, sqlite_translation.parsed(text), dict(given.values or {}), told)

    async def _run(
        self, client: Client, tree: exp.Expr, values: dict[str, Any], told: list[Column] | None = None
    ) -> Answer:
        kept = await self._fresh(client)
        access = core_of(self._engine.session).access
        asker = Asker(client.settings, client.name, client.database, client.process, client.who, access)
        text = sqlite_translation.rewritten(tree)
        bound = {f"p{name}": _plain(value) for name, value in values.items()}
        quota = self._engine.quotas.limit("milliseconds", client.who)
        seconds = min(SECONDS, client.limit or SECONDS, SECONDS if quota is None else quota / 1000)
        names, rows = await self._engine.beside(lambda: kept.answer(asker, text, bound, seconds), key=client)
        columns = told if told is not None else _columns(tree, names, rows)
        fitted = [_fit(c) for c in columns]
        if any(f is not None for f in fitted):
            rows = [
                tuple(v if f is None or v is None else f(v) for f, v in zip(fitted, row, strict=True)) for row in rows
            ]
        return Answer.of_rows(columns, rows, f"SELECT {len(rows)}")

    async def _fresh(self, client: Client) -> _Kept:
        """The database for the session's current state."""
        if client.work.defined:  # its own tables are there for itself alone
            picture = await client.run(lambda s: client.work.inside(s, lambda _: pictured(s, {})))
        else:
            picture = await self._engine.read(
                lambda s: concurrent_reads.looked(core_of(s), lambda: pictured(s, self._plans)), key=client
            )
        who = (client.database, client.name, client.who.free)
        if who in self._made and self._made[who].picture != picture:
            del self._made[who]
        if who not in self._made:
            if len(self._made) > 100:
                del self._made[next(iter(self._made))]
            self._made[who] = _Kept(picture, contents(picture, self._numbers, client.database, client.name))
        return self._made[who]


class _Kept:
    """The catalog as one principal sees it, for one query at a time; its threads may outlive its being replaced."""

    def __init__(self, picture: Picture, found: Contents) -> None:
        self.picture = picture
        self._lock = threading.Lock()
        self._db = _database(found)
        self._functions = Functions(found)
        self._functions.install(self._db)
        self._db.set_progress_handler(self._watch, _OFTEN)
        self._end = 0.0
        self._stopped: BaseException | None = None

    def answer(
        self, asker: Asker, text: str, bound: dict[str, Any], seconds: float
    ) -> tuple[list[str], list[tuple[Any, ...]]]:
        """The names and rows of a query."""
        with self._lock:
            self._functions.error = self._stopped = None
            self._functions.asker, self._end = asker, time.monotonic() + seconds
            try:
                cursor = self._db.execute(text, bound)
                return [d[0] for d in cursor.description or ()], _within_limits(cursor)
            except (sqlite3.Error, sqlite3.Warning) as error:
                raise self._stopped or self._functions.error or _refused(error) from None

    def _watch(self) -> int:
        """Called by SQLite every so often: whether to stop."""
        try:
            cancellation.poll()
            if time.monotonic() > self._end:
                raise PgError("E_TIMEOUT", "57014", "the catalogue query takes too long", "ask for less")
        except BaseException as error:  # SQLite would swallow it
            self._stopped = error
        return int(self._stopped is not None)


def _within_limits(cursor: sqlite3.Cursor) -> list[tuple[Any, ...]]:
    rows, size = [], 0
    for row in cursor:
        size += sum(len(v) if isinstance(v, (str, bytes)) else 8 for v in row) + 64
        if size > MOST_BYTES:
            raise PgError("E_MEMORY", "53200", "the catalogue query returns too much", "ask for less")
        rows.append(row)
    return rows


def _is_catalogue(table: exp.Table) -> bool:
    schema = table.db.lower()
    if schema in RELATIONS:
        return True
    return not schema and table.name.lower() in RELATIONS["pg_catalog"]


def _calls(tree: exp.Expr) -> bool:
    """Whether a query without tables calls something that only the catalogue knows."""
    for node in tree.walk():
        name = sqlite_translation.function_name(node)
        if name in _WORDS or name.startswith("pg_") or type(node).__name__ in sqlite_translation.NODES:
            return True
        if isinstance(node, exp.Column) and node.name.lower() in _WORDS and not node.table:
            return True
        if isinstance(node, exp.Cast) and sqlite_translation.type_name(node).startswith("reg"):
            return True
    return False


def _database(found: Contents) -> sqlite3.Connection:
    db = sqlite3.connect(":memory:", check_same_thread=False)
    for schema, relations in RELATIONS.items():
        db.execute(f"ATTACH ':memory:' AS {schema}")
        for name, columns in relations.items():
            kinds = {"o": "INTEGER", "i": "INTEGER", "s": "INTEGER", "l": "INTEGER", "b": "INTEGER", "f": "REAL"}
            listed = ", ".join(f'"{c}" {kinds.get(letter, "TEXT")}' for c, letter in columns.items())
            db.execute(f'CREATE TABLE {schema}."{name}" ({listed})')
            for row in found.rows.get((schema, name), []):
                names = ", ".join(f'"{c}"' for c in row)
                marks = ", ".join("?" for _ in row)
                db.execute(f'INSERT INTO {schema}."{name}" ({names}) VALUES ({marks})', list(row.values()))
    db.commit()
    db.execute("PRAGMA query_only = ON")
    db.set_authorizer(_allowed)
    db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST)
    return db


_FORBIDDEN = (sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH, sqlite3.SQLITE_PRAGMA)
_COSTLY = ("randomblob", "zeroblob")
"""Functions that make much out of nothing, and that no client asks for."""


def _allowed(action: int, _: object, name: object, *rest: object) -> int:
    """No files: whatever else would change something is refused by query_only."""
    denied = action in _FORBIDDEN or (action == sqlite3.SQLITE_FUNCTION and name in _COSTLY)
    return sqlite3.SQLITE_DENY if denied else sqlite3.SQLITE_OK


def _parameter_type(parameter: exp.Parameter) -> int:
    """The number of the type that a parameter is cast to; text if to nothing."""
    parent = parameter.parent
    oid = number_of(sqlite_translation.type_name(parent)) if isinstance(parent, exp.Cast) else 0
    return oid if type_of(oid) is not None else 25


def _plain(value: Any) -> Any:
    """A parameter's value as SQLite takes it."""
    if isinstance(value, (FrozenList, list, tuple)):
        return written(value)
    if value is None or isinstance(value, (int, float, str, bytes)):
        return value
    return str(value)


def _columns(tree: exp.Expr, names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> list[Column]:
    told = result_types.columns_of(tree)
    if told is None or len(told) != len(names):
        told = []
        for name in names:
            letter = LETTER_OF.get(name.lower(), "")
            oid, declared = LETTERS[letter] if letter else (0, STR)
            told.append(Column(name, declared, oid))
    return [_by_values(c, [row[i] for row in rows]) for i, c in enumerate(told)]


def _by_values(column: Column, values: Sequence[Any]) -> Column:
    """A column that is said to be text, and has numbers only, is one of numbers."""
    there = [v for v in values if v is not None]
    if column.declared == STR and not column.oid and there and all(isinstance(v, int) for v in there):
        return replace(column, declared=INT)
    numbers = column.declared.kind in ("int", "float", "bool")
    if numbers and not all(isinstance(v, (int, float)) or _is_number(v) for v in there):
        return Column(column.name, STR)
    return column


def _is_number(value: Any) -> bool:
    return isinstance(value, str) and value.lstrip("-").isdecimal()


_ITEM: dict[str, Callable[[Any], Any]] = {"int": int, "bool": lambda i: str(i) in ("1", "t", "true")}


def _fit(column: Column) -> Any:
    """A function that makes SQLite's values the column's, if that takes anything."""
    match column.declared.kind:
        case "str":
            return str
        case "array":
            one = _ITEM.get(column.declared.items[0].kind, str)
            return lambda v: FrozenList(None if i is None else one(i) for i in items(v))
        case "int":
            return int
        case "bool":
            return bool
        case "float":
            return float
    return None


def _refused(error: Exception) -> PgError:
    problem = str(error)
    if problem.startswith("no such table: "):
        return PgError("E_TABLE", "42P01", f"there is no table or view {problem[15:]} in the catalogue", "")
    if problem.startswith("no such column: "):
        return PgError("E_COLUMN", "42703", f"there is no column {problem[16:]} in the catalogue", "")
    if problem.startswith("no such function: "):
        return PgError("E_FUNCTION", "42883", f"there is no function {problem[18:]}", "")
    hint = "catalogue queries are answered by another engine, which does not know all of PostgreSQL's SQL"
    return PgError("E_UNSUPPORTED", "0A000", f"this catalogue query is not understood: {problem}", hint)
