"""Seeded graphs and streams of changes: the inputs that the specification's measured.md describes.

| name | what | nodes | edges |
|---|---|---|---|
| a | uniform random, directed | 100,000 | 500,000 |
| b | uniform random, directed | 1,000,000 | 5,000,000 |
| c | R-MAT (0.57, 0.19, 0.19, 0.05), 2^17 x 8 edges drawn | 131,072, of which 77,537 have edges | 999,540 |
| cnr | the web graph cnr-2000, without self-loops; needs the file (see `real`) | 325,557 | 3.1 million |
| tiny | uniform, for smoke runs | 300 | 1,000 |

No self-loops, no edge twice. A change replaces a random edge by a random new one, so the number of edges stays the
same. New edges of graph c are drawn by R-MAT too: uniform ones would wear its hubs down. New edges of cnr go from the
source of a random edge to the target of another, for the same reason.

Inputs are made by a process of their own and kept in `.cache/benchmarks`, because generating them needs several times
the memory that they have, and would be what the benchmark's peak memory shows.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

CACHE = Path(__file__).resolve().parent.parent / ".cache" / "benchmarks"
VERSION = 2
"""Part of the cached files' names: raise it when a generator changes."""
CHANGES = 60_000
"""Changes that are made ready with every graph."""
RMAT = (0.57, 0.19, 0.19, 0.05)
UNIFORM = {"a": (100_000, 500_000, 7), "b": (1_000_000, 5_000_000, 8), "tiny": (300, 1_000, 9)}
NAMES = ("a", "b", "c", "cnr", "tiny")


@dataclass(frozen=True)
class Stream:
    """Changes in order: row `old[i]` goes, row `new[i]` comes; both stand at `slot[i]` of the table's first rows."""

    slot: Ints
    old: Ints
    new: Ints

    def after(self, rows: Ints, changes: int) -> Ints:
        """The rows once the first `changes` changes have happened."""
        result = rows.copy()
        for i in range(changes):  # in order: a slot may change more than once
            result[self.slot[i]] = self.new[i]
        return result


@dataclass(frozen=True)
class Graph:
    """A directed graph: `edges` has shape (edges, 2), the columns contiguous: giving them away copies nothing."""

    name: str
    nodes: int
    edges: Ints
    stream: Stream


def load(name: str) -> Graph:
    """The graph of that name, from the cache or made now."""
    path = CACHE / f"graph-{name}-{VERSION}.npz"
    if not path.exists():
        subprocess.run([sys.executable, __file__, name], check=True)
    with np.load(path) as found:
        stream = Stream(found["slot"], found["old"], found["new"])
        return Graph(name, int(found["nodes"]), found["edges"], stream)


def generate(name: str) -> Graph:
    """Make a graph and its changes.

    >>> tiny = generate("tiny")
    >>> tiny.nodes, tiny.edges.shape, len(np.unique(tiny.edges, axis=0))
    (300, (1000, 2), 1000)
    >>> bool((tiny.edges[:, 0] != tiny.edges[:, 1]).all())
    True
    """
    if name == "c":
        return _power_law(name, scale=17, factor=8, seed=10)
    if name == "cnr":
        return _web(name, seed=11)
    nodes, edges, seed = UNIFORM[name]
    rng = np.random.default_rng(seed)
    codes = _uniform(nodes, edges + min(CHANGES, edges), rng)
    return _with_changes(name, nodes, codes, edges, rng)


def _uniform(nodes: int, count: int, rng: np.random.Generator) -> Ints:
    """`count` different edges, as src * nodes + dst, in random order."""
    codes = np.empty(0, dtype=np.int64)
    while len(codes) < count:
        more = rng.integers(0, nodes, size=(2, int((count - len(codes)) * 1.05) + 100))
        codes = np.unique(np.concatenate([codes, _codes(more[0], more[1], nodes)]))
    rng.shuffle(codes)
    return codes[:count]


def _power_law(name: str, scale: int, factor: int, seed: int) -> Graph:
    rng = np.random.default_rng(seed)
    nodes = 1 << scale
    first = np.unique(_rmat(scale, factor * nodes, rng))
    later = np.setdiff1d(_rmat(scale, 2 * CHANGES, rng), first)
    rng.shuffle(first)
    rng.shuffle(later)
    return _with_changes(name, nodes, np.concatenate([first, later]), len(first), rng)


def _web(name: str, seed: int) -> Graph:
    import real

    edges = real.web()
    if edges is None:
        raise SystemExit(f"cnr-2000 is not in {real.DATA}: set EVERVIEW_DATA")
    rng = np.random.default_rng(seed)
    nodes = int(edges.max()) + 1
    first = np.unique(_codes(edges[:, 0], edges[:, 1], nodes))
    ends = rng.integers(0, len(edges), size=(2, 2 * CHANGES))
    later = np.setdiff1d(_codes(edges[ends[0], 0], edges[ends[1], 1], nodes), first)
    rng.shuffle(first)
    rng.shuffle(later)
    return _with_changes(name, nodes, np.concatenate([first, later]), len(first), rng)


def _rmat(scale: int, count: int, rng: np.random.Generator) -> Ints:
    """Edges that fall, bit by bit, into a quarter of the adjacency matrix, the first quarter most likely."""
    a, b, c, _ = RMAT
    src, dst = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    for _bit in range(scale):
        dice = rng.random(count)
        src = 2 * src + (dice >= a + b)
        dst = 2 * dst + (((dice >= a) & (dice < a + b)) | (dice >= a + b + c))
    return _codes(src, dst, 1 << scale)


def _codes(src: Ints, dst: Ints, nodes: int) -> Ints:
    other = src != dst
    return src[other] * nodes + dst[other]


def _with_changes(name: str, nodes: int, codes: Ints, count: int, rng: np.random.Generator) -> Graph:
    rows = np.stack([codes // nodes, codes % nodes], axis=1)
    return Graph(name, nodes, rows[:count], replacing(rows[:count], rows[count:][:CHANGES], rng))


def replacing(rows: Ints, new: Ints, rng: np.random.Generator) -> Stream:
    """Changes that put the rows of `new`, one after the other, at random places of `rows`.

    >>> s = replacing(np.array([[1, 1], [2, 2]]), np.array([[3, 3], [4, 4], [5, 5]]), np.random.default_rng(1))
    >>> s.slot.tolist(), s.old.tolist()
    ([0, 1, 1], [[1, 1], [2, 2], [4, 4]])
    """
    slot = rng.integers(0, len(rows), size=len(new))
    old = rows[slot]
    holds: dict[int, int] = {}
    for i, at in enumerate(slot.tolist()):
        if at in holds:
            old[i] = new[holds[at]]
        holds[at] = i
    return Stream(slot, old, new)


def save(graph: Graph) -> None:
    """Put a graph into the cache; readers never see half a file."""
    CACHE.mkdir(parents=True, exist_ok=True)
    path = CACHE / f"graph-{graph.name}-{VERSION}.npz"
    partial = path.with_suffix(".partial.npz")
    s = graph.stream
    np.savez(partial, nodes=graph.nodes, edges=np.asfortranarray(graph.edges), slot=s.slot, old=s.old, new=s.new)
    partial.rename(path)


if __name__ == "__main__":
    for wanted in sys.argv[1:]:
        save(generate(wanted))
