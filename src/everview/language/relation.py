"""What a collection is made of, for the rest of Everview.

The attributes of a `Collection` are its columns (`edges.src`), so it has no public ones of its own. What planner,
sessions and languages need of it is its `Relation`, reached by one door:

    relation_of(edges).columns        relation_of(edges).node        relation_of(edges).label

Tables and views have more (`everview.session.relations`). A relation belongs to one collection and goes where it goes;
whoever renames a table or gives a view another plan changes it there, for everybody.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from everview.language.running import Token, check_running

if TYPE_CHECKING:
    from everview.expr.resolve import Column
    from everview.language.collection import Collection
    from everview.plan.nodes import Node

_numbers = itertools.count()

RuleTexts = Callable[[], Mapping[str, str]]
"""The rules of a program as they were written, by the digests of their plans. Digests are worked out when somebody
asks, which only questions of `why` and directories do."""


class Relation:
    """A plan, the names of its columns, and where they came from."""

    def __init__(
        self,
        node: Node,
        columns: Sequence[Column],
        owner: Any,
        *,
        label: str = "",
        parents: Sequence[Collection] = (),
        loop_tokens: frozenset[Token] | None = None,
    ) -> None:
        self.number = next(_numbers)
        self.node = node
        self.columns = tuple(replace(c, origins=((self.number, i), *c.origins)) for i, c in enumerate(columns))
        self.owner = owner
        self.label = label
        self.parents = tuple(parents)
        self.loop_tokens: frozenset[Token] = (
            frozenset().union(*(relation_of(p).loop_tokens for p in parents)) if loop_tokens is None else loop_tokens
        )
        self.meaning: Node | None = None
        """a plan that says the same and does not depend on the day, if this one does: to know a definition again"""
        self.plan_why = ""
        """why its joins are kept as `db.view` is told, if nobody asked for that"""
        self.calls: tuple[str, ...] = ()
        self.rules: tuple[RuleTexts, ...] = ()
        """of the programs that parts of the plan are from"""
        for parent in parents:
            if more := relation_of(parent).rules:
                self.rules = (*self.rules, *(r for r in more if r not in self.rules))
        self.bound: Mapping[str, Any] = MappingProxyType({})
        """attributes of whoever made it whose values are in the plan: for nobody else (`session.rights`)"""
        check_running(self.loop_tokens)
        hash(node)  # hashes are kept in the nodes: made step by step, no deep recursion comes later

    def take_after(self, before: Relation) -> None:
        """Be told as another one is, which this one stands in for."""
        self.plan_why, self.calls, self.rules = before.plan_why, before.calls, before.rules


R_co = TypeVar("R_co", covariant=True)


class HasRelation(Protocol[R_co]):
    """A collection, or what stands for one."""

    @property
    def _relation(self) -> R_co: ...


def relation_of(collection: HasRelation[R_co]) -> R_co:
    """What a collection, table or view is made of.

    >>> import everview as ev
    >>> edges = ev.connect().table("edges", {"src": int, "dst": int}, key="src")
    >>> relation_of(edges).label, relation_of(edges).key, [c.name for c in relation_of(edges.distinct()).columns]
    ('edges', (0,), ['src', 'dst'])
    """
    return collection._relation
