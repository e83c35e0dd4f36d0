"""A server and its subscribers, each in processes of their own.

- *one*: one change to one WebSocket subscriber on an idle server, from the moment at which the row is sent over HTTP to
  that at which the subscriber has its change: median and 99th percentile, in milliseconds (`one_ms`, `one_p99_ms`).
- *many*: so many subscribers of one view with a granularity of 100 ms, while a writer changes it as fast as it can for
  some seconds: transactions a second, messages that were sent in all, and how long after the last transaction the last
  subscriber has it (`current_after_s`); memory of the server for each subscriber.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from typing import Any

import common
from websockets.asyncio.client import ClientConnection, connect

import everview as ev

TOKEN = "benchmark"
SCHEMA = "CREATE TABLE t (k int, x int); CREATE VIEW total AS SELECT k, count(*) AS n, max(x) AS last FROM t GROUP BY k"


class Server:
    """`everview serve`, in memory."""

    def __enter__(self) -> Server:
        command = [sys.executable, "-m", "everview.cli", "serve", "--http", "0", "--token", TOKEN]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("HTTP"):
                self.port = int(line.rsplit(":", 1)[1])
            if line == "ready\n":
                break
        return self

    def __exit__(self, *exc: object) -> None:
        self.process.terminate()
        self.process.wait()

    @property
    def address(self) -> str:
        return f"everview://127.0.0.1:{self.port}"

    def cpu_s(self) -> float:
        with open(f"/proc/{self.process.pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_mb(self) -> float:
        with open(f"/proc/{self.process.pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


async def subscribed(port: int, granularity: float) -> ClientConnection:
    """A connection that follows the view."""
    socket = await connect(f"ws://127.0.0.1:{port}/v1/ws", compression=None, ping_interval=None, proxy=None)
    await socket.send(json.dumps({"type": "hello", "token": TOKEN, "granularity": granularity}))
    await socket.send(json.dumps({"type": "subscribe", "id": 1, "view": "total"}))
    while not isinstance(json.loads(await socket.recv()), list):
        pass
    return socket


async def one(server: Server, db: Any, times: int) -> dict[str, Any]:
    """One change, one subscriber."""
    socket, table = await subscribed(server.port, 0), db["t"]
    taken = []
    for i in range(times):
        sending = asyncio.get_running_loop().run_in_executor(None, table.insert, [(0, i)])
        begun = time.perf_counter()
        await socket.recv()
        taken.append(1000 * (time.perf_counter() - begun))
        await sending
        await asyncio.sleep(0.01)  # the server is idle again
    await socket.close()
    return {
        "one_ms": round(statistics.median(taken), 2),
        "one_p99_ms": round(statistics.quantiles(taken, n=100)[98], 2),
    }


async def crowd(port: int, number: int) -> None:
    """Subscribers, in a process of their own: a line when all are there, then one when all have heard of a time."""
    last = [0] * number
    messages = 0
    sockets = []
    for start in range(0, number, 50):
        sockets += await asyncio.gather(*(subscribed(port, 0.1) for _ in range(min(50, number - start))))
    print("there", flush=True)

    async def listen(i: int) -> None:
        nonlocal messages
        async for message in sockets[i]:
            messages += 1
            last[i] = int(str(message)[str(message).rindex(":") + 1 : -2])

    tasks = [asyncio.create_task(listen(i)) for i in range(number)]
    wanted = int(await asyncio.to_thread(sys.stdin.readline))
    while min(last) < wanted:
        await asyncio.sleep(0.01)
    print(json.dumps({"messages": messages, "at": time.time()}), flush=True)
    for task in tasks:
        task.cancel()
    os._exit(0)


def many(server: Server, db: Any, number: int, seconds: float) -> dict[str, float]:
    """Many subscribers, one writer."""
    before = server.memory_mb()
    command = [sys.executable, __file__, "--crowd", str(number), "--port", str(server.port)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None and process.stdout is not None
    assert process.stdout.readline() == "there\n"
    idle, used = server.memory_mb(), server.cpu_s()
    table, done, begun = db["t"], 0, time.time()
    while time.time() - begun < seconds:
        table.insert([(j, done) for j in range(20)])
        done += 1
    ended = time.time()
    print(db.time, file=process.stdin, flush=True)
    found = json.loads(process.stdout.readline())
    process.wait()
    return {
        "subscribers": number,
        "transactions_per_s": round(done / (ended - begun)),
        "messages": found["messages"],
        "cpu_us_per_message": round(1e6 * (server.cpu_s() - used) / max(found["messages"], 1), 1),
        "instead_of": done * number,
        "current_after_s": round(found["at"] - ended, 2),
        "kb_per_subscriber": round(1000 * (idle - before) / number, 1),
    }


def main() -> None:
    parser = common.arguments(__doc__)
    parser.add_argument("--subscribers", type=int, default=5000)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--times", type=int, default=300)
    parser.add_argument("--crowd", type=int, default=0, help="used inside")
    parser.add_argument("--port", type=int, default=0, help="used inside")
    options = parser.parse_args()
    if options.crowd:
        asyncio.run(crowd(options.port, options.crowd))
        return
    if options.quick:
        options.subscribers, options.seconds, options.times = 20, 0.3, 10
    with Server() as server, ev.connect(server.address, token=TOKEN) as db:
        db.sql(SCHEMA)
        found = asyncio.run(one(server, db, options.times))
        found |= many(server, db, options.subscribers, options.seconds)
    common.report({"benchmark": "server", **found}, options)


if __name__ == "__main__":
    main()
