"""The random plans, loops and graph algorithms of tests/oracle, all steps in gangs of 1, 2 and 4: in one process
(`inprocess_gang`), and, as the long form, in executors of a real cluster.
"""

from __future__ import annotations

import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import everview as ev
from tests.oracle import test_graphs as graphs
from tests.oracle import test_random_plans as plans
from tests.oracle.harness import Runtime
from tests.spark import clusters, inprocess_gang
from tests.spark.killing import SETTINGS


def connect(spark: Any, **options: Any) -> Any:
    """Four shards, all steps in a gang."""
    return ev.connect(spark, state=tempfile.mkdtemp(prefix="everview-"), shards=4, alone_rows=0, **options)


@pytest.fixture(scope="module", params=[1, 2, 4])
def runtime(request: pytest.FixtureRequest) -> Runtime:
    """On so many tasks."""
    return Runtime("gang", lambda **options: connect(inprocess_gang.session(request.param), **options), share=0.05)


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


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(6000)
@pytest.mark.parametrize("executors", [1, 2, 4])
@pytest.mark.parametrize("kind", ["local-cluster", "standalone"])
def test_on_executors(kind: str, executors: int, tmp_path: Path) -> None:
    with clusters.cluster(kind, tmp_path / "cluster", executors) as (master, env):
        said = clusters.run("tests.spark.test_gang_oracle", master, str(executors), env=env, timeout=3000)
    assert said.split() == ["plans", "loops", "algorithms"]


def main(master: str, executors: int) -> None:
    """A driver for `test_on_executors`; it says what it has done."""
    from everview.spark import local_session
    from everview.spark.driver.slots import slots

    spark = local_session(master, **SETTINGS)
    runtime = Runtime("cluster", partial(connect, spark), share=0.02)
    try:
        for name, run in (
            ("plans", test_plans),
            ("loops", partial(test_loops, depth=1)),
            ("algorithms", test_graph_algorithms),
        ):
            run(runtime)
            print(name, flush=True)
        assert slots(spark.sparkContext) == executors
    finally:
        spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
