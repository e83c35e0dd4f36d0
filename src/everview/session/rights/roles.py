"""Roles, tokens, rights and policies, as data: what `everview.session.rights.access` decides by.

They are kept with the database, each as one text of JSON (`AccessSet` in the catalogue's entries). Of a password only a
SCRAM verifier is kept, of a token only a digest: neither can be used to log in. Everything here is frozen, so that it
can be read from any thread while another one changes it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
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
class Rights:
    """Whose a thing is, what others may do with it, and which of its rows."""

    owner: str = ""
    """the role that owns it; nobody but those who may do everything, if empty"""
    grants: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    row_security: bool = False
    forced: bool = False
    """whether policies count for the owner, too"""
    policies: tuple[Policy, ...] = ()
    bound: Mapping[str, Any] = field(default_factory=dict)
    """attributes whose values are built into a view: only who has the same may read it"""

    def granted(self, role: str, privileges: tuple[str, ...]) -> Rights:
        """With further privileges for a role."""
        have = self.grants.get(role, ())
        return replace(self, grants={**self.grants, role: (*have, *(p for p in privileges if p not in have))})

    def revoked(self, role: str, privileges: tuple[str, ...]) -> Rights:
        """With fewer."""
        left = tuple(p for p in self.grants.get(role, ()) if p not in privileges)
        others = {r: g for r, g in self.grants.items() if r != role}
        return replace(self, grants={**others, role: left} if left else others)

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

    >>> read_rights(written(Rights("ann", {"bob": ("SELECT",)}))).grants
    {'bob': ('SELECT',)}
    """
    found = json.loads(text)
    found["grants"] = {role: tuple(privileges) for role, privileges in found["grants"].items()}
    found["policies"] = tuple(Policy(**{**p, "roles": tuple(p["roles"])}) for p in found["policies"])
    return Rights(**found)
