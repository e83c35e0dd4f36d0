"""On executors that are separate processes, one of which is killed in the middle of a step."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.spark import clusters

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.mark.parametrize("kind", ["local-cluster", "standalone"])
def test_a_cluster_with_a_killed_executor(kind: str, tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    with clusters.cluster(kind, tmp_path / "cluster") as (master, env):
        said = clusters.run("tests.spark.on_cluster", master, str(state), env=env)
    assert len(set(re.findall(r"\d+", said.splitlines()[0]))) == 2, said
    assert said.splitlines()[1:] == [
        "one: the same answers",
        "one: an executor was killed",
        "one: a Python worker was killed",
        "barrier: the same answers",
        "barrier: an executor was killed",
        "barrier: a Python worker was killed",
        "lingering: an executor was killed",
    ]
