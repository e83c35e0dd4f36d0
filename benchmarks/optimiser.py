"""Finding the cheapest plan, and finding it again: the thesis' experiments on optimisers (LI-F23, F24, F26, F31 to 34).

Joins of 8 relations in several shapes, and TPC-H's fifth query (6 relations, as the thesis joins it). For each: CPU
time of the rules and of the procedures from scratch, then after the size of one join has changed by a factor of 1/8 to
8, from a pair of relations (the lowest) to all of them (the top). Ratios are to the same way from scratch; nodes
recomputed, and what pruning takes away, are shares of all there are. Of several times that the rules do the same, the
least counts, from scratch and again: what others do on the machine only adds to it.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import common

sys.path.insert(0, str(common.ROOT))

from everview.optimiser.bottom_up import BottomUp, Memo
from everview.optimiser.observed_problem import with_pipelines
from everview.optimiser.problem import UNIT, Problem, Relation, logarithm
from everview.optimiser.pruning import Pruned
from everview.optimiser.rules import Optimiser
from everview.optimiser.space import And, Space
from everview.optimiser.top_down import TopDown
from tests.optimiser.problems import problem

FACTORS = (-3, -2, -1, 1, 2, 3)
"""Doublings of a size."""


def q5() -> Problem:
    """TPC-H's fifth query at scale 1: region, nation, customer, orders, lineitem, supplier."""
    sizes = {
        "region": 1,
        "nation": 25,
        "customer": 150_000,
        "orders": 228_000,
        "lineitem": 6_001_215,
        "supplier": 10_000,
    }
    joins = (("region", "nation"), ("nation", "customer"), ("customer", "orders"), ("orders", "lineitem"))
    joins += (("lineitem", "supplier"), ("supplier", "nation"))
    masks = {name: sum(1 << v for v, pair in enumerate(joins) if name in pair) for name in sizes}
    relations = []
    for name, rows in sizes.items():
        values = {1 << v: logarithm(min(sizes[a], sizes[b])) for v, (a, b) in enumerate(joins) if name in (a, b)}
        relations.append(Relation(name, masks[name], logarithm(rows), logarithm(rows), values, 4))
    return with_pipelines(Problem(tuple(relations)))


def problems() -> dict[str, Problem]:
    """The joins."""
    shapes = ("chain", "star", "cycle", "clique")
    random_ones = {f"{shape}_8": problem(shape, 8, random.Random(shape)) for shape in shapes}
    return {"tpch_q5": q5(), **random_ones, "one_key_8": one_key(8)}


def one_key(n: int) -> Problem:
    """Relations that all share one variable: as many splits as n relations can have, and none of their joins is empty,
    as those of a random clique are, whose pairs have a variable each.
    """
    rng, relations = random.Random(5), []
    for i in range(n):
        rows, changes = (rng.randrange(12 * UNIT, 20 * UNIT) for _ in range(2))
        relations.append(Relation(f"t{i}", 1, rows, changes, {1: rows - rng.randrange(2 * UNIT)}, rng.randint(2, 5)))
    return with_pipelines(Problem(tuple(relations)))


def cpu_ms(work: Callable[[], Any]) -> float:
    start = time.process_time()
    work()
    return (time.process_time() - start) * 1000


def joins_of(given: Problem) -> dict[int, int]:
    """The joins of the best plan that joins pair by pair, by how many relations they have."""
    space = Space.of(replace(given, pipelines={}))
    twin = BottomUp(space)
    found, todo = {}, [space.root]
    while todo:
        goal = todo.pop()
        found[goal.relations.bit_count()] = goal.relations
        todo += space.needs[twin.chosen[goal]]
    found.pop(1)
    return found


def by_rules(given: Problem, repeats: int) -> dict[str, Any]:
    """The rules: from scratch, and after the size of one join of the best plan has changed."""
    optimiser = Optimiser()
    optimiser.remove(optimiser.add(q5()))  # what is made at first use is not this join's
    scratch, numbers = [], []
    for _ in range(repeats):
        scratch.append(cpu_ms(lambda: numbers.append(optimiser.add(given))))
        if len(numbers) > 1:
            optimiser.remove(numbers.pop(0))
    (number,) = numbers
    again = {}
    for level, mask in sorted(joins_of(given).items()):
        took = dict.fromkeys(FACTORS, float("inf"))
        for _ in range(repeats):
            for doublings in FACTORS:
                spent = cpu_ms(lambda d=doublings, m=mask: optimiser.observe(number, factors={m: d * UNIT}))
                took[doublings] = min(took[doublings], spent)
                optimiser.observe(number, factors={mask: 0})
        again[level] = round(statistics.median(took.values()), 3)
    bytes_kept = optimiser.session.stats()["bytes"]
    optimiser.close()
    first = min(scratch)
    ratios = {level: round(first / took, 1) for level, took in again.items()}
    return {"scratch_ms": round(first, 2), "again_ms": again, "times_faster": ratios, "bytes": bytes_kept}


def other_costs(space: Space) -> dict[int, list[dict[And, int]]]:
    """What ways cost after the size of one join of the best plan has changed, by how many relations it has."""
    return {
        level: [
            replace(space, problem=replace(space.problem, factors={mask: doublings * UNIT})).local_costs()
            for doublings in FACTORS
        ]
        for level, mask in sorted(joins_of(space.problem).items())
    }


def by_procedure(
    kind: type[BottomUp] | type[TopDown],
    space: Space,
    others: dict[int, list[dict[And, int]]],
    memo: Memo,
    conditional: bool,
) -> dict[str, Any]:
    """A procedure, likewise, with the nodes it computes."""
    start = time.process_time()
    twin = kind(space, memo=memo, conditional=conditional)
    scratch = (time.process_time() - start) * 1000
    again, goals, ways = {}, {}, {}
    for level, several in others.items():
        took = []
        for changed in several:
            before = dict(twin.local)
            took.append(cpu_ms(lambda c=changed: twin.update(c)))
            goals[level] = round(twin.work.goals / len(space.ways), 3)
            ways[level] = round(twin.work.ways / len(space.needs), 3)
            twin.update(before)
        again[level] = round(statistics.median(took), 3)
    ratios = {level: round(scratch / took, 1) for level, took in again.items() if took}
    found = {"scratch_ms": round(scratch, 2), "again_ms": again, "times_faster": ratios}
    return found | {"or_recomputed": goals, "and_recomputed": ways}


def pruned(given: Problem) -> dict[str, Any]:
    """What each way of pruning takes away, in shares of OR and AND nodes."""
    optimiser = Pruned()
    left = optimiser.left(optimiser.add(given))
    optimiser.close()
    whole = left.pop("whole")
    return {
        name: {"or": round(1 - part.goals / whole.goals, 3), "and": round(1 - part.ways / whole.ways, 3)}
        for name, part in left.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", help="one of the joins")
    given = parser.parse_args()
    for name, one in problems().items():
        if given.only in (None, name):
            found: dict[str, Any] = {"case": name, "rules": by_rules(one, given.repeats)}
            space = Space.of(one)
            others = other_costs(space)
            for kind in (BottomUp, TopDown):
                for memo in ("all", "best"):
                    for conditional in (True, False):
                        label = f"{kind.__name__}, memo {memo}{', conditional' if conditional else ''}"
                        found[label] = by_procedure(kind, space, others, memo, conditional)
            print(json.dumps(found | {"pruned": pruned(one)}), flush=True)


if __name__ == "__main__":
    main()
