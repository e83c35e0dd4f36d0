"""What it costs to observe a session: one-row changes with the schema `ev` off, with a log, and with timed operators.

    python benchmarks/observing.py
    python benchmarks/observing.py --quick

    off         microseconds of CPU of one inserted row; nothing is recorded
    timed       the same while the time of each operator is measured (`db.system.time_operators`)
    log         the same while steps and statements are recorded (`db.system.log`)
    watched     the same while `db.system.watch(1)` brings all relations of `ev` up to date every second
    batch_*     the same for changes of 1,000 rows
    share       how much more than `off` each takes

All ways take turns in one session, many short rounds each: sessions of their own would differ by where their memory
is. Rows are of all shops, so no key has a history of its own. A figure is the tenth percentile of its rounds, which
hardly depends on what else the machine does; a share compares two of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import common

import everview as ev
from everview import col

WAYS: dict[str, tuple[Callable[[Any], None], Callable[[Any], None]]] = {
    "off": (lambda _: None, lambda _: None),
    "timed": (lambda db: db.system.time_operators(), lambda db: db.system.time_operators(False)),
    "log": (lambda db: db.system.log(), lambda db: db.system.log(False)),
    "watched": (lambda db: db.system.watch(1), lambda db: db.system.unwatch()),
}
"""How each begins and ends."""

WATCHED_ROUNDS = 20
"""Rounds in a row of one way: `watch` needs more than its second to cost anything."""


def run(options: Any) -> dict[str, Any]:
    """All of it; tiny with `--quick`."""
    turns, changes, batches = (1, 50, 2) if options.quick else (40, 500, 4)
    db, table = _session()
    found: dict[str, Any] = {"benchmark": "observing", "share": {}}
    for prefix, many, rows in (("", changes, 1), ("batch_", batches, 1000)):
        times: dict[str, list[float]] = {way: [] for way in WAYS}
        for turn in range(turns):
            for way, (begin, end) in sorted(WAYS.items(), reverse=turn % 2 == 1):
                begin(db)
                for number in range(1 + WATCHED_ROUNDS):
                    taken = _changed(table, many, rows, number)
                    times[way] += [taken] if number else []  # the first is for caches
                end(db)
        least = {way: sorted(taken)[len(taken) // 10] for way, taken in times.items()}
        for way, taken in least.items():
            found[prefix + way] = round(1e6 * taken, 2)
            found["share"][prefix + way] = round(taken / least["off"] - 1, 4)
    db.close()
    return found


def _session() -> tuple[Any, Any]:
    """A session with a filter, a join and a reduction over 100,000 rows."""
    db = ev.connect()
    sale = db.table("sale", {"shop": int, "amount": int})
    shop = db.table("shop", {"shop": int, "town": int})
    shop.insert([(i, i % 100) for i in range(1000)])
    sale.insert([(i % 1000, i % 97) for i in range(100_000)])
    large = sale.filter(col.amount > 10).join(shop, on="shop")
    db.view("towns", large.group_by("town").agg(total=col.amount.sum()))
    return db, sale


def _changed(table: Any, changes: int, rows: int, number: int) -> float:
    """Seconds of CPU of one change, each of which is undone."""
    pairs = changes // 2
    data = [[((i + 37 * j) % 1000, 11 + number % 50) for i in range(rows)] for j in range(pairs)]
    start = time.process_time()
    for some in data:
        table.insert(some)
    for some in data:
        table.delete(some)
    return (time.process_time() - start) / (2 * pairs)


if __name__ == "__main__":
    chosen = common.arguments(__doc__).parse_args()
    common.report(run(chosen), chosen)
