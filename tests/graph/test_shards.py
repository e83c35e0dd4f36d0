"""The second runtime: the same algorithms in shards, as on Spark, with tasks run in this process."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import everview as ev
from tests.graph import reference as ref
from tests.graph.moving import INTS, moves, world
from tests.graph.test_algorithms import ALIKE, BY_ORDER, Build, Expect, cost_of
from tests.spark import inprocess

EVERY = ALIKE | BY_ORDER
SOME = ("wcc", "hop_distance_in_3", "pagerank")


def check(build: Build, expect: Expect, state: Path, steps: int) -> None:
    """The view is right after every step of a sharded session."""
    with ev.connect(inprocess.session(), state=str(state), shards=2) as db:
        w = world(INTS, db)
        view = db.view("view", build(w))
        for number, seen in enumerate(moves(w, 4, steps, 16)):
            time, now = max(seen.items())
            assert time == db.time
            assert Counter(view.rows()) == expect(now), number


@pytest.mark.parametrize("name", SOME)
def test_some_in_two_shards(name: str, tmp_path: Path) -> None:
    check(*EVERY[name], tmp_path, 6)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in EVERY if name not in SOME])
def test_the_others_in_two_shards(name: str, tmp_path: Path) -> None:
    check(*EVERY[name], tmp_path, 10)


@pytest.mark.slow
def test_shortest_paths_in_two_shards(tmp_path: Path) -> None:
    with ev.connect(inprocess.session(), state=str(tmp_path), shards=2) as db:
        w = world(INTS, db)
        path = db.view("path", w.graph.shortest_path(w.pairs))
        for seen in moves(w, 4, 8, 16):
            _, now = max(seen.items())
            ways: dict[tuple[int, int], dict[int, int]] = {}
            for source, target, step, node in path.rows():
                ways.setdefault((source, target), {})[step] = node
            wanted = {(a, b): cost for a, b, cost in ref.distance(now)}
            assert wanted == {pair: cost_of(now, pair, way) for pair, way in ways.items()}
