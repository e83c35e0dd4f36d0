"""Random programs (`tests.datalog.writer`) and random changes against the evaluator from scratch."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from tests.datalog.harness import World
from tests.datalog.writer import TABLES, Drawn, Writer


def play(data: st.DataObject, steps: int) -> None:
    """Install a random program, change its tables, compare after every change."""
    text = Writer(Drawn(data)).program()
    note(text)
    world = World()
    for name, width in TABLES.items():
        world.table(name, dict(zip("xy"[:width], ["int"] * width, strict=True)))
    world.add(text, data.draw(st.sampled_from([None, "binary", "delta", "wco"])))
    values = st.integers(0, 3)
    for step in range(steps):
        rows = [
            (name, data.draw(st.lists(st.tuples(*[values] * w), max_size=4 if step else 8)))
            for name, w in TABLES.items()
        ]
        held = [(name, row) for name, have in world.tables.items() for row in have]
        deletes = data.draw(st.lists(st.sampled_from(held), unique=True, max_size=5)) if held else []
        since = world.db.time
        world.change([(name, row) for name, many in rows for row in many], deletes)
        world.check(since)
    for name in world.before:
        width = len(world.db[name].schema())
        world.ask(name, data.draw(st.lists(st.none() | values, min_size=width, max_size=width)))
    world.db.close()


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(st.data())
def test_random_programs(data: st.DataObject) -> None:
    play(data, steps=3)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_more_random_programs(part: int) -> None:
    """In parts: 200 programs take two minutes of CPU, and more on a busy machine than one test may take."""

    @settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def programs(data: st.DataObject) -> None:
        play(data, steps=5)

    programs()
