"""Random plans and graph programs in sessions that die and are opened again between steps: nothing changes.

After every step the session may be left as `kill -9` leaves it, be closed, or make a version first and then die. What
is opened again is declared again, as a program that is run again does, and must be right at every time by the oracle.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import everview as ev
from everview.recovery.directory import Directory
from tests.inside import inside
from tests.oracle import graphs, plans
from tests.oracle.harness import Run, Runtime, Scenario, Transaction, ViewPlan, effort, random_steps
from tests.oracle.reference import Divergent, Oracle, TooBig

pytestmark = pytest.mark.filterwarnings("error:.*computed again")


class Reopened(Run):
    """A run whose session does not live long."""

    def __init__(self, scenario: Scenario, where: str) -> None:
        self.where = where
        super().__init__(scenario, Runtime("durable", lambda: ev.connect(where)))
        self.fate = random.Random(scenario.seed + 1)
        self.reopened = 0

    def _step(self, step: Sequence[Transaction]) -> None:
        super()._step(step)
        fate = self.fate.choice(["live", "die", "checkpoint and live", "checkpoint and die", "close"])
        if "checkpoint" in fate:
            self.db.checkpoint()
        if "die" in fate:
            inside(self.db).abandon()
            self._open()
        elif fate == "close":
            self.db.close()
            self._open()

    def _open(self) -> None:
        self.reopened += 1
        self.db = ev.connect(self.where)
        for watched in self._declare_again():
            watched.view.subscribe(watched.hear, snapshot=False)


def run(scenario: Scenario) -> Oracle:
    with tempfile.TemporaryDirectory() as where:
        made = Reopened(scenario, where)
        try:
            return made.run()
        finally:
            made.db.close()


def check(specs: Sequence[plans.Spec], moments: Sequence[tuple[int, int]], steps: Any, seed: int) -> None:
    views = plans.views(specs, moments, len(steps))
    try:
        run(Scenario(plans.TABLES, views, plans.valid(steps), seed))
    except (TooBig, Divergent):
        assume(False)


moments = st.lists(st.tuples(st.sampled_from([0, 0, 1, 2]), st.integers(0, 6)), min_size=3, max_size=3)


@effort(40)
@given(st.lists(plans.flat_plans, min_size=1, max_size=3), moments, plans.steps, st.integers(0, 1000))
def test_plans_without_loops(specs: Any, moments: Any, steps: Any, seed: int) -> None:
    check(specs, moments, steps, seed)


@pytest.mark.slow
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_plans_with_loops(depth: int) -> None:
    @effort({1: 40, 2: 25, 3: 20}[depth])
    @given(plans.with_loops(depth), plans.with_loops(1), moments, plans.steps, st.integers(0, 1000))
    def looped(spec: Any, other: Any, moments: Any, steps: Any, seed: int) -> None:
        check([spec, other], moments, steps, seed)

    looped()


EDGE = {"src": int, "dst": int}


def pairs(nodes: int) -> Any:
    return lambda source: (source.randrange(nodes), source.randrange(nodes))


@pytest.mark.parametrize("seed", range(3))
def test_reach_and_components_12_nodes_25_edges_10_steps(seed: int) -> None:
    tables = {"edge": pairs(12), "root": lambda source: (source.randrange(12),)}
    steps = random_steps(seed, 10, tables, first=6, target=25)

    def reach(t: Mapping[str, Any]) -> ev.Collection:
        return graphs.reach(t["edge"], t["root"])

    def components(t: Mapping[str, Any]) -> ev.Collection:
        return graphs.components(t["edge"], True)

    views = [
        ViewPlan("reach", reach),
        ViewPlan("gone", components, 0, 3),
        ViewPlan("components", components, 2),
        ViewPlan("late", reach, 5),
    ]
    run(Scenario({"edge": EDGE, "root": {"node": int}}, views, steps, seed))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_strong_components_8_nodes_14_edges_8_steps(seed: int) -> None:
    steps = random_steps(seed, 8, {"edge": pairs(8)}, first=6, target=14)
    views = [ViewPlan("strong", lambda t: graphs.strong_edges(t["edge"].distinct()))]
    run(Scenario({"edge": EDGE}, views, steps, seed))


def test_the_run_does_open_again(tmp_path: Any) -> None:
    steps = random_steps(1, 8, {"edge": pairs(8)}, first=6, target=14)
    made = Reopened(Scenario({"edge": EDGE}, [], steps, 1), str(tmp_path))
    made.run()
    made.db.close()
    assert made.reopened >= 2 and isinstance(inside(made.db).runtime.backing, Directory)
