"""Two sessions that get the same changes: one keeps monotone loops as trees, the other keeps them as loops."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import everview as ev
from everview.kernels import memory
from everview.kernels.guarded_calls import CELL_FAIL_IN, CELL_TRACK_FROM
from tests.inside import inside

Row = tuple[Any, ...]
Tables = dict[str, ev.Table]
Views = Callable[[ev.Session, Tables], Mapping[str, ev.Collection]]


def apply(tables: Tables, change: Mapping[str, Counter[Row]]) -> None:
    """Insert rows as often as is said, or delete those with a number below zero."""
    for name, rows in change.items():
        for sign, put in ((1, tables[name].insert), (-1, tables[name].delete)):
            if some := [row for row, n in rows.items() for _ in range(sign * n)]:
                put(some)


class Twins:
    """`views` makes the same collections in both sessions; `check` compares what they say, at every time since."""

    def __init__(self, schemas: Mapping[str, Mapping[str, Any]], views: Views, *dbs: ev.Session) -> None:
        self.dbs = list(dbs) or [ev.connect(), ev.connect()]
        self.tables = [{name: db.table(name, schema) for name, schema in schemas.items()} for db in self.dbs]
        self.views: list[dict[str, ev.View]] = []
        for db, tables, plan in zip(self.dbs, self.tables, (None, "rounds"), strict=True):
            made = views(db, tables)
            self.views.append({name: db.view(name, c, plan=plan) for name, c in made.items()})  # type: ignore[arg-type]
        self.held: dict[str, Counter[Row]] = {name: Counter() for name in schemas}

    def step(self, transactions: list[dict[str, Counter[Row]]]) -> None:
        """Several transactions in one step, in both sessions, then a look at everything."""
        before = [db.time for db in self.dbs]
        for change in transactions:
            for name, rows in change.items():
                self.held[name].update(rows)
                self.held[name] = +self.held[name]
        for db, tables in zip(self.dbs, self.tables, strict=True):
            with db.batch():
                for change in transactions:
                    with db.transaction():
                        apply(tables, change)
        self.check(before)

    def check(self, since: list[int]) -> None:
        """Rows, and what was said in each transaction since these times."""
        for name in self.views[0]:
            trees, rounds = (views[name] for views in self.views)
            assert sorted(trees.rows(), key=repr) == sorted(rounds.rows(), key=repr), name
            changed: list[Counter[tuple[Row, int]]] = [Counter(), Counter()]
            for found, view, before in zip(changed, (trees, rounds), since, strict=True):
                for row, time, diff in view.changes(before):
                    found[row, time - before] += diff
            assert {k: n for k, n in changed[0].items() if n} == {k: n for k, n in changed[1].items() if n}, name

    def close(self) -> None:
        for db in self.dbs:
            db.close()


def kept_as(view: ev.View) -> list[str]:
    """How a view's loops are kept: "trees" or "rounds"."""
    lines = view.explain().splitlines()
    return [line.split(":")[1].split(",")[0].strip() for line in lines if line.startswith("loop: ")]


def operators(db: ev.Session) -> list[Any]:
    """The operators that keep trees."""
    return [o for o in inside(db).runtime.dataflow.operators() if o.kind == "trees"]


def random_step(
    twins: Twins, dice: random.Random, draw: Mapping[str, Callable[[], Row]], target: int, most: int = 4
) -> list[dict[str, Counter[Row]]]:
    """One to three transactions that insert rows that `draw` gives, and delete some that are there."""
    held = {name: Counter(rows) for name, rows in twins.held.items()}
    found: list[dict[str, Counter[Row]]] = []
    for _ in range(dice.choice((1, 1, 2, 3))):
        change: dict[str, Counter[Row]] = {name: Counter() for name in draw}
        for _ in range(dice.randint(1, most)):
            name = dice.choice(list(draw))
            rows = held[name]
            full = sum(rows.values()) > target * dice.random() * 2
            if rows and full:
                row = dice.choice(list(rows.elements()))
                n = -1
            else:
                row, n = draw[name](), 1
            change[name][row] += n
            rows[row] += n
            held[name] = +rows
        found.append({name: Counter({r: n for r, n in rows.items() if n}) for name, rows in change.items()})
    return found


def taken(change: dict[str, Counter[Any]]) -> dict[str, Counter[Any]]:
    """The opposite."""
    return {name: Counter({row: -n for row, n in rows.items()}) for name, rows in change.items()}


def without_memory(
    do: Callable[[dict[str, Counter[Any]]], None], change: dict[str, Counter[Any]], every: int = 7
) -> None:
    """Let the first allocation of a change fail, then a later one, until none does: each time the step is undone. Then
    take the change back.
    """
    tracked = memory.cell[CELL_TRACK_FROM]
    memory.cell[CELL_TRACK_FROM] = 0
    try:
        for nth in range(1, 10_000, every):
            memory.cell[CELL_FAIL_IN] = nth
            try:
                do(change)
                break
            except ev.errors.EverviewError as error:
                assert error.code == "E_MEMORY"
    finally:
        memory.cell[CELL_FAIL_IN] = 0
        memory.cell[CELL_TRACK_FROM] = tracked
    do(taken(change))
