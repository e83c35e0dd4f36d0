"""The imports from pipelines to Spark, a higher layer, made on first use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from everview.io.sink import Sink
    from everview.io.source import Source


def spark_on_this_machine(master: str, conf: Mapping[str, Any], log: Path) -> SparkSession:
    """Start Spark, and Python workers for the first step; the JVM's output goes to a file."""
    from everview.spark.java.jvm_output import chatter_in
    from everview.spark.local import start
    from everview.spark.workers.prestart import early

    with chatter_in(log):
        return start(master, "everview", conf, then=early)


def frame_source(frame: Any) -> Source:
    from everview.spark.rows.sources import frame_source

    return frame_source(frame)


def writer(spark: SparkSession, kind: str, options: Mapping[str, str]) -> Sink:
    from everview.spark.rows.writers import Writer

    return Writer(spark, kind, dict(options))


def topic(spark: SparkSession, servers: str, name: str, key: Sequence[str], options: Mapping[str, str]) -> Sink:
    from everview.spark.rows.topics import Topic

    return Topic(spark, servers, name, key, dict(options))
