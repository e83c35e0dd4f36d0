"""One test body for every runtime."""

from __future__ import annotations

import pytest

from tests.oracle.harness import Runtime


def _embedded() -> Runtime:
    import everview as ev

    return Runtime("embedded", ev.connect)


_RUNTIMES = {"embedded": _embedded}


@pytest.fixture(scope="session", params=[pytest.param("embedded", id="embedded")])
def runtime(request: pytest.FixtureRequest) -> Runtime:
    """Every runtime in turn: the embedded one now, Spark when it is there."""
    return _RUNTIMES[request.param]()
