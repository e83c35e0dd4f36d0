"""Random plans of all operators under random inserts and deletes: every time of every view against the oracle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.oracle import plans
from tests.oracle.harness import Runtime, Scenario, run
from tests.oracle.reference import Divergent, TooBig


class Skipped(Exception):
    """The example is too large to be worth it, or its loop does not end."""


def attempt(runtime: Runtime, specs: Sequence[plans.Spec], moments: Sequence[tuple[int, int]], steps: Any) -> None:
    """Views of all the specs, each from one step to another, over the steps."""
    views = plans.views(specs, moments, len(steps))
    try:
        run(Scenario(plans.TABLES, views, plans.valid(steps)), runtime)
    except (TooBig, Divergent) as reason:
        raise Skipped from reason


def check(runtime: Runtime, specs: Sequence[plans.Spec], moments: Sequence[tuple[int, int]], steps: Any) -> None:
    try:
        attempt(runtime, specs, moments, steps)
    except Skipped:
        assume(False)


moments = st.lists(st.tuples(st.sampled_from([0, 0, 0, 1, 2, 5]), st.integers(0, 6)), min_size=3, max_size=3)


def test_plans_without_loops(runtime: Runtime) -> None:
    @runtime.effort(150)
    @given(specs=st.lists(plans.flat_plans, min_size=1, max_size=3), moments=moments, steps=plans.steps)
    def flat(specs, moments, steps) -> None:
        check(runtime, specs, moments, steps)

    flat()


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_plans_with_loops(runtime: Runtime, depth: int) -> None:
    @runtime.effort({1: 150, 2: 80, 3: 60}[depth])
    @given(spec=plans.with_loops(depth), other=plans.with_loops(1), moments=moments, steps=plans.steps)
    def looped(spec, other, moments, steps) -> None:
        check(runtime, [spec, other], moments, steps)

    looped()
