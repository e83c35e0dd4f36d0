"""Queries that are followed again and again: each is bound once, for all users whose plan is the same.

Binding a query takes milliseconds, and many clients begin with the same one. What does its plan depend on, besides its
text? On definitions, rights and settings (`everview.sql.select.binding_stamp`), on the user's role, and on attributes.

Attributes that policies compare become parameters of one dataflow (`everview.sql.rights.shared_queries`), so their
values do not matter. All others do: `current_setting` in the text is a constant, and a view may be only for users with
its creator's attributes. So a query is bound by an *observed* user, and kept with the attributes that were read, apart
from those parameters. It is reused for a user with the same values of all of them, and for nobody else.

Some plans are not kept: those over hidden tables, which binding creates for `now()` and which go with their last
reader, those over files, and those with functions written in SQL. Nothing else in a plan that is maintained comes from
the clock: it is refused (`everview.sql.clock.temporal_tables`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from everview.language.relation import relation_of
from everview.plan import nodes as plan
from everview.session.clock.follower import RESERVED_PREFIX
from everview.session.rights.principal import ObservedAttributes, Principal, acting
from everview.sql.dml import volatile_functions
from everview.sql.select.binding_stamp import binding_stamp
from everview.sql.text.annotations import Notes

if TYPE_CHECKING:
    from everview.sql.select.compiler import Compiler
    from everview.sql.statements import Statements
    from everview.sql.text.error_positions import Source

T = TypeVar("T")

KEPT, KEPT_LETTERS, KEPT_FORMS = 256, 5_000, 8
"""Queries that are kept, how long they may be, and for how many different values of attributes each."""


@dataclass(frozen=True)
class Known(Generic[T]):
    """A bound query, and the attributes that it is for."""

    stamp: tuple[Any, ...]
    attributes: Mapping[str, Any]
    found: T

    def is_for(self, who: Principal) -> bool:
        """Whether somebody's query would be bound to the same."""
        return all(who.setting(name) == value for name, value in self.attributes.items())


class KnownQueries(Generic[T]):
    """The bound queries of a session.

    Guests of a step read it from other threads, so an entry is replaced, never changed.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[Any, ...], tuple[Known[T], ...]] = {}

    def find(self, sql: Statements, source: Source, who: Principal) -> T | None:
        """A query that was bound before; None if it must be bound."""
        key = _key(sql, source, who)
        if key not in self._kept:
            return None
        stamp = binding_stamp(sql)
        return next((k.found for k in self._kept.get(key, ()) if k.stamp == stamp and k.is_for(who)), None)

    def keep(self, sql: Statements, source: Source, who: Principal, attributes: Mapping[str, Any], found: T) -> None:
        """Keep a query for users with some attributes."""
        key, stamp = _key(sql, source, who), binding_stamp(sql)
        others = [k for k in self._kept.pop(key, ()) if k.stamp == stamp][-KEPT_FORMS + 1 :]
        self._kept[key] = (*others, Known(stamp, attributes, found))
        while len(self._kept) > KEPT:
            self._kept.pop(next(iter(self._kept)), None)


def observing(who: Principal, bind: Callable[[], T]) -> tuple[T, Mapping[str, Any] | None]:
    """What somebody binds, and the attributes that were read: None if all were."""
    observed = who.observed()
    with acting(observed):
        found = bind()
    assert isinstance(observed.attributes, ObservedAttributes)
    return found, None if observed.attributes.all_read else observed.attributes.read


def is_plain(source: Source) -> bool:
    """Whether a text may be kept, as far as can be told before it is bound."""
    notes = source.notes
    if len(source.text) > KEPT_LETTERS or source.parameters is not None or notes != Notes(plan=notes.plan):
        return False
    return not volatile_functions.mentioned(source.text)


def is_lasting(source: Source, compiler: Compiler, node: plan.Node, given: Iterable[plan.Node]) -> bool:
    """Whether a bound query may be kept; `given`: tables that are placeholders in its plan."""
    core = compiler.core
    if compiler.files or compiler.called or source.notes.notices or source.notes.skipped:
        return False
    tables = {relation_of(t).node for n, t in core.catalog.tables.items() if not n.startswith(RESERVED_PREFIX)}
    return all(n in tables or n in given for n in node.walk() if isinstance(n, plan.Table))


def _key(sql: Statements, source: Source, who: Principal) -> tuple[Any, ...]:
    how = source.dialect, source.notes.plan, sql.sharing
    return source.text.strip(), *how, who.role, who.acts_as, who.free
