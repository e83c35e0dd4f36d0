"""A bound query: a plan, and the roles of its columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from everview.plan import joins
from everview.plan.nodes import Node
from everview.sql.select.scopes import HIDDEN_FIELD, Field, Relation

Env = Mapping[str, Relation | None]
"""The visible WITH queries by lower-case name; None: one whose columns are not known yet."""


@dataclass(frozen=True)
class Query:
    """A bound query: `context` columns, then outputs up to `width`, then columns only the order needs."""

    node: Node
    names: tuple[str, ...]
    context: int = 0
    order: tuple[tuple[int, bool], ...] = ()
    at_most_one: bool = False
    exactly_one: bool = False

    @property
    def width(self) -> int:
        """Columns without those for the order."""
        return self.context + len(self.names)

    def fields(self) -> tuple[Field, ...]:
        return (*[HIDDEN_FIELD] * self.context, *map(Field, self.names))

    def relation(self) -> Relation:
        """As a table of another query."""
        return Relation(joins.take(self.node, range(self.width)), self.fields())
