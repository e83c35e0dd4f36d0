"""A fingerprint of what a right depends on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from everview.session.core import core_of

if TYPE_CHECKING:
    from everview.session.rights.principal import Principal
    from everview.session.session import Session


Known = dict[tuple[str, bool, tuple[str, ...]], str]
"""Stamps of one moment, without the part that is one principal's."""


def stamp_of(session: Session, who: Principal | None, reads: Sequence[str], known: Known | None = None) -> str:
    """A text that changes whenever anything that somebody's right to some tables and views depends on does. `known`:
    what many principals of the same role have in common is found once.
    """
    if who is None:
        return ""
    access = core_of(session).access
    key = who.name, access.is_free(who), tuple(reads)
    shared = None if known is None else known.get(key)
    if shared is None:
        shared = _shared(session, *key)
        if known is not None:
            known[key] = shared
    return f"{access.alive(who)} {shared}"


def _shared(session: Session, name: str, is_free: bool, reads: Sequence[str]) -> str:
    access = core_of(session).access
    roles = sorted(access.all_roles(name))
    free = [is_free, any(access.roles[r].bypass for r in roles if r in access.roles)]
    things = [("relation", n) for n in reads] + [("schema", n.rpartition(".")[0]) for n in reads if "." in n]
    rights = [access.rights.get(thing) for thing in things]
    policies = [policy for found in rights if found is not None for policy in found.policies]
    called = {name.removesuffix("()") for policy in policies for name in policy.reads or () if name.endswith("()")}
    functions = core_of(session).catalog.sql_functions
    bodies = [functions.get(name) for name in sorted(called)]
    return repr([free, roles, rights, [access.is_upheld(n) for n in reads], bodies])
