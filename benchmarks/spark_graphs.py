"""Graph algorithms on stock Spark, from scratch: what a user of DataFrames writes today, to stand next to the views.

Rounds of joins and groupings, each ended by `localCheckpoint`, without which the plan doubles with every round. Where
only some rows changed in a round, only those go on (a frontier). Strongly connected components are Orzan's colouring:
the smallest label that comes to a node along the edges is its colour; who reaches the colour's own node backwards
within the colour is a component. Answers are checked by whoever calls.

    python benchmarks/spark_graphs.py          # all of them on a tiny graph, against SciPy

Times are the JVM's CPU seconds and wall-clock seconds, in a session with Everview's settings (two shuffle partitions
for two cores: stock ones, 200, would be slower), rows handed over as an Arrow table.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def recompute(algorithm: Callable[..., Any], edges: Ints, *parameters: Any) -> tuple[dict[str, float], Ints]:
    """Seconds and answer, as sorted rows, of one evaluation."""
    spark = _session()
    cpu, wall = _jvm_cpu_s(spark), time.perf_counter()
    answer = algorithm(spark, _edges(spark, edges), *parameters).toArrow()
    seconds = {"cpu_s": _jvm_cpu_s(spark) - cpu, "wall_s": time.perf_counter() - wall}
    spark.catalog.clearCache()
    rows = np.stack([column.to_numpy() for column in answer.columns], axis=1)
    return seconds, rows[np.lexsort(rows.T[::-1])]


@cache
def _session() -> Any:
    from everview.spark import local_session

    spark = local_session("local[2]", app="stock", **{"spark.driver.memory": "3g"})
    spark.range(1000).groupBy("id").count().collect()  # the first job is not anybody's
    return spark


def _jvm_cpu_s(spark: Any) -> float:
    """CPU seconds of Spark's JVM so far; its own bean for that is closed to reflection."""
    process = spark._jvm.java.lang.ProcessHandle.current().pid()
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _edges(spark: Any, edges: Ints) -> Any:
    import pyarrow as pa

    names = ("src", "dst", "weight")[: edges.shape[1]]
    frame = spark.createDataFrame(pa.table([np.ascontiguousarray(c) for c in edges.T], names=names))
    return frame.repartition("src").localCheckpoint()  # or every plan carries the rows themselves


def _nodes(edges: Any) -> Any:
    return edges.select("src").union(edges.select("dst")).distinct().toDF("node")


# --------------------------------------------------------------------------------------- paths


def reach(spark: Any, edges: Any, root: int) -> Any:
    """(node): what the root reaches."""
    reached = fresh = spark.createDataFrame([(root,)], "node long").localCheckpoint()
    while not fresh.isEmpty():
        step = fresh.join(edges, fresh.node == edges.src).select(edges.dst.alias("node")).distinct()
        fresh = step.join(reached, "node", "left_anti").localCheckpoint()
        reached = reached.union(fresh).localCheckpoint()
    return reached


def sssp(spark: Any, edges: Any, root: int) -> Any:
    """(node, cost): Bellman and Ford, walking on only from nodes that got nearer."""
    from pyspark.sql import functions as f

    costs = nearer = spark.createDataFrame([(root, 0)], "node long, cost long").localCheckpoint()
    while not nearer.isEmpty():
        longer = nearer.join(edges, nearer.node == edges.src)
        offers = longer.groupBy(edges.dst.alias("node")).agg(f.min(f.col("cost") + f.col("weight")).alias("offer"))
        known = offers.join(costs, "node", "left")
        better = known.where("cost IS NULL OR offer < cost")
        nearer = better.select("node", f.col("offer").alias("cost")).localCheckpoint()
        costs = costs.union(nearer).groupBy("node").agg(f.min("cost").alias("cost")).localCheckpoint()
    return costs


def khop(spark: Any, edges: Any, sources: Ints, most: int) -> Any:
    """(node, hops) up to so many hops from the nearest source."""
    from pyspark.sql import functions as f

    found = fresh = spark.createDataFrame([(int(n), 0) for n in sources], "node long, hops long").localCheckpoint()
    for hops in range(1, most + 1):
        step = fresh.join(edges, fresh.node == edges.src).select(edges.dst.alias("node")).distinct()
        fresh = step.join(found, "node", "left_anti").withColumn("hops", f.lit(hops).cast("long")).localCheckpoint()
        found = found.union(fresh)
    return found


# --------------------------------------------------------------------------------- components


def wcc(spark: Any, edges: Any) -> Any:
    """(node, component): the smallest node of each weakly connected component."""
    both = edges.select("src", "dst").union(edges.select("dst", "src")).repartition("src").cache()
    return _smallest(both, _labelled(_nodes(edges)))


def scc(spark: Any, edges: Any) -> Any:
    """(src, dst): the edges inside strongly connected components."""
    from pyspark.sql import functions as f

    left, inside = edges, None
    while not (left := _trimmed(left)).isEmpty():
        colour = _smallest(left, _labelled(_nodes(left)))
        painted = _painted(left, colour).where("near = far").select("src", "dst").localCheckpoint()
        back = painted.toDF("dst", "src").select("src", "dst").join(colour.toDF("src", "colour"), "src").cache()
        fresh = reached = colour.where("node = label").localCheckpoint()
        while not fresh.isEmpty():
            step = fresh.join(back, (fresh.node == back.src) & (fresh.label == back.colour))
            step = step.select(f.col("dst").alias("node"), "label").distinct()
            fresh = step.join(reached, ["node", "label"], "left_anti").localCheckpoint()
            reached = reached.union(fresh).localCheckpoint()
        found = _painted(painted, reached).where("near = far").select("src", "dst").localCheckpoint()
        inside = found if inside is None else inside.union(found).localCheckpoint()
        done = reached.select("node")
        left = left.join(done.toDF("src"), "src", "left_anti").join(done.toDF("dst"), "dst", "left_anti")
        left = left.select("src", "dst").localCheckpoint()
    return spark.createDataFrame([], "src long, dst long") if inside is None else inside


def _labelled(nodes: Any) -> Any:
    from pyspark.sql import functions as f

    return nodes.select("node", f.col("node").alias("label")).localCheckpoint()


def _smallest(edges: Any, labels: Any) -> Any:
    """(node, label): the smallest label that comes to each node along the edges; only news go on."""
    from pyspark.sql import functions as f

    fresh = labels
    while not fresh.isEmpty():
        heard = fresh.join(edges, fresh.node == edges.src).groupBy(edges.dst.alias("node"))
        offers = heard.agg(f.min("label").alias("offer")).join(labels, "node").where("offer < label")
        fresh = offers.select("node", f.col("offer").alias("label")).localCheckpoint()
        labels = labels.union(fresh).groupBy("node").agg(f.min("label").alias("label")).localCheckpoint()
    return labels


def _painted(edges: Any, colour: Any) -> Any:
    """(src, dst, near, far): edges with the colours of their ends."""
    return edges.join(colour.toDF("src", "near"), "src").join(colour.toDF("dst", "far"), "dst")


def _trimmed(edges: Any) -> Any:
    """Without edges from nodes where none ends, or to nodes where none begins, until there are no such."""
    count = edges.count()
    while True:
        kept = edges.join(edges.select("dst").distinct().toDF("src"), "src", "left_semi")
        kept = kept.join(edges.select("src").distinct().toDF("dst"), "dst", "left_semi")
        edges = kept.select("src", "dst").localCheckpoint()
        if count == (count := edges.count()):
            return edges


# ------------------------------------------------------------------------------------- ranking


def pagerank(spark: Any, edges: Any, rounds: int, unit: int) -> Any:
    """(node, rank) as `Graph.pagerank` defines it, damping 0.85."""
    from pyspark.sql import functions as f

    fan = edges.groupBy("src").agg(f.count("*").alias("out"))
    wide = edges.join(fan, "src").repartition("src").cache()
    kept = _nodes(edges).select("node", f.lit((unit * 3 + 10) // 20).cast("long").alias("rank")).cache()
    ranks = kept.select("node", f.lit(unit).cast("long").alias("rank"))
    for _ in range(rounds):
        given = ranks.join(wide, ranks.node == wide.src).select(
            f.col("dst").alias("node"), f.expr("(rank * 17 + out * 10) div (out * 20)").alias("rank")
        )
        ranks = given.union(kept).groupBy("node").agg(f.sum("rank").alias("rank")).localCheckpoint()
    return ranks


def main() -> None:
    """Check all of them on a tiny graph."""
    import graphs
    import peers
    from sssp import weighted

    graph = graphs.load("tiny")
    edges, nodes, few = graph.edges, graph.nodes, graph.edges[:310]
    sources = np.arange(0, nodes, 60)
    wanted: list[tuple[Callable[..., Any], Ints, tuple[Any, ...], Ints]] = [
        (reach, edges, (0,), peers.reachable(edges, nodes, 0)),
        (sssp, weighted(edges), (0,), peers.weighted_distances(weighted(edges), nodes, 0)),
        (khop, edges, (sources, 2), peers.near(edges, nodes, sources, 2)),
        (wcc, few, (), peers.components(few, nodes)),
        (scc, edges, (), peers.inside_components(edges, nodes)),
        (scc, few, (), peers.inside_components(few, nodes)),
        (pagerank, edges, (10, 1000), peers.pagerank(edges, nodes, 10, 1000)),
    ]
    for algorithm, given, parameters, expected in wanted:
        seconds, rows = recompute(algorithm, given, *parameters)
        verdict = "right" if np.array_equal(rows, expected.reshape(len(expected), -1)) else "WRONG"
        print(f"{algorithm.__name__:9} {len(rows):5} rows, {verdict}, {seconds['wall_s']:.1f} s")
    _session().stop()


if __name__ == "__main__":
    main()
