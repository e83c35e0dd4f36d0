"""One test body for every runtime."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tests.oracle.harness import Runtime


def _embedded() -> Runtime:
    import everview as ev

    return Runtime("embedded", ev.connect)


def _sharded() -> Runtime:
    from everview.sharded import LocalShardedSession

    return Runtime("sharded", partial(LocalShardedSession, shards=3))


def _two_threads() -> Runtime:
    """Every operator that has anything to share does so, however little it is."""
    import everview as ev

    def connect(**options: Any) -> ev.Session:
        db = ev.connect(threads=2, **options)
        assert db._graph.team is not None
        db._graph.team.share_from(1)
        return db

    return Runtime("two threads", connect)


_RUNTIMES = {"embedded": _embedded, "threads": _two_threads, "sharded": _sharded}


@pytest.fixture(scope="session", params=[pytest.param(name, id=name) for name in _RUNTIMES])
def runtime(request: pytest.FixtureRequest) -> Runtime:
    """Every runtime in turn: embedded with one thread and with two, and in three shards that exchange rows as they do
    on Spark.
    """
    return _RUNTIMES[request.param]()
