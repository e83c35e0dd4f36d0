"""Steps on Spark, local[2]: a join with totals, two graph loops and triangles, next to stock Spark recomputing and to
an empty Structured Streaming micro-batch, all in one run.

    python benchmarks/spark_steps.py [--rows 1000000] [--nodes 100000] [--edges 500000]
        [--part join|wcc|reach|triangles|all]

Wall-clock seconds (what a user of Spark waits for; several processes work), medians of several steps. Steps that follow
each other share a Spark job, also if they come once a second; `each a job` is what a step costs that comes alone.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

import graphs
import numpy as np
import pyarrow as pa
import spark_graphs

import everview as ev
from everview import col
from everview.session.core import core_of
from everview.spark import local_session
from everview.spark.driver.idle_tasks import LINGER, LONGEST


def clock(what: Callable[[], Any]) -> float:
    start = time.perf_counter()
    what()
    return time.perf_counter() - start


def median(what: Callable[[], Any], times: int, pause: float = 0.0) -> float:
    """Seconds that something takes, with a pause before each time."""
    took = []
    for _ in range(times):
        time.sleep(pause)
        took.append(clock(what))
    return statistics.median(took)


def empty_micro_batch(spark: Any, folder: str) -> float:
    """Median duration of micro-batches that have one small file each and do nothing with it."""
    source = f"{folder}/in"
    os.makedirs(source)
    seen: list[int] = []
    query = (
        spark.readStream.schema("x INT").json(source).writeStream
        .foreachBatch(lambda frame, number: seen.append(number))
        .option("checkpointLocation", f"{folder}/checkpoint").start()
    )  # fmt: skip
    for i in range(8):
        with open(f"{source}/.{i}", "w") as file:
            file.write(f'{{"x": {i}}}\n')
        os.rename(f"{source}/.{i}", f"{source}/{i}.json")
        query.processAllAvailable()
    took = [p["durationMs"]["triggerExecution"] / 1e3 for p in query.recentProgress if "addBatch" in p["durationMs"]]
    query.stop()
    return statistics.median(took[len(took) // 3 :])


def join_totals(spark: Any, rows: int) -> dict[str, Any]:
    """Epochs of 1, 1,000 and 100,000 changes to (join of two tables, totals by group)."""
    random = np.random.default_rng(1)
    orders = {"customer": random.integers(0, rows, rows), "amount": random.integers(0, 1000, rows)}
    customers = {"id": np.arange(rows), "country": random.integers(0, 200, rows)}
    state = tempfile.mkdtemp(prefix="everview-")
    found: dict[str, Any] = {"rows": rows}
    with ev.connect(spark, state=state, shards=2) as db:
        o = db.table("orders", {"customer": int, "amount": int})
        c = db.table("customers", {"id": int, "country": int})
        joined = o.join(c, o.customer == c.id)
        db.view("revenue", joined.group_by("country").agg(total=col.amount.sum()))
        found["load"] = clock(lambda: (c.insert(customers), o.insert(orders)))
        for size in (1, 1000, 100_000):

            def change(size: int = size) -> None:
                o.insert({"customer": random.integers(0, rows, size), "amount": random.integers(0, 1000, size)})

            times = 7 if size < 100_000 else 3
            change()
            found[f"epoch of {size}"] = median(change, times)
            found[f"epoch of {size}, one a second"] = median(change, times, pause=1.0)
            core_of(db).runtime.cluster.linger(0.0)
            found[f"epoch of {size}, each a job"] = median(change, times, pause=1.0)
            core_of(db).runtime.cluster.linger(LINGER, LONGEST)
        total = sum(t for _, t in db["revenue"].rows())
        assert total == sum(a for _, a in o.rows()) if rows <= 10_000 else total > 0
    shutil.rmtree(state)
    path = tempfile.mkdtemp()
    import pandas as pd

    spark.createDataFrame(pd.DataFrame(orders)).write.parquet(f"{path}/o")
    spark.createDataFrame(pd.DataFrame(customers)).write.parquet(f"{path}/c")
    text = "SELECT country, sum(amount) FROM o JOIN c ON o.customer = c.id GROUP BY country"
    for name in ("o", "c"):
        spark.read.parquet(f"{path}/{name}").createOrReplaceTempView(name)
    found["stock Spark recompute"] = median(lambda: spark.sql(text).collect(), 3)
    shutil.rmtree(path)
    return found


def random_graph(nodes: int, edges: int) -> np.ndarray:
    return np.random.default_rng(2).integers(0, nodes, (2, edges))


def loop(spark: Any, kind: str, nodes: int, edges: int) -> dict[str, Any]:
    """Connected components or reachability: first evaluation, one edge, a thousand edges; next to iterated frames."""
    found: dict[str, Any] = {"nodes": nodes, "edges": edges}
    pairs = random_graph(nodes, edges)
    state = tempfile.mkdtemp(prefix="everview-")
    random = np.random.default_rng(3)
    with ev.connect(spark, state=state, shards=2) as db:
        e = db.table("edge", {"src": int, "dst": int})
        if kind == "wcc":
            both = e.select(a=e.src, b=e.dst).union_all(e.select(a=e.dst, b=e.src))
            start = both.select(node=both.a, label=both.a).distinct()

            def body(v: Any) -> Any:
                heard = v.join(both, v.node == both.a).select(node=both.b, label=v.label)
                return heard.union_all(start).group_by("node").agg(label=col.label.min())
        else:
            r = db.table("root", {"node": int})
            r.insert([(0,)])
            start = r.select(node=r.node)

            def body(v: Any) -> Any:
                return v.join(e, v.node == e.src).select(node=e.dst).union_all(start).distinct()

        db.view("v", start.iterate(body))
        found["first evaluation"] = clock(lambda: e.insert({"src": pairs[0], "dst": pairs[1]}))
        at = 0
        for size in (1, 1000):

            def change(size: int = size) -> None:
                nonlocal at
                new = random.integers(0, nodes, (2, size))
                with db.transaction():
                    e.delete({"src": pairs[0, at : at + size], "dst": pairs[1, at : at + size]})
                    e.insert({"src": new[0], "dst": new[1]})
                at += size

            change()
            found[f"change of {size}"] = median(change, 5)
        found["rows"] = len(db["v"])
    shutil.rmtree(state)
    algorithm, parameters = (spark_graphs.wcc, ()) if kind == "wcc" else (spark_graphs.reach, (0,))
    found["stock Spark recompute"] = spark_graphs.recompute(algorithm, pairs.T, *parameters)[0]["wall_s"]
    return found


TRIANGLES = "triangles(count()) :- edge(A, B), edge(B, C), edge(A, C)."


def triangles(spark: Any, edges: int) -> dict[str, Any]:
    """Triangles of the power-law graph c's first edges, counted: worst-case optimal, and join by join."""
    pairs = graphs.load("c").edges[:edges].T
    ways = {plan: kept_triangles(spark, plan, pairs) for plan in ("wco", "binary")}
    rows = spark.createDataFrame(pa.table({"src": pairs[0].copy(), "dst": pairs[1].copy()}))
    rows.localCheckpoint().createOrReplaceTempView("e")
    text = "SELECT count(*) FROM e a JOIN e b ON a.dst = b.src JOIN e c ON a.src = c.src AND b.dst = c.dst"
    assert {way["triangles"] for way in ways.values()} == {spark.sql(text).collect()[0][0]}
    stock = median(lambda: spark.sql(text).collect(), 3)
    return {"edges": edges, **ways, "stock Spark recompute": stock}


def kept_triangles(spark: Any, plan: Any, pairs: np.ndarray) -> dict[str, Any]:
    """First evaluation, one edge, a thousand edges."""
    state = tempfile.mkdtemp(prefix="everview-")
    with ev.connect(spark, state=state, shards=4) as db:
        e = db.table("edge", {"src": int, "dst": int})
        v = db.datalog(TRIANGLES, plan=plan).triangles
        found: dict[str, Any] = {"first evaluation": clock(lambda: e.insert({"src": pairs[0], "dst": pairs[1]}))}
        found |= {"triangles": v.rows()[0][0], "bytes of state": db.stats()["bytes"]}
        at = 0
        for size in (1, 1000):

            def change(size: int = size) -> None:
                nonlocal at
                e.delete({"src": pairs[0, at : at + size], "dst": pairs[1, at : at + size]})
                at += size

            change()
            found[f"change of {size}"] = median(change, 5)
    shutil.rmtree(state)
    return found


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--rows", type=int, default=1_000_000)
    options.add_argument("--nodes", type=int, default=100_000)
    options.add_argument("--edges", type=int, default=500_000)
    options.add_argument("--part", default="all")
    given = options.parse_args()
    spark = local_session("local[2]")
    result: dict[str, Any] = {"benchmark": "spark_steps", "load average": os.getloadavg()[0]}
    result["empty micro-batch"] = empty_micro_batch(spark, tempfile.mkdtemp())
    if given.part in ("all", "join"):
        result["join"] = join_totals(spark, given.rows)
    for kind in ("wcc", "reach"):
        if given.part in ("all", kind):
            result[kind] = loop(spark, kind, given.nodes, given.edges)
    if given.part in ("all", "triangles"):
        result["triangles"] = triangles(spark, given.edges)
    print(json.dumps(result, indent=2))
    spark.stop()


if __name__ == "__main__":
    main()
