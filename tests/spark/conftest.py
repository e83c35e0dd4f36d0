"""One SparkSession per test process: starting one takes seconds, sharing it costs nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A session on local[2]."""
    from everview.spark import local_session

    quiet = {"spark.driver.extraJavaOptions": "-Dderby.stream.error.file=/dev/null"}  # no derby.log where one works
    session = local_session("local[2]", app="everview-tests", **quiet)
    yield session
    session.stop()
