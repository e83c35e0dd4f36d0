"""Roles, tokens, rights and policies as data; `everview.session.rights.access` decides by them.

They are stored with the database as JSON (`AccessSet` entries in the catalog). Passwords are stored as SCRAM verifiers
and tokens as digests: neither can be used to log in. Everything here is frozen, so it can be read in any thread while
another one changes it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

PUBLIC = "public"
"""Grants to this role apply to everyone."""

PRIVILEGES: dict[str, tuple[str, ...]] = {
    "relation": ("SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER"),
    "function": ("EXECUTE",),
    "schema": ("CREATE", "USAGE"),
    "sequence": ("USAGE", "SELECT", "UPDATE"),
}
"""Grantable privileges by kind of object; SUBSCRIBE is a synonym of SELECT."""

QUOTAS = ("connections", "subscriptions", "views", "bytes", "milliseconds", "rows", "rate", "memory", "weight")
"""The quotas of a role."""


@dataclass(frozen=True)
class Token:
    """A token of a role: `ev_<name>_<secret>`; the secret is not stored."""

    name: str
    digest: str
    """SHA-256 of the whole token"""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    until: float | None = None
    """expiry, in seconds since the epoch"""


@dataclass(frozen=True)
class Role:
    """A user or a group."""

    name: str
    login: bool = False
    superuser: bool = False
    create_role: bool = False
    bypass: bool = False
    """whether it is exempt from policies"""
    inherit: bool = True
    verifier: str = ""
    """SCRAM-SHA-256$rounds:salt$stored:server, as PostgreSQL writes it"""
    until: float | None = None
    """expiry of its password, in seconds since the epoch"""
    member_of: tuple[str, ...] = ()
    admin_of: tuple[str, ...] = ()
    """roles that it may grant to others"""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    quotas: Mapping[str, float] = field(default_factory=dict)
    tokens: tuple[Token, ...] = ()
    made: str = ""
    """tells it from a role of the same name that was dropped before"""

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
    reads: tuple[str, ...] | None = None
    """the tables and views that the conditions read, and functions, as `f()`; None: written before it was kept"""
    author: str = ""
    """the role that wrote the conditions, which must see all of that; empty: the program, which may do everything"""

    def mentions(self, name: str) -> bool:
        """Whether the conditions read a table or view, or call a function (`f()`).

        >>> Policy("p", using="x IN (SELECT y FROM member)").mentions("member")
        True
        """
        if self.reads is not None:
            return name in self.reads
        word = re.escape(name.removesuffix("()").rpartition(".")[2])
        return re.search(rf"\b{word}\b", f"{self.using} {self.check}", re.IGNORECASE) is not None

    def counts_for(self, command: str) -> bool:
        """Whether it applies to a command."""
        return self.command in ("ALL", command)


@dataclass(frozen=True)
class Grant:
    """A privilege granted to a role."""

    role: str
    privilege: str
    by: str = ""
    """the role that granted it; empty for the owner and for superusers"""
    option: bool = False
    """whether the role may grant it further"""
    columns: tuple[str, ...] = ()
    """the columns it is restricted to; empty: all"""

    def allows(self, other: Grant) -> bool:
        """Whether a holder of this grant may have issued the other."""
        wide_enough = not self.columns or (bool(other.columns) and set(other.columns) <= set(self.columns))
        return self.option and self.role == other.by and self.privilege == other.privilege and wide_enough


@dataclass(frozen=True)
class Rights:
    """The owner of an object, its grants, and its row policies."""

    owner: str = ""
    """the owning role; if empty, only superusers own it"""
    given: tuple[Grant, ...] = ()
    row_security: bool = False
    forced: bool = False
    """whether policies apply to the owner as well"""
    policies: tuple[Policy, ...] = ()
    bound: Mapping[str, Any] = field(default_factory=dict)
    """attributes whose values are built into a view: only principals with the same values may read it"""
    sights: Mapping[str, str] = field(default_factory=dict)
    """what the owner of a view might see of that which it reads when it was created (`Access.sight`)"""
    maker: str = ""
    """the role that had logged in when it was made: it counts against its quotas, whoever owns it since"""

    @cached_property
    def grants(self) -> dict[str, tuple[str, ...]]:
        """The privileges of each role on the whole object, whoever granted them."""
        found: dict[str, dict[str, None]] = {}
        for grant in self.given:
            if not grant.columns:
                found.setdefault(grant.role, {})[grant.privilege] = None
        return {role: tuple(privileges) for role, privileges in found.items()}

    def columns(self, privilege: str, role: str) -> frozenset[str]:
        """The columns for which a role has a privilege that it does not have on all of them."""
        mine = (g.columns for g in self.given if (g.role, g.privilege) == (role, privilege))
        return frozenset(column for columns in mine for column in columns)

    def granted(self, grant: Grant) -> Rights:
        """With a further privilege, merged with what the same role granted before."""

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
        """Without a privilege of a role, or only without its grant option; `by`: only what this role granted. Dependent
        grants stay: see `supported`.
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
        """Without grants by roles that may no longer grant them, transitively.

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
    """Serialise.

    >>> read_role(written(Role("ann", login=True, attributes={"tenant": "a"}))).attributes
    {'tenant': 'a'}
    """
    return json.dumps(asdict(value), sort_keys=True)


def read_role(text: str) -> Role:
    """Parse a role."""
    found = json.loads(text)
    found["tokens"] = tuple(Token(**t) for t in found["tokens"])
    for name in ("member_of", "admin_of"):
        found[name] = tuple(found[name])
    return Role(**found)


def read_rights(text: str) -> Rights:
    """Parse rights.

    >>> read_rights(written(Rights("ann", (Grant("bob", "SELECT"),)))).grants
    {'bob': ('SELECT',)}
    """
    found = json.loads(text)
    older = found.pop("grants", {})  # written before privileges could be granted further
    given = [Grant(**{**g, "columns": tuple(g["columns"])}) for g in found.pop("given", ())]
    given += [Grant(role, privilege) for role, privileges in older.items() for privilege in privileges]
    found["given"] = tuple(given)
    found["policies"] = tuple(_read_policy(p) for p in found["policies"])
    return Rights(**found)


def _read_policy(found: dict[str, Any]) -> Policy:
    reads = found.get("reads")
    return Policy(**{**found, "roles": tuple(found["roles"]), "reads": None if reads is None else tuple(reads)})
