"""What a step costs on many cores and many machines: a model, with its constants measured here.

    python benchmarks/scaling.py

Constants, in CPU time of this process: what a message between two members of a gang costs (sealed, over a socket), what
a byte of a large one costs, what a row costs to sort and index, to join and reduce, and to merge. From these follow,
for a number of members, the time of a step of one change, of a loop of 20 rounds, of 100,000 changes, and how busy
merging keeps everybody at a rate of changes. docs/design/2026-11-17-where-it-would-stop-scaling.md reads the result.

The network's own latency and rate are assumptions, stated in the report: 0.1 ms and 10 Gbit/s.
"""

from __future__ import annotations

import os
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any

import common
import numpy as np

import everview as ev
from everview.dataflow.batch_merge import TraceShape
from everview.dataflow.operators import NEVER
from everview.spark.driver.compaction import Request
from everview.spark.transport.channel import Channel
from everview.store import Image, Store

NETWORK_MS = 0.1
NETWORK_BYTES_PER_S = 10e9 / 8
EXCHANGES = 44
"""Of a search of 20 rounds (`spread.py`)."""
ROW_BYTES = 40
"""Three columns, time, diff."""


def cpu(work: Callable[[], Any], times: int = 3) -> float:
    """CPU seconds of the whole process, the best of several."""
    best = float("inf")
    for _ in range(times):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def line_costs(small: int, large: int) -> dict[str, float]:
    """CPU of one small message and of a byte of a large one, sender and receiver together."""
    left, right = socket.socketpair(socket.AF_INET) if sys.platform == "win32" else _pair()
    one, other = Channel(left, b"a" * 32, b"b" * 32), Channel(right, b"b" * 32, b"a" * 32)

    def exchange(size: int, count: int) -> None:
        data = os.urandom(size)
        receiver = threading.Thread(target=lambda: [other.receive() for _ in range(count)])
        receiver.start()
        for _ in range(count):
            one.send([data])
        receiver.join()

    message = cpu(lambda: exchange(200, small)) / small
    byte = cpu(lambda: exchange(large, 4)) / (4 * large)
    one.close()
    other.close()
    return {"message_us": message * 1e6, "bytes_per_cpu_s": 1 / byte}


def _pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        left = socket.create_connection(server.getsockname())
        return left, server.accept()[0]


def row_costs(rows: int) -> dict[str, float]:
    """CPU of a row: to index it, and to take it through a join and a sum, in one step."""
    random = np.random.default_rng(1)

    def table(count: int) -> dict[str, Any]:
        return {"k": random.integers(0, rows, count), "g": random.integers(0, 1000, count), "v": np.arange(count)}

    def once(joined: bool) -> float:
        with ev.connect() as db:
            t = db.table("t", {"k": int, "g": int, "v": int})
            s = db.table("s", {"k": int, "w": int})
            s.insert({"k": np.arange(rows), "w": np.arange(rows)})
            if joined:
                both = t.join(s, t.k == s.k).select(g=t.g, w=s.w)
                db.view("totals", both.group_by("g").agg(total=ev.col.w.sum()))
            given = table(rows)
            start = time.process_time()
            t.insert(given)
            return time.process_time() - start

    index, joined = min(once(False) for _ in range(3)), min(once(True) for _ in range(3))
    return {"index_ns": 1e9 * index / rows, "join_and_sum_ns": 1e9 * (joined - index) / rows}


def merge_cost(rows: int) -> float:
    """CPU nanoseconds of a row that is merged with another batch, from files into a file."""
    random = np.random.default_rng(2)
    with tempfile.TemporaryDirectory() as directory, Store(directory, shards=1) as store:
        refs = []
        for time_ in (1, 2):
            found = np.sort(random.integers(0, 1 << 40, rows))
            refs.append(store.put(Image.of(np.array([found, np.arange(rows), np.arange(rows)]), time_, 1)))
        request = Request((0, 0), tuple(refs), "merged.arrow", 9, TraceShape(3, 1, -1, 4, 5, held=NEVER))
        return 1e9 * cpu(lambda: request.run(store.files)) / (2 * rows)


def model(found: dict[str, Any], members: int, change_ms: float = 1.4) -> dict[str, float]:
    """Milliseconds of steps on so many members. `change_ms` is what one task takes for a change on a quiet machine
    (`against.py --only spark-part`).
    """
    message_ms = found["message_us"] / 1e3
    driver = 2 * members * message_ms  # it sends to each and hears from each
    exchange = NETWORK_MS + 2 * (members - 1) * message_ms if members > 1 else 0.0  # everybody sends to everybody
    row_ms = (2 * found["index_ns"] + found["join_and_sum_ns"]) / 1e6
    moved = ROW_BYTES * (members - 1) / members  # of a row, to another member, and sealed
    wire_ms = 1e3 * moved * (2 / found["bytes_per_cpu_s"] + 1 / NETWORK_BYTES_PER_S)
    bulk = 100_000 * (row_ms + wire_ms) / members
    return {
        "members": members,
        "change_ms": change_ms + driver + 2 * exchange,
        "loop_of_20_rounds_ms": change_ms + driver + EXCHANGES * exchange,
        "changes_100000_ms": change_ms + driver + 2 * exchange + bulk,
        "of_which_messages": (driver + 2 * exchange) / (change_ms + driver + 2 * exchange + bulk),
    }


def merging(found: dict[str, Any], bytes_of_state: float, members: int, changes_per_s: float) -> dict[str, float]:
    """How busy merging keeps a member: every row is merged once on each level."""
    rows = bytes_of_state / ROW_BYTES / members
    levels = np.log2(max(rows / 100_000, 2)) / 3  # files of a list are merged eight at a time
    cpu_share = changes_per_s / members * levels * found["merge_ns"] / 1e9
    written = changes_per_s / members * levels * ROW_BYTES
    return {"members": members, "levels": float(levels), "cpu_share": cpu_share, "written_mb_per_s": written / 1e6}


def run(quick: bool) -> dict[str, Any]:
    """Constants and what follows."""
    rows = 10_000 if quick else 1_000_000
    found: dict[str, Any] = {"benchmark": "scaling", "network": [NETWORK_MS, NETWORK_BYTES_PER_S]}
    found |= line_costs(200 if quick else 5000, 1 << (20 if quick else 25))
    found |= row_costs(rows) | {"merge_ns": merge_cost(rows)}
    found["steps"] = [model(found, members) for members in (1, 2, 4, 16, 64, 100)]
    found["merging_10TB_1M_changes_per_s"] = [merging(found, 10e12, members, 1e6) for members in (16, 100)]
    return found


if __name__ == "__main__":
    options = common.arguments(__doc__).parse_args()
    common.report(run(options.quick), options)
