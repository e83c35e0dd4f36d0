"""Graphs: a collection of edges with named end columns.

Edges are rows: a row that occurs twice is two parallel edges, and a self-loop is an edge. Every method documents how it
treats those. Rows with a NULL end are not edges. Nodes are the ends of edges, and the rows of `nodes` if given.

*Two indexes.* Algorithms traverse edges by joining the collection itself on its source column or on its target column.
All joins on one column share one arrangement, so a graph holds its edges twice, once in each direction, however many
algorithms are installed; a table whose first column is the source has that direction already. Hazard: a table or view
is indexed with all its columns. Create a narrow view first if it has many that the graph does not need.

*Identity.* Some algorithms need an order of nodes, to choose a component's name or to list a triangle once. Integers
have their own. Other types are ordered by hash, which is computed in the kernels and equal on all machines; comparing
strings would call Python for each.

*Memory.* Loops over the edges are maintained for speed, as trees, or ("lean", or within a budget) in little memory.

*Parameters.* Sources and pairs are collections too: rows can be added and removed while the view runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal

from everview.errors import PlanError, did_you_mean
from everview.expr.language import Expression, col, lit
from everview.graph import components, motifs, paths, ranking, rpq, spanning, structure
from everview.graph import landmarks as marks
from everview.language import loop as loops
from everview.language.collection import Collection
from everview.language.relation import relation_of
from everview.plan.digest import outline
from everview.session.limits import size_of
from everview.session.view import View
from everview.types import DataType


class Graph:
    """A directed graph over a table, a view or any collection.

    `memory="lean"` keeps the state of algorithms in little memory, where possible; `budget` (a size like "200MB") does
    too, and limits it, for all graphs over these edges with that budget.

    >>> import everview as ev
    >>> db = ev.connect()
    >>> road = db.table("road", {"src": str, "dst": str, "km": int})
    >>> home = db.table("home", {"node": str})
    >>> g = Graph(road, weight="km")
    >>> near = db.view("near", g.sssp(home))
    >>> with db.transaction():
    ...     home.insert([("Oslo",)])
    ...     road.insert([("Oslo", "Hamar", 130), ("Hamar", "Trondheim", 370), ("Oslo", "Trondheim", 560)])
    >>> sorted(near.rows())
    [('Hamar', 130), ('Oslo', 0), ('Trondheim', 500)]
    >>> road.delete([("Hamar", "Trondheim", 370)])
    >>> near.lookup("Trondheim")
    [('Trondheim', 560)]
    """

    def __init__(
        self,
        edges: Collection,
        src: str = "src",
        dst: str = "dst",
        weight: str | None = None,
        label: str | None = None,
        *,
        nodes: Collection | None = None,
        memory: Literal["fast", "lean"] = "fast",
        budget: int | str | None = None,
    ) -> None:
        if not isinstance(edges, Collection):
            raise PlanError("E_TYPE", f"edges must be a collection, not {edges!r}", "db.table(...) is one")
        for name in (src, dst):
            _check_column(edges, name)
        for optional in (weight, label):
            if optional is not None:
                _check_column(edges, optional)
        self.src, self.dst, self.weight, self.label = src, dst, weight, label
        self.node_type = _end_type(edges, src, dst)
        if weight is not None:
            _check_weight(edges, weight)
        self.given = edges
        self.edges = _not_null(edges, src, dst).alias("edge")
        self._more_nodes = None if nodes is None else self.nodes_of(nodes, "nodes")
        self.lean = _lean(self.edges, memory, budget)

    def __repr__(self) -> str:
        extra = "".join(f", {k}={v!r}" for k, v in (("weight", self.weight), ("label", self.label)) if v)
        return f"Graph({self.edges!r}, src={self.src!r}, dst={self.dst!r}{extra})"

    # -------------------------------------------------------------------------------- building blocks

    @property
    def nodes(self) -> Collection:
        """(node): every node once."""
        e = self.edges
        ends = e.select(node=e[self.src]).union_all(e.select(node=e[self.dst]))
        return (ends if self._more_nodes is None else ends.union_all(self._more_nodes)).distinct()

    @property
    def neighbours(self) -> Collection:
        """(node, other): the undirected simple graph, each edge in both directions once, without self-loops."""
        e = self.edges
        there = e.select(node=e[self.src], other=e[self.dst])
        back = e.select(node=e[self.dst], other=e[self.src])
        return there.union_all(back).filter(col.node != col.other).distinct()

    def hop(self, x: Collection, *, back: bool = False, **kept: Any) -> Collection:
        """(node, kept...): `x` one edge further (or back), from its column `node`, with columns computed along the
        way.

        Expressions in `kept` may refer to columns of `x` and of `self.edges`.
        """
        near, far = (self.dst, self.src) if back else (self.src, self.dst)
        e = self.edges
        _check_has(x, "node")
        return x.join(e, x.node == e[near]).select(node=e[far], **kept)

    def iterate(
        self,
        start: Collection,
        body: Callable[[Collection], Collection],
        priority: Any = None,
        max_rounds: int | None = None,
        at_limit: Literal["error", "stop"] = "error",
        queued: bool = False,
    ) -> Collection:
        """`start.iterate(body, ...)`, in little memory if the graph is lean."""
        _check_has(start)
        return loops.iterate(start, body, priority, max_rounds, at_limit, queued, self.lean)

    def nodes_of(self, given: Collection, what: str) -> Collection:
        """(node): the rows of a parameter that holds nodes, each once, without NULL."""
        (name,) = self._parameter(given, what, 1)
        return _not_null(given, name).select(node=given[name]).distinct()

    def pairs_of(self, given: Collection, what: str) -> Collection:
        """(source, target): the rows of a parameter that holds pairs of nodes, each once, without NULL."""
        source, target = self._parameter(given, what, 2)
        return _not_null(given, source, target).select(source=given[source], target=given[target]).distinct()

    def _parameter(self, given: Collection, what: str, width: int) -> tuple[str, ...]:
        if not isinstance(given, Collection):
            raise PlanError(
                "E_TYPE",
                f"{what} must be a collection, not {given!r}",
                f'make a table: {what} = db.table("{what}", ...); its rows may then change while the view runs',
            )
        schema = given.schema()
        fits = [t.optional(False) == self.node_type.optional(False) for t in schema.values()]
        if len(schema) != width or not all(fits):
            raise PlanError(
                "E_TYPE",
                f"{what} is {given!r}, but needs {width} column(s) of type {self.node_type!r}",
                "select the columns that hold nodes",
            )
        return tuple(schema)

    def order_key(self, node: Expression) -> Expression:
        """An int that orders and identifies nodes: the node itself, or its hash (one-to-one on codes)."""
        if not isinstance(node, Expression):
            raise PlanError("E_TYPE", f"{node!r} is not an expression", "give a column that holds nodes: col.node")
        return node if self.node_type.kind == "int" else node.hash()

    def by_name(self, labels: Collection, name: str) -> Collection:
        """(node, <name>) from (node, label): order keys are replaced by their nodes."""
        _check_has(labels, "node", "label")
        if not isinstance(name, str) or not name:
            raise PlanError("E_NAME", f"{name!r} is not a column name", "give a non-empty string")
        if self.node_type.kind == "int":
            return labels.select(**{"node": labels.node, name: labels.label})
        owners = self.nodes.select(label=col.node.hash(), owner=col.node)
        named = labels.join(owners, labels.label == owners.label)
        return named.select(**{"node": labels.node, name: owners.owner})

    def weight_of(self, default: Any = 1) -> Any:
        """The weight of an edge, or the default if the graph has none."""
        return lit(default) if self.weight is None else self.edges[self.weight]

    # ------------------------------------------------------------------------------------------ paths

    def reach(self, sources: Collection) -> Collection:
        """(node): the sources and every node that a path from one of them leads to."""
        return paths.reach(self, sources)

    def bfs(self, sources: Collection) -> Collection:
        """(node, hops): the number of edges from the nearest source, for every reachable node."""
        return paths.bfs(self, sources)

    def sssp(self, sources: Collection, max_rounds: int | None = None) -> Collection:
        """(node, cost): the least total weight of a path from a source. Edges with a NULL weight are ignored.

        Weights are 0 or more. With negative ones the result is right as long as no cycle is negative; such a cycle
        never converges. Where there may be one, give `max_rounds`, the maximum number of edges of a path, for a
        LoopError. That costs several times as much: without it nodes wait in a queue by their cost, and a queue has no
        rounds to count.
        """
        return paths.sssp(self, sources, max_rounds)

    def widest(self, sources: Collection) -> Collection:
        """(node, width): the largest bottleneck from a source: the maximum, over paths of one edge or more, of the
        least weight on the path. Edges with a NULL weight are ignored.

        >>> import everview as ev
        >>> db = ev.connect()
        >>> pipe, well = db.table("pipe", {"src": str, "dst": str, "mm": int}), db.table("well", {"node": str})
        >>> flow = db.view("flow", Graph(pipe, weight="mm").widest(well))
        >>> well.insert([("a",)])
        >>> pipe.insert([("a", "b", 50), ("b", "c", 20), ("a", "d", 30), ("d", "c", 30)])
        >>> sorted(flow.rows())
        [('b', 50), ('c', 30), ('d', 30)]
        """
        return paths.widest(self, sources)

    def k_hop(self, sources: Collection, k: int) -> Collection:
        """(node, hops): like `bfs`, up to k edges away."""
        return paths.bfs(self, sources, paths.whole_number(k, "k"))

    def within(self, k: int, sources: Collection | None = None) -> Collection:
        """(source, node, hops): all pairs at most k edges apart, every node being 0 from itself.

        `sources` restricts the left side. The number of pairs grows like the degree to the power k.
        """
        return paths.within(self, k, sources)

    def distance(self, pairs: Collection, max_hops: int | None = None) -> Collection:
        """(source, target, distance): for each connected pair, by weight if the graph has one, else in edges.

        All pairs with one source share the search from it. `max_hops` limits the number of edges of the path; without
        weights the search then starts from both ends and meets in the middle.
        """
        return paths.distance(self, pairs, max_hops)

    def shortest_path(self, pairs: Collection, max_hops: int | None = None) -> Collection:
        """(source, target, step, node): one shortest path for each connected pair, a row for each of its nodes.

        Among several, the one with fewest edges, then, from the target backwards, with the smallest nodes.
        """
        return paths.shortest_path(self, pairs, max_hops)

    def landmarks(self, landmarks: Collection | int) -> Collection:
        """(landmark, node, forward, backward): the distance of each landmark from every node, in both directions (NULL:
        unreachable), for every node that has one. As a view it guides `ask`. The landmarks are nodes in a table, so
        that others can be chosen in a transaction. Given a number, that many of the `busiest` nodes go into a new table
        named after that of the edges: "road_landmarks".

        >>> import everview as ev
        >>> db = ev.connect()
        >>> road = db.table("road", {"src": str, "dst": str, "km": int})
        >>> road.insert([("a", "b", 5), ("b", "c", 2), ("c", "a", 9), ("c", "d", 1)])
        >>> g = Graph(road, weight="km")
        >>> index = db.view("index", g.landmarks(1))
        >>> sorted(index.rows())
        [('c', 'a', 9, 7), ('c', 'b', 14, 2), ('c', 'c', 0, 0), ('c', 'd', 1, None)]
        >>> g.ask([("a", "d"), ("d", "a")], index=index)
        [('a', 'd', 8)]
        """
        return marks.landmarks(self, landmarks)

    def busiest(self, many: int) -> list[Any]:
        """The nodes with most edges now, not adjacent to each other where possible: good landmarks."""
        return marks.busiest(self, many)

    def ask(self, pairs: Iterable[tuple[Any, Any]], index: View | None = None) -> list[tuple[Any, Any, int]]:
        """[(source, target, distance), ...] for connected pairs. Each is answered once, by a search from scratch that
        stops at the target. A view of `landmarks` guides it if one is given. Weights must not be negative. The edges
        must be a table or a view of a session in this process. For maintained results use `distance`.
        """
        return marks.ask(self, pairs, index)

    def rpq(self, expression: str, *, sources: Collection | None = None, label: str | None = None) -> Collection:
        """(src, dst): pairs joined by a path whose edge labels spell a word of the expression.

        `a` is an edge labelled a, `'two words'` any label, `.` an edge with any label; `^x` goes against the edges, `x
        / y` is x then y, `x | y` either, `x* x+ x? x{2} x{1,3} x{2,}` repeat, brackets group. An expression that
        matches the empty path yields (n, n) for every node. `sources` restricts the first column.

        >>> import everview as ev
        >>> db = ev.connect()
        >>> fact = db.table("fact", {"src": str, "kind": str, "dst": str})
        >>> g = Graph(fact, label="kind")
        >>> colleague = db.view("colleague", g.rpq("knows+ / works_at"))
        >>> fact.insert([("ann", "knows", "bob"), ("bob", "knows", "eve"), ("eve", "works_at", "ICE")])
        >>> sorted(colleague.rows())
        [('ann', 'ICE'), ('bob', 'ICE')]
        """
        return rpq.rpq(self, expression, sources, label)

    # ------------------------------------------------------------------------------------- components

    def wcc(self) -> Collection:
        """(node, component): nodes connected by edges in any direction share a component, named by its smallest
        node.

        >>> import everview as ev
        >>> db = ev.connect()
        >>> edge = db.table("edge", {"src": int, "dst": int})
        >>> part = db.view("part", Graph(edge).wcc())
        >>> edge.insert([(2, 1), (2, 3), (7, 8)])
        >>> sorted(part.rows())
        [(1, 1), (2, 1), (3, 1), (7, 7), (8, 7)]
        """
        return components.wcc(self)

    def scc(self) -> Collection:
        """(node, component): nodes that reach each other share a component, named by its smallest node."""
        return components.scc(self)

    def scc_edges(self) -> Collection:
        """(src, dst): the edges inside strongly connected components, that is, on a cycle; parallel ones are kept."""
        return components.scc_edges(self)

    def bipartite(self) -> Collection:
        """(component, bipartite): for each weakly connected component, whether its nodes can be coloured with two
        colours."""
        return components.bipartite(self)

    def two_colouring(self) -> Collection:
        """(node, component, side): 0 or 1 for each node of a bipartite component; its smallest node is on side 0."""
        return components.two_colouring(self)

    # ---------------------------------------------------------------------------------------- ranking

    def pagerank(
        self,
        rounds: int | None = 20,
        damping: float = 0.85,
        *,
        sources: Collection | None = None,
        unit: int = 1_000_000,
    ) -> Collection:
        """(node, rank): PageRank after a fixed number of rounds, in whole units; the average node starts with `unit`.
        With `rounds=None` until no rank changes any more, so to a tolerance of half a unit for each edge.

        Each round a node keeps (1 - damping) * unit and receives damping * rank / out-degree along every edge, rounded
        to the nearest unit. Ranks are integers, so that an undone change leaves no trace. Parallel edges count
        individually. Nodes without outgoing edges pass nothing on, so the ranks add up to less than nodes * unit:
        divide by their sum to get shares. With `sources` (personalised) only those start with a rank and keep some. A
        small unit drops small changes sooner and does less work; a large one is more exact (docs/graph.md has figures).
        """
        return ranking.pagerank(self, rounds, damping, sources, unit)

    def label_propagation(self, rounds: int = 10) -> Collection:
        """(node, community): in each round every node takes the label most of its neighbours have, itself included.

        All nodes at once, ties to the smaller label, on the undirected simple graph; the number of rounds is fixed
        because labels may oscillate forever.
        """
        return ranking.label_propagation(self, rounds)

    # -------------------------------------------------------------------------------------- structure

    def degree(self) -> Collection:
        """(node, degree, in_degree, out_degree): edges at each node; parallel ones count individually, a self-loop
        twice."""
        return structure.degree(self)

    def in_degree(self) -> Collection:
        """(node, in_degree) of every node, 0 included."""
        return structure.degree(self).select("node", "in_degree")

    def out_degree(self) -> Collection:
        """(node, out_degree) of every node, 0 included."""
        return structure.degree(self).select("node", "out_degree")

    def k_core(self, k: int) -> Collection:
        """(node): the largest set of nodes that each have k or more neighbours in it (undirected, simple)."""
        return structure.k_core(self, k)

    def triangles(self) -> Collection:
        """(a, b, c): every triangle of the undirected simple graph once, a < b < c.

        Nodes that are not integers are in the order of their hashes. Only the edges and the triangles are stored.
        """
        return structure.triangles(self)

    def motif(self, pattern: str | Iterable[tuple[str, str]]) -> Collection:
        """(a, b, c, ...): every occurrence of a pattern in the undirected simple graph, once. Corners are distinct
        nodes; further edges between them do not matter.

        `pattern`: "triangle", "diamond" (a cycle of four), "4-clique", "house" (a 4-clique and a roof), "5-clique", or
        edges between named corners, which name the columns.

        >>> import everview as ev
        >>> db = ev.connect()
        >>> knows = db.table("knows", {"src": int, "dst": int})
        >>> fork = db.view("fork", Graph(knows).motif([("hub", "x"), ("hub", "y"), ("hub", "z")]))
        >>> knows.insert([(1, 2), (3, 1), (1, 4)])
        >>> fork.rows()
        [(1, 2, 3, 4)]
        """
        return motifs.motif(self, pattern)

    def clustering(self) -> Collection:
        """(node, degree, triangles, coefficient): the fraction of pairs of a node's neighbours that are neighbours."""
        return structure.clustering(self)

    def levels(self) -> Collection:
        """(node, level): edges of the longest path that ends at the node; nodes on or after a cycle have no level.

        >>> import everview as ev
        >>> db = ev.connect()
        >>> needs = db.table("needs", {"src": str, "dst": str})
        >>> level = db.view("level", Graph(needs).levels())
        >>> needs.insert([("a", "b"), ("b", "c"), ("a", "c")])
        >>> sorted(level.rows())
        [('a', 0), ('b', 1), ('c', 2)]
        """
        return structure.levels(self)

    def spanning_forest(self) -> Collection:
        """(a, b, weight): the edges of a minimum spanning forest, undirected; ties to the smaller nodes.

        Its weight is `g.spanning_forest().agg(total=col.weight.sum())`. Every edge weighs 1 if the graph has no
        weights. Edges with a NULL weight are ignored.
        """
        return spanning.forest(self)


def _check_column(edges: Collection, name: Any) -> None:
    if not isinstance(name, str) or name not in edges.schema():
        raise PlanError("E_COLUMN", f"{edges!r} has no column {name!r}", did_you_mean(name, edges.schema()))


def _check_has(given: Any, *names: str) -> None:
    """Refuse anything but a collection with these columns."""
    if not isinstance(given, Collection):
        hint = f"give one with columns {', '.join(names)}" if names else "a table or a view is one"
        raise PlanError("E_TYPE", f"{given!r} is not a collection", hint)
    for name in names:
        _check_column(given, name)


def _end_type(edges: Collection, src: str, dst: str) -> DataType:
    one, other = edges.schema()[src], edges.schema()[dst]
    if one.optional(False) != other.optional(False):
        raise PlanError(
            "E_TYPE", f"edges go from {src} {one!r} to {dst} {other!r}", "both ends of an edge must have one type"
        )
    return one.optional(one.nullable or other.nullable)


def _check_weight(edges: Collection, weight: str) -> None:
    kind = edges.schema()[weight]
    if kind.kind not in {"int", "float", "decimal"}:
        raise PlanError("E_TYPE", f"the weight {weight} is {kind!r}", "a weight is int, float or decimal")


def _not_null(given: Collection, *names: str) -> Collection:
    """The rows in which these columns are not NULL."""
    return given.filter(*(given[name].is_not_null() for name in names if given.schema()[name].nullable))


def _lean(edges: Collection, memory: str, budget: int | str | None) -> loops.Lean | None:
    """How loops over the edges are maintained. Graphs over the same edges with the same budget share it."""
    if memory not in ("fast", "lean"):
        raise PlanError("E_OPTION", f"memory is {memory!r}", 'say "fast" or "lean"')
    if budget is None:
        return None if memory == "fast" else loops.Lean()
    most = size_of(budget)
    return loops.Lean(most, f"{outline(relation_of(edges).node)}:{most}")
