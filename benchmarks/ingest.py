"""How fast rows come in: into one index, on one thread, as CPU time; no view but what is said.

    arrow_1000, arrow_1m        Arrow tables of three int columns, random; rows per second
    sorted_1m                   the same in order
    strings_1000                an int and a string of 20 bytes, of which 10 % are new
    tuples_1000                 lists of tuples
    single                      `insert([(a, b)])` into a table with an index; microseconds, median of many
    pair                        a transaction that deletes one row and inserts one
    upsert, insert_by_key, delete_by_key   one row of a table with a key, 300,000 rows
    delete_keys_1000            `delete(keys=[...])` of a thousand
    sql_delete, sql_update      `DELETE ... WHERE id = 7`, `UPDATE ... WHERE id = 7` on the same table
    beyond_memory               1,000 single inserts with state ten times `memory=`, against the same in memory

Every figure is the best of three.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import common
import numpy as np
import pyarrow as pa

import everview as ev

ROUNDS = 3


def run(options: Any) -> dict[str, Any]:
    """All of it; tiny with `--quick`."""
    scale = 100 if options.quick else 1
    many = 1_000_000 // scale
    keyed = Keyed(300_000 // scale)
    found = {
        "arrow_1000": _rate(lambda: _arrow(1000, many // 2)),
        "arrow_1m": _rate(lambda: _arrow(many, many)),
        "sorted_1m": _rate(lambda: _loaded([_ordered(many)], NUMBERS)),
        "strings_1000": _rate(lambda: _strings(1000, many // 5)),
        "tuples_1000": _rate(lambda: _tuples(1000, many // 5)),
    }
    micros = {
        "single": _best(lambda: _singles(2000 // scale, many // 10)),
        "pair": _best(lambda: _pairs(2000 // scale, many // 10)),
        "upsert": _best(lambda: keyed.timed(lambda i: keyed.table.upsert([(i, 1, 2)]))),
        "insert_by_key": _best(lambda: keyed.timed(lambda i: keyed.table.insert([(keyed.new(), 1, 2)]))),
        "delete_by_key": _best(lambda: keyed.timed(lambda i: keyed.table.delete(keys=[keyed.old()]))),
        "delete_keys_1000": _best(
            lambda: keyed.timed(lambda i: keyed.table.delete(keys=[keyed.old() for _ in range(1000 // scale)]), 3)
        ),
        "sql_delete": _best(lambda: keyed.timed(lambda i: keyed.db.sql(f"DELETE FROM t WHERE id = {keyed.old()}"), 20)),
        "sql_update": _best(
            lambda: keyed.timed(lambda i: keyed.db.sql(f"UPDATE t SET v = 9 WHERE id = {keyed.old()}"), 20)
        ),
    }
    keyed.db.close()
    return {
        "benchmark": "ingest",
        "rows_per_s": found,
        "cpu_us": micros,
        "beyond_memory_us": {
            "in_memory": _best(lambda: _beyond(None, many // 4, 1000 // scale)),
            "ten_times": _best(lambda: _beyond(max(many * 4, 1_000_000), many // 4, 1000 // scale)),
        },
    }


NUMBERS = {"a": int, "b": int, "c": int}
HIGHEST = (10**6, 10**3, 10**6)


def _rate(once: Callable[[], tuple[int, float]]) -> float:
    return max(rows / seconds for rows, seconds in (once() for _ in range(ROUNDS)))


def _best(once: Callable[[], float]) -> float:
    return min(once() for _ in range(ROUNDS))


def _seconds(work: Callable[[], Any]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def _loaded(tables: Sequence[Any], schema: dict[str, type]) -> tuple[int, float]:
    """Rows, and the seconds that inserting them takes, one transaction each."""
    with ev.connect() as db:
        t = db.table("t", schema)
        taken = _seconds(lambda: [t.insert(table) for table in tables])
    return sum(map(len, tables)), taken


def _random(rows: int, seed: int) -> dict[str, Any]:
    draw = np.random.default_rng(seed)
    return {name: draw.integers(0, high, rows) for name, high in zip("abc", HIGHEST, strict=True)}


def _arrow(size: int, total: int) -> tuple[int, float]:
    return _loaded([pa.table(_random(size, i)) for i in range(max(total // size, 1))], NUMBERS)


def _ordered(rows: int) -> pa.Table:
    places = np.arange(rows)
    return pa.table({"a": places, "b": places % 1000, "c": places})


def _strings(size: int, total: int) -> tuple[int, float]:
    draw = np.random.default_rng(2)
    known = 20_000
    tables = []
    for _ in range(max(total // size, 1)):
        old = draw.integers(0, known, size - size // 10)
        numbers = [*old.tolist(), *range(known, known + size // 10)]
        known += size // 10
        tables.append(pa.table({"a": draw.integers(0, 10**6, size), "s": [f"{n:020d}" for n in numbers]}))
    with ev.connect() as db:
        t = db.table("t", {"a": int, "s": str})
        t.insert(pa.table({"a": np.arange(20_000), "s": [f"{n:020d}" for n in range(20_000)]}))
        taken = _seconds(lambda: [t.insert(table) for table in tables])
    return sum(map(len, tables)), taken


def _tuples(size: int, total: int) -> tuple[int, float]:
    tables = [[*zip(*(c.tolist() for c in _random(size, i).values()), strict=True)] for i in range(total // size or 1)]
    return _loaded(tables, NUMBERS)


def _edges(db: ev.Session, rows: int) -> tuple[Any, np.ndarray]:
    edge = db.table("edge", {"src": int, "dst": int})
    db.view("by_src", edge, index_by="src")
    there = np.unique(np.random.default_rng(1).integers(0, rows, (rows, 2)), axis=0)
    edge.insert({"src": there[:, 0], "dst": there[:, 1]})
    return edge, there


def _median(calls: Sequence[Callable[[], Any]]) -> float:
    """Microseconds of the middle call."""
    return float(np.median([_seconds(call) for call in calls])) * 1e6


def _singles(count: int, rows: int) -> float:
    with ev.connect() as db:
        edge, _ = _edges(db, rows)
        return _median([lambda i=i: edge.insert([(i * 7919 % rows, i)]) for i in range(count)])


def _pairs(count: int, rows: int) -> float:
    with ev.connect() as db:
        edge, there = _edges(db, rows)

        def change(old: tuple[int, int], new: tuple[int, int]) -> None:
            with db.transaction():
                edge.delete([old])
                edge.insert([new])

        olds = [tuple(row) for row in there[: min(count, len(there))].tolist()]
        return _median([lambda i=i, old=old: change(old, (i, i)) for i, old in enumerate(olds)])


class Keyed:
    """A table with a key, and keys that it has and has not."""

    def __init__(self, rows: int) -> None:
        self.db = ev.connect()
        self.table = self.db.table("t", {"id": int, "v": int, "w": int}, key="id")
        self.table.insert({"id": np.arange(rows), "v": np.arange(rows) % 7, "w": np.arange(rows)})
        self._new, self._old = rows, rows // 2

    def new(self) -> int:
        """A key that is not there."""
        self._new += 1
        return self._new

    def old(self) -> int:
        """A key that is there, each only once."""
        self._old += 1
        return self._old

    def timed(self, call: Callable[[int], Any], count: int = 300) -> float:
        """Microseconds of the middle call."""
        return _median([lambda i=i: call(i) for i in range(count)])


def _beyond(memory: int | None, rows: int, changes: int) -> float:
    """Microseconds of a single insert on average, merges and moves included."""
    options: dict[str, Any] = {} if memory is None else {"memory": memory}
    with ev.connect(**options) as db:
        t = db.table("t", NUMBERS)
        db.view("by_b", t, index_by="b")
        db.view("groups", t.group_by("b").agg(n=ev.count(), high=ev.col.c.max()))
        for i in range(max(rows // 2000, 1)):
            t.insert(_random(2000, i))
        return _seconds(lambda: [t.insert([(i, i % 1000, i)]) for i in range(changes)]) / changes * 1e6


if __name__ == "__main__":
    chosen = common.arguments(__doc__).parse_args()
    common.report(run(chosen), chosen)
