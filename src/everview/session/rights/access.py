"""Access control: the single place that decides what a principal may do in a session.

Every read, change or definition is checked here, each at one place:

    a plan is bound to a table or view   SQL's `Compiler.table`; plans, rules and names of clients   `may_read`,
                                         of some columns (SQL alone)                                 `readable`
    rows are staged                      `Transactions.stage` and `.add`                             `may_change`
    things are made, altered, dropped    `Definitions`                                   `may_create`, `may_own`
    a function is called                 SQL's functions, where they are bound                       `may_execute`
    server-wide operations       `stats`, `memory`, checkpoints, `ev.*`, sources             `may_manage`

The program that owns a session (`WHO` is None) and superusers may do everything. Everyone else may do what was granted
to them, to a role they are a member of, or to PUBLIC, and everything with what they own.

An object on which a user has no privilege does not exist for them: the error is the same whether it exists or not.
Which *rows* a user sees is decided by policies (`everview.sql.rights.policies`), which are bound together with plans.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from everview.errors import InputError
from everview.language.relation import relation_of
from everview.session import doors
from everview.session.clock.follower import RESERVED_PREFIX
from everview.session.names.entries import AccessSet, SequenceMade
from everview.session.rights.principal import COMMAND, WHO, Principal, as_text
from everview.session.rights.roles import PUBLIC, Grant, Policy, Rights, Role, read_rights, read_role, written

if TYPE_CHECKING:
    from everview.session.core import Core
    from everview.session.table import Table

NO_RIGHTS = Rights()

MONITOR = "pg_monitor"
"""Members of this role may inspect the whole server: `ev.*`, stats, metrics."""


class Access:
    """The roles and rights of a session, and what they allow."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.roles: Mapping[str, Role] = {}
        self.rights: Mapping[tuple[str, str], Rights] = {}
        """by the kind of object (relation, function, schema) and its name"""
        self.version = 0
        """changes whenever something is granted, revoked or dropped"""

    # updating roles and rights

    def set_role(self, role: Role) -> None:
        """Create or change a role."""
        self._core.definitions.remarks.add(AccessSet("role", role.name, written(role)))

    def drop_role(self, name: str) -> None:
        """Drop a role, its memberships, everything granted to it, and what policies say of it."""
        for role in list(self.roles.values()):
            if name in (*role.member_of, *role.admin_of):
                left = tuple(m for m in role.member_of if m != name)
                self.set_role(replace(role, member_of=left, admin_of=tuple(a for a in role.admin_of if a != name)))
        for (kind, thing), rights in list(self.rights.items()):
            given = tuple(g for g in rights.given if g.role != name)
            policies = tuple(replace(p, roles=tuple(r for r in p.roles if r != name)) for p in rights.policies)
            now = replace(rights, given=given, policies=policies)
            if now != rights or any(g.by == name for g in given):
                self.set_rights(kind, thing, now.supported())
        self._core.definitions.remarks.add(AccessSet("role", name, ""))

    def set_rights(self, kind: str, name: str, rights: Rights) -> None:
        """Set the owner of an object, and its grants and policies."""
        self._core.definitions.remarks.add(AccessSet(kind, name, "" if rights == NO_RIGHTS else written(rights)))

    def apply(self, entry: AccessSet) -> None:
        """Apply an entry."""
        if entry.kind == "role":
            roles = {n: r for n, r in self.roles.items() if n != entry.name}
            self.roles = {**roles, entry.name: read_role(entry.value)} if entry.value else roles
        else:
            at = entry.kind, entry.name
            others = {k: r for k, r in self.rights.items() if k != at}
            self.rights = {**others, at: read_rights(entry.value)} if entry.value else others
        self.version += 1

    def forget(self, kind: str, name: str) -> None:
        """Remove the rights of a dropped object, whose entry goes with the object's."""
        there = (kind, name) in self.rights
        if there:
            self.rights = {k: r for k, r in self.rights.items() if k != (kind, name)}
        if there or kind == "function":  # policies may call it
            self.version += 1

    def renamed(self, old: str, new: str) -> None:
        """Move the rights of a renamed table or view."""
        if ("relation", old) in self.rights:
            self.rights = {(k, new if (k, n) == ("relation", old) else n): r for (k, n), r in self.rights.items()}
            self.version += 1

    def rename_sights(self, old: str, new: str) -> None:
        """Let views know a renamed table or view by its new name."""
        for (kind, name), rights in list(self.rights.items()):
            if old in rights.sights:
                sights = {new if n == old else n: seen for n, seen in rights.sights.items()}
                self.set_rights(kind, name, replace(rights, sights=sights))

    # identity

    def is_free(self, who: Principal | None) -> bool:
        """Whether a principal may do everything."""
        if who is None or (who.free and not who.acts_as):
            return True
        role = self.roles.get(who.name)
        return role is not None and role.superuser

    def acting(self) -> Principal | None:
        """The current principal if it is restricted; None if it may do everything."""
        who = WHO.get()
        return None if who is None or self.is_free(who) else who

    def author(self) -> str:
        """The role to which belongs what is made now; empty: the program, or whoever has the server's own token."""
        who = WHO.get()
        return "" if who is None or (who.free and not who.acts_as) else who.name

    def all_roles(self, name: str) -> frozenset[str]:
        """A role, the roles whose privileges it has by itself (INHERIT), and PUBLIC."""
        return self._above(name, lambda role: role.inherit) | {PUBLIC}

    def reachable(self, name: str) -> frozenset[str]:
        """A role, and all that it is a member of: those that it can act as by SET ROLE."""
        return self._above(name, lambda role: True)

    def reaches(self, name: str, wanted: Callable[[Role], bool]) -> bool:
        """Whether a role, or one that it can act as by SET ROLE, is of a kind."""
        return any(wanted(self.roles[r]) for r in self.reachable(name))

    def _above(self, name: str, further: Callable[[Role], bool]) -> frozenset[str]:
        found, left = set[str](), [name]
        while left:
            role = self.roles.get(left.pop())
            if role is None or role.name in found:
                continue
            found.add(role.name)
            if further(role):
                left += role.member_of
        return frozenset(found)

    def may_act_as(self, who: Principal, name: str) -> bool:
        """Whether SET ROLE is allowed."""
        if who.free or (who.role in self.roles and self.roles[who.role].superuser):
            return True
        return name == who.role or name in self.reachable(who.role)

    def alive(self, who: Principal) -> bool:
        """Whether a principal would still be admitted: its role and token still exist."""
        if who.is_over:
            return False
        if who.free:
            return True
        role = self.roles.get(who.role)
        if role is None or not role.login or not self.may_act_as(who, who.name):
            return False
        made, digest = who.proof
        if made and made != role.made:
            return False
        tokens = {t.name: t for t in role.tokens}
        if digest or (who.token and who.token != "jwt"):  # a token of the role, whatever it is called
            token = tokens.get(who.token)
            return (
                token is not None
                and digest in ("", token.digest)
                and (token.until is None or token.until > time.time())
            )
        return True

    # privileges

    def has(self, privilege: str, kind: str, name: str, who: Principal | None = None) -> bool:
        """Whether a principal (by default the current one) has a privilege."""
        who = WHO.get() if who is None else who
        if who is None or self.is_free(who):
            return True
        roles = self.all_roles(who.name)
        if kind == "relation" and "." in name and not self._in_schema(name.rpartition(".")[0], roles):
            return False
        rights = self.rights.get((kind, name), NO_RIGHTS)
        if not self._fits(rights, who) or (kind == "relation" and privilege == "SELECT" and not self.is_upheld(name)):
            return False
        return self._given(privilege, rights, roles)

    def _given(self, privilege: str, rights: Rights, roles: Iterable[str]) -> bool:
        if rights.owner and rights.owner in roles:
            return True
        return any(privilege in rights.grants.get(role, ()) for role in roles)

    def columns(self, privilege: str, name: str, who: Principal | None = None) -> frozenset[str] | None:
        """The columns of a table or view for which a principal (by default the current one) has a privilege; None:
        all."""
        who = WHO.get() if who is None else who
        if self.has(privilege, "relation", name, who):
            return None
        assert who is not None
        rights = self.rights.get(("relation", name), NO_RIGHTS)
        roles = self.all_roles(who.name)
        if not self._fits(rights, who) or ("." in name and not self._in_schema(name.rpartition(".")[0], roles)):
            return frozenset()
        if not self.is_upheld(name):
            return frozenset()
        return frozenset().union(*(rights.columns(privilege, role) for role in roles))

    def passes_on(self, grant: Grant, kind: str, name: str) -> str | None:
        """The role as which the current principal may grant a privilege: "" as the owner, None not at all."""
        who = self.acting()
        if who is None or self.owns(kind, name, who):
            return ""
        rights = self.rights.get((kind, name), NO_RIGHTS)
        roles = sorted(self.all_roles(who.name) - {PUBLIC}, key=lambda r: (r != who.name, r))
        return next((r for r in roles if any(g.allows(replace(grant, by=r)) for g in rights.given)), None)

    def _in_schema(self, schema: str, roles: frozenset[str]) -> bool:
        rights = self.rights.get(("schema", schema), NO_RIGHTS)
        return rights.owner in roles or any(rights.grants.get(role) for role in roles)

    def _fits(self, rights: Rights, who: Principal) -> bool:
        """Whether a principal has the attributes that are built into a view."""
        bound = {n: None if v is None else as_text(v) for n, v in rights.bound.items()}  # written as claims before
        return all(who.setting(name) == value for name, value in bound.items())

    def is_bound(self, name: str) -> bool:
        """Whether a view is restricted to principals with the attributes of its creator."""
        return bool(self.rights.get(("relation", name), NO_RIGHTS).bound)

    # what views show

    def sight(self, name: str, who: Principal) -> str:
        """A text that changes with what somebody may see of a table or view: whether, which columns, which rows."""
        columns, policies = self.columns("SELECT", name, who), self._policies(name, "SELECT", who)
        rows = None
        if policies is not None:
            rows = [(p.using if self.is_founded(p) else "", p.restrictive) for p in policies]
        return repr((None if columns is None else sorted(columns), rows))

    def sights(self, names: Iterable[str]) -> dict[str, str]:
        """What the current principal sees of what it reads in a view; empty if it may see everything."""
        who = self.acting()
        if who is None:
            return {}
        return {n: self.sight(n, who) for n in names if not n.startswith(RESERVED_PREFIX)}

    def is_upheld(self, name: str) -> bool:
        """Whether a view shows what its owner may still see. It was computed with its creator's eyes: if a right is
        revoked, or a policy changes, it would go on showing what nobody may show any more.
        """
        rights = self.rights.get(("relation", name), NO_RIGHTS)
        if not rights.sights:
            return True
        owner = Principal(rights.owner, rights.bound)
        return self.is_free(owner) or all(self.sight(n, owner) == seen for n, seen in rights.sights.items())

    def owns(self, kind: str, name: str, who: Principal | None = None) -> bool:
        """Whether a principal owns an object."""
        who = WHO.get() if who is None else who
        if who is None or self.is_free(who):
            return True
        rights = self.rights.get((kind, name), NO_RIGHTS)
        return bool(rights.owner) and rights.owner in self.all_roles(who.name)

    def redeclares(self, name: Any) -> bool:
        """Whether the current principal may declare again a table or view that was found on opening: one of its own.
        To others the name is taken, as it was before; what is told of a declaration that differs is the columns.
        """
        return isinstance(name, str) and name in self._core.catalog.redeclarable and self.owns("relation", name)

    def sees(self, kind: str, name: str, who: Principal | None = None) -> bool:
        """Whether a principal has any privilege on an object; otherwise it does not exist for them."""
        who = WHO.get() if who is None else who
        if who is None or self.is_free(who) or self.owns(kind, name, who):
            return True
        rights = self.rights.get((kind, name), NO_RIGHTS)
        if any(self.has(p, kind, name, who) for g in rights.grants.values() for p in g):
            return True
        if rights.sights and self._fits(rights, who) and self._given("SELECT", rights, self.all_roles(who.name)):
            return True  # but it can no longer be read
        return kind == "relation" and bool(self.columns("SELECT", name, who))

    def visible(self, names: Iterable[str]) -> list[str]:
        """The tables and views among these that exist for the current principal."""
        return list(names) if self.acting() is None else [n for n in names if self.sees("relation", n)]

    def named(self, names: Iterable[str]) -> str:
        """Things that depend on another, for an error: those that exist for the current user by name."""
        every = list(names)
        shown = [n for n in every if any(self.sees(k, n.partition(" (")[0] or n) for k in ("relation", "function"))]
        hidden = len(every) - len(shown)
        return ", ".join([*shown, *([f"{hidden} of others"] if hidden else [])])

    # checks

    def may_read(self, name: str) -> None:
        """Refuse unless a table or view may be read."""
        self.may("SELECT", "relation", name)

    def readable(self, name: str) -> frozenset[str] | None:
        """The columns of a table or view that the current principal may read, None for all; raises if there are
        none."""
        shown = self.columns("SELECT", name) if self.acting() is not None else None
        if shown is not None and not shown:
            self.may_read(name)
        return shown

    def shown(self, name: str) -> frozenset[str] | None:
        """The columns whose names are visible to the current principal, None for all: readers of some columns see
        those."""
        found = self.columns("SELECT", name) if self.acting() is not None else None
        return found or None

    def may(self, privilege: str, kind: str, name: str) -> None:
        """Refuse unless a privilege is granted."""
        who = self.acting()
        if who is not None and not self.has(privilege, kind, name, who):
            raise self.refused(privilege, kind, name, who)

    def refused(self, privilege: str, kind: str, name: str, who: Principal) -> InputError:
        """Return the error for an object that is forbidden or does not exist; it does not reveal which."""
        what = {"relation": "table or view"}.get(kind, kind)
        if kind == "relation" and self.sees(kind, name, who) and not self.is_upheld(name):
            owner = self.rights[kind, name].owner
            return forbidden(
                f"{name} shows what {owner} might see when it was created, and that has changed", "create it again"
            )
        if kind == "relation" and self.sees(kind, name, who):
            some = " all columns of" if self.columns(privilege, name, who) else ""
            return forbidden(
                f"{who.name} may not {privilege}{some} {name}", f"GRANT {privilege} ON {name} TO {who.name}"
            )
        return forbidden(
            f"there is no {what} {name} that {who.name} may use", "ask its owner to GRANT you what you need"
        )

    def may_create(self, name: str) -> None:
        """Refuse unless a table or view of this name may be created."""
        who = self.acting()
        if who is None or name.startswith(RESERVED_PREFIX):
            return
        if name.startswith("("):
            raise InputError("E_NAME", "names that start with a bracket are the server's own", "choose another")
        schema = name.rpartition(".")[0] or PUBLIC
        if not self.has("CREATE", "schema", schema, who):
            raise forbidden(f"{who.name} may not create anything in the schema {schema}",
                            f"GRANT CREATE ON SCHEMA {schema} TO {who.name}")  # fmt: skip
        self._check_room(who)

    def may_own(self, kind: str, name: str) -> None:
        """Refuse to alter or drop an object of another owner."""
        who = self.acting()
        if who is None or name.startswith(RESERVED_PREFIX) or self.owns(kind, name, who):
            return
        if kind == "relation" and self.sees(kind, name, who):
            raise forbidden(f"{name} is not {who.name}'s own", "its owner can alter and drop it, and grant rights")
        raise self.refused("ALTER", kind, name, who)

    def may_take_along(self, names: Iterable[str]) -> None:
        """Refuse to alter or drop something together with what others have made of it."""
        who = self.acting()
        others = [] if who is None else [n for n in names if not self.owns("relation", n, who)]
        if others:
            raise forbidden(f"{self.named(others)} would go with it", "ask the owners to drop what they have made")

    def may_execute(self, name: str) -> None:
        """Refuse unless a function may be called."""
        self.may("EXECUTE", "function", name.lower())

    def may_number(self, privilege: str, made: SequenceMade) -> None:
        """Refuse to use or set a sequence by name. Those who may insert into a table may use its columns' sequences;
        a DEFAULT needs no right at all.
        """
        if self.acting() is None or (made.owner and self.owns("relation", made.owner[0])):
            return
        table = made.owner[0] if made.owner and privilege != "UPDATE" else ""
        if table and any(self.has(p, "relation", table) for p in ("INSERT", "UPDATE")):
            return
        if privilege != "UPDATE" and self.has("UPDATE", "sequence", made.name):
            return
        self.may(privilege, "sequence", made.name)

    def may_manage(self, what: str, *, look: bool = False) -> None:
        """Refuse server-wide operations; members of `pg_monitor` may inspect."""
        who = self.acting()
        if who is None or (look and MONITOR in self.all_roles(who.name)):
            return
        raise forbidden(f"{who.name} may not {what}", "only a superuser may")

    def may_change(self, table: Table, rows: Any, diff: int) -> None:
        """Refuse unless rows may be staged."""
        name = relation_of(table).label
        who = self.acting()
        if who is None or name.startswith(RESERVED_PREFIX) or relation_of(table).origin is not None:
            return
        self._may_change(name, who, COMMAND.get(), diff)
        self.check_rows(rows.shape[1] if hasattr(rows, "shape") else len(rows))
        if diff > 0:
            self._check_bytes(who, self.limits(who.role))
        if COMMAND.get() != "TRUNCATE" and self.rights.get(("relation", name), NO_RIGHTS).row_security:
            doors.check_rows(self._core, table, rows, diff)

    def _may_change(self, name: str, who: Principal, command: str, diff: int) -> None:
        """Refuse unless a command may change a table's rows. An UPDATE deletes rows and inserts others; MERGE has
        already been checked for each of its parts.
        """
        alone = "INSERT" if diff > 0 else "DELETE"
        wanted = {"UPDATE": ("UPDATE",), "TRUNCATE": ("TRUNCATE",), "MERGE": (alone, "UPDATE")}.get(command, (alone,))
        if not any(self.has(p, "relation", name, who) for p in wanted):
            raise self.refused(wanted[0], "relation", name, who)

    def refuse_read(self, name: str, *, itself: bool = True) -> None:
        """Refuse to drop or rename what conditions of policies read (a function: `f()`): another one of its name would
        be read instead. `itself`: whether policies of the same table count.
        """
        for kind, thing, policy in self._readers(name):
            if itself or thing != name:
                raise self._in_use(kind, thing, policy, f"reads {name}")

    def refuse_new(self, name: str, columns: Iterable[str]) -> None:
        """Refuse new columns of a table that conditions of policies read, if these say such a name: it means something
        else to them, and would mean the column.
        """
        for kind, thing, policy in self._readers(name):
            said = " ".join([policy.using, policy.check, *self._bodies(policy)])
            for column in columns:
                if re.search(rf"(?<!\w){re.escape(column)}(?!\w)", said, re.IGNORECASE):
                    raise self._in_use(
                        kind, thing, policy, f"reads {name}, and a {column} that is not one of its columns"
                    )

    def _readers(self, name: str) -> Iterator[tuple[str, str, Policy]]:
        """The policies that read a table or view, or call a function (`f()`), be it by way of other functions."""
        last = re.escape(name.removesuffix("()").rpartition(".")[2])
        word = re.compile(rf"(?<!\w){last}(?!\w)", re.IGNORECASE)
        for (kind, thing), rights in self.rights.items():
            for policy in rights.policies:
                if policy.mentions(name) or any(word.search(body) for body in self._bodies(policy)):
                    yield kind, thing, policy

    def _bodies(self, policy: Policy) -> list[str]:
        """The functions written in SQL that a policy calls, and those that they call, as they are now."""
        functions, found = self._core.catalog.sql_functions, dict[str, str]()
        left = [n.removesuffix("()") for n in policy.reads or () if n.endswith("()")]
        while left:
            made = functions.get(left.pop())
            if made is not None and made.name not in found:
                found[made.name] = made.body
                left += [w for w in re.findall(r"\w+", made.body.lower()) if w in functions]
        return list(found.values())

    def _in_use(self, kind: str, thing: str, policy: Policy, does: str) -> InputError:
        if not self.sees(kind, thing):
            return InputError("E_IN_USE", f"a policy {does}", "")
        return InputError(
            "E_IN_USE", f"the policy {policy.name} on {thing} {does}", f"DROP POLICY {policy.name} ON {thing} first"
        )

    def refuse_policies(self, name: str) -> None:
        """Refuse to rename columns that policies refer to."""
        rights = self.rights.get(("relation", name), NO_RIGHTS)
        if rights.policies:
            first = rights.policies[0].name
            raise InputError(
                "E_IN_USE", f"the policy {first} names columns of {name}", f"DROP POLICY {first} ON {name}"
            )
        self.refuse_grants(name, ())

    def refuse_grants(self, name: str, kept: Iterable[str]) -> None:
        """Refuse to drop columns that were granted individually: later columns of the same name would inherit the
        grant."""
        for grant in self.rights.get(("relation", name), NO_RIGHTS).given:
            if gone := set(grant.columns).difference(kept):
                column = min(gone)
                what = f"{grant.privilege} ({column}) on {name} is granted to {grant.role}"
                raise InputError(
                    "E_IN_USE", what, f"REVOKE {grant.privilege} ({column}) ON {name} FROM {grant.role} first"
                )

    # quotas

    def limits(self, role: str) -> dict[str, float]:
        """The quotas of a role: the minimum over it and the roles it is a member of."""
        found: dict[str, float] = {}
        for name in self.reachable(role):
            for kind, most in self.roles[name].quotas.items():
                found[kind] = min(most, found.get(kind, most))
        return found

    def owned(self, role: str) -> list[str]:
        """The tables and views that a role owns, or has made and given away: they count against its quotas."""
        return [n for (kind, n), r in self.rights.items() if kind == "relation" and role in (r.owner, r.maker)]

    def bytes_of(self, role: str) -> int:
        """The size of these in bytes, including indexes."""
        catalog, measure = self._core.catalog, self._core.runtime.measure()
        size = 0
        for name in self.owned(role):
            one: Any = catalog.tables.get(name) or catalog.views.get(name)
            if one is not None:
                size += sum(measure(a.operator)[2] for a in relation_of(one).arrangements)
        return size

    def check_rows(self, count: int) -> None:
        """Refuse a statement with too many rows."""
        who = self.acting()
        most = None if who is None else self.limits(who.role).get("rows")
        if who is not None and most is not None and count > most:
            raise exceeded(who.role, "rows", most)

    def may_grow(self, name: str) -> None:
        """Refuse to add state to a table or view: an index."""
        self.may_own("relation", name)
        who = self.acting()
        if who is not None:
            self._check_bytes(who, self.limits(who.role))

    def _check_room(self, who: Principal) -> None:
        """Refuse to create another object, or to let objects grow."""
        limits = self.limits(who.role)
        if len(self.owned(who.role)) >= limits.get("views", float("inf")):
            raise exceeded(who.role, "views", limits["views"])
        self._check_bytes(who, limits)

    def _check_bytes(self, who: Principal, limits: Mapping[str, float]) -> None:
        if "bytes" in limits and self.bytes_of(who.role) >= limits["bytes"]:
            raise exceeded(who.role, "bytes", limits["bytes"])

    # ownership

    def made(self, kind: str, name: str, bound: Mapping[str, Any] | None = None, reads: Iterable[str] = ()) -> None:
        """Record a new object as owned by the current role; a view also with its creator's attributes in it, and what
        it reads.
        """
        who, author = WHO.get(), self.author()
        if who is None or not author or name.startswith(RESERVED_PREFIX):
            return
        maker = "" if who.free else who.role
        rights = Rights(author, bound=dict(bound or {}), sights=self.sights(reads), maker=maker)
        self.set_rights(kind, name, rights)

    # row-level security

    def policies(self, name: str, command: str) -> tuple[Policy, ...] | None:
        """The policies that apply to the current principal; None if all rows are visible, an empty tuple if none
        are."""
        who = self.acting()
        return None if who is None else self._policies(name, command, who)

    def _policies(self, name: str, command: str, who: Principal) -> tuple[Policy, ...] | None:
        rights = self.rights.get(("relation", name), NO_RIGHTS)
        roles = self.all_roles(who.name)
        if not rights.row_security or (rights.owner in roles and rights.owner and not rights.forced):
            return None
        if any(self.roles[r].bypass for r in roles if r in self.roles and r == who.name):
            return None
        return tuple(p for p in rights.policies if p.counts_for(command) and roles.intersection(p.roles))

    def is_founded(self, policy: Policy) -> bool:
        """Whether the author of a policy sees all of what its conditions read. They are bound for the system itself,
        so whoever writes one about a table of others would be told of each row that they guess.
        """
        author = Principal(policy.author)
        return not policy.author or self.is_free(author) or all(self.sees_all(n, author) for n in policy.reads or ())

    def sees_all(self, name: str, who: Principal) -> bool:
        """Whether somebody may read all rows and columns of a table or view, whatever their attributes are; or call a
        function (`f()`).
        """
        if name.endswith("()"):
            return self.has("EXECUTE", "function", name.removesuffix("()"), who)
        if self.is_bound(name) or not self.has("SELECT", "relation", name, who):
            return False
        return self.owns("relation", name, who) or self._policies(name, "SELECT", who) is None


def exceeded(role: str, kind: str, most: float) -> InputError:
    """Return the error for an exceeded quota."""
    words = {"rate": "calls a second", "rows": "rows in a statement", "views": "tables and views"}
    return InputError("E_QUOTA", f"{role} may have {most:g} {words.get(kind, kind)}", "wait, or have its quota raised")


def forbidden(what: str, hint: str = "") -> InputError:
    """Return the error for a forbidden operation."""
    return InputError("E_FORBIDDEN", what, hint)
