"""The gang's protocol in a simulated world: processes die, connections break, messages are late, by seed.

Every step that is committed is what one process would have made of the same inputs, no step is committed twice or by
members that do not agree, and nobody waits for ever. EVERVIEW_GANG_RUNS and EVERVIEW_SEED say how many worlds the long
form tries, and which.
"""

from __future__ import annotations

import os
import random

import pytest

from everview.spark.gang.coordinator import TRIES, Coordinator
from everview.spark.gang.messages import AGAIN, DONE, FAILED, Here, Meet, Report, Stands
from tests.spark.gang_simulator import World

SEED = int(os.environ.get("EVERVIEW_SEED", "0"))
RUNS = int(os.environ.get("EVERVIEW_GANG_RUNS", "20000"))


def live(seed: int) -> World:
    """A world from its beginning to its end: some steps, each tried until it is committed, or refused as it should."""
    draw = random.Random(seed)
    shards = draw.randrange(1, 6)
    faults = draw.choice((0, 2, 5, 12))
    world = World(seed, shards, draw.randrange(1, min(4, shards) + 1), faults)
    try:
        for _ in range(draw.randrange(2, 6)):
            inputs = [draw.randrange(1000) for _ in range(shards)]
            rounds = [draw.randrange(4) for _ in range(shards)]
            fails = draw.randrange(shards) if draw.random() < 0.15 else -1
            version = len(world.store)
            while (outcome := world.run(inputs, rounds, fails)).how != DONE:
                assert len(world.store) == version
                if outcome.how == FAILED and not outcome.why:
                    assert fails >= 0, "nobody refused it"
                    break
                assert faults, "nothing went wrong, and it did not go well"
            assert len(world.store) == version + (outcome.how == DONE)
            assert (outcome.how == DONE) == (fails < 0)
        world.end()
    except BaseException:
        world.abandon()
        raise
    return world


def meeting(gang: Coordinator, *held: tuple[tuple[int, int, str], ...]) -> list[tuple[int, ...]]:
    """Members meet, each with what it holds; gives the shards that each is to run."""
    gang.begin(lambda version, attempt: version == 7 and attempt == "right")
    members = gang.members
    assert gang.take() == [(member, Meet(gang.generations)) for member in members]
    for member, each in zip(members, held, strict=True):
        gang.heard(member, Here(gang.generations, ("here", member), each))
    gang.take()
    for member in members:
        gang.heard(member, Stands(gang.generations, True))
    gang.take()
    return [gang.shards_of(member) for member in members]


def test_shards_stay_where_they_are() -> None:
    """Who comes gets its share, and what others hold that was never committed counts for nothing."""
    gang = Coordinator(shards=4, wanted=2)
    gang.joined(1)
    gang.joined(2)
    held = ((1, 7, "right"), (3, 7, "right")), ((0, 7, "wrong"), (2, 6, "right"))
    assert meeting(gang, *held) == [(1, 3), (0, 2)]
    for member in (1, 2):
        gang.heard(member, Report(1, DONE))
    assert gang.outcome is not None and gang.outcome.how == DONE
    gang.joined(3)
    held = ((1, 7, "right"), (3, 7, "right")), ((0, 7, "right"), (2, 7, "right"))
    assert meeting(gang, *held, ()) == [(1, 3), (0,), (2,)]


def test_a_step_is_not_tried_for_ever() -> None:
    gang = Coordinator(shards=1, wanted=1)
    gang.begin()
    for member in range(TRIES):
        assert gang.outcome is None
        gang.joined(member)
        gang.heard(member, Here(gang.generations, ("here", 1)))
        gang.heard(member, Stands(gang.generations, True))
        gang.lost(member)
    assert gang.outcome is not None and gang.outcome.how == AGAIN and gang.outcome.attempt == TRIES - 1


def test_what_comes_too_late_is_not_believed() -> None:
    gang = Coordinator(shards=2, wanted=2)
    gang.joined(1)
    gang.joined(2)
    meeting(gang, (), ())
    gang.heard(1, Report(0, DONE), b"of another step")
    gang.heard(3, Report(1, DONE), b"a stranger's")
    gang.heard(1, Here(gang.generations, ("here", 1)))
    gang.heard(2, Report(1, DONE), b"two")
    assert gang.outcome is None
    gang.heard(1, Report(1, DONE), b"one")
    assert gang.outcome is not None and gang.outcome.answers == {0: b"one", 1: b"two"}


@pytest.mark.parametrize("part", range(4))
def test_hundreds_of_worlds(part: int) -> None:
    attempts = 0
    for seed in range(SEED + 100 * part, SEED + 100 * part + 100):
        try:
            attempts += live(seed).gang.generations
        except BaseException as error:
            error.add_note(f"in the world of seed {seed}")
            raise
    assert attempts > 250, "hardly anything went wrong: the worlds are too kind"


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(6000)
def test_thousands_of_worlds() -> None:
    for seed in range(SEED, SEED + RUNS):
        try:
            live(seed)
        except BaseException as error:
            error.add_note(f"in the world of seed {seed}")
            raise
