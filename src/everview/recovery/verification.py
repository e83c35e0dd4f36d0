"""Verification: recomputes every view from its tables and compares.

A view is maintained change by change, its state is written to files and restored, perhaps by another version and with
another number of shards. None of that may affect its contents. They are therefore compared with those of a session
without a past: the same tables with their current rows, and the same plans built anew.

What this cannot detect: whether the tables are right (only their checksums protect them), and whether clock followers
are right (tables that follow the clock are taken as they are). It takes the memory and time of computing everything
once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from everview.codes.values import with_one_nan
from everview.errors import RowErrors
from everview.expr.resolve import Column
from everview.language.collection import Collection
from everview.language.relation import relation_of
from everview.plan.nodes import Guard
from everview.plan.provenance import kept_in
from everview.runtime.embedded import EmbeddedRuntime
from everview.session.core import Core

if TYPE_CHECKING:
    from everview.store import Store

MOST_SHOWN = 10
"""Maximum number of wrong rows shown per view."""

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Difference:
    """A row with its actual and expected multiplicity."""

    view: str
    row: Row
    found: int
    expected: int

    def __str__(self) -> str:
        return f"view {self.view!r}: {self.row!r} is there {self.found} times, and should be {self.expected} times"


Compare = Callable[[Any, Any], Iterator[tuple[Row, int, int]]]
"""Compares a view with its recomputation: the rows that differ, with actual and expected multiplicities."""


def differences(core: Core, provenance: Compare) -> list[Difference]:
    """Where a session's views differ from their plans computed from its tables. `provenance` compares views with
    provenance, whose codes depend on the order of arrival.

    >>> import everview as ev
    >>> from everview.session.core import core_of
    >>> db = ev.connect()
    >>> t = db.table("t", {"x": int})
    >>> v = db.view("v", t.distinct())
    >>> t.insert([(1,), (1,), (2,)])
    >>> differences(core_of(db), lambda view, other: iter(()))
    []
    """
    core.transactions.catch_up()
    core.catalog.require_functions()
    fresh = _computed(core)
    try:
        names = [name for name in core.catalog.views if name in fresh.catalog.views]
        return [found for name in names for found in _compared(name, core, fresh, provenance)]
    finally:
        fresh.close()


def _computed(core: Core) -> Core:
    """A session with the same tables, and the same views computed from them."""
    runtime = EmbeddedRuntime()
    runtime.dataflow.budgets.enforced = False  # it computes everything at once; only the contents matter, not the cost
    fresh = Core(runtime, history=0)
    try:
        for name, table in core.catalog.tables.items():
            fresh.definitions.tables.copy(name, table).insert(table.rows())
        for name, view in core.catalog.views.items():
            if not name.startswith("("):  # of a query in progress
                made = relation_of(view)
                columns = [Column(c.name, c.type) for c in made.columns]
                node = made.node.child if isinstance(made.node, Guard) else made.node  # violations are reported
                fresh.definitions.views.make(name, Collection(node, columns, fresh), plan=made.plan, rule=made.rule)
    except BaseException:
        fresh.close()
        raise
    return fresh


def _compared(name: str, core: Core, fresh: Core, provenance: Compare) -> Iterator[Difference]:
    view = core.catalog.views[name]
    if kept_in(relation_of(view).node):
        for row, there, wanted in provenance(view, fresh.catalog.views[name]):
            yield Difference(name, row, there, wanted)
        return
    found, expected = _rows(core, name), _rows(fresh, name)
    for row in sorted({*found, *expected}, key=repr):
        if found[row] != expected[row]:
            yield Difference(name, row, found[row], expected[row])


def _rows(core: Core, name: str) -> Counter[Row]:
    """The multiplicity of each row; for a view with failed rows, its errors instead."""
    view = core.catalog.views[name]
    found: Counter[Row] = Counter()
    try:
        columns, counts = view._now()._contents()
    except RowErrors as error:
        return Counter({("rows that failed", error.code): 1})
    for row, count in zip(relation_of(view).codec.decode_rows(columns), counts.tolist(), strict=True):
        found[with_one_nan(row)] += count
    return found


def read_through(store: Store) -> int:
    """Read every piece of a store's current version and verify its checksum; return how many."""
    for refs in store.manifest.lists.values():
        for ref in refs:
            store.get(ref)
    for ref in store.manifest.dictionary:
        store.get_dictionary(ref)
    return sum(1 for _ in store.manifest.refs())


def told(found: list[Difference]) -> Iterator[str]:
    """The differences as lines, at most `MOST_SHOWN` per view."""
    counts = Counter(each.view for each in found)
    for view, count in counts.items():
        of_view = [each for each in found if each.view == view]
        yield from map(str, of_view[:MOST_SHOWN])
        if count > MOST_SHOWN:
            yield f"view {view!r}: and {count - MOST_SHOWN} more rows"
