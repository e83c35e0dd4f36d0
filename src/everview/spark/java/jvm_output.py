"""Redirecting the output of the JVM to a file.

A JVM inherits this process's standard error and writes to it long before any Spark setting is read. However, Spark's
launcher runs `spark-env.sh` in SPARK_CONF_DIR before it becomes the JVM, and ours redirects both output streams to a
file.
"""

from __future__ import annotations

import os
import shlex
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CONF_DIR = "SPARK_CONF_DIR"

LOGGING = """rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
"""
"""Log4j settings: log to standard error, which is the file."""


@contextmanager
def chatter_in(log: Path) -> Iterator[None]:
    """JVMs started inside the block write to this file for their whole life. A SPARK_CONF_DIR of the user is left
    alone; output then goes where its settings say.

    >>> import tempfile
    >>> with chatter_in(Path(tempfile.mkdtemp()) / "spark.log"):
    ...     sorted(p.name for p in Path(os.environ["SPARK_CONF_DIR"]).iterdir())
    ['log4j2.properties', 'spark-env.sh']
    """
    warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")  # about pandas
    if CONF_DIR in os.environ:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="everview-spark-") as home:
        Path(home, "spark-env.sh").write_text(f"exec >>{shlex.quote(str(log.resolve()))} 2>&1\n")
        Path(home, "log4j2.properties").write_text(LOGGING)
        os.environ[CONF_DIR] = home
        try:
            yield
        finally:
            os.environ.pop(CONF_DIR, None)
