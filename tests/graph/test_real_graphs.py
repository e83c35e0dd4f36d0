"""Real graphs at a few checkpoints, where the data is at hand."""

from __future__ import annotations

import gzip
import lzma
import os
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import coo_array, csgraph

import everview as ev
from everview.graph import Graph

DATA = Path(os.environ.get("EVERVIEW_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))

pytestmark = pytest.mark.slow


def data(name: str) -> Path:
    path = DATA / name
    if not path.exists():
        pytest.skip(f"{path} is not here")
    return path


def labels(rows: list[tuple[int, int]], n: int) -> np.ndarray:
    """The component of each node, -1 for a number that is no node."""
    found = np.full(n, -1)
    nodes, components = np.array(rows).T
    found[nodes] = components
    return found


def expected(edges: np.ndarray, n: int, connection: str) -> np.ndarray:
    """The smallest node of each node's component, as scipy sees it."""
    graph = coo_array((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), shape=(n, n)).tocsr()
    _, component = csgraph.connected_components(graph, directed=True, connection=connection)
    least = np.full(component.max() + 1, n)
    np.minimum.at(least, component, np.arange(n))
    found = np.full(n, -1)
    ends = np.unique(edges)
    found[ends] = least[component[ends]]
    return found


def test_mentions_slide_through_a_window() -> None:
    with gzip.open(data("sx-mathoverflow.txt.gz")) as file:
        rows = np.loadtxt(file, dtype=np.int64)
    rows = rows[np.argsort(rows[:, 2], kind="stable")][:, :2]
    n, window, slide = int(rows.max()) + 1, 100_000, 20_000
    with ev.connect() as db:
        edge = db.table("edge", {"src": int, "dst": int})
        g = Graph(edge)
        wcc, scc = db.view("wcc", g.wcc()), db.view("scc", g.scc())
        core, degree = db.view("core", g.k_core(5)), db.view("degree", g.out_degree())
        edge.insert({"src": rows[:window, 0], "dst": rows[:window, 1]})
        at = 0
        for start in (0, slide, 2 * slide, slide):  # forwards, and back
            at = _slide(db, edge, rows, at, start, window)
            held = rows[start : start + window]
            assert np.array_equal(labels(wcc.rows(), n), expected(held, n, "weak"))
            assert np.array_equal(labels(scc.rows(), n), expected(held, n, "strong"))
            assert dict(degree.rows()) == {**dict.fromkeys(np.unique(held).tolist(), 0), **Counter(held[:, 0].tolist())}
            assert {node for (node,) in core.rows()} == _core(held, 5)


def _slide(db: ev.Session, edge: ev.Table, rows: np.ndarray, old: int, new: int, window: int) -> int:
    """Move the window from one start to another; gives the new one."""
    low, high = sorted((old, new))
    first, last = rows[low:high], rows[low + window : high + window]
    gone, come = (first, last) if new > old else (last, first)
    if old != new:
        with db.transaction():
            edge.delete([tuple(r) for r in gone.tolist()])
            edge.insert({"src": come[:, 0], "dst": come[:, 1]})
    return new


def _core(edges: np.ndarray, k: int) -> set[int]:
    import networkx as nx

    graph = nx.Graph()
    graph.add_edges_from(edges[edges[:, 0] != edges[:, 1]].tolist())
    return set(nx.k_core(graph, k))


def test_cnr_2000_has_the_components_it_was_shipped_with() -> None:
    with lzma.open(data("cnr-2000.txt.xz")) as file:
        edges = np.array(file.read().split(), dtype=np.int64).reshape(-1, 2)
    with lzma.open(data("cnr-2000.scc.xz")) as file:
        shipped = np.frombuffer(file.read(), dtype=">i4").astype(np.int64)
    n = len(shipped)
    least = np.full(shipped.max() + 1, n)
    np.minimum.at(least, shipped, np.arange(n))
    with ev.connect() as db:
        edge = db.table("edge", {"src": int, "dst": int})
        scc = db.view("scc", Graph(edge).scc())
        edge.insert({"src": edges[:, 0], "dst": edges[:, 1]})
        found = labels(scc.rows(), n)
        assert np.array_equal(found[found >= 0], least[shipped][found >= 0])
        assert (found < 0).sum() == n - len(np.unique(edges))

        gone = edges[:: len(edges) // 50]
        edge.delete([tuple(r) for r in gone.tolist()])
        left = np.delete(edges, np.arange(0, len(edges), len(edges) // 50), axis=0)
        assert np.array_equal(labels(scc.rows(), n), expected(left, n, "strong"))


def test_what_breaks_without_a_package_through_five_releases() -> None:
    with lzma.open(data("debian-deps.tsv.xz"), "rt") as file:
        changes = [line.rstrip("\n").split("\t") for line in file if "\tDepends\t" in line]
    asked = ["libwebp6", "libwebp7", "python3-six", "coreutils", "no such package"]
    needed_by: dict[str, Counter[str]] = defaultdict(Counter)
    with ev.connect() as db:
        dependency, package = db.table("dependency", {"src": str, "dst": str}), db.table("package", {"name": str})
        broken = db.view("broken", Graph(dependency, src="dst", dst="src").within(3, package), index_by="source")
        breaks = db.view("breaks", Graph(dependency, src="dst", dst="src").reach(package))
        package.insert([(name,) for name in asked])
        for step in "01234":
            now = [(src, dst, int(diff)) for at, diff, src, _, dst in changes if at == step]
            with db.transaction():
                dependency.delete([(src, dst) for src, dst, diff in now if diff < 0])
                dependency.insert([(src, dst) for src, dst, diff in now if diff > 0])
            for src, dst, diff in now:
                needed_by[dst][src] += diff
            every: set[str] = set()
            for name in asked:
                hops = _hops_back(needed_by, name)
                every |= set(hops)
                assert {(node, far) for _, node, far in broken.lookup(name)} == {i for i in hops.items() if i[1] <= 3}
            assert sorted(breaks.rows()) == sorted((node,) for node in every)


def _hops_back(needed_by: dict[str, Counter[str]], name: str) -> dict[str, int]:
    hops, todo = {name: 0}, [name]
    for node in todo:
        for other, n in needed_by[node].items():
            if n > 0 and other not in hops:
                hops[other] = hops[node] + 1
                todo.append(other)
    return hops
