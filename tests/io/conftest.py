"""One test body, two runtimes: sources and sinks are tested on one dataflow and on three shards."""

from __future__ import annotations

from typing import Any

import pytest

import everview as ev
from everview.session.local_shards import local_shards

BOTH = ("test_sources", "test_sinks", "test_deletions")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run the tests of these modules on both runtimes."""
    runtimes = ["embedded", "sharded"] if metafunc.module.__name__.rpartition(".")[2] in BOTH else ["embedded"]
    metafunc.parametrize("runtime", runtimes, indirect=True)


@pytest.fixture(autouse=True)
def runtime(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Have `ev.connect()` open the runtime's kind of session."""
    chosen: str = request.param
    if chosen == "sharded":
        monkeypatch.setattr(ev, "connect", _sharded)
    return chosen


def _sharded(**options: Any) -> ev.Session:
    return local_shards(shards=3, **options)
