"""GRANT and REVOKE.

    GRANT SELECT, INSERT | ALL [PRIVILEGES] ON [TABLE | VIEW] t, v | ALL TABLES IN SCHEMA s TO ann, PUBLIC
    GRANT CREATE, USAGE ON SCHEMA s TO ann
    GRANT EXECUTE ON FUNCTION f TO ann
    GRANT reader, writer TO ann [WITH ADMIN OPTION]
    REVOKE ... FROM ...

SUBSCRIBE is taken for SELECT: whoever may read something may follow it. Rights are about whole tables and views;
columns are left out by a view.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from everview.errors import did_you_mean
from everview.session.rights.access import NO_RIGHTS, Access
from everview.session.rights.roles import PRIVILEGES, Role
from everview.sql.rights import roles
from everview.sql.text import reading
from everview.sql.text.words import Words

if TYPE_CHECKING:
    from everview.sql.statements import Statements

_SAME = {"SUBSCRIBE": "SELECT"}
_ALL = {"SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER", "EXECUTE", "CREATE", "USAGE"}


def grant(sql: Statements, statement: reading.Statement) -> None:
    """GRANT ... TO ..."""
    _change(sql, Words(statement), "GRANT", "TO")


def revoke(sql: Statements, statement: reading.Statement) -> None:
    """REVOKE ... FROM ..."""
    _change(sql, Words(statement), "REVOKE", "FROM")


def _change(sql: Statements, words: Words, verb: str, before: str) -> None:
    words.need(verb)
    if verb == "REVOKE" and (words.next_is("GRANT", "OPTION", "FOR") or words.next_is("ADMIN", "OPTION", "FOR")):
        words.at -= 3
        raise words.error("options cannot be revoked alone", "REVOKE all of it", "E_UNSUPPORTED")
    listed, start = _listed(words), words.at
    if not words.next_is("ON"):
        _members(sql, words, verb, before, [word for word, _ in listed])
        return
    things = _things(sql, words)
    words.need(before)
    takers = [roles.role_name(sql, words, public=True)]
    while words.next_is(","):
        takers.append(roles.role_name(sql, words, public=True))
    if words.next_is("WITH", "GRANT", "OPTION"):
        words.at -= 1
        raise words.error("rights cannot be passed on", "the owner grants them to each", "E_UNSUPPORTED")
    if verb == "REVOKE":
        words.next_is("CASCADE") or words.next_is("RESTRICT")
    words.end()
    words.at = start
    changes = [(k, n, _privileges(words, listed, k)) for k, n in things]
    access = sql.core.access
    for kind, name, _ in changes:
        access.may_own(kind, name)
    for kind, name, privileges in changes if not sql.dry else ():
        rights = access.rights.get((kind, name), NO_RIGHTS)
        for taker in takers:
            rights = rights.granted(taker, privileges) if verb == "GRANT" else rights.revoked(taker, privileges)
        access.set_rights(kind, name, rights)


def _listed(words: Words) -> list[tuple[str, int]]:
    """Privileges or roles, and where they stand."""
    found = []
    while True:
        at = words.at
        word = words.take("a privilege or a role")
        if word.upper() == "ALL":
            words.next_is("PRIVILEGES")
        if words.brackets():
            words.at = at
            raise words.error("rights are about whole tables", "grant a view of these columns", "E_UNSUPPORTED")
        found.append((word, at))
        if not words.next_is(","):
            return found


def _privileges(words: Words, listed: list[tuple[str, int]], kind: str) -> tuple[str, ...]:
    """What is granted, as it is kept."""
    there = PRIVILEGES[kind]
    found: list[str] = []
    for word, at in listed:
        said = word.upper().removesuffix(" PRIVILEGES")
        said = _SAME.get(said, said)
        if said == "ALL":
            found += there
        elif said in there:
            found.append(said)
        else:
            words.at = at
            hint = did_you_mean(said, there) if said not in _ALL else f"there are {', '.join(there)}"
            raise words.error(f"{word} cannot be granted on this", hint, "E_OPTION")
    return tuple(dict.fromkeys(found))


def _things(sql: Statements, words: Words) -> list[tuple[str, str]]:
    if words.next_is("ALL", "TABLES", "IN", "SCHEMA"):
        _, schema = roles.thing(sql, words, "SCHEMA")
        every = [*sql.session.tables, *sql.session.views]
        inside = [n for n in every if (n.rpartition(".")[0] or "public") == schema]
        return [("relation", n) for n in inside if not n.startswith("(")]
    kind = next((k for k in ("TABLE", "VIEW", "SCHEMA", "FUNCTION") if words.next_is(k)), "TABLE")
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
        if name not in access.roles:
            words.at = 1
            raise words.error(f"there is no role or privilege {each}", did_you_mean(name, access.roles), "E_ROLE")
        roles.may_give(access, access.roles[name])
        for taker in takers:
            if verb == "GRANT" and taker in access.all_roles(name):
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
