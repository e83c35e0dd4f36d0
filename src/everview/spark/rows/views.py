"""Views as DataFrames: the Spark side of `view.to_spark()`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everview.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from everview.session.core import Core


def default_session(core: Core) -> SparkSession:
    """The SparkSession of a session on Spark, else the active one."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise InputError("E_SPARK", "PySpark is not installed", "pip install 'everview[spark]'") from None

    found: SparkSession | None = (
        getattr(getattr(core.runtime, "cluster", None), "spark", None) or SparkSession.getActiveSession()
    )
    if found is None:
        raise InputError("E_SPARK", "there is no SparkSession", "give one: view.to_spark(spark)")
    return found


def stream_of_changes(spark: SparkSession, core: Core, view: str) -> DataFrame:
    """A view's changes as a streaming DataFrame, read from the session's directory."""
    from everview.spark.rows.datasource import register

    store = core.runtime.backing.store
    if store is None:
        raise InputError(
            "E_TARGET", "a session in memory has no changes that Spark could read", 'open it as connect("directory")'
        )
    register(spark)
    stream = spark.readStream.format("everview").option("view", view).option("changes", "true")
    return stream.load(store.files.root)
