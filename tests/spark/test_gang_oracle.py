"""The random plans, loops and graph algorithms of tests/oracle, all steps in gangs of 1, 2 and 4 (`inprocess_gang`)."""

from __future__ import annotations

import tempfile
from typing import Any

import pytest

import everview as ev
from tests.oracle import test_graphs as graphs
from tests.oracle import test_random_plans as plans
from tests.oracle.harness import Runtime
from tests.spark import inprocess_gang


@pytest.fixture(scope="module", params=[1, 2, 4])
def runtime(request: pytest.FixtureRequest) -> Runtime:
    """Four shards on so many tasks."""

    def connect(**options: Any) -> Any:
        state = tempfile.mkdtemp(prefix="everview-")
        return ev.connect(inprocess_gang.session(request.param), state=state, shards=4, alone_rows=0, **options)

    return Runtime("gang", connect, share=0.05)


def test_plans(runtime: Runtime) -> None:
    plans.test_plans_without_loops(runtime)


@pytest.mark.parametrize("depth", [1, 2])
def test_loops(runtime: Runtime, depth: int) -> None:
    plans.test_plans_with_loops(runtime, depth)


def test_graph_algorithms(runtime: Runtime) -> None:
    graphs.test_reach_12_nodes_25_edges_10_steps(runtime, 0)
    graphs.test_components_14_nodes_16_edges_10_steps(runtime, 0, prioritized=True)
    graphs.test_strong_components_8_nodes_14_edges_8_steps(runtime, 0)
    graphs.test_core_9_nodes_25_edges_10_steps(runtime, 0, 2)
    graphs.test_cheapest_paths_10_nodes_20_weighted_edges_10_steps(runtime, 0, "queued")
