"""Graphs that change: random rows come and go in transactions, several to a step, down to none and up again."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import everview as ev
from everview.graph import Graph
from tests.graph.reference import State

INTS = (3, 0, -2, 7, 8, 2**62, -(2**63), 12, 100, 5, 1)
STRINGS = ("ann", "", "bob", "a\u0301", "\U0001f98a", "Ann", "zoe", "q", "bo", "nn", "x y")


@dataclass
class World:
    """A session with the tables of a `State`, and a graph over them."""

    db: ev.Session
    tables: dict[str, ev.Table]
    graph: Graph
    nodes: tuple[Any, ...]

    @property
    def sources(self) -> ev.Collection:
        return self.tables["sources"]

    @property
    def pairs(self) -> ev.Collection:
        return self.tables["pairs"]


def world(nodes: tuple[Any, ...], db: ev.Session | None = None) -> World:
    kind = type(nodes[0])
    db = db or ev.connect()
    tables = {
        "edges": db.table("edges", {"src": kind, "kind": str, "dst": kind, "weight": int}),
        "sources": db.table("sources", {"node": kind}),
        "pairs": db.table("pairs", {"a": kind, "b": kind}),
        "more": db.table("more", {"node": kind}),
    }
    graph = Graph(tables["edges"], weight="weight", label="kind", nodes=tables["more"])
    return World(db, tables, graph, nodes)


def moves(w: World, seed: int, steps: int, target: int) -> Iterator[dict[int, State]]:
    """Run random steps; after each gives the state at every time of that step."""
    source = random.Random(seed)
    state = State()
    for number in range(steps):
        if number in (steps // 2, steps - 1):
            yield {_change(w, state, _nothing(state)): deepcopy(state)}
            continue
        several = source.choice((1, 1, 2, 3))
        seen: dict[int, State] = {}
        with w.db.batch():
            for _ in range(several):
                filling = number in (0, steps // 2 + 1)
                size = source.choice((2 * target,) if filling else (1, 1, 1, 2, 6))
                time = _change(w, state, _random_change(w, state, source, size, target))
                seen[time] = deepcopy(state)
        yield seen


Change = dict[str, Counter[Any]]


def _nothing(state: State) -> Change:
    return {name: Counter({row: -n for row, n in held.items()}) for name, held in vars(state).items()}


def _random_change(w: World, state: State, source: random.Random, size: int, target: int) -> Change:
    change: Change = {name: Counter() for name in vars(state)}
    for _ in range(size):
        name = source.choices(("edges", "sources", "pairs", "more"), (14, 2, 2, 1))[0]
        held = getattr(state, name) + change[name]
        full = sum(held.values()) >= (target if name == "edges" else 3)
        if held and source.random() < (0.7 if full else 0.2):
            change[name][source.choice(list(held.elements()))] -= 1
        elif held and source.random() < 0.15:
            change[name][source.choice(list(held))] += 1  # a parallel edge, a source twice
        else:
            change[name][_random_row(w, name, source)] += 1
    return change


def _random_row(w: World, name: str, source: random.Random) -> Any:
    a, b = source.choice(w.nodes), source.choice(w.nodes)
    if name == "edges":
        return (a, source.choice("abc"), b, source.choice((0, 0, 1, 2, 5)))
    return (a, b) if name == "pairs" else a


def _change(w: World, state: State, change: Change) -> int:
    """Apply it to the session and to the state; gives its time."""
    with w.db.transaction():
        for name, rows in change.items():
            table, held = w.tables[name], getattr(state, name)
            new = [row if isinstance(row, tuple) else (row,) for row, n in rows.items() for _ in range(n)]
            gone = [row if isinstance(row, tuple) else (row,) for row, n in rows.items() for _ in range(-n)]
            if new:
                table.insert(new)
            if gone:
                table.delete(gone)
            held.update(rows)
            for row in [row for row, n in held.items() if n == 0]:
                del held[row]
    return w.db.time
