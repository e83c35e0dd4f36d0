"""The story `everview demo` tells: connected components of a graph that will not hold still.

A random graph is loaded, its components are computed once by label propagation (every node takes the smallest label
among its own and its neighbours', until nothing changes), and then edges come and go, one transaction each. What a
transaction costs stands next to what computing everything again costs, with Everview and, where installed, with SciPy.
At the end the maintained answer is compared with a recomputation. Then the same program runs on Spark.
"""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.live import Live
from rich.table import Table

import everview as ev
from everview import col
from everview.collection import Collection

Labels = dict[int, int]


def components(edge: Collection) -> Collection:
    """(node, label) for every node that has an edge; nodes are connected exactly if their labels are equal."""
    both = edge.select(src=edge.src, dst=edge.dst).union_all(edge.select(src=edge.dst, dst=edge.src))
    start = both.select(node=both.src, label=both.src).distinct()

    def spread(label: Collection) -> Collection:
        hop = label.join(both, label.node == both.src).select(node=both.dst, label=label.label)
        return hop.union_all(start).group_by("node").agg(label=col.label.min())

    return start.iterate(spread)


def recompute(edges: NDArray[np.int64]) -> Labels:
    """The same labels from scratch, by union-find in plain Python: slow, short and obviously right."""
    parent: dict[int, int] = {}

    def find(node: int) -> int:
        while parent[node] != node:
            parent[node] = node = parent[parent[node]]
        return node

    for a, b in edges.tolist():
        parent.setdefault(a, a)
        parent.setdefault(b, b)
        low, high = sorted((find(a), find(b)))
        parent[high] = low
    return {node: find(node) for node in parent}


def scipy_seconds(edges: NDArray[np.int64], nodes: int) -> float | None:
    """Seconds SciPy takes for all components, graph building included; None where it is not installed."""
    try:
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components
    except ImportError:
        return None
    started = time.perf_counter()
    graph = coo_array((np.ones(len(edges), dtype=np.int8), (edges[:, 0], edges[:, 1])), shape=(nodes, nodes))
    connected_components(graph.tocsr(), directed=False)
    return time.perf_counter() - started


@dataclass
class Story:
    """What has been measured so far, and how it is shown."""

    load_seconds: float
    scipy: float | None
    groups: int
    latencies: list[float] = field(default_factory=list)

    def table(self) -> Table:
        median = statistics.median(self.latencies) if self.latencies else 0.0
        table = Table(title="connected components of a changing graph", show_header=False, min_width=72)
        table.add_row("components now", f"{self.groups:,}")
        table.add_row("edges replaced, one transaction each", f"{len(self.latencies):,}")
        table.add_row("load and first evaluation", f"{self.load_seconds:.2f} s")
        if median:
            table.add_row("[bold]median transaction, answer complete[/bold]", f"[bold]{median * 1e6:,.0f} µs[/bold]")
            table.add_row("times faster than evaluating again", f"{self.load_seconds / median:,.0f}")
            if self.scipy is not None:
                table.add_row("times faster than SciPy from scratch", f"{self.scipy / median:,.0f}")
        return table


def run(*, nodes: int, edges: int, seconds: float, seed: int, spark: bool = True) -> None:
    """Tell the story on the terminal: embedded, then the same program on Spark."""
    console = Console()
    console.print(f"A random graph: {nodes:,} nodes, {edges:,} edges.")
    graph = np.random.default_rng(seed).integers(0, nodes, size=(edges, 2), dtype=np.int64)
    console.print("\n[bold]In this process[/bold]")
    with ev.connect() as db:
        tell(console, db, graph.copy(), nodes, seconds, seed)
    if spark:
        on_spark(console, graph, nodes, seconds, seed)


def on_spark(console: Console, graph: NDArray[np.int64], nodes: int, seconds: float, seed: int) -> None:
    """The same program, its state in shards in a directory, every step a Spark job."""
    try:
        from everview.spark.local import local_session

        console.print("\n[bold]The same program on Spark[/bold] (local\\[2]; starting it takes some seconds)")
        session = local_session("local[2]", app="everview-demo")
    except ev.EverviewError as error:
        console.print(f"left out: {error}")
        return
    try:
        with tempfile.TemporaryDirectory(prefix="everview-demo-") as state:
            with ev.connect(session, state=state, shards=2) as db:
                tell(console, db, graph.copy(), nodes, seconds, seed)
            with ev.connect(state, read_only=True) as reader:
                groups = reader["count"].rows()[0][0]
                console.print(f"Read again from its directory, without Spark: {groups:,} components.")
    finally:
        session.stop()


def tell(
    console: Console, db: ev.Session, graph: NDArray[np.int64], nodes: int, seconds: float, seed: int
) -> None:
    """Load a graph, change it for some seconds, and check the answer at the end."""
    edge = db.table("edge", {"src": int, "dst": int})
    labels = components(edge)
    component = db.view("component", labels)
    count = db.view("count", labels.select(label=col.label).distinct().agg(n=ev.count()))
    started = time.perf_counter()
    edge.insert({"src": graph[:, 0], "dst": graph[:, 1]})
    story = Story(time.perf_counter() - started, scipy_seconds(graph, nodes), count.rows()[0][0])
    dice = random.Random(seed)
    shown = 0.0
    with Live(story.table(), console=console, refresh_per_second=8) as live:
        deadline = time.perf_counter() + seconds
        while (now := time.perf_counter()) < deadline:
            _replace_one_edge(db, edge, graph, nodes, dice, story)
            if now - shown > 0.2:
                shown, story.groups = now, count.rows()[0][0]
                live.update(story.table())
        story.groups = count.rows()[0][0]
        live.update(story.table())
    console.print("\nChecking the maintained answer against one computed from scratch ...", end=" ")
    same = dict(component.rows()) == recompute(graph)
    console.print("[green]equal[/green]." if same else "[red]NOT EQUAL: please report this.[/red]")


def _replace_one_edge(
    db: ev.Session, edge: ev.Table, graph: NDArray[np.int64], nodes: int, dice: random.Random, story: Story
) -> None:
    at = dice.randrange(len(graph))
    old = (int(graph[at, 0]), int(graph[at, 1]))
    new = (dice.randrange(nodes), dice.randrange(nodes))
    started = time.perf_counter()
    with db.transaction():
        edge.delete([old])
        edge.insert([new])
    story.latencies.append(time.perf_counter() - started)
    graph[at] = new
