"""Roles, rights and policies in the catalogue: `\\du`, `\\dp`, pg_policies, has_table_privilege.

Superusers see all roles; others see themselves and the roles they are members of. Of the rights to a table, they see
those of these roles and of everybody; its owner sees all of them.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from everview.server.pg.sqlstates import PgError
from everview.session.rights.access import NO_RIGHTS
from everview.session.rights.roles import PUBLIC, Grant, Policy, Role

if TYPE_CHECKING:
    from everview.server.pg.catalog.contents import Contents, Numbers
    from everview.session.rights.access import Access
    from everview.session.rights.principal import Principal

OWNER = 10
_LETTERS = {
    "INSERT": "a",
    "SELECT": "r",
    "UPDATE": "w",
    "DELETE": "d",
    "TRUNCATE": "D",
    "REFERENCES": "x",
    "TRIGGER": "t",
}
_COMMANDS = {"ALL": "*", "SELECT": "r", "INSERT": "a", "UPDATE": "w", "DELETE": "d"}


@dataclass(frozen=True)
class RightsPicture:
    """What is shown of the rights to a table or view."""

    owner: str = ""
    given: tuple[Grant, ...] = ()
    row_security: bool = False
    forced: bool = False
    policies: tuple[Policy, ...] = ()

    @classmethod
    def of(cls, access: Access, name: str) -> RightsPicture:
        """The rights to a table or view."""
        rights = access.rights.get(("relation", name), NO_RIGHTS)
        given = tuple(sorted(rights.given, key=lambda g: (g.role, g.by, g.privilege)))
        policies, who = rights.policies, access.acting()
        if who is not None and not access.owns("relation", name, who):
            mine = access.reachable(who.role) | access.reachable(who.name) | {PUBLIC}
            given = tuple(g for g in given if g.role in mine)
            policies = tuple(
                replace(p, roles=tuple(r for r in p.roles if r in mine)) for p in policies if mine.intersection(p.roles)
            )
        return cls(rights.owner, given, rights.row_security, rights.forced, policies)

    @property
    def grants(self) -> tuple[tuple[str, str, tuple[Grant, ...]], ...]:
        """Who was given what by whom: all of it, without columns."""
        pairs = dict.fromkeys((g.role, g.by) for g in self.given if not g.columns)
        return tuple(
            (role, by, tuple(g for g in self.given if (g.role, g.by) == (role, by) and not g.columns))
            for role, by in pairs
        )

    def columns(self, numbers: Numbers, administrator: str) -> dict[str, Any]:
        """What pg_class says of them."""
        owner = self.owner or administrator
        found = [f"{owner}=arwdDxt/{owner}"] if self.grants else []
        for role, by, given in self.grants:
            options = {g.privilege: "*" if g.option else "" for g in given}
            letters = "".join(letter + options[name] for name, letter in _LETTERS.items() if name in options)
            found.append(f"{'' if role == PUBLIC else role}={letters}/{by or owner}")
        return {
            "relowner": number_of(numbers, self.owner),
            "relacl": "{" + ",".join(found) + "}" if found else None,
            "relrowsecurity": int(self.row_security),
            "relforcerowsecurity": int(self.forced),
        }


def roles_shown(access: Access) -> tuple[Role, ...]:
    """The roles that exist for whoever acts, without what lets anybody in."""
    who = access.acting()
    names = set(access.roles) if who is None else access.reachable(who.role) | access.reachable(who.name)
    found = []
    for name in sorted(names & set(access.roles)):
        role = access.roles[name]
        found.append(
            Role(name, role.login, role.superuser, role.create_role, role.bypass, role.inherit, until=role.until,
                 member_of=role.member_of, admin_of=role.admin_of, quotas=dict(role.quotas))
        )  # fmt: skip
    return tuple(found)


def number_of(numbers: Numbers, role: str) -> int:
    """The number of a role; that of whoever may do everything, if it is none."""
    return numbers.of("role", role) if role else OWNER


def add_roles(out: Contents, roles: tuple[Role, ...], numbers: Numbers) -> None:
    """The rows of roles."""
    known = {role.name for role in roles}
    for role in roles:
        oid = number_of(numbers, role.name)
        out.roles[oid] = role.name
        until = None if role.until is None else dt.datetime.fromtimestamp(role.until, dt.UTC).isoformat(" ")
        limit = int(role.quotas.get("connections", -1))
        row = {"rolname": role.name, "rolsuper": int(role.superuser), "rolinherit": int(role.inherit),
               "rolcreaterole": int(role.create_role), "rolcreatedb": 0, "rolcanlogin": int(role.login),
               "rolreplication": 0, "rolconnlimit": limit, "rolbypassrls": int(role.bypass), "oid": oid,
               "rolvaliduntil": until}  # fmt: skip
        out.pg("pg_roles", **row)
        out.pg("pg_authid", **row)
        if role.login:
            out.pg("pg_user", usename=role.name, usesysid=oid, usecreatedb=0, usesuper=int(role.superuser), userepl=0,
                   usebypassrls=int(role.bypass))  # fmt: skip
        for of in role.member_of:
            if of in known:
                out.pg("pg_auth_members", roleid=number_of(numbers, of), member=oid, grantor=OWNER,
                       admin_option=int(of in role.admin_of))  # fmt: skip
        out.info("enabled_roles", role_name=role.name)


def add_policies(out: Contents, rights: RightsPicture, oid: int, numbers: Numbers, schema: str, table: str) -> None:
    """The rows of policies."""
    for policy in rights.policies:
        takers = [0 if r == PUBLIC else number_of(numbers, r) for r in policy.roles]
        out.pg("pg_policy", oid=numbers.of("policy", schema, table, policy.name), polname=policy.name, polrelid=oid,
               polcmd=_COMMANDS[policy.command], polpermissive=int(not policy.restrictive),
               polroles="{" + ",".join(map(str, takers)) + "}", polqual=policy.using or None,
               polwithcheck=policy.check or None)  # fmt: skip
        out.pg("pg_policies", schemaname=schema, tablename=table, policyname=policy.name,
               permissive="RESTRICTIVE" if policy.restrictive else "PERMISSIVE",
               roles="{" + ",".join(policy.roles) + "}", cmd=policy.command, qual=policy.using or None,
               with_check=policy.check or None)  # fmt: skip


def has_privilege(access: Access, kind: str, name_of: Callable[[Any], str | None]) -> Callable[..., int | None]:
    """has_table_privilege([user,] thing, privilege), for the kind of thing that it is about."""

    def has(who: Principal, *given: Any) -> int | None:
        asked = who
        if None in given:
            return None
        if len(given) == 3:
            named = str(given[0]).lower()
            shown = access.is_free(who) or named in access.reachable(who.role) | access.reachable(who.name)
            role = access.roles.get(named) if shown else None
            if role is None and not access.is_free(who) and named not in (who.name, PUBLIC):
                raise PgError("E_ROLE", "42704", f"there is no role {named}", "")
            asked = who if role is None else type(who)(role.name, dict(role.attributes))
        name = name_of(given[-2])
        if name is None:
            return None
        wanted = [p.strip().upper().removesuffix(" WITH GRANT OPTION") for p in str(given[-1]).split(",")]
        return int(any(access.has(p, kind, name, asked) for p in wanted))

    return has
