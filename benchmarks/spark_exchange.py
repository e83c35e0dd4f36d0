"""Three ways for two tasks on Spark to exchange rows: directly (`everview.spark.transport.exchange`, within a barrier
stage), through Spark's shuffle, and through the driver.

    python benchmarks/spark_exchange.py [--rows 10000,1000000,10000000]

Each of two tasks has half of the rows (four words each) and gives half of those to the other. For each way: what one
more exchange costs (the difference between jobs of many and of few exchanges, by their number), and what a job
costs before it exchanges anything. Wall-clock seconds, medians of three jobs. Blobs of words travel, not rows: Python
pickles nothing row by row.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from everview.spark import local_session
from everview.spark.transport.exchange import meet
from everview.spark.transport.handshake import new_secret

TASKS, WORDS = 2, 4


def blobs(rows: int) -> list[tuple[int, bytes]]:
    """What a task has for each task: (whose, words)."""
    part = np.arange(rows * WORDS // TASKS // TASKS, dtype=np.int64).tobytes()
    return [(to, part) for to in range(TASKS)]


def direct(spark: Any, rows: int, rounds: int) -> None:
    secret = new_secret()

    def task(partition: Iterable[int]) -> Iterator[int]:
        from pyspark import BarrierTaskContext

        for _ in partition:
            pass
        context = BarrierTaskContext.get()
        mesh = meet(context.partitionId(), secret, context.allGather, "127.0.0.1", TASKS, {})
        parcels = [(to, 0, np.frombuffer(data, dtype=np.int64)) for to, data in blobs(rows)]
        for _ in range(rounds):
            parcels = [(i, 0, words) for i, (_, _, words) in enumerate(mesh.swap(parcels, 0)[0])]
        mesh.close()
        yield sum(len(words) for *_, words in parcels)

    check(spark.sparkContext.parallelize(range(TASKS), TASKS).barrier().mapPartitions(task).collect(), rows)


def shuffle(spark: Any, rows: int, rounds: int) -> None:
    def again(partition: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
        return ((i, data) for i, (_, data) in enumerate(partition))

    rdd = spark.sparkContext.parallelize(range(TASKS), TASKS).flatMap(lambda _: blobs(rows))
    for _ in range(rounds):
        rdd = rdd.partitionBy(TASKS, int).mapPartitions(again)
    check(rdd.mapPartitions(lambda p: [sum(len(data) // 8 for _, data in p)]).collect(), rows)


def driver(spark: Any, rows: int, rounds: int) -> None:
    context = spark.sparkContext
    held = [blobs(rows) for _ in range(TASKS)]
    for _ in range(rounds):
        inboxes = [[(i, blob[1]) for i, blob in enumerate(h[to] for h in held)] for to in range(TASKS)]
        held = context.parallelize(inboxes, TASKS).map(lambda inbox: inbox).collect()
    check([sum(len(data) // 8 for _, data in h) for h in held], rows)


def check(words: list[int], rows: int) -> None:
    assert sum(words) == rows * WORDS, (words, rows)


def median(what: Callable[[], Any], times: int = 3) -> float:
    found = []
    for _ in range(times):
        start = time.perf_counter()
        what()
        found.append(time.perf_counter() - start)
    return statistics.median(found)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--rows", default="10000,1000000,10000000")
    given = options.parse_args()
    spark = local_session("local[2]", **{"spark.driver.memory": "3g", "spark.driver.maxResultSize": "0"})
    result: dict[str, Any] = {"benchmark": "spark_exchange", "load average": os.getloadavg()[0], "rows": {}}
    for way in (direct, shuffle, driver):
        way(spark, 1000, 1)
    for rows in map(int, given.rows.split(",")):
        many = 10 if rows <= 1_000_000 else 3
        found: dict[str, Any] = {}
        for way in (direct, shuffle, driver):
            if way is driver and rows > 1_000_000:
                continue
            few, more = median(lambda: way(spark, rows, 1)), median(lambda: way(spark, rows, 1 + many))  # noqa: B023
            found[way.__name__] = {"one exchange, with its job": few, "each further one": (more - few) / many}
        result["rows"][rows] = found
    result["load average at the end"] = os.getloadavg()[0]
    print(json.dumps(result, indent=2))
    spark.stop()


if __name__ == "__main__":
    main()
