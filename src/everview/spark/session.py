"""Sessions on Spark: `everview.connect(spark, state="directory")`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from everview.sharded import Cluster, ShardedSession
from everview.spark.cluster import SparkCluster
from everview.store.store import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkBackedSession(ShardedSession):
    """A session whose steps are Spark jobs and whose state is a directory."""

    def __init__(self, spark: SparkSession, state: str, *, shards: int | None = None, **options: Any) -> None:
        self._spark = spark
        if (spark.sparkContext.master or "").startswith("local"):
            spark.sparkContext.pythonExec = sys.executable  # workers on this machine need what this process has
        self._store = Store(state, shards=shards or max(2, spark.sparkContext.defaultParallelism))
        super().__init__(**options)

    def _make_cluster(self, merge_effort: int) -> Cluster:
        return SparkCluster(self._spark, self._store, self._interner, self._skeleton)
