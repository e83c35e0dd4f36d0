"""A shop's totals for everybody who looks: one server, several clients, each told what changed and nothing else.

The program serves a session from a thread beside itself, as `everview serve` does from a process of its own. Tills push
rows over HTTP, each under a key, so that a till which sends twice is counted once. A dashboard subscribes; it is cut
off in the middle and comes back without missing anything.
"""

from __future__ import annotations

import json
import urllib.request
from collections import Counter
from typing import Any

import everview as ev
from everview.server.threaded_server import Beside, serve_beside

SCHEMA = """
    CREATE TABLE sale (shop text NOT NULL, amount int NOT NULL);
    CREATE VIEW total AS SELECT shop, sum(amount) AS amount, count(*) AS sales FROM sale GROUP BY shop;
"""


class Dashboard:
    """What somebody sees: the contents of a view, kept from what it is told."""

    def __init__(self, db: Any) -> None:
        self.seen: Counter[tuple[Any, ...]] = Counter()
        self.following = db["total"].subscribe(self.told)

    def told(self, batch: Any) -> None:
        """Apply what changed."""
        for row, diff in batch.rows():
            self.seen[row] += diff
        print(f"time {batch.time}:", *(f"{'+' if diff > 0 else '-'}{row}" for row, diff in batch.rows()))

    def rows(self) -> list[tuple[Any, ...]]:
        """What is on the screen."""
        return sorted(row for row, n in self.seen.items() if n)


def push(server: Beside, rows: list[dict[str, Any]], key: str) -> dict[str, Any]:
    """What a till does, in whatever language: lines of JSON over HTTP."""
    request = urllib.request.Request(
        f"{server.url}/v1/tables/sale/rows",
        data="\n".join(json.dumps(row) for row in rows).encode(),
        headers={"authorization": f"Bearer {server.token}", "idempotency-key": key},
    )
    with urllib.request.urlopen(request) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def main() -> None:
    with serve_beside(ev.connect()) as server, ev.connect(server.address, token=server.token) as db:
        db.sql(SCHEMA)
        dashboard = Dashboard(db)
        push(server, [{"shop": "north", "amount": 5}, {"shop": "south", "amount": 2}], "till 1, receipt 1")
        again = push(server, [{"shop": "north", "amount": 5}, {"shop": "south", "amount": 2}], "till 1, receipt 1")
        assert again["repeated"]
        dashboard.following.wait_for(db.time)
        assert dashboard.rows() == [("north", 5, 1), ("south", 2, 1)]

        dashboard.following._socket.close()  # a cable is pulled
        push(server, [{"shop": "north", "amount": 1}], "till 2, receipt 1")
        dashboard.following.wait_for(db.time)
        assert dashboard.rows() == [("north", 6, 2), ("south", 2, 1)] == sorted(db["total"].rows())
        assert dashboard.following.reconnects == 1
        dashboard.following()


if __name__ == "__main__":
    main()
