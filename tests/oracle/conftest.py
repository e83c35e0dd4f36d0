"""One test body for every runtime."""

from __future__ import annotations

import tempfile
from functools import partial
from itertools import cycle
from typing import Any
from unittest.mock import patch

import pytest

from everview.kernels.build.native import DEBUG
from tests.inside import inside
from tests.oracle.harness import Runtime

SHARE = {"threads": 0.5, "sharded": 0.4, "stored": 0.25, "spilled": 0.15, "spark": 0.03}
"""Of the random examples that an embedded session sees: the others run the same operators, and take longer."""


def _embedded() -> Runtime:
    import everview as ev

    return Runtime("embedded", ev.connect)


def _sharded() -> Runtime:
    from everview.session.local_shards import local_shards

    return Runtime("sharded", partial(local_shards, shards=3), share=SHARE["sharded"])


def _threads() -> Runtime:
    """Every operator that has anything to share does so, however little it is."""
    import everview as ev

    counts = cycle((2, 3, 5))

    def connect(**options: Any) -> ev.Session:
        db = ev.connect(threads=next(counts), **options)
        assert inside(db).runtime.dataflow.threads is not None
        inside(db).runtime.dataflow.threads.share_from(1)
        return db

    return Runtime("threads", connect, share=SHARE["threads"])


def _spilled() -> Runtime:
    """A limit of a few MB: after every step all batches are moved into files; one, two or four threads, which share all
    there is to share.
    """
    import everview as ev
    from everview.runtime import spill

    counts = cycle((1, 2, 4))

    def connect(**options: Any) -> ev.Session:
        threads = next(counts)
        db = ev.connect(memory="4MB", threads=threads, **options)
        embedded = inside(db).runtime
        if threads > 1:
            embedded.dataflow.threads.share_from(1)

        def tidy(dataflow: Any) -> None:
            with patch.object(spill, "SMALLEST", 1):
                embedded.spill.make_room(dataflow, -1)

        embedded.spill.tidy = tidy
        return db

    return Runtime("spilled", connect, share=SHARE["spilled"])


def _stored() -> Runtime:
    """Three shards in a directory, run by tasks that land on two workers in turn, every seventh task twice."""
    import everview as ev
    from tests.spark import inprocess

    def connect(**options: Any) -> Any:
        spark = inprocess.session(workers=2)
        spark.sparkContext.attempts = lambda job: 2 if job % 7 == 0 else 1
        return ev.connect(spark, state=tempfile.mkdtemp(prefix="everview-"), shards=3, **options)

    return Runtime("stored", connect, share=SHARE["stored"])


def _spark() -> Runtime:
    import everview as ev
    from everview.spark import local_session

    spark = local_session("local[2]", app="everview-oracle")

    def connect(**options: Any) -> Any:
        return ev.connect(spark, state=tempfile.mkdtemp(prefix="everview-"), shards=3, **options)

    return Runtime("spark", connect, share=SHARE["spark"])


_RUNTIMES = {
    "embedded": _embedded,
    "threads": _threads,
    "sharded": _sharded,
    "spilled": _spilled,
    "stored": _stored,
    "spark": _spark,
}
_MARKS = {
    "spark": pytest.mark.spark,
    "spilled": pytest.mark.skipif(DEBUG, reason="the bounds-checked build reads no memory but its own"),
}


@pytest.fixture(scope="session", params=[pytest.param(n, id=n, marks=_MARKS.get(n, ())) for n in _RUNTIMES])
def runtime(request: pytest.FixtureRequest) -> Runtime:
    """Every runtime in turn: embedded with one thread and with several; in three shards that exchange rows as they do
    on Spark; the same with their state in a directory; on Spark.
    """
    return _RUNTIMES[request.param]()
