"""Many values of one query, all live, over sockets: `values.py` with a server and clients in processes of their own.

Each client is a tenant with its own shop (a JWT says which). It follows the same query, over WebSocket or PostgreSQL's
protocol (`COPY (SUBSCRIBE ...) TO STDOUT`), and hears of its own shop only: one dataflow, routed. A writer inserts rows
at a fixed rate over PostgreSQL's protocol, whatever the server does (an open loop). Each row carries the moment when
it was due, which the query gives back: latency is from that moment to the client's, in another process.

    ws, pg                  for each protocol:
    install_s               until all clients follow the query
    server_cpu_us           CPU time of the server for each change
    kb_per_client           memory of the server for each client
    ms_median, ms_p99, ms_max    latency
    heard                   changes that the clients heard, of `sent`
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import common
import numpy as np
import psycopg
from websockets.asyncio.client import connect

import everview as ev
from everview.server.jwt import sign

TOKEN, SECRET = "benchmark", "a secret for tests that is long enough"
QUERY = "SELECT shop, count(*) AS n, max(due) AS last FROM sale GROUP BY shop"
SCHEMA = """
    CREATE TABLE sale (shop int, due bigint);
    CREATE ROLE app LOGIN; GRANT SELECT ON sale TO app; ALTER TABLE sale ENABLE ROW LEVEL SECURITY;
    CREATE POLICY own ON sale USING (shop = current_setting('shop'));
"""
PROCESSES = 2
"""Processes of clients."""

AT_ONCE = 20
"""Clients of one process that connect together."""


class Server:
    """`everview serve`, in memory."""

    def __enter__(self) -> Server:
        self._folder = tempfile.TemporaryDirectory()
        key = Path(self._folder.name) / "key"
        key.write_text(SECRET)
        command = [sys.executable, "-m", "everview.cli", "serve", "--http", "0", "--pg", "0", "--token", TOKEN]
        self.process = subprocess.Popen([*command, "--jwt-key", str(key)], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("HTTP"):
                self.http = int(line.rsplit(":", 1)[1])
            if "postgresql://" in line:
                self.pg = int(line.split("127.0.0.1:")[1].split("/")[0])
            if line == "ready\n":
                break
        return self

    def __exit__(self, *exc: object) -> None:
        self.process.terminate()
        self.process.wait()
        self._folder.cleanup()

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_kb(self) -> float:
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e3


# clients


def token(shop: int) -> str:
    """A tenant's."""
    return sign({"role": "app", "shop": shop, "exp": time.time() + 3600}, SECRET)


Heard = list[tuple[int, float]]
"""(the due time of a change, when a client had it)"""


async def over_ws(port: int, shop: int, heard: Heard, there: asyncio.Event) -> None:
    """Follow the query of one shop over WebSocket."""
    address = f"ws://127.0.0.1:{port}/v1/ws"
    async with connect(address, compression=None, ping_interval=None, proxy=None, open_timeout=None) as socket:
        await socket.send(json.dumps({"type": "hello", "token": token(shop), "granularity": 0}))
        await socket.send(json.dumps({"type": "subscribe", "id": 1, "query": QUERY}))
        async for message in socket:
            now, found = time.time(), json.loads(message)
            if isinstance(found, dict):
                assert found["type"] != "error", found
                continue
            there.set()
            for frame in found:
                if frame["type"] == "changes":
                    heard += [(int(row[3]), now) for row in frame["rows"] if row[0] > 0]


async def over_pg(port: int, shop: int, heard: Heard, there: asyncio.Event) -> None:
    """Follow it over PostgreSQL's protocol, with as little of a client as there can be."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    start = struct.pack(">i", 196608) + b"user\0app\0database\0everview\0\0"
    writer.write(struct.pack(">i", len(start) + 4) + start)

    async def message() -> tuple[bytes, bytes]:
        kind, size = struct.unpack(">ci", await reader.readexactly(5))
        return kind, await reader.readexactly(size - 4)

    def say(kind: bytes, data: bytes) -> None:
        writer.write(kind + struct.pack(">i", len(data) + 4) + data)

    while (found := await message())[0] != b"Z":
        assert found[0] != b"E", found
        if found == (b"R", b"\0\0\0\3"):
            say(b"p", token(shop).encode() + b"\0")
    say(b"Q", f"COPY (SUBSCRIBE TO ({QUERY})) TO STDOUT\0".encode())
    while True:
        kind, data = await message()
        assert kind != b"E", data
        if kind == b"H":
            there.set()
        elif kind == b"d":
            _, diff, _, _, due = data.split(b"\t")
            if int(diff) > 0 and int(due):
                heard.append((int(due), time.time()))


async def crowd(way: str, port: int, first: int, count: int) -> None:
    """Clients, in a process of their own: a line when all are there, what they heard when a line comes."""
    follow, heard, tasks = {"ws": over_ws, "pg": over_pg}[way], [], []
    for start in range(first, first + count, AT_ONCE):
        there = [(shop, asyncio.Event()) for shop in range(start, min(start + AT_ONCE, first + count))]
        new = [asyncio.create_task(follow(port, shop, heard, event)) for shop, event in there]
        tasks += new
        all_there = asyncio.gather(*(event.wait() for _, event in there))
        await asyncio.wait([all_there, *new], return_when=asyncio.FIRST_COMPLETED)
        for task in new:
            if task.done():
                task.result()
        await all_there
    heard.clear()
    print("there", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    print(json.dumps([(due, now) for due, now in heard if due]), flush=True)
    os._exit(0)


# measuring


def measured(way: str, options: argparse.Namespace) -> dict[str, Any]:
    """One protocol."""
    with Server() as server, contextlib.ExitStack() as ends:
        with ev.connect(f"everview://127.0.0.1:{server.http}", token=TOKEN) as db:
            db.sql(SCHEMA)
            db["sale"].insert([(shop, 0) for shop in range(options.values)])
        before, begun = server.memory_kb(), time.perf_counter()
        port, each = server.http if way == "ws" else server.pg, options.values // PROCESSES
        processes = []
        for number in range(PROCESSES):
            command = [sys.executable, __file__, "--crowd", way, str(port), str(number * each), str(each)]
            crowd = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            processes.append(ends.enter_context(crowd))
        for process in processes:
            assert process.stdout is not None and process.stdout.readline() == "there\n"
        installed, memory = time.perf_counter() - begun, server.memory_kb()
        used, sent = server.cpu_s(), _written(server.pg, each * PROCESSES, options.rate, options.seconds)
        time.sleep(1)
        used = server.cpu_s() - used
        heard: Heard = []
        for process in processes:
            assert process.stdin is not None and process.stdout is not None
            print(file=process.stdin, flush=True)
            heard += [(due, now) for due, now in json.loads(process.stdout.readline())]
    ms = np.array([1000 * (now - due / 1e6) for due, now in heard])
    return {
        "install_s": round(installed, 1),
        "kb_per_client": round((memory - before) / options.values, 1),
        "server_cpu_us": round(1e6 * used / sent, 1),
        "ms_median": round(float(np.median(ms)), 2),
        "ms_p99": round(float(np.percentile(ms, 99)), 2),
        "ms_max": round(float(ms.max()), 2),
        "heard": len(heard),
        "sent": sent,
    }


def _written(port: int, values: int, rate: int, seconds: float) -> int:
    """Rows, each due at its own moment."""
    r, count = random.Random(5), int(rate * seconds)
    dsn = f"postgresql://everview:{TOKEN}@127.0.0.1:{port}/everview"
    with psycopg.connect(dsn, autocommit=True, prepare_threshold=0) as db:
        start = time.time() + 0.1
        for number in range(count):
            due = start + number / rate
            if (left := due - time.time()) > 0:
                time.sleep(left)
            db.execute("INSERT INTO sale VALUES (%s, %s)", (r.randrange(values), int(due * 1e6)))
    return count


def main() -> None:
    parser = common.arguments(__doc__)
    parser.add_argument("--values", type=int, default=10_000)
    parser.add_argument("--rate", type=int, default=1_000, help="changes a second")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--ways", default="ws,pg", help="ws, pg")
    parser.add_argument("--crowd", nargs=4, help="used inside")
    options = parser.parse_args()
    if options.crowd:
        way, *numbers = options.crowd
        asyncio.run(crowd(way, *map(int, numbers)))
        return
    if options.quick:
        options.values, options.rate, options.seconds = 40, 100, 0.5
    found: dict[str, Any] = {"benchmark": "values_sockets", "values": options.values, "rate": options.rate}
    for way in options.ways.split(","):
        found[way] = measured(way, options)
    common.report(found, options)


if __name__ == "__main__":
    main()
