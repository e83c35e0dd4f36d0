"""Many values of one query, all live: goebel-2019's route, at a rate of changes.

A query with a parameter (the count, sum and highest amount of one shop) is kept for so many values of it, in one
dataflow. Rows come one by one, each a transaction, at a fixed rate whatever the engine does (an open loop): a change's
latency counts from the moment at which it was due, so a pause is paid for by all that come after it.

- *asked*: `db.prepare`, and after each change the answer for the shop that changed is asked for
- *told*: as many clients, each of which follows the query by a policy of its own shop (`SUBSCRIBE`), and hears of it

    values, rate, seconds
    install_s               until all values are kept
    cpu_us                  CPU time of a change, the answer included
    ms_median, ms_p99, ms_max    latency
    late                    changes that were due and could not be begun within a second: the rate was not held
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable
from typing import Any

import common
import numpy as np

import everview as ev
from everview.session.rights.principal import Principal, acting

QUERY = "SELECT count(*) AS n, sum(amount) AS s, max(amount) AS most FROM sale WHERE shop = $shop"
SHARED = "SELECT shop, count(*) AS n, sum(amount) AS s, max(amount) AS most FROM sale GROUP BY shop"


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Both ways, with the same changes."""
    values, rate, seconds = (200, 500, 0.5) if options.quick else (options.values, options.rate, options.seconds)
    found: dict[str, Any] = {"benchmark": "values", "values": values, "rate": rate, "seconds": seconds}
    for name, way in (("asked", _asked), ("told", _told)):
        with ev.connect(history=10) as db:
            db.sql("CREATE TABLE sale (shop int, amount int)")
            rows = np.random.default_rng(3).integers(0, values, size=(10 * values, 2))
            db["sale"].insert({"shop": rows[:, 0], "amount": rows[:, 1]})
            begun = time.perf_counter()
            change = way(db, values)
            installed = time.perf_counter() - begun
            found[name] = {"install_s": round(installed, 2), **_open_loop(change, values, rate, seconds)}
    return found


def _asked(db: Any, values: int) -> Callable[[int, int], None]:
    """Change a shop, and ask for its answer."""
    answer = db.prepare("by_shop", QUERY, keep=values)
    for shop in range(values):
        answer(shop)
    sale = db["sale"]

    def change(shop: int, amount: int) -> None:
        before = answer(shop).rows()[0][0]
        sale.insert([(shop, amount)])
        assert answer(shop).rows()[0][0] == before + 1

    return change


def _told(db: Any, values: int) -> Callable[[int, int], None]:
    """Change a shop, of which the client is told that follows it."""
    db.sql("CREATE ROLE app LOGIN; GRANT SELECT ON sale TO app; ALTER TABLE sale ENABLE ROW LEVEL SECURITY")
    db.sql("CREATE POLICY own ON sale USING (shop = current_setting('shop'))")
    db.sql("SET sharing = route")
    told = [0] * values

    def follow(shop: int) -> None:
        def hear(batch: Any) -> None:
            told[shop] += 1

        with acting(Principal("app", {"shop": shop})):
            db.sql(f"SUBSCRIBE TO ({SHARED})").listen(hear)

    for shop in range(values):
        follow(shop)
    sale = db["sale"]

    def change(shop: int, amount: int) -> None:
        before = told[shop]
        sale.insert([(shop, amount)])
        assert told[shop] == before + 1

    return change


def _open_loop(change: Callable[[int, int], None], values: int, rate: int, seconds: float) -> dict[str, Any]:
    r = random.Random(5)
    changes = [(r.randrange(values), r.randrange(1_000_000)) for _ in range(int(rate * seconds))]
    for shop, amount in changes[: rate // 5]:  # warm
        change(shop, amount)
    latencies, late = [], 0
    cpu, start = time.process_time(), time.perf_counter()
    for number, (shop, amount) in enumerate(changes):
        due = start + number / rate
        now = time.perf_counter()
        late += now > due + 1
        if now < due:
            time.sleep(due - now)
        change(shop, amount)
        latencies.append(time.perf_counter() - due)
    ms = np.array(latencies) * 1e3
    return {
        "cpu_us": round((time.process_time() - cpu) / len(changes) * 1e6, 1),
        "ms_median": round(float(np.median(ms)), 3),
        "ms_p99": round(float(np.percentile(ms, 99)), 3),
        "ms_max": round(float(ms.max()), 3),
        "late": late,
    }


if __name__ == "__main__":
    parser = common.arguments(__doc__)
    parser.add_argument("--values", type=int, default=10_000)
    parser.add_argument("--rate", type=int, default=1_000, help="changes a second")
    parser.add_argument("--seconds", type=float, default=10.0)
    chosen = parser.parse_args()
    common.report(run(chosen), chosen)
