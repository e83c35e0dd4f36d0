"""Tables and views over HTTP: metadata, contents, changes, and pushed rows.

    GET  /v1/relations                       what there is
    GET  /v1/relations/NAME                  its columns
    GET  /v1/relations/NAME/rows             contents now, or ?as_of=TIME
    GET  /v1/relations/NAME/changes?since=TIME
    POST /v1/tables/NAME/rows?op=insert      rows as JSON lines, CSV or Arrow; also op=delete, op=upsert

A push is one transaction. With an `Idempotency-Key` it is executed once, however often it is sent: the key is committed
with the rows (`Once`), so this also holds after a crash of the server.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from everview.errors import EverviewError, InputError
from everview.expr.resolve import Column
from everview.language.relation import relation_of
from everview.server.http.answers import Door, number_in, rows_answer, shown, wants_arrow
from everview.server.http.json_values import columns_shown, reader, rows_shown
from everview.session.core import core_of
from everview.session.reads import concurrent_reads
from everview.session.reads.snapshot import Snapshot
from everview.session.reads.subscribable import Subscribable
from everview.session.table import Table
from everview.session.view import View
from everview.sql.rights import visible_relations
from everview.sql.rights.shares import Computed, Share
from everview.wire.envelopes import ARROW, arrow_table

if TYPE_CHECKING:
    from everview.session.rights.principal import Principal
    from everview.session.session import Session

T = TypeVar("T")


def relation(db: Session, name: str) -> Subscribable:
    """A table or view by name."""
    try:
        found: Subscribable = visible_relations.seen(db, name)
    except InputError as error:
        if error.code == "E_FORBIDDEN":
            raise
        raise InputError("E_NOT_FOUND", error.message, error.hint) from None
    return found


def table_of(db: Session, name: str) -> Subscribable:
    """A table by name, to be changed: privileges are checked when rows are staged."""
    if name not in db and (who := core_of(db).access.acting()) is not None:
        raise core_of(db).access.refused("INSERT", "relation", name, who)
    found: Subscribable = db[name]
    return found


def may_change(db: Session, table: Table, how: str) -> None:
    """Refuse rows before they are read: an error about one names columns."""
    privilege = {"delete": "DELETE", "delete keys": "DELETE", "clear": "TRUNCATE"}.get(how, "INSERT")
    core_of(db).access.may(privilege, "relation", relation_of(table).label)


def columns_of(db: Session, found: Subscribable) -> list[Column]:
    """The columns of a table or view that exist for the current user: those that may be read, all if rows may be
    inserted.
    """
    access, relation = core_of(db).access, relation_of(found)
    shown = None if access.has("INSERT", "relation", relation.label) else access.shown(relation.label)
    return [c for c in relation.columns if shown is None or c.name in shown]


def described(db: Session, found: Subscribable) -> dict[str, Any]:
    """A table or view as JSON."""
    relation, names = relation_of(found), [c.name for c in columns_of(db, found)]
    types = dict(zip(relation.codec.names, relation.codec.types, strict=True))
    said: dict[str, Any] = {
        "name": relation.label,
        "kind": relation.kind,
        "columns": columns_shown(names, [types[n] for n in names]),
    }
    if isinstance(found, Table):
        said["key"] = key_of(found, names)
    return said


def key_of(table: Table, names: Sequence[str]) -> list[str]:
    """The key of a table, of the columns that are there."""
    relation = relation_of(table)
    return [c for c in (relation.columns[i].name for i in relation.key) if c in names]


def looking(work: Callable[[Session], T]) -> Callable[[Session], T]:
    """Read-only work for users to whom policies may show a part: resolved in one turn, or beside one step."""

    def look(db: Session) -> T:
        core = core_of(db)
        return work(db) if core.access.acting() is None else concurrent_reads.looked(core, lambda: work(db))

    return look


async def listed(door: Door, request: Request) -> Response:
    """All tables and views."""

    def work(db: Session) -> dict[str, Any]:
        access = core_of(db).access
        views = [name for name in db.views if not name.startswith("(")]
        return {
            "time": db.time,
            "relations": [described(db, db[name]) for name in access.visible((*db.tables, *views))],
        }

    return shown(await door.run(request, looking(work), looks=True))


async def one(door: Door, request: Request) -> Response:
    """What one is."""
    name = request.path_params["name"]
    return shown(await door.run(request, looking(lambda db: described(db, relation(db, name))), looks=True))


async def rows(door: Door, request: Request) -> Response:
    """What is in one."""
    name, at, arrow = request.path_params["name"], number_in(request, "as_of"), wants_arrow(request)

    def work(db: Session) -> tuple[int, list[str], list[Any], Any]:
        found = relation(db, name)
        contents = found._now() if at is None else contents_at(found, at)
        core_of(db).access.check_rows(len(contents))
        given = contents.to_arrow() if arrow else contents.rows()
        return contents.time, list(relation_of(found).codec.names), list(relation_of(found).codec.types), given

    return rows_answer(request, *await door.run(request, looking(work), looks=at is None))


def contents_at(found: Subscribable, time: int) -> Snapshot:
    """The contents of a table or view at a time."""
    assert isinstance(found, (Table, View, Share, Computed))
    return found.as_of(time)


async def changes(door: Door, request: Request) -> Response:
    """The changes of one, time by time."""
    name, since = request.path_params["name"], number_in(request, "since")

    def work(db: Session) -> dict[str, Any]:
        found = relation(db, name)
        told = found.changes(since or 0)
        core_of(db).access.check_rows(len(told))
        shown_rows = rows_shown(relation_of(found).codec.types, [row for row, _, _ in told])
        return {
            "time": db.time,
            "columns": columns_shown(relation_of(found).codec.names, relation_of(found).codec.types),
            "changes": [[row, time, diff] for row, (_, time, diff) in zip(shown_rows, told, strict=True)],
        }

    return shown(await door.run(request, work))


# pushing

OPERATIONS = ("insert", "delete", "upsert")


async def push(door: Door, request: Request) -> Response:
    """Insert pushed rows into a table."""
    name, how = request.path_params["name"], request.query_params.get("op", "insert")
    if how not in OPERATIONS:
        raise InputError("E_OPTION", f"op={how[:40]} is not an operation", f"use one of {', '.join(OPERATIONS)}")
    key, kind, body = request.headers.get("idempotency-key"), request.headers.get("content-type", ""), b""
    body = await request.body()

    def work(db: Session) -> dict[str, Any]:
        table = table_of(db, name) if name in db or core_of(db).access.acting() is not None else relation(db, name)
        if not isinstance(table, Table):
            raise InputError("E_TABLE", f"{name!r} is a view", "push rows into the tables that it is made of")
        may_change(db, table, how)
        once = Once(db)
        if key is not None and (done := once.known(key)) is not None:
            return {"time": done, "repeated": True}
        filled = core_of(db).defaults.of(table).keys() if how == "insert" else ()
        given = rows_in(table, kind, body, filled)
        with db.transaction():
            getattr(table, how)(given)
            if key is not None:
                once.note(key, db.time + 1)
        once.done(key, db.time)
        return {"time": db.time, "rows": len(given)}

    return shown(await door.run(request, work))


def rows_in(table: Table, kind: str, body: bytes, filled: Collection[str] = ()) -> Any:
    """The rows of a request body, in a form that tables accept; `filled`: columns that have a DEFAULT where a row lacks
    them. Others are NULL.
    """
    if kind.startswith(ARROW):
        return arrow_table(body)
    names, types = relation_of(table).codec.names, relation_of(table).codec.types
    reads = {n: reader(t, n) for n, t in zip(names, types, strict=True)}
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise InputError("E_FORMAT", "the rows are not UTF-8", "send JSON lines, CSV, or Arrow as " + ARROW) from None
    found = _csv(text) if kind.startswith("text/csv") else _json_lines(text)
    return [_row(number, row, names, reads, filled) for number, row in enumerate(found, 1)]


def _row(number: int, row: Any, names: tuple[str, ...], reads: dict[str, Any], filled: Collection[str]) -> Any:
    if isinstance(row, list):
        if len(row) != len(names):
            raise InputError("E_WIDTH", f"row {number} has {len(row)} values for {len(names)} columns", "give each one")
        row = dict(zip(names, row, strict=True))
    if not isinstance(row, dict):
        raise InputError("E_FORMAT", f"row {number} is neither an object nor a list", "send one a line")
    if unknown := [n for n in row if n not in reads]:
        raise InputError(
            "E_COLUMN", f"row {number}: there is no column {unknown[0]!r}", f"there are {', '.join(names)}"
        )
    try:
        if any(n not in row for n in filled):
            return {n: reads[n](row.get(n)) for n in names if n in row or n not in filled}
        return tuple(reads[n](row.get(n)) for n in names)
    except EverviewError as error:
        error.message = f"row {number}, {error.message}"
        raise


def _json_lines(text: str) -> list[Any]:
    try:
        whole = text.lstrip()
        if whole.startswith("[") and "\n" not in whole.strip():
            found = json.loads(whole)
            if found and isinstance(found[0], (dict, list)):
                return list(found)
            return [found]
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    except (ValueError, RecursionError) as error:
        raise InputError("E_FORMAT", f"the rows are not JSON lines: {error}", "send an object on each line") from None


def _csv(text: str) -> list[dict[str, Any]]:
    found = csv.DictReader(io.StringIO(text), strict=True)
    try:
        rows = list(found)
    except csv.Error as error:
        raise InputError("E_FORMAT", f"the rows are not CSV: {error}", "the first line names the columns") from None
    if any(None in row or None in row.values() for row in rows):
        raise InputError("E_WIDTH", "a line of the CSV has too many or too few values", "give one for each column")
    return [{name: value if value != "" else None for name, value in row.items()} for row in rows]


KEYS = 1024
"""Number of idempotency keys that are remembered."""


def _attributes(who: Principal | None) -> str:
    """What tells people with the same role apart."""
    given = [] if who is None else sorted(who.attributes.items())
    return hashlib.sha256(json.dumps(given).encode()).hexdigest()[:16] if given else ""


class Once:
    """The keys of pushed rows, stored in the session's offsets: in `KEYS` slots, in rotation.

    Keys are per role. Somebody with other attributes of the same role has other rows: a key that both use is refused,
    as it would be wrong to tell the second that its rows are there.

    >>> import everview as ev
    >>> db = ev.connect()
    >>> with db.transaction():
    ...     Once(db).note("a", 1)
    >>> Once(db).done("a", 1)
    >>> Once(db).known("a"), Once(db).known("b")
    (1, None)
    """

    def __init__(self, session: Session) -> None:
        self._core = core_of(session)
        who = self._core.access.acting()
        self._whose = "" if who is None else f"{who.role}\0"
        self._attributes = _attributes(who)
        self._found: dict[str, tuple[int, str]] | None = self._core.attached.get("pushed")
        if self._found is None:
            kept = [(n, v) for n, v in self._core.runtime.offsets.items() if n.startswith("pushed/")]
            read = sorted((json.loads(v) for _, v in kept), key=lambda entry: entry[1])
            found = {key: (time, more[0] if more else "") for key, time, *more in read}  # older entries have two parts
            self._found = self._core.attached["pushed"] = found

    def known(self, key: str) -> int | None:
        """The time at which rows with a key were committed."""
        assert self._found is not None
        time, attributes = self._found.get(self._whose + key, (None, ""))
        if attributes and attributes != self._attributes:
            raise InputError(
                "E_KEY", "somebody else with the same role has used this Idempotency-Key", "choose keys at random"
            )
        return time

    def note(self, key: str, time: int) -> None:
        """Record a key in the current transaction, which will have this time."""
        if len(key) > 200:
            raise InputError("E_TOO_LONG", "the Idempotency-Key is too long", "up to 200 letters")
        entry = [self._whose + key, time, self._attributes]
        self._core.transactions.set_offset(f"pushed/{time % KEYS}", json.dumps(entry))

    def done(self, key: str | None, time: int) -> None:
        """Called when that transaction is complete."""
        assert self._found is not None
        if key is not None:
            self._found[self._whose + key] = time, self._attributes
        while len(self._found) > KEYS:
            del self._found[next(iter(self._found))]
