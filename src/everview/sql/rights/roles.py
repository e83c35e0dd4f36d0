"""Roles in SQL.

    CREATE ROLE | USER name [WITH] options       LOGIN, SUPERUSER, CREATEROLE, BYPASSRLS, INHERIT (each also with NO),
                                                 PASSWORD '...', VALID UNTIL '...', IN ROLE a, CONNECTION LIMIT n
    ALTER ROLE | USER name [WITH] options
    ALTER ROLE name SET tenant = 'a' | RESET tenant     an attribute, which policies read
    ALTER ROLE name QUOTA (views 10, rows NONE)         see `everview.server.quotas`
    DROP ROLE | USER [IF EXISTS] name, ...
    CREATE TOKEN name FOR ROLE ann [WITH (tenant = 'a', until = '2027-01-01')]    the answer is the token, told once
    DROP TOKEN [IF EXISTS] name FOR ROLE ann
    SET ROLE name | NONE, RESET ROLE
    ALTER TABLE | VIEW | FUNCTION | SCHEMA name OWNER TO role,  REASSIGN OWNED BY a TO b

Only verifiers and digests of passwords and tokens are stored. Required rights are decided by `session.rights`.
"""

from __future__ import annotations

import datetime as dt
import secrets
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlglot import TokenType

from everview.codes.digits import whole_number
from everview.errors import did_you_mean
from everview.session.rights.access import NO_RIGHTS, forbidden
from everview.session.rights.passwords import Verifier, digest_of, new_token
from everview.session.rights.principal import WHO, Principal
from everview.session.rights.roles import PUBLIC, QUOTAS, Role, Token
from everview.sql.ddl import schemas
from everview.sql.scalar.names import spelled
from everview.sql.text import statement_reader
from everview.sql.text.token_reader import Words

if TYPE_CHECKING:
    from everview.session.rights.access import Access
    from everview.sql.answers.result import Result
    from everview.sql.statements import Statements

_FLAGS = {
    "LOGIN": "login",
    "SUPERUSER": "superuser",
    "CREATEROLE": "create_role",
    "BYPASSRLS": "bypass",
    "INHERIT": "inherit",
}
_IGNORED = ("CREATEDB", "NOCREATEDB", "REPLICATION", "NOREPLICATION")


def create(sql: Statements, statement: statement_reader.Statement) -> None:
    """CREATE ROLE | USER | GROUP [IF NOT EXISTS] name [WITH] options"""
    words = Words(statement)
    words.need("CREATE")
    kind = words.choose("ROLE", "USER", "GROUP")
    optional = words.next_is("IF", "NOT", "EXISTS")
    name = _new_name(words)
    access = sql.core.access
    _may_make(access)
    if name in access.roles:
        if optional:
            statement.notes.skipped.append(f"the role {name} already exists: it is left as it is")
            return
        raise words.error(f"role {name} already exists", "ALTER ROLE changes it", "E_NAME")
    role = _options(access, words, Role(name, login=kind == "USER", made=secrets.token_hex(8)))
    if not sql.dry:
        access.set_role(role)


def alter(sql: Statements, statement: statement_reader.Statement) -> None:
    """ALTER ROLE | USER name [WITH] options | SET attribute = value | RESET attribute | QUOTA (...)"""
    words = Words(statement)
    words.need("ALTER")
    words.choose("ROLE", "USER", "GROUP")
    access = sql.core.access
    own = _is_own_password(access, words)
    if not own:
        _may_make(access)  # before it is told whether there is such a role
    role = access.roles[role_name(sql, words)]
    if not own:
        _may_make(access, role)
    if words.next_is("SET"):
        key, value = _setting(words)
        role = replace(role, attributes={**role.attributes, key: value})
    elif words.next_is("RESET"):
        key = words.name("an attribute").lower()
        role = replace(role, attributes={k: v for k, v in role.attributes.items() if k != key})
    elif words.next_is("QUOTA"):
        role = replace(role, quotas=_quotas(words, dict(role.quotas)))
    else:
        role = _options(access, words, role)
    words.end()
    if not sql.dry:
        access.set_role(role)


def drop(sql: Statements, statement: statement_reader.Statement) -> None:
    """DROP ROLE | USER | GROUP [IF EXISTS] name, ..."""
    words = Words(statement)
    words.need("DROP")
    words.choose("ROLE", "USER", "GROUP")
    optional = words.next_is("IF", "EXISTS")
    access = sql.core.access
    _may_make(access)
    found = []
    while True:
        at = words.at
        name = words.name("a role").lower()
        if name in access.roles:
            _may_make(access, access.roles[name])
            owned = [n for (_, n), r in access.rights.items() if r.owner == name]
            if owned:
                words.at = at
                hint = f"REASSIGN OWNED BY {name} TO another, or drop that"
                raise words.error(f"{name} owns {', '.join(sorted(owned)[:5])}", hint, "E_IN_USE")
            found.append(name)
        elif not optional:
            words.at = at
            raise _no_role(sql, words, name)
        else:
            statement.notes.skipped.append(f"there is no role {name}: nothing is dropped")
        if not words.next_is(","):
            break
    words.end()
    for name in found if not sql.dry else ():
        access.drop_role(name)


def create_token(sql: Statements, statement: statement_reader.Statement) -> Result:
    """CREATE TOKEN name FOR ROLE role [WITH (attribute = value, until = '...')]"""
    words = Words(statement)
    words.need("CREATE", "TOKEN")
    name = _new_name(words)
    words.need("FOR", "ROLE")
    access = sql.core.access
    _may_make(access)
    role = access.roles[role_name(sql, words)]
    _may_make(access, role)
    attributes: dict[str, Any] = {}
    until: float | None = None
    if words.next_is("WITH"):
        words.need("(")
        while True:
            key, value = _setting(words)
            if key == "until":
                until = _moment(words, str(value))
            else:
                attributes[key] = value
            if not words.next_is(","):
                break
        words.need(")")
    words.end()
    if any(t.name == name for r in access.roles.values() for t in r.tokens):
        raise words.error(f"token {name} already exists", f"DROP TOKEN {name} FOR ROLE {role.name}", "E_NAME")
    token = new_token(name)
    access.set_role(replace(role, tokens=(*role.tokens, Token(name, digest_of(token), attributes, until))))
    return sql.texts("token", [token])


def drop_token(sql: Statements, statement: statement_reader.Statement) -> None:
    """DROP TOKEN [IF EXISTS] name FOR ROLE role"""
    words = Words(statement)
    words.need("DROP", "TOKEN")
    optional = words.next_is("IF", "EXISTS")
    name = words.name("a token").lower()
    words.need("FOR", "ROLE")
    access = sql.core.access
    _may_make(access)
    role = access.roles[role_name(sql, words)]
    words.end()
    _may_make(access, role)
    left = tuple(t for t in role.tokens if t.name != name)
    if len(left) == len(role.tokens) and not optional:
        raise words.error(f"{role.name} has no token {name}", did_you_mean(name, [t.name for t in left]), "E_NAME")
    access.set_role(replace(role, tokens=left))


def set_role(sql: Statements, statement: statement_reader.Statement) -> None:
    """SET ROLE name | NONE, RESET ROLE: for the statements of this session's SQL that follow"""
    words = Words(statement)
    if [token.text.upper() for token in statement.tokens] == ["RESET", "ROLE"]:  # ROLE is no word there, but a text
        sql.role = None
        return
    words.need("SET", "ROLE")
    if words.next_is("NONE"):
        words.end()
        sql.role = None
        return
    at = words.at
    name = words.take("a role").strip("'\"").lower()
    words.end()
    words.at = at
    sql.role = acting_as(sql, name)


def acting_as(sql: Statements, name: str) -> Principal:
    """The current principal, acting as another role."""
    access, outer = sql.core.access, WHO.get()
    who = outer if sql.role is None else replace(sql.role, acts_as="")
    who = Principal("", free=True) if who is None else who
    if not access.may_act_as(who, name):
        raise forbidden(f"{who.role} is not a member of a role {name}", "GRANT it to you first")
    if name not in access.roles:
        raise forbidden(f"there is no role {name}", did_you_mean(name, access.roles))
    attributes = access.roles[name].attributes if who.free else who.attributes
    return replace(who, acts_as=name, attributes=attributes)


def owner(sql: Statements, statement: statement_reader.Statement) -> None:
    """ALTER TABLE | VIEW | FUNCTION | SCHEMA name OWNER TO role"""
    words = Words(statement)
    words.need("ALTER")
    words.next_is("MATERIALIZED")
    kind = words.choose("TABLE", "VIEW", "FUNCTION", "SCHEMA")
    words.next_is("IF", "EXISTS")
    place, name = thing(sql, words, kind)
    words.need("OWNER", "TO")
    role = role_name(sql, words)
    words.end()
    access = sql.core.access
    access.may_own(place, name)
    who = access.acting()
    if who is not None and role not in access.reachable(who.name):
        raise forbidden(f"{who.name} is not a member of {role}", "only a superuser can give things to others")
    rights = access.rights.get((place, name), NO_RIGHTS)
    if not sql.dry:
        access.set_rights(place, name, replace(rights, owner=role, maker=rights.maker if who is not None else ""))


def reassign(sql: Statements, statement: statement_reader.Statement) -> None:
    """REASSIGN OWNED BY a TO b"""
    words = Words(statement)
    words.need("REASSIGN", "OWNED", "BY")
    old = role_name(sql, words)
    words.need("TO")
    new = role_name(sql, words)
    words.end()
    access = sql.core.access
    access.may_manage("reassign what others own")
    for (kind, name), rights in list(access.rights.items()):
        if rights.owner == old:
            access.set_rights(kind, name, replace(rights, owner=new, maker=""))


# reading


def thing(sql: Statements, words: Words, kind: str) -> tuple[str, str]:
    """The next table, view, function, schema or sequence: its kind and name, as rights are stored."""
    at = words.at
    written = words.name(f"a {kind.lower()}")
    if kind == "SCHEMA":
        there = [schemas.PUBLIC, *schemas.made(sql.core)]
        name = next((s for s in there if s.lower() == written.lower()), written)
        place, known = "schema", there
    elif kind == "FUNCTION":
        words.brackets()
        name = written.lower().removeprefix("public.")
        place, known = "function", [*sql.core.catalog.sql_functions, *(f.lower() for f in sql.core.functions)]
    elif kind == "SEQUENCE":
        known = list(sql.core.catalog.sequences)
        name, place = spelled(written.removeprefix("public."), known), "sequence"
    else:
        name, place, known = sql.spelled(written), "relation", [*sql.session.tables, *sql.session.views]
    if name not in known:
        access = sql.core.access
        who = access.acting()
        if who is not None:
            raise access.refused("ALTER", place, written, who)
        words.at = at
        raise words.error(f"there is no {kind.lower()} {written}", did_you_mean(written, known), "E_TABLE")
    return place, name


def role_name(sql: Statements, words: Words, *, public: bool = False) -> str:
    """A role whose name comes next."""
    at = words.at
    name = words.name("a role").lower()
    who = WHO.get()
    if name in ("current_user", "current_role", "session_user") and who is not None:
        name = who.role if name == "session_user" else who.name
    if name in sql.core.access.roles or (public and name == PUBLIC):
        return name
    words.at = at
    raise _no_role(sql, words, name)


def _no_role(sql: Statements, words: Words, name: str) -> Exception:
    access = sql.core.access
    there = access.roles if access.acting() is None else ()
    return words.error(f"there is no role {name}", did_you_mean(name, there), "E_ROLE")


def _new_name(words: Words) -> str:
    at = words.at
    name = words.name("a name").lower()
    if name in (PUBLIC, "none", "current_user", "session_user", "current_role") or not name.replace("_", "a").isalnum():
        words.at = at
        raise words.error(f"{name} cannot be the name of a role", "use letters, digits and _", "E_NAME")
    return name


def _options(access: Access, words: Words, role: Role) -> Role:
    words.next_is("WITH")
    while words.at < len(words.tokens):
        word = words.take("an option").upper()
        plain = word.removeprefix("NO") if word.startswith("NO") else word
        if plain in _FLAGS:
            role = replace(role, **{_FLAGS[plain]: word == plain})  # type: ignore[arg-type]
        elif word in _IGNORED:
            continue
        elif word in ("PASSWORD", "ENCRYPTED"):
            role = _password(words, role, word)
        elif word == "VALID":
            words.need("UNTIL")
            role = replace(role, until=_moment(words, words.take("a moment", TokenType.STRING)))
        elif word == "CONNECTION":
            words.need("LIMIT")
            role = replace(role, quotas={**role.quotas, "connections": _number(words)})
        elif word == "IN":
            words.choose("ROLE", "GROUP")
            role = replace(role, member_of=(*role.member_of, *_roles(access, words)))
        else:
            words.at -= 1
            raise words.error(f"a role has no option {word}", did_you_mean(word, [*_FLAGS, "PASSWORD"]), "E_OPTION")
    who = access.acting()
    if who is not None and (role.superuser or role.bypass):
        raise forbidden(f"{who.name} may not make a superuser, or one that policies do not count for")
    return role


def _roles(access: Access, words: Words) -> list[str]:
    found = []
    while True:
        name = words.name("a role").lower()
        if name not in access.roles:
            words.at -= 1
            raise words.error(f"there is no role {name}", did_you_mean(name, access.roles), "E_ROLE")
        may_give(access, access.roles[name])
        found.append(name)
        if not words.next_is(","):
            return found


def _password(words: Words, role: Role, word: str) -> Role:
    if word == "ENCRYPTED":
        words.need("PASSWORD")
    if words.next_is("NULL"):
        return replace(role, verifier="")
    text = words.take("a password in quotes, or NULL", TokenType.STRING)
    if text.startswith("SCRAM-SHA-256$"):
        try:
            return replace(role, verifier=str(Verifier.read(text)))
        except ValueError:
            pass
    if not text:
        raise words.error("an empty password lets nobody in", "PASSWORD NULL takes it away", "E_OPTION")
    return replace(role, verifier=str(Verifier.of(text)))


def _setting(words: Words) -> tuple[str, Any]:
    key = words.name("an attribute").lower()
    words.choose("=", "TO")
    return key, _value(words)


def _value(words: Words) -> Any:
    if words.is_next(TokenType.STRING):
        return words.take("a value")
    if words.next_is("TRUE"):
        return True
    if words.next_is("FALSE"):
        return False
    negative = words.next_is("-")
    text = words.take("a value", TokenType.NUMBER)
    return (-1 if negative else 1) * (whole_number(text) if text.isdecimal() else float(text))


def _number(words: Words) -> float:
    negative = words.next_is("-")
    text = words.take("a number", TokenType.NUMBER)
    return -float(text) if negative else float(text)


def _quotas(words: Words, quotas: dict[str, float]) -> dict[str, float]:
    words.need("(")
    while True:
        at = words.at
        name = words.take("a quota").lower()
        if name not in QUOTAS:
            words.at = at
            raise words.error(f"there is no quota {name}", f"there are {', '.join(QUOTAS)}", "E_OPTION")
        words.next_is("=")
        if words.next_is("NONE") or words.next_is("NULL"):
            quotas.pop(name, None)
        else:
            quotas[name] = _number(words)
            if quotas[name] < 0 or (name == "weight" and not quotas[name]):
                words.at -= 1
                raise words.error("a quota is a number, 0 or more", "NONE takes it away", "E_OPTION")
        if not words.next_is(","):
            break
    words.need(")")
    return quotas


def _moment(words: Words, text: str) -> float | None:
    if text.lower() == "infinity":
        return None
    try:
        found = dt.datetime.fromisoformat(text)
    except ValueError:
        words.at -= 1
        raise words.error(f"{text!r} is not a point in time", "write '2027-01-31' or 'infinity'", "E_OPTION") from None
    return (found if found.tzinfo is not None else found.replace(tzinfo=dt.UTC)).timestamp()


# rights


def _may_make(access: Access, role: Role | None = None) -> None:
    """Refuse to create or change roles; CREATEROLE does not include changing superusers."""
    who = access.acting()
    if who is None:
        return
    own = access.roles.get(who.name)
    above = role is not None and access.reaches(role.name, lambda r: r.superuser or r.bypass)
    if own is None or not own.create_role or above:
        raise forbidden(f"{who.name} may not make or change roles", "ALTER ROLE ... CREATEROLE allows it")


def may_give(access: Access, role: Role) -> None:
    """Refuse to grant membership in a role."""
    who = access.acting()
    if who is not None and not gives(access, role):
        raise forbidden(f"{who.name} may not grant the role {role.name}", "GRANT ... WITH ADMIN OPTION allows it")


def gives(access: Access, role: Role) -> bool:
    """Whether the current user may grant membership in a role."""
    who = access.acting()
    if who is None:
        return True
    own = access.roles.get(who.name)
    if own is None or access.reaches(role.name, lambda r: r.superuser or r.bypass):
        return False
    return own.create_role or role.name in own.admin_of


def _is_own_password(access: Access, words: Words) -> bool:
    """ALTER ROLE me PASSWORD '...' is allowed to everybody; the role comes next."""
    who = access.acting()
    name, *left = [t.text for t in words.tokens[words.at :]] or [""]
    name = who.role if who is not None and name.lower() == "session_user" else name.lower()
    left = [t.upper() for t in left]
    if left[:1] == ["WITH"]:
        left = left[1:]
    return who is not None and who.role == name == who.name and len(left) == 2 and left[0] == "PASSWORD"
