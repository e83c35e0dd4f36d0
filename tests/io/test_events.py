"""What events leave under keys, next to applying them one by one."""

from __future__ import annotations

import random

import numpy as np
import pytest

from everview.io.changes import BEFORE
from everview.io.events import Told, applied

Row = tuple[int, int]


def one_by_one(
    old: dict[int, int], events: list[tuple[int, int, int]], unordered: bool
) -> tuple[dict[int, int], list[Row]]:
    stands, missing = dict(old), []
    replaced: set[Row] = set()
    for key, value, n in events:
        if n > 0:
            if key in stands and stands[key] != value:
                replaced.add((key, stands[key]))
            stands[key] = value
        elif key not in stands:
            missing += [(key, value)] * (n != BEFORE)
        elif stands[key] != value and (n == BEFORE or (unordered and (key, value) in replaced)):
            pass  # it has gone already
        else:
            del stands[key]
    return stands, missing


@pytest.mark.parametrize("unordered", [False, True])
@pytest.mark.parametrize("seed", range(40))
def test_random_events(seed: int, unordered: bool) -> None:
    draw = random.Random(seed)
    old = {key: draw.randrange(3) for key in range(8) if draw.random() < 0.5}
    kinds = [-1, 1, 1] if unordered else [-1, BEFORE, 1, 1]
    events = [(draw.randrange(8), draw.randrange(3), draw.choice(kinds)) for _ in range(draw.randrange(40))]
    words = np.array(events, dtype=np.int64).reshape(-1, 3).T
    known = {key: value for key, value in old.items() if key in words[0]}
    done = applied(words[:2], words[2], np.array([*known.items()], dtype=np.int64).reshape(-1, 2).T, 1, unordered)
    stands = {k: v for k, v in old.items() if (k, v) not in set(zip(*done.gone.tolist(), strict=True))}
    came = dict(zip(*done.new.tolist(), strict=True))
    assert len(came) == done.new.shape[1] and not came.keys() & stands.keys()
    assert not came.items() & old.items(), "what stays as it is is no change"
    assert ({**stands, **came}, [*zip(*done.missing.tolist(), strict=True)]) == one_by_one(old, events, unordered)


def test_events_travel_with_what_is_known_of_their_commits() -> None:
    codes, counts = np.array([[1, 2], [3, 4]]), np.array([1, -1])
    known, unknown = Told(codes, counts, np.array([7, 6]), None), Told(codes, counts, None, None)
    back = Told.unpacked(known.packed([1, 0]))
    assert back.codes.tolist() == [[3, 4], [1, 2]] and back.stamps is None
    assert back.commits is not None and back.commits.tolist() == [7, 6]
    assert back.in_order().codes.tolist() == [[4, 3], [2, 1]]
    together = Told.unpacked(np.concatenate([known.packed([0, 1]), unknown.packed([0, 1])], axis=1))
    assert together.commits is None and together.in_order().counts.tolist() == [1, -1, 1, -1]
