"""One test body for every runtime."""

from __future__ import annotations

from functools import partial

import pytest

from tests.oracle.harness import Runtime


def _embedded() -> Runtime:
    import everview as ev

    return Runtime("embedded", ev.connect)


def _sharded() -> Runtime:
    from everview.sharded import LocalShardedSession

    return Runtime("sharded", partial(LocalShardedSession, shards=3))


_RUNTIMES = {"embedded": _embedded, "sharded": _sharded}


@pytest.fixture(scope="session", params=[pytest.param(name, id=name) for name in _RUNTIMES])
def runtime(request: pytest.FixtureRequest) -> Runtime:
    """Every runtime in turn: embedded, and in three shards that exchange rows as they do on Spark."""
    return _RUNTIMES[request.param]()
