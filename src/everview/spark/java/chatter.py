"""What a JVM says, in a file.

A JVM inherits this process's standard error and writes on it what it pleases, long before any setting of Spark's is
read. Spark's launcher, however, runs `spark-env.sh` in the directory SPARK_CONF_DIR before it becomes the JVM. Ours
sends both outputs of the process to a file.
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
"""Log4j's settings: to standard error, which is the file."""


@contextmanager
def chatter_in(log: Path) -> Iterator[None]:
    """A JVM that is started meanwhile writes to this file, for as long as it lives. Settings of Spark's that somebody
    keeps in a directory of their own are left alone: then it writes where they say.

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
