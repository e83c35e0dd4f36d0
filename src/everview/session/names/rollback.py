"""Atomic changes of the catalog.

Entries noted together are one record of the log (`Catalog.together`), so a process that dies has done all of it or
nothing. If an operation fails half-way, nothing is written and the session's own objects are restored:

    with all_or_nothing(core), catalog.together():
        drop a constraint, give a table other columns, make constraints over those

Until the end, unused operators are retained, so that rolling back only has to reconnect them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from everview.language.relation import relation_of

if TYPE_CHECKING:
    from everview.session.core import Core


@contextmanager
def all_or_nothing(core: Core) -> Iterator[None]:
    """Roll back all changes of tables, views and metadata made inside if it fails."""
    definitions = core.definitions
    if definitions.held is not None:
        yield
        return
    before = _Before(core)
    definitions.held = definitions.roots()
    try:
        yield
    except BaseException:
        before.restore()
        raise
    finally:
        definitions.held = None
        definitions.free_unused()
    core.defaults.settle()


class _Before:
    """The saved state: the named objects and their fields."""

    def __init__(self, core: Core) -> None:
        self._core = core
        catalog = core.catalog
        books = (catalog.tables, catalog.views, catalog.defaults, catalog.comments, catalog.sequences)
        self._books: list[tuple[dict[Any, Any], dict[Any, Any]]] = [(book, dict(book)) for book in books]
        self._redeclarable = set(catalog.redeclarable)
        self._ranked = dict(core.clock.agenda.ranked)
        self._access = core.access.roles, core.access.rights
        self._followed = core.subscriptions.followed()
        named = (*catalog.tables.values(), *catalog.views.values())
        self._fields = [(each, {name: _copied(v) for name, v in vars(relation_of(each)).items()}) for each in named]

    def restore(self) -> None:
        """Restore the saved state."""
        core = self._core
        known = {id(each) for each, _ in self._fields}
        for made in (*core.catalog.tables.values(), *core.catalog.views.values()):
            if id(made) not in known:
                relation_of(made).dropped = True
        for book, before in self._books:
            book.clear()
            book.update(before)
        core.catalog.redeclarable = self._redeclarable
        for each, fields in self._fields:
            relation = relation_of(each)
            moved = relation.arrangement is not fields.get("arrangement") or relation.dropped
            vars(relation).clear()
            vars(relation).update(fields)
            if moved and relation.subscribers:
                core.subscriptions.watch(each)
        core.defaults.taken_back()
        core.clock.agenda.restore(self._ranked)
        core.subscriptions.follow(self._followed)
        core.access.roles, core.access.rights = self._access
        core.access.version += 1
        core.constraints.noticed()


def _copied(value: Any) -> Any:
    """Copy containers, which are changed in place; everything else is replaced."""
    return type(value)(value) if type(value) in (set, list, dict) else value
