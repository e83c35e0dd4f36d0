"""What each algorithm should say: recomputed by networkx, or in plain Python where it has no such thing."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import networkx as nx

from everview.graph import automaton as au

Node = Any
Edge = tuple[Node, str, Node, int]
"""(source, label, target, weight)"""


@dataclass
class State:
    """The rows of the tables."""

    edges: Counter[Edge] = field(default_factory=Counter)
    sources: Counter[Node] = field(default_factory=Counter)
    pairs: Counter[tuple[Node, Node]] = field(default_factory=Counter)
    more: Counter[Node] = field(default_factory=Counter)

    @property
    def digraph(self) -> nx.MultiDiGraph:
        graph = nx.MultiDiGraph()
        graph.add_nodes_from(self.more)
        for (a, label, b, weight), n in self.edges.items():
            for _ in range(n):
                graph.add_edge(a, b, label=label, weight=weight)
        return graph

    @property
    def with_sources(self) -> nx.MultiDiGraph:
        """Sources are nodes by being asked for."""
        graph = self.digraph
        graph.add_nodes_from([*self.sources, *(n for pair in self.pairs for n in pair)])
        return graph

    @property
    def simple(self) -> nx.Graph:
        graph = nx.Graph()
        graph.add_nodes_from(self.digraph)
        graph.add_edges_from((a, b) for a, b in self.digraph.edges() if a != b)
        return graph


Rows = Counter[tuple[Any, ...]]


def rows(found: Iterable[tuple[Any, ...]]) -> Rows:
    return Counter(found)


def bfs(state: State, most: float = math.inf) -> Rows:
    graph, hops = state.with_sources, {}  # type: ignore[var-annotated]
    for source in state.sources:
        for node, far in nx.single_source_shortest_path_length(graph, source).items():
            hops[node] = min(far, hops.get(node, far))
    return rows((node, far) for node, far in hops.items() if far <= most)


def reach(state: State) -> Rows:
    return rows((node,) for node, _ in bfs(state))


def sssp(state: State) -> Rows:
    if not state.sources:
        return rows([])
    return rows(nx.multi_source_dijkstra_path_length(state.with_sources, set(state.sources)).items())


def within(state: State, k: int) -> Rows:
    every = nx.all_pairs_shortest_path_length(state.digraph, cutoff=k)
    return rows((a, b, far) for a, found in every for b, far in found.items())


def distance(state: State) -> Rows:
    graph = state.with_sources
    return rows((a, b, nx.dijkstra_path_length(graph, a, b)) for a, b in state.pairs if nx.has_path(graph, a, b))


def limited_distance(state: State, most: int) -> Rows:
    """Least weight of a walk of at most so many edges (Bellman and Ford's rounds)."""
    found = []
    for a, b in state.pairs:
        cost = {a: 0}
        for _ in range(most):
            longer = [(t, cost[s] + w) for s, _, t, w in state.edges if s in cost]
            for node, c in longer:
                cost[node] = min(c, cost.get(node, c))
        if b in cost:
            found.append((a, b, cost[b]))
    return rows(found)


def hop_distance(state: State, most: int | None) -> Rows:
    """Edges of the shortest path of each pair, if at most so many; a node that is nowhere is 0 from itself."""
    found = []
    for a, b in state.pairs:
        hops = nx.single_source_shortest_path_length(state.digraph, a, most) if a in state.digraph else {a: 0}
        if b in hops:
            found.append((a, b, hops[b]))
    return rows(found)


def components(found: Iterable[Iterable[Node]]) -> Rows:
    """(node, smallest node of its component)"""
    return rows((node, min(part)) for part in map(set, found) for node in part)


def wcc(state: State) -> Rows:
    return components(nx.weakly_connected_components(state.digraph))


def scc(state: State) -> Rows:
    return components(nx.strongly_connected_components(state.digraph))


def scc_edges(state: State) -> Rows:
    name = dict(scc(state).keys())  # type: ignore[var-annotated]
    found: Rows = Counter()
    for (a, _, b, _), n in state.edges.items():
        if name[a] == name[b]:
            found[a, b] += n
    return found


def bipartite(state: State) -> Rows:
    graph = nx.Graph(state.digraph)
    parts = nx.connected_components(graph)
    return rows((min(part), nx.is_bipartite(graph.subgraph(part))) for part in parts)


def two_colouring(state: State) -> Rows:
    graph, found = nx.Graph(state.digraph), []
    for part in nx.connected_components(graph):
        if nx.is_bipartite(graph.subgraph(part)):
            far = nx.single_source_shortest_path_length(graph, min(part))
            found += [(node, min(part), far[node] % 2) for node in part]
    return rows(found)


def nearest(a: int, b: int) -> int:
    """a / b to the nearest whole number, halves up."""
    return math.floor(Fraction(a, b) + Fraction(1, 2))


def pagerank(state: State, rounds: int, parts: tuple[int, int], unit: int, personal: bool = False) -> Rows:
    top, bottom = parts
    graph = state.with_sources if personal else state.digraph
    ranked = set(state.sources) if personal else set(graph)
    rank = dict.fromkeys(ranked, unit)
    for _ in range(rounds):
        new: Counter[Node] = Counter(dict.fromkeys(ranked, nearest(unit * (bottom - top), bottom)))
        for a, b in graph.edges():
            if a in rank:
                new[b] += nearest(rank[a] * top, graph.out_degree(a) * bottom)
        rank = dict(new)
    return rows(rank.items())


def settled_pagerank(state: State, parts: tuple[int, int], unit: int) -> Rows:
    """Rounds from what every node keeps, until nothing changes."""
    top, bottom = parts
    kept = dict.fromkeys(state.digraph, nearest(unit * (bottom - top), bottom))
    rank, before = kept, None
    while rank != before:
        before, new = rank, Counter(kept)
        for a, b in state.digraph.edges():
            new[b] += nearest(before[a] * top, state.digraph.out_degree(a) * bottom)
        rank = dict(new)
    return rows(rank.items())


def label_propagation(state: State, rounds: int) -> Rows:
    graph = state.simple
    label = {node: node for node in graph}
    for _ in range(rounds):
        votes = {node: Counter([label[node], *(label[o] for o in graph[node])]) for node in graph}
        label = {node: min(v, key=lambda one: (-v[one], one)) for node, v in votes.items()}
    return rows(label.items())


def degree(state: State) -> Rows:
    g = state.digraph
    return rows((node, g.degree(node), g.in_degree(node), g.out_degree(node)) for node in g)


def k_core(state: State, k: int) -> Rows:
    return rows((node,) for node in nx.k_core(state.simple, k))


def triangles(state: State) -> Rows:
    cliques = nx.enumerate_all_cliques(state.simple)
    return rows(tuple(sorted(c)) for c in cliques if len(c) == 3)


def clustering(state: State) -> Rows:
    g = state.simple
    around, share = nx.triangles(g), nx.clustering(g)
    return rows((node, g.degree(node), around[node], round(share[node], 12)) for node in g)


def levels(state: State) -> Rows:
    graph = nx.DiGraph(state.digraph)
    cyclic = {a for a in graph if any(a in nx.descendants(graph, b) or a == b for b in graph.successors(a))}
    behind = cyclic.union(*(nx.descendants(graph, node) for node in cyclic)) if cyclic else set()
    graph.remove_nodes_from(behind)
    return rows((node, i) for i, level in enumerate(nx.topological_generations(graph)) for node in level)


def spanning_forest(state: State) -> Rows:
    """Kruskal, in the order (weight, smaller end, larger end)."""
    edges = sorted((w, min(a, b), max(a, b)) for a, _, b, w in state.edges if a != b)
    tree = {node: node for node in state.digraph}

    def root(node: Node) -> Node:
        while tree[node] != node:
            node = tree[node]
        return node

    found = []
    for w, a, b in edges:
        if root(a) != root(b):
            tree[root(a)] = root(b)
            found.append((a, b, w))
    return rows(found)


def rpq(state: State, expression: str, from_sources: bool = False) -> Rows:
    """By relations: a letter is a set of pairs, a sequence composes them, a repeat composes until nothing is new."""
    graph = state.with_sources if from_sources else state.digraph
    same = {(n, n) for n in graph}
    pairs = _relation(au.parse(expression), state.edges, same)
    return rows(p for p in pairs if not from_sources or p[0] in state.sources)


def _relation(tree: au.Tree, edges: Iterable[Edge], same: set[tuple[Node, Node]]) -> set[tuple[Node, Node]]:
    if isinstance(tree, au.Letter):
        there = {(a, b) for a, label, b, _ in edges if tree.label in (None, label)}
        return {(b, a) for a, b in there} if tree.back else there
    if isinstance(tree, au.Except):
        there = {(a, b) for a, label, b, _ in edges if label not in tree.labels}
        return {(b, a) for a, b in there} if tree.back else there
    if isinstance(tree, au.Choice):
        return set().union(*(_relation(part, edges, same) for part in tree.parts))
    if isinstance(tree, au.Sequence):
        found = same
        for part in tree.parts:
            found = _composed(found, _relation(part, edges, same))
        return found
    once, found = _relation(tree.part, edges, same), same
    for _ in range(tree.least):
        found = _composed(found, once)
    more = tree.most - tree.least if tree.most is not None else len(same) + 1
    for _ in range(more):
        found = found | _composed(found, once)
    return found


def _composed(first: set[tuple[Node, Node]], second: set[tuple[Node, Node]]) -> set[tuple[Node, Node]]:
    after: dict[Node, list[Node]] = defaultdict(list)
    for a, b in second:
        after[a].append(b)
    return {(a, c) for a, b in first for c in after[b]}
