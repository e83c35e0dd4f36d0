"""The same answers from scratch: what a slide would cost without differences, and what every answer is checked against.

SciPy finds the components where it is installed; else Tarjan's algorithm in Python does, which is much slower.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from everview.demo.mentions.data import TAGS, Ints, Mentions
from everview.demo.mentions.program import Program


@dataclass(frozen=True)
class Answer:
    """Who is in which component, and each component's favourite tag with its number of mentions."""

    member: dict[int, int]
    favourite: dict[int, tuple[str, int]]


def maintained(program: Program) -> Answer:
    """What the views say now."""
    favourite = {component: (tag, n) for component, tag, n in program.favourite.rows()}
    return Answer(dict(program.member.rows()), favourite)


def recompute(mentions: Mentions) -> Answer:
    """The answer for these mentions; components are named by their smallest member."""
    if not len(mentions):
        return Answer({}, {})
    nodes, ends = np.unique(np.concatenate([mentions.src, mentions.dst]), return_inverse=True)
    src, dst = ends[: len(mentions)], ends[len(mentions) :]
    label = _strong(src, dst, len(nodes))
    name = np.full(label.max() + 1, nodes.max())
    np.minimum.at(name, label, nodes)
    large = np.bincount(label)[label] > 1
    member = dict(zip(nodes[large].tolist(), name[label[large]].tolist(), strict=True))
    inside = (label[src] == label[dst]) & large[src]
    return Answer(member, _favourites(name[label[src[inside]]], mentions.tag[inside]))


def _favourites(component: Ints, tag: Ints) -> dict[int, tuple[str, int]]:
    pairs, uses = np.unique(component * len(TAGS) + tag, return_counts=True)
    best: dict[int, tuple[str, int]] = {}
    for pair, n in zip(pairs.tolist(), uses.tolist(), strict=True):  # in the order of components, then of tags
        at, position = divmod(pair, len(TAGS))
        if at not in best or n > best[at][1]:
            best[at] = (TAGS[position], n)
    return best


def method() -> str:
    """What finds the components."""
    try:
        import scipy.sparse.csgraph  # noqa: F401
    except ImportError:
        return "Python"
    return "SciPy"


def _strong(src: Ints, dst: Ints, nodes: int) -> Ints:
    """A number for every node, equal for nodes that reach each other."""
    try:
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components
    except ImportError:
        return tarjan(src, dst, nodes)
    graph = coo_array((np.ones(len(src), dtype=np.int32), (src, dst)), shape=(nodes, nodes)).tocsr()
    label: Ints = connected_components(graph, directed=True, connection="strong")[1]
    return label


def tarjan(src: Ints, dst: Ints, nodes: int) -> Ints:
    """Tarjan's algorithm without recursion.

    >>> tarjan(np.array([0, 1, 1]), np.array([1, 0, 2]), 3).tolist()
    [1, 1, 0]
    """
    after: list[list[int]] = [[] for _ in range(nodes)]
    for a, b in zip(src.tolist(), dst.tolist(), strict=True):
        after[a].append(b)
    number, low, label = [0] * nodes, [0] * nodes, [-1] * nodes
    stack: list[int] = []
    seen = found = 0
    for root in range(nodes):
        path = [] if number[root] else [root]
        while path:
            node = path[-1]
            if not number[node]:
                seen += 1
                number[node] = low[node] = seen
                stack.append(node)
            if after[node]:
                other = after[node].pop()
                if not number[other]:
                    path.append(other)
                elif label[other] < 0:
                    low[node] = min(low[node], number[other])
                continue
            path.pop()
            if path:
                low[path[-1]] = min(low[path[-1]], low[node])
            if low[node] == number[node]:
                while label[node] < 0:
                    label[stack.pop()] = found
                found += 1
    return np.array(label, dtype=np.int64)
