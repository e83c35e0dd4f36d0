"""Landmarks: a few nodes with all distances maintained, which guide one-off queries.

`Graph.distance` maintains its results. For thousands of pairs that are queried once each, that is too much; and a
search from scratch visits half the graph. The distances of ten landmarks are an ordinary view. By the triangle
inequality they bound every other distance from both sides, and a search with such bounds goes straight to its target,
or from both ends (`everview.kernels.frontier.landmark_search`). The result is the same with any index, and with none.

Nodes with most edges are on many shortest paths. But neighbours provide the same information, so each further landmark
must not be adjacent to a chosen one, where possible.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from everview.codes.values import encode_value
from everview.errors import InputError, PlanError
from everview.graph import paths
from everview.kernels.frontier import landmark_search
from everview.language.collection import Collection
from everview.language.relation import relation_of
from everview.session.changes.turns import reads
from everview.session.table import Table
from everview.session.view import View

if TYPE_CHECKING:
    from everview.dataflow.operators import Arrangement
    from everview.graph.graph import Graph
    from everview.session.core import Core

COLUMNS = ("landmark", "node", "forward", "backward")


def landmarks(g: Graph, marks: Collection | int) -> Collection:
    """See `Graph.landmarks`."""
    if not isinstance(marks, Collection):
        marks = _table_of(g, busiest(g, marks))
    start = g.nodes_of(marks, "landmarks")
    there, back = (paths.from_each(g, start, back=b).alias(n) for b, n in ((False, "there"), (True, "back")))
    same = (there.node == back.node) & (there.source == back.source)
    both = there.join(back, same, how="full")
    return both.select(
        landmark=there.source.if_null(back.source),
        node=there.node.if_null(back.node),
        forward=there.cost,
        backward=back.cost,
    )


def _table_of(g: Graph, nodes: list[Any]) -> Table:
    """A table of nodes beside the edges; an existing one is used as it is."""
    edges = _stored(g)
    name = f"{relation_of(edges).label}_landmarks"
    found = edges._core.catalog.tables.get(name)
    if found is None:
        found = edges._core.definitions.tables.make(name, {"node": g.node_type.optional(False)}, None, None)
        found.insert([(node,) for node in nodes])
    return found


def busiest(g: Graph, many: int) -> list[Any]:
    """See `Graph.busiest`."""
    paths.whole_number(many, "the number of nodes", 1)
    near: dict[Any, set[Any]] = {}
    degrees: Counter[Any] = Counter()
    rows = _stored(g).to_arrow().select([g.src, g.dst])
    for a, b in zip(*(column.to_pylist() for column in rows.columns), strict=True):
        if a is not None and b is not None:
            degrees.update((a, b))
            near.setdefault(a, set()).add(b)
            near.setdefault(b, set()).add(a)
    ordered = sorted(degrees, key=lambda node: (-degrees[node], repr(node)))
    chosen: list[Any] = []
    for node in ordered:
        if len(chosen) < many and not near[node] & set(chosen):
            chosen.append(node)
    return chosen + [node for node in ordered if node not in chosen][: many - len(chosen)]


def ask(g: Graph, pairs: Iterable[tuple[Any, Any]], index: View | None) -> list[tuple[Any, Any, int]]:
    """See `Graph.ask`."""
    edges = _stored(g)
    if index is not None and (not isinstance(index, View) or tuple(index.schema()) != COLUMNS):
        raise PlanError("E_TYPE", f"{index!r} is not a view of landmarks", 'db.view("index", g.landmarks(...)) is one')
    if g.weight is not None and g.edges.schema()[g.weight].kind != "int":
        kind = g.edges.schema()[g.weight].kind
        raise PlanError("E_TYPE", f"ask adds up whole numbers, and {g.weight} is {kind}", "g.distance takes it")
    if isinstance(pairs, Collection):
        raise PlanError("E_TYPE", "ask answers pairs that are given as values", "g.distance keeps those of a table")
    if not isinstance(pairs, Iterable):
        raise PlanError("E_TYPE", f"pairs must be a list of tuples, not {pairs!r}", 'g.ask([("a", "b")])')
    return Search(g, edges, index).answers(list(pairs))


def _stored(g: Graph) -> Table | View:
    if not isinstance(g.given, Table | View):
        raise PlanError("E_TYPE", "the graph's edges are neither a table nor a view", "make a view of them first")
    return g.given


class Search:
    """A snapshot of the edges and the index. `settled` counts the nodes that searches expanded."""

    def __init__(self, g: Graph, edges: Table | View, index: View | None) -> None:
        self.g, self.edges, self.index = g, edges, index
        self._core: Core = edges._core
        self.settled = 0

    @reads
    def answers(self, pairs: list[tuple[Any, Any]]) -> list[tuple[Any, Any, int]]:
        """(source, target, distance) for each connected pair."""
        core = self._core
        for each in (self.edges, self.index):
            if each is not None:
                each._alive()
        core.transactions.catch_up()
        running, _ = core.runtime.dataflows()
        if len(running) != 1 or running[0].sharded or core.transactions.supposed() is not None:
            hint = "ask in a session of this process, outside what_if; g.distance works everywhere"
            raise PlanError("E_OPTION", "ask reads the edges of this session as they are", hint)
        search = self._searching(core.time)
        settled = np.zeros(1, dtype=np.int64)
        found: list[tuple[Any, Any, int]] = []
        for pair in pairs:
            source, target = (self._code(value) for value in self._ends(pair))
            cost = search(source, target, settled)
            self.settled += int(settled[0])
            if cost == landmark_search.NEGATIVE:
                hint = "g.distance takes negative weights"
                raise InputError("E_RANGE", f"an edge on the way from {pair[0]!r} has a negative weight", hint)
            if cost != landmark_search.NOT_FOUND:
                found.append((*pair, int(cost)))
        return found

    def _searching(self, time: int) -> Callable[[int, int, Any], int]:
        """The kernel bound to the edges and the index: it takes a source, a target, and a counter."""
        names = list(self.edges.schema())
        ends = (names.index(self.g.src), names.index(self.g.dst))
        weight = None if self.g.weight is None else names.index(self.g.weight)

        def by(keys: tuple[int, ...]) -> tuple[int, int]:
            found = self._arranged(self.edges, keys)
            return found.trace.address, -1 if weight is None else found.order.index(weight)

        if self.index is None:
            return partial(landmark_search.shortest, *by(ends), time)
        index = self._arranged(self.index, (COLUMNS.index("node"), 0)).trace.address
        there, back = by(ends), by(ends[::-1])
        return partial(landmark_search.shortest_from_both_ends, *there, *back, index, time)

    def _ends(self, pair: Any) -> tuple[Any, Any]:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise InputError("E_TYPE", f"{pair!r} is not a pair of nodes", "give tuples (source, target)")
        return pair

    def _code(self, value: Any) -> int:
        return int(encode_value(self.g.node_type.optional(False), value, relation_of(self.edges).codec.interner))

    def _arranged(self, of: Table | View, keys: tuple[int, ...]) -> Arrangement:
        for arrangement in self._core.runtime.builder.existing(relation_of(of).node):
            if arrangement.order[: len(keys)] == keys and arrangement.operator.scope.is_root:
                return arrangement
        return self._core.definitions.indexes.make(of, keys)
