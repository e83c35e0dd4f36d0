"""Graph algorithms as ordinary views.

`Graph` names the columns of a table or view that are the two ends of an edge. Every method returns an ordinary
collection, built with the public API alone: install it with `db.view`, join it, filter it, build on it. It is then kept
up to date as edges change.

    graph       Graph: which columns are what, the index in each direction
    labels      the smallest label that reaches a node: the pattern behind components
    paths       reach, bfs, sssp, k_hop, within, distance, shortest_path
    landmarks   distances of a few nodes as an index, for one-off queries
    components  wcc, scc, bipartite
    ranking     pagerank, label_propagation
    structure   degree, k_core, triangles, clustering, levels
    motifs      triangle, diamond, cliques, house, any small pattern
    spanning    minimum spanning forest
    automaton   regular expressions over edge labels, to deterministic automata
    rpq         regular path queries: the automaton walks the graph
    drawing     a picture of what a table or view of edges holds
"""

from everview.graph.drawing import Drawing, draw
from everview.graph.graph import Graph

__all__ = ["Drawing", "Graph", "draw"]
