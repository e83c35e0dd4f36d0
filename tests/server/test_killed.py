"""A server that is killed -9 while clients write and follow: rows pushed under keys are there once, and what each
client made of what it was told is the view at that time.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest

import everview as ev
from tests.server.process import TOKEN, Process

PAUSE = 0.05


class Writer(threading.Thread):
    """Pushes rows, each under a key, again and again until the server says that it has them."""

    def __init__(self, url: str, seed: int) -> None:
        super().__init__(daemon=True)
        self.url = url
        self.random = random.Random(seed)
        self.seed = seed
        self.done: dict[int, list[tuple[int, int]]] = {}
        """what was inserted, by the times that the server said"""
        self.enough = threading.Event()

    def run(self) -> None:
        headers = {"authorization": f"Bearer {TOKEN}"}
        with httpx.Client(base_url=self.url, headers=headers, timeout=30, trust_env=False) as client:
            self.push(client)

    def push(self, client: httpx.Client) -> None:
        number = 0
        while not self.enough.is_set():
            rows = [(self.random.randrange(5), self.random.randrange(100)) for _ in range(self.random.randint(1, 3))]
            number += 1
            key = {"idempotency-key": f"{self.seed}/{number}"}
            body = "\n".join(f"[{k}, {x}]" for k, x in rows)
            while True:
                try:
                    answer = client.post("/v1/tables/t/rows", content=body, headers=key)
                except httpx.HTTPError:
                    answer = None
                if answer is not None and answer.status_code == 200:
                    break
                time.sleep(PAUSE)  # also the last one is not given up: it may be there
            self.done[answer.json()["time"]] = rows
            self.enough.wait(PAUSE)


class Follower:
    """Keeps what it was told, and when."""

    def __init__(self, view: Any) -> None:
        self.held: Counter[tuple[Any, ...]] = Counter()
        self.told: list[tuple[int, dict[tuple[Any, ...], int]]] = []
        self.stop = view.subscribe(self.hear)

    def hear(self, batch: Any) -> None:
        for row, diff in batch.rows():
            self.held[row] += diff
        self.told.append((batch.time, {row: n for row, n in self.held.items() if n}))


def attempt(state: Path, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    server = Process(str(state))
    try:
        with ev.connect(server.address, token=TOKEN) as db:
            db.sql("CREATE TABLE t (k int NOT NULL, x int NOT NULL)")
            db.sql("CREATE VIEW total AS SELECT k, sum(x) AS s, count(*) AS n FROM t GROUP BY k")
            followers = {name: [Follower(db[name]) for _ in range(2)] for name in ("total", "t")}
            writers = [Writer(server.url, n) for n in range(2)]
            for writer in writers:
                writer.start()
            for _ in range(kills):
                target = db.time + chance.randint(1, 12)
                followers["t"][0].stop.wait_for(target, 120)
                server.kill()
                server = Process(str(state), port=server.port)
            for writer in writers:
                writer.enough.set()
            for writer in writers:
                writer.join(120)
                assert not writer.is_alive()
            check(db, db.time, {t: rows for w in writers for t, rows in w.done.items()}, followers)
            assert any(f.stop.reconnects for f in followers["total"])
            for each in followers.values():
                for follower in each:
                    follower.stop()
        assert server.end() == 0
    finally:
        if server.process.poll() is None:
            server.kill()


def check(db: Any, last: int, done: dict[int, list[tuple[int, int]]], followers: dict[str, list[Follower]]) -> None:
    assert sorted(done) == list(range(1, last + 1)), "each push is one transaction, and was done once"
    everything: Counter[tuple[int, int]] = Counter()
    expected: dict[str, dict[int, dict[tuple[Any, ...], int]]] = {"t": {}, "total": {}}
    for at in range(last + 1):
        everything.update(done.get(at, []))
        expected["t"][at] = dict(everything)
        of = {k: [x for (j, x), n in everything.items() for _ in range(n) if j == k] for k, _ in everything}
        expected["total"][at] = {(k, sum(those), len(those)): 1 for k, those in of.items()}
    assert Counter(db["t"].rows()) == everything
    for name, those in followers.items():
        for follower in those:
            follower.stop.wait_for(last, 120)
            assert follower.stop.error is None
            for at, held in follower.told:
                assert held == expected[name][at], f"{name} at {at}"
            assert follower.told[-1][1] == expected[name][last]


def test_a_server_that_is_killed_twice(tmp_path: Path) -> None:
    attempt(tmp_path / "state", 2, 1)


@pytest.mark.slow
@pytest.mark.long
def test_a_server_that_is_killed_twenty_times(tmp_path: Path) -> None:
    attempt(tmp_path / "state", 20, 2)
