"""GRANT and REVOKE.

    GRANT SELECT, INSERT | ALL [PRIVILEGES] ON [TABLE | VIEW] t, v | ALL TABLES IN SCHEMA s TO ann, PUBLIC
    GRANT SELECT (a, b) ON t TO ann
    GRANT CREATE, USAGE ON SCHEMA s TO ann
    GRANT EXECUTE ON FUNCTION f TO ann
    GRANT USAGE, UPDATE ON SEQUENCE s TO ann
    GRANT ... ON ... TO ann WITH GRANT OPTION
    GRANT reader, writer TO ann [WITH ADMIN OPTION]
    REVOKE [GRANT OPTION FOR] ... FROM ... [CASCADE | RESTRICT]

SUBSCRIBE is a synonym of SELECT: whoever may read something may follow it. Columns that were not granted do not exist
for a reader (`everview.sql.select.compiler`); only SELECT can be granted by columns.

Each privilege is stored with its grantor (`Grant.by`). Dependent grants are revoked with it by CASCADE, or prevent its
revocation. The owner can revoke a privilege whoever granted it, unlike in PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from everview.errors import InputError, did_you_mean
from everview.language.relation import relation_of
from everview.session.rights.access import MONITOR, NO_RIGHTS, Access, forbidden
from everview.session.rights.roles import PRIVILEGES, PUBLIC, Grant, Rights, Role
from everview.sql.rights import roles
from everview.sql.text import statement_reader
from everview.sql.text.token_reader import Words

if TYPE_CHECKING:
    from everview.sql.statements import Statements

_SAME = {"SUBSCRIBE": "SELECT"}
_ALL = {"SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER", "EXECUTE", "CREATE", "USAGE"}


def grant(sql: Statements, statement: statement_reader.Statement) -> None:
    """GRANT ... TO ..."""
    _change(sql, Words(statement), "GRANT", "TO")


def revoke(sql: Statements, statement: statement_reader.Statement) -> None:
    """REVOKE ... FROM ..."""
    _change(sql, Words(statement), "REVOKE", "FROM")


def _change(sql: Statements, words: Words, verb: str, before: str) -> None:
    words.need(verb)
    only = verb == "REVOKE" and words.next_is("GRANT", "OPTION", "FOR")
    if verb == "REVOKE" and words.next_is("ADMIN", "OPTION", "FOR"):
        words.at -= 3
        raise words.error("an admin option cannot be revoked alone", "REVOKE the role", "E_UNSUPPORTED")
    listed, start = _listed(words), words.at
    if not words.next_is("ON"):
        _members(sql, words, verb, before, [word for word, _, _ in listed])
        return
    things = _things(sql, words)
    words.need(before)
    takers = [roles.role_name(sql, words, public=True)]
    while words.next_is(","):
        takers.append(roles.role_name(sql, words, public=True))
    at = words.at
    option = verb == "GRANT" and words.next_is("WITH", "GRANT", "OPTION")
    if option and PUBLIC in takers:
        words.at = at
        raise words.error("what is everybody's cannot be passed on", "grant it to roles", "E_OPTION")
    cascade = verb == "REVOKE" and words.next_is("CASCADE")
    if verb == "REVOKE":
        words.next_is("RESTRICT")
    words.end()
    words.at = start
    access = sql.core.access
    changed: list[tuple[str, str, Rights]] = []
    for kind, name in things:
        asked = [Grant(t, p, option=option, columns=c) for p, c in _privileges(sql, words, listed, kind, name)
                 for t in takers]  # fmt: skip
        every = all(word.upper().startswith("ALL") for word, _, _ in listed)
        change = _granted if verb == "GRANT" else _revoked(only, cascade)
        changed.append((kind, name, change(access, kind, name, _as_whom(access, kind, name, asked, every=every))))
    for kind, name, rights in changed if not sql.dry else ():
        access.set_rights(kind, name, rights)


def _as_whom(access: Access, kind: str, name: str, asked: list[Grant], *, every: bool) -> list[Grant]:
    """What is granted or revoked, with the acting role; `every`: as much of it as the current user may grant."""
    who = access.acting()
    found = [(g, access.passes_on(g, kind, name)) for g in asked]
    held = [replace(g, by=by) for g, by in found if by is not None]
    if who is None or len(held) == len(asked) or (every and held):
        return held
    missing = next(g for g, by in found if by is None)
    if kind == "relation" and access.has(missing.privilege, kind, name, who):
        raise forbidden(
            f"{who.name} may not pass on {missing.privilege} on {name}", "ask its owner for it WITH GRANT OPTION"
        )
    access.may_own(kind, name)
    raise access.refused(missing.privilege, kind, name, who)


def _granted(access: Access, kind: str, name: str, asked: list[Grant]) -> Rights:
    rights = access.rights.get((kind, name), NO_RIGHTS)
    for grant in asked:
        rights = rights.granted(grant)
    return rights


def _revoked(only: bool, cascade: bool) -> Callable[[Access, str, str, list[Grant]], Rights]:
    """Revoke privileges, or `only` their grant option."""

    def run(access: Access, kind: str, name: str, asked: list[Grant]) -> Rights:
        rights = access.rights.get((kind, name), NO_RIGHTS)
        for g in asked:
            rights = rights.revoked(g.role, g.privilege, g.by or None, g.columns, option=only)
        left = rights.supported()
        if left != rights and not cascade:
            gone = next(g for g in rights.given if g not in left.given)
            what = f"{gone.by} has passed on {gone.privilege} on {name}"
            raise InputError("E_IN_USE", what, "REVOKE ... CASCADE takes that back, too")
        return left

    return run


def _listed(words: Words) -> list[tuple[str, int, tuple[str, ...]]]:
    """Privileges or roles, their positions, and the columns they apply to."""
    found = []
    while True:
        at = words.at
        word = words.take("a privilege or a role")
        if word.upper() == "ALL":
            words.next_is("PRIVILEGES")
        columns: list[str] = []
        if words.next_is("("):
            columns.append(words.name("a column"))
            while words.next_is(","):
                columns.append(words.name("a column"))
            words.need(")")
            if _SAME.get(word.upper(), word.upper()) != "SELECT":
                words.at = at
                raise words.error("only SELECT is granted by columns", "grant it on the table", "E_UNSUPPORTED")
        found.append((word, at, tuple(columns)))
        if not words.next_is(","):
            return found


def _privileges(
    sql: Statements, words: Words, listed: list[tuple[str, int, tuple[str, ...]]], kind: str, name: str
) -> list[tuple[str, tuple[str, ...]]]:
    """What is granted, as it is kept."""
    there = PRIVILEGES[kind]
    found: list[tuple[str, tuple[str, ...]]] = []
    for word, at, columns in listed:
        right = word.upper().removesuffix(" PRIVILEGES")
        right = _SAME.get(right, right)
        if right == "ALL":
            found += [(p, ()) for p in there]
        elif right in there:
            found.append((right, _columns(sql, words, at, name, columns)))
        else:
            words.at = at
            hint = did_you_mean(right, there) if right not in _ALL else f"there are {', '.join(there)}"
            raise words.error(f"{word} cannot be granted on this", hint, "E_OPTION")
    return list(dict.fromkeys(found))


def _columns(sql: Statements, words: Words, at: int, name: str, named: tuple[str, ...]) -> tuple[str, ...]:
    """Columns of a table or view, as they are spelled there."""
    shown = sql.core.access.readable(name) if named else None
    every = [c.name for c in relation_of(sql.session[name]).columns] if named else []
    known = {c.lower(): c for c in every if shown is None or c in shown}
    for column in named:
        if column.lower() not in known:
            words.at = at
            hint = did_you_mean(column, list(known.values()))
            raise words.error(f"{name} has no column {column}", hint, "E_COLUMN")
    return tuple(known[c.lower()] for c in named)


def _things(sql: Statements, words: Words) -> list[tuple[str, str]]:
    if words.is_word("ALL"):
        words.need("ALL", "TABLES", "IN", "SCHEMA")
        _, schema = roles.thing(sql, words, "SCHEMA")
        every = [*sql.session.tables, *sql.session.views]
        inside = [n for n in every if (n.rpartition(".")[0] or "public") == schema]
        return [("relation", n) for n in inside if not n.startswith("(")]
    kind = next((k for k in ("TABLE", "VIEW", "SCHEMA", "FUNCTION", "SEQUENCE") if words.next_is(k)), "TABLE")
    found = [roles.thing(sql, words, kind)]
    while words.next_is(","):
        found.append(roles.thing(sql, words, kind))
    return found


def _members(sql: Statements, words: Words, verb: str, before: str, given: list[str]) -> None:
    """GRANT role TO role"""
    access = sql.core.access
    words.need(before)
    takers = [roles.role_name(sql, words)]
    while words.next_is(","):
        takers.append(roles.role_name(sql, words))
    admin = words.next_is("WITH", "ADMIN", "OPTION")
    if verb == "REVOKE":
        words.next_is("CASCADE") or words.next_is("RESTRICT")
    words.end()
    for each in given:
        name = each.lower()
        if name == MONITOR and name not in access.roles and verb == "GRANT" and not sql.dry:
            access.may_manage("grant pg_monitor")
            access.set_role(Role(MONITOR))  # it is there by itself in PostgreSQL: here, once somebody needs it
        known = access.roles if (who := access.acting()) is None else access.reachable(who.name)
        if name not in access.roles or (name not in known and not roles.gives(access, access.roles[name])):
            words.at = 1
            raise words.error(f"there is no role or privilege {each}", did_you_mean(name, known), "E_ROLE")
        roles.may_give(access, access.roles[name])
        for taker in takers:
            if verb == "GRANT" and taker in access.reachable(name):
                words.at = 1
                raise words.error(f"{name} is a member of {taker} already", "roles do not go in circles", "E_ROLE")
            if not sql.dry:
                access.set_role(_with(access, access.roles[taker], name, verb, admin))


def _with(access: Access, role: Role, name: str, verb: str, admin: bool) -> Role:
    member = tuple(m for m in role.member_of if m != name)
    admins = tuple(a for a in role.admin_of if a != name)
    if verb == "REVOKE":
        return replace(role, member_of=member, admin_of=admins)
    keeps = admin or name in role.admin_of
    return replace(role, member_of=(*member, name), admin_of=(*admins, name) if keeps else admins)
