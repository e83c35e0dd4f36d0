"""Roles, tokens, rights and policies, as data: what `everview.session.rights.access` decides by.

They are kept with the database, each as one text of JSON (`AccessSet` in the catalogue's entries). Of a password only a
SCRAM verifier is kept, of a token only a digest: neither can be used to log in. Everything here is frozen, so that it
can be read from any thread while another one changes it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

PUBLIC = "public"
"""What is granted to this role is everybody's."""

PRIVILEGES: dict[str, tuple[str, ...]] = {
    "relation": ("SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER"),
    "function": ("EXECUTE",),
    "schema": ("CREATE", "USAGE"),
}
"""What can be granted, by the kind of thing; SUBSCRIBE is another word for SELECT."""

QUOTAS = ("connections", "subscriptions", "views", "bytes", "milliseconds", "rows", "rate", "memory", "weight")
"""What a role can be given so much of."""


@dataclass(frozen=True)
class Token:
    """A token of a role's: `ev_<name>_<secret>`, of which the secret is not kept."""

    name: str
    digest: str
    """SHA-256 of the whole token"""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    until: float | None = None
    """when it ends, as a moment in seconds"""


@dataclass(frozen=True)
class Role:
    """Somebody, or a group of them."""

    name: str
    login: bool = False
    superuser: bool = False
    create_role: bool = False
    bypass: bool = False
    """whether policies do not count for it"""
    inherit: bool = True
    verifier: str = ""
    """of the password: SCRAM-SHA-256$rounds:salt$stored:server, as PostgreSQL writes it"""
    until: float | None = None
    """when its password ends, as a moment in seconds"""
    member_of: tuple[str, ...] = ()
    admin_of: tuple[str, ...] = ()
    """roles that it may give to others"""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    quotas: Mapping[str, float] = field(default_factory=dict)
    tokens: tuple[Token, ...] = ()

    def __hash__(self) -> int:
        return hash(self.name)


@dataclass(frozen=True)
class Policy:
    """Which rows of a table or view some roles may see (`using`) and make (`check`)."""

    name: str
    command: str = "ALL"
    roles: tuple[str, ...] = (PUBLIC,)
    using: str = ""
    check: str = ""
    restrictive: bool = False

    def counts_for(self, command: str) -> bool:
        """Whether it is about a command."""
        return self.command in ("ALL", command)


@dataclass(frozen=True)
class Grant:
    """One privilege that a role was given."""

    role: str
    privilege: str
    by: str = ""
    """the role that passed it on; nothing for the owner, and for those who may do everything"""
    option: bool = False
    """whether the role may pass it on in turn"""
    columns: tuple[str, ...] = ()
    """what it is about; all columns, if there are none"""

    def allows(self, other: Grant) -> bool:
        """Whether whoever has this one may have given the other."""
        wide_enough = not self.columns or (bool(other.columns) and set(other.columns) <= set(self.columns))
        return self.option and self.role == other.by and self.privilege == other.privilege and wide_enough


@dataclass(frozen=True)
class Rights:
    """Whose a thing is, what others may do with it, and which of its rows."""

    owner: str = ""
    """the role that owns it; nobody but those who may do everything, if empty"""
    given: tuple[Grant, ...] = ()
    row_security: bool = False
    forced: bool = False
    """whether policies count for the owner, too"""
    policies: tuple[Policy, ...] = ()
    bound: Mapping[str, Any] = field(default_factory=dict)
    """attributes whose values are built into a view: only who has the same may read it"""

    @cached_property
    def grants(self) -> dict[str, tuple[str, ...]]:
        """What each role may do with all of it, whoever gave it that."""
        found: dict[str, dict[str, None]] = {}
        for grant in self.given:
            if not grant.columns:
                found.setdefault(grant.role, {})[grant.privilege] = None
        return {role: tuple(privileges) for role, privileges in found.items()}

    def columns(self, privilege: str, role: str) -> frozenset[str]:
        """The columns with which a role may do something, where it may not with all of them."""
        mine = (g.columns for g in self.given if (g.role, g.privilege) == (role, privilege))
        return frozenset(column for columns in mine for column in columns)

    def granted(self, grant: Grant) -> Rights:
        """With one privilege more. What the same role gave before is added to."""

        def same(g: Grant) -> bool:
            return (g.role, g.privilege, g.by, bool(g.columns)) == (
                grant.role,
                grant.privilege,
                grant.by,
                bool(grant.columns),
            )

        old = next((g for g in self.given if same(g)), grant)
        columns = tuple(dict.fromkeys((*old.columns, *grant.columns)))
        new = replace(grant, option=old.option or grant.option, columns=columns)
        return replace(self, given=(*(g for g in self.given if g is not old), new))

    def revoked(self, role: str, privilege: str, by: str | None = None, columns: tuple[str, ...] = (),
                *, option: bool = False) -> Rights:  # fmt: skip
        """Without a privilege of a role, or only without the option to pass it on; `by`: as far as this role gave it.
        What depends on it stays: see `supported`.
        """
        left: list[Grant] = []
        for g in self.given:
            if (g.role, g.privilege) != (role, privilege) or by not in (None, g.by) or (columns and not g.columns):
                left.append(g)
            elif option:
                left.append(replace(g, option=False))
            elif columns and (some := tuple(c for c in g.columns if c not in columns)):
                left.append(replace(g, columns=some))
        return replace(self, given=tuple(left))

    def supported(self) -> Rights:
        """Without what was passed on by roles that may not pass it on any more, nor by those they had it from.

        >>> owner, ann = Grant("ann", "SELECT", option=True), Grant("bob", "SELECT", by="ann")
        >>> Rights(given=(owner, ann)).revoked("ann", "SELECT").supported().given
        ()
        """
        known = [g for g in self.given if not g.by]
        while more := [g for g in self.given if g not in known and any(k.allows(g) for k in known)]:
            known += more
        return replace(self, given=tuple(g for g in self.given if g in known))

    def __hash__(self) -> int:
        return hash(self.owner)


def written(value: Role | Rights) -> str:
    """As the text that is kept.

    >>> read_role(written(Role("ann", login=True, attributes={"tenant": "a"}))).attributes
    {'tenant': 'a'}
    """
    return json.dumps(asdict(value), sort_keys=True)


def read_role(text: str) -> Role:
    """A role from the text that is kept."""
    found = json.loads(text)
    found["tokens"] = tuple(Token(**t) for t in found["tokens"])
    for name in ("member_of", "admin_of"):
        found[name] = tuple(found[name])
    return Role(**found)


def read_rights(text: str) -> Rights:
    """Rights from the text that is kept.

    >>> read_rights(written(Rights("ann", (Grant("bob", "SELECT"),)))).grants
    {'bob': ('SELECT',)}
    """
    found = json.loads(text)
    older = found.pop("grants", {})  # before privileges could be passed on
    given = [Grant(**{**g, "columns": tuple(g["columns"])}) for g in found.pop("given", ())]
    given += [Grant(role, privilege) for role, privileges in older.items() for privilege in privileges]
    found["given"] = tuple(given)
    found["policies"] = tuple(Policy(**{**p, "roles": tuple(p["roles"])}) for p in found["policies"])
    return Rights(**found)
