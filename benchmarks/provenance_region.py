"""The region query of liu-2016 §3.7.2 (LI-F14): sensors of a grid that are triggered, one after the other.

A sensor is *active* if it is triggered and is the seed of the region or stands beside an active one. Sensors live on
logical nodes. An active sensor says so to the nodes of those beside it, where it waits for them to be triggered; that
is what is shipped (16 bytes for a row, 16 more for each node of its provenance), by the models of the thesis' methods
as by the engine, which counts what leaves a shard.

Sensors only come here, as in the figure: so *dred* is plain semi-naive evaluation, and *relative* adds one derivation
to each row that it sends. *eager* absorption sends a row again whenever its expression grows; *lazy* sends the first
derivation of a row to where none is known, and keeps the others back.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import Any

from provenance import ENGINE, KEPT_NODES, METHODS, TooLong, kept

import everview as ev
from everview.session.core import core_of
from everview.session.local_shards import local_shards
from everview.why.bdd import FALSE, TRUE, Diagrams, Exhausted

NODES = 12
"""Logical nodes."""


class Grid:
    """Which sensors stand beside which, which are triggered in which order, and the seed, in the middle."""

    def __init__(self, side: int, ratio: float = 1.0) -> None:
        rng = random.Random(7)
        cells = [(x, y) for x in range(side) for y in range(side)]
        steps = ((1, 0), (0, 1), (-1, 0), (0, -1))
        beside = [((x, y), (x + dx, y + dy)) for x, y in cells for dx, dy in steps]
        inside = [(one, other) for one, other in beside if all(0 <= c < side for c in other)]
        self.near = [(x * side + y, u * side + v) for (x, y), (u, v) in inside]
        triggered = [s for s in range(side * side) if rng.random() < 0.75]
        rng.shuffle(triggered)
        self.triggered = triggered[: int(ratio * len(triggered))]
        self.seed = side * side // 2 + side // 2


class Model:
    """A method of the thesis: what is known of the active sensors, and what was said to the others."""

    def __init__(self, grid: Grid, method: str, budget: int) -> None:
        self.method = method
        self.seed = grid.seed
        self.beside: dict[int, list[int]] = {}
        for at, other in grid.near:
            self.beside.setdefault(at, []).append(other)
        self.table = Diagrams(budget)
        self.level: dict[int, int] = {}
        """the variables of triggered sensors, in the order of their arrival"""
        self.told: dict[int, dict[int, int]] = {grid.seed: {-1: TRUE}}
        """what was said to each sensor's node, by whom: the expression (TRUE where there are none)"""
        self.rows: dict[int, int] = {}
        self.shipped = 0

    def trigger(self, sensor: int) -> None:
        """A sensor comes."""
        self.level[sensor] = len(self.level)
        todo = [sensor]
        while todo:
            at = todo.pop()
            before, now = self.rows.get(at, FALSE), self._derived(at)
            if now != before:
                self.rows[at] = now
                todo += [other for other in self.beside.get(at, ()) if self._say(at, other, now)]

    def _derived(self, at: int) -> int:
        """What makes a sensor active, of all that is known at its node."""
        said = self.told.get(at, {})
        if at not in self.level or not said:
            return FALSE
        if self.method in ("dred", "relative"):
            return TRUE
        found = FALSE
        for expression in said.values():
            found = self.table.either(found, expression)
        return self.table.both(self.table.variable(self.level[at]), found)

    def _say(self, at: int, other: int, expression: int) -> bool:
        """Tell another node; whether there is something to be derived there."""
        said = self.told.setdefault(other, {})
        if self.method == "lazy" and said:
            return False
        if at % NODES != other % NODES:
            self.shipped += 16 + 16 * self._nodes(expression)
        said[at] = expression
        return other in self.level

    def _nodes(self, expression: int) -> int:
        if self.method in ("dred", "relative"):
            return int(self.method == "relative")
        return len(self.table.below(expression))

    def state(self) -> int:
        """Bytes of all rows, and of the derivations that are known of them."""
        if self.method == "relative":
            return sum(16 + 16 * len(self.told[row]) for row in self.rows)
        return sum(16 + 16 * self._nodes(expression) for expression in self.rows.values())


class Engine:
    """The engine, in shards."""

    def __init__(self, grid: Grid, method: str, budget: int) -> None:
        self.db = db = local_shards(NODES, history=0)
        self.sensor = sensor = db.table("sensor", {"at": int})
        close = db.table("close", {"at": int, "other": int})
        seed = db.table("seed", {"region": int, "at": int})
        start = seed.join(sensor, on="at").select("region", "at")

        def body(found: Any) -> Any:
            beside = found.join(close, on="at").select("region", at=ev.col.other).join(sensor, on="at")
            return beside.select("region", "at").union_all(start).distinct()

        self.view = db.view("active", start.iterate(body), **kept(method, min(budget, KEPT_NODES)))
        close.insert(grid.near)
        seed.insert([(1, grid.seed)])

    def trigger(self, sensor: int) -> None:
        """A sensor comes."""
        self.sensor.insert([(sensor,)])

    @property
    def shipped(self) -> int:
        """Bytes that left a shard for another."""
        return int(core_of(self.db).runtime.cluster.sent().bytes)  # type: ignore[attr-defined]

    @property
    def rows(self) -> set[int]:
        """The active sensors."""
        return {row[1] for row in self.view.rows()}

    def state(self) -> int:
        """Bytes of the view's operators."""
        return int(self.view.stats()["bytes"])


def region(
    side: int, budget: int, methods: Sequence[str] = METHODS, ratio: float = 1.0, limit: float = 60.0
) -> list[dict[str, Any]]:
    """What each method ships, takes and keeps while the sensors of a grid come, three in four of them or a part of
    these.
    """
    grid = Grid(side, ratio)
    results = []
    answers: dict[str, set[int]] = {}
    for method in methods:
        made = Engine(grid, method, budget) if method in ENGINE else Model(grid, method, budget)
        found: dict[str, Any] = {"method": method, "sensors": len(grid.triggered)}
        before, begun = made.shipped, time.process_time()
        try:
            for one in grid.triggered:
                made.trigger(one)
                if time.process_time() - begun > limit:
                    raise TooLong
            answers[method] = set(made.rows)
            found |= {"finished": True, "rows": len(answers[method])}
        except (Exhausted, TooLong, ev.MemoryLimitError, ev.RowErrors):
            found["finished"] = False
        found |= {"insert_s": round(time.process_time() - begun, 3), "insert_bytes": made.shipped - before}
        if found["finished"]:
            found["state_bytes"] = made.state()
        if isinstance(made, Engine):
            made.db.close()
        results.append(found)
    assert len({frozenset(answer) for answer in answers.values()}) <= 1, "methods that finish find the same sensors"
    return results
