"""3DF's figure 9 (goebel-2019, 10.7): sensor readings, and clients that keep coming, in three ways of sharing.

So many readings a second are loaded, epoch by epoch; in each epoch further clients begin to follow a query over the
readings of their own sensor. What is measured is the CPU time that closing an epoch takes, as clients become more:

- *nothing shared*: each client has a dataflow of its own, over a copy of the readings of its own (the paper's baseline)
- *value*: a dataflow for each, over the one index of the readings (the paper: "sharing via arrangements")
- *route*: one dataflow for all, rows routed by the client's parameter (the paper: "multi-tenant")
- *delivery*: the changes of the table itself, parted when they are told (another question: there is no aggregate)

Clients have a policy `sensor = current_setting('sensor')` and distinct sensors, in process: no sockets are measured.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from typing import Any

import common

import everview as ev
from everview.session.rights.principal import Principal, acting

RATE, ARRIVALS = 500, 10
QUERY = "SELECT sensor, minute, count(*) AS n, max(value) AS most FROM reading GROUP BY sensor, minute"


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Each way by itself, the same readings."""
    epochs = 10 if options.quick else 60
    found: dict[str, Any] = {"benchmark": "tenants", "rate": RATE, "arrivals": ARRIVALS, "epochs": epochs}
    for way in ("nothing", "value", "route", "delivery"):
        found[way] = _measured(way, epochs, 3.0 if options.quick else 25.0)
    return found


def _measured(way: str, epochs: int, most: float) -> dict[str, Any]:
    """CPU milliseconds of each epoch, until there are all clients, or it takes too long in all."""
    r = random.Random(9)
    with ev.connect(history=10) as db:
        db.sql("CREATE TABLE reading (sensor int, minute int, value int); CREATE ROLE app LOGIN")
        db.sql("GRANT SELECT ON reading TO app; ALTER TABLE reading ENABLE ROW LEVEL SECURITY")
        db.sql("CREATE POLICY own ON reading USING (sensor = current_setting('sensor'))")
        if way in ("value", "route"):
            db.sql(f"SET sharing = {way}")
        sensors = ARRIVALS * epochs
        took, arrived, told, copies, clients = [], [], [0], [], 0
        begun = time.process_time()
        for epoch in range(epochs):
            start = time.process_time()
            for _ in range(ARRIVALS):
                copies += _arrive(db, way, clients, told)
                clients += 1
            arrived.append((time.process_time() - start) * 1000)
            rows = [(r.randrange(sensors), epoch // 60, r.randrange(1000)) for _ in range(RATE)]
            start = time.process_time()
            with db.transaction():
                db["reading"].insert(rows)
                for copy in copies:
                    copy.insert(rows)
            took.append((time.process_time() - start) * 1000)
            if time.process_time() - begun > most:
                break
        size = sum(a["bytes"] for a in db.stats()["arrangements"])
    tenth = max(len(took) // 10, 1)
    return {
        "clients": clients,
        "epoch_cpu_ms_first": round(statistics.median(took[:tenth]), 2),
        "epoch_cpu_ms_last": round(statistics.median(took[-tenth:]), 2),
        "arrival_cpu_ms": round(statistics.median(arrived) / ARRIVALS, 2),
        "changes_told": told[0],
        "arranged_mb": round(size / 2**20, 2),
    }


def _arrive(db: Any, way: str, number: int, told: list[int]) -> list[Any]:
    """A client begins to follow what is its own; gives the table that only it has, if it has one."""

    def hear(batch: Any) -> None:
        told[0] += len(batch)

    if way == "nothing":
        copy = db.table(f"reading{number}", {"sensor": int, "minute": int, "value": int})
        text = QUERY.replace("reading GROUP", f"reading{number} WHERE sensor = {number} GROUP")
        db.sql(f"SUBSCRIBE TO ({text})").listen(hear)
        return [copy]
    with acting(Principal("app", {"sensor": number})):
        db.sql("SUBSCRIBE TO reading" if way == "delivery" else f"SUBSCRIBE TO ({QUERY})").listen(hear)
    return []


if __name__ == "__main__":
    chosen = common.arguments(__doc__).parse_args()
    common.report(run(chosen), chosen)
