"""Random loop bodies, half of them subtly not monotone: whatever is chosen, the rows are those of rounds."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

import everview as ev
from everview import col, lit
from tests.graph.twins import Tables, Twins, kept_as, random_step

SCHEMAS: dict[str, dict[str, Any]] = {
    "edge": {"src": int, "dst": int, "w": int, "kind": int},
    "source": {"node": int, "v": int},
    "small": {"kind": int, "extra": int},
}


class Body:
    """A loop over (node, q, x), drawn at random; `sound` is whether it was meant to be monotone."""

    def __init__(self, seed: int, t: Tables, limited: bool) -> None:
        self.dice = dice = random.Random(seed)
        self.t = t
        self.limited = limited
        self.largest = dice.random() < 0.4
        self.sound = dice.random() < 0.5
        self.faults = [] if self.sound else dice.sample(["start", "value", "bound", "column", "select", "itself"], 1)
        self.keeps = dice.random() < 0.2
        self.undirected = dice.random() < 0.2
        self.itself = self.faults == ["itself"] or (self.sound and dice.random() < 0.2)

    def collection(self) -> ev.Collection:
        s = self.t["source"]
        start = s.select(node=s.node, q=s.node, x=s.v).distinct()
        begin = start
        if "start" in self.faults:  # it begins with rows that its body does not start from
            begin = start.union_all(s.select(node=s.v, q=s.node, x=lit(0))).distinct()
        if self.keeps and "start" in self.faults:  # then what it begins with stays, and is a start
            self.faults, self.sound = [], True
        if self.undirected:
            rules = [self.rule(back) for back in (False, True)]
        else:
            rules = [self.rule() for _ in range(self.dice.choice((1, 1, 2)))]
        if self.itself:
            rules.append(self.squared)

        def body(x: ev.Collection) -> ev.Collection:
            found = rules[0](x).union_all(*(rule(x) for rule in rules[1:]), start)
            if self.keeps:
                found = found.union_all(x)
            if self.dice.random() < 0.2:
                found = found.distinct()
            keys = ("node",) if "select" in self.faults else ("node", "q")
            best = found.group_by("node", "q").agg(x=col.x.max() if self.largest else col.x.min())
            return best if len(keys) == 2 else best.group_by("node").top(2, by=[col.x, col.q])

        if "bound" in self.faults and self.limited:  # it may never settle
            return begin.iterate(body, max_rounds=12, at_limit="stop")
        return begin.iterate(body)

    def squared(self, x: ev.Collection) -> ev.Collection:
        """Paths after paths; or, as a fault, up to a length that only their first parts have."""
        a, b = x.alias("a"), x.alias("b")
        on = a.join(b, a.node == b.q)
        if "itself" in self.faults:
            on = on.filter(b.x > 1 if self.largest else b.x < 2)
        value = ev.least(a.x, b.x) if self.largest else a.x + b.x
        return on.select(node=b.node, q=a.q, x=value)

    def rule(self, back: bool = False) -> Any:
        """One way round: edges filtered, or joined with a small relation, before or after; what they make of a value.
        Paths that are joined with paths have rules that two of them one after the other do not confuse.
        """
        dice, e = self.dice, self.t["edge"]
        edges: ev.Collection = e
        if dice.random() < 0.3:
            edges = e.filter(e.kind != dice.randrange(3))
        if dice.random() < 0.3:
            small = self.t["small"]
            joined = edges.join(small, edges.kind == small.kind)
            edges = joined.select(src=edges.src, dst=edges.dst, w=edges.w + small.extra, kind=edges.kind)
        makes, bounded = dice.choice(("same", "add", "worst")), dice.random() < 0.3
        if self.itself:
            makes, bounded = "worst" if self.largest else dice.choice(("same", "add")), False
        after, either = dice.random() < 0.3, dice.random() < 0.15
        limit = dice.randrange(2, 9)

        def apply(x: ev.Collection) -> ev.Collection:
            near, far = (edges.dst, edges.src) if back else (edges.src, edges.dst)
            if either:
                on = x.join(edges, (x.node == near) | ((x.node == far) & (edges.kind == 1)))
            else:
                on = x.join(edges, x.node == near)
            if after:
                small = self.t["small"]
                on = on.join(small, small.kind == edges.kind)
            value = {"same": x.x, "add": x.x + edges.w, "worst": ev.greatest(x.x, edges.w)}[makes]
            if self.largest:
                value = {"same": x.x, "add": x.x, "worst": ev.least(x.x, edges.w)}[makes]
            if "value" in self.faults:  # an edge may make a value better
                value = ev.least(x.x, edges.w) if not self.largest else ev.greatest(x.x, edges.w)
            q = x.q if "column" not in self.faults else edges.kind
            found = on.select(node=far, q=q, x=value)
            if "bound" in self.faults:  # a worse value passes, a better one does not
                return found.filter(col.x < limit if self.largest else col.x > limit - 4)
            if bounded:
                return found.filter(col.x > -limit if self.largest else col.x < limit)
            return found

        return apply


def form(seed: int) -> tuple[bool, str]:
    """Whether a body was meant to be monotone, and how it is kept when nothing but its form counts."""
    db = ev.connect()
    made = Body(seed, {name: db.table(name, schema) for name, schema in SCHEMAS.items()}, limited=False)
    (kept,) = kept_as(db.view("v", made.collection()))
    db.close()
    return made.sound, kept


def check(seed: int, steps: int) -> tuple[bool, str]:
    def views(db: ev.Session, t: Tables) -> Mapping[str, ev.Collection]:
        return {"v": Body(seed, t, limited=True).collection()}

    sound, kept = form(seed)
    assert sound or kept == "rounds", seed
    twins = Twins(SCHEMAS, views)
    dice = random.Random(seed)
    draw = {
        "edge": lambda: (dice.randrange(6), dice.randrange(6), dice.randrange(4), dice.randrange(3)),
        "source": lambda: (dice.randrange(6), dice.randrange(4)),
        "small": lambda: (dice.randrange(3), dice.randrange(2)),
    }
    for _ in range(steps):
        twins.step(random_step(twins, dice, draw, 9))
    twins.close()
    return sound, kept


def test_random_bodies() -> None:
    found = Counter(check(seed, steps=8) for seed in range(24))
    assert found[True, "trees"] >= 5 and sum(n for (sound, _), n in found.items() if not sound) >= 5, found


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("part", range(10))
def test_many_random_bodies(part: int) -> None:
    for seed in range(1000 + 60 * part, 1060 + 60 * part):
        check(seed, steps=15)
