"""What it costs to observe a session: one-row changes with the schema `ev` off, with a log, and with timed operators.

    python benchmarks/observing.py
    python benchmarks/observing.py --quick

    off         microseconds of CPU of one inserted row; nothing is recorded
    timed       the same while the time of each operator is measured (`db.system.time_operators`)
    log         the same while steps and statements are recorded (`db.system.log`)
    watched     the same while `db.system.watch(1)` brings all relations of `ev` up to date every second
    batch_*     the same for changes of 1,000 rows
    share       how much more than `off` each takes

Sessions are measured in turns in one process, many short rounds each. A figure is the median of its rounds; a share is
the median of the ratios of neighbouring rounds, so a machine that becomes slower in between does not count.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import common

import everview as ev
from everview import col

WAYS: dict[str, Callable[[Any], None]] = {
    "off": lambda _: None,
    "timed": lambda db: db.system.time_operators(),
    "log": lambda db: db.system.log(),
    "watched": lambda db: db.system.watch(1),
}


def run(options: Any) -> dict[str, Any]:
    """All of it; tiny with `--quick`."""
    rounds, changes, batches = (3, 50, 2) if options.quick else (60, 500, 5)
    sessions = {way: _session(begin) for way, begin in WAYS.items()}
    found: dict[str, Any] = {"benchmark": "observing", "share": {}}
    for prefix, many, rows in (("", changes, 1), ("batch_", batches, 1000)):
        times: dict[str, list[float]] = {way: [] for way in WAYS}
        for number in range(rounds):
            for way, (_, table) in sessions.items():
                times[way].append(_changed(table, many, rows, number))
        for way, taken in times.items():
            found[prefix + way] = round(1e6 * statistics.median(taken), 2)
            ratios = [mine / off for mine, off in zip(taken, times["off"], strict=True)]
            found["share"][prefix + way] = round(statistics.median(ratios) - 1, 4)
    for db, _ in sessions.values():
        db.close()
    return found


def _session(begin: Callable[[Any], None]) -> tuple[Any, Any]:
    """A session with a filter, a join and a reduction over 100,000 rows."""
    db = ev.connect()
    sale = db.table("sale", {"shop": int, "amount": int})
    shop = db.table("shop", {"shop": int, "town": int})
    shop.insert([(i, i % 100) for i in range(1000)])
    sale.insert([(i % 1000, i % 97) for i in range(100_000)])
    large = sale.filter(col.amount > 10).join(shop, on="shop")
    db.view("towns", large.group_by("town").agg(total=col.amount.sum()))
    begin(db)
    return db, sale


def _changed(table: Any, changes: int, rows: int, number: int) -> float:
    """Seconds of CPU of one change, each of which is undone."""
    data = [(i % 1000, 11 + number % 50) for i in range(rows)]
    start = time.process_time()
    for _ in range(changes // 2 or 1):
        table.insert(data)
        table.delete(data)
    return (time.process_time() - start) / (2 * (changes // 2 or 1))


if __name__ == "__main__":
    chosen = common.arguments(__doc__).parse_args()
    common.report(run(chosen), chosen)
