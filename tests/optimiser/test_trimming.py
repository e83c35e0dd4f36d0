"""Loops that trim edges: all spellings of them give the rows that they give as written, those that do not find strong
components too; and those that do are recognised.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import everview as ev
from everview.graph import Graph
from everview.language.relation import relation_of
from everview.plan.rewrites import simplified
from everview.session.local_shards import local_shards
from tests.optimiser.trimming import Spelling

LINE = "rewrite trimming"


def _graph(dice: random.Random, nodes: int, edges: int) -> list[tuple[int, int]]:
    return [(dice.randrange(nodes), dice.randrange(nodes)) for _ in range(edges)]


def compare(spelling: Spelling, seed: int, steps: int = 3, connect: Callable[[], ev.Session] = ev.connect) -> bool:
    """Whether it is recognised; its rows are those of the loop as it is written, after every change."""
    dice = random.Random(seed)
    with connect() as db:
        edge = db.table("edge", {"src": int, "dst": int})
        found = db.view("found", spelling.collection(edge))
        written = db.view("written", spelling.collection(edge), plan="verbatim")
        held: list[tuple[int, int]] = []
        for _ in range(steps):
            with db.transaction():
                gone = [held.pop(dice.randrange(len(held))) for _ in range(len(held) // 3)]
                come = _graph(dice, 7, dice.randrange(3, 8))
                edge.delete(gone)
                edge.insert(come)
                held += come
            assert Counter(found.rows()) == Counter(written.rows()), (spelling, seed, sorted(held))
        return LINE in found.explain()


STARTS = ("S", "T", "ST")


def soundly_started(forwards: str, backwards: str) -> bool:
    return (forwards == backwards) or ("S" in backwards and "T" in forwards)


@pytest.mark.parametrize("spelling", [
    Spelling(),
    Spelling(starts_inside=True),
    Spelling(turned=True, starts=("S", "T")),
    Spelling(stages=1, starts=("ST", "ST")),
    Spelling(stages=1, selects=("variable", ""), starts=("T", "T"), starts_inside=True),
    Spelling(selects=("all", "first"), best=("max", "max")),
    Spelling(selects=("variable", "first"), starts=("ST", "S")),
    Spelling(selects=("variable", "all"), starts=("T", "ST")),
])  # fmt: skip
def test_strong_components_are_recognised(spelling: Spelling) -> None:
    assert compare(spelling, 1)


@pytest.mark.parametrize("seed", range(3))
def test_strong_components_on_shards(seed: int) -> None:
    spelling = (Spelling(), Spelling(starts_inside=True), Spelling(stages=1, starts=("ST", "ST")))[seed]
    assert compare(spelling, seed, steps=6, connect=partial(local_shards, shards=3))


def test_it_is_the_library_s_own_plan() -> None:
    with ev.connect() as db:
        edge = db.table("edge", {"src": int, "dst": int})
        found, done = simplified(relation_of(Spelling().collection(edge)).node, (), ("trimming",))
        assert done and found == relation_of(Graph(edge).scc_edges()).node


@pytest.mark.parametrize("spelling", [
    Spelling(best=("min", "max")),
    Spelling(stages=1, best=("max", "min"), starts=("ST", "ST")),
    Spelling(starts=("S", "T")),
    Spelling(starts=("ST", "T")),
    Spelling(starts=("S", "ST")),
    Spelling(selects=("all", "variable")),
])  # fmt: skip
def test_other_loops_stay_what_they_are(spelling: Spelling) -> None:
    assert not compare(spelling, 1)


def test_other_loops_in_loops_spread_small_labels_first() -> None:
    with ev.connect() as db:
        edge = db.table("edge", {"src": int, "dst": int})
        mixed = Spelling(starts=("ST", "T")).collection(edge)
        assert "loop: small values first" in db.view("v", mixed).explain()


@pytest.mark.parametrize(("best", "starts"), [(("min", "max"), ("T", "S")), (("min", "min"), ("S", "T"))])
def test_an_edge_on_no_cycle_that_survives(best: Any, starts: Any) -> None:
    """Why not all loops of this form are strong components."""
    with ev.connect() as db:
        edge = db.table("edge", {"src": int, "dst": int})
        view = db.view("v", Spelling(best=best, starts=starts).collection(edge))
        edge.insert([(1, 2), (0, 1), (2, 3)] if best == ("min", "max") else [(1, 2)])
        assert view.rows()


@pytest.mark.slow
def test_every_spelling() -> None:
    """All of them, on random graphs: what is recognised is right, and what must be is recognised."""
    selects = [(a, b) for a in ("all", "variable") for b in ("all", "variable", "first")]
    kinds = [(2, each) for each in selects] + [(1, ("all", "")), (1, ("variable", ""))]
    orders = [(a, b) for a in ("min", "max") for b in ("min", "max")]
    starting = [(a, b) for a in STARTS for b in STARTS]
    number = 0
    for (stages, each), starts, best, inside, turned in itertools.product(
        kinds, starting, orders, (False, True), (False, True)
    ):
        number += 1
        if number % 11:  # all are 576, which takes ten minutes
            continue
        recognised = compare(Spelling(stages, each, starts, best, inside, turned), number)
        forwards, backwards = starts[::-1] if turned else starts
        wanted = best[0] == best[1] and soundly_started(forwards, backwards) and each != ("all", "variable")
        wanted = wanted and (each != ("variable", "variable"))
        assert recognised == wanted, (stages, each, starts, best, inside, turned)
