"""The records behind tables and views (see `everview.language.relation`): their index, codes and subscribers.

`relation_of(table)` returns a `TableRelation`, `relation_of(view)` a `ViewRelation`. They are plain records; the
operations are in `everview.session.names` (definitions), `changes` and `reads`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from everview.codes.codec import Codec
from everview.codes.limits import in_plans
from everview.dataflow.operators import Arrangement, Operator
from everview.expr.resolve import Column
from everview.language.collection import Collection
from everview.language.relation import Relation, relation_of
from everview.plan.multiway import Choice
from everview.plan.nodes import Node
from everview.plan.nodes import Table as TableNode
from everview.session.changes.subscriber import Subscriber
from everview.session.names.constraint_rules import Rule
from everview.types import DataType

if TYPE_CHECKING:
    from everview.session.core import Core
    from everview.session.reads.keyed import KeyReader
    from everview.session.table import Table


def seen(column: Column) -> Column:
    """A table's column as expressions see it: without limits on what may be written (`everview.codes.limits`)."""
    return replace(column, type=in_plans(column.type))


def declared_columns(relation: KeptRelation) -> tuple[tuple[str, DataType], ...]:
    """The columns of a table or view with their limits, as they were declared."""
    return tuple((c.name, declared) for c, declared in zip(relation.columns, relation.codec.types, strict=True))


@dataclass
class Index:
    """A further arrangement of a table or view, for look-ups by some columns; CREATE INDEX names it."""

    keys: tuple[int, ...]
    arrangement: Arrangement
    name: str = ""


class KeptRelation(Relation):
    """The base record of tables and views."""

    kind: str
    """what it is called in messages"""
    arrangement: Arrangement

    def __init__(
        self, core: Core, name: str, node: Node, columns: Sequence[Column], parents: Sequence[Collection]
    ) -> None:
        super().__init__(node, [seen(c) for c in columns], core, label=name, parents=parents)
        self.codec = Codec(tuple(c.type for c in columns), tuple(c.name for c in columns), core.interner)
        self.installed_at = 0
        """the time of its creation; earlier times are unknown"""
        self.subscribers: list[Subscriber] = []
        self.dropped = False
        self.extra_indexes: list[Index] = []
        """beyond `arrangement`"""
        self.fallible: list[Operator] = []
        """operators that collect rows that could not be computed"""
        self.readers: dict[int, KeyReader] = {}
        """prepared look-ups, by the number of values in the key"""

    @property
    def arrangements(self) -> list[Arrangement]:
        """All its indexes, the main one first."""
        return [self.arrangement, *(index.arrangement for index in self.extra_indexes)]


class TableRelation(KeptRelation):
    """The record of a base table. Its arrangement is part of the operator that holds its rows."""

    kind = "table"
    node: TableNode

    def __init__(self, core: Core, name: str, columns: Sequence[Column], node: TableNode, key: tuple[int, ...]) -> None:
        super().__init__(core, name, node, columns, ())
        self.id = node.id
        self.key = key
        self.arrangement = None  # type: ignore[assignment]
        self.stored_as = name
        """the name of the operator that holds its rows, which does not change when the table is renamed"""
        self.views: set[str] = set()
        """the names of the views that read it"""
        self.origin: Table | None = None
        """the table that this hidden one follows (`everview.session.clock`)"""
        self.partner: Table | None = None
        """another table whose rows it holds (`everview.session.clock.lookups`)"""


class ViewRelation(KeptRelation):
    """The record of a view."""

    kind = "view"

    def __init__(self, core: Core, name: str, source: Collection, node: Node, arrangement: Arrangement) -> None:
        super().__init__(core, name, node, relation_of(source).columns, (source,))
        self.source = source
        """its definition"""
        self.arrangement = arrangement
        self.installed_at = core.time
        self.index: tuple[int, ...] = ()
        self.plan: Choice | None = None
        self.rule: Rule | None = None
        """the constraint that it enforces, if any"""
        self.history: int | None = None
        """how many epochs back it can be read, if specified"""
