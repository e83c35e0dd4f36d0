"""The bodies of `tests/oracle` through a client: plans as data, rows there and back, subscriptions, against the oracle
at every time. A fresh session is behind the same sockets for each run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import everview as ev
from everview.errors import InputError
from tests.oracle import plans, test_graphs, test_random_plans, test_values
from tests.oracle.harness import Runtime
from tests.server.running import TOKEN, Running


@pytest.fixture(scope="module")
def runtime() -> Iterator[Runtime]:
    with Running() as running:

        def connect(**options: Any) -> ev.Session:
            running.until_idle()
            running.clear()
            return ev.connect(running.address, token=TOKEN, **options)

        yield Runtime("client", connect, share=0.15, later=True)


def without_functions(body: Any, *arguments: Any) -> None:
    """Run a body; plans with Python functions are refused, and that is all there is to see."""
    try:
        body(*arguments)
    except InputError as error:
        assert error.code == "E_FUNCTION"


def test_plans_without_loops(runtime: Runtime) -> None:
    @runtime.effort(150)
    @given(
        specs=st.lists(plans.flat_plans, min_size=1, max_size=3), moments=test_random_plans.moments, steps=plans.steps
    )
    def flat(specs: Any, moments: Any, steps: Any) -> None:
        without_functions(test_random_plans.check, runtime, specs, moments, steps)

    flat()


@pytest.mark.parametrize("depth", [1, 2])
def test_plans_with_loops(runtime: Runtime, depth: int) -> None:
    @runtime.effort(60)
    @given(spec=plans.with_loops(depth), moments=test_random_plans.moments, steps=plans.steps)
    def looped(spec: Any, moments: Any, steps: Any) -> None:
        without_functions(test_random_plans.check, runtime, [spec], moments, steps)

    looped()


def test_reach(runtime: Runtime) -> None:
    test_graphs.test_reach_12_nodes_25_edges_10_steps(runtime, 0)


def test_strong_components(runtime: Runtime) -> None:
    test_graphs.test_strong_components_8_nodes_14_edges_8_steps(runtime, 0)


def test_values_of_every_type(runtime: Runtime) -> None:
    builds = [lambda t: t["x"].distinct(), lambda t: t["x"].union_all(t["y"])]
    test_values.check(runtime, 0, *builds)
