"""All tables and views at once, for calls that concern every one of them.

A call such as `db.what_if(...).changed` needs the name of every operator. Collecting these from a thousand views would
cost more than the call itself. The overview is therefore built on first use and discarded when a table or view is
created, dropped, renamed or rebuilt (`Catalog.overview`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from everview.language.relation import relation_of
from everview.session.clock.follower import RESERVED_PREFIX

if TYPE_CHECKING:
    from everview.dataflow.operators import Operator
    from everview.plan.nodes import Node
    from everview.session.names.catalog import Catalog
    from everview.session.table import Table
    from everview.session.view import View

Of = TypeVar("Of")

TRANSIENT = "("
"""Prefix of the names of views that only live during a query."""


class Named(dict[str, Of]):
    """A dict of named objects that invalidates derived data on every change.

    >>> said = []
    >>> names = Named(lambda: said.append("changed"))
    >>> names["a"] = 1
    >>> names["a"], said
    (1, ['changed'])
    >>> names.update(b=2), names.pop("a"), names.clear(), len(said)
    (None, 1, None, 4)
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        super().__init__()
        self._changed = changed

    def __setitem__(self, name: str, value: Of) -> None:
        super().__setitem__(name, value)
        self._changed()

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        self._changed()

    def pop(self, name: str, *default: Any) -> Any:
        """Remove a name."""
        self._changed()
        return super().pop(name, *default)

    def update(self, *more: Any, **named: Any) -> None:
        """Add names."""
        super().update(*more, **named)
        self._changed()

    def clear(self) -> None:
        """Remove all names."""
        super().clear()
        self._changed()

    def setdefault(self, name: str, default: Any = None) -> Any:
        """Return the value of a name, setting it if absent."""
        self._changed()
        return super().setdefault(name, default)

    def popitem(self) -> tuple[str, Of]:
        """Remove the last name."""
        self._changed()
        return super().popitem()

    def __ior__(self, more: Any) -> Named[Of]:  # type: ignore[override, misc]
        self.update(more)
        return self


class Overview:
    """A snapshot of all named objects."""

    __slots__ = ("_by_number", "_by_plan", "_places", "fallible", "named", "told")

    def __init__(self, catalog: Catalog) -> None:
        self.named: dict[str, Table | View] = {**catalog.tables, **catalog.views}
        """everything by name, tables first"""
        self.fallible: dict[View, tuple[Operator, ...]] = {
            view: tuple(relation_of(view).fallible) for view in catalog.views.values() if relation_of(view).fallible
        }
        """views whose rows can fail, and the operators that hold the errors"""
        self.told: dict[Hashable, Any] = {}
        """further data derived from names, valid as long as they are (`everview.why.rendering`)"""
        self._by_plan: dict[Node, View] | None = None
        self._places = {name: place for place, name in enumerate(self.named)}
        self._by_number: dict[int, list[str]] = {}
        for name, one in self.named.items():
            if not name.startswith(RESERVED_PREFIX):
                self._by_number.setdefault(relation_of(one).arrangement.operator.number, []).append(name)

    def names(self, numbers: Iterable[int]) -> list[str]:
        """The tables and views whose rows the operators with these numbers hold, tables first."""
        known = self._by_number
        found = [name for number in numbers if number in known for name in known[number]]
        if len(found) > 1:
            found.sort(key=self._places.__getitem__)
        return found

    def view_of(self, node: Node) -> View | None:
        """The view with this name and plan; the oldest of several."""
        known = self._by_plan
        if known is None:
            known = self._by_plan = {}
            for name, one in self.named.items():
                if relation_of(one).kind == "view" and not name.startswith(TRANSIENT):
                    known.setdefault(relation_of(one).node, one)  # type: ignore[arg-type]
        return known.get(node)

    def operators(self) -> set[Operator]:
        """The operators that a query may refer to."""
        found = {operator for operators in self.fallible.values() for operator in operators}
        for one in self.named.values():
            found.update(arrangement.operator for arrangement in relation_of(one).arrangements)
        return found
