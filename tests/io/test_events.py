"""What events leave under keys, next to applying them one by one."""

from __future__ import annotations

import random

import numpy as np
import pytest

from everview.io.events import Told, outcome


def one_by_one(old: dict[int, int], events: list[tuple[int, int, int]]) -> dict[int, int]:
    stands = dict(old)
    for key, value, n in events:
        if n > 0:
            stands[key] = value
        elif stands.get(key) == value:
            del stands[key]
    return stands


@pytest.mark.parametrize("seed", range(40))
def test_random_events(seed: int) -> None:
    draw = random.Random(seed)
    old = {key: draw.randrange(3) for key in range(8) if draw.random() < 0.5}
    events = [(draw.randrange(8), draw.randrange(3), draw.choice([-2, -1, 1])) for _ in range(draw.randrange(40))]
    words = np.array(events, dtype=np.int64).reshape(-1, 3).T
    new, settled, taken = outcome(words[:2], words[2], 1)
    gone = set(zip(*taken.tolist(), strict=True))
    stands = {k: v for k, v in old.items() if k not in settled[0] and (k, v) not in gone}
    assert len(set(new[0].tolist())) == new.shape[1]
    assert {**stands, **dict(zip(*new.tolist(), strict=True))} == one_by_one(old, events)


def test_events_travel_with_what_is_known_of_their_commits() -> None:
    codes, counts = np.array([[1, 2], [3, 4]]), np.array([1, -1])
    known, unknown = Told(codes, counts, np.array([7, 6]), None), Told(codes, counts, None, None)
    back = Told.unpacked(known.packed([1, 0]))
    assert back.codes.tolist() == [[3, 4], [1, 2]] and back.stamps is None
    assert back.commits is not None and back.commits.tolist() == [7, 6]
    assert back.in_order().codes.tolist() == [[4, 3], [2, 1]]
    together = Told.unpacked(np.concatenate([known.packed([0, 1]), unknown.packed([0, 1])], axis=1))
    assert together.commits is None and together.in_order().counts.tolist() == [1, -1, 1, -1]
