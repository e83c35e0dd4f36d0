"""Executes statements: those about the connection here, the rest by Everview's SQL or the catalog.

`prepared` analyses a statement without executing it: parameter types, columns. `executed` executes it and returns the
result. COPY and SUBSCRIBE exchange messages while they run, so they are not plain results: see `copy_protocol`,
`subscribe_statements`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from everview.errors import EverviewError, did_you_mean
from everview.expr.moment_texts import zone_of
from everview.server.pg import copy_protocol, cursors, subscribe_statements
from everview.server.pg.answers import Answer, Column, columns_of
from everview.server.pg.client import Client, Prepared
from everview.server.pg.commands import NOTHING, Command, Reader, tag_of
from everview.server.pg.connection_work import REPEATED, Outcome
from everview.server.pg.key_lookups import Quick
from everview.server.pg.lexer import Piece, parameters, spaced, words
from everview.server.pg.oids import named, oid_of, type_of
from everview.server.pg.settings import shown_to
from everview.server.pg.sqlstates import PgError
from everview.server.sql_calls import READING
from everview.sql.answers.parameter_values import Given
from everview.sql.rights import roles
from everview.sql.scalar.type_names import sql_name
from everview.types import STR, DataType

if TYPE_CHECKING:
    from everview.session.session import Session

_OWN_SETTINGS = ("PLAN", "DIALECT", "SHARING")
"""Settings of Everview's SQL, which keeps them."""

_LISTS = (
    "TABLES",
    "VIEWS",
    "SCHEMAS",
    "INDEXES",
    "INDEX",
    "WATERMARKS",
    "FUNCTIONS",
    "TYPES",
    "COLUMNS",
    "PLAN",
    "DIALECT",
)
"""What SHOW shows that is no setting."""

_REFUSED = {
    "RUN": "a server does not run pipelines for its clients; start `everview run` beside it",
    "PREPARE TRANSACTION": "transactions cannot be left for others to commit",
    "NOTIFY": "there are no notifications; SUBSCRIBE to a view instead",
}


# looking


async def prepared(client: Client, command: Command, oids: Sequence[int] = ()) -> Prepared:
    """A statement's parameters and columns. Does not execute it."""
    used = [number for _, _, number in parameters(command.text)]
    if any(not 1 <= n <= 65_535 for n in used):
        raise PgError("E_PARAMETER", "42P02", "parameters are $1 to $65535", "number them from $1 on")
    count = max([*used, len(oids)], default=0)
    said: dict[str, DataType] = {}
    for i, oid in enumerate(oids):
        declared = type_of(oid)
        if declared is not None:
            said[str(i + 1)] = declared
        elif oid not in (0, 705):
            raise PgError("E_PARAMETER", "42704", f"${i + 1}: there is no type with the OID {oid}", "leave it open (0)")
    text = spaced(command.text)
    given, columns, way = await _looked(client, command, text, said)
    types = given.types_of(count)
    for i, declared in enumerate(types):
        given.known.setdefault(str(i + 1), declared)
    told = [oid if oid not in (0, 705) else 0 for oid in [*oids, *[0] * (count - len(oids))]]
    told = [oid or given.oids.get(str(i + 1), 0) for i, oid in enumerate(told)]
    named_types = tuple(o or oid_of(t) for o, t in zip(told, types, strict=True))
    return Prepared(command, text, given, named_types, columns, way)


async def _looked(
    client: Client, command: Command, text: str, said: dict[str, DataType]
) -> tuple[Given, list[Column] | None, Quick | None]:
    nothing = Given(said)
    match command.first:
        case "FETCH":
            return nothing, cursors.columns(client, command), None
        case "SUBSCRIBE":
            return nothing, await subscribe_statements.columns(client, command), None
        case "SHOW" if not _is_list(command):
            return nothing, _shown(command), None
        case "EXECUTE":
            return nothing, _named(client, command).columns, None
        case "DECLARE" | "COPY" | "SET" | "BEGIN" | "PREPARE" | "ALTER" | "CREATE" | "DROP" | "CLOSE":
            return nothing, None, None
    if command.first != "SHOW" and (command.first in _COMMANDS or command.first in NOTHING):
        return nothing, None, None
    if client.catalog.wants(command):
        return *await client.catalog.described(client, command, text, said), None
    beside = command.first in READING and not command.changing and client.work.plain
    run = client.read if beside else client.run
    given, shape, way = await run(lambda s: client.work.described(s, text, said, beside=beside))
    return given, None if shape is None else columns_of(shape.names, shape.types), way


# doing


async def executed(client: Client, found: Prepared, given: Given) -> Answer:
    """Do a statement, and give its answer."""
    command = found.command
    client.check_open(command)
    quick = found.quick if client.work.plain else None
    if quick is not None and quick.is_stale(client.who, client.settings.path_text):
        quick = await _looked_again(client, found)
    if quick is not None:
        rows = quick.answer(given, client.who, client.settings.path_text)
        if rows is not None:
            return Answer.of_result(rows, f"SELECT {len(rows)}")
    special = _COMMANDS.get(command.first)
    if special is not None:
        answer = await special(client, command)
        if answer is not None:
            return answer
    if command.first in NOTHING:
        client.told(f"{command.first} means nothing here", severity="WARNING", state="01000")
        return Answer(NOTHING[command.first])
    for start, why in _REFUSED.items():
        if command.is_(*start.split()):
            raise PgError("E_UNSUPPORTED", "0A000", f"{start} is not supported", why)
    if client.catalog.wants(command):
        return await client.catalog.answered(client, found.text, given, found.columns)
    outcome = await _outcome(client, found, given if given.known else None)
    for notice in outcome.notices:
        client.told(notice)
    if client.explicit and command.is_("CREATE", "SCHEMA"):
        client.told("CREATE SCHEMA took effect at once; ROLLBACK will not undo it")
    if outcome.rows is None:
        return Answer(tag_of(command, None, outcome.affected))
    answer = Answer.of_result(outcome.rows, tag_of(command, len(outcome.rows), outcome.affected))
    _check_same(found.columns, answer.columns)
    return answer


async def _looked_again(client: Client, found: Prepared) -> Quick | None:
    """Bind a look-up again, because the same text may mean another table now."""
    found.quick = None
    found.ways.clear()
    with contextlib.suppress(EverviewError):  # executing it says what is wrong
        _, columns, way = await _looked(client, found.command, found.text, dict(found.given.known))
        found.quick = way if columns == found.columns else None
    return found.quick


async def _outcome(client: Client, found: Prepared, values: Given | None) -> Outcome:
    """Have the engine do a statement: a query beside others' steps, a repeated change at once, if it is short."""
    command, work = found.command, client.work

    def changed(session: Session) -> Outcome:
        return work.run(session, found.text, values, changing=command.changing)

    if command.changing:
        repeated = values is not None and not client.inside and command.first in REPEATED
        return await client.run(changed, found.text if repeated else None)
    if command.first in READING and work.plain:
        return await client.read(lambda s: work.run(s, found.text, values, changing=False, beside=True))
    return await client.run(changed)


def _check_same(told: list[Column] | None, now: list[Column] | None) -> None:
    """Refuse an answer that does not have the columns that the client was told."""
    if told is not None and now is not None and [c.told for c in told] != [c.told for c in now]:
        raise PgError("E_SCHEMA", "0A000", "the columns have changed since the statement was prepared", "prepare again")


# transactions

_LEVELS = (("READ", "COMMITTED"), ("READ", "UNCOMMITTED"), ("REPEATABLE", "READ"), ("SERIALIZABLE",))


async def _begin(client: Client, command: Command) -> Answer | None:
    words = Reader(command, 1)
    if command.first == "START":
        words.need("TRANSACTION")
    elif not words.next_is("TRANSACTION"):
        words.next_is("WORK")
    isolation, read_only = _modes(words)
    if client.explicit:
        client.told("a transaction is already open", severity="WARNING", state="25001")
    client.begin(explicit=True, isolation=isolation, read_only=read_only)
    return Answer("START TRANSACTION" if command.first == "START" else "BEGIN")


def _modes(words: Reader) -> tuple[str, bool | None]:
    """[ISOLATION LEVEL ...] [READ ONLY | READ WRITE] [[NOT] DEFERRABLE]"""
    isolation, read_only = "", None
    while words.more():
        if words.next_is("ISOLATION", "LEVEL"):
            level = next((level for level in _LEVELS if words.next_is(*level)), None)
            if level is None:
                raise words.error(
                    "this isolation level is not known", "there are READ COMMITTED, REPEATABLE READ and SERIALIZABLE"
                )
            isolation = " ".join(level).lower()
        elif words.next_is("READ", "ONLY"):
            read_only = True
        elif words.next_is("READ", "WRITE"):
            read_only = False
        elif not (words.next_is("DEFERRABLE") or words.next_is("NOT", "DEFERRABLE") or words.next_is(",")):
            words.end()
    return isolation, read_only


async def _commit(client: Client, command: Command) -> Answer | None:
    words = Reader(command, 1)
    if words.next_is("PREPARED"):
        raise PgError("E_UNSUPPORTED", "0A000", "two-phase commit is not supported", "COMMIT")
    chained = _ending(words)
    if not client.explicit:
        client.told("no transaction is open", severity="WARNING", state="25P01")
        if client.inside:
            await client.commit()
        return Answer("COMMIT")
    isolation, read_only = client.work.isolation, client.work.read_only
    done = await client.commit()
    if chained:
        client.begin(explicit=True, isolation=isolation, read_only=read_only)
    return Answer("COMMIT" if done else "ROLLBACK")


async def _rollback(client: Client, command: Command) -> Answer | None:
    words = Reader(command, 1)
    if not words.next_is("TRANSACTION"):
        words.next_is("WORK")
    if words.next_is("TO"):
        if not client.explicit:
            raise PgError("E_TRANSACTION", "25P01", "ROLLBACK TO SAVEPOINT needs a transaction", "BEGIN one")
        words.next_is("SAVEPOINT")
        name = _identifier(words.name("a savepoint"))
        await _savepoint_statement(client, f"ROLLBACK TO SAVEPOINT {name}")
        client.settings.back_to(name)
        client.resume_role()
        client.failed = False
        return Answer("ROLLBACK")
    words.at = 1
    chained = _ending(words)
    isolation, read_only = client.work.isolation, client.work.read_only
    if not client.explicit:
        client.told("no transaction is open", severity="WARNING", state="25P01")
    client.rollback()
    if chained:
        client.begin(explicit=True, isolation=isolation, read_only=read_only)
    return Answer("ROLLBACK")


def _ending(words: Reader) -> bool:
    """[WORK | TRANSACTION] [AND [NO] CHAIN]"""
    if not words.next_is("TRANSACTION"):
        words.next_is("WORK")
    chained = words.next_is("AND", "CHAIN")
    words.next_is("AND", "NO", "CHAIN")
    words.end()
    return chained


async def _savepoint(client: Client, command: Command) -> Answer | None:
    words = Reader(command, 1)
    if not client.explicit:
        raise PgError("E_TRANSACTION", "25P01", f"{command.first} needs a transaction", "BEGIN one")
    if command.first == "RELEASE":
        words.next_is("SAVEPOINT")
    name = _identifier(words.name("a savepoint"))
    words.end()
    await _savepoint_statement(client, f"{command.first} {name}")
    if command.first == "RELEASE":
        client.settings.back_to(name, release=True)
    else:
        client.settings.mark(name)
    return Answer(command.first)


def _identifier(name: str) -> str:
    """A savepoint's name as a plain word, which is all that the session's SQL takes: one for each name."""
    return name if name.isidentifier() else "s_" + name.encode().hex()


async def _savepoint_statement(client: Client, text: str) -> None:
    try:
        await client.run(lambda s: client.work.run(s, text, None, changing=False))
    except PgError:
        raise
    except Exception as error:
        if getattr(error, "code", "") == "E_TRANSACTION":
            raise PgError("E_TRANSACTION", "3B001", getattr(error, "message", ""), getattr(error, "hint", "")) from None
        raise


# settings


async def _set(client: Client, command: Command) -> Answer | None:
    words = Reader(command, 1)
    local = words.next_is("LOCAL")
    if not local:
        words.next_is("SESSION")
    if words.next_is("CHARACTERISTICS", "AS", "TRANSACTION"):
        isolation, read_only = _modes(words)
        if isolation:
            client.settings.set("default_transaction_isolation", isolation)
        if read_only is not None:
            client.settings.set("default_transaction_read_only", "on" if read_only else "off")
        return Answer("SET")
    if words.next_is("TRANSACTION"):
        return _set_transaction(client, words)
    if words.next_is("AUTHORIZATION") or words.next_is("ROLE"):
        return await _set_role(client, words, local=local)
    if words.next_is("TIME", "ZONE"):
        name = "timezone"
    elif words.next_is("NAMES"):
        name = "client_encoding"
    else:
        name = words.name("a setting")
        if name.upper() in _OWN_SETTINGS:
            return None
        if not (words.next_is("=") or words.next_is("TO")):
            raise words.error("= or TO is missing here", "SET name = value")
    value = _value(words)
    _change(client, name, value, local=local)
    return Answer("SET")


async def _set_role(client: Client, words: Reader, *, local: bool) -> Answer:
    """SET [LOCAL] ROLE [= | TO] name | NONE, SET SESSION AUTHORIZATION name | DEFAULT"""
    words.next_is("=") or words.next_is("TO")
    name = words.take("a role").text
    words.end()
    if local and not client.inside:
        client.told("SET LOCAL has an effect inside a transaction only", severity="WARNING", state="25P01")
        return Answer("SET")
    if name.lower() in ("none", "default"):
        client.act_as(client.first, local=local)
        return Answer("SET")
    if name.lower() == client.user.lower() and client.who.free and not client.who.acts_as:
        return Answer("SET")  # drivers and dumps set what they are
    found = await client.run(lambda s: client.work.inside(s, lambda sql: roles.acting_as(sql, name.lower())))
    client.act_as(found, local=local)
    return Answer("SET")


def _change(client: Client, name: str, value: str | None, *, local: bool = False) -> None:
    if name.lower() == "timezone" and value is not None:
        value = "UTC" if value.upper() in ("LOCAL", "DEFAULT", "UTC", "GMT", "Z") else value
        try:
            zone_of(value)
        except Exception:
            raise PgError(
                "E_OPTION", "22023", f"there is no time zone {value!r}", "names are those of the IANA"
            ) from None
    client.settings.set(name, value, local=local)


def _set_transaction(client: Client, words: Reader) -> Answer:
    isolation, read_only = _modes(words)
    if not client.inside:
        client.told("SET TRANSACTION has an effect inside a transaction only", severity="WARNING", state="25P01")
        return Answer("SET")
    if isolation:
        client.work.isolation = isolation
    if read_only is not None:
        client.work.read_only = read_only
    return Answer("SET")


def _value(words: Reader) -> str | None:
    """What follows = : texts, words and numbers, parted by commas; None for DEFAULT."""
    if words.next_is("DEFAULT"):
        words.end()
        return None
    parts: list[str] = []
    negative = ""
    while words.more():
        word = words.take("a value")
        if word.upper == "-":
            negative = "-"
        elif word.upper not in (",", "+"):
            parts.append(negative + word.text)
            negative = ""
    if not parts:
        raise words.error("a value is missing here", "SET name = value")
    return ", ".join(parts)


async def _reset(client: Client, command: Command) -> Answer | None:
    words = Reader(command, 1)
    if words.next_is("ALL"):
        client.settings.reset()
    elif words.next_is("ROLE") or words.next_is("SESSION", "AUTHORIZATION"):
        client.act_as(client.first)
    else:
        name = "timezone" if words.next_is("TIME", "ZONE") else words.name("a setting")
        client.settings.set(name, None)
    words.end()
    return Answer("RESET")


def _is_list(command: Command) -> bool:
    return len(command.words) > 1 and command.words[1].upper in _LISTS


def _shown(command: Command) -> list[Column]:
    if command.is_("SHOW", "ALL"):
        return [Column("name", STR), Column("setting", STR), Column("description", STR)]
    return [Column(_setting(command).split(".")[-1], STR)]


def _setting(command: Command) -> str:
    words = Reader(command, 1)
    if words.next_is("TIME", "ZONE"):
        name = "TimeZone"
    elif words.next_is("TRANSACTION", "ISOLATION", "LEVEL"):
        name = "transaction_isolation"
    elif words.next_is("SESSION", "AUTHORIZATION"):
        name = "session_authorization"
    else:
        name = words.name("a setting")
    words.end()
    return name


async def _show(client: Client, command: Command) -> Answer | None:
    if _is_list(command):
        return None
    columns = _shown(command)
    if len(columns) == 3:
        rows: list[tuple[str, ...]] = [(name, value, "") for name, value in client.settings.all()]
        return Answer.of_rows(columns, rows, "SHOW")
    name = _setting(command)
    isolated = name == "transaction_isolation" and client.inside
    value = client.work.isolation if isolated else shown_to(client.who, client.settings, name)
    return Answer.of_rows(columns, [(value,)], "SHOW")


async def _discard(client: Client, command: Command) -> Answer | None:
    words = Reader(command, 1)
    what = words.take("ALL, PLANS, SEQUENCES or TEMP").upper
    if what == "ALL":
        if client.explicit:
            raise PgError("E_TRANSACTION", "25001", "DISCARD ALL cannot run inside a transaction", "COMMIT first")
        client.settings.reset()
        client.act_as(client.first)
        client.work.discard()
        client.prepared.clear()
        client.portals.clear()
        cursors.close_all(client)
    return Answer(f"DISCARD {what}")


# prepared statements in SQL


async def _prepare(client: Client, command: Command) -> Answer | None:
    words = Reader(command, 1)
    if words.next_is("TRANSACTION"):
        return None
    name = words.name("a name")
    if name in client.prepared:
        raise PgError("E_DUPLICATE", "42P05", f"prepared statement {name} already exists", "DEALLOCATE it first")
    oids: list[int] = []
    listed = words.brackets()
    if listed is not None:
        for part in command.text[listed[0] + 1 : listed[1] - 1].split(","):
            found = named(part)
            if found is None:
                raise words.error(f"there is no type {part.strip()}")
            oids.append(found.oid)
    words.need("AS")
    start = words.take("a statement").start

    inner = Command.of(Piece(command.text[start:], command.start + start))
    client.prepared[name] = await prepared(client, inner, oids)
    return Answer("PREPARE")


def _named(client: Client, command: Command) -> Prepared:
    name = Reader(command, 1).name("a prepared statement")
    if name not in client.prepared:
        raise PgError("E_NAME", "26000", f"there is no prepared statement {name}", did_you_mean(name, client.prepared))
    return client.prepared[name]


async def _execute(client: Client, command: Command) -> Answer | None:
    found = _named(client, command)
    words = Reader(command, 1)
    words.name("a prepared statement")
    listed = words.brackets()
    words.end()
    values: dict[str, object] = {}
    if listed is not None:
        inside = command.text[listed[0] + 1 : listed[1] - 1]
        casts = _typed(inside, found)
        outcome = await client.run(lambda s: client.work.run(s, casts, None, changing=False))
        assert outcome.rows is not None
        values = {str(i + 1): v for i, v in enumerate(outcome.rows.rows()[0])}
    if len(values) != len(found.oids):
        raise PgError("E_PARAMETER", "42601", f"{len(values)} values for {len(found.oids)} parameters", "give one each")
    return await executed(client, found, Given(found.given.known, values))


def _typed(values: str, found: Prepared) -> str:
    """A query for the values of EXECUTE, with the types of the parameters."""
    parts = _parts(values)
    types = found.given.types_of(len(parts))
    listed = [f"CAST({v} AS {sql_name(t)})" for v, t in zip(parts, types, strict=True)]
    return f"SELECT {', '.join(listed)}"


def _parts(text: str) -> list[str]:
    """Texts between commas that stand in no brackets."""
    parts, depth, start = [], 0, 0
    for word in words(text):
        depth += (word.upper in ("(", "[")) - (word.upper in (")", "]"))
        if word.upper == "," and depth == 0:
            parts.append(text[start : word.start])
            start = word.end
    return [*parts, text[start:]]


async def _deallocate(client: Client, command: Command) -> Answer | None:
    words = Reader(command, 1)
    words.next_is("PREPARE")
    if words.next_is("ALL"):
        client.prepared.clear()
        return Answer("DEALLOCATE ALL")
    name = words.name("a prepared statement")
    if name not in client.prepared:
        raise PgError("E_NAME", "26000", f"there is no prepared statement {name}", did_you_mean(name, client.prepared))
    del client.prepared[name]
    return Answer("DEALLOCATE")


async def _copy(client: Client, command: Command) -> Answer | None:
    return await copy_protocol.copy(client, command)


async def _subscribe(client: Client, command: Command) -> Answer | None:
    return await subscribe_statements.streamed(client, command)


_COMMANDS = {
    "BEGIN": _begin,
    "START": _begin,
    "COMMIT": _commit,
    "END": _commit,
    "ROLLBACK": _rollback,
    "ABORT": _rollback,
    "SAVEPOINT": _savepoint,
    "RELEASE": _savepoint,
    "SET": _set,
    "RESET": _reset,
    "SHOW": _show,
    "DISCARD": _discard,
    "PREPARE": _prepare,
    "EXECUTE": _execute,
    "DEALLOCATE": _deallocate,
    "DECLARE": cursors.declare,
    "FETCH": cursors.fetch,
    "MOVE": cursors.move,
    "CLOSE": cursors.close,
    "COPY": _copy,
    "SUBSCRIBE": _subscribe,
}
"""Statements that are about the connection, or talk to the client; None from one that is not after all."""
