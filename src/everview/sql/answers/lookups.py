"""Index look-ups: `SELECT ... WHERE id = 7` finds its rows in an index instead of scanning.

A query installed as a temporary view reads all of a filtered table. If the filter equates columns with constants, and
the table (or view) has an arrangement with those columns first, the few matching rows are read from there and inlined
into the plan in place of the table; the filter stays above them. Usable arrangements are those of tables and views, of
CREATE INDEX, and of views' joins.

Only for local sessions: on Spark a filter runs where the rows are. Not inside a transaction with changes, which reads
its own changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from everview.codes.values import encode_value
from everview.dataflow.operators import Arrangement
from everview.expr.functions import conjuncts
from everview.expr.nodes import Call, ColumnRef, Expr, Literal
from everview.language.relation import relation_of
from everview.plan import nodes as plan
from everview.plan.substitute import substituted
from everview.runtime.embedded import EmbeddedRuntime
from everview.session.core import Core
from everview.session.reads.snapshot import read_codes
from everview.session.reads.subscribable import Subscribable
from everview.types import DataType

MOST_ROWS = 1000
"""Maximum number of rows inlined into a plan; beyond, scanning is as good."""

_KINDS = ("int", "str", "date", "timestamp", "bool", "uuid", "enum")
"""Kinds of columns whose equal values have equal codes."""


@dataclass(frozen=True)
class LookUp:
    """Rows of a table or view that are found by a key."""

    of: Subscribable
    arrangement: Arrangement
    start: tuple[int, ...]
    """codes of the key, in the arrangement's order"""

    def rows(self, core: Core) -> plan.Node | None:
        """The rows as a part of a plan; None if there are too many."""
        columns, counts = read_codes(core.runtime, self.arrangement, self.start, core.runtime.dataflow.time)
        if int(counts.sum()) > MOST_ROWS:
            return None
        rows = relation_of(self.of).codec.decode_rows(columns)
        repeated = (row for row, n in zip(rows, counts.tolist(), strict=True) for _ in range(n))
        return plan.Constant(tuple(map(tuple, repeated)), relation_of(self.of).node.types)

    def __str__(self) -> str:
        names = ", ".join(relation_of(self.of).columns[c].name for c in self.arrangement.order[: len(self.start)])
        by = next(
            (
                f"the index {i.name}"
                for i in relation_of(self.of).extra_indexes
                if i.arrangement is self.arrangement and i.name
            ),
            "",
        )
        return f"look-up: {relation_of(self.of).label} by {names}, in {by or 'an index that is kept'}"


def done(core: Core, node: plan.Node) -> plan.Node:
    """The plan with tables replaced by looked-up rows."""
    if core.transactions.pending():
        return node
    new: dict[plan.Node, plan.Node] = {}
    for filtered, found in planned(core, node):
        rows = found.rows(core)
        if rows is not None:
            new[filtered] = substituted(filtered, {relation_of(found.of).node: rows})
    return substituted(node, new) if new else node


def planned(core: Core, node: plan.Node) -> Iterator[tuple[plan.Node, LookUp]]:
    """The filters of a plan whose rows can be looked up, outermost first."""
    if not isinstance(core.runtime, EmbeddedRuntime) or core.transactions.queued:
        return
    contents: dict[plan.Node, Subscribable] = {
        relation_of(v).node: v for v in core.catalog.views.values() if not relation_of(v).fallible
    }
    contents.update({relation_of(t).node: t for t in core.catalog.tables.values()})
    inside: set[plan.Node] = set()
    for each in node.walk():
        if not isinstance(each, plan.Filter) or each in inside:
            continue
        below: plan.Node = each
        conditions: list[Expr] = []
        while isinstance(below, plan.Filter):
            inside.add(below)
            conditions += conjuncts(below.predicate)
            below = below.child
        of = contents.get(below)
        found = _found(core, of, dict(_given(conditions, core, below.types))) if of is not None else None
        if found is not None:
            yield each, found


def _given(conditions: list[Expr], core: Core, types: tuple[DataType, ...]) -> Iterator[tuple[int, int]]:
    """Columns that equal constants, and their codes."""
    for condition in conditions:
        if not isinstance(condition, Call) or condition.op != "eq":
            continue
        for one, other in (condition.args, condition.args[::-1]):
            if not isinstance(one, ColumnRef) or not isinstance(other, Literal) or other.value is None:
                continue
            declared = types[one.index]
            if declared.kind in _KINDS and declared.optional() == other.type.optional():
                yield one.index, encode_value(declared, other.value, core.interner)


def _found(core: Core, of: Subscribable, given: dict[int, int]) -> LookUp | None:
    """The arrangement with most of the given columns first."""
    if not given:
        return None
    kept = core.runtime.builder.arrangements.get((relation_of(of).node, ()), [])
    best: LookUp | None = None
    for arrangement in [*relation_of(of).arrangements, *kept]:
        start: list[int] = []
        for column in arrangement.order:
            if column not in given:
                break
            start.append(given[column])
        if start and (best is None or len(start) > len(best.start)):
            best = LookUp(of, arrangement, tuple(start))
    return best
