"""3DF's figure 9 (goebel-2019, 10.7) over sockets: 500 readings a second, ten new clients a second, three ways.

The server, its clients and the writer are processes of their own. Each client has a token of its own, and follows a
query over the readings of its sensor by WebSocket. In each second ten more begin, then the readings of that second are
written in one transaction over HTTP, at whatever rate the server keeps up with.

- *nothing*: each client has a dataflow of its own, over a copy of the readings of its own (the paper's baseline)
- *value*: a dataflow for each, over the one index of the readings (the paper: "sharing via arrangements")
- *route*: one dataflow for all, rows routed by the client's parameter (the paper: "multi-tenant"); a policy says which

    clients                 how many there were at the end; a way ends early when an epoch takes a second and a half
    epoch_ms_first, _last   from the writer's call until the last client has its change: medians of tenths
    epoch_ms_worst          of all epochs
    arrival_ms              until a client has its first answer, ten at a time: median of the last tenth
    epoch_cpu_ms_last       the server's CPU time of an epoch, without arrivals: median of the last tenth
    kb_per_client           the server's memory for each of them
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import time
from typing import Any

import common
from server import TOKEN, Server
from websockets.asyncio.client import ClientConnection, connect

import everview as ev

RATE, ARRIVALS, TOO_LONG = 500, 10, 1.5
QUERY = "SELECT sensor, minute, count(*) AS n, max(value) AS most FROM {} GROUP BY sensor, minute"


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Each way by itself, on a server of its own."""
    epochs = 3 if options.quick else options.epochs
    found: dict[str, Any] = {"benchmark": "arrivals", "rate": RATE, "arrivals": ARRIVALS, "epochs": epochs}
    for way in ("nothing", "value", "route"):
        with Server() as server, ev.connect(server.address, token=TOKEN) as db:
            found[way] = _measured(server, db, way, epochs, 0.0 if options.quick else 1.0)
    return found


def _measured(server: Server, db: Any, way: str, epochs: int, pace: float) -> dict[str, Any]:
    r = random.Random(9)
    sensors = ARRIVALS * epochs
    tokens = _prepared(db, way, sensors)
    before = server.memory_mb()
    command = [sys.executable, __file__, "--crowd", "--port", str(server.port), "--way", way]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None and process.stdout is not None
    latency, arrival, cpu, clients = [], [], [], 0
    for epoch in range(epochs):
        begun = time.time()
        print(json.dumps(tokens[clients : clients + ARRIVALS]), file=process.stdin, flush=True)
        assert process.stdout.readline() == "there\n"
        arrival.append(time.time() - begun)
        clients += ARRIVALS
        rows = [(r.randrange(sensors), epoch // 60, r.randrange(1000)) for _ in range(RATE)]
        rows[:ARRIVALS] = [(clients - 1 - i, epoch // 60, 5) for i in range(ARRIVALS)]  # somebody is always told
        used, written = server.cpu_s(), time.time()
        with db.transaction():
            db["reading"].insert(rows)
            for number in range(clients if way == "nothing" else 0):
                db[f"reading{number}"].insert(rows)
        told = 0.0
        while told < written or time.time() - told < 0.2:  # until nobody is told any more
            time.sleep(0.05)
            print("last", file=process.stdin, flush=True)
            told = json.loads(process.stdout.readline())
        latency.append(told - written)
        cpu.append(server.cpu_s() - used)
        if latency[-1] > TOO_LONG:
            break
        time.sleep(max(0.0, begun + pace - time.time()))
    memory = server.memory_mb() - before
    process.stdin.close()
    process.wait(30)
    tenth = max(len(latency) // 10, 1)
    return {
        "clients": clients,
        "epoch_ms_first": _ms(latency[:tenth]),
        "epoch_ms_last": _ms(latency[-tenth:]),
        "epoch_ms_worst": round(1000 * max(latency), 1),
        "arrival_ms": round(_ms(arrival[-tenth:]) / ARRIVALS, 1),
        "epoch_cpu_ms_last": _ms(cpu[-tenth:]),
        "kb_per_client": round(1000 * memory / clients, 1),
    }


def _ms(seconds: list[float]) -> float:
    return round(1000 * statistics.median(seconds), 1)


def _prepared(db: Any, way: str, sensors: int) -> list[str]:
    """The table, its policy, and a token for each client."""
    db.sql("CREATE TABLE reading (sensor int, minute int, value int); CREATE ROLE app LOGIN")
    db.sql("GRANT SELECT ON reading TO app")
    if way == "route":
        db.sql("CREATE POLICY own ON reading USING (sensor = current_setting('sensor'))")
        db.sql("ALTER TABLE reading ENABLE ROW LEVEL SECURITY")
    if way == "nothing":
        for number in range(sensors):
            db.sql(f"CREATE TABLE reading{number} (sensor int, minute int, value int)")
            db.sql(f"GRANT SELECT ON reading{number} TO app")
    return [db.sql(f"CREATE TOKEN client{n} FOR ROLE app WITH (sensor = '{n}')").rows()[0][0] for n in range(sensors)]


async def _crowd(port: int, way: str) -> None:
    """The clients: a list of tokens on a line lets more begin, `last` asks when one was told something."""
    told, tasks, number = time.time(), [], 0

    async def listen(socket: ClientConnection) -> None:
        nonlocal told
        async for _ in socket:
            told = time.time()

    async def begin(token: str, number: int) -> ClientConnection:
        socket = await connect(f"ws://127.0.0.1:{port}/v1/ws", compression=None, ping_interval=None, proxy=None)
        await socket.send(json.dumps({"type": "hello", "token": token, "granularity": 0}))
        table = f"reading{number}" if way == "nothing" else "reading"
        text = QUERY.format(table if way == "route" else f"{table} WHERE sensor = {number}")
        await socket.send(json.dumps({"type": "subscribe", "id": 1, "query": text}))
        while not isinstance(found := json.loads(await socket.recv()), list):
            assert found["type"] != "error", found
        return socket

    while line := await asyncio.to_thread(sys.stdin.readline):
        if line == "last\n":
            print(json.dumps(told), flush=True)
            continue
        given = json.loads(line)
        sockets = await asyncio.gather(*(begin(token, number + i) for i, token in enumerate(given)))
        number += len(given)
        tasks += [asyncio.create_task(listen(socket)) for socket in sockets]
        print("there", flush=True)
    os._exit(0)


if __name__ == "__main__":
    parser = common.arguments(__doc__)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--crowd", action="store_true", help="used inside")
    parser.add_argument("--port", type=int, default=0, help="used inside")
    parser.add_argument("--way", default="", help="used inside")
    chosen = parser.parse_args()
    if chosen.crowd:
        asyncio.run(_crowd(chosen.port, chosen.way))
    else:
        common.report(run(chosen), chosen)
