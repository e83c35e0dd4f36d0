"""What tables and views are made of (see `everview.language.relation`): their rows' index, codes and listeners.

`relation_of(table)` gives a `TableRelation`, `relation_of(view)` a `ViewRelation`. They are records: what is done with
them is in `everview.session.names` (definitions), `changes` and `reads`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from everview.codes.codec import Codec
from everview.dataflow.operators import Arrangement, Operator
from everview.expr.resolve import Column
from everview.language.collection import Collection
from everview.language.relation import Relation, relation_of
from everview.plan.multiway import Choice
from everview.plan.nodes import Node
from everview.plan.nodes import Table as TableNode
from everview.session.changes.subscriber import Subscriber
from everview.session.names.rules import Rule

if TYPE_CHECKING:
    from everview.session.core import Core
    from everview.session.table import Table


@dataclass
class Index:
    """A further arrangement of a table or view, for look-ups by some columns; CREATE INDEX gives it a name."""

    keys: tuple[int, ...]
    arrangement: Arrangement
    name: str = ""


class KeptRelation(Relation):
    """A table's or a view's."""

    kind: str
    """what it is called to people"""
    arrangement: Arrangement

    def __init__(
        self, core: Core, name: str, node: Node, columns: Sequence[Column], parents: Sequence[Collection]
    ) -> None:
        super().__init__(node, columns, core, label=name, parents=parents)
        self.codec = Codec(tuple(c.type for c in columns), tuple(c.name for c in columns), core.interner)
        self.installed_at = 0
        """the time when it was made: nothing is known of times before"""
        self.subscribers: list[Subscriber] = []
        self.dropped = False
        self.more: list[Index] = []
        """further indexes"""


class TableRelation(KeptRelation):
    """A base table's. Its arrangement comes with the operator that holds its rows."""

    kind = "table"
    node: TableNode

    def __init__(self, core: Core, name: str, columns: Sequence[Column], node: TableNode, key: tuple[int, ...]) -> None:
        super().__init__(core, name, node, columns, ())
        self.id = node.id
        self.key = key
        self.arrangement = None  # type: ignore[assignment]
        self.stored_as = name
        """what the operator that holds its rows is called: it keeps that name when the table gets another"""
        self.views: set[str] = set()
        """the names of views that read it"""
        self.origin: Table | None = None
        """the table that this hidden one follows (`everview.session.clock`)"""
        self.partner: Table | None = None
        """another one that it holds rows of (`everview.session.clock.lookups`)"""


class ViewRelation(KeptRelation):
    """A view's."""

    kind = "view"

    def __init__(self, core: Core, name: str, source: Collection, node: Node, arrangement: Arrangement) -> None:
        super().__init__(core, name, node, relation_of(source).columns, (source,))
        self.source = source
        """what it was made from"""
        self.arrangement = arrangement
        self.installed_at = core.time
        self.index: tuple[int, ...] = ()
        self.plan: Choice | None = None
        self.fallible: list[Operator] = []
        """operators that collect the rows that could not be computed"""
        self.rule: Rule | None = None
        """the constraint that it guards, if it is one's"""
        self.history: int | None = None
        """how many epochs back it can be read, if that was said"""
